"""Expressions as conjunctions of comparisons: shortest forms, and the naive matcher's answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from core_cases import INTEGERS, NUMBERS, catalogues, check_core, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import raw_batch
from strategies import cases

from pubsub_cluster.algorithms.conjunctions import (
    ABSENT,
    Comparison,
    ConjunctionMatcher,
    Conjunctions,
    brute_force,
    columns_of,
    shortened,
    truth,
)
from pubsub_cluster.algorithms.dimensions import Dimensions
from pubsub_cluster.algorithms.naive import Naive
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.schema import EMPTY_SCHEMA

LT, LE, EQ, NE, GE, GT = Comparison


class Scan:
    """The plainest core: brute force."""

    def __init__(self) -> None:
        self.parts: dict[int, Conjunctions] = {}

    def build(self, catalogue: Conjunctions) -> None:
        for owner in np.unique(catalogue.owner).tolist():
            is_mine = catalogue.owner == owner
            is_predicate = np.repeat(is_mine, np.diff(catalogue.stops))
            sizes = np.diff(catalogue.stops)[is_mine]
            self.parts[owner] = Conjunctions(
                catalogue.owner[is_mine],
                np.concatenate(([0], np.cumsum(sizes))),
                *(column[is_predicate] for column in catalogue[2:]),
            )

    def insert(self, more: Conjunctions) -> None:
        self.build(more)

    def delete(self, owner: int) -> None:
        self.parts.pop(owner, None)

    def match(self, values: Any) -> tuple[Any, Any]:
        found = [brute_force(part, values) for part in self.parts.values()]
        none = np.zeros(0, np.int64)
        return (
            np.concatenate([none, *(event for event, _ in found)]),
            np.concatenate([none, *(owner for _, owner in found)]),
        )

    @property
    def bytes(self) -> int:
        return 0


@given(case=cases(), data=st.data())
def test_any_case(case: Any, data: st.DataObject) -> None:
    """Whatever is supported has the naive matcher's answer, also on events that are no rows."""
    matcher, naive = ConjunctionMatcher("scan", Scan, case.schema), Naive(case.schema)
    catalogue = [
        (handle, one) for handle, one in enumerate(case.expressions) if matcher.supports(one) is None
    ]
    built = data.draw(st.integers(0, len(catalogue)))
    for one in (matcher, naive):
        one.build(catalogue[:built])
        for handle, expression in catalogue[built:]:
            one.insert(handle, expression)
    batch = raw_batch([flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events])
    assert [part.tolist() for part in matcher.match(batch)] == [part.tolist() for part in naive.match(batch)]


TRIPLES = st.lists(st.tuples(st.just(0), st.sampled_from(Comparison), INTEGERS), max_size=6)


@settings(max_examples=300)
@given(triples=TRIPLES, values=st.lists(NUMBERS, min_size=1, max_size=8))
def test_shortest_forms(triples: list[Any], values: list[float]) -> None:
    """They hold where all predicates hold, and have one ``=`` or at most one end on either side."""
    column = np.array([*values, ABSENT])
    expected = np.ones(len(column), np.bool_)
    for _, comparison, constant in triples:
        expected &= truth(column, comparison, constant)
    short = shortened(triples)
    found = np.full(len(column), short is not None)
    for _, comparison, constant in short or ():
        found &= truth(column, comparison, constant)
    assert found.tolist() == expected.tolist()
    used = [comparison for _, comparison, _ in short or ()]
    assert used == [EQ] or (EQ not in used and sum(op in (LT, LE) for op in used) <= 1)
    assert sum(op in (GT, GE) for op in used) <= 1


@pytest.mark.parametrize(
    ("triples", "short"),
    [
        ([(0, GE, 2.0), (0, LE, 2.0)], ((0, EQ, 2.0),)),
        ([(0, GT, 2.0), (0, LE, 2.0)], None),
        ([(0, GE, 1.0), (0, GT, 1.0), (0, LT, 3.0), (0, LE, 3.0)], ((0, GT, 1.0), (0, LT, 3.0))),
        ([(0, EQ, 1.0), (0, NE, 1.0)], None),
        ([(0, EQ, 1.0), (0, EQ, 2.0)], None),
        ([(1, NE, 9.0), (1, LT, 3.0), (0, EQ, 1.0)], ((0, EQ, 1.0), (1, LT, 3.0))),
        ([], ()),
    ],
)
def test_examples_of_shortest_forms(triples: Any, short: Any) -> None:
    assert shortened(triples) == short


def test_columns() -> None:
    """Dimensions by attribute and value kind; texts by number; a set is a disjunction."""
    expression = expression_from_json(
        {
            "and": [
                {"attr": "a", "op": "in", "value": ["x", 3]},
                {"attr": "b", "op": "!=", "value": "y"},
                {"attr": "c", "op": ">", "value": 1.5},
            ]
        }
    )
    columns = columns_of({7: expression}, Dimensions(ABSENT), EMPTY_SCHEMA)
    assert columns.owner.tolist() == [7, 7] and columns.stops.tolist() == [0, 3, 6]
    triples = list(
        zip(columns.attribute.tolist(), columns.comparison.tolist(), columns.constant.tolist(), strict=True)
    )
    number, text = (one for one in (triples[0], triples[3]) if one[1] == EQ)
    assert {number[2], text[2]} == {3.0, 0.0} and number[0] != text[0]
    assert triples[1:3] == triples[4:6] and {one[1] for one in triples[1:3]} == {NE, GT}


@given(catalogue=catalogues(), values=rows(), data=st.data())
def test_the_comparison_of_cores(catalogue: Any, values: Any, data: st.DataObject) -> None:
    """The plainest core passes what all cores are held to; one that forgets a deletion does not."""
    check_core(Scan, catalogue, values, data)


def test_a_wrong_core_is_noticed() -> None:
    class Forgetful(Scan):
        def match(self, values: Any) -> tuple[Any, Any]:
            event, owner = super().match(values)
            return event[:-1], owner[:-1]

    @settings(database=None)
    @given(catalogue=catalogues(), values=rows(), data=st.data())
    def check(catalogue: Any, values: Any, data: st.DataObject) -> None:
        check_core(Forgetful, catalogue, values, data)

    with pytest.raises(AssertionError):
        check()
