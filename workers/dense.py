"""Dense columns of a payload as the kernel takes them: one array of bytes, and where in it each column lies.

What the header says of the columns is worked out once: a publisher's batches are mostly alike. Then a batch
costs one copy of its bytes (a twentieth of what encoding them costs) instead of an array per buffer, each of
which takes longer to make than a hundred values to encode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.payload import Buffer
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


class PlanRows(NamedTuple):
    """Rows for the kernel, which take their places from the buffers of a batch.

    Attributes
    ----------
    row : int64[c, COLUMN_WIDTH]
        Without the places.
    buffer : int64[c, 3]
        Numbers of the buffers of validity, values and text offsets; NO_BUFFER for none.
    """

    row: I8
    buffer: I8


class ColumnPlan:
    """What the header says of a batch's columns, all of which can be used as they are.

    Parameters
    ----------
    columns : sequence of mapping
        Of a checked header.

    Attributes
    ----------
    names : list of str
    has_floats, has_gaps : bool
        Whether a column holds float64, or may lack values.
    all_rows : PlanRows
        Of all columns; their attributes mean nothing.
    """

    def __init__(self, columns: Sequence[Mapping[str, Any]]) -> None:
        self.names = [column["name"] for column in columns]
        self.has_floats = any(column["type"] == "float64" for column in columns)
        self.has_gaps = any(column.get("valid", False) for column in columns)
        self._places: list[tuple[int, int, int, int]] = []
        self._size_of: list[tuple[int, int]] = []  # bytes per event, and bytes more, of each buffer
        for column in columns:
            kind = _KERNEL_TYPES[column["type"]]
            valid = self._add(1, 0) if column.get("valid", False) else kernels.NO_BUFFER
            offsets = self._add(8, 8) if kind == kernels.TEXTS else kernels.NO_BUFFER
            width = {kernels.BOOLEANS: 1, kernels.TEXTS: _ANY_SIZE}.get(kind, 8)
            self._places.append((kind, valid, self._add(width, 0), offsets))
        self.all_rows = self.rows_of(range(len(columns)), range(len(columns)))
        self._known: tuple[int, list[int], I8] = (-1, [], np.zeros(0, np.int64))

    def _add(self, per_event: int, more: int) -> int:
        self._size_of.append((per_event, more))
        return len(self._size_of) - 1

    def starts_of(self, event_count: int, sizes: list[int]) -> I8:
        """Return the first byte of each buffer, then their end, then NO_BUFFER; the same array if it can be.

        Raises
        ------
        ProtocolError
            The buffers are not those that the header says.
        """
        if self._known[0] == event_count and self._known[1] == sizes:
            return self._known[2]
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
        starts = np.zeros(len(sizes) + 2, np.int64)
        np.cumsum(sizes, out=starts[1:-1])
        starts[-1] = kernels.NO_BUFFER
        self._known = (event_count, sizes, frozen(starts))
        return self._known[2]

    def rows_of(self, picked: Sequence[int], attributes: Sequence[int]) -> PlanRows:
        """Return the kernel's rows of some columns, by number, as these attributes."""
        places = np.array([self._places[at] for at in picked], np.int64).reshape(-1, 4)
        row = np.zeros((len(picked), kernels.COLUMN_WIDTH), np.int64)
        row[:, kernels.COLUMN_TYPE] = places[:, 0]
        row[:, kernels.COLUMN_ATTRIBUTE] = attributes
        return PlanRows(row, places[:, 1:])


class DenseColumns(NamedTuple):
    """The columns of one batch.

    Attributes
    ----------
    plan : ColumnPlan
    data : uint8[]
        All buffers, one after the other, and a few bytes more.
    starts : int64[b+2]
        `ColumnPlan.starts_of`.
    """

    plan: ColumnPlan
    data: U1
    starts: I8

    def rows(self, rows: PlanRows) -> I8:
        """Return rows of the plan with the places that they have in this batch."""
        found = rows.row.copy()
        found[:, kernels.COLUMN_VALID :] = self.starts[rows.buffer]
        return frozen(found)


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
        self._plan: ColumnPlan | None = None

    def read(self, header: Mapping[str, Any], buffers: Sequence[Buffer]) -> DenseColumns | None:
        """Return the columns of a checked payload if they can be used as they are, None if they cannot.

        They can if none of the events is refused and no value is converted: one value per event at most, of
        a type that the domain takes unchanged, no NaN, no text beyond the limit.
        """
        plan = self._plan_of(header)
        if plan is None:
            return None
        event_count = header["event_count"]
        sizes = [memoryview(buffer).nbytes for buffer in buffers]
        starts = plan.starts_of(event_count, sizes)
        data = np.frombuffer(b"".join((*buffers, _SPARE)), np.uint8)
        dense = DenseColumns(plan, data, starts)
        if plan.has_floats and _has_nan(data, dense.rows(plan.all_rows), event_count):
            return None
        if max(sizes, default=0) > self._text_size_max and self._has_long_text(dense, event_count):
            return None
        return dense

    def _plan_of(self, header: Mapping[str, Any]) -> ColumnPlan | None:
        columns = header["columns"]
        if header is not self._header:
            if self._columns != columns:
                self._columns = [dict(column) for column in columns]
                self._plan = ColumnPlan(columns) if all(map(self._is_plain, columns)) else None
            self._header = header
        return self._plan

    def _is_plain(self, column: Mapping[str, Any]) -> bool:
        declared = self._schema.get(column["name"])
        if column.get("many", False) or (declared is None and self._schema.closed):
            return False
        return declared is None or column["type"] in _UNCHANGED_TYPES.get(declared.domain, frozenset())

    def _has_long_text(self, dense: DenseColumns, event_count: int) -> bool:
        for kind, _, _, _, offsets in dense.rows(dense.plan.all_rows).tolist():
            if kind == kernels.TEXTS:
                bounds = np.frombuffer(dense.data, np.int64, event_count + 1, offsets)
                if int(np.diff(bounds).max(initial=0)) > self._text_size_max:
                    return True
        return False
