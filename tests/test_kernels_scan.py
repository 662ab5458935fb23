"""The scanners of rows against `decode_payload`: the same values, the same refusals, event by event."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_language_batch import CLOSED, SCHEMA, TIGHT, events_lists

from pubsub_cluster.language.batch import Payload, decode_payload, event_values, payload_from_dicts
from pubsub_cluster.language.events import event_reader
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.workers import names as names_module
from pubsub_cluster.workers.flat_batch import FlatBatch, raw_of, scan_rows
from pubsub_cluster.workers.kernels import decimal
from pubsub_cluster.workers.kernels.entries import SPECIAL
from pubsub_cluster.workers.names import NameTable

clusters = st.sampled_from(
    [(EMPTY_SCHEMA, DEFAULT_LIMITS), (SCHEMA, DEFAULT_LIMITS), (CLOSED, DEFAULT_LIMITS), (SCHEMA, TIGHT)]
)
LONG = "x" * 40
DOCUMENTS = [
    b"{}",
    b" {} ",
    b"{ }",
    b"",
    b" ",
    b"{",
    b"}",
    b"[]",
    b"null",
    b"1",
    b'"a"',
    b"{}x",
    b"{}{}",
    b"\xef\xbb\xbf{}",
    b'{"a":1}',
    b'\t{ "a" :\n1 , "b" : true\r}\n',
    b'{"a":1,}',
    b'{,"a":1}',
    b'{"a":1 "b":2}',
    b'{"a" 1}',
    b'{"a":}',
    b'{"a"}',
    b'{"a":1',
    b'{"a"',
    b'{"a',
    b'{"a":',
    b"{a:1}",
    b"{'a':1}",
    b'{"a":1;"b":2}',
    b"{1:1}",
    b'{"":1}',
    b'{"a":1,"a":2}',
    b'{"a":1,"a":null}',
    b'{"a":null,"a":1}',
    b'{"z":1,"z":"s"}',
    b'{"n":1.0}',
    b'{"n":1.5}',
    b'{"n":1e3}',
    b'{"n":-0.0}',
    b'{"n":1e19}',
    b'{"n":true}',
    b'{"f":1}',
    b'{"s":1}',
    b'{"b":0}',
    b'{"t":1}',
    b'{"t":1.0}',
    b'{"t":"1970-01-01T00:00:01Z"}',
    b'{"e":"low"}',
    b'{"e":"none"}',
    b'{"h":"a/b"}',
    b'{"a":true}',
    b'{"a":false}',
    b'{"a":null}',
    b'{"a":tru}',
    b'{"a":truE}',
    b'{"a":nul}',
    b'{"a":falsy}',
    b'{"a":trueish}',
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":-Infinity}',
    b'{"a":nan}',
    b'{"a":t',
    b'{"a":n}',
    b'{"a":0}',
    b'{"a":-0}',
    b'{"a":00}',
    b'{"a":01}',
    b'{"a":-}',
    b'{"a":-01}',
    b'{"a":+1}',
    b'{"a":1.}',
    b'{"a":.5}',
    b'{"a":1.e1}',
    b'{"a":1e}',
    b'{"a":1e+}',
    b'{"a":1E+2}',
    b'{"a":1e-2}',
    b'{"a":-1.5e-0003}',
    b'{"a":1e400}',
    b'{"a":-1e400}',
    b'{"a":1e-400}',
    b'{"a":1e99999}',
    b'{"a":0e99999}',
    b'{"a":0.0e-99999}',
    b'{"a":1e00000000001}',
    b'{"a":9223372036854775807}',
    b'{"a":9223372036854775808}',
    b'{"a":-9223372036854775808}',
    b'{"a":-9223372036854775809}',
    b'{"a":18446744073709551615}',
    b'{"a":18446744073709551616}',
    b'{"a":99999999999999999999}',
    b'{"a":9007199254740993}',
    b'{"a":9007199254740993.0}',
    b'{"a":9007199254740992.5}',
    b'{"a":9223372036854775807.0}',
    b'{"a":5e-324}',
    b'{"a":2.2250738585072014e-308}',
    b'{"a":2.225073858507201e-308}',
    b'{"a":1.7976931348623157e308}',
    b'{"a":1.7976931348623159e308}',
    b'{"a":0.00000000000000000000001234567890123456789}',
    b'{"a":0.000000000000000000000012345678901234567891}',
    b'{"a":1.00000000000000000000000000001}',
    b'{"a":123456789012345678.5}',
    b'{"a":1234567890123456789.5}',
    b'{"a":-9223372036854775808.0}',
    b'{"a":"x',
    b'{"a":"x\\',
    b'{"a":"\\"',
    b'{"a":"\\n"}',
    b'{"a":"\\u00e9"}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\ud83d\\ude00"}',
    b'{"\\u0061":1}',
    b'{"a":"\x00"}',
    b'{"a":"\x1f"}',
    b'{"a":"\x7f"}',
    b'{"a":"\t"}',
    '{"a":"é😀"}'.encode(),
    '{"é":1}'.encode(),
    b'{"a":"\xff"}',
    b'{"\xff":1}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\xc0\x80"}',
    b'{"a":"\xe2\x82"}',
    b'{"a":"\xf4\x90\x80\x80"}',
    b'{"a":"\xf0\x8f\xbf\xbf"}',
    b'{"a":"\xf0\x9f\x98"}',
    b'{"a":"\x80"}',
    b'{"a":[]}',
    b'{"a":[1,2]}',
    b'{"a":{"b":1}}',
    b'{"a":[1,"x"]}',
    b'{"x.y":1,"x":{"y":2}}',
    b'{"a":1,"b":[true,null]}',
    b'{"s":"1234567"}',
    b'{"a":"1234567","b":1}',
    b'{"a":1,"b":2,"c":3,"d":4}',
    b'{"a":1,"b":2,"c":3,"d":4,"e":5}',
    b'{"a":1,"b":2,"c":3,"d":4,"g":null}',
    f'{{"{LONG}":"{LONG}"}}'.encode(),
    f'{{"{LONG}1":1,"{LONG}2":2}}'.encode(),
    b'{"' + b"n" * 1025 + b'":1}',
    b'{"abcdefgh":"abcdefgh","abcdefgh\\"":1}',
    b'{"abcdefgh":"abcdefg\x01"}',
    b'{"a":"abcdefgh\xff12345678"}',
]


def rows_payload(name: str, documents: list[bytes]) -> Payload:
    offsets = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    header = {"format": name, "event_count": len(documents)}
    return Payload(header, [offsets.tobytes(), b"".join(documents)], {})


def check(
    payload: Payload, schema: Schema, limits: Limits, names: NameTable | None = None
) -> tuple[FlatBatch, NameTable]:
    """Compare values and refusals; scan twice, so that names are new at first and known then."""
    names = names or NameTable(schema, limits)
    expected = decode_payload(payload.header, payload.buffers, schema, limits)
    reader = event_reader(schema, limits)
    step = 1 + expected.event_count // 150
    for _ in range(2):
        flat = scan_rows(payload.header, payload.buffers, reader, names)
        raw = raw_of(flat, names)
        assert {at: error.to_dict() for at, error in flat.refused.items()} == {
            at: error.to_dict() for at, error in expected.refused.items()
        }
        for event_idx in range(0, expected.event_count, step):
            found = keyed(event_values(raw, event_idx))
            assert found == keyed(event_values(expected, event_idx)), event_idx
    return flat, names


def keyed(values: dict[str, tuple[Any, ...]]) -> dict[str, list[tuple[type, Any]]]:
    return {name: [(type(value), value) for value in found] for name, found in values.items()}


@pytest.mark.parametrize(
    "schema, limits", [(EMPTY_SCHEMA, DEFAULT_LIMITS), (SCHEMA, DEFAULT_LIMITS), (CLOSED, TIGHT)]
)
def test_json_documents_by_hand(schema: Schema, limits: Limits) -> None:
    check(rows_payload("json", DOCUMENTS), schema, limits)


@settings(max_examples=80, deadline=None)
@given(events_lists, clusters, st.booleans(), st.sampled_from([(",", ":"), (" , ", " : ")]))
def test_json_of_events(
    events: list[dict[str, Any]], cluster: tuple[Schema, Limits], is_ascii: bool, marks: tuple[str, str]
) -> None:
    texts = [json.dumps(event, ensure_ascii=is_ascii, separators=marks) for event in events]
    check(rows_payload("json", [text.encode("utf-8", "surrogatepass") for text in texts]), *cluster)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(DOCUMENTS), st.integers(0, 60), st.binary(max_size=3), st.integers(0, 2), clusters)
def test_damaged_json(
    document: bytes, at: int, inserted: bytes, removed: int, cluster: tuple[Schema, Limits]
) -> None:
    """A few bytes changed anywhere: the scanner takes nothing that the decoder refuses."""
    damaged = document[:at] + inserted + document[at + removed :]
    check(rows_payload("json", [damaged, b'{"a":1}', damaged]), *cluster)


PACKED = [
    msgspec.msgpack.encode(event)
    for event in (
        {},
        {"a": 1, "b": True, "c": None, "d": False},
        *(
            {"a": value}
            for value in (0, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63 - 1, 2**63)
        ),
        *({"a": value} for value in (-1, -32, -33, -128, -129, -32_769, -(2**31) - 1, -(2**63))),
        *(
            {"a": value}
            for value in (0.0, -0.0, 2.5, 1e300, 2.0**63, -(2.0**63), math.inf, -math.inf, math.nan)
        ),
        *({"n": value, "f": value} for value in (1, 1.0, 1.5, 2.0**63)),
        *({"s": "x" * size, "é": "é😀" * size} for size in (0, 1, 6, 7, 31, 32, 255, 256, 70_000)),
        {"t": 1, "b": True},
        {"t": "1970-01-01T00:00:01Z"},
        {"e": "low", "h": "a/b"},
        {"a": [1, 2], "b": {"c": 1}},
        {f"{at}": at for at in range(15)},
        {f"{at}": at for at in range(16)},
        {f"{at}": at for at in range(300)},
        {LONG: LONG, LONG + "1": None},
        {"": 1},
        {1: 1},
        None,
        [1],
        "a",
    )
] + [
    b"",
    b"\x81",
    b"\x82\xa1a\x01\xa1a\x02",
    b"\x82\xa1a\xc0\xa1a\x02",
    b"\x81\xa1a\xca\x3f\xc0\x00\x00",
    b"\x81\xa1a\xc1",
    b"\x81\xa1a\xc4\x01x",
    b"\x81\xa1a\xd6\xff\x00\x00\x00\x01",
    b"\x81\xa1\xff\x01",
    b"\x81\xa1a\xa1\xff",
    b"\x81\xa1a\xa3\xed\xa0\x80",
    b"\x81\xa1a\x01\x01",
    b"\xdf\xff\xff\xff\xff\xa1a\x01",
    b"\x81\xdb\xff\xff\xff\xffa\x01",
    b"\x81\xd9\x01a\xda\x00\x01b",
]


@pytest.mark.parametrize(
    "schema, limits", [(EMPTY_SCHEMA, DEFAULT_LIMITS), (SCHEMA, DEFAULT_LIMITS), (CLOSED, TIGHT)]
)
def test_msgpack_by_hand(schema: Schema, limits: Limits) -> None:
    for document in PACKED:
        check(rows_payload("msgpack", [document, b"\x81\xa1a\x01"]), schema, limits)


@settings(max_examples=80, deadline=None)
@given(events_lists, clusters)
def test_msgpack_of_events(events: list[dict[str, Any]], cluster: tuple[Schema, Limits]) -> None:
    check(payload_from_dicts(events), *cluster)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([document for document in PACKED if len(document) < 100]),
    st.integers(0, 30),
    st.binary(max_size=3),
    st.integers(0, 2),
    clusters,
)
def test_damaged_msgpack(
    document: bytes, at: int, inserted: bytes, removed: int, cluster: tuple[Schema, Limits]
) -> None:
    damaged = document[:at] + inserted + document[at + removed :]
    check(rows_payload("msgpack", [damaged, b"\x81\xa1a\x01", damaged]), *cluster)


@settings(max_examples=150, deadline=None)
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.from_regex(r"-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
@example(0.1, "0.3")
def test_json_numbers(number: float, spelt: str) -> None:
    documents = [f'{{"a":{text}}}'.encode() for text in (repr(number), f"{number:.17g}", spelt)]
    check(rows_payload("json", documents), EMPTY_SCHEMA, DEFAULT_LIMITS)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(-345, 310) | st.integers(-30, 30))
def test_decimals_are_rounded_to_the_nearest(digits: int, exponent: int) -> None:
    found = float(decimal.nearest_double(np.uint64(digits), exponent))
    assert math.isnan(found) or found == float(f"{digits}e{exponent}")


@settings(max_examples=100, deadline=None)
@given(st.integers(2**52, 2**53 - 1), st.integers(1, 11))
def test_decimals_half_way_go_to_even(mantissa: int, shift: int) -> None:
    exact = Fraction(2 * mantissa + 1) * 2 ** (shift - 1)
    found = float(decimal.nearest_double(np.uint64(int(exact)), 0))
    assert found == float(int(exact))


def test_plain_events_are_not_read_the_long_way() -> None:
    """Common shapes stay with the kernel."""
    plain = [b'{"a":1,"b":-2.75e3,"c":"text","d":true,"e":null}', '{"é":"naïve 😀", "x":0.1}'.encode()]
    payload = rows_payload("json", plain)
    names = NameTable(EMPTY_SCHEMA, DEFAULT_LIMITS)
    flat = scan_rows(payload.header, payload.buffers, event_reader(EMPTY_SCHEMA, DEFAULT_LIMITS), names)
    assert SPECIAL not in flat.event_first.tolist()
    assert len(flat.data) == sum(map(len, plain)), "no text was read the long way"


def test_names_and_entries_beyond_the_first_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables grow in the middle of a batch; too many names are forgotten before the next."""
    monkeypatch.setattr(names_module, "LEARNED_NAMES_MAX", 900)
    documents = [
        json.dumps({f"name number {at * 7 + i}" * (1 + at % 2): i for i in range(7)}, separators=(",", ":"))
        for at in range(160)
    ]
    payload = rows_payload("json", [document.encode() for document in documents])
    _, names = check(payload, EMPTY_SCHEMA, DEFAULT_LIMITS)
    assert names.epoch >= 1 and names.count == 1_120
    many = rows_payload("json", [b'{"a":1}', *[f'{{"{i}":1,"{i}b":2}}'.encode() for i in range(300)]] * 3)
    check(many, EMPTY_SCHEMA, DEFAULT_LIMITS, names)
    assert names.names()[:2] == ["a", "0"]
