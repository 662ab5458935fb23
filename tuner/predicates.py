"""The layout's predicates: their numbers, their flags, and in which sort of column a literal goes.

*Points* (one label) come first, by attribute and label; then bits; then other tests with a flag
(`tuner.flags`); then all others, by attribute and interval. The members of small sets are points too, so
that the set can be found under each of them; a point that no catalogue predicate stands for has the
catalogue number -1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import (
    F8,
    FALSE_LABEL,
    I4,
    I8,
    TEST_WIDTH,
    CodeSpaces,
    LabelTests,
    expand_slices,
)
from pubsub_cluster.tuner.flags import FlagLists, choose_flagged, list_flags

SPREAD_MAX = 32
"""A set of up to this many members is registered under each of them."""

INLINE_MIN = 256
"""Intervals stand in the blob itself where an attribute has too many for their tests to stay in cache."""

FLAG_COLUMN, INTERVAL_COLUMN, TEST_COLUMN = 0, 1, 2

Bools = npt.NDArray[np.bool_]


class Predicates(NamedTuple):
    """Numbered predicates.

    Attributes
    ----------
    test : int32[P, 4]
    catalogue : int32[P]
        -1: not of the catalogue.
    attribute, lo, hi, reference : int64[P]
        Columns of `test`.
    attribute_point : int32[A+1]
        First point of each attribute.
    point_base : int64[A]
    label_point : int32[]
        Point of each label of the attributes that have points.
    bit_count : int
    flagged_count : int
        Further tests with a flag.
    flag_lists : FlagLists
        Under which labels those hold.
    is_set : bool[P]
        A small set, registered under each of its members.
    is_exists, is_impossible : bool[P]
    column : int8[P]
        FLAG_COLUMN, INTERVAL_COLUMN or TEST_COLUMN.
    label_count : int64[A]
    set_start, set_label : int32[]
    """

    test: I4
    catalogue: I4
    attribute: I8
    lo: I8
    hi: I8
    reference: I8
    attribute_point: I4
    point_base: I8
    label_point: I4
    bit_count: int
    flagged_count: int
    flag_lists: FlagLists
    is_set: Bools
    is_exists: Bools
    is_impossible: Bools
    column: npt.NDArray[np.int8]
    label_count: I8
    set_start: I4
    set_label: I4

    @property
    def point_count(self) -> int:
        """Number of points."""
        return int(self.attribute_point[-1])

    @property
    def slotted_count(self) -> int:
        """Points and bits: those with a slot of their own."""
        return self.point_count + self.bit_count

    @property
    def flag_count(self) -> int:
        """Those with a flag."""
        return self.slotted_count + self.flagged_count

    def point_at(self, attribute: I8, label: I8) -> I8:
        """Return the points of labels, which exist."""
        points: I8 = self.label_point[self.point_base[attribute] + label].astype(np.int64)
        return points

    def members(self, sets: I8) -> tuple[I8, I8]:
        """Return the points of the members of small sets, and how many each has."""
        start = self.set_start[:-1][self.reference[sets] >> 1]
        count = np.diff(self.set_start)[self.reference[sets] >> 1].astype(np.int64)
        label = self.set_label[expand_slices(start, count)].astype(np.int64)
        return self.point_at(np.repeat(self.attribute[sets], count), label), count


def number_predicates(
    spaces: CodeSpaces, tests: LabelTests, catalogue: I4, use_count: I8, clause_count: int, label: F8
) -> tuple[Predicates, I4]:
    """Number the predicates of `tests`.

    Parameters
    ----------
    spaces : CodeSpaces
    tests : LabelTests
    catalogue : int32[p]
        Catalogue predicate of each test.
    use_count : int64[p]
        Literals of each test over all clauses.
    clause_count : int
    label : float64[L]
        Probability of each label slot.

    Returns
    -------
    predicates : Predicates
    number : int32[p]
        Number of each test.
    """
    own = tests.test.reshape(-1, TEST_WIDTH)
    extra = _missing_points(own, tests)
    test = np.concatenate((own, extra))
    attribute, lo, hi, reference = test.astype(np.int64).T
    is_point = _first_points(attribute, lo, hi, reference)
    uses = np.concatenate((use_count, np.zeros(len(extra), np.int64)))
    is_flagged = choose_flagged(test, tests, ~is_point & (attribute >= 0), uses, clause_count, spaces, label)
    sort = np.where(is_point, 0, np.where(attribute < 0, 1, np.where(is_flagged, 2, 3)))
    order = np.lexsort((hi, lo, attribute, sort))
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    test = np.ascontiguousarray(test[order])
    attribute, lo, hi, reference = test.astype(np.int64).T
    known = np.concatenate((catalogue, np.full(len(extra), -1, np.int32)))[order]

    attribute_count = spaces.attribute_count
    point_count = int(np.count_nonzero(is_point))
    attribute_point = np.zeros(attribute_count + 1, np.int32)
    np.cumsum(np.bincount(attribute[:point_count], minlength=attribute_count), out=attribute_point[1:])
    label_count = np.diff(spaces.label_start)
    has_points = np.diff(attribute_point) > 0
    size = np.where(has_points, label_count, 0)
    point_base = np.where(has_points, np.cumsum(size) - size, -1)
    label_point = np.full(int(size.sum()), -1, np.int32)
    points = np.arange(point_count, dtype=np.int32)
    label_point[point_base[attribute[:point_count]] + lo[:point_count]] = points

    is_bit = attribute < 0
    last = np.append(label_count, 0)[attribute] - 1
    is_exists = ~is_bit & (reference < 0) & (lo == FALSE_LABEL) & (hi == last)
    column = np.full(len(test), TEST_COLUMN, np.int8)
    intervals = np.flatnonzero((np.arange(len(test)) >= point_count) & ~is_bit & (reference < 0))
    is_many = np.bincount(attribute[intervals], minlength=attribute_count) >= INLINE_MIN
    column[intervals[is_many[attribute[intervals]]]] = INTERVAL_COLUMN
    bit_count, flagged_count = len(tests.bit_predicate), int(np.count_nonzero(is_flagged))
    flagged_stop = point_count + bit_count + flagged_count
    column[:flagged_stop] = FLAG_COLUMN
    predicates = Predicates(
        test,
        known,
        attribute,
        lo,
        hi,
        reference,
        attribute_point,
        point_base.astype(np.int64),
        label_point,
        bit_count,
        flagged_count,
        list_flags(test, tests, point_count + bit_count, flagged_stop, spaces),
        _small_sets(reference, tests),
        is_exists,
        ~is_bit & (lo > hi),
        column,
        label_count.astype(np.int64),
        tests.set_start,
        tests.set_label,
    )
    return predicates, number[: len(own)]


def _small_sets(reference: I8, tests: LabelTests) -> Bools:
    count = np.append(np.diff(tests.set_start), 0)[reference >> 1]  # -1 picks the appended 0
    found: Bools = (reference >= 0) & ((reference & 1) == 0) & (count > 0) & (count <= SPREAD_MAX)
    return found


def _first_points(attribute: I8, lo: I8, hi: I8, reference: I8) -> Bools:
    """Mark one predicate for each label that some predicate stands for alone."""
    is_point: Bools = (attribute >= 0) & (reference < 0) & (lo == hi)
    at = np.flatnonzero(is_point)
    order = np.lexsort((at, lo[at], attribute[at]))
    at = at[order]
    again = np.zeros(len(at), bool)
    again[1:] = (attribute[at[1:]] == attribute[at[:-1]]) & (lo[at[1:]] == lo[at[:-1]])
    is_point[at[again]] = False
    return is_point


def _missing_points(test: I4, tests: LabelTests) -> I4:
    """Return tests of the members of small sets that no predicate stands for."""
    reference = test[:, 3].astype(np.int64)
    sets = np.flatnonzero(_small_sets(reference, tests))
    if not len(sets):
        return np.zeros((0, TEST_WIDTH), np.int32)
    count = np.diff(tests.set_start)[reference[sets] >> 1]
    label = tests.set_label[expand_slices(tests.set_start[reference[sets] >> 1], count)].astype(np.int64)
    wanted = np.unique((np.repeat(test[sets, 0], count).astype(np.int64) << 32) | label)
    points = test[(test[:, 0] >= 0) & (reference < 0) & (test[:, 1] == test[:, 2])].astype(np.int64)
    missing = np.setdiff1d(wanted, (points[:, 0] << 32) | points[:, 1], assume_unique=False)
    label = missing & 0xFFFFFFFF
    found: I4 = np.stack((missing >> 32, label, label, np.full(len(missing), -1)), axis=1).astype(np.int32)
    return found
