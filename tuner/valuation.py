"""What the greedy weighs: the benefit of a table against its bytes, and the sets of ways that clauses have.

Definitions of RR-4089, section 3.2.2. Bytes are those of the layout: hash areas, cluster headers, residual
columns and targets.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm.code_space import F8
from pubsub_cluster.tuner.configuration import Bools, TableSchema
from pubsub_cluster.tuner.cost import Fit, TableModel

HASH_ENTRY_BYTES, LOAD_MAX, HEADER_BYTES, WORD_BYTES = 16.0, 0.8, 8.0, 4.0
DIRECT_ENTRIES_PER_HASH_ENTRY = 16.0
"""As in `tuner.tables`."""


class Chosen(NamedTuple):
    """A table of the configuration, as seen on the sample.

    Attributes
    ----------
    schema : TableSchema
    model : TableModel
    fit : Fit
    cost : float64[m]
        nu * checking of each clause of the fit.
    """

    schema: TableSchema
    model: TableModel
    fit: Fit
    cost: F8


class Value(NamedTuple):
    """Benefit (nanoseconds per event) and added bytes of a table."""

    benefit: float
    added_bytes: float

    @property
    def per_space(self) -> float:
        """Benefit per unit of space, by D-07's rules."""
        if self.benefit <= 0.0:
            return 0.0
        return np.inf if self.added_bytes <= 0.0 else self.benefit / self.added_bytes


def all_groups(can: Bools, count_max: int, size_max: int) -> list[tuple[int, ...]] | None:
    """Return GA: all sets of up to `size_max` rows that some clause has together; None when too many.

    Parameters
    ----------
    can : bool[W, n]
        Which clause has which way.
    """
    packed = np.ascontiguousarray(np.packbits(can, axis=0).T)
    if not packed.size:
        return []
    kinds = np.unique(packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1))
    if len(kinds) > count_max:
        return None
    groups: set[tuple[int, ...]] = set()
    bits = kinds.view(np.uint8).reshape(len(kinds), -1)
    for kind in np.unpackbits(bits, axis=1, count=len(can)):
        rows = np.flatnonzero(kind).tolist()
        if len(rows) > count_max.bit_length():
            return None
        for size in range(1, min(len(rows), size_max) + 1):
            groups.update(itertools.combinations(rows, size))
        if len(groups) > count_max:
            return None
    return sorted(groups)


def table_bytes(entry_count: float, key_count: float, radix: float) -> float:
    """Return the bytes of a table's area and of its clusters' headers.

    The area is a position for every key there could be, or a hash of the keys there are (`tuner.tables`).
    """
    if entry_count <= 0.0:
        return 0.0
    keys = max(-key_count * float(np.expm1(-entry_count / key_count)), 1.0)
    capacity = 2.0 ** max(float(np.ceil(np.log2(keys / LOAD_MAX))), 1.0)
    is_direct = radix <= DIRECT_ENTRIES_PER_HASH_ENTRY * capacity
    return (WORD_BYTES * radix if is_direct else HASH_ENTRY_BYTES * capacity) + HEADER_BYTES * keys
