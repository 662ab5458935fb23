"""Encoding: from values, column by column, to labels, event by event (the first phase of the papers).

One call per attribute and value kind finds the labels of a column by binary search; one call of `arrange`
then brings all columns into event-major order by counting. Label numbers are those of `shm.code_space`.
Inputs are read-only contiguous arrays (`shm.layout.frozen`), outputs are not: one signature per kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.code_space import FALSE_LABEL, FIRST_NUMBER_LABEL
from pubsub_cluster.workers.kernels._jit import kernel

PREFIX_BYTES = 8


@kernel
def find_number(whole: Any, part: Any, const_whole: Any, const_part: Any, first: Any, stop: Any) -> Any:
    """Return the first position in [first, stop) whose key is not below (whole, part)."""
    lo = first
    hi = stop
    while lo < hi:
        mid = (lo + hi) >> 1
        if const_whole[mid] < whole or (const_whole[mid] == whole and const_part[mid] < part):
            lo = mid + 1
        else:
            hi = mid
    return lo


@kernel
def encode_numbers(event: Any, keys: Any, constants: Any, bounds: Any, at: Any, out: Any) -> Any:
    """Find the labels of one attribute's numbers.

    ==========  ==================================================  ===
    event       int32[k], ascending                                 in
    keys        (whole int64[k], part float64[k])                   in
    constants   (number_whole, number_part) of `CodeSpaces`         in
    bounds      (first, stop) of the attribute among the constants  in
    at          first row of `out` to fill                          in
    out         (event int32[], label int32[]), rows at .. at + k   out
    ==========  ==================================================  ===

    Returns
    -------
    int
        How many rows have the event of the row before: above 0 means several values.
    """
    whole, part = keys
    const_whole, const_part = constants
    first, stop = bounds
    out_event, out_label = out
    repeats = 0
    previous = -1
    for row in range(event.shape[0]):
        found = find_number(whole[row], part[row], const_whole, const_part, first, stop)
        label = FIRST_NUMBER_LABEL + 2 * (found - first)
        if found < stop and const_whole[found] == whole[row] and const_part[found] == part[row]:
            label += 1
        out_event[at + row] = event[row]
        out_label[at + row] = label
        if event[row] == previous:
            repeats += 1
        previous = event[row]
    return repeats


@kernel
def prefix_of(data: Any, start: Any, end: Any) -> Any:
    """Return the first eight bytes of ``data[start:end]`` as a big-endian number, zero-padded."""
    prefix = np.uint64(0)
    stop = min(end, start + PREFIX_BYTES)
    for at in range(start, stop):
        prefix = (prefix << np.uint64(8)) | np.uint64(data[at])
    for _ in range(stop - start, PREFIX_BYTES):
        prefix = prefix << np.uint64(8)
    return prefix


@kernel
def compare_tails(a: Any, a_start: Any, a_end: Any, b: Any, b_start: Any, b_end: Any) -> Any:
    """Compare two texts that agree in their prefixes by the bytes after them; return -1, 0 or 1."""
    a_size = a_end - a_start
    b_size = b_end - b_start
    for at in range(PREFIX_BYTES, min(a_size, b_size)):
        x = a[a_start + at]
        y = b[b_start + at]
        if x != y:
            return -1 if x < y else 1
    if a_size == b_size:
        return 0
    return -1 if a_size < b_size else 1


@kernel
def encode_texts(event: Any, texts: Any, constants: Any, bounds: Any, at: Any, out: Any) -> Any:
    """Find the labels of one attribute's texts; as `encode_numbers`, with

    ==========  ==================================================================  ==
    texts       (start int64[k], end int64[k], data uint8[])                        in
    constants   (text_offset, text_bytes, text_prefix) of `CodeSpaces`              in
    bounds      (first, stop, first label of the attribute's texts)                 in
    ==========  ==================================================================  ==
    """
    start, end, data = texts
    const_offset, const_bytes, const_prefix = constants
    first, stop, base = bounds
    out_event, out_label = out
    repeats = 0
    previous = -1
    for row in range(event.shape[0]):
        prefix = prefix_of(data, start[row], end[row])
        lo = first
        hi = stop
        label = -1
        while lo < hi:
            mid = (lo + hi) >> 1
            if const_prefix[mid] != prefix:
                order = -1 if const_prefix[mid] < prefix else 1
            else:
                order = compare_tails(
                    const_bytes, const_offset[mid], const_offset[mid + 1], data, start[row], end[row]
                )
            if order == 0:
                label = base + 2 * (mid - first) + 1
                break
            if order < 0:
                lo = mid + 1
            else:
                hi = mid
        if label < 0:
            label = base + 2 * (lo - first)
        out_event[at + row] = event[row]
        out_label[at + row] = label
        if event[row] == previous:
            repeats += 1
        previous = event[row]
    return repeats


@kernel
def encode_booleans(event: Any, value: Any, at: Any, out: Any) -> Any:
    """Find the labels of one attribute's booleans (`value` uint8[k]); as `encode_numbers`."""
    out_event, out_label = out
    repeats = 0
    previous = -1
    for row in range(event.shape[0]):
        out_event[at + row] = event[row]
        out_label[at + row] = FALSE_LABEL + (1 if value[row] else 0)
        if event[row] == previous:
            repeats += 1
        previous = event[row]
    return repeats


@kernel
def arrange(segments: Any, rows: Any, entry_start: Any, entries: Any) -> None:
    """Bring all columns into event-major order; an event's attributes come in the order of the segments.

    ============  ==============================================================================  ===
    segments      (attribute int32[s], first int64[s], stop int64[s]): rows of each column         in
    rows          (event int32[], label int32[])                                                   in
    entry_start   int64[n+1], zeros; becomes the first entry of each event                         out
    entries       (attribute int32[], label int32[])                                               out
    ============  ==============================================================================  ===
    """
    attribute, first, stop = segments
    event, label = rows
    out_attribute, out_label = entries
    event_count = entry_start.shape[0] - 1
    for segment in range(attribute.shape[0]):
        for row in range(first[segment], stop[segment]):
            entry_start[event[row]] += 1
    total = 0
    for at in range(event_count + 1):
        count = entry_start[at]
        entry_start[at] = total
        total += count
    for segment in range(attribute.shape[0]):
        for row in range(first[segment], stop[segment]):
            to = entry_start[event[row]]
            out_attribute[to] = attribute[segment]
            out_label[to] = label[row]
            entry_start[event[row]] = to + 1
    for at in range(event_count, 0, -1):
        entry_start[at] = entry_start[at - 1]
    entry_start[0] = 0
