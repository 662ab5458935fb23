"""The kernels of LESUB's matchers once more, with the same signatures, plainly."""

from __future__ import annotations

from typing import Any

from pubsub_cluster.algorithms.predicate_reference import satisfied_by


def count_all(arrays: Any, bound: int, event: Any, work: Any, counters: Any) -> int:
    """See `counting_kernels.count_all`; counts no probes."""
    index, (heads, pool, _), owner, size = arrays
    satisfied, _, found = work
    sums = [0] * bound
    for predicate in satisfied[: satisfied_by(index, event, satisfied, counters)].tolist():
        start, length = heads[predicate].tolist()
        for conjunction in pool[start : start + length].tolist():
            sums[conjunction] += 1
            counters[1] += 1
    counters[2] += bound
    matched = [int(owner[one]) for one in range(bound) if owner[one] >= 0 and sums[one] == size[one]]
    found[: len(matched)] = matched
    return len(matched)
