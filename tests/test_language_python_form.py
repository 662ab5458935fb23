"""Expressions in Python's syntax: the same trees as the other forms, and mistakes that would be silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import given, settings

from pubsub_cluster.language.errors import ExpressionError, LimitError
from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator, Or
from pubsub_cluster.language.json_form import expression_to_json
from pubsub_cluster.language.python_form import Condition, any_attribute, attr, to_expression
from pubsub_cluster.language.text_form import format_text, parse_text

a, b = attr("a"), attr("b")


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (a == 1, "a = 1"),
        (a != "x", "a != 'x'"),
        (a < 1.5, "a < 1.5"),
        (a <= -1, "a <= -1"),
        (a > 1, "a > 1"),
        (a >= 5, "a >= 5"),
        (a == b, "a = b"),
        (a < b, "a < b"),
        (a.equals("x", ignore_case=True), "a = 'x' IGNORE CASE"),
        (a.not_equals("x", ignore_case=True), "a != 'x' IGNORE CASE"),
        (a.is_in(["x", 1]), "a IN ('x', 1)"),
        (a.is_in(range(3)), "a IN (0, 1, 2)"),
        (a.is_in([]), "a IN ()"),
        (a.not_in(("x",), ignore_case=True), "a NOT IN ('x') IGNORE CASE"),
        (a.between(1, 5), "a BETWEEN 1 AND 5"),
        (a.between(1, 5, lo_open=True, hi_open=True), "a IN ]1, 5["),
        (a.exists(), "EXISTS a"),
        (a.not_exists(), "NOT EXISTS a"),
        (a.prefix("x"), "a PREFIX 'x'"),
        (a.suffix("x", ignore_case=True), "a SUFFIX 'x' IGNORE CASE"),
        (a.contains("x"), "a CONTAINS 'x'"),
        (a.like("*"), "a LIKE '*'"),
        (a.matches("^x"), "a MATCHES '^x'"),
        (a.under("x/y"), "a UNDER 'x/y'"),
        (a.in_network("::/0"), "a IN_NETWORK '::/0'"),
        (any_attribute.contains("x", ignore_case=True), "ANY ATTRIBUTE CONTAINS 'x' IGNORE CASE"),
        (any_attribute.in_network("::/0"), "ANY ATTRIBUTE IN_NETWORK '::/0'"),
        ((a == 1) & (b == 2) & ~(a == 3), "a = 1 AND b = 2 AND NOT a = 3"),
        ((a == 1) | (b == 2) | ((a == 3) & (b == 4)), "a = 1 OR b = 2 OR (a = 3 AND b = 4)"),
        (~((a == 1) & (b == 2)), "NOT (a = 1 AND b = 2)"),
        (a == np.int64(1), "a = 1"),
        (a == np.float64(0.5), "a = 0.5"),
        (a == np.bool_(True), "a = TRUE"),
        (a.is_in(np.array(["x", "y"])), "a IN ('x', 'y')"),
        (a < datetime(2013, 1, 1, tzinfo=UTC), "a < '2013-01-01T00:00:00+00:00'"),
        (a < datetime(2013, 1, 1, tzinfo=timezone(-timedelta(hours=5))), "a < '2013-01-01T00:00:00-05:00'"),
    ],
)
def test_same_trees_as_the_text_form(condition: Condition, text: str) -> None:
    expected = parse_text(text)
    assert condition.expression == expected
    assert repr(condition.expression) == repr(expected)
    assert repr(condition) == f"<Condition {format_text(expected)}>"


def test_chains_are_flat() -> None:
    condition = a == 0
    for number in range(1, 500):
        condition |= a == number
    assert isinstance(condition.expression, Or) and len(condition.expression.children) == 500
    assert isinstance(((a == 1) & ((a == 2) | (a == 3))).expression, And)


def test_there_is_no_truth_value() -> None:
    for ask in (
        lambda: bool(a == 1),
        lambda: (a == 1) and (b == 2),
        lambda: not (a == 1),  # noqa: SIM201
        lambda: 1 < a < 5,
        lambda: a in [1, 2],
    ):
        with pytest.raises(TypeError, match="`&`"):
            ask()


@pytest.mark.parametrize("other", [1, True, None, "b = 2", a])
def test_only_conditions_combine(other: Any) -> None:
    with pytest.raises(TypeError):
        (a == 1) & other
    with pytest.raises(TypeError):
        (a == 1) | other


def test_attributes_find_no_keys() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)
    assert repr(a) == "attr('a')"


@pytest.mark.parametrize(
    "make",
    [
        lambda: a == None,  # noqa: E711
        lambda: a == float("nan"),
        lambda: a == 2**63,
        lambda: a == [1],
        lambda: a == b"x",
        lambda: a == np.array([1, 2]),
        lambda: a < True,
        lambda: a.is_in("xy"),
        lambda: a.is_in([None]),
        lambda: a.prefix(5),
        lambda: a.between(1, None),
        lambda: a.equals(5, ignore_case=True),
        lambda: a.is_in([b]),
        lambda: a == datetime(2013, 1, 1),
        lambda: attr("") == 1,
        lambda: attr(5) == 1,
        lambda: a == attr(""),
        lambda: a == "\ud800",
    ],
)
def test_mistakes_are_refused_at_once(make: Any) -> None:
    with pytest.raises(ExpressionError):
        make()


@given(strategies.expressions())
@settings(max_examples=50)
def test_to_expression_takes_every_form(expression: Expression) -> None:
    assert to_expression(expression) == expression
    assert to_expression(Condition(expression)) == expression
    assert to_expression(format_text(expression)) == expression
    assert to_expression(expression_to_json(expression)) == expression


@pytest.mark.parametrize("obj", [None, 5, b"a = 1", [], a, any_attribute, And, "a =", {"and": 5}])
def test_to_expression_refuses_everything_else(obj: Any) -> None:
    with pytest.raises(ExpressionError):
        to_expression(obj)


@pytest.mark.parametrize(
    "tree",
    [
        Atom("", Operator.EQ, 1),
        Atom("a", "=", 1),  # type: ignore[arg-type]
        Atom("a", Operator.EQ),
        Atom("a", Operator.EQ, float("nan")),
        Atom("a", Operator.EQ, (1,)),
        Atom("a", Operator.EQ, 1, lo=1),
        Atom("a", Operator.EQ, 1, other="b"),
        Atom("a", Operator.EXISTS, 1),
        Atom("a", Operator.IN, [1]),  # type: ignore[arg-type]
        Atom("a", Operator.IN, 1),
        Atom("a", Operator.BETWEEN, 1, lo=1, hi=2),
        Atom("a", Operator.BETWEEN, lo=1),
        Atom(None, Operator.EXISTS),
        Atom("a", Operator.LT, "x", ignore_case=True),
        And((Atom("a", Operator.EQ, 1), "b = 2")),  # type: ignore[arg-type]
        Not(And),  # type: ignore[arg-type]
    ],
)
def test_trees_made_by_hand_are_checked(tree: Expression) -> None:
    with pytest.raises(ExpressionError):
        to_expression(tree)


def test_trees_made_by_hand_have_limits() -> None:
    deep: Expression = Atom("a", Operator.EQ, 1)
    for _ in range(10_000):
        deep = Not(deep)
    wide = Or((Atom("a", Operator.EQ, 1),) * 20_000)
    for tree in (deep, wide):
        with pytest.raises(LimitError):
            to_expression(tree)
