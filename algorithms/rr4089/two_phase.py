"""Both phases of RR-4089's algorithm (section 2.2), timed apart, for all its matchers.

First the predicates that an event satisfies, through the index of distinct predicates; these set the bit
vector. Then the subscriptions of the candidate clusters. Batches go through one phase, then the other.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunction_store import ConjunctionStore
from pubsub_cluster.algorithms.conjunctions import I4, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.predicate_kernels import COMPARISONS
from pubsub_cluster.algorithms.rr4089 import check_kernels as hk
from pubsub_cluster.algorithms.rr4089 import cluster_kernels as ck
from pubsub_cluster.algorithms.rr4089.clusters import Clusters

SATISFIED_LEAST = 1 << 16
MATCHES_LEAST = 1 << 12
PROBED = 4


class TwoPhase(ABC):
    """A `conjunctions.Core`; see the module.

    Attributes
    ----------
    counters : int64[5]
        `check_kernels`: events, checked, visited, looked up; and constants looked at by the first phase.
    seconds : list of float
        Of each phase, in all.
    """

    def __init__(self) -> None:
        self.counters = np.zeros(5, np.int64)
        self.seconds = [0.0, 0.0]
        self._satisfied = np.zeros(SATISFIED_LEAST, np.int32)
        self._out = np.zeros(MATCHES_LEAST, np.int64), np.zeros(MATCHES_LEAST, np.int64)

    @property
    @abstractmethod
    def store(self) -> ConjunctionStore:
        """The subscriptions."""

    @abstractmethod
    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""

    @abstractmethod
    def insert(self, more: Conjunctions) -> None:
        """See `conjunctions.Core`; may be those of many new owners."""

    @abstractmethod
    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`."""

    @abstractmethod
    def _second(self, stops: I8, begin: int, end: int) -> tuple[int, int]:
        """Do the second phase for some events; return the one that had no room, and how many matches."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """See `conjunctions.Core`."""

    @property
    @abstractmethod
    def bytes_in_all(self) -> int:
        """Bytes of what matching and changes read."""

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `conjunctions.Core`."""
        values = np.ascontiguousarray(values)
        rows, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        event = 0
        while event < len(values):
            began = time.perf_counter()
            first, stops = event, np.empty(len(values) - event + 1, np.int64)
            event = self._first(values, event, stops)
            between = time.perf_counter()
            done = 0
            while done < event - first:
                done, count = self._second(stops, done, event - first)
                rows.append(self._out[0][:count] + first)
                owners.append(self._out[1][:count].copy())
                if done < event - first:
                    size = 2 * len(self._out[0])
                    self._out = np.zeros(size, np.int64), np.zeros(size, np.int64)
            self.seconds[0] += between - began
            self.seconds[1] += time.perf_counter() - between
        return np.concatenate(rows), np.concatenate(owners)

    def _first(self, values: F8, event: int, stops: I8) -> int:
        """Do the first phase for events from one on; return the one that had no room."""
        predicates = self.store.predicates
        if len(self._satisfied) < predicates.count:
            self._satisfied = np.zeros(predicates.count, np.int32)
        counters = self.counters[PROBED:]
        arguments = (predicates.arrays, values, event, stops, self._satisfied, counters)
        return int(hk.test_predicates(*arguments))


class Clustered(TwoPhase):
    """Subscriptions in clusters; how they are clustered is for others to say.

    Parameters
    ----------
    columns : int
        Columns that are prefetched in a cluster; 0: none.
    weight : float
        See `Clusters`.

    Attributes
    ----------
    clusters : Clusters
    """

    def __init__(self, columns: int, weight: float = 0.0) -> None:
        super().__init__()
        self.columns, self._weight = columns, weight
        self.clusters = Clusters(weight)
        self._work: tuple[Any, ...] = (
            np.zeros(0, np.uint8),
            np.full(0, -1, np.int32),
            np.zeros(0, np.int32),
            np.zeros((0, 2), np.int64),
        )
        self._found = np.zeros(0, np.int64)

    @property
    def store(self) -> ConjunctionStore:
        """See `TwoPhase`."""
        return self.clusters.store

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        sample = self.clusters.statistics.sample
        self.clusters = Clusters(self._weight)
        numbers = self.clusters.build(catalogue)
        if sample is not None:
            self.clusters.observe(sample)
        self._settle(numbers)

    def insert(self, more: Conjunctions) -> None:
        """See `TwoPhase`."""
        numbers = self.clusters.enter(more)
        self.clusters.put(numbers)
        self._changed(numbers, np.zeros(0, np.int32))

    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`."""
        self.remove(self.store.numbers_of(owner))

    def remove(self, numbers: I4) -> None:
        """Remove conjunctions, all those of their owners."""
        self._leaving(numbers)
        self._changed(np.zeros(0, np.int32), self.clusters.remove(numbers))

    def observe(self, values: F8) -> None:
        """Have statistics from a sample of events, float64[events, attributes]."""
        self.clusters.observe(values)
        self._changed(np.zeros(0, np.int32), np.zeros(0, np.int32))

    def _settle(self, numbers: I4) -> None:
        """Put the subscriptions of a new catalogue."""
        self.clusters.put(numbers)

    def _leaving(self, numbers: I4) -> None:
        """Subscriptions are about to be removed."""

    def _changed(self, numbers: I4, rows: I4) -> None:
        """Subscriptions have come, clusters have lost some, or statistics are others."""

    def _second(self, stops: I8, begin: int, end: int) -> tuple[int, int]:
        clusters, held = self.clusters, self.clusters.held
        predicates = self.store.predicates
        attributes = len(predicates.arrays[0]) // COMPARISONS
        tables = int(held.counts[ck.TABLES])
        sizes = len(predicates.attribute), attributes, attributes + tables + 1, tables
        if any(len(one) < size for one, size in zip(self._work, sizes, strict=True)):
            flags, equal, accesses, waiting = sizes
            self._work = (
                np.zeros(flags, np.uint8),
                np.full(equal, -1, np.int32),
                np.zeros(accesses, np.int32),
                np.zeros((waiting, 2), np.int64),
            )
        if len(self._found) < self.store.bound:
            self._found = np.zeros(len(self.store.owner), np.int64)
        out = (self._found, *self._out)
        how = begin, end, self.columns, self.counters
        owner = clusters.store.owner
        reached, count = hk.match_events(held, owner, self._satisfied, stops, self._work, out, how)
        return int(reached), int(count)

    @property
    def bytes(self) -> int:
        """See `conjunctions.Core`."""
        return self.clusters.reading_bytes + self.store.predicates.bytes

    @property
    def bytes_in_all(self) -> int:
        """See `TwoPhase`."""
        return self.bytes + self.clusters.keeping_bytes
