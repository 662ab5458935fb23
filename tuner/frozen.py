"""Frozen tables: the same schemas for every generation, whatever numbers attributes and labels have in it."""

from __future__ import annotations

from collections.abc import Iterable

from pubsub_cluster.tuner.configuration import BY_CELL, BY_LABEL, Configuration, TableSchema
from pubsub_cluster.tuner.messages import FrozenTable
from pubsub_cluster.tuner.slices import equal_slices
from pubsub_cluster.tuner.work import Work


def frozen_configuration(frozen: Iterable[FrozenTable], work: Work) -> Configuration:
    """Return the configuration of a layout whose tables were chosen for an earlier one.

    Schemas and numbers of slices stay; where slices begin follows the labels, which every layout numbers
    anew. A table rests while no subscription has one of its attributes, or while there are too few labels to
    cut.

    Parameters
    ----------
    frozen : iterable of FrozenTable
    work : Work
        What the layout is of.
    """
    layout = {name: number for number, name in enumerate(work.attribute_names)}
    first: list[tuple[int, ...]] = [()] * len(layout)
    schemas = set()
    for table in frozen:
        if not all(name in layout for name in table.attributes):
            continue
        parts = sorted(zip((layout[name] for name in table.attributes), table.slices, strict=True))
        for attribute, count in parts:
            if count and not first[attribute]:
                begin, stop = work.spaces.label_start[attribute : attribute + 2].tolist()
                first[attribute] = tuple(equal_slices(work.statistics.label[begin:stop], count).tolist())
        if all(not count or len(first[attribute]) > 1 for attribute, count in parts):
            attributes = tuple(attribute for attribute, _ in parts)
            schemas.add(TableSchema(attributes, tuple(BY_CELL if count else BY_LABEL for _, count in parts)))
    used = {a for schema in schemas for a, cell in zip(*schema, strict=True) if cell == BY_CELL}
    cut = tuple(slices if attribute in used else () for attribute, slices in enumerate(first))
    return Configuration(tuple(sorted(schemas)), cut if used else ())
