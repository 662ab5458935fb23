"""What a batch may see of its matches: rows that are live and valid for it, by handle.

A layout holds rows that were removed since, the delta is as long as the catalogue was; neither knows the
time. So after matching, rows that are removed at or before the batch's version, appended after its moment or
outside their validity window are dropped, in place. Where an event has few, they are put in order here; many
are left to NumPy, which is faster at that.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.workers.kernels._jit import kernel, leaf, routine

ORDERED_MAX = 32


@kernel
def keep_visible(rows: Any, start: Any, moment: Any, catalogue: Any, windows: Any, refused: Any) -> Any:
    """Keep the visible rows of each event; return how many events have too many to be in order.

    Where there are at most `ORDERED_MAX` of them, they are put in the order of their handles.

    =========  ==============================================================================  ======
    rows       int32[k], grouped by event; afterwards as `start` says, the rest is garbage     in/out
    start      int64[n+1], ascending from 0                                                    in/out
    moment     (rows, windows, version, microseconds): int64 each, what the batch is bound to  in
    catalogue  (handle uint64[], removed_version int64[])                                      in
    windows    (window_row int32[], window_from int64[], window_until int64[]); rows ascend    in
    refused    int64[r], ascending: events that match nothing                                  in
    =========  ==============================================================================  ======
    """
    row_count, window_count, version, now_us = moment
    handle, removed_version = catalogue
    first, kept, next_refused, unordered = start[0], 0, 0, 0
    for event in range(start.shape[0] - 1):
        stop, begin = start[event + 1], kept
        if next_refused < refused.shape[0] and refused[next_refused] == event:
            next_refused += 1
            first = stop
        for at in range(first, stop):
            row = rows[at]
            removed = removed_version[row]
            live = row < row_count and (removed == 0 or removed > version)
            if live and (window_count == 0 or is_valid(row, windows, window_count, now_us)):
                rows[kept] = row
                kept += 1
        first = stop
        start[event + 1] = kept
        if kept - begin > ORDERED_MAX:
            unordered += 1
        else:
            order_rows(rows, begin, kept, handle)
    return unordered


@routine
def is_valid(row: Any, windows: Any, window_count: Any, now_us: Any) -> Any:
    """Return whether a row has no validity window, or one that `now_us` is in."""
    window_row, window_from, window_until = windows
    low, high = 0, window_count
    while low < high:
        middle = (low + high) >> 1
        if window_row[middle] < row:
            low = middle + 1
        else:
            high = middle
    if low == window_count or window_row[low] != row:
        return True
    return window_from[low] <= now_us and now_us < window_until[low]


@leaf
def order_rows(rows: Any, first: Any, stop: Any, handle: Any) -> None:
    """Order ``rows[first:stop]`` by handle, by insertion: they are few."""
    for at in range(first + 1, stop):
        row, to = rows[at], at
        key = handle[row]
        while to > first and handle[rows[to - 1]] > key:
            rows[to] = rows[to - 1]
            to -= 1
        rows[to] = row
