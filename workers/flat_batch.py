"""Batches of rows as entries in the order of the events: what the scanners find, and the rest.

`scan_rows` is `language.decode` for JSON and MessagePack at machine speed: the kernels take the events that
are plain, `EventReader.flatten` takes the others one by one, and both end up in one `FlatBatch`. Its values
are those of `decode_payload`, value for value; `raw_of` gives them by attribute for whoever wants columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.decode_rows import row_decoder
from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.events import EventReader
from pubsub_cluster.language.payload import DECODE_ERRORS, Buffer
from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
)
from pubsub_cluster.language.values import number_key
from pubsub_cluster.shm.code_space import F8, I1, I4, I8, U1
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import json as json_kernels
from pubsub_cluster.workers.kernels import msgpack as msgpack_kernels
from pubsub_cluster.workers.kernels._jit import OK, Settled
from pubsub_cluster.workers.kernels.entries import KIND_BOOLEAN, KIND_NUMBER, KIND_TEXT, SPECIAL, Entries
from pubsub_cluster.workers.names import NameTable

_BYTES_PER_ENTRY = 12
_ROOM_MIN = 64
_ROOM_KEPT_MAX = 256


class FlatBatch(NamedTuple):
    """Values of n events; the entries of event i are those from ``event_first[i]`` to ``event_stop[i]``.

    All arrays are read-only. Those of entries may be longer than what the events have of them.

    Attributes
    ----------
    event_count : int
    event_first, event_stop : int64[n]
        Refused events are empty.
    name : int32[m]
        By `NameTable`.
    kind : int8[m]
        As in `workers.kernels.entries`.
    whole : int64[m]
        Number key, 0 or 1, or where a text starts in `data`.
    part : float64[m]
        Number key; undefined for texts.
    stop : int64[m]
        Where a text stops; undefined for others.
    data : uint8[]
    refused : dict of int to EventError
    """

    event_count: int
    event_first: I8
    event_stop: I8
    name: I4
    kind: I1
    whole: I8
    part: F8
    stop: I8
    data: U1
    refused: dict[int, EventError]


class EntryRoom:
    """Memory for the entries of one small batch after another; making it takes longer than filling it."""

    def __init__(self) -> None:
        self._kept = _room(_ROOM_MIN, 1)
        self._kept_frozen = _frozen_entries(self._kept)

    def take(self, row_count: int, event_count: int) -> Entries:
        """Return room for so many rows at least and exactly so many events."""
        kept = self._kept
        if row_count > len(kept.name) or event_count != len(kept.event_first):
            kept = _room(row_count, event_count)
            if row_count <= _ROOM_KEPT_MAX:
                self._kept, self._kept_frozen = kept, _frozen_entries(kept)
        return kept

    def frozen(self, entries: Entries) -> Entries:
        """Return the same entries read-only."""
        return self._kept_frozen if entries is self._kept else _frozen_entries(entries)


def scan_rows(
    header: Mapping[str, Any],
    buffers: Sequence[Buffer],
    reader: EventReader,
    names: NameTable,
    room: EntryRoom | None = None,
) -> FlatBatch:
    """Return the values of a checked payload of rows; as `language.decode.decode_payload`, event by event.

    With `room` they are valid until it is used again.
    """
    scan = SCANNERS[header["format"]]
    offsets = kernel_input(np.frombuffer(buffers[0], np.int64), np.int64)
    data = kernel_input(np.frombuffer(buffers[1], np.uint8), np.uint8)
    event_count = len(offsets) - 1
    names.begin_batch()
    room = room or EntryRoom()
    entries = room.take(max(len(data) // _BYTES_PER_ENTRY, _ROOM_MIN), event_count)
    event, row = 0, 0
    while True:
        status, event, row = scan(data, offsets, (event, row), names.arrays, names.rules, entries)
        if status == OK:
            break
        if row + names.rules.entries_max > len(entries.name):
            entries = _with_more_room(entries)
        else:
            names.grow()
    if entries.event_first[0] == SPECIAL if event_count == 1 else SPECIAL in entries.event_first:
        special = np.flatnonzero(entries.event_first == SPECIAL).tolist()
        return _with_special(header["format"], buffers, special, reader, names, entries, row)
    name, kind, whole, part, stop, event_first, event_stop = room.frozen(entries)
    return FlatBatch(event_count, event_first, event_stop, name, kind, whole, part, stop, data, {})


def _with_special(
    batch_format: str,
    buffers: Sequence[Buffer],
    special: Sequence[int],
    reader: EventReader,
    names: NameTable,
    entries: Entries,
    row: int,
) -> FlatBatch:
    """Return what the scanner found, `row` entries, together with the events read the long way."""
    refused: dict[int, EventError] = {}
    offsets = np.frombuffer(buffers[0], np.int64)
    documents = memoryview(buffers[1])
    found = _Special(row, documents.nbytes, names)
    decode = row_decoder(batch_format)
    for event_idx in special:
        document = documents[offsets[event_idx] : offsets[event_idx + 1]]
        try:
            flat = reader.flatten(_decoded(decode, document, batch_format))
        except EventError as error:
            error.fields["event_index"] = event_idx
            refused[event_idx] = error
            flat = {}
        entries.event_first[event_idx] = found.row_count
        found.add(flat)
        entries.event_stop[event_idx] = found.row_count
    name, kind, whole, part, stop = found.columns()
    return FlatBatch(
        len(offsets) - 1,
        frozen(entries.event_first),
        frozen(entries.event_stop),
        frozen(np.concatenate((entries.name[:row], name))),
        frozen(np.concatenate((entries.kind[:row], kind))),
        frozen(np.concatenate((entries.whole[:row], whole))),
        frozen(np.concatenate((entries.part[:row], part))),
        frozen(np.concatenate((entries.stop[:row], stop))),
        frozen(np.frombuffer(b"".join((documents, found.data)), np.uint8)),
        refused,
    )


SCANNERS: dict[str, Any] = {
    "json": Settled(json_kernels.scan_json),
    "msgpack": Settled(msgpack_kernels.scan_msgpack),
}
"""Kernels by the format of the payload."""


def _decoded(decode: Any, document: memoryview, batch_format: str) -> Any:
    try:
        return decode(document)
    except DECODE_ERRORS as found:
        raise EventError(f"the event is no {batch_format} document", seen=str(found)) from None


def _with_more_room(entries: Entries) -> Entries:
    """Return the same entries with twice the room."""
    name, kind, whole, part, stop = (np.concatenate((old, np.empty_like(old))) for old in entries[:5])
    return Entries(name, kind, whole, part, stop, entries.event_first, entries.event_stop)


def _room(row_count: int, event_count: int) -> Entries:
    return Entries(
        np.empty(row_count, np.int32),
        np.empty(row_count, np.int8),
        np.empty(row_count, np.int64),
        np.empty(row_count, np.float64),
        np.empty(row_count, np.int64),
        np.empty(event_count, np.int64),
        np.empty(event_count, np.int64),
    )


def _frozen_entries(entries: Entries) -> Entries:
    return Entries(*map(frozen, entries))


class _Special:
    """Entries of the events that were read the long way; rows and texts come after those of the scanner."""

    def __init__(self, first_row: int, data_size: int, names: NameTable) -> None:
        self.row_count = first_row
        self.data = bytearray()
        self._data_size = data_size
        self._names = names
        self._name: list[str] = []
        self._rows: list[tuple[int, int, float, int]] = []

    def add(self, flat: Mapping[str, tuple[Any, ...]]) -> None:
        """Append the canonical values of one event."""
        for name, values in flat.items():
            for value in values:
                self._name.append(name)
                if isinstance(value, bool):
                    self._rows.append((KIND_BOOLEAN, int(value), 0.0, 0))
                elif isinstance(value, str):
                    start = self._data_size + len(self.data)
                    self.data += value.encode()
                    self._rows.append((KIND_TEXT, start, 0.0, self._data_size + len(self.data)))
                else:
                    self._rows.append((KIND_NUMBER, *number_key(value), 0))
        self.row_count += sum(map(len, flat.values()))

    def columns(self) -> tuple[I4, I1, I8, F8, I8]:
        """Return name, kind, whole, part and stop."""
        distinct = sorted(set(self._name))
        number = dict(zip(distinct, self._names.numbers_of(distinct).tolist(), strict=True))
        kind, whole, part, stop = zip(*self._rows, strict=True) if self._rows else ((), (), (), ())
        return (
            np.array([number[name] for name in self._name], np.int32),
            np.array(kind, np.int8),
            np.array(whole, np.int64),
            np.array(part, np.float64),
            np.array(stop, np.int64),
        )


def raw_of(flat: FlatBatch, names: NameTable) -> RawBatch:
    """Return the values of a batch by attribute; equal to what `decode_payload` gives."""
    event, row = rows_of_flat(flat)
    key = flat.name[row].astype(np.int64) * 4 + flat.kind[row]
    order = np.argsort(key, kind="stable")
    event, row, key = event[order], row[order], key[order]
    bounds = np.flatnonzero(np.diff(key, prepend=-1, append=-1)).tolist()
    known = names.names()
    attributes: dict[str, AttributeEntries] = {}
    for first, stop in itertools.pairwise(bounds):
        name = known[int(key[first]) >> 2]
        found = attributes.get(name, AttributeEntries())
        attributes[name] = _with_rows(found, int(key[first]) & 3, event[first:stop], flat, row[first:stop])
    return RawBatch(flat.event_count, attributes, flat.refused)


def _with_rows(found: AttributeEntries, kind: int, event: I4, flat: FlatBatch, row: I8) -> AttributeEntries:
    if kind == KIND_BOOLEAN:
        return found._replace(booleans=BooleanEntries(event, flat.whole[row].astype(np.uint8)))
    if kind == KIND_NUMBER:
        return found._replace(numbers=NumberEntries(event, flat.whole[row], flat.part[row]))
    return found._replace(texts=TextEntries(event, flat.whole[row], flat.stop[row], flat.data))


def entries_of_flat(flat: FlatBatch, rows: tuple[I4, I8], number: int) -> AttributeEntries:
    """Return the values of the name of that number; `rows` as `rows_of_flat` gives them."""
    event, row = rows
    picked = np.flatnonzero(flat.name[row] == number)
    event, row = event[picked], row[picked]
    found = AttributeEntries()
    for kind in np.unique(flat.kind[row]).tolist():
        mine = flat.kind[row] == kind
        found = _with_rows(found, kind, event[mine], flat, row[mine])
    return found


def rows_of_flat(flat: FlatBatch) -> tuple[I4, I8]:
    """Return event and row of every entry, in the order of the events."""
    count = flat.event_stop - flat.event_first
    event = np.repeat(np.arange(flat.event_count, dtype=np.int32), count)
    row: I8 = np.repeat(flat.event_first - np.cumsum(count) + count, count) + np.arange(len(event))
    return event, row
