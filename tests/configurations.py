"""Strategies of configurations for layouts of any catalogue, sensible or not."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pubsub_cluster.shm.layout import LayoutArrays
from pubsub_cluster.tuner.configuration import BY_CELL, BY_LABEL, Configuration, TableSchema

TABLES_MAX = 6
PARTS_MAX = 4


@st.composite
def slices(draw: st.DrawFn, label_count: int) -> tuple[int, ...]:
    """First labels of two or more slices, ascending from 0; some may be empty of constants."""
    firsts = draw(st.sets(st.integers(1, label_count), min_size=1, max_size=6))
    return (0, *sorted(firsts))


@st.composite
def configurations(draw: st.DrawFn, layout: LayoutArrays) -> Configuration:
    """Tables over the attributes of `layout`, which was built from the same rows."""
    label_count = np.diff(layout.label_start).tolist()
    cut = tuple(draw(slices(count)) for count in label_count)
    tables: dict[TableSchema, None] = {}
    if label_count:
        for _ in range(draw(st.integers(1, TABLES_MAX))):
            numbers = st.integers(0, len(label_count) - 1)
            attributes = tuple(sorted(draw(st.sets(numbers, min_size=1, max_size=PARTS_MAX))))
            cells = tuple(draw(st.sampled_from((BY_LABEL, BY_CELL))) for _ in attributes)
            if cells != (BY_LABEL,):
                tables[TableSchema(attributes, cells)] = None
    return Configuration(tuple(tables), cut)
