"""The kernels of LESUB's matchers once more, with the same signatures, plainly."""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import truth
from pubsub_cluster.algorithms.lesub.counting_kernels import CHECKS, COMPARISONS, LOOKUPS, SUMS
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
            counters[SUMS] += 1
    counters[COMPARISONS] += bound
    matched = [int(owner[one]) for one in range(bound) if owner[one] >= 0 and sums[one] == size[one]]
    found[: len(matched)] = matched
    return len(matched)


def partly_satisfied(clusters: Any, event: Any, counters: Any) -> list[int]:
    """See `counting_kernels.partly_satisfied`."""
    (_, starts, attributes, count), keys, (heads, pool, _) = clusters
    _, key_starts, words, key_count = keys
    by_key = {tuple(words[key_starts[at] : key_starts[at + 1]].tolist()): at for at in range(key_count[0])}
    found: list[int] = []
    for schema in range(count[0]):
        mine = attributes[starts[schema] : starts[schema + 1]].tolist()
        if all(one < len(event) and not np.isnan(event[one]) for one in mine):
            counters[LOOKUPS] += 1
            values = (event[np.array(mine, np.int64)] + 0.0).view(np.uint64).tolist()
            key = by_key.get((schema, *values))
            if key is not None:
                start, length = heads[key].tolist()
                found += pool[start : start + length].tolist()
    return found


def count_rest(arrays: Any, bound: int, event: Any, bits: Any, work: Any, counters: Any) -> int:
    """See `counting_kernels.count_rest`; counts no probes."""
    clusters, index, (heads, pool, _), owner, size, without = arrays
    sums = [0] * bound
    predicates, found = work[1], work[4]
    for predicate in predicates[: satisfied_by(index, event, predicates, counters)].tolist():
        start, length = heads[predicate].tolist()
        for conjunction in pool[start : start + length].tolist():
            sums[conjunction] += 1
            counters[SUMS] += 1
    compared = partly_satisfied(clusters, event, counters) + without.tolist()
    counters[COMPARISONS] += len(compared)
    matched = [int(owner[one]) for one in compared if sums[one] == size[one]]
    found[: len(matched)] = matched
    return len(matched)


def check_rest(arrays: Any, event: Any, bits: Any, work: Any, counters: Any) -> int:
    """See `counting_kernels.check_rest`."""
    clusters, (heads, pool, _), (attribute, comparison, constant), owner = arrays
    matched = []
    for conjunction in partly_satisfied(clusters, event, counters):
        start, length = heads[conjunction].tolist()
        for one in pool[start : start + length].tolist():
            counters[CHECKS] += 1
            value = event[attribute[one] : attribute[one] + 1]
            if not truth(value, int(comparison[one]), float(constant[one])).any():
                break
        else:
            matched.append(int(owner[conjunction]))
    work[2][: len(matched)] = matched
    return len(matched)


def evaluate_all(arrays: Any, event: Any, found: Any, counters: Any) -> int:
    """See `counting_kernels.evaluate_all`."""
    owner, stops, attribute, comparison, constant = arrays
    matched = []
    for conjunction in range(len(owner)):
        for at in range(stops[conjunction], stops[conjunction + 1]):
            counters[CHECKS] += 1
            value = event[attribute[at] : attribute[at] + 1]
            if not truth(value, int(comparison[at]), float(constant[at])).any():
                break
        else:
            matched.append(int(owner[conjunction]))
    found[: len(matched)] = matched
    return len(matched)
