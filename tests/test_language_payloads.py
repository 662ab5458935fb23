"""Payloads that lie, are damaged, or whose buffers start anywhere: refused, or decoded to something sound."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from payload_cases import SCHEMA, cells, check_arrays, column_batches

from pubsub_cluster.language.batch import (
    check_payload,
    decode_payload,
    event_values,
    payload_from_columns,
)
from pubsub_cluster.language.errors import LimitError, ProtocolError
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN


def int64s(*numbers: int) -> bytes:
    return np.array(numbers, dtype=np.int64).tobytes()


def one_column(column_type: str, **flags: bool) -> dict[str, Any]:
    return {"format": "columns", "event_count": 2, "columns": [{"name": "a", "type": column_type, **flags}]}


@pytest.mark.parametrize(
    ("header", "buffers"),
    [
        ({}, []),
        ([], []),
        ({"format": "arrow", "event_count": 0}, []),
        ({"format": ["json"], "event_count": 0}, []),
        ({"format": "json"}, [int64s(0), b""]),
        ({"format": "json", "event_count": -1}, [b"", b""]),
        ({"format": "json", "event_count": True}, [int64s(0, 0), b""]),
        ({"format": "json", "event_count": 1.0}, [int64s(0, 0), b""]),
        ({"format": "json", "event_count": 0, "columns": []}, [int64s(0), b""]),
        ({"format": "json", "event_count": 1}, [int64s(0, 2)]),
        ({"format": "json", "event_count": 1}, [int64s(0, 2), b"{}", b""]),
        ({"format": "json", "event_count": 1}, [int64s(0, 1), b"{}"]),
        ({"format": "json", "event_count": 1}, [int64s(1, 2), b"{}"]),
        ({"format": "json", "event_count": 2}, [int64s(0, 2), b"{}"]),
        ({"format": "json", "event_count": 3}, [int64s(0, INT64_MAX, INT64_MIN, 2), b"{}"]),
        ({"format": "json", "event_count": 1}, [int64s(0, 2)[:-1], b"{}"]),
        ({"format": "json", "event_count": 1}, ["text", b"{}"]),
        ({"format": "json", "event_count": 1}, [None, b"{}"]),
        ({"format": "columns", "event_count": 1}, []),
        ({"format": "columns", "event_count": 1, "columns": {}}, []),
        ({"format": "columns", "event_count": 1, "columns": [1]}, []),
        ({"format": "columns", "event_count": 1, "columns": [{"name": "", "type": "bool"}]}, [b"\0"]),
        ({"format": "columns", "event_count": 1, "columns": [{"name": 1, "type": "bool"}]}, [b"\0"]),
        ({"format": "columns", "event_count": 1, "columns": [{"name": "a", "type": "uint8"}]}, [b"\0"]),
        (
            {"format": "columns", "event_count": 1, "columns": [{"name": "a", "type": "bool", "x": 1}]},
            [b"\0"],
        ),
        (
            {"format": "columns", "event_count": 1, "columns": [{"name": "a", "type": "bool"}] * 2},
            [b"\0"] * 2,
        ),
        (one_column("int64", valid=1), [int64s(1, 2)]),
        (one_column("int64"), []),
        (one_column("int64"), [int64s(1)]),
        (one_column("int8"), [int64s(1, 2)]),
        (one_column("int16"), [b"\0" * 2]),
        (one_column("int32"), [b"\0" * 9]),
        (one_column("int16", valid=True), [b"\1\2", b"\0" * 4]),
        (one_column("int32", many=True), [int64s(0, 1, 2), b"\0" * 4]),
        (one_column("int64"), [int64s(1, 2), b""]),
        (one_column("int64", valid=True), [b"\1", int64s(1, 2)]),
        (one_column("int64", valid=True), [b"\1\2", int64s(1, 2)]),
        (one_column("bool"), [b"\1\2"]),
        (one_column("int64", many=True), [int64s(0, 1, -1), b""]),
        (one_column("int64", many=True), [int64s(0, 2, 1), int64s(1)]),
        (one_column("int64", many=True), [int64s(0, 1, INT64_MAX), int64s(1)]),
        (one_column("utf8"), [int64s(0, 1, 2), b"\xff\xff"]),
        (one_column("utf8"), [int64s(0, 1, 2), "é".encode()]),
        (one_column("utf8"), [int64s(0, 2, 1), b"xx"]),
        (one_column("utf8"), [int64s(0, 1, 1), b"xx"]),
        (one_column("utf8"), [int64s(0, 3, 3), "\ud800".encode("utf-8", "surrogatepass")]),
    ],
)
def test_payloads_that_lie(header: Any, buffers: list[Any]) -> None:
    with pytest.raises(ProtocolError):
        check_payload(header, buffers)


@settings(max_examples=100, deadline=None)
@given(column_batches(), st.data())
def test_damaged_payloads_are_refused_or_decoded(
    batch: tuple[dict[str, Any], list[Any], list[dict[str, Any]]], data: st.DataObject
) -> None:
    header, buffers, _ = batch
    header = json.loads(json.dumps(header))
    for _ in range(data.draw(st.integers(1, 3))):
        damage = data.draw(st.sampled_from(["byte", "cut", "grow", "drop", "swap", "count", "type", "flag"]))
        at = data.draw(st.integers(0, len(buffers) - 1)) if buffers else -1
        if damage == "count":
            header["event_count"] = data.draw(st.integers(0, 6))
        elif damage in ("type", "flag") and header["columns"]:
            column = data.draw(st.sampled_from(header["columns"]))
            column["type" if damage == "type" else "many"] = data.draw(
                st.sampled_from(sorted(cells)) if damage == "type" else st.booleans()
            )
        elif at < 0:
            continue
        elif damage == "byte" and buffers[at]:
            damaged = bytearray(buffers[at])
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
            buffers[at] = bytes(damaged)
        elif damage == "cut":
            buffers[at] = buffers[at][:-1]
        elif damage == "grow":
            buffers[at] = bytes(buffers[at]) + data.draw(st.binary(min_size=1, max_size=9))
        elif damage == "drop":
            del buffers[at]
        elif damage == "swap":
            buffers[at], buffers[0] = buffers[0], buffers[at]
    try:
        check_payload(header, buffers)
    except (ProtocolError, LimitError):
        return
    check_arrays(decode_payload(header, buffers, SCHEMA))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["json", "msgpack"]), st.lists(st.binary(max_size=8), max_size=4))
def test_rows_of_random_bytes_decode_or_are_refused(batch_format: str, documents: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int64).tobytes()
    header, buffers = {"format": batch_format, "event_count": len(documents)}, [offsets, b"".join(documents)]
    check_payload(header, buffers)
    check_arrays(decode_payload(header, buffers, SCHEMA))


def test_buffers_may_be_views_at_odd_addresses() -> None:
    payload = payload_from_columns({"a": [1, 2], "s": ["x", "yz"]})
    odd = []
    for buffer in payload.buffers:
        room = bytearray(b"!" + bytes(buffer))
        odd.append(memoryview(room)[1:].toreadonly())
    check_payload(payload.header, odd)
    raw = decode_payload(payload.header, odd)
    check_arrays(raw)
    numbers = raw.attributes["a"].numbers
    assert numbers is not None and numbers.whole.flags.aligned
    assert event_values(raw, 1) == {"a": (2,), "s": ("yz",)}
