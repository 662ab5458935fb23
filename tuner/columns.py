"""Uniform columns: intervals of one attribute that stand side by side in a section (`shm.blob`).

Residuals of a clause are in the order of their attributes, so that the clauses of one section often have the
same attribute in a column. The longest run of such columns, from the first interval on, becomes uniform where
that takes no more words; intervals of mixed attributes follow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.code_space import I4, I8, expand_slices
from pubsub_cluster.tuner.entries import Bools
from pubsub_cluster.tuner.predicates import INTERVAL_COLUMN, Predicates

UNIFORM_MAX = form.UNIFORM_MASK
ONE_SIDED_MIN = 3
"""Sections with so many entries keep a bound that all share once."""

SORTED_MIN = 64
"""Sections with so many entries are in the order of their first uniform column."""


class Shares(NamedTuple):
    """How the entries of all sections lie: section s has ``order[begin[s]:begin[s] + size[s]]``."""

    order: I8
    begin: I8
    size: I8

    def of(self, section: I8) -> tuple[I8, I8, I8]:
        """Return the entries of some sections, the number of each in its section, and the sections."""
        size = self.size[section]
        within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        return self.order[np.repeat(self.begin[section], size) + within], within, np.repeat(section, size)


class UniformColumn(NamedTuple):
    """One uniform column of some sections.

    Attributes
    ----------
    section : int64[k]
        Ascending.
    code, common, words : int64[k]
        As in `shm.blob`; all words of the column.
    """

    section: I8
    code: I8
    common: I8
    words: I8


def plan_uniform(
    shares: Shares,
    residual: I4,
    first: I8,
    counts: tuple[I8, I8],
    predicates: Predicates,
    able: Bools,
) -> list[UniformColumn]:
    """Find the uniform columns of all sections, column by column.

    Parameters
    ----------
    shares : Shares
    residual : int32[]
    first : int64[e]
        First interval of each entry in `residual`.
    counts : tuple of int64[s]
        Interval and test columns of each section.
    predicates : Predicates
    able : bool[s]
        Sections that may have uniform columns.
    """
    intervals, tests = counts
    total = intervals + tests
    alive = np.flatnonzero(able & (total > 0) & ((shares.size > 1) | (total == 1)))
    found: list[UniformColumn] = []
    while len(alive) and len(found) < UNIFORM_MAX:
        number = len(found)
        entry, _, _ = shares.of(alive)
        literal = residual[first[entry] + number]
        size = shares.size[alive]
        column = _column(alive, literal, np.cumsum(size) - size, size, predicates)
        plain_words = np.where(number < intervals[alive], (3 * size + 1) // 2, size)
        fits = (column.code >= 0) & ((column.words <= plain_words) | (total[alive] == 1))
        column = UniformColumn(*(part[fits] for part in column))
        if not len(column.section):
            break
        found.append(column)
        alive = column.section[total[column.section] > number + 1]
    return found


def _column(section: I8, literal: I4, begin: I8, size: I8, predicates: Predicates) -> UniformColumn:
    """Describe one column of some sections; code -1 where it is not uniform."""
    predicate = literal >> 1
    attribute, lo, hi = (predicates.test[:, at][predicate].astype(np.int64) for at in range(3))
    is_range = ((literal & 1) == 0) & (predicates.reference[predicate] < 0) & (attribute >= 0) & (lo <= hi)
    one = attribute[begin]
    is_uniform = np.logical_and.reduceat(is_range & (attribute == np.repeat(one, size)), begin)
    is_uniform &= predicates.label_count[one] <= form.HALF_MAX
    is_wide = predicates.label_count[one] > form.BYTE_MAX
    same_lo = (np.maximum.reduceat(lo, begin) == np.minimum.reduceat(lo, begin)) & (size >= ONE_SIDED_MIN)
    same_hi = (np.maximum.reduceat(hi, begin) == np.minimum.reduceat(hi, begin)) & (size >= ONE_SIDED_MIN)
    same_lo &= ~same_hi
    common = np.where(same_hi, hi[begin], lo[begin])
    sides = np.where(same_lo | same_hi, 1, 2)
    words = 1 + (sides == 1) + -(-(sides * size) // np.where(is_wide, 2, 4))
    kind = np.where(is_wide, form.COLUMN_WIDE, 0)
    kind |= np.where(same_lo, 0, form.COLUMN_FIRST) | np.where(same_hi, 0, form.COLUMN_LAST)
    code = np.where(is_uniform, one << form.COLUMN_SHIFT | kind, -1)
    return UniformColumn(section, code, common, words)


def sort_by_first(shares: Shares, columns: list[UniformColumn], residual: I4, first: I8, test: I4) -> None:
    """Bring the entries of large sections into the order of their first uniform column, in place."""
    if not columns:
        return
    column = columns[0]
    large = np.flatnonzero(shares.size[column.section] >= SORTED_MIN)
    if not len(large):
        return
    section, code = column.section[large], column.code[large]
    size = shares.size[section]
    at = expand_slices(shares.begin[section], size)
    entry = shares.order[at]
    predicate = residual[first[entry]] >> 1
    ascending = np.repeat((code & form.COLUMN_FIRST) > 0, size)
    item = np.where(ascending, test[predicate, 1], form.HALF_MAX - test[predicate, 2]).astype(np.int64)
    index_bits = max(len(at) - 1, 1).bit_length()
    number = np.repeat(np.arange(len(section)), size) << form.HALF_BITS
    word = (number | item) << index_bits | np.arange(len(at))
    word.sort()
    shares.order[at] = entry[word & ((1 << index_bits) - 1)]
    column.code[large] |= form.COLUMN_SORTED


def without(columns: list[UniformColumn], gone: Bools) -> list[UniformColumn]:
    """Return uniform columns without those of some sections."""
    return [UniformColumn(*(part[~gone[column.section]] for part in column)) for column in columns]


def uniform_counts(columns: list[UniformColumn], section_count: int) -> tuple[I8, I8]:
    """Return how many uniform columns each section has, and their words."""
    count, words = np.zeros(section_count, np.int64), np.zeros(section_count, np.int64)
    for column in columns:
        count[column.section] += 1
        words[column.section] += column.words
    return count, words


def write_uniform(
    out: I4,
    at: I8,
    columns: list[UniformColumn],
    shares: Shares,
    residual: I4,
    first: I8,
    predicates: Predicates,
) -> I8:
    """Write uniform columns from `at` on; return where the other columns start."""
    at = at.copy()
    for number, column in enumerate(columns):
        section, code = column.section, column.code
        start = at[section]
        out[start] = code
        sides = form.COLUMN_FIRST | form.COLUMN_LAST
        one_sided = (code & sides) != sides
        out[start[one_sided] + 1] = column.common[one_sided]
        at[section] += column.words
        out[at[section] - 1] = 0  # data may end within it
        data = start + 1 + one_sided
        for wide, dtype, top in ((0, np.uint8, form.BYTE_MAX), (1, np.uint16, form.HALF_MAX)):
            mine = np.flatnonzero((code & form.COLUMN_WIDE) == wide)
            if not len(mine):
                continue
            items = out.view(dtype)
            entry, within, _ = shares.of(section[mine])
            predicate = residual[first[entry] + number] >> 1
            size = shares.size[section[mine]]
            has_first = (code[mine] & form.COLUMN_FIRST) > 0
            has_last = (code[mine] & form.COLUMN_LAST) > 0
            to = data[mine] * (4 // np.dtype(dtype).itemsize)
            with_first, with_last = np.repeat(has_first, size), np.repeat(has_last, size)
            place = np.repeat(to, size) + within
            items[place[with_first]] = predicates.lo[predicate[with_first]]
            place = np.repeat(to + np.where(has_first, size, 0), size) + within
            items[place[with_last]] = top - predicates.hi[predicate[with_last]]
    return at


def narrow_sections(shares: Shares, residual: I4, first: I8, intervals: I8, predicates: Predicates) -> Bools:
    """Say of which sections all interval literals fit into halves of words."""
    is_narrow = (predicates.label_count <= form.HALF_MAX) & (
        np.arange(len(predicates.label_count)) <= form.HALF_MAX >> 1
    )
    fits = np.append(is_narrow, False)[predicates.attribute]
    result: Bools = intervals > 0
    if fits[predicates.column == INTERVAL_COLUMN].all():
        return result
    for column in range(int(intervals.max(initial=0))):
        section = np.flatnonzero(result & (intervals > column))
        if not len(section):
            break
        entry, _, _ = shares.of(section)
        begin = np.cumsum(shares.size[section]) - shares.size[section]
        literal = residual[first[entry] + column]
        result[section] = np.logical_and.reduceat(fits[literal >> 1], begin)
    return result
