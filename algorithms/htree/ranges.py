"""Conjunctions of closed ranges, in columns: what all matchers of HTREE store and verify candidates by.

A range is "a low value and a high value" (HTREE section 2), and a subscription's content is the list of its
ranges, one after the other. Values may be of any type of numbers; the paper has two doubles per range.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.htree.range_kernels import gather
from pubsub_cluster.algorithms.interface import I8

ROWS_LEAST = 1 << 6
NO_SLOTS = np.zeros(0, np.int16)


class Ranges(NamedTuple):
    """Conjunctions of ranges.

    Attributes
    ----------
    stops : int64[n + 1]
        Conjunction i has the ranges [stops[i], stops[i + 1]); with none it always matches.
    attribute : integer[p]
        Distinct within a conjunction.
    lo, hi : T[p]
        Closed, ``lo <= hi``.
    """

    stops: I8
    attribute: Any
    lo: Any
    hi: Any

    @property
    def rows(self) -> int:
        """Number of conjunctions."""
        return len(self.stops) - 1

    def first(self, count: int) -> Ranges:
        """Return the first conjunctions; views."""
        stop = int(self.stops[count])
        return Ranges(self.stops[: count + 1], self.attribute[:stop], self.lo[:stop], self.hi[:stop])

    def taken(self, rows: I8, slot: Any = NO_SLOTS) -> Ranges:
        """Return some conjunctions in a new order.

        Parameters
        ----------
        rows : int64[k]
        slot : int16[...]
            Ranges on attributes with a number of 0 or more here come last in their conjunction.
        """
        stops = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.diff(self.stops)[rows], out=stops[1:])
        found = Ranges(stops, *(np.empty(int(stops[-1]), column.dtype) for column in self[1:]))
        gather(tuple(self), rows, slot, tuple(found))
        return found


def equal_sized(attribute: Any, lo: Any, hi: Any) -> Ranges:
    """Return conjunctions of k ranges each, T[n, k]."""
    count, size = attribute.shape
    stops = np.arange(0, count * size + 1, size, dtype=np.int64) if size else np.zeros(count + 1, np.int64)
    return Ranges(stops, attribute.reshape(-1), lo.reshape(-1), hi.reshape(-1))


def grown(array: Any, length: int) -> Any:
    """Return an array with room for `length` entries, twice what there was or more; the new ones are 0."""
    if length <= len(array):
        return array
    wide = np.zeros((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    wide[: len(array)] = array
    return wide


class Store:
    """The list of subscriptions: rows that can be appended and marked as gone.

    Parameters
    ----------
    ranges : Ranges
        Taken as they are; copied at the first insertion only.
    """

    def __init__(self, ranges: Ranges) -> None:
        self.rows = ranges.rows
        self.live_rows = ranges.rows
        self._columns = ranges
        self.alive: npt.NDArray[np.uint8] = np.ones(ranges.rows, np.uint8)

    @property
    def columns(self) -> Ranges:
        """Arrays that may be longer than what is used of them."""
        return self._columns

    def append(self, more: Ranges) -> int:
        """Add rows; return the number of the first."""
        first, used = self.rows, int(self._columns.stops[self.rows])
        count, size = more.rows, int(more.stops[-1])
        stops, *others = self._columns
        stops = grown(stops, max(ROWS_LEAST, first + count + 1))
        stops[first + 1 : first + count + 1] = used + more.stops[1:]
        columns = []
        for old, new in zip(others, more[1:], strict=True):
            column = grown(old, used + size)
            column[used : used + size] = new
            columns.append(column)
        self._columns = Ranges(stops, *columns)
        self.alive = grown(self.alive, first + count)
        self.alive[first : first + count] = 1
        self.rows += count
        self.live_rows += count
        return first

    def remove(self, rows: I8) -> None:
        """Mark rows that are there as gone."""
        self.alive[rows] = 0
        self.live_rows -= len(rows)

    def live(self) -> tuple[I8, Ranges]:
        """Return the rows that are there, and their ranges."""
        rows = np.flatnonzero(self.alive[: self.rows])
        return rows, self._columns.taken(rows)

    @property
    def bytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.alive.nbytes) + sum(int(column.nbytes) for column in self._columns)
