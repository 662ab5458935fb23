"""Events: flattening, what is refused and why, and declared domains."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.events import EventReader, flatten_event
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, DomainKind, Schema

SMALL = Limits(
    nesting_depth_max=3, attributes_per_event_max=4, string_size_bytes_max=8, name_size_bytes_max=8
)
FLIGHTS = Schema(
    (
        Attribute("n", DomainKind.INTEGER),
        Attribute("f", DomainKind.FLOAT),
        Attribute("s", DomainKind.STRING),
        Attribute("b", DomainKind.BOOLEAN),
        Attribute("t", DomainKind.TIMESTAMP),
        Attribute("e", DomainKind.ENUMERATED, ("low", "high"), ordered=True),
        Attribute("h", DomainKind.HIERARCHICAL, ("furniture/dining/table", "furniture/bed")),
        Attribute("u", DomainKind.INTEGER, unique=True),
    )
)


@pytest.mark.parametrize(
    ("event", "flat"),
    [
        ({}, {}),
        ({"a": 1, "b": "x", "c": True, "d": 2.5}, {"a": (1,), "b": ("x",), "c": (True,), "d": (2.5,)}),
        ({"a": None, "b": [], "c": {}, "d": [None]}, {}),
        ({"a": [1, "x", None, False]}, {"a": (1, "x", False)}),
        ({"a": {"b": {"c": 1}, "d": 2}}, {"a.b.c": (1,), "a.d": (2,)}),
        ({"a": [{"b": 1}, {"b": 2, "c": 3}, 4]}, {"a.b": (1, 2), "a.c": (3,), "a": (4,)}),
        ({"a": [[1, 2], [3]]}, {"a": (1, 2, 3)}),
        ({"a": (1, 2)}, {"a": (1, 2)}),
        ({"a.b": 1, "a": {"c": 2}}, {"a.b": (1,), "a.c": (2,)}),
        ({"a.b": None, "a": {"b": 2}}, {"a.b": (2,)}),
        (
            {"a": float("inf"), "b": INT64_MIN, "c": -0.0},
            {"a": (float("inf"),), "b": (INT64_MIN,), "c": (0.0,)},
        ),
        ({"a": "\0", "é😀": ""}, {"a": ("\0",), "é😀": ("",)}),
    ],
)
def test_flattened(event: dict[str, Any], flat: dict[str, Any]) -> None:
    found = flatten_event(event)
    assert found == flat
    assert [list(map(type, values)) for values in found.values()] == [
        list(map(type, values)) for values in flat.values()
    ]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (None, "not an object"),
        ([{"a": 1}], "not an object"),
        ("a", "not an object"),
        ({"": 1}, "name is empty"),
        ({"": None}, "name is empty"),
        ({"a": {"": 1}}, "name is empty"),
        ({1: 1}, "not text"),
        ({"\ud800": 1}, "not valid Unicode"),
        ({"a": "x\udfff"}, "not valid Unicode"),
        ({"a": ["x\udfff"]}, "not valid Unicode"),
        ({"a": float("nan")}, "NaN"),
        ({"a": [float("nan")]}, "NaN"),
        ({"a": INT64_MAX + 1}, "outside 64 bits"),
        ({"a": INT64_MIN - 1}, "outside 64 bits"),
        ({"a": b"x"}, "type that JSON does not have"),
        ({"a": datetime.date(2013, 1, 1)}, "RFC 3339"),
        ({"a": {1, 2}}, "type that JSON does not have"),
        ({"a.b": 1, "a": {"b": 2}}, "two entries"),
        ({"a": {"b": {"c": 1}, "b.c": 2}}, "two entries"),
        ({"a": [{"b.c": 1}, {"b": {"c": 2}}]}, "two entries"),
    ],
)
def test_refused(event: Any, said: str) -> None:
    with pytest.raises(EventError) as caught:
        flatten_event(event)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("event", "limit_name"),
    [
        ({"a": "123456789"}, "string_size_bytes_max"),
        ({"a": "ééééé"}, "string_size_bytes_max"),
        ({"123456789": 1}, "name_size_bytes_max"),
        ({"12345": {"6789": 1}}, "name_size_bytes_max"),
        ({"a": [1, 2, 3, 4, 5]}, "attributes_per_event_max"),
        (dict.fromkeys("abcde", 1), "attributes_per_event_max"),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, "nesting_depth_max"),
        ({"a": [[[[]]]]}, "nesting_depth_max"),
    ],
)
def test_limits(event: Any, limit_name: str) -> None:
    with pytest.raises(EventError) as caught:
        flatten_event(event, EMPTY_SCHEMA, SMALL)
    assert caught.value.fields["limit_name"] == limit_name


def test_just_inside_the_limits() -> None:
    event = {"a": "éééé", "12345678": 1, "c": {"d": [2]}}
    assert flatten_event(event, EMPTY_SCHEMA, SMALL) == {"a": ("éééé",), "12345678": (1,), "c.d": (2,)}


def test_very_deep_events_do_not_overflow_the_stack() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(EventError, match="nested too deeply"):
        flatten_event({"a": deep})


def test_declared_domains() -> None:
    event = {
        "n": 1.0, "f": 2, "s": "x", "b": False, "t": "1970-01-01T00:00:01Z", "e": "high",
        "h": "furniture/bed", "z": "?",
    }  # fmt: skip
    flat = flatten_event(event, FLIGHTS)
    assert flat == {
        "n": (1,), "f": (2,), "s": ("x",), "b": (False,), "t": (1_000_000,), "e": (1,), "h": (3,),
        "z": ("?",),
    }  # fmt: skip
    assert flatten_event({"n": [1, 2.0], "u": [None, 7]}, FLIGHTS) == {"n": (1, 2), "u": (7,)}


@pytest.mark.parametrize(
    "event",
    [
        {"n": 1.5}, {"n": "1"}, {"n": True}, {"n": float("inf")}, {"f": "x"}, {"s": 1}, {"b": 1}, {"t": 1.0},
        {"t": "2013-01-01"}, {"e": "medium"}, {"e": 1}, {"h": "garden"}, {"n": [1, "x"]}, {"u": [1, 2]},
    ],
)  # fmt: skip
def test_values_outside_their_domain(event: dict[str, Any]) -> None:
    with pytest.raises(EventError) as caught:
        flatten_event(event, FLIGHTS)
    assert caught.value.fields["attribute"] in event


def test_a_closed_schema() -> None:
    closed = Schema((Attribute("origin", DomainKind.STRING),), closed=True)
    assert flatten_event({"origin": "JFK", "x": None}, closed) == {"origin": ("JFK",)}
    with pytest.raises(EventError, match="Did you mean 'origin'"):
        flatten_event({"orign": "JFK"}, closed)
    with pytest.raises(EventError):
        flatten_event({"x": [1]}, closed)


def test_a_reader_remembers_names_but_not_refusals() -> None:
    reader = EventReader()
    for _ in range(2):
        assert reader.flatten({"a": 1}) == {"a": (1,)}
        with pytest.raises(EventError):
            reader.flatten({"": 1})


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(INT64_MIN, INT64_MAX),
    st.floats(allow_nan=False),
    st.text(max_size=3),
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=2), scalars, max_size=5))
def test_flat_events_read_the_same_on_both_ways(event: dict[str, Any]) -> None:
    assert flatten_event(event) == {name: (value,) for name, value in event.items() if value is not None}
    nested = {"x": event}
    assert flatten_event(nested) == {f"x.{name}": values for name, values in flatten_event(event).items()}


SECOND = datetime.datetime(1970, 1, 1, 9, 0, 1, 5, datetime.timezone(datetime.timedelta(hours=9)))


def test_an_instant_is_taken_where_the_attribute_is_one() -> None:
    before = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
    flat = flatten_event({"t": SECOND, "s": "x"}, FLIGHTS)
    assert flat == {"t": (1_000_005,), "s": ("x",)}
    assert flatten_event({"t": [SECOND, before, 7]}, FLIGHTS)["t"] == (1_000_005, -62_135_596_800_000_000, 7)
    for name in ("n", "s", "undeclared"):
        with pytest.raises(EventError, match="Declare the attribute as `timestamp`"):
            flatten_event({name: SECOND}, FLIGHTS)
        with pytest.raises(EventError, match="Declare the attribute as `timestamp`"):
            flatten_event({name: [SECOND]}, FLIGHTS)


@pytest.mark.parametrize(
    "value", [SECOND.replace(tzinfo=None), SECOND.date(), SECOND.time(), datetime.timedelta(1)]
)
def test_what_is_no_instant_is_refused_everywhere(value: Any) -> None:
    for name in ("t", "s", "undeclared"):
        with pytest.raises(EventError, match="RFC 3339 text with an offset"):
            flatten_event({name: value}, FLIGHTS)
