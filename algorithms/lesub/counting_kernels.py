"""Kernels that count satisfied predicates; each has its plain twin in `lesub/reference.py`."""

from __future__ import annotations

from typing import Any

from pubsub_cluster.algorithms.predicate_kernels import satisfied
from pubsub_cluster.workers.kernels._jit import kernel


@kernel
def count_all(arrays: Any, bound: Any, event: Any, work: Any, counters: Any) -> Any:
    """Match an event: count for each conjunction its satisfied predicates, and compare each sum.

    Parameters
    ----------
    arrays : (index of predicates, conjunctions of each predicate, int64[...] owner, int32[...] size)
    bound : int
        Conjunctions are below.
    event : float64[attributes]
    work : (int32[predicates], int32[bound], int64[bound])
        Satisfied predicates (out); sums, 0 before and after; owners of the conjunctions that match (out).
    counters : int64[3]
        Grow by the probes, the additions and the comparisons.

    Returns
    -------
    int
        How many conjunctions match.
    """
    index, subscribed, owner, size = arrays
    heads, pool, _ = subscribed
    predicates, hits, found = work
    count = satisfied(index, event, predicates, counters)
    for one in range(count):
        start, length = heads[predicates[one], 0], heads[predicates[one], 1]
        counters[1] += length
        for at in range(start, start + length):
            hits[pool[at]] += 1
    counters[2] += bound
    matched = 0
    for conjunction in range(bound):
        if hits[conjunction] == size[conjunction] and owner[conjunction] >= 0:
            found[matched] = owner[conjunction]
            matched += 1
        hits[conjunction] = 0
    return matched
