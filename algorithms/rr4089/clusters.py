"""Subscriptions in clusters behind tables: the arrays of `cluster_kernels`, and what changes them.

Source: RR-4089 sections 2.2, 3.1. Cost: an insertion looks at each table that is looked up for each event;
moving copies the references of one subscription.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunction_store import ConjunctionStore
from pubsub_cluster.algorithms.conjunctions import I4, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.list_kernels import CLASSES
from pubsub_cluster.algorithms.predicate_kernels import COMPARISONS, EQ
from pubsub_cluster.algorithms.rr4089 import cluster_kernels as ck
from pubsub_cluster.algorithms.rr4089.statistics import Statistics
from pubsub_cluster.language.errors import CallerError

ROOM_LEAST = 64
BITS = 62
"""Attributes that may be part of a table of several."""


class Clusters:
    """A clustering instance with its hashing configuration.

    Parameters
    ----------
    weight : float
        Cost of checking: ``1 + weight * predicates left``.

    Attributes
    ----------
    store : ConjunctionStore
    statistics : Statistics
    held : Held
        A new one after any change.
    """

    def __init__(self, weight: float = 0.0) -> None:
        self.weight = weight
        self.store = ConjunctionStore()
        self.statistics = Statistics()
        self._schema_of: list[tuple[int, ...]] = [(), ()]
        self._bits: dict[int, int] = {}
        self.bit: I4 = np.full(0, -1, np.int32)
        store = self.store
        self.held = ck.Held(
            store.parts.arrays,
            np.full(0, -1, np.int32),
            np.zeros(0, np.int32),
            store.predicates.attribute,
            store.predicates.comparison,
            np.zeros(0),
            np.full(0, -1, np.int32),
            np.zeros((ROOM_LEAST, ck.ROW), np.int32),
            np.full(ROOM_LEAST, -1, np.int32),
            np.zeros((ROOM_LEAST, ck.ROW), np.int32),
            np.zeros(ROOM_LEAST, np.int32),
            np.zeros(1 + CLASSES, np.int64),
            np.zeros((ROOM_LEAST, 1 + ck.WIDTH_MAX), np.int32),
            np.zeros(ROOM_LEAST, np.int32),
            np.zeros(ROOM_LEAST, np.int64),
            np.full(0, -1, np.int32),
            np.zeros(4, np.int64),
        )
        self.held.free[0] = 1
        self.held.counts[ck.ACCESSES] = 1
        self.held.access[0, ck.FIRST] = -1

    @property
    def tables(self) -> list[tuple[int, ...]]:
        """Attributes of the tables of several attributes, in the order in which they were made."""
        return [self._schema_of[one] for one in self.held.live[: self.held.counts[ck.TABLES]].tolist()]

    def build(self, catalogue: Conjunctions) -> I4:
        """Take conjunctions into an empty store; return their numbers. They lie nowhere yet."""
        self.store.build(catalogue)
        self._refer()
        return np.arange(self.store.bound, dtype=np.int32)

    def enter(self, more: Conjunctions) -> I4:
        """Take more conjunctions into the store; return their numbers. They lie nowhere yet."""
        numbers, _ = self.store.insert(more)
        self._refer()
        return numbers

    def put(self, numbers: I4) -> None:
        """Put subscriptions where they are best off; they may lie somewhere."""
        begin = 0
        while (begin := int(ck.place_all(self.held, numbers, begin, self.weight))) < len(numbers):
            self._grow()

    def remove_owner(self, owner: int) -> I4:
        """Remove an owner's conjunctions; return their numbers' former clusters."""
        return self._take_out(self.store.numbers_of(owner), lambda: self.store.delete(owner)[1])

    def remove(self, numbers: I4) -> I4:
        """Remove conjunctions whose owners have no others; return their former clusters."""
        return self._take_out(numbers, lambda: self.store.remove(numbers))

    def _take_out(self, numbers: I4, drop: Any) -> I4:
        rows = np.unique(self.held.cluster[numbers])
        ck.remove_all(self.held, numbers)
        drop()
        self._refer()
        return rows

    def members(self, rows: Any) -> I4:
        """Return the subscriptions of clusters."""
        rows = np.asarray(rows, np.int32)
        found = np.empty(int(self.held.clusters[rows, ck.COUNT].sum()), np.int32)
        ck.members_of(self.held, rows, found)
        return found

    def rows_of(self, table: int) -> I4:
        """Return the clusters of a table that have members."""
        clusters = self.held.clusters[: self.held.counts[ck.CLUSTERS]]
        is_mine = self.held.access[clusters[:, ck.ACCESS], ck.TABLE] == table
        return np.flatnonzero(is_mine & (clusters[:, ck.COUNT] > 0)).astype(np.int32)

    def name_table(self, attributes: tuple[int, ...]) -> int:
        """Return the number of a table of some attributes, ascending, which need not be looked up."""
        if not 0 < len(attributes) <= ck.WIDTH_MAX:
            raise CallerError("a table has too few or many attributes", seen=attributes, limit=ck.WIDTH_MAX)
        if attributes in self._schema_of:
            return self._schema_of.index(attributes)
        table = len(self._schema_of)
        self._schema_of.append(attributes)
        if table >= len(self.held.tables):
            more = np.zeros_like(self.held.tables)
            self.held = self.held._replace(
                tables=np.concatenate((self.held.tables, more)),
                live=np.append(self.held.live, np.zeros(len(more), np.int32)),
                population=np.append(self.held.population, np.zeros(len(more), np.int64)),
            )
        self.held.tables[table, 0] = len(attributes)
        self.held.tables[table, 1 : 1 + len(attributes)] = attributes
        return table

    def add_table(self, attributes: tuple[int, ...]) -> int:
        """Have a table looked up from now on; return its number."""
        table = self.name_table(attributes)
        self.held.live[self.held.counts[ck.TABLES]] = table
        self.held.counts[ck.TABLES] += 1
        return table

    def drop_table(self, attributes: tuple[int, ...]) -> I4:
        """Have a table looked up no more; return the subscriptions that lie in it yet."""
        table = self.name_table(attributes)
        count = int(self.held.counts[ck.TABLES])
        live = self.held.live[:count]
        self.held.live[: count - 1] = live[live != table].copy()
        self.held.counts[ck.TABLES] = count - 1
        return self.members(self.rows_of(table))

    def schema_of(self, mask: int) -> tuple[int, ...]:
        """Return the attributes of a mask, ascending."""
        return tuple(sorted(attribute for attribute, bit in self._bits.items() if mask >> bit & 1))

    def observe(self, values: F8) -> None:
        """Take the probabilities of predicates from a sample of events, float64[events, attributes]."""
        self.statistics.observe(self.store.predicates, values)
        self._refer()

    @property
    def reading_bytes(self) -> int:
        """Bytes of what the second phase reads: clusters, accesses, hash, tables, and owners."""
        held, counts = self.held, self.held.counts.tolist()
        rows = 4 * ck.ROW * (counts[ck.ACCESSES] + counts[ck.CLUSTERS])
        tables = 4 * (1 + ck.WIDTH_MAX) * counts[ck.TABLES]
        return int(4 * held.free[0] + rows + held.keys.nbytes + held.single.nbytes + tables) + (
            8 * self.store.bound
        )

    @property
    def keeping_bytes(self) -> int:
        """Bytes of what only changes read: where each subscription lies, and its predicates."""
        return 8 * self.store.bound + self.store.parts.bytes

    def _refer(self) -> None:
        """Refer to the store's arrays, which may be others now, and have room for what is new."""
        store, held = self.store, self.held
        predicates = store.predicates
        attributes = len(predicates.arrays[0]) // COMPARISONS
        if attributes > len(self.bit):
            self.bit = np.append(self.bit, np.full(attributes - len(self.bit), -1, np.int32))
        is_equal = predicates.comparison[: predicates.bound] == EQ
        if len(self._bits) < BITS:
            for attribute in np.unique(predicates.attribute[: predicates.bound][is_equal]).tolist():
                if attribute not in self._bits and len(self._bits) < BITS:
                    self.bit[attribute] = self._bits[attribute] = len(self._bits)
        room, bound = len(store.owner), len(predicates.attribute)
        self.held = held._replace(
            parts=store.parts.arrays,
            cluster=_wide(held.cluster, room, -1),
            place=_wide(held.place, room, 0),
            attribute=predicates.attribute,
            comparison=predicates.comparison,
            nu=self.statistics.nu(predicates),
            single=_wide(held.single, bound, -1),
            mine=_wide(held.mine, attributes, -1),
        )

    def _grow(self) -> None:
        """Make room; a kernel has found that something is full."""
        held = self.held
        accesses, clusters, _, keys = held.counts.tolist()
        if accesses + 1 > len(held.access):
            self.held = held._replace(access=_doubled(held.access))
        elif clusters + 1 > len(held.clusters):
            self.held = held._replace(clusters=_doubled(held.clusters))
        elif 2 * (keys + 1) > len(held.keys):
            wider = np.full(2 * len(held.keys), -1, np.int32)
            ck.rehash(held, wider)
            self.held = held._replace(keys=wider)
        else:
            self.held = held._replace(words=_doubled(held.words))


def _wide(array: Any, size: int, filling: int) -> Any:
    if size <= len(array):
        return array
    return np.append(array, np.full(size - len(array), filling, array.dtype))


def _doubled(array: Any) -> Any:
    if 2 * len(array) > np.iinfo(np.int32).max:
        raise CallerError(
            "the clusters are too large together", seen=2 * len(array), limit=np.iinfo(np.int32).max
        )
    return np.concatenate((array, np.zeros_like(array)))
