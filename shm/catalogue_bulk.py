"""Many subscriptions as columns: for benchmarks, pipelines and whoever has them as arrays already.

Distinct predicates are given once and named by position, clauses and literals as counts and arrays, text ids
as sizes and bytes. Nothing is done per subscription in Python, so six million take seconds. What is checked
here is what would make the catalogue unreadable; whether a clause makes sense is the caller's affair, as
with `NormalForm`: literals of a clause sorted and without repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.predicate import Predicate
from pubsub_cluster.shm.catalogue_store import I4, I8, U1, U8


class RowColumns(NamedTuple):
    """Subscriptions to append, column by column; n of them with c clauses and l literals.

    Attributes
    ----------
    predicates : sequence of Predicate
        Distinct.
    clause_counts : int32[n]
        Clauses of each subscription; 0 never matches.
    literal_counts : int32[c]
        Literals of each clause; 0 always holds.
    literals : int32[l]
        ``2 * i + negated`` for ``predicates[i]``.
    handles : uint64[n]
    id_sizes : int32[n]
        Bytes of each text id.
    id_text : uint8[sum of id_sizes]
        UTF-8 of the ids, one after the other.
    owner : str or None
        Of all of them.
    """

    predicates: Sequence[Predicate]
    clause_counts: I4
    literal_counts: I4
    literals: I4
    handles: U8
    id_sizes: I4
    id_text: U1
    owner: str | None = None

    def check(self) -> None:
        """Raise `ValueError` unless the columns fit each other."""
        rows, clauses = len(self.clause_counts), int(np.sum(self.clause_counts, dtype=np.int64))
        if len(self.handles) != rows or len(self.id_sizes) != rows or len(self.literal_counts) != clauses:
            raise ValueError("handles, id sizes or clauses do not fit the rows")
        if len(self.literals) != int(np.sum(self.literal_counts, dtype=np.int64)):
            raise ValueError("literals do not fit the clauses")
        if len(self.id_text) != int(np.sum(self.id_sizes, dtype=np.int64)):
            raise ValueError("the text of the ids does not fit their sizes")
        negative = min(int(np.min(a, initial=0)) for a in (self.clause_counts, self.literal_counts))
        if negative < 0 or int(np.min(self.id_sizes, initial=1)) < 1:
            raise ValueError("counts are negative or an id is empty")
        bounds = np.min(self.literals, initial=0), np.max(self.literals, initial=-1)
        if bounds[0] < 0 or bounds[1] >= 2 * len(self.predicates):
            raise ValueError(f"literals outside the {len(self.predicates)} predicates")


def decimal_ids(first: int, count: int) -> tuple[I4, U1]:
    """Return sizes and text of the ids ``str(first) .. str(first + count - 1)``."""
    sizes = np.empty(count, np.int32)
    pieces = []
    at, stop = first, first + count
    while at < stop:
        size = len(str(at))
        end = min(stop, 10**size)
        numbers = np.arange(at, end, dtype=np.int64)
        digits = np.empty((len(numbers), size), np.uint8)
        for place in range(size - 1, -1, -1):
            digits[:, place] = ord("0") + numbers % 10
            numbers //= 10
        sizes[at - first : end - first] = size
        pieces.append(digits.reshape(-1))
        at = end
    return sizes, np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)


def numbered_literals(literals: I4, number: I8 | I4) -> I4:
    """Return literals over ``predicates`` as literals over the catalogue's positive literals `number`."""
    numbered: I4 = literals if not len(number) else number[literals >> 1] + (literals & 1)
    return numbered.astype(np.int32)
