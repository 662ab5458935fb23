"""What has no normal form: constants and comparisons that do not suit their attributes, unknown names."""

from __future__ import annotations

from typing import Any

import pytest
import strategies
from hypothesis import given, settings
from test_language_normalise import SCHEMA, form, predicate

from pubsub_cluster.language.errors import CallerError, DomainError, ExpressionError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import And, Atom, Expression, Operator
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import compile_expression
from pubsub_cluster.language.normal_truth import form_holds
from pubsub_cluster.language.normalise import never, normalise
from pubsub_cluster.language.predicate import PredicateKind
from pubsub_cluster.language.schema import Attribute, Schema


@pytest.mark.parametrize(
    ("text", "attribute", "seen"),
    [
        ('n = "1"', "n", "1"),
        ("n = TRUE", "n", True),
        ("s = 1", "s", 1),
        ('ok = "true"', "ok", "true"),
        ("ok = 1", "ok", 1),
        ('t < "1970-01-01T00:00:00"', "t", "1970-01-01T00:00:00"),
        ("t < 1.5", "t", 1.5),
        ('grade = "hihg"', "grade", "hihg"),
        ('kind UNDER "x/q"', "kind", "x/q"),
        ('n PREFIX "1"', "n", "1"),
        ('grade LIKE "h*"', "grade", "h*"),
        ('grade = "HIGH" IGNORE CASE', "grade", "HIGH"),
        ('colour < "red"', "colour", "red"),
        ('kind >= "x"', "kind", "x"),
        ('s UNDER "x"', "s", "x"),
        ('undeclared UNDER "x"', "undeclared", "x"),
        ("f IN (1, FALSE)", "f", False),
    ],
)
def test_constants_must_suit_the_declaration(text: str, attribute: str, seen: Any) -> None:
    with pytest.raises(DomainError) as refused:
        form(text, SCHEMA)
    assert refused.value.fields["attribute"] == attribute
    assert refused.value.seen == seen and type(refused.value.seen) is type(seen)


@pytest.mark.parametrize(
    "text",
    [
        "n < s",
        "t = n",
        "t < undeclared",
        "grade = colour",
        "colour < colour",
        "ok < ok",
        "kind = grade",
        "kind > kind",
    ],
)
def test_attributes_of_different_meaning_do_not_compare(text: str) -> None:
    with pytest.raises(DomainError):
        form(text, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "n < f",
        "n = undeclared",
        "s < undeclared",
        "ok = ok",
        "t < t",
        "grade < grade",
        "colour != colour",
        "a < b",
    ],
)
def test_attributes_of_one_meaning_compare(text: str) -> None:
    assert predicate(text, SCHEMA).kind is PredicateKind.COMPARE


def test_a_closed_schema_refuses_unknown_attributes() -> None:
    closed = Schema((Attribute("price", "float"),), closed=True)
    with pytest.raises(DomainError, match="price"):
        form("prices > 1", closed)
    with pytest.raises(DomainError):
        form("price < prices", closed)
    assert not never(form('ANY ATTRIBUTE CONTAINS "x"', closed))


@pytest.mark.parametrize(
    "text", ['s MATCHES "("', 's MATCHES "(a)\\\\1"', 's IN_NETWORK "10.0.0.0/33"', 's IN_NETWORK "x"']
)
def test_patterns_must_compile(text: str) -> None:
    with pytest.raises(ExpressionError):
        form(text)


def test_booleans_have_no_order() -> None:
    for atom in (Atom("a", Operator.LT, True), Atom("a", Operator.BETWEEN, lo=False, hi=1)):
        with pytest.raises(ExpressionError, match="no order"):
            normalise(atom)
    with pytest.raises(ExpressionError):
        expression_from_json({"attr": "a", "op": ">=", "value": False})


def test_what_is_no_tree_is_refused() -> None:
    text: Any = "a = 1"
    with pytest.raises(ExpressionError):
        normalise(And((text,)))
    with pytest.raises(ExpressionError):
        normalise(Atom("a", Operator.EQ, float("nan")))


@given(strategies.schemas(), strategies.expressions(max_leaves=3), strategies.events())
@settings(max_examples=200)
def test_refuses_what_the_naive_matcher_refuses(
    schema: Schema, expression: Expression, event: dict[str, Any]
) -> None:
    """Expressions that know nothing of the schema: both accept them, or neither does."""
    try:
        test = compile_expression(expression, schema)
    except CallerError as refused:
        with pytest.raises(type(refused)):
            normalise(expression, schema)
        return
    found = normalise(expression, schema)
    try:
        values = flatten_event(event, schema, DEFAULT_LIMITS)
    except CallerError:
        return
    assert form_holds(found, values) == test(values)
