"""Which attributes an H-Tree indexes, how their values are spread out, and how many cells they have.

Source: HTREE section 3.2: popular attributes first, and those with narrow ranges. Both are one number here:
the share of subscriptions that an attribute leaves on average (`tradeoff.expected_share`), least first.
Popularity is counted in one pass. Section 3.3: values are converted by the distribution function of the
constraints' values, here the empirical one, unless the plan says otherwise. Section 3.5: cells by formula 8.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.htree.ranges import Ranges
from pubsub_cluster.algorithms.htree.tradeoff import CELLS_LEAST, CELLS_MAX, best_cells, expected_share
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.language.errors import CallerError

LEVELS_MAX = 8
CELLS_RANGE = (4, 10)
"""L and R; "5-10 cells are enough"."""
TRIED_MAX = 32
"""Attributes that are looked at, most popular first."""
KNOTS = 256
SAMPLE = 1 << 16
COPIES_MAX = 256
"""Of one subscription; beyond, its widest ranges count as none."""
PIECES_MAX = 2.0
"""Mean pieces of an attribute's ranges; wider ones are not indexed, since each piece is stored."""
BUCKETS_MAX = 1 << 28


class Axis(NamedTuple):
    """An indexed attribute.

    Attributes
    ----------
    attribute : int
    low, high : float
        Where the domain begins and ends; values beyond it count as these.
    knots : float64[K]
        Ascending. With K > 0, Y = F(X) is the share of knots that a value is not below.
    """

    attribute: int
    low: float = 0.0
    high: float = 1.0
    knots: F8 = np.zeros(0)


class Plan(NamedTuple):
    """What an H-Tree is built by.

    Attributes
    ----------
    axes : tuple of Axis
        All with the same number of knots.
    cells : int
        c of each; at least 4.
    copies_max : int
    """

    axes: tuple[Axis, ...]
    cells: int
    copies_max: int = COPIES_MAX

    @property
    def buckets(self) -> int:
        """c^l."""
        return int(self.cells ** len(self.axes))

    def checked(self) -> Plan:
        """Return it.

        Raises
        ------
        CallerError
            Cells, levels or buckets are out of bounds.
        """
        if not CELLS_LEAST <= self.cells <= CELLS_MAX:
            raise CallerError(
                "so many cells do not filter"
                if self.cells < CELLS_LEAST
                else "an attribute has too many cells",
                seen=self.cells,
                limit=f"{CELLS_LEAST} to {CELLS_MAX}",
                remedy="An event lies in up to three cells of each attribute (HTREE section 3.4).",
            )
        if self.buckets > BUCKETS_MAX:
            raise CallerError(
                "an H-Tree has too many buckets",
                seen=f"{self.cells}^{len(self.axes)} = {self.buckets}",
                limit=BUCKETS_MAX,
                remedy="Index fewer attributes, or divide them into fewer cells.",
            )
        return self


def popularity(ranges: Ranges, attributes: int) -> F8:
    """Return the share of conjunctions that have a range on each attribute."""
    counts = np.bincount(ranges.attribute, minlength=attributes)[:attributes]
    return np.asarray(counts / max(1, ranges.rows), np.float64)


def most_popular(ranges: Ranges, attributes: int, levels: int) -> list[int]:
    """Return the attributes with most ranges, ties by number (HTREE section 3.2)."""
    found: list[int] = np.argsort(-popularity(ranges, attributes), kind="stable")[:levels].tolist()
    return found


def empirical_axis(attribute: int, lo: F8, hi: F8) -> Axis:
    """Return an axis by the distribution of the ends of ranges, of which one is finite or more."""
    ends = np.concatenate((lo, hi))
    ends = np.sort(ends[np.abs(ends) < np.finfo(np.float64).max])
    if not len(ends):
        ends = np.zeros(1)
    at = (np.arange(KNOTS) * len(ends)) // KNOTS
    return Axis(attribute, float(ends[0]), float(ends[-1]), ends[at])


def chosen_plan(ranges: Ranges) -> Plan:
    """Return a plan for any subscriptions: the best attributes by a sample, and no more buckets than rows."""
    cells = round(best_cells(LEVELS_MAX, *CELLS_RANGE))
    levels = min(LEVELS_MAX, int(math.log(max(1, ranges.rows), cells)))
    if levels == 0 or not len(ranges.attribute):
        return Plan((), cells)
    attributes = int(ranges.attribute.max()) + 1
    share = popularity(ranges, attributes)
    step = max(1, len(ranges.attribute) // SAMPLE)
    sample, lo, hi = (np.asarray(column[::step]) for column in ranges[1:])
    left: list[tuple[float, int, Axis]] = []
    for attribute in most_popular(ranges, attributes, TRIED_MAX):
        is_mine = sample == attribute
        mine_lo, mine_hi = lo[is_mine].astype(np.float64), hi[is_mine].astype(np.float64)
        if not len(mine_lo):
            continue
        axis = empirical_axis(attribute, mine_lo, mine_hi)
        width = (spread(axis, mine_hi) - spread(axis, mine_lo)).mean()
        copies = max(1.0, float(width) * cells)
        if copies <= PIECES_MAX:
            left.append((expected_share(float(share[attribute]), cells, copies), attribute, axis))
    best = [one for one in sorted(left, key=lambda one: one[:2])[:levels] if one[0] < 1.0]
    return Plan(tuple(axis for _, _, axis in best), cells)


def spread(axis: Axis, values: F8) -> F8:
    """Return positions in [0, 1] of values, NumPy; the kernels' are `h_tree_kernels.position`."""
    if len(axis.knots):
        return np.searchsorted(axis.knots, values, side="right") / len(axis.knots)
    return np.asarray((np.clip(values, axis.low, axis.high) - axis.low) / (axis.high - axis.low), np.float64)


class Index(NamedTuple):
    """A plan as kernels take it; see `h_tree_kernels`."""

    slot: npt.NDArray[np.int16]
    line: F8
    knots: F8
    base: I8
    cells: int
    copies_max: int


def index_of(plan: Plan) -> Index:
    """Return the arrays of a plan."""
    levels = len(plan.axes)
    slot = np.full(1 + max((axis.attribute for axis in plan.axes), default=0), -1, np.int16)
    line = np.zeros((levels, 3))
    knots = np.zeros((levels, len(plan.axes[0].knots) if levels else 0))
    for at, axis in enumerate(plan.axes):
        slot[axis.attribute] = at
        half = 0.5 * axis.high - 0.5 * axis.low
        with np.errstate(over="ignore", divide="ignore"):
            factor: Any = np.float64(1.0) / half
        line[at] = axis.low, axis.high, factor if np.isfinite(factor) else 0.0
        knots[at] = axis.knots
    base = plan.cells ** np.arange(levels - 1, -1, -1, dtype=np.int64)
    return Index(slot, line, knots, base, plan.cells, plan.copies_max)
