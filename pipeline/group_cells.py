"""Groups of subscribers on Spark, in the Python workers: record batches in, record batches out.

What an owner is interested in is one row: a name, and a bitmap over the grid's cells. Totals by cell add up,
whatever the partitions. Nothing here knows Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pubsub_cluster.language.batch import RawBatch, decode_payload, payload_from_columns
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.code_space import F8, I4, I8, U8
from pubsub_cluster.shm.layout_folder import map_part, open_folder
from pubsub_cluster.tuner.grid import Grid
from pubsub_cluster.tuner.groups import CellTotals, Interests, cell_totals, pack_bits
from pubsub_cluster.tuner.interest import owner_cells, rectangle_cells
from pubsub_cluster.tuner.owner_shares import Slice

REFUSED = -2
"""The cell of events that were refused; `tuner.grid.OUTSIDE` is that of those outside the grid."""
EVERYBODY = -1
"""The cell of which `total_batches` tells how many owners there are."""
OWNERS_PER_BATCH = 4_096
BLOCK_CELLS = 64

OWNER_CELLS = pa.schema([("owner", pa.string()), ("cells", pa.binary())])
CELL_COUNTS = pa.schema([("cell", pa.int64()), ("count", pa.int64())])
CELL_TOTALS = pa.schema(
    [("cell", pa.int64()), ("size", pa.int64()), ("low", pa.int64()), ("high", pa.int64())]
)
MEMBERS = pa.schema([("group", pa.int32()), ("owner", pa.string())])


class Layout(NamedTuple):
    """Whose subscriptions are asked: picklable, and small.

    Attributes
    ----------
    root : str
        A layout folder, under this path on every host.
    generation : int
    share_count : int
        Each part's owners are divided among so many tasks.
    """

    root: str
    generation: int
    share_count: int


def read_events(batch: pa.RecordBatch, schema: Schema) -> RawBatch:
    """Return a record batch of events, a column per attribute, as matching sees them."""
    if not batch.num_columns:
        return RawBatch(batch.num_rows, {}, {})
    payload = payload_from_columns(batch)
    return decode_payload(payload.header, payload.buffers, schema)


def count_batches(batches: Iterable[pa.RecordBatch], grid: Grid, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Count events by cell, those outside the grid and those refused too: `CELL_COUNTS`."""
    counts = np.zeros(grid.cell_count + 2, np.int64)
    for batch in batches:
        raw = read_events(batch, schema)
        cell = grid.locate(raw)
        cell[list(raw.refused)] = REFUSED
        counts += np.bincount(cell - REFUSED, minlength=len(counts))
    there = np.flatnonzero(counts)
    yield pa.record_batch([pa.array(there + REFUSED), pa.array(counts[there])], schema=CELL_COUNTS)


def interest_batches(
    batches: Iterable[pa.RecordBatch], layout: Layout, grid: Grid
) -> Iterator[pa.RecordBatch]:
    """Give owners of a layout's parts with the cells that they are interested in: `OWNER_CELLS`.

    Column ``id`` has ``part * share_count + share``. An owner comes once per part in which they have
    something.
    """
    paths: list[Path] | None = None
    for batch in batches:
        for number in batch.column("id").to_pylist():
            paths = paths or open_folder(Path(layout.root), layout.generation).paths
            part, share = divmod(number, layout.share_count)
            mapped = map_part(paths[part])
            reader, counts = mapped.catalogue, mapped.catalogue.capacity
            for block in owner_cells(reader, counts, grid, share=Slice(share, layout.share_count)):
                yield _owner_batch([reader.owner_name(owner) for owner in block.owner.tolist()], block.cells)


def rectangle_batches(batches: Iterable[pa.RecordBatch], grid: Grid) -> Iterator[pa.RecordBatch]:
    """Give owners of rectangles with the cells that they are interested in: `OWNER_CELLS`.

    A row is a rectangle: ``owner``, and ``<attribute>_lo`` and ``<attribute>_hi`` of each attribute of the
    grid, open below and closed above; null has no end.
    """
    for batch in batches:
        names = batch.column("owner").dictionary_encode()
        owner = names.indices.to_numpy(zero_copy_only=False)
        is_owned = names.indices.is_valid().to_numpy(zero_copy_only=False)
        lo, hi = (
            [_ends(batch, f"{one.attribute}_{side}", free)[is_owned] for one in grid.dimensions]
            for side, free in (("lo", -np.inf), ("hi", np.inf))
        )
        for block in rectangle_cells(owner[is_owned].astype(np.int32), lo, hi, grid):
            yield _owner_batch(names.dictionary.take(pa.array(block.owner)).to_pylist(), block.cells)


def _ends(batch: pa.RecordBatch, name: str, free: float) -> F8:
    found: F8 = batch.column(name).cast(pa.float64()).fill_null(free).to_numpy(zero_copy_only=False)
    return found


def merge_batches(batches: Iterable[pa.RecordBatch], grid: Grid) -> Iterator[pa.RecordBatch]:
    """Give each owner once, of rows in which those of one owner follow each other: `OWNER_CELLS`."""
    names: list[str] = []
    held: list[U8] = []
    for batch in batches:
        for name, cells in zip(batch.column("owner").to_pylist(), cells_of(batch, grid), strict=True):
            if names and names[-1] == name:
                held[-1] = held[-1] | cells
                continue
            if len(names) == OWNERS_PER_BATCH:
                yield _owner_batch(names, np.stack(held))
                names, held = [], []
            names.append(name)
            held.append(cells)
    if names:
        yield _owner_batch(names, np.stack(held))


def total_batches(batches: Iterable[pa.RecordBatch], grid: Grid) -> Iterator[pa.RecordBatch]:
    """Give `tuner.groups.CellTotals` of some owners, and their number: `CELL_TOTALS`."""
    size = np.zeros(grid.cell_count, np.int64)
    signature = np.zeros((grid.cell_count, 2), np.uint64)
    count = 0
    for batch in batches:
        owners = tuple(batch.column("owner").to_pylist())
        found = cell_totals(Interests(owners, cells_of(batch, grid)), grid)
        size += found.size
        signature ^= found.signature
        count += len(owners)
    cell = np.flatnonzero(size)
    low, high = signature[cell].view(np.int64).T
    columns = [
        np.append(cell, EVERYBODY),
        np.append(size[cell], count),
        np.append(low, 0),
        np.append(high, 0),
    ]
    yield pa.record_batch([pa.array(column) for column in columns], schema=CELL_TOTALS)


def totals_of(table: pa.Table, grid: Grid) -> tuple[CellTotals, int]:
    """Return the totals by cell, and the number of owners, of rows added up by cell."""
    cell, size, low, high = (table.column(name).to_numpy() for name in CELL_TOTALS.names)
    found = CellTotals(np.zeros(grid.cell_count, np.int64), np.zeros((grid.cell_count, 2), np.uint64))
    is_cell = cell != EVERYBODY
    found.size[cell[is_cell]] = size[is_cell]
    found.signature[cell[is_cell]] = np.stack((low, high), axis=1)[is_cell].view(np.uint64)
    return found, int(size[~is_cell].sum())


def kept_batches(batches: Iterable[pa.RecordBatch], grid: Grid, kept: I8) -> Iterator[pa.RecordBatch]:
    """Give owners with bitmaps over kept cells, those without any left out: `OWNER_CELLS`."""
    word, bit = grid.bit_of(kept)
    for batch in batches:
        is_in = ((cells_of(batch, grid)[:, word] >> bit) & np.uint64(1)).astype(np.bool_)
        there = np.flatnonzero(is_in.any(axis=1))
        yield _owner_batch(batch.column("owner").take(pa.array(there)).to_pylist(), pack_bits(is_in[there]))


def kept_members(batch: pa.RecordBatch | pa.Table, kept_count: int) -> U8:
    """Return the members of kept cells, bitmaps over the rows of `kept_batches`: uint64[T, words]."""
    rows = _bitmaps(batch, -(-kept_count // 64))
    found = np.zeros((kept_count, -(-len(rows) // 64)), np.uint64)
    cells = np.arange(kept_count)
    for first in range(0, kept_count, BLOCK_CELLS):
        block = cells[first : first + BLOCK_CELLS]
        is_in = (rows[:, block >> 6] >> (block & 63).astype(np.uint64)) & np.uint64(1)
        found[block] = pack_bits(is_in.astype(np.bool_).T)
    return found


def member_batches(batches: Iterable[pa.RecordBatch], group: I4) -> Iterator[pa.RecordBatch]:
    """Give the members of groups by rows of `kept_batches`: `MEMBERS`."""
    count = int(group.max(initial=-1)) + 1
    is_of = np.zeros((count, len(group)), np.bool_)
    is_of[group, np.arange(len(group))] = True
    cells_of_group = pack_bits(is_of)
    for batch in batches:
        rows = _bitmaps(batch, -(-len(group) // 64))
        for number in range(count):
            there = np.flatnonzero((rows & cells_of_group[number]).any(axis=1))
            owners = batch.column("owner").take(pa.array(there))
            numbers = pa.array(np.full(len(there), number, np.int32))
            yield pa.record_batch([numbers, owners], schema=MEMBERS)


def cells_of(batch: pa.RecordBatch, grid: Grid) -> U8:
    """Return the bitmaps over the grid's cells in rows of `OWNER_CELLS`: uint64[owners, words]."""
    return _bitmaps(batch, grid.word_count)


def _bitmaps(batch: pa.RecordBatch | pa.Table, word_count: int) -> U8:
    column: Any = batch.column("cells")
    chunks: Sequence[pa.Array] = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found: list[npt.NDArray[np.uint64]] = [_words(chunk) for chunk in chunks]
    words = np.concatenate(found) if found else np.zeros(0, np.uint64)
    return words.reshape(-1, word_count) if word_count else np.zeros((len(column), 0), np.uint64)


def _words(column: pa.Array) -> npt.NDArray[np.uint64]:
    offset_type = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return np.zeros(0, np.uint64)
    ends = np.frombuffer(offsets, offset_type)[column.offset : column.offset + len(column) + 1]
    octets = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].tobytes()
    return np.frombuffer(octets, "<u8").astype(np.uint64, copy=False)


def _owner_batch(owners: Sequence[str], cells: U8) -> pa.RecordBatch:
    rows = [row.tobytes() for row in cells.astype("<u8", copy=False)]
    return pa.record_batch([pa.array(owners, pa.string()), pa.array(rows, pa.binary())], schema=OWNER_CELLS)
