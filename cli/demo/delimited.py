"""Read a large, plain CSV file into coded columns with NumPy alone.

Idea: find every separator at once, so that field (row, column) is a start and an end in one byte buffer.
The fields of a column are packed into integers (or fixed-width byte strings when they are long), made
distinct, and only the distinct ones are decoded by Python. A column of 336,776 rows with 500 distinct
values costs a sort of machine words and 500 calls of `int`.

Rules: the file has a header and no quoted fields (else the csv module takes over); ``NA`` and the empty
field are missing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pubsub_cluster.language.errors import CallerError

MISSING_TEXTS = frozenset({"", "NA"})
PACKED_BYTES_MAX = 8


class Coded(NamedTuple):
    """A column as distinct texts and one code per row.

    Attributes
    ----------
    texts : list of str
        Distinct fields, as written.
    codes : int32[rows]
        Index into `texts`; -1 where the field is missing.
    """

    texts: list[str]
    codes: NDArray[np.int32]


def read_coded(data: bytes, names: Iterable[str]) -> dict[str, Coded]:
    """Return the named columns of a CSV text.

    Parameters
    ----------
    data : bytes
        The whole file, UTF-8, with a header line.
    names : iterable of str
        Columns to read; the others cost nothing.

    Raises
    ------
    CallerError
        When a column is absent or the lines do not all have the header's number of fields.
    """
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    if b'"' in data:
        return _read_quoted(data, list(names))
    if not data.endswith(b"\n"):
        data += b"\n"
    header_text, _, body = data.partition(b"\n")
    header = header_text.decode().split(",")
    buffer = np.frombuffer(body, dtype=np.uint8)
    stops = np.flatnonzero((buffer == ord(",")) | (buffer == ord("\n")))
    _check_shape(buffer, stops, len(header))
    starts = np.empty_like(stops)
    starts[:1] = 0
    starts[1:] = stops[:-1] + 1
    columns: dict[str, Coded] = {}
    for name in names:
        column_idx = _column_index(header, name)
        columns[name] = _code_fields(
            buffer, starts[column_idx :: len(header)], stops[column_idx :: len(header)]
        )
    return columns


def as_numbers(column: Coded, kind: type[int] | type[float]) -> np.ma.MaskedArray[Any, Any]:
    """Return a coded column as int64 or float64, masked where the field is missing."""
    dtype = np.int64 if kind is int else np.float64
    distinct = np.array([kind(text) for text in column.texts] + [kind(0)], dtype=dtype)
    return np.ma.MaskedArray(distinct[column.codes], mask=column.codes < 0)


def _check_shape(buffer: NDArray[np.uint8], stops: NDArray[np.int64], field_count: int) -> None:
    line_ends = buffer[stops] == ord("\n")
    shaped = len(stops) % field_count == 0 and bool(line_ends.reshape(-1, field_count)[:, -1].all())
    if not shaped or int(line_ends.sum()) * field_count != len(stops):
        raise CallerError(
            "a line of the CSV file has another number of fields than its header",
            seen=f"{len(stops)} fields in {int(line_ends.sum())} lines",
            limit=f"{field_count} fields per line",
            remedy="The file is damaged; install the data package again.",
        )


def _column_index(header: list[str], name: str) -> int:
    if name not in header:
        raise CallerError("the CSV file lacks a column", seen=", ".join(header), limit=name)
    return header.index(name)


def _code_fields(buffer: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Coded:
    """Make the fields ``buffer[starts[i]:stops[i]]`` distinct."""
    size_bytes = stops - starts
    width = max(1, int(size_bytes.max(initial=0)))
    last = len(buffer) - 1
    if width <= PACKED_BYTES_MAX:
        packed = np.zeros(len(starts), dtype=np.uint64)
        for byte_idx in range(width):
            byte = np.where(byte_idx < size_bytes, buffer[np.minimum(starts + byte_idx, last)], 0)
            packed = (packed << np.uint64(8)) | byte.astype(np.uint64)
        distinct, codes = np.unique(packed, return_inverse=True)
        texts = [int(key).to_bytes(width, "big").rstrip(b"\0").decode() for key in distinct]
    else:
        fields = np.zeros((len(starts), width), dtype=np.uint8)
        for byte_idx in range(width):
            fields[:, byte_idx] = np.where(
                byte_idx < size_bytes, buffer[np.minimum(starts + byte_idx, last)], 0
            )
        found, codes = np.unique(fields.view(f"S{width}").ravel(), return_inverse=True)
        texts = [key.decode() for key in found.tolist()]
    return _without_missing(texts, codes.astype(np.int32))


def _without_missing(texts: list[str], codes: NDArray[np.int32]) -> Coded:
    """Give missing fields the code -1 and number the others densely."""
    kept = [text for text in texts if text not in MISSING_TEXTS]
    new_code = {text: code for code, text in enumerate(kept)}
    renumber = np.array([new_code.get(text, -1) for text in texts], dtype=np.int32)
    return Coded(kept, renumber[codes] if len(texts) else codes)


def _read_quoted(data: bytes, names: list[str]) -> dict[str, Coded]:
    rows = csv.reader(io.StringIO(data.decode()))
    header = next(rows)
    by_column = list(zip(*rows, strict=True))
    columns: dict[str, Coded] = {}
    for name in names:
        fields = by_column[_column_index(header, name)] if by_column else ()
        texts = sorted(set(fields))
        code_of = {text: code for code, text in enumerate(texts)}
        columns[name] = _without_missing(
            texts, np.array([code_of[field] for field in fields], dtype=np.int32)
        )
    return columns
