"""What a publisher sends: a header and a list of buffers, made from whatever the publisher has.

Formats, by ``header["format"]``; every header has ``event_count`` (n), integers are little-endian:

- ``json`` and ``msgpack``: buffers ``[offsets int64[n + 1], bytes]``, one object per event.
- ``columns``: ``header["columns"]`` lists ``{"name", "type", "valid", "many"}``; for each column, in
  order, the buffers ``valid uint8[n]`` if `valid`, ``offsets int64[n + 1]`` if `many`, then k values
  (k = n, or the last offset): ``int64[k]``, ``int32[k]``, ``int16[k]``, ``int8[k]``, ``float64[k]``, for
  ``bool`` ``uint8[k]``, for ``utf8`` two buffers, ``offsets int64[k + 1]`` and the bytes.

Making a payload checks only what cannot be encoded; the cluster judges the events, one by one. Numpy
scalars are plain values here; a `decimal.Decimal` becomes the nearest double. A `datetime` with an offset
goes as MessagePack's timestamp and is taken where its attribute is one. One without an offset, a `date` and a
`time` go as their ISO texts, as encoders of JSON have them: a look at each value would cost as much as
encoding it does. A timestamp takes none of these texts.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import CallerError, EventError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.payload_arrow import columns_of_arrow, is_arrow, values_of_arrow
from pubsub_cluster.language.payload_instants import instants_of
from pubsub_cluster.language.payload_pandas import (
    columns_of_pandas,
    is_missing,
    is_pandas,
    values_of_pandas,
)
from pubsub_cluster.language.payload_text import Utf8Values, utf8_of_array
from pubsub_cluster.language.values import encode_texts

Buffer: TypeAlias = bytes | bytearray | memoryview

# What msgspec raises on values it cannot encode, and on bytes that are no document.
ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

# Integers keep their width, or take the next one that has a sign: less to carry.
_INTEGER_TYPES = {
    np.dtype(given): carried
    for given, carried in (
        ("int8", "int8"),
        ("int16", "int16"),
        ("int32", "int32"),
        ("uint8", "int16"),
        ("uint16", "int32"),
    )
}
_NIL = b"\xc0"  # MessagePack; stands for an event that could not be encoded


class Payload(NamedTuple):
    """A batch as its publisher sends it.

    Attributes
    ----------
    header : dict
        Plain JSON.
    buffers : list of bytes-like
    refused : dict of int to EventError
        Events that could not be encoded, by index; the cluster refuses them as well.
    """

    header: dict[str, Any]
    buffers: list[Buffer]
    refused: dict[int, EventError]

    @property
    def size_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(memoryview(buffer).nbytes for buffer in self.buffers)


def payload_from_dicts(events: Sequence[Mapping[str, Any]]) -> Payload:
    """Return a payload of events given as dictionaries.

    An event that cannot be encoded (an integer beyond 64 bits, a lone surrogate, a foreign type) is sent as
    nil and its error is kept in `Payload.refused`.
    """
    refused: dict[int, EventError] = {}
    encode = _ENCODER.encode
    try:
        parts = list(map(encode, events))
    except ENCODE_ERRORS:
        parts = []
        for event_idx, event in enumerate(events):
            try:
                parts.append(encode(event))
            except ENCODE_ERRORS as found:
                parts.append(_NIL)
                refused[event_idx] = _encoding_error(event_idx, event, found)
    return _rows_payload("msgpack", parts, refused)


def payload_from_json(data: bytes | bytearray | memoryview | str) -> Payload:
    """Return a payload of events given as JSON: one array of objects, or one object per line (NDJSON).

    Events are cut apart, not parsed; a line that is no JSON becomes a refused event of its batch.

    Raises
    ------
    CallerError
        An array that is not well formed, or text with lone surrogates.
    """
    try:
        document = data.encode() if isinstance(data, str) else bytes(data)
    except UnicodeEncodeError as found:
        raise CallerError("the JSON text is not valid Unicode", seen=str(found)) from None
    document = document.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    if document.startswith(b"["):
        try:
            raws = msgspec.json.decode(document, type=list[msgspec.Raw])
        except DECODE_ERRORS as found:
            raise CallerError(
                "the JSON array of events is not well formed",
                seen=str(found),
                remedy="Send one object per line: then a bad line costs only its own event.",
            ) from None
        return _rows_payload("json", [bytes(raw) for raw in raws], {})
    lines = [line for line in (line.strip() for line in document.split(b"\n")) if line]
    if len(lines) > 1 and not _is_json(lines[0]) and _is_json(document):
        lines = [document]  # a single object, written over several lines
    return _rows_payload("json", lines, {})


def payload_from_columns(columns: Any) -> Payload:
    """Return a payload of events given as columns of equal length.

    Parameters
    ----------
    columns : mapping of str to array or list, an Arrow table or record batch, or a pandas DataFrame
        One value per event: integers, floats, booleans or text as NumPy arrays, masked arrays, Arrow arrays,
        pandas Series, lists or anything `numpy.asarray` takes; ``datetime64`` becomes integer microseconds.
        None, NaT, NA and masked values are missing. A float NaN is a value, which the cluster refuses; only
        in a column of pandas that is not of a NumPy type of floats it is missing. Columns of mixed or other
        Python values (lists for several values, say) are sent as rows.

    Raises
    ------
    CallerError
        Columns of different length or of more than one dimension, or a dtype that is not carried.
    """
    if (of_arrow := columns_of_arrow(columns)) is not None:
        columns = of_arrow
    elif (of_pandas := columns_of_pandas(columns)) is not None:
        columns = of_pandas
    prepared = {name: _Column.of(name, values) for name, values in columns.items()}
    counts = {name: column.size for name, column in prepared.items()}
    if len(set(counts.values())) > 1:
        raise CallerError("the columns have different lengths", seen=counts)
    event_count = next(iter(counts.values()), 0)
    described: list[dict[str, Any]] = []
    buffers: list[Buffer] = []
    for name, column in prepared.items():
        encoded = column.encoded()
        if encoded is None:
            return payload_from_dicts(_as_rows(prepared, event_count))
        column_type, is_masked, column_buffers = encoded
        described.append({"name": name, "type": column_type, "valid": is_masked, "many": False})
        buffers += column_buffers
    return Payload({"format": "columns", "event_count": event_count, "columns": described}, buffers, {})


class _Column(NamedTuple):
    """One column: an array of a carried dtype, texts, or a list of Python values, and where it has values."""

    values: npt.NDArray[Any] | Utf8Values | list[Any]
    valid: npt.NDArray[np.bool_] | None

    @property
    def size(self) -> int:
        """Number of values, missing ones included."""
        return len(self.values.offsets) - 1 if isinstance(self.values, Utf8Values) else len(self.values)

    @classmethod
    def of(cls, name: str, given: Any) -> _Column:
        valid = None
        if is_arrow(given):
            given, valid = values_of_arrow(name, given)
            if isinstance(given, Utf8Values):
                return cls(given, valid)
        elif isinstance(given, np.ma.MaskedArray):
            valid = ~np.ma.getmaskarray(given)
            given = given.data
        if isinstance(given, list | tuple):
            return cls(list(given), valid)
        if type(given) is not np.ndarray and is_pandas(given) and getattr(given, "ndim", 0) == 1:
            plain, valid = values_of_pandas(given)
            column = cls.of(name, plain)
            if valid is not None and column.valid is not None:
                valid = valid & column.valid
            return cls(column.values, column.valid if valid is None else valid)
        array = np.asarray(given)
        if array.ndim != 1:
            raise _not_a_column(name, given, array)
        if array.dtype.kind == "M":
            known = ~np.isnat(array)
            valid = known if valid is None else valid & known
            instants = instants_of(array, valid)
            if isinstance(instants, list):
                return cls(instants, None)
            array = instants
        if array.dtype.kind == "U" and (texts := utf8_of_array(array)) is not None:
            return cls(texts, valid)
        if array.dtype.kind in "OUT":
            return cls(array.tolist(), valid)
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise CallerError(
                f"column {name!r} has a dtype that is not carried",
                seen=str(array.dtype),
                limit="booleans, integers, floats, datetime64, text and objects",
            )
        return cls(array, valid)

    def encoded(self) -> tuple[str, bool, list[Buffer]] | None:
        """Return type, whether there is a mask, and buffers; None when only rows can carry the values."""
        values, valid = self.values, self.valid
        if isinstance(values, list):
            found = [value is not None for value in values]
            if not all(found):
                present = np.array(found, dtype=np.bool_)
                valid = present if valid is None else valid & present
            if valid is not None and not valid.all():
                keep = valid.tolist()
                filler = next((value for value, kept in zip(values, keep, strict=True) if kept), 0)
                values = [value if kept else filler for value, kept in zip(values, keep, strict=True)]
            typed = _list_buffers(values)
        elif isinstance(values, Utf8Values):
            typed = "utf8", [_bytes_of(values.offsets), _bytes_of(values.data)]
        else:
            typed = _array_buffers(values, valid)
        if typed is None:
            return None
        mask = [] if valid is None else [_bytes_of(valid.astype(np.uint8))]
        return typed[0], valid is not None, mask + typed[1]


def _not_a_column(name: str, given: Any, array: npt.NDArray[Any]) -> CallerError:
    if array.ndim == 0:
        return CallerError(
            f"column {name!r} is a single value: this looks like one event, not like columns",
            seen=given,
            limit="a list of events, or an array of values for each name",
            remedy="Give a list with it.",
        )
    return CallerError(
        f"column {name!r} is not one-dimensional",
        seen=list(array.shape),
        limit="one value for each event",
        remedy="Give lists for several values, or a column for each.",
    )


def _list_buffers(values: list[Any]) -> tuple[str, list[Buffer]] | None:
    kinds = set(map(type, values))
    try:
        if kinds == {str}:
            offsets, data = encode_texts(values)
            return "utf8", [_bytes_of(offsets), data]
        if kinds == {bool}:
            return "bool", [_bytes_of(np.array(values, dtype=np.uint8))]
        if kinds == {int} or not kinds:
            return "int64", [_bytes_of(np.array(values, dtype="<i8"))]
        if kinds == {float}:
            return "float64", [_bytes_of(np.array(values, dtype="<f8"))]
    except (OverflowError, UnicodeEncodeError):
        pass  # as rows, so that only the events with such values are refused
    return None


def _array_buffers(
    array: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None
) -> tuple[str, list[Buffer]] | None:
    kind = array.dtype.kind
    if kind == "b":
        return "bool", [_bytes_of(array.astype(np.uint8))]
    if kind == "f":
        return "float64", [_bytes_of(array.astype("<f8"))]
    if kind == "u" and array.dtype.itemsize == 8:  # in either order of bytes
        wide = array > np.uint64(2**63 - 1)
        if (wide if valid is None else wide & valid).any():
            return None
    name = _INTEGER_TYPES.get(array.dtype, "int64")
    return name, [_bytes_of(array.astype(np.dtype(name).newbyteorder("<"), copy=False))]


def _as_rows(columns: Mapping[str, _Column], event_count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(event_count)]
    for name, (values, valid) in columns.items():
        listed = values if isinstance(values, list) else values.tolist()
        kept = [True] * event_count if valid is None else valid.tolist()
        for row, value, is_kept in zip(rows, listed, kept, strict=True):
            if is_kept and value is not None:
                row[name] = value
    return rows


def _rows_payload(name: str, parts: list[bytes], refused: dict[int, EventError]) -> Payload:
    ends = array("q", accumulate(map(len, parts), initial=0))
    if sys.byteorder == "big":
        ends.byteswap()
    buffers: list[Buffer] = [ends.tobytes(), b"".join(parts)]
    return Payload({"format": name, "event_count": len(parts)}, buffers, refused)


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B") if array.size else memoryview(b"")


def _plain_value(value: Any) -> Any:
    """Return what MessagePack can carry for a value of a type that `msgspec` does not know."""
    for plain in (str, float, int):
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_missing(value):
        return None
    if isinstance(value, datetime) and value.utcoffset() is not None:  # pandas has a kind of its own
        return datetime.combine(value.date(), value.timetz())
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain_value, decimal_format="number")


def _encoding_error(event_idx: int, event: Any, found: Exception) -> EventError:
    if isinstance(event, dict):
        # What can be encoded is not the reason; the cluster alone knows where an instant may stand.
        event = {
            name: value
            for name, value in event.items()
            if not is_missing(value) and not (isinstance(value, datetime) and value.utcoffset() is not None)
        }
    try:
        flatten_event(event)
    except EventError as refused:
        error = refused
    else:
        error = EventError("the event cannot be encoded", seen=str(found))
    error.fields["event_index"] = event_idx
    return error


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except DECODE_ERRORS:
        return False
    return True
