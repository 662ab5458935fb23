"""Generations, and how the partitions of a layout are dealt to shards: each expects about the same work."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from pubsub_cluster.workers.messages import Counts


@dataclass(slots=True)
class Generation:
    """One layout and who still needs it. Generation 0 is the empty layout: everything is delta."""

    number: int
    segment: str | None
    base_counts: Counts
    version: int
    partition_cost: list[float] = field(default_factory=list)
    catalogue: str = ""  # the segment whose rows it holds
    bound_batches: int = 0
    dealt: dict[int, bytes] = field(default_factory=dict)  # the shard of each partition, by number of shards

    def shard_of_partition(self, shards: int) -> bytes:
        """Return which of so many shards has each partition."""
        if shards not in self.dealt:
            self.dealt[shards] = bytes(deal_partitions(self.partition_cost, shards))
        return self.dealt[shards]


def deal_partitions(partition_cost: Sequence[float], shard_count: int) -> list[int]:
    """Return the shard of each partition: longest processing time first.

    Parameters
    ----------
    partition_cost : sequence of float
        Expected cost per event of each partition, any unit.
    shard_count : int

    Returns
    -------
    list of int
        Shard index of each partition. The dearest partition goes first, each to the shard with the least so
        far; the most loaded shard gets at most 4/3 of the best possible (Graham 1969).
    """
    shard_of = [0] * len(partition_cost)
    loads = [(0.0, shard_idx) for shard_idx in range(shard_count)]
    for partition in sorted(range(len(partition_cost)), key=lambda p: (-partition_cost[p], p)):
        load, shard_idx = heapq.heappop(loads)
        shard_of[partition] = shard_idx
        heapq.heappush(loads, (load + partition_cost[partition], shard_idx))
    return shard_of
