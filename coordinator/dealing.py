"""Deal the partitions of a layout to shards, so that each shard expects about the same work."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


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
