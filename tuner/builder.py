"""The builder: from the catalogue as of one moment to a complete layout. Pure: same input, same bytes.

Everything runs on whole columns; Python touches only distinct text constants, tables and Boolean programs.
Steps: live rows by handle -> code spaces and label tests of the predicates in use -> a table or a slot for
each clause -> entries (key or slot, residuals, target) -> packed sections -> partitions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm.blob import MANY_CLAUSES, MANY_KEYS
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import I4, U1
from pubsub_cluster.shm.layout import LayoutArrays, freeze_layout, layout_info
from pubsub_cluster.shm.memory import give_back_memory
from pubsub_cluster.tuner.access import program_access
from pubsub_cluster.tuner.carry import Carrier, among, find_carrier, what_is_known
from pubsub_cluster.tuner.choice import choose_tables
from pubsub_cluster.tuner.clusters import BlobWriter, Sections, deal_clusters
from pubsub_cluster.tuner.configuration import EMPTY_CONFIGURATION, Configuration, check_configuration
from pubsub_cluster.tuner.constants import CostConstants
from pubsub_cluster.tuner.dealing import clauses_by_table, deal_clauses, price_literals, undealt_clauses
from pubsub_cluster.tuner.entries import Bools
from pubsub_cluster.tuner.last_layout import LastLayout
from pubsub_cluster.tuner.packing import ResidualOrder, TablePacker, pack_beside, residual_order, slot_entries
from pubsub_cluster.tuner.programs import step_programs
from pubsub_cluster.tuner.source import Source, without
from pubsub_cluster.tuner.statistics import EventStatistics
from pubsub_cluster.tuner.tables import (
    find_lookup,
    map_cells,
    part_codes,
    radices,
)
from pubsub_cluster.tuner.trees import TreeChoice, TreePlan, pack_tree
from pubsub_cluster.tuner.work import Work, prepare

PARTITION_COUNT = 64


Chooser = Callable[[Work, CostConstants | None, int | None], Configuration]


class _Indexed(NamedTuple):
    """The columns of tables, slots and blob, and which rows can be reached more than once."""

    columns: dict[str, np.ndarray]
    row_many: U1
    entry_count_max: int
    has_fronts: bool


def build_layout(
    catalogue: CatalogueReader,
    counts: CatalogueCounts,
    version: int,
    sample: EventStatistics | None,
    generation: int,
    partition_count: int = PARTITION_COUNT,
    configuration: Configuration | Chooser | None = None,
    constants: CostConstants | None = None,
    max_bytes: int | None = None,
    trees: TreeChoice | None = None,
    last: LastLayout | None = None,
) -> LayoutArrays:
    """Build a layout of all rows below ``counts.rows`` that are not removed at `version`.

    Parameters
    ----------
    catalogue : CatalogueReader
    counts : CatalogueCounts
        As of the moment the layout is for.
    version : int
        Rows removed at this version or before are left out.
    sample : EventStatistics, optional
        For estimates: a sample of events, or `tuner.frequencies`. Without one all constants of an attribute
        are taken as equally likely.
    generation : int
    partition_count : int
    configuration : Configuration or callable, optional
        Which tables there are, or who is asked with (work, constants, max_bytes) (`tuner.live`); by default
        the greedy's choice.
    constants : CostConstants, optional
        Of the cost model, as measured on this machine.
    max_bytes : int, optional
        Bound of the tables and clusters that the greedy may choose.
    trees : TreeChoice, optional
        Who decides whether a tree takes the place of tables; by default the cost model. Where tables are
        given, there is none unless it is forced.
    last : LastLayout, optional
        Of the same catalogue: what stays as it is in it is taken over; it keeps in mind what this one is.

    Returns
    -------
    LayoutArrays
        Read-only arrays in private memory.
    """
    work = prepare(catalogue, counts, version, sample)
    source, spaces, tests, predicates = work.source, work.spaces, work.tests, work.predicates
    chosen, tree = _choose(work, configuration, constants, max_bytes, trees or TreeChoice())
    indexed = _index(work, chosen, tree, partition_count, counts, last or LastLayout())
    bits = predicates.catalogue[predicates.point_count : predicates.slotted_count]
    program_start, program_code = step_programs(
        work.program_code, source.program_start, work.ways.probability
    )
    return freeze_layout(
        LayoutArrays(
            info=layout_info(
                generation,
                version,
                counts,
                indexed.entry_count_max,
                predicates.flag_count,
                indexed.has_fronts,
            ),
            attribute_catalogue=work.attribute_id,
            **spaces._asdict(),
            row_catalogue=source.row_catalogue,
            row_many=indexed.row_many,
            predicate_test=predicates.test.reshape(-1),
            set_start=tests.set_start,
            set_label=tests.set_label,
            bit_catalogue=bits,
            attribute_point=predicates.attribute_point,
            point_base=predicates.point_base,
            label_point=predicates.label_point,
            flag_base=predicates.flag_lists.base,
            flag_start=predicates.flag_lists.start,
            flag_test=predicates.flag_lists.test,
            program_start=program_start,
            program_code=program_code,
            program_row=source.program_row.astype(np.int32),
            **indexed.columns,
        )
    )


def _choose(
    work: Work,
    given: Configuration | Chooser | None,
    constants: CostConstants | None,
    max_bytes: int | None,
    trees: TreeChoice,
) -> tuple[Configuration, TreePlan | None]:
    """Choose the tables and the tree; `given` as in `build_layout`."""
    tree = trees.forced(work, constants)
    left = _without_boxes(work, tree)
    if isinstance(given, Configuration):
        chosen = given
    elif given is not None:
        chosen = given(left, constants, max_bytes)
    else:
        known = (work.spaces, work.predicates, work.ways, work.statistics)
        chosen = choose_tables(left.source.clause_count, left.clauses, *known, constants, max_bytes)
    check_configuration(chosen, np.diff(work.spaces.label_start))
    if not isinstance(given, Configuration) and tree is None:
        tree = trees.cheaper(work, chosen, constants)
        chosen = chosen if tree is None else EMPTY_CONFIGURATION
    return chosen, tree


def _without_boxes(work: Work, tree: TreePlan | None) -> Work:
    """Return what is left for tables and slots."""
    return work if tree is None else work._replace(source=without(work.source, tree.boxes.clause))


def _index(
    boxed: Work,
    configuration: Configuration,
    tree: TreePlan | None,
    partition_count: int,
    counts: CatalogueCounts,
    last: LastLayout,
) -> _Indexed:
    """Deal all clauses to the tree, tables and slots, and pack them."""
    work = _without_boxes(boxed, tree)
    tables = _order_tables(configuration, work)
    row_once = _rows_of_one_clause(boxed.source)
    rows = RowTally(len(row_once))
    packer, clusters, order = _pack(
        work, configuration, tables, partition_count, counts, last, row_once, rows
    )
    if tree is not None:
        last.forget()
    ways, blob = work.ways, packer.blob
    partition, cost = deal_clusters(clusters, ways.slot_probability, packer.partition_cost)
    packed = pack_tree(tree, boxed, order, row_once, len(partition), cost, blob)
    rows.add(packed.target)
    access_start = np.zeros(len(ways.slot_probability) + 1, np.int32)
    np.cumsum(np.bincount(clusters.key, minlength=len(ways.slot_probability)), out=access_start[1:])

    slices = [configuration.slices(a) for a in range(work.spaces.attribute_count)]
    anchors = np.array([table.anchor for table in tables], np.int64)
    hanging = np.bincount(anchors, minlength=work.spaces.attribute_count)
    columns = {
        **packer.finish()._asdict(),
        "slice_start": _starts([len(first) for first in slices]),
        "slice_label": np.concatenate([np.zeros(0, np.int64), *slices]).astype(np.int32),
        "attribute_table": _starts(hanging.tolist()),
        "table_part": _starts([len(table.codes) for table in tables]),
        "part_code": np.array([code for table in tables for code in table.codes], np.int32),
        "part_multiplier": packer.multipliers(),
        "access_start": access_start,
        "cluster_start": np.append(clusters.start, packed.cluster_start),
        "cluster_partition": np.append(partition, packed.cluster_partition),
        "cluster_attribute": np.append(ways.slot_attribute[clusters.key], packed.cluster_attribute),
        **packed.columns,
        "cluster_blob": blob.words,
        "partition_cost": packed.partition_cost,
    }
    row_many = np.where(row_once, np.uint8(MANY_KEYS), np.uint8(MANY_CLAUSES))
    row_many *= rows.again
    entry_count_max = max(packer.entry_count_max(clusters), packed.entry_count_max)
    return _Indexed(columns, row_many, entry_count_max, blob.has_fronts)


class _Table(NamedTuple):
    """A table to be packed: the attribute that it hangs off, its part codes, digits of each part."""

    anchor: int
    codes: list[int]
    radix: list[int]


def _order_tables(configuration: Configuration, work: Work) -> list[_Table]:
    """Return the tables by what they hang off: the attribute that fewest events have."""
    present = work.statistics.present
    tables = []
    for schema in configuration.tables:
        anchor = min(schema.attributes, key=lambda a: (present[a], a))
        tables.append(_Table(anchor, part_codes(schema), radices(schema, work.predicates, configuration)))
    return sorted(tables)


def _pack(
    work: Work,
    configuration: Configuration,
    tables: list[_Table],
    partition_count: int,
    counts: CatalogueCounts,
    last: LastLayout,
    row_once: Bools,
    rows: RowTally,
) -> tuple[TablePacker, Sections, ResidualOrder]:
    """Deal clauses to tables and slots, and pack them; return also what slots lead to."""
    predicates, ways = work.predicates, work.ways
    cells = map_cells(work.spaces, predicates, configuration, work.statistics.label)
    lookup = find_lookup(predicates, ways, cells)
    codes = [table.codes for table in tables]
    carrier = find_carrier(last, work, codes, counts)
    table_of = undealt_clauses(work.source.clause_count, len(codes)) if carrier is None else carrier.table_of
    deal_clauses(work.clauses, table_of, price_literals(codes, predicates, lookup, ways))
    by_table = clauses_by_table(table_of, len(codes))
    last.note(what_is_known(work, codes, table_of, counts))
    del table_of

    order = residual_order(predicates, ways)
    blob = BlobWriter(4 * work.source.clause_count + 1024)
    packer = TablePacker(predicates, ways, lookup, cells, order, partition_count, blob, row_once)
    give_back_memory()  # Without this what the steps leave behind adds up to more than the result.
    for number, table in enumerate(tables):
        mine = by_table.pop()
        carried = None if carrier is None else carrier.table(number, mine, table.codes, table.radix, lookup)
        mine = mine if carried is None else carried.picked
        row = work.source.rows_of(mine)
        rows.add(packer.add(work.clauses(mine), row, table.codes, table.radix, carried))
        give_back_memory()
    clusters = _pack_slots(work, by_table.pop(), carrier, order, row_once, blob, rows)
    entry_count = packer.entry_count + int(clusters.entry_count.sum())
    last.taken_over = 0.0 if carrier is None else carrier.taken_over / max(entry_count, 1)
    return packer, clusters, order


def _pack_slots(
    work: Work,
    mine: I4,
    carrier: Carrier | None,
    order: ResidualOrder,
    row_once: Bools,
    blob: BlobWriter,
    rows: RowTally,
) -> Sections:
    """Pack what hangs off slots, and count its rows."""
    programs, ways = _program_slots(work), work.ways
    carried = (
        None if carrier is None else carrier.slots(mine, [slot for slots, _ in programs for slot in slots])
    )
    mine = mine if carried is None else carried.picked
    entries = slot_entries(work.clauses(mine), work.source.rows_of(mine), ways, order, programs, row_once)
    if carried is not None:
        entries = entries.pick(among(entries.key, carried.key))
        rows.add(carried.target)
    chance = ways.slot_probability[entries.key]
    clusters, _ = pack_beside(entries, chance, work.predicates, False, blob, carried)
    rows.add(entries.target[entries.target >= 0])
    return clusters


class RowTally:
    """Which rows have several entries.

    Attributes
    ----------
    again : bool[R]
    """

    def __init__(self, row_count: int) -> None:
        self.again = np.zeros(row_count, bool)
        self._seen = np.zeros(row_count, bool)

    def add(self, row: I4) -> None:
        """Count the rows of some entries."""
        ordered = np.sort(row)
        self.again[ordered[1:][ordered[1:] == ordered[:-1]]] = True
        self.again[row[self._seen[row]]] = True
        self._seen[row] = True


def _rows_of_one_clause(source: Source) -> Bools:
    """Say which rows have one clause; clauses are in the order of rows."""
    if source.clause_row is None:
        return np.broadcast_to(np.True_, len(source.row_catalogue))
    row = source.clause_row
    single = np.ones(len(row), bool)
    again = row[1:] == row[:-1]
    single[1:] &= ~again
    single[:-1] &= ~again
    found = np.zeros(len(source.row_catalogue), bool)
    found[row[single]] = True
    return found


def _starts(counts: list[int]) -> I4:
    return np.cumsum([0, *counts]).astype(np.int32)


def _program_slots(work: Work) -> list[tuple[list[int], int]]:
    """Return the slots of every program's access set."""
    found = []
    codes, ways = work.program_code.tolist(), work.ways
    starts = work.source.program_start.tolist()
    for program, (first, stop) in enumerate(itertools.pairwise(starts)):
        access = program_access(codes[first:stop], ways)
        mine = {ways.always_slot}
        if access is not None:
            slots = [ways.slot[ways.slot_start[p] : ways.slot_start[p + 1]].tolist() for p in access]
            mine = {slot for predicate_slots in slots for slot in predicate_slots}
        found.append((sorted(mine), program))
    return found
