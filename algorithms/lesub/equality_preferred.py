"""Equality preferred: equality clusters first; only the other predicates are counted.

Source: LESUB, "equality preferred approach". Clusters (`equality_clusters`) give the conjunctions whose
equalities are satisfied; satisfied other predicates, found as in the fair predicate algorithm, are counted;
then the sums of those candidates and of all conjunctions without equality are compared. Cost: a look-up per
cluster whose schema the event has, a search per attribute and comparison, an addition per satisfied other
predicate and conjunction with it, a comparison per candidate and per conjunction without equality.
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.conjunction_store import ConjunctionStore
from pubsub_cluster.algorithms.conjunctions import I4, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub.counting_kernels import COUNTERS, count_rest
from pubsub_cluster.algorithms.lesub.equality_clusters import (
    EqualityClusters,
    bits_of,
    conjunctions_at,
    split,
)
from pubsub_cluster.algorithms.lists import Lists
from pubsub_cluster.algorithms.rows import matched_rows


class EqualityPreferred:
    """A `conjunctions.Core`.

    Attributes
    ----------
    counters : int64[5]
        Work since the last `build`; see `counting_kernels`.
    """

    def __init__(self) -> None:
        self.clusters = EqualityClusters()
        self.store = ConjunctionStore()  # of the other predicates
        self.subscribed = Lists(0)
        self.counters = np.zeros(COUNTERS, np.int64)
        self._without: I4 = np.zeros(0, np.int32)
        self._hits: I4 = np.zeros(0, np.int32)

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        parts = split(catalogue)
        self.clusters, self.store = EqualityClusters(), ConjunctionStore()
        self.clusters.build(parts.equalities)
        rest = self.store.build(parts.rest)
        self.subscribed = Lists(self.store.predicates.bound)
        self.subscribed.build(rest.predicate, rest.conjunction)
        self._without = np.flatnonzero(~parts.has_equality).astype(np.int32)
        self.counters[:] = 0

    def insert(self, more: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        parts = split(more)
        numbers, rest = self.store.insert(parts.rest)
        self.subscribed.push(rest.predicate, rest.conjunction)
        self.clusters.insert(
            numbers[parts.has_equality], conjunctions_at(parts.equalities, parts.has_equality)
        )
        self._without = np.append(self._without, numbers[~parts.has_equality])

    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`."""
        numbers, rest = self.store.delete(owner)
        self.subscribed.remove(rest.predicate, rest.conjunction)
        self.clusters.delete(numbers)
        self._without = self._without[~np.isin(self._without, numbers)]

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `conjunctions.Core`."""
        store = self.store
        arrays = (
            self.clusters.arrays,
            store.predicates.arrays,
            self.subscribed.arrays,
            store.owner,
            store.size,
            self._without,
        )
        if len(self._hits) < store.bound:
            self._hits = np.zeros(len(store.owner), np.int32)
        words = np.empty(values.shape[1] + 1, np.uint64)
        satisfied, partial = np.empty(store.predicates.count, np.int32), np.empty(store.bound, np.int32)

        def match_row(event: F8, found: I8) -> int:
            work = words, satisfied, self._hits, partial, found
            bits = bits_of(event).view(np.uint64)
            return int(count_rest(arrays, store.bound, event, bits, work, self.counters))

        return matched_rows(values, store.bound, match_row)

    @property
    def bytes(self) -> int:
        """See `conjunctions.Core`; the lists that only deletion reads are left out."""
        store = self.store
        each = (8 + 4 + 4) * store.bound + 4 * len(self._without)
        return self.clusters.bytes + store.predicates.bytes + self.subscribed.bytes + each
