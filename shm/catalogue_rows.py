"""What the narrow columns of the catalogue say of many rows or clauses at once.

Rows and clauses lie in the order in which they were appended, so each tells only where the next one starts;
few rows have a validity window, so windows are a side table by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.catalogue_store import I4, I8, CatalogueColumns


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


def is_removed(columns: CatalogueColumns, rows: Any, version: int) -> npt.NDArray[np.bool_]:
    """Return which rows (a slice or an array) `version` does not see because they were removed."""
    removed = columns.removed_version[rows]
    found: npt.NDArray[np.bool_] = (removed > 0) & (removed <= version)
    return found


def is_inside_window(
    columns: CatalogueColumns, window_count: int, rows: I4, now_us: int
) -> npt.NDArray[np.bool_]:
    """Return which rows are valid at `now_us`; `window_count` windows are in the table."""
    known = columns.window_row[:window_count]
    at = np.minimum(np.searchsorted(known, rows), window_count - 1)
    inside = (columns.window_from[at] <= now_us) & (now_us < columns.window_until[at])
    found: npt.NDArray[np.bool_] = inside | (known[at] != rows)
    return found


def window_of(columns: CatalogueColumns, window_count: int, row: int) -> tuple[int, int] | None:
    """Return the validity window of a row; None when it is valid always."""
    at = int(np.searchsorted(columns.window_row[:window_count], np.int32(row)))
    if at == window_count or columns.window_row[at] != row:
        return None
    return int(columns.window_from[at]), int(columns.window_until[at])
