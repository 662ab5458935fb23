"""Kernels of Tama: pieces of ranges on levels of ever finer cells, and counting.

Level v divides a domain into 2^v cells; cell i of it is node 2^v + i, so that node 1 is the whole domain and
the cells of the last level are the nodes from LEAVES on. Node x of attribute a is list ``a * 2 * LEAVES +
x``. `line` is float64[attributes, 3]: lowest and highest value, and LEAVES / (half their distance), or 0.
Each kernel has its plain twin in `htree/reference.py`.
"""

from __future__ import annotations

import math
from typing import Any

from pubsub_cluster.algorithms.htree.range_kernels import satisfied
from pubsub_cluster.algorithms.list_kernels import push, remove
from pubsub_cluster.workers.kernels._jit import kernel, leaf

LEVELS = 13
LEAVES = 1 << LEVELS
NODES = 2 * LEAVES
GONE = 65_535
"""A size that no counter reaches."""


@leaf
def leaf_of(value: Any, line: Any, attribute: Any) -> Any:
    """Return the cell of the last level in which a value lies; it never falls when the value grows."""
    inside = min(max(float(value), line[attribute, 0]), line[attribute, 1])
    return min(int((0.5 * inside - 0.5 * line[attribute, 0]) * line[attribute, 2]), LEAVES - 1)


@leaf
def pieces(low: Any, high: Any, out: Any) -> Any:
    """List the fewest nodes that make up the cells low to high of the last level; return how many."""
    left, right = low + LEAVES, high + LEAVES + 1
    count = 0
    while left < right:
        if left & 1:
            out[count] = left
            count += 1
            left += 1
        if right & 1:
            right -= 1
            out[count] = right
            count += 1
        left >>= 1
        right >>= 1
    return count


@kernel
def split(rows: Any, line: Any, place: Any, owner: Any, low: Any, high: Any) -> None:
    """Sort ranges by attribute: a build that fills the lists of one attribute after the other stays in cache.

    Parameters
    ----------
    rows : tuple
        As in `range_kernels`.
    line : float64[attributes, 3]
    place : int64[attributes]
        Where the ranges of each attribute begin; where they end (out).
    owner : int32[p]
        Out: rows.
    low, high : int16[p]
        Out: the first and the last cell of the last level.
    """
    stops, attribute, lo, hi = rows
    for row in range(stops.shape[0] - 1):
        for at in range(stops[row], stops[row + 1]):
            number = attribute[at]
            to = place[number]
            place[number] = to + 1
            owner[to] = row
            low[to], high[to] = leaf_of(lo[at], line, number), leaf_of(hi[at], line, number)


@kernel
def count_pieces(low: Any, high: Any, work: Any, heads: Any) -> Any:
    """Add the pieces of ranges of one attribute to the lengths of its lists; return how many there are."""
    total = 0
    for at in range(low.shape[0]):
        count = pieces(low[at], high[at], work)
        for piece in range(count):
            heads[work[piece], 1] += 1
        total += count
    return total


@kernel
def fill(owner: Any, low: Any, high: Any, work: Any, heads: Any, pool: Any) -> None:
    """Append rows to the lists of one attribute, which have room for them."""
    for at in range(low.shape[0]):
        for piece in range(pieces(low[at], high[at], work)):
            start, size = heads[work[piece], 0], heads[work[piece], 1]
            pool[start + size] = owner[at]
            heads[work[piece], 1] = size + 1


@kernel
def add_rows(rows: Any, stop: Any, line: Any, work: Any, lists: Any, progress: Any) -> Any:
    """Push rows to the lists of their pieces.

    Parameters
    ----------
    rows : tuple
    stop : int
    line : float64[attributes, 3]
    work : int64[2 * LEVELS]
    lists : tuple
        As in `list_kernels`.
    progress : int64[3]
        The row, the range and the piece to begin with, the latter two counted within; where it ended (out).

    Returns
    -------
    bool
        False: the pool is full; make room and go on.
    """
    stops, attribute, lo, hi = rows
    for row in range(progress[0], stop):
        for at in range(stops[row] + progress[1], stops[row + 1]):
            number = attribute[at]
            count = pieces(leaf_of(lo[at], line, number), leaf_of(hi[at], line, number), work)
            for piece in range(progress[2], count):
                if not push(lists, number * NODES + work[piece], row):
                    progress[0], progress[1], progress[2] = row, at - stops[row], piece
                    return False
            progress[2] = 0
        progress[1] = 0
    progress[0] = stop
    return True


@kernel
def remove_rows(rows: Any, gone: Any, line: Any, work: Any, lists: Any) -> Any:
    """Take rows out of the lists of their pieces; return the numbers that were compared."""
    stops, attribute, lo, hi = rows
    compared = 0
    for which in range(gone.shape[0]):
        row = gone[which]
        for at in range(stops[row], stops[row + 1]):
            number = attribute[at]
            count = pieces(leaf_of(lo[at], line, number), leaf_of(hi[at], line, number), work)
            for piece in range(count):
                compared += remove(lists, number * NODES + work[piece], row)
    return compared


@leaf
def _count(counter: Any, values: Any, event: Any, line: Any, lists: Any) -> Any:
    """Count the satisfied ranges of each row; return how many counts that took."""
    heads, pool, _ = lists
    counted = 0
    for number in range(min(line.shape[0], values.shape[1])):
        value = values[event, number]
        if value > -math.inf:
            node = leaf_of(value, line, number) + LEAVES
            while node:
                start, size = heads[number * NODES + node, 0], heads[number * NODES + node, 1]
                for place in range(start, start + size):
                    counter[pool[place]] += 1
                counted += size
                node >>= 1
    return counted


@kernel
def match(
    data: Any, values: Any, size: Any, counter: Any, most: Any, begin: Any, stops: Any, found: Any, seen: Any
) -> Any:
    """Find the rows that match each event of [begin, n): count, then verify whose counts are complete.

    Parameters
    ----------
    data : (rows, line, lists)
    values : T[n, attributes]
        Minus infinity: no value.
    size : uint16[rows]
        Ranges of each row, or `GONE`.
    counter : uint16[rows]
        Zeros, before and after.
    most : int
        An event is done when it has this many matches.
    begin : int
    stops : int64[n + 1]
        Where the matches of each event end in `found`; in up to ``stops[begin]``, out from there on.
    found : int32[...]
        Rows (out).
    seen : int64[n, 3]
        Counts, rows with a count, and rows that were complete but do not match (out).

    Returns
    -------
    int
        n, or the event at which `found` was full.
    """
    rows, line, lists = data
    room = found.shape[0]
    for event in range(begin, values.shape[0]):
        total = stops[event]
        seen[event, 0] = _count(counter, values, event, line, lists)
        partial, wrong = 0, 0
        is_full = False
        for row in range(size.shape[0]):
            count = counter[row]
            counter[row] = 0
            partial += count > 0
            if count == size[row] and not is_full and total - stops[event] != most:
                if not satisfied(rows, row, values, event):
                    wrong += 1
                elif total == room:
                    is_full = True
                else:
                    found[total] = row
                    total += 1
        if is_full:
            return event
        seen[event, 1], seen[event, 2] = partial, wrong
        stops[event + 1] = total
    return values.shape[0]
