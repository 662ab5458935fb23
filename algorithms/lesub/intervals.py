"""Predicates as closed intervals of doubles: ``< c`` ends at the double before c.

So an interval is two numbers and no flags, and "up to the end" is "below the next double".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4, Comparison, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8


class Intervals(NamedTuple):
    """Where predicates hold.

    Attributes
    ----------
    place : int64[k]
        Conjunctions, by number, ascending.
    attribute : int32[k]
        Ascending within a conjunction.
    lo, hi : float64[k]
        Closed; empty where lo > hi.
    """

    place: I8
    attribute: I4
    lo: F8
    hi: F8


def hulls_of(catalogue: Conjunctions) -> tuple[Intervals, I8]:
    """Return, for each conjunction and attribute, where all predicates but ``!=`` hold.

    Returns
    -------
    Intervals
    int64[p]
        Which of them each predicate belongs to.
    """
    place = np.repeat(np.arange(len(catalogue.owner)), np.diff(catalogue.stops))
    lo, hi = _ends(catalogue)
    order = np.lexsort((catalogue.attribute, place))
    key = place[order], catalogue.attribute[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (key[0][1:] != key[0][:-1]) | (key[1][1:] != key[1][:-1])
    starts = np.flatnonzero(is_new)
    of = np.empty(len(order), np.int64)
    of[order] = np.cumsum(is_new) - 1
    if not len(order):
        return Intervals(place, catalogue.attribute, lo, hi), of
    lows, highs = np.maximum.reduceat(lo[order], starts), np.minimum.reduceat(hi[order], starts)
    return Intervals(key[0][starts], key[1][starts], lows, highs), of


def _ends(catalogue: Conjunctions) -> tuple[F8, F8]:
    """Return the closed interval of each predicate; of ``!=``, all."""
    comparison, constant = catalogue.comparison, catalogue.constant
    lo = np.where(np.isin(comparison, (Comparison.EQ, Comparison.GE)), constant, -np.inf)
    hi = np.where(np.isin(comparison, (Comparison.EQ, Comparison.LE)), constant, np.inf)
    lo = np.where(comparison == Comparison.GT, after(constant), lo)
    hi = np.where(comparison == Comparison.LT, -after(-constant), hi)
    # Nothing is above inf or below -inf, and there is no double to say so.
    is_none = (comparison == Comparison.GT) & (constant == np.inf)
    is_none |= (comparison == Comparison.LT) & (constant == -np.inf)
    return np.where(is_none, np.inf, lo), np.where(is_none, -np.inf, hi)


def after(value: F8) -> F8:
    """Return the next doubles; after inf there is none, and it stays."""
    with np.errstate(over="ignore"):  # the double after the last finite one is inf, rightly
        return np.nextafter(value, np.inf)


def intervals_of(catalogue: Conjunctions) -> tuple[Intervals, npt.NDArray[np.bool_]]:
    """Return, for each conjunction and attribute, the intervals where all predicates hold, cut at ``!=``.

    Returns
    -------
    Intervals
        None is empty, and those of a conjunction and attribute do not meet.
    bool[n]
        Which conjunctions can hold at all.
    """
    hulls, of = hulls_of(catalogue)
    differs = np.flatnonzero(catalogue.comparison == Comparison.NE)
    hole, at = of[differs], catalogue.constant[differs]
    is_inside = (hulls.lo[hole] <= at) & (at <= hulls.hi[hole])
    hole, at = hole[is_inside], at[is_inside]
    # Left ends are those of hulls and what follows holes, right ends what comes before holes and those of
    # hulls; in order, the i-th left end and the i-th right end of a hull enclose an interval.
    hull = np.arange(len(hulls.lo))
    left = np.concatenate((hulls.lo, after(at)))
    right = np.concatenate((hulls.hi, -after(-at)))
    which = np.concatenate((hull, hole))
    by_left, by_right = np.lexsort((left, which)), np.lexsort((right, which))
    which, lo, hi = which[by_left], left[by_left], right[by_right]
    # Beyond a hole at an infinity there is nothing, though both ends are that infinity.
    beyond = np.zeros(len(which), np.bool_)
    for infinity in (-np.inf, np.inf):
        has_hole = np.zeros(len(hulls.lo), np.bool_)
        has_hole[hole[at == infinity]] = True
        beyond |= has_hole[which] & (lo == infinity) & (hi == infinity)
    kept = (lo <= hi) & ~beyond
    has_some = np.zeros(len(hulls.lo), np.bool_)
    has_some[which[kept]] = True
    is_possible = np.ones(len(catalogue.owner), np.bool_)
    is_possible[hulls.place[~has_some]] = False
    which, lo, hi = which[kept], lo[kept], hi[kept]
    return Intervals(hulls.place[which], hulls.attribute[which], lo, hi), is_possible
