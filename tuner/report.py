"""What a layout looks like, in figures that JSON can carry; ``pubsub-cluster tune show`` prints them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import NO_POSITION, TABLE_DIRECT, TABLE_INEXACT
from pubsub_cluster.shm.layout import LayoutView
from pubsub_cluster.tuner.configuration import BY_CELL, BY_LABEL
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.greedy import TABLES_MAX

TABLES_SHOWN_MAX = TABLES_MAX
"""All that there can be: `coordinator.knobs` freezes what is told here."""


def summarise(
    layout: LayoutView, attribute_name: Callable[[int], str], constants: CostConstants = DEFAULT_CONSTANTS
) -> dict[str, Any]:
    """Return the figures of a layout; expected costs are nanoseconds per event.

    Parameters
    ----------
    layout : LayoutView
    attribute_name : callable
        From a catalogue attribute to its name.
    constants : CostConstants
        What a tree is priced by when it is observed.
    """
    total = float(layout.partition_cost.sum())
    return {
        "subscriptions": len(layout.row_catalogue),
        "predicates": len(layout.predicate_test) // 4,
        "attributes": len(layout.attribute_catalogue),
        "clusters": len(layout.cluster_partition)
        + int(np.count_nonzero(layout.table_direct != NO_POSITION))
        + int(np.count_nonzero(layout.table_hash[1::2] != NO_POSITION)),
        "largest_cluster": layout.cluster_entries_max,
        "programs": len(layout.program_row),
        "text_predicates": len(layout.bit_catalogue),
        "expected_cost_per_event": round(total, 2),
        "expected_cost_of_slots": round(
            total - float(layout.table_cost.sum()) - float(layout.tree_cost.sum()), 2
        ),
        "size_bytes": layout.size_bytes,
        "table_count": len(layout.table_mode),
        "tables": describe_tables(layout, attribute_name),
        **describe_tree(layout, attribute_name, constants),
    }


def describe_tree(
    layout: LayoutView, attribute_name: Callable[[int], str], constants: CostConstants
) -> dict[str, Any]:
    """Return the figures of a layout's tree as ``tree``; nothing where there is none."""
    if not len(layout.tree_cost):
        return {}
    attributes = layout.attribute_catalogue[layout.attribute_dimension >= 0].tolist()
    is_leaf = layout.tree_count == 0
    tree = {
        "attributes": [attribute_name(attribute) for attribute in attributes],
        "clauses": int(layout.tree_entries[0]),
        "nodes": len(is_leaf),
        "leaf_nodes": int(np.count_nonzero(is_leaf)),
        "expected_nodes": round(float(layout.tree_chance[~is_leaf].sum()), 3),
        "expected_leaf_nodes": round(float(layout.tree_chance[is_leaf].sum()), 3),
        "expected_cost": round(float(layout.tree_cost[0]), 2),
        "node_ns": constants.node_of(len(attributes), len(is_leaf)),
        "leaf_ns": constants.leaf_of(len(attributes)),
    }
    return {"tree": tree}


def describe_tables(layout: LayoutView, attribute_name: Callable[[int], str]) -> list[dict[str, Any]]:
    """Return schema, form, clauses, clusters and expected cost of the dearest `TABLES_SHOWN_MAX` tables."""
    order = np.argsort(-layout.table_cost, kind="stable")[:TABLES_SHOWN_MAX]
    return [_describe(layout, table, attribute_name) for table in order.tolist()]


def _describe(layout: LayoutView, table: int, attribute_name: Callable[[int], str]) -> dict[str, Any]:
    first, stop = layout.table_part[table : table + 2].tolist()
    codes = layout.part_code[first:stop].tolist()
    mode = int(layout.table_mode[table])
    area, places = int(layout.table_area[table]), int(layout.table_places[table])
    position = (
        layout.table_direct[area : area + places]
        if mode & TABLE_DIRECT
        else layout.table_hash[2 * area + 1 : 2 * (area + places) : 2]
    )
    slice_count = np.diff(layout.slice_start)
    return {
        "table": table,
        "attributes": [attribute_name(int(layout.attribute_catalogue[code >> 1])) for code in codes],
        "slices": [int(slice_count[code >> 1]) if code & 1 == BY_CELL else BY_LABEL for code in codes],
        "form": "direct" if mode & TABLE_DIRECT else "mixed hash" if mode & TABLE_INEXACT else "hash",
        "clauses": int(layout.table_entries[table]),
        "clusters": int(np.count_nonzero(position != NO_POSITION)),
        "expected_cost": round(float(layout.table_cost[table]), 2),
    }
