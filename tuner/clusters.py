"""Packing: entries that share a slot or a table's key, as sections of the blob (`shm.blob` has the form).

Entries are sorted by key, then by the shape of their residuals; each such group is a section, cut to a
bounded size. Large groups are sorted by their residuals, column after column, so that the kernel tests a
literal once per run; their first column is kept as runs where that saves words. Clusters of slots are dealt
to partitions of about equal expected cost; partitions are what shards get.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.predicates import FLAG_COLUMN, INTERVAL_COLUMN

CLUSTER_ENTRIES_MAX = 2_048
SORTED_COLUMNS_MAX = 4
SORTED_ENTRIES_MIN = 32
"""Smaller groups keep the order of their rows."""

CLUSTER_NS, ENTRY_NS = 25.0, 1.2
"""Expected cost of reaching a cluster and of checking one of its entries, nanoseconds."""

HEAVY_SHARE = 50
"""A cluster with more than 1/50 of a partition's fair share of the cost is dealt on its own."""

_SHAPE_BITS = 20


class Entries(NamedTuple):
    """What is to be found through slots, or through the keys of one table.

    Attributes
    ----------
    key : int64[e]
        Slot or key.
    target : int32[e]
        Layout row, or ``~program``.
    residual_start : int64[e]
    shape : int64[e]
        Flag, interval and test literals of each entry (`shape_code`), in this order in `residual`; entries
        may share them.
    residual : int32[]
    digits : int32[e, k] or None
        Where equal keys may be of different accesses: what they stand for.
    """

    key: I8
    target: I4
    residual_start: I8
    shape: I8
    residual: I4
    digits: I4 | None = None


class Sections(NamedTuple):
    """Packed sections, in order of their keys.

    Attributes
    ----------
    key : int64[s]
    start : int64[s]
        Word of the whole blob.
    entry_count : int64[s]
    entry : int64[s]
        One of the entries of each.
    """

    key: I8
    start: I8
    entry_count: I8
    entry: I8


class BlobWriter:
    """The growing blob.

    Parameters
    ----------
    room_words : int
        To begin with; memory is only taken for what is written.
    """

    def __init__(self, room_words: int) -> None:
        self._words = np.empty(room_words, np.int32)
        self.size = 0

    def take(self, count: int) -> int:
        """Make room for more words; return the first."""
        first = self.size
        self.size += count
        if self.size > len(self._words):
            grown = np.empty(max(self.size, len(self._words) * 3 // 2), np.int32)
            grown[:first] = self._words[:first]
            self._words = grown
        return first

    @property
    def words(self) -> I4:
        """All words so far."""
        return self._words[: self.size]


def shape_code(flags: Any, intervals: Any, tests: Any) -> Any:
    """Return the number of literals of each sort as one number."""
    return (flags << 2 * _SHAPE_BITS) | (intervals << _SHAPE_BITS) | tests


def _shape_counts(shape: Any) -> tuple[Any, Any, Any]:
    mask = (1 << _SHAPE_BITS) - 1
    return shape >> 2 * _SHAPE_BITS, (shape >> _SHAPE_BITS) & mask, shape & mask


def pack_entries(entries: Entries, inline: I4, is_chained: bool, blob: BlobWriter) -> Sections:
    """Group, sort and pack entries.

    Parameters
    ----------
    entries : Entries
    inline : int32[P, 4]
        Tests of the predicates, for intervals that stand in the blob.
    is_chained : bool
        Sections of one key follow each other and are told so.
    blob : BlobWriter
    """
    order, new_group = _sorted_groups(entries)
    count = len(order)
    if count == 0:
        none = np.zeros(0, np.int64)
        return Sections(none, none, none, none)
    group_begin = np.flatnonzero(new_group)
    group_size = np.diff(np.append(group_begin, count))
    _sort_large_groups(entries, order, group_begin, group_size)

    within = np.arange(count) - np.repeat(group_begin, group_size)
    begin = np.flatnonzero(within % CLUSTER_ENTRIES_MAX == 0)
    size = np.diff(np.append(begin, count))
    key, shape = entries.key[order[begin]], entries.shape[order[begin]]
    flags, intervals, tests = _shape_counts(shape)
    first_literal, run_count = _runs(entries, order, begin, size, flags, intervals, tests)
    is_long = np.maximum(np.maximum(flags, intervals), tests) > form.COUNT_MASK
    digit_count = 0 if entries.digits is None else entries.digits.shape[1]
    header = 1 + 3 * is_long + (1 + digit_count if digit_count else 0)
    runs_words = np.where(run_count > 0, 1 + 2 * run_count - size, 0)
    words = header + runs_words + (flags + 3 * intervals + tests + 1) * size
    start = np.cumsum(words) - words + blob.take(int(words.sum()))

    head: npt.NDArray[Any] = np.where(run_count > 0, form.HEAD_RUNS, 0) | size
    if is_chained:
        head[:-1] |= np.where(key[1:] == key[:-1], form.HEAD_MORE, 0)
    short = flags << form.FLAG_SHIFT | intervals << form.INTERVAL_SHIFT | tests << form.TEST_SHIFT
    head |= np.where(is_long, form.HEAD_LONG, short) | (form.HEAD_LABELS if digit_count else 0)
    out = blob.words
    out[start] = head
    at = start + 1
    for counts in (flags, intervals, tests) if is_long.any() else ():
        out[at[is_long]] = counts[is_long]
        at = at + is_long
    if entries.digits is not None:
        out[at] = digit_count
        for column in range(digit_count):
            out[at + 1 + column] = entries.digits[order[begin], column]
        at = at + 1 + digit_count
    at = _write_runs(out, at, run_count, first_literal, begin, size)
    _write_columns(out, at, order, begin, size, shape, run_count > 0, entries, inline)
    return Sections(key, start, size, order[begin])


def _sorted_groups(entries: Entries) -> tuple[I8, npt.NDArray[np.bool_]]:
    """Order entries by key, digits and shape, rows ascending within; mark the first of each group."""
    count = len(entries.key)
    shapes = np.unique(entries.shape) if count else entries.shape
    shape = np.searchsorted(shapes, entries.shape)
    index_bits, shape_bits = max(count - 1, 1).bit_length(), max(len(shapes) - 1, 0).bit_length()
    key_bits = int(entries.key.max(initial=0)).bit_length()
    if entries.digits is None and key_bits + shape_bits + index_bits <= 63:
        word = ((entries.key << shape_bits | shape) << index_bits) | np.arange(count)
        word.sort()
        order = word & ((1 << index_bits) - 1)
        word >>= index_bits
        new = np.ones(count, bool)
        new[1:] = word[1:] != word[:-1]
        return order, new
    columns: list[npt.NDArray[Any]] = [shape]
    if entries.digits is not None:
        columns += list(entries.digits.T)
    columns.append(entries.key)
    order = np.lexsort(columns)
    new = np.ones(count, bool)
    new[1:] = False
    for column in columns:
        new[1:] |= column[order[1:]] != column[order[:-1]]
    return order, new


def _sort_large_groups(entries: Entries, order: I8, group_begin: I8, group_size: I8) -> None:
    """Sort the entries of large groups by their first residuals, in place."""
    large = np.flatnonzero(group_size >= SORTED_ENTRIES_MIN)
    if not len(large):
        return
    size = group_size[large]
    group = np.repeat(np.arange(len(large)), size)
    at = np.arange(len(group)) + np.repeat(group_begin[large] - (np.cumsum(size) - size), size)
    mine = order[at]
    first = entries.residual_start[mine]
    literal_count = sum(_shape_counts(entries.shape[mine]))
    keys: list[npt.NDArray[Any]] = []
    for column in range(min(int(literal_count.max()), SORTED_COLUMNS_MAX)):
        has = literal_count > column
        literal = np.zeros(len(mine), np.int32)
        literal[has] = entries.residual[first[has] + column]
        keys.insert(0, literal)
    order[at] = mine[np.lexsort([*keys, group])]


def _runs(
    entries: Entries, order: I8, begin: I8, size: I8, flags: I8, intervals: I8, tests: I8
) -> tuple[I4, I8]:
    """Return the first literal of every entry (0: none), and the runs of each section; 0 without runs."""
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
    return literal, np.where(able & (1 + 2 * found < size), found, 0)


def _write_runs(out: I4, at: I8, run_count: I8, literal: I4, begin: I8, size: I8) -> I8:
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


def _write_columns(
    out: I4,
    at: I8,
    order: I8,
    begin: I8,
    size: I8,
    shape: I8,
    has_runs: npt.NDArray[np.bool_],
    entries: Entries,
    inline: I4,
) -> None:
    """Write residual columns and targets of all sections, shape by shape."""
    variant = shape << 1 | has_runs
    for value in np.unique(variant).tolist():
        mine = np.flatnonzero(variant == value)
        everything = len(mine) == len(variant)
        count = size if everything else size[mine]
        within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        entry = order if everything else order[np.repeat(begin[mine], count) + within]
        to = np.repeat(at if everything else at[mine], count) + within
        step = np.repeat(count, count)
        first = entries.residual_start[entry]
        flags, intervals, tests = _shape_counts(value >> 1)
        sorts = [0] * flags + [INTERVAL_COLUMN] * intervals + [FLAG_COLUMN] * tests
        for column, sort in enumerate(sorts):
            if column == 0 and value & 1:
                continue
            literal = entries.residual[first + column]
            if sort == INTERVAL_COLUMN:
                test = inline[literal >> 1]
                triple = to + 2 * within
                out[triple] = 2 * test[:, 0] + (literal & 1)
                out[triple + 1] = test[:, 1]
                out[triple + 2] = test[:, 2]
                to += 3 * step
            else:
                out[to] = literal
                to += step
        out[to] = entries.target[entry]


def deal_clusters(clusters: Sections, slot_probability: F8, partition_cost: F8) -> tuple[I4, F8]:
    """Deal clusters of slots to partitions of about equal expected cost.

    Heavy clusters go one by one to the lightest partition (longest processing time first), the many light
    ones in turn, by falling cost.

    Parameters
    ----------
    clusters : Sections
    slot_probability : float64[S]
    partition_cost : float64[P]
        What tables cost already, expected nanoseconds per event.

    Returns
    -------
    partition : int32[C]
    cost : float64[P]
    """
    partition_count = len(partition_cost)
    expected = slot_probability[clusters.key] * (CLUSTER_NS + ENTRY_NS * clusters.entry_count)
    order = np.argsort(-expected, kind="stable")
    fair_share = float(expected.sum() + partition_cost.sum()) / partition_count
    heavy = int(np.count_nonzero(expected > fair_share / HEAVY_SHARE))
    partition = np.empty(len(expected), np.int32)
    lightest = list(zip(partition_cost.tolist(), range(partition_count), strict=True))
    heapq.heapify(lightest)
    for cluster in order[:heavy].tolist():
        load, number = heapq.heappop(lightest)
        partition[cluster] = number
        heapq.heappush(lightest, (load + float(expected[cluster]), number))
    light = order[heavy:]
    by_load = np.array([number for _, number in sorted(lightest)], np.int32)
    partition[light] = by_load[np.arange(len(light)) % partition_count]
    cost = partition_cost + np.bincount(partition, expected, minlength=partition_count)
    return partition, cost
