"""H-Tree: a hash table over the cells of several attributes; it is asked for every cell that a value lies in.

Idea (HTREE section 3). The domain of an attribute is divided into c segments; two neighbours are a cell, so
cells overlap by a segment, and a range no wider than a segment lies wholly in one of c - 1 cells: the one
whose centre is nearest to its own. Cell c - 1 is for subscriptions without a range there. The cells of l
attributes are the digits of a bucket, which lists subscriptions. An event's value lies in one or two cells
(three on an edge); the event is compared with all subscriptions of all buckets that have these cells, or cell
c - 1.

Wide ranges (D-25) are split into pieces no wider than a segment, and a subscription stands in the bucket of
each combination of pieces; it is reported once. One with too many pieces has its widest ranges count as none.
Attributes, conversion of values and the number of cells: see `plan`. When twice as many subscriptions have
come, the plan is made anew ("H-Tree can be reconstructed based on these discovered popular attributes").

Cost. Search: up to 3^l buckets, and a share of about (1 - r + 2r/c)^l of the subscriptions, r of which have a
range on an indexed attribute. Insertion: l cells. Deletion: one bucket. Space: a number per copy and c^l
heads of 8 bytes. Rows are stored in the order of their buckets, so that a bucket is read in order (ours; the
paper's list of subscriptions has no order), each with its ranges on indexed attributes last: of those, a
candidate's are likely to hold. Limits: the language of boxes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.htree import h_tree_kernels as kernels
from pubsub_cluster.algorithms.htree.plan import Plan, chosen_plan, index_of
from pubsub_cluster.algorithms.htree.range_core import RangeCore
from pubsub_cluster.algorithms.htree.range_matcher import RangeMatcher
from pubsub_cluster.algorithms.htree.ranges import Ranges, Store
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lists import Lists
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class HTreeCore(RangeCore):
    """Buckets of rows.

    Parameters
    ----------
    plan : Plan, optional
        Default: chosen at each build.

    Attributes
    ----------
    seen : int64[events, 2]
        Buckets looked at and subscriptions compared, in the last search.
    compared : int
        Numbers compared by all deletions.
    """

    def __init__(self, plan: Plan | None = None) -> None:
        super().__init__()
        self._given = plan.checked() if plan else None
        self.seen = np.zeros((0, 2), np.int64)
        self.compared = 0
        self._plan(self._given or Plan((), 6))

    def _plan(self, plan: Plan) -> None:
        self.plan = plan.checked()
        self.index = index_of(plan)
        levels = len(plan.axes)
        self._attributes = np.array([axis.attribute for axis in plan.axes], np.int64)
        self._cells = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
        self._work = (
            np.zeros((levels, 4), np.int64),
            np.zeros(levels, np.int64),
            np.zeros(levels, np.int64),
            np.zeros((4**levels, 2), np.int64),
        )
        self.lists = Lists(plan.buckets)

    def _build(self, ranges: Ranges) -> I8:
        self._plan(self._given or chosen_plan(ranges))
        bucket = np.empty(ranges.rows, np.int64)
        kernels.first_buckets(tuple(ranges), tuple(self.index), self._cells, bucket)
        order = np.argsort(bucket.astype(np.int32), kind="stable")
        del bucket
        self.store = Store(ranges.taken(order, self.index.slot))
        rows = tuple(self.store.columns)
        kernels.count_copies(rows, 0, ranges.rows, tuple(self.index), self._cells, self.lists.heads)
        self.lists.lay_out()
        self._insert(0, ranges.rows)
        return order

    def _insert(self, first: int, stop: int) -> None:
        progress = np.array([first, 0], np.int64)
        rows = tuple(self.store.columns)
        while not kernels.add_rows(rows, stop, tuple(self.index), self._cells, self.lists.arrays, progress):
            self.lists.grow()

    def _delete(self, rows: I8) -> None:
        columns = tuple(self.store.columns)
        self.compared += int(
            kernels.remove_rows(columns, rows, tuple(self.index), self._cells, self.lists.arrays)
        )

    def positions(self, values: Any) -> Any:
        """Return where events lie on the indexed attributes, float64[events, l]; -1: no value there."""
        known = values.shape[1]
        out = np.empty((len(values), len(self._attributes)))
        assert not len(self._attributes) or known > int(self._attributes.max())
        kernels.positions(values, self._attributes, self.index.line, self.index.knots, out)
        return out

    def _prepare(self, values: Any) -> Any:
        self.seen = np.zeros((len(values), 2), np.int64)
        return self.positions(values)

    def _search(self, values: Any, prepared: Any, most: int, begin: int, stops: I8, found: Any) -> int:
        data = tuple(self.store.columns), tuple(self.index), self.lists.arrays
        return int(kernels.match(data, values, prepared, most, self._work, begin, stops, found, self.seen))

    @property
    def bytes(self) -> int:
        """See `RangeCore`."""
        return self.store.bytes + self.lists.bytes


class HTree(RangeMatcher):
    """See the module; implements `interface.Matcher`."""

    def __init__(self, schema: Schema = EMPTY_SCHEMA) -> None:
        super().__init__("h-tree", HTreeCore, schema)
