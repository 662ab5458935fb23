"""Fronts: which attributes tell best what entries of a section may hold (`shm.blob` has the form).

Entries of a section have equally many intervals, but of any attributes. They are brought into an order in
which neighbours have attributes in common; then every eight of them choose those three that let fewest pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.columns import Shares
from pubsub_cluster.tuner.entries import Bools, Entries, distinct_of
from pubsub_cluster.tuner.predicates import Predicates

INTERVALS_MIN = 8
"""Mixed intervals of an entry from which on a front is worth its words."""

FEW_IN = 16
"""Entries, of a table or of the slots, of which one at least should be in a section with a front."""

COUNTS_MAX = 1 << 22
"""Numbers of groups and attributes that are counted at a time."""

FIRST_BYTE, LAST_BYTE = form.FRONT_HALF, form.FRONT_HALF - 1
"""What every label passes."""


class Front(NamedTuple):
    """The fronts of sections with equally many intervals.

    Attributes
    ----------
    section : int64[k]
        Ascending.
    intervals : int
    attribute : int64[b, FRONT_COLUMNS]
        Of each block of these sections.
    """

    section: I8
    intervals: int
    attribute: I8


class _Ranges(NamedTuple):
    """Intervals of some entries, [entries, intervals]; `passes` is the chance, 1 for those of no use."""

    attribute: I8
    lo: I8
    hi: I8
    passes: F8


def choose_fronts(
    able: Bools, intervals: I8, uniform: I8, size: I8, key: I8, wanted: bool | None = None
) -> Bools:
    """Say which sections get a front: of those of one key only the first ones, so that lines can be counted.

    A few are not worth what every event does for them.

    Parameters
    ----------
    able : bool[s]
        Sections of narrow intervals and nothing else.
    intervals, uniform : int64[s]
        Interval columns, and how many of them might be uniform.
    size, key : int64[s]
        Entries of each section, and the key that leads to it.
    wanted : bool, optional
        Whether they are worth it; by default as there are few or many.
    """
    chosen = able & (intervals - uniform >= INTERVALS_MIN) & (intervals <= form.INTERVAL_MASK)
    is_worth_it = int(size[chosen].sum()) * FEW_IN >= int(size.sum()) if wanted is None else wanted
    if not is_worth_it:
        chosen[:] = False
    if not chosen.any():
        return chosen
    number = np.arange(len(key))
    new = np.ones(len(key), bool)
    new[1:] = key[1:] != key[:-1]
    first = np.maximum.accumulate(np.where(new, number, 0))
    refused = np.maximum.accumulate(np.where(chosen, -1, number))
    return np.asarray(chosen & (refused < first))


def plan_fronts(
    section: I8, shares: Shares, entries: Entries, intervals: I8, predicates: Predicates
) -> list[Front]:
    """Order the entries of sections with a front, in place, and choose the attributes of their blocks."""
    found = []
    for width in distinct_of(intervals[section]).tolist() if len(section) else ():
        mine = section[intervals[section] == width]
        step = max(COUNTS_MAX // len(predicates.label_count), 1)
        for first in range(0, len(mine), step):
            some = mine[first : first + step]
            _sort(some, shares, entries, width, predicates)
            entry, within, _ = shares.of(some)
            new = within % form.FRONT_ENTRIES == 0
            block = np.cumsum(new) - 1
            ranges = _ranges(entry, entries, width, predicates)
            found.append(Front(some, width, _attributes(block, ranges)[0]))
    return found


def _ranges(entry: I8, entries: Entries, width: int, predicates: Predicates) -> _Ranges:
    literal = entries.residual[entries.residual_start[entry][:, None] + np.arange(width)]
    predicate = literal >> 1
    attribute, lo, hi = (part[predicate] for part in (predicates.attribute, predicates.lo, predicates.hi))
    passes = (hi - lo + 1) / predicates.label_count[attribute]
    passes = np.where((literal & 1) == 0, np.clip(passes, 0.0, 1.0), 1.0)
    if entries.cells:
        # The event has a label near them, or they would not have been found.
        passes[:, max(width - entries.cells, 0) :] = 1.0
    return _Ranges(attribute, lo, hi, passes)


def _attributes(group: I8, ranges: _Ranges) -> tuple[I8, Bools]:
    """Choose the attributes of each group of entries that let the fewest pass, one after the other.

    Returns
    -------
    attribute : int64[g, FRONT_COLUMNS]
    has : bool[e, FRONT_COLUMNS]
        Whether an entry has an interval of it that is of use.
    """
    group_count = int(group[-1]) + 1
    distinct, number = np.unique(ranges.attribute, return_inverse=True)
    number = number.reshape(ranges.attribute.shape)
    at = (group[:, None] * len(distinct) + number).reshape(-1)
    gain = 1.0 - ranges.passes
    left = np.ones(len(group))
    chosen = np.empty((group_count, form.FRONT_COLUMNS), np.int64)
    has = np.empty((len(group), form.FRONT_COLUMNS), bool)
    for column in range(form.FRONT_COLUMNS):
        score = np.bincount(at, (gain * left[:, None]).reshape(-1), group_count * len(distinct))
        best = score.reshape(group_count, -1).argmax(axis=1)
        chosen[:, column] = distinct[best]
        mine = (number == best[group][:, None]) & (gain > 0.0)
        has[:, column] = mine.any(axis=1)
        gain[mine] = 0.0  # once is enough
        left *= np.where(has[:, column], ranges.passes[np.arange(len(group)), mine.argmax(axis=1)], 1.0)
    return chosen, has


def _sort(section: I8, shares: Shares, entries: Entries, width: int, predicates: Predicates) -> None:
    """Bring the entries of sections with several blocks into the order of the attributes that they have."""
    section = section[shares.size[section] > form.FRONT_ENTRIES]
    if not len(section):
        return
    entry, within, _ = shares.of(section)
    group = np.cumsum(within == 0) - 1
    _, has = _attributes(group, _ranges(entry, entries, width, predicates))
    pattern = (~has) @ (1 << np.arange(form.FRONT_COLUMNS)[::-1])
    order = np.lexsort((pattern, group))
    shares.order[np.repeat(shares.begin[section], shares.size[section]) + within] = entry[order]


def write_fronts(
    out: I4, at: I8, fronts: list[Front], shares: Shares, entries: Entries, predicates: Predicates
) -> None:
    """Write fronts, rows and targets of their sections from words `at` on."""
    shift = form.code_shifts(predicates.label_count).astype(np.int64)
    halves = out.view(np.uint16)
    for section, width, chosen in fronts:
        entry, within, owner = shares.of(section)
        ranges = _ranges(entry, entries, width, predicates)
        block = np.cumsum(within % form.FRONT_ENTRIES == 0) - 1
        begin = at[owner] + at[owner] % 2
        numbers = _blocks(ranges, block, within % form.FRONT_ENTRIES, chosen, shift)
        first = (within % form.FRONT_ENTRIES) == 0
        to = (begin + within // form.FRONT_ENTRIES * form.FRONT_WORDS)[first]
        out[to[:, None] + np.arange(form.FRONT_WORDS)] = numbers.view(np.int32)
        row_words = form.row_words(width)
        rows = begin + form.front_words(shares.size[owner])
        half = 2 * (rows + within * row_words)
        literal = entries.residual[entries.residual_start[entry][:, None] + np.arange(width)]
        row = np.zeros((len(entry), 2 * row_words), np.uint16)
        row[:, 0 : 3 * width : 3] = 2 * ranges.attribute + (literal & 1)
        row[:, 1 : 3 * width : 3] = ranges.lo
        row[:, 2 : 3 * width : 3] = ranges.hi
        halves[half[:, None] + np.arange(2 * row_words)] = row
        out[rows + shares.size[owner] * row_words + within] = entries.target[entry]


def _blocks(ranges: _Ranges, block: I8, lane: I8, chosen: I8, shift: I8) -> np.ndarray:
    """Return the numbers of all blocks, uint64[blocks, FRONT_WORDS // 2]."""
    byte = np.zeros((len(chosen), form.FRONT_COLUMNS, 2, form.FRONT_ENTRIES), np.uint64)
    entry = np.arange(len(block))
    for column in range(form.FRONT_COLUMNS):
        attribute = chosen[block, column]
        mine = (ranges.attribute == attribute[:, None]) & (ranges.passes < 1.0)
        has, which = mine.any(axis=1), mine.argmax(axis=1)
        lo, hi = (part[entry, which] >> shift[attribute] for part in (ranges.lo, ranges.hi))
        byte[block, column, 0, lane] = np.where(has, np.maximum(FIRST_BYTE - lo, 0), FIRST_BYTE)
        byte[block, column, 1, lane] = np.where(has, np.maximum(hi, 0), LAST_BYTE)
    number = np.empty((len(chosen), form.FRONT_WORDS // 2), np.uint64)
    lanes = np.arange(0, 8 * form.FRONT_ENTRIES, 8, dtype=np.uint64)
    number[:, 1:] = (byte << lanes).sum(axis=-1, dtype=np.uint64).reshape(len(chosen), -1)
    codes = chosen.astype(np.uint64) << np.arange(0, 16 * form.FRONT_COLUMNS, 16, dtype=np.uint64)
    number[:, 0] = codes.sum(axis=1, dtype=np.uint64)
    return number
