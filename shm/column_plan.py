"""Where the columns of a family lie: from the table (`shm.columns`) and lengths to offsets."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm.columns import CACHE_LINE_BYTES, FAMILIES, FRAMES
from pubsub_cluster.shm.header import HEADER_SIZE_BYTES

_LENGTH = re.compile(r"(?:([0-9]+) \* )?([a-z_]+|[0-9]+)(?: \+ ([0-9]+))?")


class Span(NamedTuple):
    """Where a column lies: byte offset (in the segment, or in its cell), dtype and number of items."""

    offset_bytes: int
    dtype: np.dtype[np.generic]
    item_count: int


class Plan(NamedTuple):
    """All offsets of one segment of a family.

    Attributes
    ----------
    spans : dict of str to Span
    size_bytes : int
        Size of the whole segment, stamp included.
    cells_offset_bytes, cell_size_bytes : int
        First cell and distance between cells; 0 without cells.
    """

    spans: dict[str, Span]
    size_bytes: int
    cells_offset_bytes: int = 0
    cell_size_bytes: int = 0

    def cell_offset_bytes(self, cell_idx: int) -> int:
        """Return where a cell starts in the segment."""
        return self.cells_offset_bytes + cell_idx * self.cell_size_bytes


def length_symbols(family: str) -> tuple[str, ...]:
    """Return the names of a family's lengths, in order of first use, the cell count first."""
    names: dict[str, None] = {}
    if FRAMES[family].cell_symbol:
        names[FRAMES[family].cell_symbol] = None
    for column in FAMILIES[family]:
        symbol = _parse_length(column.length_symbol)[1]
        if not symbol.isdigit():
            names[symbol] = None
    return tuple(names)


def layout_version(family: str) -> int:
    """Return the checksum of a family's table: what a stamp carries as layout version."""
    shape = [(column.name, column.dtype, column.length_symbol) for column in FAMILIES[family]]
    return zlib.crc32(repr((shape, FRAMES[family][:3])).encode())


def lengths_span(family: str) -> Span:
    """Return where the lengths lie, right behind the stamp: int64[symbols] as in `length_symbols`."""
    return Span(HEADER_SIZE_BYTES, np.dtype(np.int64), len(length_symbols(family)))


def plan(family: str, lengths: Mapping[str, int]) -> Plan:
    """Return the offset of every column, and the size of the segment.

    Parameters
    ----------
    family : str
    lengths : mapping of str to int
        A value for each of `length_symbols`.

    Raises
    ------
    SegmentError
        A length is missing, unknown or negative.
    """
    symbols = length_symbols(family)
    if set(lengths) != set(symbols) or min(lengths.values(), default=0) < 0:
        raise SegmentError(f"lengths do not fit family {family}", seen=dict(lengths), limit=list(symbols))
    frame = FRAMES[family]
    directory = lengths_span(family)
    first_bytes = directory.offset_bytes + directory.item_count * directory.dtype.itemsize
    spans: dict[str, Span] = {}
    end_bytes = 0 if frame.cell_symbol else first_bytes
    for column in FAMILIES[family]:
        count = length_in(column.length_symbol, lengths)
        dtype = np.dtype(column.dtype)
        offset_bytes = _aligned(end_bytes, frame.align_bytes)
        spans[column.name] = Span(offset_bytes, dtype, count)
        end_bytes = offset_bytes + count * dtype.itemsize
    if not frame.cell_symbol:
        return Plan(spans, _aligned(end_bytes, CACHE_LINE_BYTES))
    cells_offset_bytes = _aligned(first_bytes, frame.cell_align_bytes)
    cell_size_bytes = _aligned(end_bytes, frame.cell_align_bytes)
    size_bytes = cells_offset_bytes + lengths[frame.cell_symbol] * cell_size_bytes
    return Plan(spans, size_bytes, cells_offset_bytes, cell_size_bytes)


def length_in(length_symbol: str, lengths: Mapping[str, int]) -> int:
    """Return the number of items that a column's `length_symbol` says."""
    factor, symbol, extra = _parse_length(length_symbol)
    return factor * (int(symbol) if symbol.isdigit() else lengths[symbol]) + extra


def _aligned(offset_bytes: int, align_bytes: int) -> int:
    return -(-offset_bytes // align_bytes) * align_bytes


def _parse_length(symbol: str) -> tuple[int, str, int]:
    found = _LENGTH.fullmatch(symbol)
    assert found is not None, f"length {symbol!r} of a column is not of the known forms"
    return int(found[1] or 1), found[2], int(found[3] or 0)
