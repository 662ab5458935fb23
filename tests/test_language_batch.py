"""Payloads in all formats: what goes in comes out, bad events cost only themselves."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from payload_cases import SCHEMA, check_arrays, column_batches

from pubsub_cluster.language.batch import (
    Payload,
    RawBatch,
    check_payload,
    decode_payload,
    decode_some,
    event_as_json,
    event_values,
    payload_from_columns,
    payload_from_dicts,
    payload_from_json,
)
from pubsub_cluster.language.errors import CallerError, EventError, LimitError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, DomainKind, Schema
from pubsub_cluster.language.values import number_key

CLOSED = Schema((Attribute("n", DomainKind.INTEGER), Attribute("s", DomainKind.STRING)), closed=True)
TIGHT = Limits(attributes_per_event_max=4, string_size_bytes_max=6, nesting_depth_max=2)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([INT64_MAX, INT64_MIN, INT64_MAX + 1, 2**53 + 1, 2**64]),
    st.sampled_from([0.0, -0.0, 1.0, 2.5, -0.5, 2.0**63, -(2.0**63), 1e300, math.inf, -math.inf, math.nan]),
    st.sampled_from(
        ["", "x", "low", "high", "a/b", "é😀", "\0", "1970-01-01T00:00:01Z", "1234567", "\ud800"]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
names = st.sampled_from(["n", "f", "s", "b", "t", "e", "h", "z", "x.y", "x", "", "\ud800"])
events_lists = st.lists(st.dictionaries(names, values, max_size=4), max_size=6)
settings_of_cluster = st.sampled_from(
    [(EMPTY_SCHEMA, DEFAULT_LIMITS), (SCHEMA, DEFAULT_LIMITS), (CLOSED, DEFAULT_LIMITS), (SCHEMA, TIGHT)]
)


def keyed(flat: dict[str, tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Values as (kind, exact value), in the order of `event_values`."""

    def key(value: Any) -> tuple[int, Any]:
        if isinstance(value, bool):
            return 0, value
        return (2, value) if isinstance(value, str) else (1, number_key(value))

    return {name: sorted(map(key, found), key=lambda pair: pair[0]) for name, found in flat.items()}


def check_against_flatten(
    payload: Payload, events: list[Any], schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS
) -> RawBatch:
    check_payload(json.loads(json.dumps(payload.header)), payload.buffers, limits)
    raw = decode_payload(payload.header, payload.buffers, schema, limits)
    assert raw.event_count == len(events)
    check_arrays(raw)
    for event_idx, event in enumerate(events):
        try:
            expected = flatten_event(event, schema, limits)
        except EventError:
            assert event_idx in raw.refused
            expected = {}
        else:
            assert event_idx not in raw.refused, raw.refused[event_idx]
        assert keyed(event_values(raw, event_idx)) == keyed(expected)
    return raw


@settings(max_examples=100, deadline=None)
@given(events_lists, settings_of_cluster)
def test_dictionaries_decode_as_they_flatten(
    events: list[dict[str, Any]], cluster: tuple[Schema, Limits]
) -> None:
    payload = payload_from_dicts(events)
    raw = check_against_flatten(payload, events, *cluster)
    assert set(payload.refused) <= set(raw.refused)


@settings(max_examples=100, deadline=None)
@given(events_lists, settings_of_cluster, st.booleans())
def test_json_decodes_as_it_flattens(
    events: list[dict[str, Any]], cluster: tuple[Schema, Limits], as_array: bool
) -> None:
    lines = [json.dumps(event) for event in events]
    if as_array:
        kept = [at for at, line in enumerate(lines) if not {"NaN", "Infinity"} & set(_words(line))]
        kept = [at for at in kept if "\\ud800" not in lines[at]]
        payload = payload_from_json("[" + ", ".join(lines[at] for at in kept) + "]")
        check_against_flatten(payload, [events[at] for at in kept], *cluster)
        return
    payload = payload_from_json("\n".join(lines))
    finite = [None if {"Infinity", "NaN"} & set(_words(line)) else json.loads(line) for line in lines]
    check_against_flatten(payload, finite, *cluster)


def _words(line: str) -> list[str]:
    return "".join(char if char.isalpha() else " " for char in line).split()


@settings(max_examples=100, deadline=None)
@given(column_batches(), settings_of_cluster)
def test_columns_decode_as_their_events_flatten(
    batch: tuple[dict[str, Any], list[Any], list[dict[str, Any]]], cluster: tuple[Schema, Limits]
) -> None:
    header, buffers, events = batch
    raw = check_against_flatten(Payload(header, buffers, {}), events, *cluster)
    for event_idx, event in enumerate(events):
        if event_idx not in raw.refused:
            back = json.loads(event_as_json(header, buffers, event_idx))
            present = {name: value for name, value in event.items() if value != []}
            assert back == _spelt(present)


@settings(max_examples=100, deadline=None)
@given(events_lists)
def test_one_event_comes_back_as_it_was_given(events: list[dict[str, Any]]) -> None:
    payload = payload_from_dicts(events)
    raw = decode_payload(payload.header, payload.buffers)
    for event_idx, event in enumerate(events):
        if event_idx not in raw.refused:
            assert json.loads(event_as_json(payload.header, payload.buffers, event_idx)) == _spelt(event)


@settings(max_examples=100, deadline=None)
@given(st.one_of(column_batches(), events_lists), settings_of_cluster, st.data())
def test_some_of_a_batch_is_what_it_is_in_the_whole(
    batch: Any, cluster: tuple[Schema, Limits], draw: st.DataObject
) -> None:
    if isinstance(batch, list):
        payload = payload_from_dicts(batch)
        batch = payload.header, payload.buffers, batch
    header, buffers, events = batch
    whole = decode_payload(header, buffers, *cluster)
    accepted = [event_idx for event_idx in range(len(events)) if event_idx not in whole.refused]
    picked = sorted(draw.draw(st.sets(st.sampled_from(accepted)))) if accepted else []
    wanted = draw.draw(st.sets(st.sampled_from("nfsbtehz")))
    raw = decode_some(header, buffers, picked, wanted, *cluster)
    check_arrays(raw)
    assert raw.event_count == len(picked) and not raw.refused
    for place, event_idx in enumerate(picked):
        here, there = event_values(raw, place), event_values(whole, event_idx)
        for name in wanted:
            assert keyed({name: here.get(name, ())}) == keyed({name: there.get(name, ())})


def _spelt(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return {"$float": "inf" if value > 0 else "-inf"}
    if isinstance(value, dict):
        return {name: _spelt(inner) for name, inner in value.items()}
    return [_spelt(inner) for inner in value] if isinstance(value, list) else value


def test_columns_from_arrays_and_lists() -> None:
    columns = {
        "i": np.array([1, 2, 3], dtype=np.int16),
        "u": np.array([1, 2, 3], dtype=np.uint64),
        "f": np.array([0.5, 1.5, 2.5], dtype=np.float32),
        "b": np.array([True, False, True]),
        "s": np.array(["JFK", "é", ""]),
        "o": np.array(["x", None, "y"], dtype=object),
        "l": [None, 1, 2],
        "m": np.ma.MaskedArray([1.0, math.nan, 3.0], mask=[False, True, False]),
        "t": np.array(["1970-01-01T00:00:01", "NaT", "1969-12-31T23:59:59"], dtype="datetime64[s]"),
        "p": [None, None, None],
    }
    payload = payload_from_columns(columns)
    assert payload.header["format"] == "columns"
    assert payload.size_bytes == sum(len(bytes(buffer)) for buffer in payload.buffers)
    events = [
        {"i": 1, "u": 1, "f": 0.5, "b": True, "s": "JFK", "o": "x", "m": 1.0, "t": 1_000_000},
        {"i": 2, "u": 2, "f": 1.5, "b": False, "s": "é", "l": 1},
        {"i": 3, "u": 3, "f": 2.5, "b": True, "s": "", "o": "y", "l": 2, "m": 3.0, "t": -1_000_000},
    ]
    check_against_flatten(payload, events)


@pytest.mark.parametrize(
    ("column", "refused"),
    [
        ([1, "x", 2.5], []),
        ([1, [2, 3], None], []),
        ([1, 2**63, 2], [1]),
        (np.array([1, 2**63, 2], dtype=np.uint64), [1]),
        (["x", "\ud800", "y"], [1]),
        ([np.int64(1), np.str_("x"), np.float32(0.5)], []),
        ([1.0, math.nan, 2.0], [1]),
        (np.array([1.0, math.nan, 2.0]), [1]),
        ([{1}, b"x", object()], [1, 2]),
    ],
)
def test_columns_that_only_rows_can_carry(column: Any, refused: list[int]) -> None:
    payload = payload_from_columns({"a": column, "b": [0, 1, 2]})
    raw = decode_payload(payload.header, payload.buffers)
    assert sorted(raw.refused) == refused
    assert set(payload.refused) <= set(raw.refused)
    for event_idx in set(range(3)) - set(refused):
        assert event_values(raw, event_idx)["b"] == (event_idx,)


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
@given(counts=st.lists(st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-(10**7), 10**7), min_size=1))
def test_instants_that_microseconds_do_not_hold_are_refused(unit: str, counts: list[int]) -> None:
    column = np.array(counts).view(f"datetime64[{unit}]")
    payload = payload_from_columns({"t": column})
    days = {"Y": 365.2425, "M": 365.2425 / 12, "W": 7.0, "D": 1.0}
    seconds = {"h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    unit_us = 1e6 * seconds.get(unit, 86_400 * days.get(unit, 0.0))
    raw = decode_payload(payload.header, payload.buffers)
    for event, count in enumerate(counts):
        about = count * unit_us
        if abs(about) < 0.999 * 2**63:
            assert abs(event_values(raw, event)["t"][0] - about) <= 1e-4 * abs(about) + 3 * 86_400e6
        elif abs(about) > 1.001 * 2**63:
            assert event in raw.refused


def test_bytes_in_the_other_order_are_the_same_numbers() -> None:
    wide = [2**63 + 1, 5]
    for order in "<>":
        payload = payload_from_columns({"a": np.array(wide, dtype=f"{order}u8")})
        raw = decode_payload(payload.header, payload.buffers)
        assert set(raw.refused) == {0} and event_values(raw, 1) == {"a": (5,)}


@pytest.mark.parametrize(
    "columns",
    [
        {"a": [1], "b": [1, 2]},
        {"a": np.zeros((2, 2))},
        {"a": np.array([1j])},
        {"a": np.array([b"x"])},
        {"a": np.zeros(1, dtype="timedelta64[s]")},
    ],
)
def test_columns_that_are_refused(columns: dict[str, Any]) -> None:
    with pytest.raises(CallerError):
        payload_from_columns(columns)


def test_empty_batches() -> None:
    for payload in (
        payload_from_dicts([]),
        payload_from_json(b""),
        payload_from_json("[]"),
        payload_from_columns({}),
    ):
        check_against_flatten(payload, [])
    check_against_flatten(payload_from_columns({"a": np.zeros(0), "b": []}), [])
    check_against_flatten(payload_from_dicts([{}, {"a": []}]), [{}, {}])


def test_json_lines() -> None:
    text = b'\xef\xbb\xbf{"a": 1}\r\n\n  {"a": 12345678901234567890}\nnonsense\n{"a":NaN}\n{"a":1e400}\n'
    payload = payload_from_json(
        text + b'{"a":1,"a":2}\n{"a":"\\ud800"}\n{"a":"\xff"}\n[1]\n{"a":[1, null, {"b":-0.0}]}'
    )
    raw = decode_payload(payload.header, payload.buffers)
    assert raw.event_count == 10
    assert sorted(raw.refused) == [1, 2, 3, 4, 6, 7, 8]
    assert "outside 64 bits" in str(raw.refused[1])
    assert event_values(raw, 5) == {"a": (2,)}
    assert event_values(raw, 9) == {"a": (1,), "a.b": (0,)}
    assert event_as_json(payload.header, payload.buffers, 0) == b'{"a": 1}'
    assert payload_from_json('{\n "a": 1\n}').header["event_count"] == 1
    with pytest.raises(CallerError, match="not well formed"):
        payload_from_json("[{]")
    with pytest.raises(CallerError, match="Unicode"):
        payload_from_json('{"a": "\ud800"}')


@pytest.mark.parametrize(
    "document",
    [
        b"", b"\xc1", b"\x81\x01\x02", b"\x91\x01", b"\x81\xa1a\xc4\x01x", b"\xa1\xff", b"\x81\xa1a",
        b"\x81\xa1a\xd6\xff\x00\x00\x00\x00", b"\x81\xa1\xff\x01", b"\x91" * 3000 + b"\xc0",
        b"\x81\xa1a" * 500 + b"\xc0", b"\x81\xc0\x01", b"\x81\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x01",
        b"\xdd\xff\xff\xff\xff", b"\x81\xa1a\xcf" + b"\xff" * 8,
    ],
)  # fmt: skip
def test_messagepack_that_is_no_event(document: bytes) -> None:
    good = msgspec.msgpack.encode({"a": 1})
    offsets = np.cumsum([0, len(good), len(document), len(good)], dtype=np.int64).tobytes()
    header, buffers = {"format": "msgpack", "event_count": 3}, [offsets, good + document + good]
    check_payload(header, buffers)
    raw = decode_payload(header, buffers)
    assert list(raw.refused) == [1]
    assert event_values(raw, 0) == event_values(raw, 2) == {"a": (1,)}


def test_limits_of_a_batch() -> None:
    events = [{"a": "x" * 10}] * 10
    payload = payload_from_dicts(events)
    for limits, limit_name in (
        (Limits(events_per_batch_max=9), "events_per_batch_max"),
        (Limits(batch_size_bytes_max=100), "batch_size_bytes_max"),
    ):
        with pytest.raises(LimitError) as caught:
            check_payload(payload.header, payload.buffers, limits)
        assert caught.value.fields["limit_name"] == limit_name
    wide = payload_from_columns({f"c{at}": [1] for at in range(5)})
    with pytest.raises(LimitError):
        check_payload(wide.header, wide.buffers, TIGHT)
    long_name = payload_from_columns({"n" * 2000: [1]})
    with pytest.raises(LimitError):
        check_payload(long_name.header, long_name.buffers)


@pytest.mark.parametrize(
    "event", [{"cpu": 99}, {"s": "x"}, {"n": None}, {"o": {"x": 1}}, {"many": [1, 2], "f": np.float64(1.5)}]
)
def test_one_event_instead_of_a_list_says_so(event: dict[str, Any]) -> None:
    with pytest.raises(CallerError, match="looks like one event") as found:
        payload_from_columns(event)
    assert str(found.value).endswith("Give a list with it.")
    assert repr(list(event)[-1]) in found.value.condition
    with pytest.raises(CallerError, match=r"not one-dimensional; seen \[2, 1\]"):
        payload_from_columns({"a": np.zeros((2, 1))})


class Moment(datetime.datetime):
    """A kind of its own, as pandas has one."""


def test_instants_travel_to_attributes_that_are_timestamps() -> None:
    moments = [kind(1970, 1, 1, 0, 0, 1, 5, datetime.UTC) for kind in (datetime.datetime, Moment)]
    at = {"t": (1_000_005,)}
    for payload in (
        payload_from_dicts([{"t": moment} for moment in moments]),
        payload_from_columns({"t": moments}),
        payload_from_columns({"t": np.array(moments, dtype=object)}),
    ):
        raw = decode_payload(payload.header, payload.buffers, SCHEMA)
        assert not payload.refused and [event_values(raw, one) for one in (0, 1)] == [at, at]
        assert json.loads(event_as_json(payload.header, payload.buffers, 1)) == {
            "t": "1970-01-01T00:00:01.000005Z"
        }
        assert set(decode_payload(payload.header, payload.buffers).refused) == {0, 1}
    refused = payload_from_dicts([{"t": moments[1], "n": 1 << 70}]).refused[0]
    assert refused.fields["attribute"] == "n"


def test_a_timestamp_takes_no_moment_without_an_offset() -> None:
    """They are texts on their way, which a declared timestamp refuses."""
    moment = datetime.datetime(2026, 1, 31, 12)
    for value in (moment, moment.date(), moment.time(), datetime.timedelta(1)):
        payload = payload_from_dicts([{"t": value}, {"s": value}])
        raw = decode_payload(payload.header, payload.buffers, SCHEMA)
        assert "RFC 3339 text with an offset" in str(raw.refused[0]) and set(raw.refused) == {0}
    kind = Moment(2026, 1, 31)
    assert "with an offset" in str(payload_from_dicts([{"s": kind}]).refused[0])
