"""From a checked payload to what matching starts from, and back to one event as its publisher gave it.

An event that cannot be read, or is outside a limit or a declared domain, is refused by its index; all other
events of the batch are decoded as if it were not there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from pubsub_cluster.language.decode_columns import decode_columns
from pubsub_cluster.language.decode_rows import decode_rows, row_decoder
from pubsub_cluster.language.events import event_reader
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.payload import Buffer
from pubsub_cluster.language.payload_check import ColumnView, split_columns
from pubsub_cluster.language.raw_batch import RawBatch
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


def decode_payload(
    header: Mapping[str, Any],
    buffers: Sequence[Buffer],
    schema: Schema = EMPTY_SCHEMA,
    limits: Limits = DEFAULT_LIMITS,
) -> RawBatch:
    """Return the arrays of a batch.

    Parameters
    ----------
    header : mapping
        Of a payload that `pubsub_cluster.language.payload_check.check_payload` let pass.
    buffers : sequence of bytes-like
        Text of ``columns`` is not copied: the batch must not outlive these.
    schema : Schema
    limits : Limits

    Returns
    -------
    RawBatch
        All arrays are contiguous and aligned; text data is read-only, all others are new and writable.
    """
    reader = event_reader(schema, limits)
    if header["format"] == "columns":
        return decode_columns(header, buffers, reader)
    return decode_rows(header, buffers, reader)


def decode_some(
    header: Mapping[str, Any],
    buffers: Sequence[Buffer],
    event_idxs: Sequence[int],
    names: Collection[str],
    schema: Schema = EMPTY_SCHEMA,
    limits: Limits = DEFAULT_LIMITS,
) -> RawBatch:
    """Return arrays of some accepted events, with some attributes at least: what is needed is decoded.

    Parameters
    ----------
    header, buffers, schema, limits
        As for `decode_payload`.
    event_idxs : sequence of int
        In the order in which they are numbered in the result.
    names : collection of str
        Attributes.
    """
    reader = event_reader(schema, limits)
    if header["format"] == "columns":
        return decode_columns(header, buffers, reader, names, event_idxs)
    return decode_rows(header, buffers, reader, event_idxs)


def event_as_json(header: Mapping[str, Any], buffers: Sequence[Buffer], event_idx: int) -> bytes:
    """Return one accepted event as the publisher gave it, as JSON; see `events_as_json`."""
    return events_as_json(header, buffers, [event_idx])[0]


def events_as_json(
    header: Mapping[str, Any],
    buffers: Sequence[Buffer],
    event_idxs: Sequence[int],
    views: Sequence[ColumnView] | None = None,
) -> list[bytes]:
    """Return accepted events as the publisher gave them, as JSON.

    Infinities, which JSON cannot spell, become ``{"$float": "inf"}`` and ``{"$float": "-inf"}``. Whoever asks
    for a few events of a batch again and again keeps its `column_views`.
    """
    if header["format"] == "columns":
        views = column_views(header, buffers) if views is None else views
        return [msgspec.json.encode(_spelt(_event_of_columns(views, event_idx))) for event_idx in event_idxs]
    offsets = np.frombuffer(buffers[0], dtype="<i8")
    data = memoryview(buffers[1])
    documents = [bytes(data[offsets[event_idx] : offsets[event_idx + 1]]) for event_idx in event_idxs]
    if header["format"] == "json":
        return documents
    decode = row_decoder("msgpack")
    return [msgspec.json.encode(_spelt(decode(document))) for document in documents]


def column_views(header: Mapping[str, Any], buffers: Sequence[Buffer]) -> list[ColumnView]:
    """Return the columns of a payload of columns; none of any other."""
    return list(split_columns(header, buffers)) if header["format"] == "columns" else []


def _event_of_columns(views: Sequence[ColumnView], event_idx: int) -> dict[str, Any]:
    found = ((view, _values_of_event(view, event_idx)) for view in views)
    return {
        view.name: values if view.list_offsets is not None else values[0] for view, values in found if values
    }


def _values_of_event(view: ColumnView, event_idx: int) -> list[Any]:
    if view.valid is not None and not view.valid[event_idx]:
        return []
    start, end = event_idx, event_idx + 1
    if view.list_offsets is not None:
        start, end = view.list_offsets[event_idx : event_idx + 2].tolist()
    if view.text_offsets is not None:
        bounds = view.text_offsets[start : end + 1].tolist()
        return [view.values[first:last].tobytes().decode() for first, last in pairwise(bounds)]
    values: list[Any] = view.values[start:end].tolist()
    return [bool(value) for value in values] if view.type == "bool" else values


def _spelt(value: Any) -> Any:
    """Return `value` with infinities spelt as tagged objects; events that were accepted are not deep."""
    if isinstance(value, float):
        return {"$float": "inf" if value > 0 else "-inf"} if math.isinf(value) else value
    if isinstance(value, dict):
        return {name: _spelt(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_spelt(inner) for inner in value]
    return value
