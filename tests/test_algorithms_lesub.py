"""Matchers of LESUB that count predicates: cores beside brute force, kernels beside references, counters."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from core_cases import catalogues, check_core, conjunctions_of, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.algorithms.conjunction_store import ConjunctionStore
from pubsub_cluster.algorithms.lesub import counting_kernels, reference
from pubsub_cluster.algorithms.lesub.fair_predicate import COMPARISONS, SUMS, FairPredicate
from pubsub_cluster.benchmarks.workloads.lesub import LeSubscribe

CORES = [FairPredicate]


@pytest.mark.parametrize("make", CORES)
@settings(max_examples=100)
@given(catalogue=catalogues(), values=rows(), data=st.data())
def test_cores(make: Any, catalogue: Any, values: Any, data: st.DataObject) -> None:
    check_core(make, catalogue, values, data)


@given(catalogue=catalogues(), values=rows())
def test_the_counting_kernel_does_as_its_reference(catalogue: Any, values: Any) -> None:
    core = FairPredicate()
    core.build(conjunctions_of([(owner, one) for owner, mine in enumerate(catalogue) for one in mine]))
    store = core.store
    arrays = store.predicates.arrays, core.subscribed.arrays, store.owner, store.size
    work = np.zeros(store.predicates.count, np.int32), np.zeros(store.bound, np.int32), np.zeros(store.bound)
    for event in values:
        mine, plain = (work, np.zeros(3, np.int64)), (copy.deepcopy(work), np.zeros(3, np.int64))
        count = counting_kernels.count_all(arrays, store.bound, event, *mine)
        assert count == reference.count_all(arrays, store.bound, event, *plain)
        assert mine[0][2][:count].tolist() == plain[0][2][:count].tolist()
        assert mine[1][1:].tolist() == plain[1][1:].tolist() and not work[1].any()


def test_fair_predicate_adds_once_per_hit_and_compares_all() -> None:
    """LESUB-03: sums are the conjunctions of satisfied predicates, comparisons the subscriptions."""
    made = LeSubscribe(500)
    catalogue, events = made.conjunctions(), made.events(10)
    core = FairPredicate()
    core.build(catalogue)
    core.match(events)
    conjunction = np.repeat(np.arange(500), np.diff(catalogue.stops))
    values = events[:, catalogue.attribute]
    holds = np.select(
        [catalogue.comparison == 0, catalogue.comparison == 2],
        [values < catalogue.constant, values == catalogue.constant],
        values > catalogue.constant,
    )
    assert core.counters[SUMS] == holds.sum() and core.counters[COMPARISONS] == 500 * 10
    assert conjunction[-1] == 499


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 3)), max_size=20))
def test_freed_numbers_are_given_again_first(steps: Any) -> None:
    """TOPSS-12, for conjunctions: a new number only when none is free."""
    store, live = ConjunctionStore(), {}
    for is_added, owner, count in steps:
        if is_added and owner not in live:
            was_free, bound = store.bound - store.count, store.bound
            numbers, _ = store.insert(conjunctions_of([(owner, ((0, 2, float(at)),)) for at in range(count)]))
            live[owner] = sorted(numbers.tolist())
            assert store.bound == bound + max(0, count - was_free)
        elif not is_added:
            numbers, parts = store.delete(owner)
            assert sorted(numbers.tolist()) == live.pop(owner, []) and len(parts.predicate) == len(numbers)
        used = [number for mine in live.values() for number in mine]
        assert len(used) == len(set(used)) == store.count
    assert store.predicates.count == max([len(mine) for mine in live.values()], default=0)
