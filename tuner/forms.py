"""Forms: which columns a section has and how they are written (`shm.blob`).

Sorted by their residuals, entries of large sections have equal first literals in runs, which are kept as such
where that saves words; intervals of one attribute are kept as uniform columns (`tuner.columns`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.code_space import I4, I8
from pubsub_cluster.tuner.columns import (
    Shares,
    UniformColumn,
    narrow_sections,
    plan_uniform,
    sort_by_first,
    uniform_counts,
    without,
)
from pubsub_cluster.tuner.entries import Bools, Entries, distinct_of, shape_counts
from pubsub_cluster.tuner.fronts import Front, choose_fronts, plan_fronts
from pubsub_cluster.tuner.predicates import FLAG_COLUMN, INTERVAL_COLUMN, Predicates

SORTED_ENTRIES_MIN = 32
"""Smaller groups keep the order of their rows."""

RUN_BESIDE_RANGES = 8
"""Mean length of runs from which they are better than uniform columns."""


class Form(NamedTuple):
    """The form of every section: `counts` are flag, uniform, interval and test columns, as in the head."""

    counts: tuple[I8, I8, I8, I8]
    size: I8
    shape: I8
    first_range: I8
    uniform: list[UniformColumn]
    uniform_words: I8
    is_narrow: Bools
    first_literal: I4
    run_count: I8
    is_front: Bools
    fronts: list[Front]

    @property
    def is_long(self) -> Bools:
        """Sections whose counts have words of their own."""
        flags, _, intervals, tests = self.counts
        found: Bools = (flags > form.FLAG_MASK) | (intervals > form.INTERVAL_MASK) | (tests > form.TEST_MASK)
        return found

    def head(self, size: I8) -> I8:
        """Return the heads, without what is known of entries."""
        flags, uniforms, intervals, tests = self.counts
        head = flags << form.FLAG_SHIFT | uniforms << form.UNIFORM_SHIFT
        head |= intervals << form.INTERVAL_SHIFT | tests << form.TEST_SHIFT
        head = np.where(self.is_long, form.HEAD_LONG, head) | size
        head |= np.where(self.is_narrow, form.HEAD_NARROW, 0)
        head |= np.where(self.is_front, form.HEAD_FRONT, 0)
        return head | np.where(self.run_count > 0, form.HEAD_RUNS, 0)

    def words(self, before: int) -> I8:
        """Return the words of runs and columns, or of front and rows, behind so many words of a section."""
        flags, _, intervals, tests = self.counts
        runs = np.where(self.run_count > 0, 1 + 2 * self.run_count - self.size, 0)
        one = np.where(self.is_narrow, (3 * self.size + 1) // 2, 3 * self.size)
        columns = runs + self.uniform_words + intervals * one + (flags + tests) * self.size
        fronts = before % 2 + form.front_words(self.size) + self.size * form.row_words(intervals)
        return np.asarray(np.where(self.is_front, fronts, columns))


def plan_forms(
    entries: Entries, shares: Shares, predicates: Predicates, key: I8, wanted: bool | None = None
) -> Form:
    """Decide on the form of every section; `key` is that of each, `wanted` as in `choose_fronts`."""
    shape = entries.shape[shares.order[shares.begin]]
    flags, intervals, tests = shape_counts(shape)
    first_literal, run_count = _runs(entries, shares, (flags, intervals, tests), predicates)
    first_range = entries.residual_start + shape_counts(entries.shape)[0]
    residual = entries.residual
    uniform = plan_uniform(shares, residual, first_range, (intervals, tests), predicates, run_count == 0)
    count, words = uniform_counts(uniform, len(shape))
    is_narrow = narrow_sections(shares, residual, first_range, intervals, predicates)
    is_front = (flags == 0) & (tests == 0) & (run_count == 0) & is_narrow
    is_front = choose_fronts(is_front, intervals, count, shares.size, key, wanted)
    if is_front.any():
        uniform = without(uniform, is_front)
        count, words = uniform_counts(uniform, len(shape))
    fronts = plan_fronts(np.flatnonzero(is_front), shares, entries, intervals, predicates)
    sort_by_first(shares, uniform, residual, first_range, predicates.test)
    from_intervals = np.minimum(count, intervals)
    intervals = intervals - from_intervals
    counts = flags, count, intervals, tests - (count - from_intervals)
    is_narrow &= intervals > 0
    return Form(
        counts,
        shares.size,
        shape,
        first_range,
        uniform,
        words,
        is_narrow,
        first_literal,
        run_count,
        is_front,
        fronts,
    )


def _runs(
    entries: Entries, shares: Shares, counts: tuple[I8, I8, I8], predicates: Predicates
) -> tuple[I4, I8]:
    """Return the first literal of every entry (0: none), and the runs of each section; 0 without runs.

    Uniform columns are better than short runs, or than any of ranges.
    """
    order, begin, size = shares
    flags, intervals, tests = counts
    run_count = np.zeros(len(begin), np.int64)
    able = (size >= SORTED_ENTRIES_MIN) & ((flags > 0) | ((intervals == 0) & (tests > 0)))
    if not able.any():
        return np.zeros(0, np.int32), run_count
    has = np.repeat(able, size)
    literal = np.zeros(len(order), np.int32)
    literal[has] = entries.residual[entries.residual_start[order[has]]]
    new = np.ones(len(order), bool)
    new[1:] = literal[1:] != literal[:-1]
    new[begin] = True
    found = np.add.reduceat(new.astype(np.int64), begin)
    is_range = (flags == 0) & (tests > 1) & (predicates.reference[literal[begin] >> 1] < 0)
    least = np.where(intervals + tests > 0, RUN_BESIDE_RANGES, 1)
    able &= ~is_range & (found * least <= size)
    return literal, np.where(able & (1 + 2 * found < size), found, 0)


def write_runs(out: I4, at: I8, run_count: I8, literal: I4, begin: I8, size: I8) -> I8:
    """Write the runs of sections that have them; return where their columns start."""
    sections = np.flatnonzero(run_count)
    if not len(sections):
        return at
    out[at[sections]] = run_count[sections]
    has = np.repeat(run_count > 0, size)
    new = np.ones(len(has), bool)
    new[1:] = literal[1:] != literal[:-1]
    new[begin] = True
    first = np.flatnonzero(new & has)
    count = run_count[sections]
    section = np.repeat(sections, count)
    run_at = at[section] + 1 + np.arange(len(section)) - np.repeat(np.cumsum(count) - count, count)
    out[run_at] = literal[first]
    last = np.ones(len(section), bool)
    last[:-1] = section[1:] != section[:-1]
    stop = np.empty(len(section), np.int64)
    stop[:-1] = first[1:] - begin[section[:-1]]
    stop[last] = size[section[last]]
    out[run_at + run_count[section]] = stop
    moved: I8 = at + np.where(run_count > 0, 1 + 2 * run_count, 0)
    return moved


def write_columns(
    out: I4, at: I8, form_of: Form, shares: Shares, entries: Entries, predicates: Predicates
) -> None:
    """Write the other columns and the targets of all sections, form by form."""
    shapes = distinct_of(form_of.shape)
    variant = np.searchsorted(shapes, form_of.shape) << 1 | (form_of.run_count > 0)
    variant = (variant << 1 | form_of.is_narrow) << 3 | form_of.counts[1]
    halves = out.view(np.uint16)
    for value in distinct_of(variant[~form_of.is_front]).tolist():
        section = np.flatnonzero((variant == value) & ~form_of.is_front)
        entry, within, owner = shares.of(section)
        step = shares.size[owner]
        to = at[owner] + within
        first = entries.residual_start[entry]
        flags, intervals, tests = shape_counts(int(shapes[value >> 5]))
        is_narrow, uniforms = value >> 3 & 1, value & form.UNIFORM_MASK
        sorts = [FLAG_COLUMN] * flags + [INTERVAL_COLUMN] * intervals + [FLAG_COLUMN] * tests
        for column, sort in enumerate(sorts):
            if (column == 0 and value >> 4 & 1) or flags <= column < flags + uniforms:
                continue
            literal = entries.residual[first + column]
            if sort != INTERVAL_COLUMN:
                out[to] = literal
                to += step
                continue
            items, triple = (halves, 2 * (to - within)) if is_narrow else (out, to - within)
            triple = triple + 3 * within
            width = (3 * step + 1) // 2 if is_narrow else 3 * step
            if is_narrow:
                out[to - within + width - 1] = 0  # the numbers may end within it
            test = predicates.test[literal >> 1]
            items[triple] = 2 * test[:, 0] + (literal & 1)
            items[triple + 1] = test[:, 1]
            items[triple + 2] = test[:, 2]
            to += width
        out[to] = entries.target[entry]
