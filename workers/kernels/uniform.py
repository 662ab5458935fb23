"""Uniform columns: the intervals of many entries against one label (`shm.blob` has the form).

Every entry has a byte in `Scratch.mark`, which a column leaves alone or clears: loops over neighbouring bytes
that the compiler turns into vector instructions. They are functions of their own, called with the arrays
that they need, so that each is compiled once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import (
    BYTE_MAX,
    COLUMN_FIRST,
    COLUMN_LAST,
    COLUMN_SHIFT,
    COLUMN_SORTED,
    COLUMN_WIDE,
    HALF_MAX,
    LINE_WORDS,
)
from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.kernels.tables import SEVERAL, Index

LINES_ASKED, LINES_MORE = 32, 512
"""Words of a section that were asked for before; and at most now."""


@kernel
def any_inside(lo: Any, hi: Any, first: Any, stop: Any, entry_label: Any) -> Any:
    """Say whether one of the labels of entries [first, stop) is in an interval."""
    found = False
    for entry in range(first, stop):
        found |= lo <= entry_label[entry] <= hi
    return found


@kernel
def mark_below(items: Any, first: Any, bound: Any, entry_count: Any, mark: Any) -> None:
    """Clear the marks of entries whose item is greater than `bound`, a number that items can have."""
    least = items.dtype.type(bound)
    for entry in range(entry_count):
        mark[Index(entry)] &= items[Index(first + entry)] <= least


@kernel
def count_below(items: Any, first: Any, bound: Any, entry_count: Any) -> Any:
    """Count the items that are at most `bound`, a number that items can have."""
    least = items.dtype.type(bound)
    count = np.uint32(0)
    for entry in range(entry_count):
        count = np.uint32(count + np.uint32(items[Index(first + entry)] <= least))
    return np.int64(count)


@kernel
def mark_several(
    items: Any, first: Any, sides: Any, several: Any, entry_count: Any, entry_label: Any, mark: Any
) -> None:
    """Clear the marks of entries whose interval has none of several labels.

    Parameters
    ----------
    items : uint8[] or uint16[]
    first : int
    sides : tuple of (bool, bool, int, int, int)
        Whether each entry has a first and a last label; the common one; the greatest number; numbers of
        each sort.
    several : tuple of (int, int)
        First and last + 1 entry of the event.
    """
    has_first, has_last, common, top, size = sides
    last = first + size if has_first else first
    for entry in range(entry_count):
        lo = np.int64(items[first + entry]) if has_first else common
        hi = top - np.int64(items[last + entry]) if has_last else common
        mark[entry] &= any_inside(lo, hi, several[0], several[1], entry_label)


@leaf
def uniform_parts(at: Any, entry_count: Any, blob: Any) -> Any:
    """Return code, common label, word of the data, and the word behind the column at ``blob[at]``."""
    code = blob[Index(at)]
    sides = ((code & COLUMN_FIRST) // COLUMN_FIRST) + ((code & COLUMN_LAST) // COLUMN_LAST)
    data = at + 1
    common = np.int64(0)
    if sides < 2:
        common = np.int64(blob[Index(data)])
        data += 1
    shift = 1 if (code & COLUMN_WIDE) != 0 else 2
    return code, common, data, data + ((sides * entry_count + (1 << shift) - 1) >> shift)


@leaf
def reach_of(parts: Any, entry_count: Any, blobs: Any, facts: Any) -> Any:
    """Return how many of the first entries may pass a column, which may be sorted; all others fail it."""
    code, _, data, _ = parts
    label = np.int64(facts.label_of[Index(code >> COLUMN_SHIFT)])
    if (code & COLUMN_SORTED) == 0 or label == SEVERAL:
        return np.int64(entry_count)
    is_wide = (code & COLUMN_WIDE) != 0
    top = np.int64(HALF_MAX if is_wide else BYTE_MAX)
    bound = label if (code & COLUMN_FIRST) != 0 else top - label
    if is_wide:
        return count_below(blobs.half, 2 * data, bound, entry_count)
    return count_below(blobs.byte, 4 * data, bound, entry_count)


@leaf
def mark_uniform(parts: Any, counts: Any, blobs: Any, facts: Any, entry_label: Any, mark: Any) -> None:
    """Clear the marks of the entries that a uniform column fails.

    `counts` are the section's entries, and how many of the first are looked at.
    """
    code, common, data, _ = parts
    entry_count, reach = counts
    attribute = code >> COLUMN_SHIFT
    label = np.int64(facts.label_of[Index(attribute)])
    has_first, has_last = (code & COLUMN_FIRST) != 0, (code & COLUMN_LAST) != 0
    is_wide = (code & COLUMN_WIDE) != 0
    top = np.int64(HALF_MAX if is_wide else BYTE_MAX)
    first = 2 * data if is_wide else 4 * data
    if label == SEVERAL:
        several = facts.several[2 * attribute], facts.several[2 * attribute + 1]
        sides = has_first, has_last, common, top, entry_count
        if is_wide:
            mark_several(blobs.half, first, sides, several, reach, entry_label, mark)
        else:
            mark_several(blobs.byte, first, sides, several, reach, entry_label, mark)
    elif (not has_first and label < common) or (not has_last and label > common):
        for entry in range(reach):
            mark[Index(entry)] = 0
    elif is_wide:
        if has_first:
            mark_below(blobs.half, first, label, reach, mark)
            first += entry_count
        if has_last:
            mark_below(blobs.half, first, top - label, reach, mark)
    else:
        if has_first:
            mark_below(blobs.byte, first, label, reach, mark)
            first += entry_count
        if has_last:
            mark_below(blobs.byte, first, top - label, reach, mark)


@leaf
def uniform_hold(at: Any, shape: Any, blobs: Any, facts: Any, entry_label: Any, kept: Any) -> Any:
    """List the entries that pass the uniform columns at word `at` of the blob in `survivor`.

    Parameters
    ----------
    shape : tuple of (int, int)
        Uniform columns, entries.

    Returns
    -------
    tuple of (int, int)
        How many pass, and the word behind the columns.
    """
    columns, entry_count = shape
    survivor, mark, mark_word = kept
    for line in range(at + LINES_ASKED, at + min((columns * entry_count) >> 2, LINES_MORE), LINE_WORDS):
        prefetch(blobs.word, line)
    parts = uniform_parts(at, entry_count, blobs.word)
    reach = reach_of(parts, entry_count, blobs, facts)
    word_count = (reach + 7) >> 3
    mark_word[Index(max(word_count - 1, 0))] = 0
    for entry in range(reach):
        mark[Index(entry)] = 1
    for _ in range(columns):
        parts = uniform_parts(at, entry_count, blobs.word)
        mark_uniform(parts, (entry_count, reach), blobs, facts, entry_label, mark)
        at = parts[3]
    count = np.int64(0)
    for word in range(word_count):
        if mark_word[Index(word)] != 0:
            for entry in range(8 * word, 8 * word + 8):
                survivor[Index(count)] = entry
                count += mark[Index(entry)]
    return count, at
