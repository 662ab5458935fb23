"""Nonequality quarantining: equality clusters first; what they give is checked predicate by predicate.

Source: LESUB, "nonequality quarantining approach". Clusters (`equality_clusters`) give the conjunctions whose
equalities are satisfied, and the other predicates of each are evaluated there and then, up to the first that
is false. Only conjunctions without any equality, the quarantined ones, are counted, as in the fair predicate
algorithm. Cost: a look-up per cluster whose schema the event has, evaluations per candidate, and the cost of
fair predicate for the quarantined.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunction_store import ConjunctionStore
from pubsub_cluster.algorithms.conjunctions import Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub.counting_kernels import COUNTERS, check_rest
from pubsub_cluster.algorithms.lesub.equality_clusters import (
    EqualityClusters,
    Split,
    bits_of,
    conjunctions_at,
    split,
)
from pubsub_cluster.algorithms.lesub.fair_predicate import FairPredicate
from pubsub_cluster.algorithms.rows import matched_rows


class Quarantining:
    """A `conjunctions.Core`.

    Attributes
    ----------
    counters : int64[5]
        Work since the last `build`; see `counting_kernels`.
    """

    def __init__(self) -> None:
        self.clusters = EqualityClusters()
        self.store = ConjunctionStore()  # of the other predicates of those in clusters
        self.quarantined = FairPredicate()
        self.counters = np.zeros(COUNTERS, np.int64)

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        has_equality, parts = self._divided(catalogue)
        self.clusters, self.store = EqualityClusters(), ConjunctionStore()
        self.clusters.build(parts.equalities)
        self.store.build(parts.rest)
        self.quarantined = FairPredicate()
        self.quarantined.build(conjunctions_at(catalogue, ~has_equality))
        self.counters[:] = 0
        self.quarantined.counters = self.counters

    def insert(self, more: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        has_equality, parts = self._divided(more)
        if has_equality.any():
            numbers, _ = self.store.insert(parts.rest)
            self.clusters.insert(numbers, parts.equalities)
        if not has_equality.all():
            self.quarantined.insert(conjunctions_at(more, ~has_equality))

    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`."""
        numbers, _ = self.store.delete(owner)
        self.clusters.delete(numbers)
        self.quarantined.delete(owner)

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `conjunctions.Core`."""
        store, predicates = self.store, self.store.predicates
        tests = predicates.attribute, predicates.comparison, predicates.constant
        arrays = self.clusters.arrays, store.parts.arrays, tests, store.owner
        words, partial = np.empty(values.shape[1] + 1, np.uint64), np.empty(store.bound, np.int32)

        def match_row(event: F8, found: I8) -> int:
            bits = bits_of(event).view(np.uint64)
            return int(check_rest(arrays, event, bits, (words, partial, found), self.counters))

        rows, owners = matched_rows(values, store.bound, match_row)
        more_rows, more_owners = self.quarantined.match(values)
        return np.concatenate((rows, more_rows)), np.concatenate((owners, more_owners))

    @property
    def bytes(self) -> int:
        """See `conjunctions.Core`."""
        store = self.store
        tests = 13 * store.predicates.bound + store.parts.bytes
        return self.clusters.bytes + tests + 8 * store.bound + self.quarantined.bytes

    def _divided(self, catalogue: Conjunctions) -> tuple[npt.NDArray[np.bool_], Split]:
        """Return which conjunctions have equalities, and the predicates of those."""
        parts = split(catalogue)
        if parts.has_equality.all():
            return parts.has_equality, parts
        return parts.has_equality, split(conjunctions_at(catalogue, parts.has_equality))
