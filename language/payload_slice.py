"""Part of a payload: the same buffers, cut; nothing is encoded again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pubsub_cluster.language.payload import Buffer, Payload
from pubsub_cluster.language.payload_check import INTEGER_BYTES

_ITEM_BYTES = {**INTEGER_BYTES, "float64": 8, "bool": 1}


def slice_payload(payload: Payload, start: int, stop: int) -> Payload:
    """Return events [start, stop) of a payload.

    Parameters
    ----------
    payload : Payload
        As one of `language.payload` makes it.
    start, stop : int
        Not beyond its events.

    Returns
    -------
    Payload
        Its buffers are views of the old ones where offsets do not have to begin at 0 again.
    """
    header = {**payload.header, "event_count": stop - start}
    buffers = list(_cut(payload, start, stop))
    refused = {at - start: error for at, error in payload.refused.items() if start <= at < stop}
    return Payload(header, buffers, refused)


def pieces_of(payload: Payload, event_count: int) -> Iterator[tuple[int, Payload]]:
    """Give a payload in pieces of so many events and a last one of fewer, each with its first event.

    Pieces of one size have one header: who reads them has to look at it once.
    """
    header: dict[str, Any] | None = None
    total = payload.header["event_count"]
    if total <= event_count:
        yield 0, payload
        return
    for start in range(0, total, event_count):
        piece = slice_payload(payload, start, min(start + event_count, total))
        if header is not None and piece.header == header:
            piece = piece._replace(header=header)
        header = piece.header
        yield start, piece


def _cut(payload: Payload, start: int, stop: int) -> Iterator[Buffer]:
    rest = iter(payload.buffers)
    if payload.header["format"] != "columns":
        yield from _cut_texts(next(rest), next(rest), start, stop)
        return
    for column in payload.header["columns"]:
        yield from _cut_column(column, rest, start, stop)


def _cut_column(column: Mapping[str, Any], rest: Iterator[Buffer], start: int, stop: int) -> Iterator[Buffer]:
    if column["valid"]:
        yield memoryview(next(rest))[start:stop]
    if column["many"]:
        offsets = np.frombuffer(next(rest), np.int64)[start : stop + 1]
        yield _as_bytes(offsets - offsets[0])
        start, stop = int(offsets[0]), int(offsets[-1])
    if column["type"] == "utf8":
        yield from _cut_texts(next(rest), next(rest), start, stop)
    else:
        item = _ITEM_BYTES[column["type"]]
        yield memoryview(next(rest))[start * item : stop * item]


def _cut_texts(offsets: Buffer, data: Buffer, start: int, stop: int) -> tuple[Buffer, Buffer]:
    bounds = np.frombuffer(offsets, np.int64)[start : stop + 1]
    return _as_bytes(bounds - bounds[0]), memoryview(data)[bounds[0] : bounds[-1]]


def _as_bytes(array: Any) -> memoryview:
    return memoryview(array).cast("B")
