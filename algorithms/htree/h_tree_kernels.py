"""Kernels of the H-Tree: cells of ranges and of values (HTREE section 3.3, D-24, D-25), buckets, search.

`index` is what says where rows belong:

- int16[attributes] slot: which indexed attribute each one is, or -1; attributes beyond it are not indexed;
- float64[l, 3] line: lowest and highest value of each, and 1 / (half their distance), or 0;
- float64[l, K] knots: ascending; with K > 0 a value's position is the share of knots that do not exceed it
  (Y = F(X)), else where it lies between lowest and highest;
- int64[l] base: what a cell counts in the number of a bucket, first attribute highest;
- c; and the most copies of a row.

Positions lie in [0, 1] and never fall when a value grows, whatever is rounded: that is all that finding every
match takes. Each kernel has its plain twin in `htree/reference.py`.
"""

from __future__ import annotations

import math
from typing import Any

from pubsub_cluster.algorithms.htree.range_kernels import satisfied
from pubsub_cluster.algorithms.list_kernels import push, remove
from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.prefetch import prefetch

STEP = 4
"""Buckets between the stages of looking ahead."""


@leaf
def position(value: Any, slot: Any, line: Any, knots: Any) -> Any:
    """Return where a value lies in [0, 1] on an indexed attribute."""
    count = knots.shape[1]
    if count:
        low, high = 0, count
        while low < high:
            middle = (low + high) >> 1
            if knots[slot, middle] <= value:
                low = middle + 1
            else:
                high = middle
        return low / count
    # Halves, because the distance of two doubles may be none.
    inside = min(max(float(value), line[slot, 0]), line[slot, 1])
    return min((0.5 * inside - 0.5 * line[slot, 0]) * line[slot, 2], 1.0)


@leaf
def nearest(at: Any, cells: Any) -> Any:
    """Return the cell with the nearest centre, the lower of two; `at` in segments."""
    return int(min(max(math.ceil(at - 0.5) - 1.0, 0.0), cells - 2.0))


@leaf
def cells_of_range(low: Any, high: Any, cells: Any) -> Any:
    """Return the first and the last of the cells that have a range between two positions.

    The range is split in pieces no wider than a segment; each lies wholly in the cell with the nearest centre
    (HTREE-03). The first and the last are mended where rounding took that away.
    """
    low, high = low * cells, high * cells
    step = (high - low) / max(1.0, math.ceil(high - low))
    first, last = nearest(low + 0.5 * step, cells), nearest(high - 0.5 * step, cells)
    if first > low:
        first -= 1
    if last + 2 < high:
        last += 1
    return first, last


@leaf
def place_row(rows: Any, row: Any, index: Any, first: Any, last: Any) -> Any:
    """Find the cells of a row on all indexed attributes; return how many buckets that are.

    Where they are more than the most, the widest range counts as none, and so on.
    """
    stops, attribute, lo, hi = rows
    slots, line, knots, _, cells, most = index
    for slot in range(line.shape[0]):
        first[slot] = last[slot] = cells - 1
    copies = 1
    for at in range(stops[row], stops[row + 1]):
        number = attribute[at]
        if number < slots.shape[0] and slots[number] >= 0:
            slot = slots[number]
            low, high = position(lo[at], slot, line, knots), position(hi[at], slot, line, knots)
            first[slot], last[slot] = cells_of_range(low, high, cells)
            copies *= last[slot] - first[slot] + 1
    while copies > most:
        widest = 0
        for slot in range(1, line.shape[0]):
            if last[slot] - first[slot] > last[widest] - first[widest]:
                widest = slot
        copies //= last[widest] - first[widest] + 1
        first[widest] = last[widest] = cells - 1
    return copies


@leaf
def bucket_of(copy: Any, base: Any, first: Any, last: Any) -> Any:
    """Return the bucket of a row's copy; copy 0 has the lowest number."""
    bucket = 0
    for slot in range(base.shape[0] - 1, -1, -1):
        digit = first[slot]
        if copy:
            span = last[slot] - digit + 1
            digit += copy % span
            copy //= span
        bucket += digit * base[slot]
    return bucket


@kernel
def first_buckets(rows: Any, index: Any, cells: Any, bucket: Any) -> Any:
    """Find the bucket of the first copy of each row; return the number of all copies.

    Parameters
    ----------
    rows : tuple
        As in `range_kernels`.
    index : tuple
    cells : (int64[l], int64[l])
        Work.
    bucket : int64[n]
        Out.
    """
    first, last = cells
    copies = 0
    for row in range(bucket.shape[0]):
        copies += place_row(rows, row, index, first, last)
        bucket[row] = bucket_of(0, index[3], first, last)
    return copies


@kernel
def count_copies(rows: Any, begin: Any, stop: Any, index: Any, cells: Any, heads: Any) -> None:
    """Add the rows [begin, stop) to the lengths of their lists."""
    first, last = cells
    for row in range(begin, stop):
        for copy in range(place_row(rows, row, index, first, last)):
            heads[bucket_of(copy, index[3], first, last), 1] += 1


@kernel
def add_rows(rows: Any, stop: Any, index: Any, cells: Any, lists: Any, progress: Any) -> Any:
    """Push rows to the lists of their buckets.

    Parameters
    ----------
    rows : tuple
    stop : int
    index, cells : tuple
    lists : tuple
        As in `list_kernels`.
    progress : int64[2]
        The row and the copy to begin with; where it ended (out).

    Returns
    -------
    bool
        False: the pool is full; make room and go on.
    """
    first, last = cells
    for row in range(progress[0], stop):
        copies = place_row(rows, row, index, first, last)
        for copy in range(progress[1], copies):
            if not push(lists, bucket_of(copy, index[3], first, last), row):
                progress[0], progress[1] = row, copy
                return False
        progress[1] = 0
    progress[0] = stop
    return True


@kernel
def remove_rows(rows: Any, gone: Any, index: Any, cells: Any, lists: Any) -> Any:
    """Take rows out of their buckets; return the numbers that were compared."""
    first, last = cells
    compared = 0
    for at in range(gone.shape[0]):
        copies = place_row(rows, gone[at], index, first, last)
        for copy in range(copies):
            compared += remove(lists, bucket_of(copy, index[3], first, last), gone[at])
    return compared


@kernel
def positions(values: Any, attributes: Any, line: Any, knots: Any, out: Any) -> None:
    """Find where events lie on indexed attributes.

    Parameters
    ----------
    values : T[n, attributes]
        Minus infinity: no value.
    attributes : int64[l]
    line, knots : array
    out : float64[n, l]
        Out: -1 where there is no value.
    """
    for event in range(values.shape[0]):
        for slot in range(attributes.shape[0]):
            value = values[event, attributes[slot]]
            if value > -math.inf:
                out[event, slot] = position(value, slot, line, knots)
            else:
                out[event, slot] = -1.0


@leaf
def probe(at: Any, index: Any, heads: Any, work: Any) -> Any:
    """List the buckets of an event that are not empty; return how many, and how many were looked at."""
    base, cells = index[3], index[4]
    digits, counts, turn, spans = work
    total = 1
    levels = base.shape[0]
    for slot in range(levels):
        counts[slot] = 0
        if at[slot] >= 0.0:
            segment = at[slot] * cells
            low = max(math.ceil(segment) - 2, 0)
            for cell in range(low, min(math.floor(segment), cells - 2) + 1):
                digits[slot, counts[slot]] = cell * base[slot]
                counts[slot] += 1
        digits[slot, counts[slot]] = (cells - 1) * base[slot]
        counts[slot] += 1
        turn[slot] = 0
        total *= counts[slot]
    bucket = 0
    for slot in range(levels):
        bucket += digits[slot, 0]
    used = 0
    for _ in range(total):
        start, size = heads[bucket, 0], heads[bucket, 1]
        spans[used, 0], spans[used, 1] = start, start + size
        used += size > 0
        slot = levels - 1
        while slot >= 0:
            bucket -= digits[slot, turn[slot]]
            turn[slot] += 1
            if turn[slot] < counts[slot]:
                bucket += digits[slot, turn[slot]]
                break
            turn[slot] = 0
            bucket += digits[slot, 0]
            slot -= 1
    return used, total


@leaf
def look_ahead(rows: Any, pool: Any, spans: Any, span: Any, used: Any) -> None:
    """Ask early for the first row of the next buckets: its number, where its ranges are, then the ranges."""
    stops, attribute, lo, hi = rows
    if span + 3 * STEP < used:
        prefetch(pool, spans[span + 3 * STEP, 0])
    if span + 2 * STEP < used:
        prefetch(stops, pool[spans[span + 2 * STEP, 0]])
    if span + STEP < used:
        at = stops[pool[spans[span + STEP, 0]]]
        prefetch(attribute, at)
        prefetch(lo, at)
        prefetch(hi, at)


@kernel
def match(
    data: Any, values: Any, at: Any, most: Any, work: Any, begin: Any, stops: Any, found: Any, seen: Any
) -> Any:
    """Find the rows that match each event of [begin, n) (HTREE section 3.1).

    Parameters
    ----------
    data : (rows, index, lists)
    values : T[n, attributes]
    at : float64[n, l]
        Positions.
    most : int
        An event is done when it has this many matches.
    work : (int64[l, 4], int64[l], int64[l], int64[4**l + 1, 2])
        Cells that are looked at and how many, turns of a counter, and where lists stand.
    begin : int
    stops : int64[n + 1]
        Where the matches of each event end in `found`; in up to ``stops[begin]``, out from there on.
    found : int32[...]
        Rows (out).
    seen : int64[n, 2]
        Buckets looked at and subscriptions compared (out).

    Returns
    -------
    int
        n, or the event at which `found` was full.
    """
    rows, index, lists = data
    heads, pool, _ = lists
    spans = work[3]
    room = found.shape[0]
    for event in range(begin, values.shape[0]):
        total = stops[event]
        used, seen[event, 0] = probe(at[event], index, heads, work)
        compared = 0
        is_done = False
        for span in range(used):
            look_ahead(rows, pool, spans, span, used)
            for place in range(spans[span, 0], spans[span, 1]):
                compared += 1
                if satisfied(rows, pool[place], values, event):
                    if total == room:
                        return event
                    found[total] = pool[place]
                    total += 1
                    if total - stops[event] == most:
                        is_done = True
                        break
            if is_done:
                break
        seen[event, 1] = compared
        stops[event + 1] = total
    return values.shape[0]
