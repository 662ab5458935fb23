"""What the three matchers of HTREE share: a list of subscriptions, an index beside it, and searches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.algorithms.htree.ranges import Ranges, Store
from pubsub_cluster.algorithms.interface import I8

FOUND_LEAST = 1 << 12
SLACK_ROWS = 1 << 10
"""Changes of fewer rows than these never make an index stale."""
ALL = -1


class Rows(NamedTuple):
    """Matches: event e has ``row[stops[e]:stops[e + 1]]``; a view that lives until the next search.

    Attributes
    ----------
    stops : int64[events + 1]
    row : int32[k]
        A row may be there twice where it lies in several buckets.
    """

    stops: I8
    row: Any

    def pairs(self) -> tuple[I8, I8]:
        """Return (event, row), each once."""
        event = np.repeat(np.arange(len(self.stops) - 1, dtype=np.int64), np.diff(self.stops))
        both = np.unique((event << 32) | self.row.astype(np.int64))
        return both >> 32, both & 0xFFFFFFFF


class RangeCore(ABC):
    """Rows with ranges, and who matches; rows are known by their numbers."""

    def __init__(self) -> None:
        none = np.zeros(0)
        self.store = Store(Ranges(np.zeros(1, np.int64), np.zeros(0, np.int32), none, none))
        self._built_rows = 0
        self._found = np.empty(FOUND_LEAST, np.int32)

    def build(self, ranges: Ranges) -> I8:
        """Take conjunctions in place of all that were there.

        Returns
        -------
        int64[n]
            Row i holds the conjunction ``order[i]`` of those given.
        """
        order = self._build(ranges)
        self._built_rows = ranges.rows
        return order

    def insert(self, more: Ranges) -> int:
        """Add conjunctions; return the row of the first, others follow."""
        first = self.store.append(more)
        self._insert(first, first + more.rows)
        return first

    def delete(self, rows: I8) -> None:
        """Remove rows that are there."""
        self._delete(rows)
        self.store.remove(rows)

    def match(self, values: Any, most: int = ALL) -> Rows:
        """Find the rows that each event matches.

        Parameters
        ----------
        values : T[events, attributes]
            Of the type of the ranges.
        most : int
            An event is done when it has this many; all by default.
        """
        stops = np.zeros(len(values) + 1, np.int64)
        prepared = self._prepare(values)
        begin = 0
        while begin < len(values):
            begin = self._search(values, prepared, most, begin, stops, self._found)
            if begin < len(values):
                self._found = np.concatenate((self._found, np.empty(len(self._found), np.int32)))
        return Rows(stops, self._found[: stops[-1]])

    @property
    def is_stale(self) -> bool:
        """Whether so many rows have come or gone that it is time to build anew."""
        gone = self.store.rows - self.store.live_rows
        come = self.store.rows - self._built_rows
        return gone > SLACK_ROWS + self.store.rows // 2 or (
            self.is_built_for_size and come > SLACK_ROWS + self._built_rows
        )

    is_built_for_size = True
    """Whether the index depends on how many rows there are."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Bytes of all arrays that matching reads."""

    @abstractmethod
    def _build(self, ranges: Ranges) -> I8:
        """Make the store and the index."""

    @abstractmethod
    def _insert(self, first: int, stop: int) -> None:
        """Index rows that are in the store now."""

    @abstractmethod
    def _delete(self, rows: I8) -> None:
        """Take rows out of the index."""

    def _prepare(self, values: Any) -> Any:
        """Return what a search wants to know of events beside their values."""
        return None

    @abstractmethod
    def _search(self, values: Any, prepared: Any, most: int, begin: int, stops: I8, found: Any) -> int:
        """Search for events [begin, n); return n, or the event at which `found` was full."""
