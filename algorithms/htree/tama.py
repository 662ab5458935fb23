"""Tama: ranges in pieces on 13 levels of ever finer cells, whose satisfied ones are counted per subscription.

Source: HTREE section 5.1 (D-27), which calls it "an approximate matching and forwarding engine" and does not
give its rules, so these are ours: a range, rounded outwards to the cells of level 13, is made up of the
fewest cells of levels 0 to 13, and the subscription's number stands in the list of each ("at least nine
times" at width 0.1). An event's value lies in one cell of each level; all lists of these cells are counted,
and a subscription with as many counts as ranges is a candidate. The table by attribute and level is the
paper's; instead of a hash map the last layer is an array by cell, which is faster and has no collisions.

Rounding makes candidates that do not match. As a matcher of this project Tama compares its candidates with
their ranges, so that its answers are exact; `TamaCore.seen` has how many were wrong (HTREE figures report
it).

Cost. Search: one count per satisfied range, and one look at every subscription's counter. Insertion and
deletion: one list per piece, about ten per range; deletion searches them. An attribute takes 131 KB of heads.
Limits: the language of boxes, and 65,534 ranges a subscription, which exceeds the project's limits.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.htree import tama_kernels as kernels
from pubsub_cluster.algorithms.htree.range_core import RangeCore
from pubsub_cluster.algorithms.htree.range_matcher import RangeMatcher
from pubsub_cluster.algorithms.htree.ranges import Ranges, Store, grown
from pubsub_cluster.algorithms.htree.tama_kernels import GONE, LEAVES, LEVELS, NODES
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lists import Lists
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


def domain_line(low: float, high: float) -> F8:
    """Return the line of an attribute: where its cells are (see `tama_kernels`)."""
    half = np.float64(0.5 * high - 0.5 * low)
    with np.errstate(over="ignore", divide="ignore"):
        factor = LEAVES / half
    return np.array([low, high, factor if np.isfinite(factor) else 0.0])


class TamaCore(RangeCore):
    """Lists of rows by attribute and cell.

    Parameters
    ----------
    domain : (float, float), optional
        Of all attributes; by default that of each attribute's finite ends at the build.

    Attributes
    ----------
    seen : int64[events, 3]
        Of the last search: counts, rows with a count, rows that were candidates but do not match.
    compared : int
        Numbers compared by all deletions.
    pieces : int
        Numbers stored by the build.
    """

    def __init__(self, domain: tuple[float, float] | None = None) -> None:
        super().__init__()
        self._domain = domain
        self._line = np.zeros((0, 3))
        self._work = np.zeros(2 * LEVELS + 2, np.int64)
        self.lists = Lists(0)
        self._size = np.zeros(0, np.uint16)
        self._counter = np.zeros(0, np.uint16)
        self.seen = np.zeros((0, 3), np.int64)
        self.compared = 0
        self.pieces = 0

    def _build(self, ranges: Ranges) -> I8:
        self.store = Store(ranges)
        self._line = np.zeros((0, 3))
        self.lists = Lists(0)
        self._widen(ranges)
        self._sizes(0, ranges.rows)
        self._fill(ranges)
        return np.arange(ranges.rows)

    def _fill(self, ranges: Ranges) -> None:
        """Count, lay out and fill the lists, attribute by attribute."""
        attributes = len(self._line)
        used = int(ranges.stops[-1])
        owner = np.empty(used, np.int32)
        low, high = np.empty(used, np.int16), np.empty(used, np.int16)
        ends = np.cumsum(np.bincount(ranges.attribute[:used], minlength=attributes))
        place = np.concatenate((np.zeros(1, np.int64), ends[:-1]))[:attributes]
        kernels.split(tuple(ranges), self._line, place, owner, low, high)
        parts = [slice(*bounds) for bounds in itertools.pairwise([0, *ends.tolist()])]
        mine = [self.lists.heads[NODES * at : NODES * (at + 1)] for at in range(attributes)]
        self.pieces = sum(
            int(kernels.count_pieces(low[part], high[part], self._work, heads))
            for part, heads in zip(parts, mine, strict=True)
        )
        self.lists.lay_out()
        for part, heads in zip(parts, mine, strict=True):
            kernels.fill(owner[part], low[part], high[part], self._work, heads, self.lists.pool)

    def _insert(self, first: int, stop: int) -> None:
        columns = self.store.columns
        used = slice(int(columns.stops[first]), int(columns.stops[stop]))
        new = Ranges(columns.stops[:1], columns.attribute[used], columns.lo[used], columns.hi[used])
        self._widen(new)
        self._sizes(first, stop)
        self._push(first, stop)

    def _delete(self, rows: I8) -> None:
        columns = tuple(self.store.columns)
        self.compared += int(kernels.remove_rows(columns, rows, self._line, self._work, self.lists.arrays))
        self._size[rows] = GONE

    def _push(self, first: int, stop: int) -> None:
        progress = np.array([first, 0, 0], np.int64)
        rows = tuple(self.store.columns)
        while not kernels.add_rows(rows, stop, self._line, self._work, self.lists.arrays, progress):
            self.lists.grow()

    def _widen(self, ranges: Ranges) -> None:
        """Have lists for the attributes of these ranges; the domain of a new one is that of its ends."""
        known = len(self._line)
        count = 1 + int(ranges.attribute.max(initial=-1))
        if count <= known:
            return
        lines = [domain_line(*(self._domain or (0.0, 0.0)))] * (count - known)
        if self._domain is None:
            for attribute in range(known, count):
                is_mine = ranges.attribute == attribute
                ends = np.concatenate((ranges.lo[is_mine], ranges.hi[is_mine]))
                ends = ends[np.abs(ends) < np.finfo(np.float64).max]
                if len(ends):
                    lines[attribute - known] = domain_line(float(ends.min()), float(ends.max()))
        self._line = np.concatenate((self._line, np.array(lines)))
        self.lists.widen(max(count, known + known // 2) * NODES)

    def _sizes(self, first: int, stop: int) -> None:
        self._size, self._counter = grown(self._size, stop), grown(self._counter, stop)
        self._size[first:stop] = np.diff(self.store.columns.stops[first : stop + 1])

    def _search(self, values: Any, prepared: Any, most: int, begin: int, stops: I8, found: Any) -> int:
        if begin == 0:
            self.seen = np.zeros((len(values), 3), np.int64)
        rows = self.store.rows
        data = tuple(self.store.columns), self._line, self.lists.arrays
        size, counter = self._size[:rows], self._counter[:rows]
        return int(kernels.match(data, values, size, counter, most, begin, stops, found, self.seen))

    @property
    def bytes(self) -> int:
        """See `RangeCore`."""
        sizes = int(self._size.nbytes + self._counter.nbytes + self._line.nbytes)
        return self.store.bytes + self.lists.bytes + sizes


class Tama(RangeMatcher):
    """See the module; implements `interface.Matcher`."""

    def __init__(self, schema: Schema = EMPTY_SCHEMA) -> None:
        super().__init__("tama", TamaCore, schema)
