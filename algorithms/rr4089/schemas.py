"""Tables that are not there, and what subscriptions would gain in them; see `schema_kernels`."""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.rr4089 import schema_kernels as sk
from pubsub_cluster.algorithms.rr4089.clusters import BITS, Clusters

ROOM_LEAST = 1 << 8


class Schemas:
    """Sums over subscriptions, by schema.

    Parameters
    ----------
    clusters : Clusters
    """

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._arrays = np.zeros(ROOM_LEAST, np.int64), np.zeros((ROOM_LEAST, 3)), np.zeros(1, np.int64)

    def weigh(self, subscriptions: I4, sign: int) -> None:
        """Add subscriptions as they lie, or take them away again before they move."""
        books, scratch, begin = self._clusters, np.zeros(BITS, np.int32), 0
        how = (books.weight, sign)
        while begin < len(subscriptions):
            begin = int(sk.weigh(books.held, books.bit, self._arrays, subscriptions, begin, how, scratch))
            if begin < len(subscriptions):
                size = 2 * len(self._arrays[0])
                wider = np.zeros(size, np.int64), np.zeros((size, 3)), np.zeros(1, np.int64)
                sk.spread(self._arrays, wider)
                self._arrays = wider

    def sums(self) -> tuple[I8, F8]:
        """Return the masks that somebody would move to, and their sums (`schema_kernels`: float64[k, 3])."""
        at = np.flatnonzero(self._arrays[1][:, sk.MOVERS] > 0.5)
        return self._arrays[0][at], self._arrays[1][at]

    def movers_to(self, table: int, subscriptions: I4) -> I4:
        """Return those that are better off in a table."""
        found = np.empty(len(subscriptions), np.int32)
        count = sk.movers_to(self._clusters.held, table, subscriptions, self._clusters.weight, found)
        return found[:count].copy()

    def better_off(self, subscriptions: I4) -> I4:
        """Return those whose best access is not theirs."""
        found = np.empty(len(subscriptions), np.int32)
        count = sk.better_off(self._clusters.held, subscriptions, self._clusters.weight, found)
        return found[:count].copy()

    def margins(self, rows: I4) -> F8:
        """Return BM of clusters."""
        found = np.empty(len(rows))
        sk.margins(self._clusters.held, rows, found)
        return found
