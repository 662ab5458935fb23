"""Packing: entries that share a slot or a table's key, as sections of the blob (`shm.blob` has the form).

Entries are sorted by key, then by the shape of their residuals; each such group is a section, cut to a
bounded size. Large groups are sorted by their residuals, column after column, so that the kernel tests a
literal once per run (`tuner.forms`). Clusters of slots are dealt
to partitions of about equal expected cost; partitions are what shards get.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.columns import Shares, write_uniform
from pubsub_cluster.tuner.entries import Bools, Entries, distinct_of, shape_counts
from pubsub_cluster.tuner.forms import SORTED_ENTRIES_MIN, plan_forms, write_columns, write_runs
from pubsub_cluster.tuner.fronts import write_fronts
from pubsub_cluster.tuner.predicates import Predicates

CLUSTER_ENTRIES_MAX = 2_040
SORTED_COLUMNS_MAX = 4
CLUSTER_NS, ENTRY_NS = 25.0, 1.2
"""Expected cost of reaching a cluster and of checking one of its entries, nanoseconds."""

HEAVY_SHARE = 50
"""A cluster with more than 1/50 of a partition's fair share of the cost is dealt on its own."""


class Sections(NamedTuple):
    """Packed sections, in order of their keys.

    Attributes
    ----------
    key : int64[s]
    start : int64[s]
        Word of the whole blob.
    entry_count : int64[s]
    entry : int64[s]
        One of the entries of each; -1: it was carried over.
    words : int64[s]
    is_front : bool[s]
    """

    key: I8
    start: I8
    entry_count: I8
    entry: I8
    words: I8
    is_front: Bools


class BlobWriter:
    """The growing blob.

    Parameters
    ----------
    room_words : int
        To begin with; memory is only taken for what is written.
    """

    def __init__(self, room_words: int) -> None:
        self._words = _by_line(room_words)
        self.size = 0
        self.has_fronts = False

    def take(self, count: int) -> int:
        """Make room for more words; return the first."""
        first = self.size
        self.size += count
        if self.size > len(self._words):
            grown = _by_line(max(self.size, len(self._words) * 3 // 2))
            grown[:first] = self._words[:first]
            self._words = grown
        return first

    def place(self, words: I8, is_front: Bools) -> I8:
        """Make room for sections of so many words; return the first of each.

        Those with a front begin a line of memory, and so does whatever follows them.
        """
        if not is_front.any():
            start: I8 = np.cumsum(words) - words + self.take(int(words.sum()))
            return start
        self.has_fronts = True
        ends = is_front.copy()
        ends[:-1] |= is_front[1:]
        ends[-1] = True
        last = np.flatnonzero(ends)
        up_to = np.cumsum(words)
        size = np.diff(up_to[last], prepend=0)
        lines = -(-size // form.LINE_WORDS) * form.LINE_WORDS
        first = self.take(-self.size % form.LINE_WORDS + int(lines.sum()))
        self._words[first : self.size] = 0
        moved = np.cumsum(lines - size) - (lines - size) + self.size - int(lines.sum())
        return np.asarray(up_to - words + np.repeat(moved, np.diff(last, prepend=-1)))

    @property
    def words(self) -> I4:
        """All words so far."""
        return self._words[: self.size]


def _by_line(count: int) -> I4:
    """Return room for words that begins a line of memory."""
    room = np.empty(count + form.LINE_WORDS, np.int32)
    first = -(room.ctypes.data // room.itemsize) % form.LINE_WORDS
    return room[first : first + count]


def pack_entries(
    entries: Entries,
    predicates: Predicates,
    is_chained: bool,
    blob: BlobWriter,
    fronts: bool | None = None,
) -> Sections:
    """Group, sort and pack entries.

    Parameters
    ----------
    entries : Entries
    predicates : Predicates
    is_chained : bool
        Sections of one key follow each other and are told so.
    blob : BlobWriter
    fronts : bool, optional
        Whether sections may have fronts; by default where enough of them would.
    """
    order, new_group = _sorted_groups(entries)
    count = len(order)
    if count == 0:
        none = np.zeros(0, np.int64)
        return Sections(none, none, none, none, none, none > 0)
    group_begin = np.flatnonzero(new_group)
    group_size = np.diff(np.append(group_begin, count))
    _sort_large_groups(entries, order, group_begin, group_size)

    within = np.arange(count) - np.repeat(group_begin, group_size)
    begin = np.flatnonzero(within % CLUSTER_ENTRIES_MAX == 0)
    shares = Shares(order, begin, np.diff(np.append(begin, count)))
    key = entries.key[order[begin]]
    form_of = plan_forms(entries, shares, predicates, key, fronts)
    digits = None if entries.digits is None else entries.digits[order[begin]]
    digit_words = 0 if digits is None else 1 + digits.shape[1]
    words = form_of.words(1 + digit_words) + 1 + 4 * form_of.is_long + digit_words + shares.size
    start = blob.place(words, form_of.is_front)

    head = form_of.head(shares.size) | (form.HEAD_LABELS if digit_words else 0)
    head |= np.where(np.logical_and.reduceat(entries.once[order], begin), form.HEAD_ONCE, 0)
    if is_chained:
        head[:-1] |= np.where(key[1:] == key[:-1], form.HEAD_MORE, 0)
    out = blob.words
    out[start] = head.astype(np.int32)
    at = start + 1
    for counts in form_of.counts if form_of.is_long.any() else ():
        out[at[form_of.is_long]] = counts[form_of.is_long]
        at = at + form_of.is_long
    if digits is not None:
        out[at] = digits.shape[1]
        for column in range(digits.shape[1]):
            out[at + 1 + column] = digits[:, column]
        at = at + digit_words
    write_fronts(out, at, form_of.fronts, shares, entries, predicates)
    at = write_runs(out, at, form_of.run_count, form_of.first_literal, begin, shares.size)
    at = write_uniform(out, at, form_of.uniform, shares, entries.residual, form_of.first_range, predicates)
    write_columns(out, at, form_of, shares, entries, predicates)
    return Sections(key, start, shares.size, order[begin], words, form_of.is_front)


def _sorted_groups(entries: Entries) -> tuple[I8, npt.NDArray[np.bool_]]:
    """Order entries by key, digits and shape, rows ascending within; mark the first of each group."""
    count = len(entries.key)
    shapes = distinct_of(entries.shape)
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
    literal_count = sum(shape_counts(entries.shape[mine]))
    keys: list[npt.NDArray[Any]] = []
    for column in range(min(int(literal_count.max()), SORTED_COLUMNS_MAX)):
        has = literal_count > column
        literal = np.zeros(len(mine), np.int32)
        literal[has] = entries.residual[first[has] + column]
        keys.insert(0, literal)
    order[at] = mine[np.lexsort([*keys, group])]


def deal_clusters(clusters: Sections, slot_probability: F8, partition_cost: F8) -> tuple[I4, F8]:
    """Deal clusters of slots to partitions of about equal expected cost.

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
    return deal(
        slot_probability[clusters.key] * (CLUSTER_NS + ENTRY_NS * clusters.entry_count), partition_cost
    )


def deal(expected: F8, partition_cost: F8) -> tuple[I4, F8]:
    """Deal clusters that cost so much to partitions; else as `deal_clusters`.

    Heavy clusters go one by one to the lightest partition (longest processing time first), the many light
    ones in turn, by falling cost.
    """
    partition_count = len(partition_cost)
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
