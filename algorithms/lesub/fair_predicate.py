"""Fair predicate: each distinct predicate is evaluated once, then satisfied predicates are counted.

Source: LESUB, "fair predicate algorithm" (its counting step is also that of RR-4089 section 5 and TOPSS
section 3.3). An event's satisfied predicates are searched in sorted lists; each adds one to all conjunctions
in which it appears; then every sum is compared with the number of the conjunction's predicates. Cost: a
search per attribute and comparison, an addition per satisfied predicate and conjunction with it, a comparison
per conjunction.
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.conjunction_store import ConjunctionStore
from pubsub_cluster.algorithms.conjunctions import Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub.counting_kernels import COUNTERS, count_all
from pubsub_cluster.algorithms.lists import Lists
from pubsub_cluster.algorithms.rows import matched_rows


class FairPredicate:
    """A `conjunctions.Core`.

    Attributes
    ----------
    counters : int64[5]
        Work since the last `build`; see `counting_kernels`.
    """

    def __init__(self) -> None:
        self.store = ConjunctionStore()
        self.subscribed = Lists(0)  # the conjunctions of each predicate
        self.counters = np.zeros(COUNTERS, np.int64)
        self._hits = np.zeros(0, np.int32)

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        self.store = ConjunctionStore()
        parts = self.store.build(catalogue)
        self.subscribed = Lists(self.store.predicates.bound)
        self.subscribed.build(parts.predicate, parts.conjunction)
        self.counters[:] = 0

    def insert(self, more: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        _, parts = self.store.insert(more)
        self.subscribed.push(parts.predicate, parts.conjunction)

    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`."""
        _, parts = self.store.delete(owner)
        self.subscribed.remove(parts.predicate, parts.conjunction)

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `conjunctions.Core`."""
        store = self.store
        arrays = store.predicates.arrays, self.subscribed.arrays, store.owner, store.size
        if len(self._hits) < store.bound:
            self._hits = np.zeros(len(store.owner), np.int32)
        satisfied = np.empty(store.predicates.count, np.int32)

        def match_row(event: F8, found: I8) -> int:
            work = satisfied, self._hits, found
            return int(count_all(arrays, store.bound, event, work, self.counters))

        return matched_rows(values, store.bound, match_row)

    @property
    def bytes(self) -> int:
        """See `conjunctions.Core`; the lists that only deletion reads are left out."""
        store = self.store
        return store.predicates.bytes + self.subscribed.bytes + (8 + 4 + 4) * store.bound
