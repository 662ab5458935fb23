"""Kernels that count satisfied predicates; each has its plain twin in `lesub/reference.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.predicate_kernels import EQ, GE, GT, LE, LT, satisfied
from pubsub_cluster.algorithms.sequence_kernels import slot_of
from pubsub_cluster.workers.kernels._jit import kernel, leaf

COUNTERS = 5
PROBES, SUMS, COMPARISONS, LOOKUPS, CHECKS = range(COUNTERS)
"""Counters of work: constants that searches looked at, additions, comparisons of sums, look-ups of clusters,
and predicates that were evaluated by themselves."""
ABSENT_BITS = np.array([np.nan]).view(np.uint64)[0]


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
    counters : int64[5]
        Grow by the work.

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
        counters[SUMS] += length
        for at in range(start, start + length):
            hits[pool[at]] += 1
    counters[COMPARISONS] += bound
    matched = 0
    for conjunction in range(bound):
        if hits[conjunction] == size[conjunction] and owner[conjunction] >= 0:
            found[matched] = owner[conjunction]
            matched += 1
        hits[conjunction] = 0
    return matched


@leaf
def partly_satisfied(clusters: Any, bits: Any, words: Any, partial: Any, counters: Any) -> Any:
    """Write the conjunctions whose equalities an event satisfies, of those that have some; return how many.

    Parameters
    ----------
    clusters : see `equality_clusters.EqualityClusters.arrays`
    bits : uint64[attributes]
        The event's values; `ABSENT_BITS` where it has none.
    words : uint64[attributes + 1]
        To write on.
    partial : int32[conjunctions]
        (out)
    counters : int64[5]
    """
    schemas, keys, (heads, pool, _) = clusters
    _, starts, attributes, count = schemas
    found = 0
    for schema in range(count[0]):
        size = 0
        words[0] = np.uint64(schema)
        for at in range(starts[schema], starts[schema + 1]):
            attribute = np.int64(attributes[at])
            if attribute >= bits.shape[0] or bits[attribute] == ABSENT_BITS:
                break
            size += 1
            words[size] = bits[attribute]
        if size < starts[schema + 1] - starts[schema]:
            continue
        counters[LOOKUPS] += 1
        key = keys[0][slot_of(keys, words, 0, size + 1)]
        if key >= 0:
            start, length = heads[key, 0], heads[key, 1]
            for at in range(start, start + length):
                partial[found] = pool[at]
                found += 1
    return found


@kernel
def count_rest(arrays: Any, bound: Any, event: Any, bits: Any, work: Any, counters: Any) -> Any:
    """Match an event (equality preferred): clusters first, then sums of the other predicates.

    Parameters
    ----------
    arrays : (clusters, index of the other predicates, conjunctions of each, owner, size, int32[k] without
    equality)
        `size` is the number of other predicates.
    bound : int
        Conjunctions are below.
    event : float64[attributes]
    bits : uint64[attributes]
        Its bits.
    work : (uint64[attributes + 1], int32[predicates], int32[bound], int32[bound], int64[bound])
        To write on; satisfied predicates; sums, 0 before and after; partly satisfied conjunctions; owners of
        those that match (out).
    counters : int64[5]

    Returns
    -------
    int
        How many conjunctions match.
    """
    clusters, index, (heads, pool, _), owner, size, without = arrays
    words, predicates, hits, partial, found = work
    candidates = partly_satisfied(clusters, bits, words, partial, counters)
    count = satisfied(index, event, predicates, counters)
    for one in range(count):
        start, length = heads[predicates[one], 0], heads[predicates[one], 1]
        counters[SUMS] += length
        for at in range(start, start + length):
            hits[pool[at]] += 1
    counters[COMPARISONS] += candidates + without.shape[0]
    matched = 0
    for at in range(candidates):
        if hits[partial[at]] == size[partial[at]]:
            found[matched] = owner[partial[at]]
            matched += 1
    for at in range(without.shape[0]):
        if hits[without[at]] == size[without[at]]:
            found[matched] = owner[without[at]]
            matched += 1
    if count:
        for conjunction in range(bound):
            hits[conjunction] = 0
    return matched


@leaf
def holds(value: Any, comparison: Any, constant: Any) -> Any:
    """Whether a predicate holds for a value; NaN satisfies none."""
    if comparison == EQ:
        return value == constant
    if comparison == LT:
        return value < constant
    if comparison == LE:
        return value <= constant
    if comparison == GE:
        return value >= constant
    if comparison == GT:
        return value > constant
    return value == value and value != constant


@kernel
def check_rest(arrays: Any, event: Any, bits: Any, work: Any, counters: Any) -> Any:
    """Match an event (nonequality quarantining): clusters first, then the other predicates, one by one.

    Parameters
    ----------
    arrays : (clusters, predicates of each conjunction, (attribute, comparison, constant) of each predicate,
    owner) event : float64[attributes] bits : uint64[attributes]
        Its bits.
    work : (uint64[attributes + 1], int32[bound], int64[bound])
        To write on; partly satisfied conjunctions; owners of those that match (out).
    counters : int64[5]

    Returns
    -------
    int
        How many conjunctions match.
    """
    clusters, (heads, pool, _), (attribute, comparison, constant), owner = arrays
    words, partial, found = work
    matched = 0
    for at in range(partly_satisfied(clusters, bits, words, partial, counters)):
        place = heads[partial[at], 0]
        stop = place + heads[partial[at], 1]
        while place < stop:
            one = pool[place]
            counters[CHECKS] += 1
            is_there = attribute[one] < event.shape[0]
            if not (is_there and holds(event[attribute[one]], comparison[one], constant[one])):
                break
            place += 1
        if place == stop:
            found[matched] = owner[partial[at]]
            matched += 1
    return matched


@kernel
def evaluate_all(arrays: Any, event: Any, found: Any, counters: Any) -> Any:
    """Match an event by evaluating every conjunction (naive algorithm), up to its first false predicate.

    Parameters
    ----------
    arrays : (owner, stops, attribute, comparison, constant)
        See `conjunctions.Conjunctions`.
    event : float64[attributes]
    found : int64[conjunctions]
        Owners of those that match (out).
    counters : int64[5]

    Returns
    -------
    int
        How many conjunctions match.
    """
    owner, stops, attribute, comparison, constant = arrays
    matched = 0
    for conjunction in range(owner.shape[0]):
        at = stops[conjunction]
        while at < stops[conjunction + 1]:
            counters[CHECKS] += 1
            if not holds(event[attribute[at]], comparison[at], constant[at]):
                break
            at += 1
        if at == stops[conjunction + 1]:
            found[matched] = owner[conjunction]
            matched += 1
    return matched
