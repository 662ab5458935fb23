"""Kernels of the second phase: candidate clusters of an event, and who matches in them (RR-4089 section 2.2).

The loop over a cluster is written out for up to `SPECIAL_MAX` predicates left, since their tests are then one
expression; `_loop` and `_holds` make these loops, the compiler copies each into its caller. A block of
`UNFOLD` entries fills a cache line of a column; with prefetch, after each block the lines `LOOKAHEAD` entries
ahead are asked for, of the first `columns` columns. Errata of the printed code: ``[j]`` for ``[k]``, no
look-up in the bit vector, and the prefetch within the inner loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.predicate_kernels import EQ, satisfied
from pubsub_cluster.algorithms.rr4089.cluster_kernels import (
    CAPACITY,
    COUNT,
    FIRST,
    NEXT,
    REST,
    ROW,
    START,
    TABLES,
    find,
    hash_of,
)
from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.prefetch import prefetch

UNFOLD = 16
LOOKAHEAD = 64
SPECIAL_MAX = 10
EVENTS_COUNTED, CHECKED, VISITED, LOOKED_UP = range(4)
"""Counters: events, subscriptions checked, accesses visited, tables looked up."""


def _holds(size: int) -> Any:
    """Return a leaf that tests the first `size` predicates of an entry."""
    if size == 0:

        @leaf
        def nothing(_words: Any, _flags: Any, _at: Any, _stride: Any) -> Any:
            return True

        return nothing
    before = _holds(size - 1)
    last = size - 1

    @leaf
    def all_hold(words: Any, flags: Any, at: Any, stride: Any) -> Any:
        return before(words, flags, at, stride) and flags[words[at + last * stride]] != 0

    return all_hold


def _loop(size: int) -> Any:
    """Return a leaf that writes who of a cluster's entries [first, stop) match."""
    holds = _holds(size)

    @leaf
    def entries(words: Any, flags: Any, bounds: Any, found: Any, count: Any) -> Any:
        start, stride, first, stop = bounds
        for entry in range(start + first, start + stop):
            if holds(words, flags, entry, stride):
                found[count] = words[entry + size * stride]
                count += 1
        return count

    return entries


_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10 = (_loop(size) for size in range(SPECIAL_MAX + 1))


@leaf
def generic(words: Any, flags: Any, bounds: Any, size: Any, found: Any, count: Any) -> Any:
    """As the loops for one number of predicates, for any."""
    start, stride, first, stop = bounds
    for entry in range(start + first, start + stop):
        at, end = entry, entry + size * stride
        while at < end and flags[words[at]] != 0:
            at += stride
        if at >= end:
            found[count] = words[end]
            count += 1
    return count


@leaf
def _ask_ahead(words: Any, start: Any, stride: Any, columns: Any, entry: Any) -> None:
    for column in range(columns):
        prefetch(words, start + column * stride + entry + LOOKAHEAD)


def _blocks(loop: Any) -> Any:
    """Return a leaf that goes through a cluster, in blocks if columns are to be prefetched."""

    @leaf
    def through(words: Any, flags: Any, cluster: Any, columns: Any, found: Any, count: Any) -> Any:
        start, stride, size = cluster
        if columns == 0:
            return loop(words, flags, (start, stride, 0, size), found, count)
        whole = size - size % UNFOLD
        for first in range(0, whole, UNFOLD):
            count = loop(words, flags, (start, stride, first, first + UNFOLD), found, count)
            _ask_ahead(words, start, stride, columns, first)
        return loop(words, flags, (start, stride, whole, size), found, count)

    return through


_b0, _b1, _b2, _b3, _b4, _b5, _b6, _b7, _b8, _b9, _b10 = (
    _blocks(one) for one in (_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10)
)


@leaf
def _any_size(words: Any, flags: Any, cluster: Any, rest: Any, columns: Any, found: Any, count: Any) -> Any:
    start, stride, size = cluster
    for first in range(0, size, UNFOLD):
        stop = min(first + UNFOLD, size)
        count = generic(words, flags, (start, stride, first, stop), rest, found, count)
        _ask_ahead(words, start, stride, columns, first)
    return count


@leaf
def check(words: Any, flags: Any, cluster: Any, rest: Any, columns: Any, found: Any, count: Any) -> Any:
    """Write who of a cluster matches, from ``found[count]`` on; return the new count.

    Parameters
    ----------
    words : int32[...]
    flags : uint8[predicates]
        The bit vector.
    cluster : (int, int, int)
        Start, capacity, entries.
    rest : int
        Predicates left.
    columns : int
        To be prefetched; 0: none.
    found : int64[...]
    count : int
    """
    if rest == 0:
        return _b0(words, flags, cluster, columns, found, count)
    if rest == 1:
        return _b1(words, flags, cluster, columns, found, count)
    if rest == 2:
        return _b2(words, flags, cluster, columns, found, count)
    if rest == 3:
        return _b3(words, flags, cluster, columns, found, count)
    if rest == 4:
        return _b4(words, flags, cluster, columns, found, count)
    if rest == 5:
        return _b5(words, flags, cluster, columns, found, count)
    if rest == 6:
        return _b6(words, flags, cluster, columns, found, count)
    if rest == 7:
        return _b7(words, flags, cluster, columns, found, count)
    if rest == 8:
        return _b8(words, flags, cluster, columns, found, count)
    if rest == 9:
        return _b9(words, flags, cluster, columns, found, count)
    if rest == 10:
        return _b10(words, flags, cluster, columns, found, count)
    return _any_size(words, flags, cluster, rest, columns, found, count)


@kernel
def check_cluster(
    words: Any, flags: Any, cluster: Any, rest: Any, columns: Any, found: Any, is_special: Any
) -> Any:
    """See `check`; `is_special` False: by the loop for any number of predicates."""
    none = np.int64(0)  # see `match_events`
    if is_special:
        return check(words, flags, cluster, rest, columns, found, none)
    return _any_size(words, flags, cluster, rest, columns, found, none)


@kernel
def check_rows(words: Any, flags: Any, size: Any, rest: Any, found: Any) -> Any:
    """As `check_cluster`, for entries stored row after row, each with its subscription behind."""
    count = 0
    for entry in range(size):
        at = entry * (rest + 1)
        end = at + rest
        while at < end and flags[words[at]] != 0:
            at += 1
        if at == end:
            found[count] = words[end]
            count += 1
    return count


@kernel
def count_reads(words: Any, flags: Any, cluster: Any, rest: Any, reads: Any) -> None:
    """Add to ``reads[i]`` how often column i is read in a cluster, and to ``lines[i]`` of which cache lines.

    `reads` is int64[2, columns].
    """
    start, stride, size = cluster
    for column in range(rest):
        line = -1
        for entry in range(size):
            is_read = True
            for before in range(column):
                is_read = is_read and flags[words[start + before * stride + entry]] != 0
            if is_read:
                reads[0, column] += 1
                if (start + column * stride + entry) // UNFOLD != line:
                    line = (start + column * stride + entry) // UNFOLD
                    reads[1, column] += 1


@kernel
def test_predicates(index: Any, values: Any, first: Any, stops: Any, found: Any, counters: Any) -> Any:
    """First phase: write the predicates that events from `first` on satisfy; return the event not done.

    Parameters
    ----------
    index : tuple
        `predicate_kernels`.
    values : float64[events, attributes]
    first : int
    stops : int64[events + 1]
        Predicates of event e are ``found[stops[e - first]:stops[e - first + 1]]`` (out).
    found : int32[...]
        With room for all predicates at least once.
    counters : int64[...]
        See `predicate_kernels.satisfied`.
    """
    room = index[0][:, 1].sum()
    count = 0
    stops[0] = 0
    for event in range(first, values.shape[0]):
        if count + room > found.shape[0]:
            return event
        count += satisfied(index, values[event], found[count:], counters)
        stops[event - first + 1] = count
    return values.shape[0]


@leaf
def candidates_of(held: Any, predicates: Any, bounds: Any, work: Any, counters: Any) -> Any:
    """Set the bit vector and list the accesses that an event satisfies; return how many.

    All tables are looked up side by side: their places in the hash are asked for first, then their accesses.
    """
    flags, equal, chosen, waiting = work
    count = 1
    chosen[0] = 0
    for at in range(bounds[0], bounds[1]):
        predicate = predicates[at]
        flags[predicate] = 1
        if held.comparison[predicate] == EQ:
            equal[held.attribute[predicate]] = predicate
            if held.single[predicate] >= 0:
                chosen[count] = held.single[predicate]
                count += 1
    mask = held.keys.shape[0] - 1
    asked = 0
    for at in range(held.counts[TABLES]):
        value = hash_of(held.tables, held.live[at], equal)
        if value >= 0:
            waiting[asked, 0], waiting[asked, 1] = held.live[at], value
            prefetch(held.keys, value & mask)
            asked += 1
    for at in range(asked):
        access = held.keys[waiting[at, 1] & mask]
        if access >= 0:
            prefetch(held.access, ROW * access)
    for at in range(asked):
        access = held.keys[find(held, waiting[at, 0], equal, waiting[at, 1])]
        if access >= 0:
            chosen[count] = access
            count += 1
            if held.access[access, FIRST] >= 0:
                prefetch(held.clusters, ROW * held.access[access, FIRST])
    counters[VISITED] += count
    counters[LOOKED_UP] += asked
    return count


@kernel
def list_candidates(held: Any, predicates: Any, work: Any, counters: Any) -> Any:
    """See `candidates_of`, for one event, for callers that are not compiled."""
    return candidates_of(held, predicates, (0, predicates.shape[0]), work, counters)


@kernel
def match_events(held: Any, owner: Any, predicates: Any, stops: Any, work: Any, out: Any, how: Any) -> Any:
    """Second phase, for some events; return the event that had no room any more, and how many matches.

    Parameters
    ----------
    held : Held
    owner : int64[subscriptions]
    predicates : int32[...]
    stops : int64[events + 1]
        Of the first phase.
    work : (uint8[predicates], int32[attributes], int32[...], int64[tables, 2])
        The bit vector, 0 between calls; an event's equalities, -1 between calls; accesses; look-ups.
    out : (int64[...], int64[...], int64[...])
        Matches of one event by subscription; events and owners of all matches (out).
    how : (int, int, int, int64[4])
        First event, last one; columns to be prefetched; counters.
    """
    found, events, owners = out
    flags, equal, chosen, _ = work
    begin, end, columns, counters = how
    total = 0
    for event in range(begin, end):
        bounds = (stops[event], stops[event + 1])
        count = candidates_of(held, predicates, bounds, work, counters)
        matched = np.int64(0)  # not a literal: `check` would be compiled for that, too
        for at in range(count):
            row = held.access[chosen[at], FIRST]
            while row >= 0:
                size, rest = held.clusters[row, COUNT], held.clusters[row, REST]
                cluster = (held.clusters[row, START], held.clusters[row, CAPACITY], size)
                asked = min(columns, rest + 1)
                matched = check(held.words, flags, cluster, rest, asked, found, matched)
                counters[CHECKED] += size
                row = held.clusters[row, NEXT]
        for at in range(bounds[0], bounds[1]):
            flags[predicates[at]] = 0
            equal[held.attribute[predicates[at]]] = -1
        if total + matched > events.shape[0]:
            return event, total
        for at in range(matched):
            events[total], owners[total] = event, owner[found[at]]
            total += 1
        counters[EVENTS_COUNTED] += 1
    return end, total
