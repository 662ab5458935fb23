"""The rows of a catalogue in the order of their handles, without a sorted copy of them.

A fresh copy of the catalogue has its rows by handle, and a new subscription has the largest handle so far.
Only what an update made comes *late*, behind larger handles. So the late rows are kept aside, in the order
of rows, and the others are an ascending sequence to search in.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from pubsub_cluster.shm.code_space import I8, U8

FOLLOWED_ROWS_MAX = 1 << 20  # in one go: about 5 ms


class HandleOrder:
    """Which rows stand in ascending order of handles; one for each copy of the catalogue."""

    def __init__(self) -> None:
        self._rows = 0  # that were looked at
        self._largest = 0
        self._late_row: I8 = np.empty(0, np.int64)
        self._late_handle: U8 = np.empty(0, np.uint64)

    def follow(self, handle: U8) -> bool:
        """Look at rows that were added; return False when there are more of them.

        Parameters
        ----------
        handle : uint64[rows]
            Of every row.
        """
        first, stop = self._rows, min(len(handle), self._rows + FOLLOWED_ROWS_MAX)
        if first < stop:
            before = np.maximum.accumulate(np.append(np.uint64(self._largest), handle[first:stop]))
            late = np.flatnonzero(handle[first:stop] <= before[:-1])
            self._late_row = np.append(self._late_row, first + late)
            self._late_handle = np.append(self._late_handle, handle[first + late])
            self._rows, self._largest = stop, int(before[-1])
        return stop == len(handle)

    def window(self, handle: U8, first_handle: int, rows_max: int) -> tuple[I8, int | None]:
        """Return rows with handles from `first_handle` on, ascending, and the handle behind them.

        Parameters
        ----------
        handle : uint64[rows]
        first_handle : int
        rows_max : int
            Most rows that are not late.

        Returns
        -------
        int64[k]
            All rows with handles in between: of one handle there may be several.
        int or None
            The first handle that is not among them; None when there is none.
        """
        shift = self._late_row - np.arange(len(self._late_row))  # late rows before the n-th that is not late

        def rows_of(places: I8) -> I8:
            return places + np.searchsorted(shift, places, side="right")

        def handle_at(place: int) -> int:
            return int(handle[place + np.searchsorted(shift, place, side="right")])

        count = self._rows - len(self._late_row)
        start = bisect_left(range(count), first_handle, key=handle_at)
        stop = min(count, start + rows_max)
        following = handle_at(stop) if stop < count else None
        late = self._late_handle >= np.uint64(first_handle)
        if following is not None:
            late &= self._late_handle < np.uint64(following)
        rows = np.append(rows_of(np.arange(start, stop)), self._late_row[late])
        return rows[np.argsort(handle[rows], kind="stable")], following
