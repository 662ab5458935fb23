"""The compiler's short way gives what the long way gives, also when it has seen much before."""

from __future__ import annotations

from typing import Any

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from vectors import load_vectors

from pubsub_cluster.language.compile import LITERALS_KEPT_MAX, Compiler
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.json_form import expression_from_json, expression_to_json
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

SMALL = Limits(nodes_per_subscription_max=12, nesting_depth_max=4, clauses_max=3, string_size_bytes_max=3)


def same(compiler: Compiler, obj: Any, schema: Schema, limits: Limits) -> None:
    try:
        expected: Any = normalise(expression_from_json(obj, limits), schema, limits)
    except PubSubError as error:
        with pytest.raises(type(error)) as caught:
            compiler.normal_form(obj)
        assert caught.value.to_dict() == error.to_dict()
        return
    found = compiler.normal_form(obj)
    assert found == expected
    kinds = [[type(part) for part in predicate] for predicate in found.predicates]
    assert kinds == [[type(part) for part in predicate] for predicate in expected.predicates]


@given(st.data(), st.sampled_from([Limits(), SMALL]))
def test_like_the_long_way(data: st.DataObject, limits: Limits) -> None:
    schema = data.draw(st.one_of(st.just(EMPTY_SCHEMA), strategies.schemas()))
    compiler = Compiler(schema, limits)
    for _ in range(3):
        obj = expression_to_json(data.draw(strategies.expressions(schema)))
        same(compiler, obj, schema, limits)
        same(compiler, obj, schema, limits)


def test_like_the_long_way_on_the_vectors() -> None:
    compiler = Compiler()
    for vector in load_vectors():
        for step in vector["steps"]:
            if "expr" in step:
                same(compiler, step["expr"], EMPTY_SCHEMA, Limits())


@pytest.mark.parametrize(
    "obj",
    [
        None,
        [],
        {},
        {"and": 1},
        {"and": [1]},
        {"and": [], "or": []},
        {"xor": []},
        {"attr": "a", "op": "=", "value": None},
        {"attr": "", "op": "=", "value": 1},
        {"attr": "a", "op": "<", "value": True},
        {"attr": "a", "op": ["="], "value": 1},
        {"attr": "a", "op": "=", "value": 2**63},
        {"attr": "a", "op": "=", "value": float("nan")},
        {"attr": "a", "op": "=", "value": "\ud800"},
        {"attr": "a", "op": "=", "value": 1, "ignore_case": 1},
        {"not": {"attr": "a", "op": "matches", "value": "("}},
    ],
)
def test_errors_are_those_of_the_long_way(obj: Any) -> None:
    same(Compiler(), obj, EMPTY_SCHEMA, Limits())


def test_equal_constants_of_other_types_are_told_apart() -> None:
    compiler = Compiler()
    forms = [compiler.normal_form({"attr": "a", "op": "=", "value": value}) for value in (1, True, 1.0, "1")]
    assert forms[0] == forms[2]
    assert len({form.predicates for form in forms}) == 3
    assert [form.predicates[0].value_kind for form in forms] == [2, 1, 2, 3]


def test_what_is_remembered_is_bounded() -> None:
    compiler = Compiler()
    for value in range(LITERALS_KEPT_MAX + 10):
        compiler.normal_form({"attr": "a", "op": "=", "value": value})
    assert len(compiler._literals) <= LITERALS_KEPT_MAX
