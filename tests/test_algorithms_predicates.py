"""The index of distinct predicates: its kernels beside their references, numbers, references, recycling."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from core_cases import INTEGERS, NUMBERS, conjunctions_of
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.algorithms import predicate_kernels, predicate_reference
from pubsub_cluster.algorithms.conjunctions import ABSENT, Comparison, truth
from pubsub_cluster.algorithms.predicate_index import PredicateIndex

PREDICATES = st.tuples(st.integers(0, 3), st.sampled_from(Comparison), st.one_of(INTEGERS, NUMBERS))
ROWS = st.lists(st.one_of(NUMBERS, st.just(ABSENT)), min_size=1, max_size=6).map(np.array)


def holding(predicates: dict[int, Any], row: Any) -> list[int]:
    """The numbers of those that hold, by the plainest means."""
    return sorted(
        number
        for number, (attribute, comparison, constant) in predicates.items()
        if attribute < len(row) and truth(row[attribute : attribute + 1], comparison, constant)[0]
    )


@settings(max_examples=200)
@given(
    built=st.lists(PREDICATES, max_size=10),
    steps=st.lists(st.tuples(st.booleans(), PREDICATES, st.integers(0, 99)), max_size=25),
    row=ROWS,
)
def test_index(built: list[Any], steps: list[Any], row: Any) -> None:
    """Equal predicates have one number; a freed one is given again first; the satisfied ones are those."""
    index = PredicateIndex()
    numbers = index.build(conjunctions_of([(0, tuple(built))])).tolist()
    known = dict(zip(numbers, built, strict=True))
    held = list(numbers)
    assert index.bound == index.count == len(set(built))
    for is_added, predicate, which in steps:
        if is_added or not held:
            bound, was_free = index.bound, index.bound > index.count
            number = index.add(*predicate)
            assert known.get(number, predicate) == predicate and (predicate in known.values()) == (
                number in known
            )
            assert index.bound == bound or not was_free
            known[number] = predicate
            held.append(number)
        else:
            number = held.pop(which % len(held))
            assert index.remove(number) == (number not in held)
            if number not in held:
                del known[number]
        assert index.count == len(known)
    assert {number: index.references[number] for number in known} == {n: held.count(n) for n in known}
    assert sorted(index.satisfied(row).tolist()) == holding(known, row)


@given(first=st.lists(PREDICATES, max_size=10), more=st.lists(PREDICATES, max_size=20))
def test_many_are_added_as_one_by_one(first: list[Any], more: list[Any]) -> None:
    many, single = PredicateIndex(), PredicateIndex()
    for index in (many, single):
        index.build(conjunctions_of([(0, tuple(first))]))
    columns = conjunctions_of([(0, tuple(more))])
    numbers = many.add_all(columns.attribute, columns.comparison, columns.constant)
    assert numbers.tolist() == [single.add(*one) for one in more]
    assert many.references[: many.bound].tolist() == single.references[: single.bound].tolist()
    assert many.count == single.count == len({*first, *more})


@given(steps=st.lists(st.tuples(st.booleans(), PREDICATES), max_size=30), row=ROWS)
def test_kernels_do_as_their_references(steps: list[Any], row: Any) -> None:
    mine = (np.zeros((24, 3), np.int64), np.zeros(40), np.zeros(40, np.int32), np.zeros(1, np.int64))
    plain = copy.deepcopy(mine)
    there: set[Any] = set()
    for number, (is_added, (attribute, comparison, constant)) in enumerate(steps):
        slot = 6 * attribute + comparison
        if is_added:
            found = predicate_kernels.intern(mine, slot, constant, number)
            assert found == predicate_reference.intern(plain, slot, constant, number)
            there |= {(slot, constant)} if found >= 0 else set()
        elif (slot, constant) in there:
            there.remove((slot, constant))
            predicate_kernels.forget(mine, slot, constant)
            predicate_reference.forget(plain, slot, constant)
        assert mine[0].tolist() == plain[0].tolist()
    slots = np.array([6 * attribute + comparison for _, (attribute, comparison, _) in steps], np.int64)
    constants = np.array([constant for _, (_, _, constant) in steps], np.float64)
    for begin in range(len(steps)):
        ids, plain_ids = np.zeros(len(steps), np.int32), np.zeros(len(steps), np.int32)
        stop = predicate_kernels.known_until(mine, slots, constants, ids, begin)
        assert stop == predicate_reference.known_until(plain, slots, constants, plain_ids, begin)
        assert ids.tolist() == plain_ids.tolist()
    mine_found, plain_found = np.zeros(40, np.int32), np.zeros(40, np.int32)
    count = predicate_kernels.satisfied_by(mine, row, mine_found, np.zeros(1, np.int64))
    assert count == predicate_reference.satisfied_by(plain, row, plain_found, None)
    assert mine_found[:count].tolist() == plain_found[:count].tolist()


def test_searching_is_logarithmic() -> None:
    """LESUB: a search of at most log2(n) + 1 constants per attribute and comparison in use."""
    index = PredicateIndex()
    index.build(conjunctions_of([(0, tuple((0, Comparison.LT, float(one)) for one in range(1_000)))]))
    counters = np.zeros(1, np.int64)
    assert index.satisfied(np.array([990.0]), counters).tolist() == list(range(991, 1_000))
    assert 0 < counters[0] <= math.log2(1_000) + 1
