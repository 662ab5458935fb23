"""Counting: each satisfied predicate adds a hit to its subscriptions; who has all hits matches.

Source: RR-4089 section 5 (D-14), the algorithm that the report compares with. No clustering. Cost: a hit per
satisfied predicate and subscription with it, and clearing the hits of all; hits are bytes, so that a
subscription has at most 255 predicates.
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.conjunction_store import ConjunctionStore
from pubsub_cluster.algorithms.conjunctions import I4, ConjunctionMatcher, Conjunctions
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lists import Lists
from pubsub_cluster.algorithms.rr4089.counting_kernels import count_hits
from pubsub_cluster.algorithms.rr4089.two_phase import TwoPhase
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

PREDICATES_MAX = 255


class Counting(TwoPhase):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._store = ConjunctionStore()
        self.subscribed = Lists(0)  # the subscriptions of each predicate
        self._hits = np.zeros(0, np.uint8)
        self._always = np.zeros(0, np.int32)

    @property
    def store(self) -> ConjunctionStore:
        """See `TwoPhase`."""
        return self._store

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        self._store = ConjunctionStore()
        parts = self._store.build(catalogue)
        self.subscribed = Lists(self._store.predicates.bound)
        self.subscribed.build(parts.predicate, parts.conjunction)
        self._refer()

    def insert(self, more: Conjunctions) -> None:
        """See `TwoPhase`."""
        _, parts = self._store.insert(more)
        self.subscribed.push(parts.predicate, parts.conjunction)
        self._refer(np.diff(more.stops).min(initial=1) == 0)

    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`."""
        numbers, parts = self._store.delete(owner)
        self.subscribed.remove(parts.predicate, parts.conjunction)
        self._refer(bool(np.isin(numbers, self._always).any()))

    def _refer(self, is_other: bool = True) -> None:
        """Have room for hits; know those without predicates, which always match."""
        store = self._store
        if len(self._hits) < len(store.owner):
            self._hits = np.zeros(len(store.owner), np.uint8)
        if is_other:
            none: I4 = np.flatnonzero((store.owner >= 0) & (store.size == 0)).astype(np.int32)
            self._always = none

    def _second(self, stops: I8, begin: int, end: int) -> tuple[int, int]:
        store = self._store
        self.subscribed.widen(store.predicates.bound)
        arrays = self.subscribed.arrays, store.owner, store.size, self._always
        how = begin, end, self.counters
        reached, count = count_hits(arrays, self._satisfied, stops, self._hits, self._out, how)
        return int(reached), int(count)

    @property
    def bytes(self) -> int:
        """See `conjunctions.Core`."""
        store = self._store
        return store.predicates.bytes + self.subscribed.bytes + (8 + 4 + 1) * store.bound

    @property
    def bytes_in_all(self) -> int:
        """See `TwoPhase`."""
        return self.bytes + self._store.parts.bytes


def _refuses(conjunctions: Conjunctions) -> str | None:
    most = int(np.diff(conjunctions.stops).max(initial=0))
    if most > PREDICATES_MAX:
        return f"hits are bytes: {most} predicates in a conjunction, at most {PREDICATES_MAX}"
    return None


def matcher(schema: Schema = EMPTY_SCHEMA) -> ConjunctionMatcher:
    """Return the matcher."""
    return ConjunctionMatcher("counting", Counting, schema, _refuses)
