"""What the narrow columns of the catalogue say of many rows or clauses at once.

Rows and clauses lie in the order in which they were appended, so each tells only where the next one starts;
few rows have a validity window, so windows are a side table by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.catalogue_store import I4, I8, U8, CatalogueColumns

BLOCK_ROWS = 1 << 17
HANDLE_BITS = 44  # with events_per_batch_max = 2**20 at most this leaves room in 64 bits for 2**44 handles


def blocks_of(count: int) -> Iterator[slice]:
    """Cut so many rows or clauses into slices; what is worked out of one at a time takes little memory."""
    return (slice(first, min(first + BLOCK_ROWS, count)) for first in range(0, count, BLOCK_ROWS))


def clause_ranges(columns: CatalogueColumns, rows: I4) -> tuple[I8, I8, npt.NDArray[np.bool_]]:
    """Return each row's first clause, its number of clauses, and whether its only one is a program."""
    stop = columns.clause_start[rows + 1]
    first = first_clauses(columns, rows)
    return first, (stop >> 1) - first, (stop & 1).astype(np.bool_)


def first_clauses(columns: CatalogueColumns, rows: I4) -> I8:
    """Return each row's first clause."""
    return (columns.clause_start[rows] >> 1).astype(np.int64)


def literal_ranges(columns: CatalogueColumns, clauses: I4 | I8) -> tuple[I8, I8]:
    """Return the first literal of each clause, and how many it has."""
    first = columns.literal_start[clauses].astype(np.int64)
    return first, columns.literal_start[clauses + 1] - first


def id_ranges(columns: CatalogueColumns, rows: I4) -> tuple[I8, I8]:
    """Return where the text id of each row starts, and its bytes."""
    first = columns.id_start[rows].astype(np.int64)
    return first, columns.id_start[rows + 1] - first


def event_handle_keys(offsets: I8, handles: U8, first_event: int = 0) -> U8:
    """Return numbers in the order of (event, handle), for handles grouped by event from `first_event` on."""
    events = np.arange(first_event, first_event + len(offsets) - 1, dtype=np.uint64) << np.uint64(HANDLE_BITS)
    keys: U8 = np.repeat(events, np.diff(offsets)) | handles
    return keys


def is_removed(columns: CatalogueColumns, rows: Any, version: int) -> npt.NDArray[np.bool_]:
    """Return which rows (a slice or an array) `version` does not see because they were removed."""
    removed = columns.removed_version[rows]
    found: npt.NDArray[np.bool_] = (removed > 0) & (removed <= version)
    return found


def live_rows(columns: CatalogueColumns, row_count: int, version: int) -> I4:
    """Return the rows below `row_count` that are not removed at `version`, by handle."""
    blocks = [np.zeros(0, np.int32)]
    for block in blocks_of(row_count):
        blocks.append((block.start + np.flatnonzero(~is_removed(columns, block, version))).astype(np.int32))
    rows = np.concatenate(blocks)
    if not _ascend(columns.handle, rows):
        rows = rows[np.argsort(columns.handle[rows], kind="stable")]
    return rows


def _ascend(handle: U8, rows: I4) -> bool:
    """Say whether the handles of rows ascend; block by block."""
    blocks = (handle[rows[first : first + BLOCK_ROWS + 1]] for first in range(0, len(rows), BLOCK_ROWS))
    return all(bool((block[1:] >= block[:-1]).all()) for block in blocks)


def window_of(columns: CatalogueColumns, window_count: int, row: int) -> tuple[int, int] | None:
    """Return the validity window of a row; None when it is valid always."""
    at = int(np.searchsorted(columns.window_row[:window_count], np.int32(row)))
    if at == window_count or columns.window_row[at] != row:
        return None
    return int(columns.window_from[at]), int(columns.window_until[at])
