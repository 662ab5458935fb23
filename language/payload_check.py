"""The check of a payload that came from outside: nothing in it is trusted, nothing in it can crash us.

After `check_payload` every buffer has the size that the header implies, offsets ascend and end at the end, no
text is cut inside a character, flags are 0 or 1. What single events hold is checked when they are decoded,
event by event. `split_columns` is the one place that knows how buffers follow from the header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits, check_limit
from pubsub_cluster.language.payload import Buffer
from pubsub_cluster.language.values import check_name

FORMATS = ("json", "msgpack", "columns")
INTEGER_BYTES = {"int64": 8, "int32": 4, "int16": 2, "int8": 1}
"""Types of columns of integers, which differ in nothing but the room that a value takes."""
COLUMN_TYPES = (*INTEGER_BYTES, "float64", "bool", "utf8")

_TWO_INTEGERS = struct.Struct("<2q")
_DTYPES: dict[str, npt.DTypeLike] = {
    **{column_type: f"<i{item}" for column_type, item in INTEGER_BYTES.items()},
    "float64": "<f8",
    "bool": np.uint8,
}


class ColumnView(NamedTuple):
    """One column of a payload, as views on its buffers.

    Attributes
    ----------
    name, type : str
    valid : uint8[event_count] or None
    list_offsets : int64[event_count + 1] or None
        Where the column has several values per event.
    values : int64[k], int32[k], int16[k], int8[k], float64[k] or uint8[k]
        For ``utf8`` the UTF-8 bytes.
    text_offsets : int64[k + 1] or None
    """

    name: str
    type: str
    valid: npt.NDArray[np.uint8] | None
    list_offsets: npt.NDArray[np.int64] | None
    values: npt.NDArray[Any]
    text_offsets: npt.NDArray[np.int64] | None


def check_payload(
    header: Mapping[str, Any], buffers: Sequence[Buffer], limits: Limits = DEFAULT_LIMITS
) -> None:
    """Check header and buffers of a batch; return nothing when they can be decoded safely.

    Raises
    ------
    ProtocolError
        The header is not of a known form, or a buffer is not what the header says.
    LimitError
        Too many bytes, events or columns.
    """
    check_header(header, limits)
    check_buffers(header, buffers, limits)


def check_buffers(header: Mapping[str, Any], buffers: Sequence[Buffer], limits: Limits) -> int:
    """Check the buffers of a batch whose header is checked already; return the bytes in all of them.

    Errors are those of `check_payload`.
    """
    event_count = header["event_count"]
    size_bytes = sum([_flat(buffer, "a buffer").nbytes for buffer in buffers])
    check_limit(
        "batch_size_bytes_max",
        size_bytes,
        limits.batch_size_bytes_max,
        "bytes in a batch",
        "Split the batch.",
    )
    if header["format"] != "columns":
        if event_count == 1 and len(buffers) == 2:
            _check_one_row(buffers[0], size_bytes - memoryview(buffers[0]).nbytes)
            return size_bytes
        if len(buffers) != 2:
            raise ProtocolError("a batch of rows has two buffers", seen=len(buffers), limit=2)
        offsets = _array(buffers[0], "<i8", event_count + 1, "the offsets of the events")
        _check_offsets(offsets, _flat(buffers[1], "the events").nbytes, "the offsets of the events")
        return size_bytes
    for view in split_columns(header, buffers):
        _check_column(view)
    return size_bytes


def split_columns(header: Mapping[str, Any], buffers: Sequence[Buffer]) -> Iterator[ColumnView]:
    """Yield the columns of a batch in format ``columns``; the header must have been checked.

    Raises
    ------
    ProtocolError
        A buffer is missing, superfluous or of a wrong size.
    """
    event_count = header["event_count"]
    rest = iter(buffers)
    for column in header["columns"]:
        name, column_type = column["name"], column["type"]
        what = f"column {name!r}"
        valid = list_offsets = text_offsets = None
        try:
            if column.get("valid", False):
                valid = _array(next(rest), np.uint8, event_count, f"{what}, valid")
            value_count = event_count
            if column.get("many", False):
                list_offsets = _array(next(rest), "<i8", event_count + 1, f"{what}, list offsets")
                value_count = int(list_offsets[-1])
            if column_type == "utf8":
                text_offsets = _array(next(rest), "<i8", value_count + 1, f"{what}, text offsets")
                values = np.frombuffer(_flat(next(rest), what), dtype=np.uint8)
            else:
                values = _array(next(rest), _DTYPES[column_type], value_count, f"{what}, values")
        except StopIteration:
            raise ProtocolError(
                "the batch has fewer buffers than its header says", seen=len(buffers)
            ) from None
        yield ColumnView(name, column_type, valid, list_offsets, values, text_offsets)
    if next(rest, None) is not None:
        raise ProtocolError("the batch has more buffers than its header says", seen=len(buffers))


def check_header(header: Any, limits: Limits) -> None:
    """Check the header of a batch.

    Raises
    ------
    ProtocolError, LimitError
        As `check_payload`.
    """
    if not isinstance(header, Mapping):
        raise ProtocolError("the header of a batch is not an object", seen=type(header).__name__)
    batch_format = header.get("format")
    if batch_format not in FORMATS:
        raise ProtocolError("unknown format of a batch", seen=batch_format, limit=list(FORMATS))
    _check_keys(header, {"format", "event_count"} | ({"columns"} if batch_format == "columns" else set()))
    event_count = header.get("event_count")
    if type(event_count) is not int or event_count < 0:
        raise ProtocolError("event_count of a batch is not a count", seen=event_count)
    check_limit(
        "events_per_batch_max",
        event_count,
        limits.events_per_batch_max,
        "events in a batch",
        "Split the batch.",
    )
    if batch_format == "columns":
        _check_column_list(header.get("columns"), limits)


def _check_column_list(columns: Any, limits: Limits) -> None:
    if not isinstance(columns, list):
        raise ProtocolError("the columns of a batch are not a list", seen=type(columns).__name__)
    column_count_max = limits.attributes_per_event_max
    check_limit(
        "attributes_per_event_max", len(columns), column_count_max, "columns in a batch", "Send rows instead."
    )
    names: set[str] = set()
    for column in columns:
        if not isinstance(column, Mapping):
            raise ProtocolError("the description of a column is not an object", seen=column)
        _check_keys(column, {"name", "type", "valid", "many"})
        name = check_name(column.get("name"), what="name of a column", limits=limits, error=ProtocolError)
        if name in names:
            raise ProtocolError("two columns have one name", seen=name)
        names.add(name)
        if column.get("type") not in COLUMN_TYPES:
            raise ProtocolError(
                f"column {name!r} has an unknown type", seen=column.get("type"), limit=list(COLUMN_TYPES)
            )
        for flag in ("valid", "many"):
            if type(column.get(flag, False)) is not bool:
                raise ProtocolError(f"`{flag}` of column {name!r} is not true or false", seen=column[flag])


def _check_keys(found: Mapping[str, Any], known: set[str]) -> None:
    unknown = [name for name in found if name not in known]
    if unknown:
        raise ProtocolError(
            "unknown fields in the header of a batch", seen=sorted(map(str, unknown)), limit=sorted(known)
        )


def _check_column(view: ColumnView) -> None:
    what = f"column {view.name!r}"
    if view.valid is not None and view.valid.size and int(view.valid.max()) > 1:
        raise ProtocolError(f"{what}: valid is not 0 or 1", seen=int(view.valid.max()))
    if view.list_offsets is not None:
        _check_offsets(view.list_offsets, int(view.list_offsets[-1]), f"{what}, list offsets")
    if view.text_offsets is not None:
        _check_offsets(view.text_offsets, view.values.size, f"{what}, text offsets")
        _check_texts(view.values, view.text_offsets, what)
    elif view.type == "bool" and view.values.size and int(view.values.max()) > 1:
        raise ProtocolError(f"{what}: a boolean is not 0 or 1", seen=int(view.values.max()))


def _check_offsets(offsets: npt.NDArray[np.int64], size: int, what: str) -> None:
    # Compared, not subtracted: differences of hostile offsets overflow.
    if int(offsets[0]) != 0 or int(offsets[-1]) != size or (offsets[1:] < offsets[:-1]).any():
        raise ProtocolError(
            f"{what} do not ascend from zero to the end",
            seen=[int(offsets[0]), int(offsets[-1])],
            limit=[0, size],
        )


def _check_one_row(offsets: Buffer, size: int) -> None:
    """Check the offsets of a single event: two integers need no arrays."""
    what = "the offsets of the events"
    if offsets != _TWO_INTEGERS.pack(0, size):
        _check_offsets(_array(offsets, "<i8", 2, what), size, what)


def _check_texts(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], what: str) -> None:
    try:
        str(data.data, "utf-8")
    except UnicodeDecodeError as found:
        raise ProtocolError(f"{what}: the text is not UTF-8", seen=str(found)) from None
    starts = offsets[offsets < data.size]
    if ((data[starts] & 0xC0) == 0x80).any():
        raise ProtocolError(f"{what}: an offset is inside a character")


def _flat(buffer: Buffer, what: str) -> memoryview:
    if type(buffer) is bytes:
        return memoryview(buffer)
    try:
        view = memoryview(buffer)
        return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")
    except (TypeError, ValueError, BufferError) as found:
        raise ProtocolError(f"{what} is not a contiguous buffer of bytes", seen=str(found)) from None


def _array(buffer: Buffer, dtype: npt.DTypeLike, count: int, what: str) -> npt.NDArray[Any]:
    view = _flat(buffer, what)
    size_bytes = count * np.dtype(dtype).itemsize
    if count < 0 or view.nbytes != size_bytes:
        raise ProtocolError(f"{what}: wrong size of a buffer, in bytes", seen=view.nbytes, limit=size_bytes)
    return np.frombuffer(view, dtype=dtype)
