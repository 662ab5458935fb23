"""Dense columns of a payload as the kernel takes them: one array of bytes, and where in it each column lies.

What the header says of the columns is worked out once: a publisher's batches are mostly alike. A batch then
costs one copy of the columns that somebody wants, instead of an array per buffer, each of which takes longer
to make than copying a thousand values.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.payload import Buffer
from pubsub_cluster.language.raw_batch import TextEntries
from pubsub_cluster.language.schema import DomainKind, Schema
from pubsub_cluster.shm.code_space import I8, U1
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.kernels import columns as kernels
from pubsub_cluster.workers.kernels._jit import Settled

_UNCHANGED_TYPES: dict[DomainKind, frozenset[str]] = {
    DomainKind.INTEGER: frozenset({"int64"}),
    DomainKind.FLOAT: frozenset({"int64", "float64"}),
    DomainKind.STRING: frozenset({"utf8"}),
    DomainKind.BOOLEAN: frozenset({"bool"}),
    DomainKind.TIMESTAMP: frozenset({"int64"}),
}
_KERNEL_TYPES = {
    "int64": kernels.INTEGERS,
    "float64": kernels.DOUBLES,
    "bool": kernels.BOOLEANS,
    "utf8": kernels.TEXTS,
}
_has_nan = Settled(kernels.has_nan)
_SPARE = bytes(8)
"""What the kernel may read beyond the last buffer."""
_ANY_SIZE = -1


class _Places(NamedTuple):
    """Type of a column, and the numbers of its buffers; NO_BUFFER for those it does not have."""

    kind: int
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
            width = {kernels.BOOLEANS: 1, kernels.TEXTS: _ANY_SIZE}.get(kind, 8)
            self.places.append(_Places(kind, valid, self._add(width, 0), offsets))
        self._known: tuple[int, list[int]] = (-1, [])

    def _add(self, per_event: int, more: int) -> int:
        self._size_of.append((per_event, more))
        return len(self._size_of) - 1

    def check(self, event_count: int, sizes: list[int]) -> None:
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
    sizes : list of int
        Bytes of each buffer.
    """

    plan: ColumnPlan
    buffers: Sequence[Buffer]
    sizes: list[int]

    def texts_of(self, name: str | None) -> list[TextEntries]:
        """Return the texts of a column, or of all."""
        found = []
        for known, place in zip(self.plan.names, self.plan.places, strict=True):
            if place.kind == kernels.TEXTS and (name is None or name == known):
                bounds = np.frombuffer(self.buffers[place.offsets], np.int64)
                data = frozen(np.frombuffer(self.buffers[place.values], np.uint8))
                row = np.arange(len(bounds) - 1, dtype=np.int32)
                start, end = bounds[:-1], bounds[1:]
                if place.valid != kernels.NO_BUFFER:
                    row = row[np.frombuffer(self.buffers[place.valid], np.bool_)]
                    start, end = start[row], end[row]
                found.append(TextEntries(row, start, end, data))
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
        self._buffers = sorted({buffer for place in places for buffer in place[1:]} - {kernels.NO_BUFFER})
        number = {buffer: at for at, buffer in enumerate(self._buffers)}
        self._rows = [
            (place.kind, attribute, *(number.get(buffer, -1) for buffer in place[1:]))
            for place, attribute in zip(places, attributes, strict=True)
        ]
        self._known: tuple[list[int], I8] = ([], frozen(np.zeros((0, kernels.COLUMN_WIDTH), np.int64)))

    def gather(self, dense: DenseColumns) -> tuple[U1, I8]:
        """Return `data` and `columns` as the kernels want them."""
        sizes = [dense.sizes[at] for at in self._buffers]
        if sizes != self._known[0]:
            # The last start, the end of all, is no buffer's: it stands where numbers are -1.
            starts = [*itertools.accumulate(sizes[:-1], initial=0), kernels.NO_BUFFER]
            rows = [
                (kind, attribute, starts[valid], starts[values], starts[offsets])
                for kind, attribute, valid, values, offsets in self._rows
            ]
            self._known = sizes, frozen(np.array(rows, np.int64))
        parts = [*(dense.buffers[at] for at in self._buffers), _SPARE]
        return np.frombuffer(b"".join(parts), np.uint8), self._known[1]


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
        self._header: Mapping[str, Any] | None = None
        self._columns: list[Any] = []
        self._plan: ColumnPlan | None = ColumnPlan([])
        self._floats: PickedColumns | None = None

    def read(self, header: Mapping[str, Any], buffers: Sequence[Buffer]) -> DenseColumns | None:
        """Return the columns of a checked payload if they can be used as they are, None if they cannot.

        They can if none of the events is refused and no value is converted: one value per event at most, of
        a type that the domain takes unchanged, no NaN, no text beyond the limit.
        """
        plan = self._plan_of(header)
        if plan is None:
            return None
        event_count = header["event_count"]
        dense = DenseColumns(plan, buffers, [memoryview(buffer).nbytes for buffer in buffers])
        plan.check(event_count, dense.sizes)
        if self._floats is not None and _has_nan(*self._floats.gather(dense), event_count):
            return None
        if max(dense.sizes, default=0) > self._text_size_max and self._has_long_text(dense):
            return None
        return dense

    def _plan_of(self, header: Mapping[str, Any]) -> ColumnPlan | None:
        columns = header["columns"]
        if header is not self._header:
            if self._columns != columns:
                self._columns = [dict(column) for column in columns]
                self._plan = ColumnPlan(columns) if all(map(self._is_plain, columns)) else None
                self._floats = None if self._plan is None else _floats_of(self._plan)
            self._header = header
        return self._plan

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
