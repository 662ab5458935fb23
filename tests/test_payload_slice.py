"""A part of a payload says what a payload of that part says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pubsub_cluster.language.batch import Payload, check_payload, decode_payload, payload_from_columns
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.payload import payload_from_dicts
from pubsub_cluster.language.payload_slice import pieces_of, slice_payload
from pubsub_cluster.language.raw_batch import event_values
from pubsub_cluster.language.schema import EMPTY_SCHEMA

COLUMNS: dict[str, Any] = {
    "int": np.arange(10, dtype=np.int16),
    "gaps": np.ma.masked_array(np.arange(10) / 2, np.arange(10) % 3 == 0),
    "text": [f"{'ab' * at}" if at % 4 else None for at in range(10)],
    "flag": np.arange(10) % 2 == 0,
}
MANY = Payload(
    {
        "format": "columns",
        "event_count": 4,
        "columns": [
            {"name": "n", "type": "int32", "valid": True, "many": True},
            {"name": "t", "type": "utf8", "valid": False, "many": True},
        ],
    },
    [
        np.array([1, 1, 0, 1], np.uint8).tobytes(),
        np.array([0, 2, 3, 3, 5]).tobytes(),
        np.arange(5, dtype=np.int32).tobytes(),
        np.array([0, 0, 1, 3, 4]).tobytes(),
        np.array([0, 2, 2, 5, 6]).tobytes(),
        b"xxyyyz",
    ],
    {},
)


def rows_of(payload: Payload) -> list[str]:
    """Return what a cluster makes of it, event by event."""
    check_payload(payload.header, payload.buffers, DEFAULT_LIMITS)
    raw = decode_payload(payload.header, payload.buffers, EMPTY_SCHEMA, DEFAULT_LIMITS)
    refused = {**raw.refused, **payload.refused}
    return [
        str(refused[at].condition) if at in refused else str(event_values(raw, at))
        for at in range(raw.event_count)
    ]


@pytest.mark.parametrize(
    "payload",
    [
        payload_from_columns(COLUMNS),
        payload_from_dicts([{"a": at, "b": "x" * at} if at % 3 else {"a": 1 << 70} for at in range(10)]),
        MANY,
    ],
    ids=["columns", "rows", "many"],
)
def test_a_slice_has_the_events_of_that_part(payload: Payload) -> None:
    rows = rows_of(payload)
    count = payload.header["event_count"]
    assert len(set(rows)) > 2
    for start in range(count):
        for stop in range(start, count + 1):
            assert rows_of(slice_payload(payload, start, stop)) == rows[start:stop]
    for size in range(1, count + 2):
        pieces = list(pieces_of(payload, size))
        assert [first for first, _ in pieces] == list(range(0, count, size))
        assert [row for _, piece in pieces for row in rows_of(piece)] == rows
        whole = [piece.header for _, piece in pieces if piece.header["event_count"] == size]
        assert len({id(header) for header in whole}) <= 1
