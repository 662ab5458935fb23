"""The naive matcher on its own: each rule of the semantics once, by hand, and laws that must hold."""

from __future__ import annotations

import math
from typing import Any

import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.batch import decode_payload, event_values, payload_from_dicts
from pubsub_cluster.language.errors import (
    DomainError,
    DuplicateIdError,
    EventError,
    ExpressionError,
    LimitError,
    PubSubError,
    UnknownIdError,
    WindowError,
)
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator, Or
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.naive import NaiveMatcher, compile_expression, holds
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, DomainKind, Schema
from pubsub_cluster.language.text_form import parse_text

SCHEMA = Schema(
    (
        Attribute("n", DomainKind.INTEGER),
        Attribute("s", DomainKind.STRING),
        Attribute("b", DomainKind.BOOLEAN),
        Attribute("t", DomainKind.TIMESTAMP),
        Attribute("size", DomainKind.ENUMERATED, ("small", "medium", "large"), ordered=True),
        Attribute("colour", DomainKind.ENUMERATED, ("red", "green")),
        Attribute("kind", DomainKind.HIERARCHICAL, ("furniture/dining/table", "furniture/bed", "garden")),
    )
)


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("TRUE", {}, True),
        ("FALSE", {"a": 1}, False),
        # kinds never mix
        ("a = 1", {"a": 1.0}, True),
        ("a = 1", {"a": True}, False),
        ("a = TRUE", {"a": 1}, False),
        ('a = "1"', {"a": 1}, False),
        ('a != "1"', {"a": 1}, False),
        ("a != 1", {"a": True}, False),
        ("a != TRUE", {"a": False}, True),
        ("a IN (1, TRUE)", {"a": 1.0}, True),
        ("a IN (0, TRUE)", {"a": 1.0}, False),
        ("a < 2", {"a": False}, False),
        ('a BETWEEN 1 AND "x"', {"a": 1}, False),
        # exact numbers
        ("a = 9007199254740993", {"a": 2.0**53}, False),
        ("a > 9007199254740992.0", {"a": 2**53 + 1}, True),
        ("a < inf", {"a": 1e308}, True),
        ("a = inf", {"a": math.inf}, True),
        ("a = 0", {"a": -0.0}, True),
        # missing, null, negation
        ("a != 1", {}, False),
        ("a NOT IN (1)", {"a": None}, False),
        ("NOT a = 1", {}, True),
        ("NOT a > 1", {"a": "x"}, True),
        ("NOT EXISTS a", {"a": []}, True),
        ("EXISTS a", {"a": [None]}, False),
        # several values
        ("a < 1 AND a > 2", {"a": [0, 3]}, True),
        ("a BETWEEN 1 AND 2", {"a": [0, 3]}, False),
        ("a != 1", {"a": [1, 2]}, True),
        ("NOT a = 1", {"a": [1, 2]}, False),
        ("a NOT IN (1, 2)", {"a": [1, 2]}, False),
        ("a NOT IN (1, 2)", {"a": [1, 3]}, True),
        ('a NOT IN (1, "x")', {"a": 3}, False),
        ("a NOT IN ()", {"a": 3}, True),
        ("a NOT IN ()", {}, False),
        # ranges
        ("a IN [1, 2)", {"a": 2}, False),
        ("a IN (1, 2]", {"a": 2}, True),
        ("a BETWEEN 5 AND 1", {"a": 3}, False),
        ('a BETWEEN "a" AND "b"', {"a": "aa"}, True),
        ('a > "\uffff"', {"a": "😀"}, True),
        # text
        ('a PREFIX "J"', {"a": "JFK"}, True),
        ('a PREFIX "j" IGNORE CASE', {"a": "JFK"}, True),
        ('a SUFFIX ""', {"a": ""}, True),
        ('a CONTAINS "F"', {"a": 7}, False),
        ('a LIKE "J*\\\\*"', {"a": "JFK*"}, True),
        ('a MATCHES "^J.K$"', {"a": "JFK"}, True),
        ('a IN_NETWORK "10.0.0.0/8"', {"a": "10.1.1.1"}, True),
        ('a = "jfk" IGNORE CASE', {"a": "JFK"}, True),
        ('a != "jfk" IGNORE CASE', {"a": "JFK"}, False),
        ('a IN ("jfk") IGNORE CASE', {"a": "JFK"}, True),
        ('a NOT IN ("jfk") IGNORE CASE', {"a": "LAX"}, True),
        ('a NOT IN ("jfk") IGNORE CASE', {"a": 3}, False),
        ('ANY ATTRIBUTE CONTAINS "F"', {"x": 1, "y": ["A", "JFK"]}, True),
        ('ANY ATTRIBUTE CONTAINS "F"', {"F": "x"}, False),
        # two attributes
        ("a < c", {"a": 1, "c": 1.5}, True),
        ("a < c", {"a": 1, "c": "x"}, False),
        ("a != c", {"a": 1, "c": "x"}, False),
        ("a = c", {"a": [1, 2], "c": [2, 3]}, True),
        ("a = c", {"a": True, "c": 1}, False),
        ("a < c", {"a": False, "c": True}, False),
        ("a = c", {"a": 1}, False),
        # flattened names
        ("a.b = 1", {"a": {"b": 1}}, True),
        # declared domains
        ('size > "small"', {"size": "large"}, True),
        ('size BETWEEN "small" AND "medium"', {"size": "large"}, False),
        ('colour != "red"', {"colour": "green"}, True),
        ('t = "1970-01-01T01:00:00+01:00"', {"t": 0}, True),
        ('t < "1970-01-01T00:00:01Z"', {"t": "1970-01-01T00:00:00.5Z"}, True),
        ('kind UNDER "furniture"', {"kind": "furniture/dining/table"}, True),
        ('kind UNDER "furniture"', {"kind": "furniture"}, True),
        ('kind UNDER "furniture/dining"', {"kind": "furniture/bed"}, False),
        ('kind = "furniture"', {"kind": "furniture/bed"}, False),
    ],
)
def test_rules(text: str, event: dict[str, Any], expected: bool) -> None:
    expression = parse_text(text, SCHEMA)
    assert holds(expression, flatten_event(event, SCHEMA), SCHEMA) is expected
    matcher = NaiveMatcher(SCHEMA)
    matcher.subscribe("it", expression)
    assert matcher.match(event) == (["it"] if expected else [])


@pytest.mark.parametrize(
    "atom",
    [
        Atom("n", Operator.EQ, "x"),
        Atom("n", Operator.EQ, True),
        Atom("s", Operator.LT, 1),
        Atom("n", Operator.PREFIX, "1"),
        Atom("b", Operator.IN, (True, 1)),
        Atom("colour", Operator.LT, "red"),
        Atom("colour", Operator.EQ, "blue"),
        Atom("size", Operator.EQ, "SMALL", ignore_case=True),
        Atom("kind", Operator.GE, "garden"),
        Atom("kind", Operator.UNDER, "attic"),
        Atom("s", Operator.UNDER, "garden"),
        Atom("z", Operator.UNDER, "garden"),
        Atom("t", Operator.EQ, "yesterday"),
        Atom("n", Operator.LT, other="s"),
        Atom("t", Operator.LT, other="n"),
        Atom("t", Operator.LT, other="z"),
        Atom("b", Operator.LT, other="b"),
    ],
)
def test_what_a_schema_refuses(atom: Atom) -> None:
    with pytest.raises(DomainError):
        NaiveMatcher(SCHEMA).subscribe("it", atom)
    with pytest.raises(DomainError):
        normalise(atom, SCHEMA)


def test_a_closed_schema() -> None:
    matcher = NaiveMatcher(Schema(SCHEMA.attributes, closed=True))
    with pytest.raises(DomainError):
        matcher.subscribe("it", Atom("z", Operator.EXISTS))
    with pytest.raises(EventError):
        matcher.match({"z": 1})


@pytest.mark.parametrize(
    "atom",
    [
        Atom("a", Operator.EQ, None),
        Atom("a", Operator.EQ, math.nan),
        Atom("a", Operator.EQ, 2**63),
        Atom("a", Operator.LT, True),
        Atom("a", Operator.MATCHES, "("),
        Atom("a", Operator.IN_NETWORK, "x"),
        Atom("", Operator.EXISTS),
        Atom(None, Operator.EXISTS),
    ],
)
def test_atoms_that_are_refused_change_nothing(atom: Atom) -> None:
    matcher = NaiveMatcher()
    matcher.subscribe("it", Atom("a", Operator.EQ, 1))
    with pytest.raises(ExpressionError):
        matcher.subscribe("other", atom)
    with pytest.raises(ExpressionError):
        matcher.update("it", atom)
    assert len(matcher) == 1
    assert matcher.match({"a": 1}) == ["it"]


def test_ids_and_order() -> None:
    matcher = NaiveMatcher()
    for name in ("z", "a", "m"):
        matcher.subscribe(name, And(()))
    with pytest.raises(DuplicateIdError):
        matcher.subscribe("a", Or(()))
    with pytest.raises(UnknownIdError):
        matcher.update("q", And(()))
    with pytest.raises(UnknownIdError):
        matcher.unsubscribe("q")
    matcher.update("z", Atom("a", Operator.EXISTS))
    assert matcher.match({"a": 1}) == ["z", "a", "m"]
    assert matcher.match({}) == ["a", "m"]
    matcher.unsubscribe("z")
    matcher.subscribe("z", And(()))
    assert matcher.match({}) == ["a", "m", "z"]


def test_windows() -> None:
    matcher = NaiveMatcher()
    matcher.subscribe("it", And(()), valid_from=10, valid_until=20)
    matcher.subscribe("always", And(()))
    assert [matcher.match({}, at) for at in (9, 10, 19, 20)] == [
        ["always"],
        ["it", "always"],
        ["it", "always"],
        ["always"],
    ]
    assert matcher.match({}) == ["it", "always"]
    matcher.update("it", And(()), valid_until=30)
    assert matcher.match({}, 29) == ["it", "always"]
    assert matcher.match({}, 5) == ["it", "always"]  # the clock does not run backwards
    with pytest.raises(WindowError):
        matcher.update("it", And(()), valid_from=30)
    with pytest.raises(WindowError):
        matcher.subscribe("other", And(()), valid_from=1, valid_until=1)
    with pytest.raises(DuplicateIdError):  # an expired subscription keeps its id
        matcher.subscribe("it", And(()))


def test_limits() -> None:
    matcher = NaiveMatcher(limits=Limits(nesting_depth_max=2, nodes_per_subscription_max=4))
    matcher.subscribe("deep", Not(Not(Atom("a", Operator.EXISTS))))
    with pytest.raises(LimitError):
        matcher.subscribe("deeper", Not(Not(Not(Atom("a", Operator.EXISTS)))))
    with pytest.raises(LimitError):
        matcher.subscribe("wide", Atom("a", Operator.IN, (1, 2, 3, 4, 5)))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_laws(data: st.DataObject) -> None:
    schema = data.draw(strategies.schemas())
    first = data.draw(strategies.expressions(schema))
    second = data.draw(strategies.expressions(schema))
    values = flatten_event(data.draw(strategies.events(schema)), schema)

    def truth(expression: Expression) -> bool:
        return holds(expression, values, schema)

    assert truth(Not(first)) is not truth(first)
    assert truth(And((first, second))) is (truth(first) and truth(second))
    assert truth(Or((first, second))) is (truth(first) or truth(second))
    assert truth(Not(And((first, second)))) is truth(Or((Not(first), Not(second))))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_decoded_events_match_as_given_ones(data: st.DataObject) -> None:
    schema = data.draw(strategies.schemas())
    matcher = NaiveMatcher(schema)
    for at, expression in enumerate(data.draw(st.lists(strategies.expressions(schema), max_size=4))):
        matcher.subscribe(str(at), expression)
    given_events = data.draw(st.lists(strategies.events(schema, refusable=True), max_size=4))
    payload = payload_from_dicts(given_events)
    raw = decode_payload(payload.header, payload.buffers, schema)
    for event_idx, event in enumerate(given_events):
        try:
            expected = matcher.match(event)
        except EventError:
            assert event_idx in raw.refused
        else:
            assert event_idx not in raw.refused
            assert matcher.match_canonical(event_values(raw, event_idx)) == expected


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_refuses_what_normalising_refuses(data: st.DataObject) -> None:
    schema = data.draw(st.one_of(st.just(EMPTY_SCHEMA), strategies.schemas()))
    expression = data.draw(strategies.expressions())  # suits no schema in particular
    outcomes = []
    for attempt in (compile_expression, normalise):
        try:
            attempt(expression, schema)
        except PubSubError as refused:
            outcomes.append(type(refused))
        else:
            outcomes.append(None)
    assert (outcomes[0] is None) is (outcomes[1] is None), outcomes
