"""How often each subscription has matched since the coordinator started, and when last.

Counted by handle, which neither updates nor epochs alter: rows are numbered anew, handles are not. The table
is memory that costs something only where it was written to. It is bounded: a handle's place is its remainder,
so that the oldest subscriptions are not counted any more once `COUNTED_MAX` have been made after them. What a
batch adds is put aside and folded in later, together with what others add: adding a few numbers costs as much
as adding a hundred.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

COUNTED_MAX = 1 << 25
FOLDED_MATCHES = 1 << 12
LOOKED_AT = 1 << 16  # places at a time


class MatchCounters:
    """Matches of subscriptions.

    Parameters
    ----------
    next_handle : callable
        Returns the handle that the next subscription will have.
    counted_max : int
        A power of two.
    """

    def __init__(self, next_handle: Callable[[], int], counted_max: int = COUNTED_MAX) -> None:
        self._next_handle = next_handle
        self._counted_max = counted_max
        self._counts = _untouched(counted_max, np.uint64)
        self._last_s = _untouched(counted_max, np.uint32)
        self._end = next_handle()  # places are in order for handles below
        self._waiting: list[npt.NDArray[np.uint64]] = []
        self._waiting_count = 0
        self._now_s = 0
        self._is_used = False

    def add(self, handles: npt.NDArray[np.uint64], now_us: int) -> None:
        """Count matches.

        Parameters
        ----------
        handles : uint64[matches]
            Not changed afterwards.
        now_us : int
            When the events were accepted, microseconds since the epoch.
        """
        self._waiting.append(handles)
        self._waiting_count += len(handles)
        self._now_s = now_us // 1_000_000
        if self._waiting_count >= FOLDED_MATCHES or len(self._waiting) >= FOLDED_MATCHES:
            self.fold()

    def fold(self) -> None:
        """Bring the table up to date."""
        self._make_room()
        if not self._waiting:
            return
        handles = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        self._waiting, self._waiting_count, self._is_used = [], 0, True
        places, _ = self._places(handles)
        np.add.at(self._counts, places, np.uint64(1))
        self._last_s[places] = self._now_s

    def of(self, handles: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """Return the matches of subscriptions, and when they matched last.

        Returns
        -------
        uint64[n]
        int64[n]
            Seconds since the epoch; 0 where there was no match.
        """
        self.fold()
        places, counted = self._places(handles)
        counts, last_s = np.zeros(len(handles), np.uint64), np.zeros(len(handles), np.int64)
        counts[counted], last_s[counted] = self._counts[places], self._last_s[places]
        return counts, last_s

    def most(self, count: int) -> npt.NDArray[np.uint64]:
        """Return the handles that matched most often, at most `count`, the first one first."""
        self.fold()
        places, least = np.zeros(0, np.int64), np.uint64(0)
        for first in range(0, min(self._end, self._counted_max), LOOKED_AT):
            more = np.flatnonzero(self._counts[first : first + LOOKED_AT] > least)
            if len(more):  # seldom, after the first few
                places = np.append(places, first + more)
                found = self._counts[places]
                places = places[np.lexsort((places, -found.astype(np.int64)))[:count]]
                least = self._counts[places[-1]] if len(places) == count else least
        lap = (self._end - 1 - places) // self._counted_max
        return (places + lap * self._counted_max).astype(np.uint64)

    def _places(
        self, handles: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | slice]:
        """Return the places of those handles that have one, and which they are."""
        counted: npt.NDArray[np.bool_] | slice = slice(None)
        if self._end > self._counted_max:
            counted = handles >= np.uint64(self._end - self._counted_max)
            handles = handles[counted] & np.uint64(self._counted_max - 1)
        return handles.view(np.int64), counted

    def _make_room(self) -> None:
        """Forget the oldest subscriptions whose places new ones take."""
        end = max(self._next_handle(), self._end)
        start = max(self._end, self._counted_max, end - self._counted_max)
        self._end = end
        if start < end and self._is_used:
            low = start & (self._counted_max - 1)
            stop = low + end - start
            for places in (slice(low, stop), slice(0, max(0, stop - self._counted_max))):
                self._counts[places], self._last_s[places] = 0, 0


def _untouched(count: int, dtype: Any) -> npt.NDArray[Any]:
    """Return zeros that take up memory only where something is written."""
    size_bytes = count * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype)
