"""Dense columns of a payload as the kernel takes them: one array of bytes, and where in it each column lies.

What the header says of the columns is worked out once: a publisher's batches are mostly alike. The buffers of
a chunk are read where they lie; others are copied into one array of bytes, which takes less than an array for
each.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.payload import Buffer
from pubsub_cluster.language.payload_check import INTEGER_BYTES
from pubsub_cluster.language.raw_batch import TextEntries
from pubsub_cluster.language.schema import DomainKind, Schema
from pubsub_cluster.shm.code_space import I8, U1
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.shm.slab import SPARE_BYTES, ChunkBuffers
from pubsub_cluster.workers.kernels import columns as kernels
from pubsub_cluster.workers.kernels._jit import Settled

_UNCHANGED_TYPES: dict[DomainKind, frozenset[str]] = {
    DomainKind.INTEGER: frozenset(INTEGER_BYTES),
    DomainKind.FLOAT: frozenset({*INTEGER_BYTES, "float64"}),
    DomainKind.STRING: frozenset({"utf8"}),
    DomainKind.BOOLEAN: frozenset({"bool"}),
    DomainKind.TIMESTAMP: frozenset(INTEGER_BYTES),
}
_KERNEL_TYPES = {
    **dict.fromkeys(INTEGER_BYTES, kernels.INTEGERS),
    "float64": kernels.DOUBLES,
    "bool": kernels.BOOLEANS,
    "utf8": kernels.TEXTS,
}
_ANY_SIZE = -1
_ITEM_BYTES = {kernels.INTEGERS: 8, kernels.DOUBLES: 8, kernels.BOOLEANS: 1, kernels.TEXTS: _ANY_SIZE}
_has_nan = Settled(kernels.has_nan)
_KNOWN_COLUMNS_MAX = 4_096
"""Columns of all that is remembered of payloads, so that wide ones are not remembered in numbers."""
_KNOWN_NUMBERS_MAX = 4 * _KNOWN_COLUMNS_MAX
"""Starts of buffers, and columns, of all that is remembered of chunks."""


_JOINED_MAX_BYTES = 1 << 16
"""Fewer are joined in one call; for more, fresh memory would take longer, given page by page, than a copy."""
_ROOM_KEPT_MAX_BYTES = 1 << 24


class _Places(NamedTuple):
    """Type of a column, bytes of a value, and the numbers of its buffers; NO_BUFFER for what it has not."""

    kind: int
    item: int
    valid: int
    values: int
    offsets: int


class ColumnPlan:
    """What the header says of a batch's columns, all of which can be used as they are.

    Parameters
    ----------
    columns : sequence of mapping
        Of a checked header.

    Attributes
    ----------
    names : list of str
    places : list of _Places
    """

    def __init__(self, columns: Sequence[Mapping[str, Any]]) -> None:
        self.names = [column["name"] for column in columns]
        self.places: list[_Places] = []
        self._size_of: list[tuple[int, int]] = []  # bytes per event, and bytes more, of each buffer
        for column in columns:
            kind = _KERNEL_TYPES[column["type"]]
            valid = self._add(1, 0) if column.get("valid", False) else kernels.NO_BUFFER
            offsets = self._add(8, 8) if kind == kernels.TEXTS else kernels.NO_BUFFER
            item = INTEGER_BYTES.get(column["type"], _ITEM_BYTES[kind])
            self.places.append(_Places(kind, item, valid, self._add(item, 0), offsets))
        self._known: tuple[int, Sequence[int]] = (-1, [])

    def _add(self, per_event: int, more: int) -> int:
        self._size_of.append((per_event, more))
        return len(self._size_of) - 1

    def check(self, event_count: int, sizes: Sequence[int]) -> None:
        """Raise `ProtocolError` if the buffers are not those that the header says."""
        if self._known[0] == event_count and self._known[1] == sizes:
            return
        if len(sizes) != len(self._size_of):
            raise ProtocolError(
                "the batch has another number of buffers than its header says",
                seen=len(sizes),
                limit=len(self._size_of),
            )
        for (per_event, more), size in zip(self._size_of, sizes, strict=True):
            if per_event != _ANY_SIZE and size != per_event * event_count + more:
                raise ProtocolError(
                    "wrong size of a buffer, in bytes", seen=size, limit=per_event * event_count + more
                )
        self._known = event_count, sizes


class DenseColumns(NamedTuple):
    """The columns of one batch.

    Attributes
    ----------
    plan : ColumnPlan
    buffers : sequence of bytes-like
    sizes : sequence of int
        Bytes of each buffer.
    """

    plan: ColumnPlan
    buffers: Sequence[Buffer]
    sizes: Sequence[int]

    def named_texts(self, names: Container[str] | None) -> list[tuple[str, TextEntries]]:
        """Return the texts of some columns, or of all, with their names."""
        found = []
        for name, place in zip(self.plan.names, self.plan.places, strict=True):
            if place.kind == kernels.TEXTS and (names is None or name in names):
                bounds = np.frombuffer(self.buffers[place.offsets], np.int64)
                data = frozen(np.frombuffer(self.buffers[place.values], np.uint8))
                row = np.arange(len(bounds) - 1, dtype=np.int32)
                start, end = bounds[:-1], bounds[1:]
                if place.valid != kernels.NO_BUFFER:
                    row = row[np.frombuffer(self.buffers[place.valid], np.bool_)]
                    start, end = start[row], end[row]
                found.append((name, TextEntries(row, start, end, data)))
        return found


class PickedColumns:
    """Some columns of a plan, brought together for the kernels.

    Parameters
    ----------
    plan : ColumnPlan
    picked : sequence of int
        Numbers of columns.
    attributes : sequence of int
        The attribute of each.

    Attributes
    ----------
    has_gaps : bool
        Whether one of them may lack values.
    """

    def __init__(self, plan: ColumnPlan, picked: Sequence[int], attributes: Sequence[int]) -> None:
        places = [plan.places[at] for at in picked]
        self.has_gaps = any(place.valid != kernels.NO_BUFFER for place in places)
        self._places = list(zip(places, attributes, strict=True))
        self._buffers = sorted({buffer for place in places for buffer in place[2:]} - {kernels.NO_BUFFER})
        self._known: dict[tuple[int, ...], I8] = {}
        self._known_numbers = 0
        self._room: U1 = np.empty(0, np.uint8)

    def gather(self, dense: DenseColumns) -> tuple[U1, I8]:
        """Return `data` and `columns` as the kernels want them, valid as long as the buffers are.

        And until the next call.
        """
        buffers = dense.buffers
        if isinstance(buffers, ChunkBuffers):
            return buffers.content, self._columns(buffers.starts)
        sizes = [dense.sizes[at] for at in self._buffers]
        starts = dict(zip(self._buffers, itertools.accumulate(sizes, initial=0), strict=False))
        columns = self._columns(tuple(starts.get(at, 0) for at in range(len(buffers))))
        size_bytes = sum(sizes) + SPARE_BYTES
        if not _JOINED_MAX_BYTES < size_bytes <= _ROOM_KEPT_MAX_BYTES:
            parts = [*(buffers[at] for at in self._buffers), bytes(SPARE_BYTES)]
            return np.frombuffer(b"".join(parts), np.uint8), columns
        if size_bytes > len(self._room):
            self._room = np.empty(size_bytes, np.uint8)
        for at, size in zip(self._buffers, sizes, strict=True):
            self._room[starts[at] : starts[at] + size] = np.frombuffer(buffers[at], np.uint8)
        return frozen(self._room), columns

    def _columns(self, starts: tuple[int, ...]) -> I8:
        """Return the kernels' description of the columns whose buffers start there."""
        known = self._known.get(starts)
        if known is None:
            of = (*starts, kernels.NO_BUFFER)  # the last one is where numbers are -1
            rows = [
                (place.kind, attribute, of[place.valid], of[place.values], of[place.offsets], place.item)
                for place, attribute in self._places
            ]
            # What is remembered by is as long as all columns, also where few or none are picked.
            self._known_numbers += len(of) + len(rows)
            if self._known_numbers > _KNOWN_NUMBERS_MAX:
                self._known.clear()
                self._known_numbers = len(of) + len(rows)
            known = frozen(np.array(rows, np.int64).reshape(-1, kernels.COLUMN_WIDTH))
            self._known[starts] = known
        return known


class _Way(NamedTuple):
    """How columns are read that can be used as they are."""

    plan: ColumnPlan
    floats: PickedColumns | None


class ColumnReader:
    """Reads batches of columns under one schema and limits.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    """

    def __init__(self, schema: Schema, limits: Limits) -> None:
        self._schema = schema
        self._text_size_max = limits.string_size_bytes_max
        # By the identity of headers, which are kept too: those of a chunk's payloads that lie alike are one.
        self._known: dict[int, tuple[Mapping[str, Any], _Way | None]] = {}
        self._known_columns = 0
        self._columns: list[Any] = []
        self._way: _Way | None = _Way(ColumnPlan([]), None)

    def read(self, header: Mapping[str, Any], buffers: Sequence[Buffer]) -> DenseColumns | None:
        """Return the columns of a checked payload if they can be used as they are, None if they cannot.

        They can if none of the events is refused and no value is converted: one value per event at most, of
        a type that the domain takes unchanged, no NaN, no text beyond the limit.
        """
        way = self._way_of(header)
        if way is None:
            return None
        event_count = header["event_count"]
        if isinstance(buffers, ChunkBuffers):
            sizes: Sequence[int] = buffers.sizes
        else:
            sizes = [memoryview(buffer).nbytes for buffer in buffers]
        dense = DenseColumns(way.plan, buffers, sizes)
        way.plan.check(event_count, sizes)
        if way.floats is not None and _has_nan(*way.floats.gather(dense), event_count):
            return None
        if max(sizes, default=0) > self._text_size_max and self._has_long_text(dense):
            return None
        return dense

    def _way_of(self, header: Mapping[str, Any]) -> _Way | None:
        known = self._known.get(id(header))
        if known is not None:
            return known[1]
        columns = header["columns"]
        if self._columns != columns:
            self._columns = [dict(column) for column in columns]
            self._way = None
            if all(map(self._is_plain, columns)):
                plan = ColumnPlan(columns)
                self._way = _Way(plan, _floats_of(plan))
        self._known_columns += len(columns) + 1
        if self._known_columns > _KNOWN_COLUMNS_MAX:
            self._known.clear()
            self._known_columns = len(columns) + 1
        self._known[id(header)] = header, self._way
        return self._way

    def _is_plain(self, column: Mapping[str, Any]) -> bool:
        declared = self._schema.get(column["name"])
        if column.get("many", False) or (declared is None and self._schema.closed):
            return False
        return declared is None or column["type"] in _UNCHANGED_TYPES.get(declared.domain, frozenset())

    def _has_long_text(self, dense: DenseColumns) -> bool:
        for place in dense.plan.places:
            if place.kind == kernels.TEXTS and dense.sizes[place.values] > self._text_size_max:
                offsets = np.frombuffer(dense.buffers[place.offsets], np.int64)
                if int(np.diff(offsets).max(initial=0)) > self._text_size_max:
                    return True
        return False


def _floats_of(plan: ColumnPlan) -> PickedColumns | None:
    picked = [at for at, place in enumerate(plan.places) if place.kind == kernels.DOUBLES]
    return PickedColumns(plan, picked, picked) if picked else None
