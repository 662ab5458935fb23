"""Matchers of LESUB that count predicates: cores beside brute force, kernels beside references, counters."""

from __future__ import annotations

import copy
import itertools
import sys
from typing import Any

import numpy as np
import pytest
from core_cases import catalogues, check_core, conjunctions_of, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.algorithms import sequence_reference
from pubsub_cluster.algorithms.conjunction_store import ConjunctionStore
from pubsub_cluster.algorithms.conjunctions import Comparison
from pubsub_cluster.algorithms.lesub import fair_predicate, reference
from pubsub_cluster.algorithms.lesub.counting_kernels import CHECKS, COMPARISONS, LOOKUPS, SUMS
from pubsub_cluster.algorithms.lesub.equality_preferred import EqualityPreferred
from pubsub_cluster.algorithms.lesub.fair_predicate import FairPredicate
from pubsub_cluster.algorithms.lesub.quarantining import Quarantining
from pubsub_cluster.algorithms.sequence_table import SequenceTable
from pubsub_cluster.benchmarks.workloads.lesub import LeSubscribe

CORES = [FairPredicate, EqualityPreferred, Quarantining]


@pytest.mark.parametrize("make", CORES)
@settings(max_examples=60)
@given(catalogue=catalogues(), values=rows(), data=st.data())
def test_cores(make: Any, catalogue: Any, values: Any, data: st.DataObject) -> None:
    check_core(make, catalogue, values, data)


@pytest.mark.parametrize(
    ("make", "kernel"),
    [(FairPredicate, "count_all"), (EqualityPreferred, "count_rest"), (Quarantining, "check_rest")],
)
@given(catalogue=catalogues(), values=rows())
def test_kernels_do_as_their_references(make: Any, kernel: str, catalogue: Any, values: Any) -> None:
    """The same matches in the same order, and the same work but for the probes."""
    core = make()
    core.build(conjunctions_of([(owner, one) for owner, mine in enumerate(catalogue) for one in mine]))
    expected, counted = core.match(values), core.counters.copy()
    core.counters[:] = 0
    module = sys.modules[make.__module__]
    with pytest.MonkeyPatch.context() as patch:
        for one in (module, fair_predicate):
            patch.setattr(one, kernel, getattr(reference, kernel), raising=False)
        found = core.match(values)
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]
    assert core.counters[1:].tolist() == counted[1:].tolist()


def holding(catalogue: Any, events: Any) -> tuple[Any, Any]:
    """For each event, which predicates hold, and which conjunctions have no false equality."""
    values = events[:, catalogue.attribute]
    is_equality = catalogue.comparison == Comparison.EQ
    holds = np.select(
        [catalogue.comparison == Comparison.LT, is_equality],
        [values < catalogue.constant, values == catalogue.constant],
        values > catalogue.constant,
    )
    false_equalities = np.add.reduceat(~holds & is_equality, catalogue.stops[:-1], axis=1)
    return holds, false_equalities == 0


def test_work() -> None:
    """LESUB-03, -16, -17, -19: what each algorithm adds, compares, looks up and checks."""
    made = LeSubscribe(500)
    catalogue, events = made.conjunctions(), made.events(10)
    holds, is_candidate = holding(catalogue, events)
    is_other = catalogue.comparison != Comparison.EQ
    sizes = np.diff(catalogue.stops)
    equalities = np.add.reduceat(~is_other, catalogue.stops[:-1], dtype=np.int64)
    work = {}
    for make in CORES:
        core = make()
        core.build(catalogue)
        core.match(events)
        work[make] = core.counters
    with_some = is_candidate[:, equalities > 0].sum()
    without = (equalities == 0).sum() * len(events)
    fair, preferred, quarantined = (work[make] for make in CORES)
    assert fair[SUMS] == holds.sum() and fair[COMPARISONS] == len(sizes) * len(events)
    assert preferred[SUMS] == (holds & is_other).sum() and preferred[COMPARISONS] == with_some + without
    assert quarantined[COMPARISONS] == without and quarantined[CHECKS] > 0
    candidates = is_candidate & (equalities > 0)
    assert quarantined[CHECKS] <= (candidates * (sizes - equalities)).sum()
    schemas = {
        frozenset(catalogue.attribute[begin:stop][~is_other[begin:stop]].tolist())
        for begin, stop in itertools.pairwise(catalogue.stops.tolist())
    } - {frozenset()}
    there = [set(np.flatnonzero(~np.isnan(event)).tolist()) for event in events]
    contained = sum(schema <= attributes for attributes in there for schema in schemas)
    assert preferred[LOOKUPS] == quarantined[LOOKUPS] == contained


@given(
    keys=st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=40),
    more=st.lists(st.integers(0, 90), max_size=40),
)
def test_sequences_have_numbers(keys: list[list[int]], more: list[int]) -> None:
    """Equal sequences have one number, in order of appearance; the kernel does as its reference."""
    table = SequenceTable()
    expected: dict[tuple[int, ...], int] = {}
    for part in (keys, [[number, 7] for number in more]):
        stops = np.concatenate(([0], np.cumsum([len(one) for one in part]))).astype(np.int64)
        words = np.array([word for one in part for word in one], np.int64)
        plain = copy.deepcopy(table.arrays)
        numbers = np.zeros(len(part), np.int32)
        reach = sequence_reference.add_all(plain, words.view(np.uint64), stops, numbers, 0)
        found = table.add(words, stops).tolist()
        assert found[:reach] == numbers[:reach].tolist()
        assert found == [expected.setdefault(tuple(one), len(expected)) for one in part]
    assert table.count == len(expected) and table.bytes > 0
    assert {tuple(table.key(number).tolist()): number for number in range(table.count)} == expected


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
            if count == 1:
                numbers, parts = store.delete(owner)
            else:
                numbers = np.array(live.get(owner, []), np.int32)
                parts = store.remove(numbers)
            assert sorted(numbers.tolist()) == live.pop(owner, []) and len(parts.predicate) == len(numbers)
        used = [number for mine in live.values() for number in mine]
        assert len(used) == len(set(used)) == store.count
    assert store.predicates.count == max([len(mine) for mine in live.values()], default=0)
