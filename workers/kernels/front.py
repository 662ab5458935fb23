"""Fronts: which entries of a section may hold, eight at a time, before their rows are read (`shm.blob`).

Few pass. Their rows lie elsewhere, so they are listed, their memory is asked for, and they are looked at
together when all places have been seen: `Fronts` is that list, and what an event's labels are compared by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.blob import (
    ENTRY_MASK,
    FRONT_COLUMNS,
    FRONT_ENTRIES,
    FRONT_WORDS,
    HEAD_LABELS,
    INTERVAL_MASK,
    INTERVAL_SHIFT,
    LINE_WORDS,
)
from pubsub_cluster.workers.kernels._jit import leaf
from pubsub_cluster.workers.kernels.check import inside
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.kernels.tables import Fronts, Index

row_words = leaf(form.row_words)

LATE_MAX = 256
"""Entries on their way at a time; the list has room for those of the largest section beyond."""

ASKED_WORDS = 128
"""Of a front at most: the machine itself asks for what is read in turn."""

ONES = np.uint64(form.FRONT_ONES)
HALVES = np.uint64(form.FRONT_ONES * form.FRONT_HALF)
ANY_LEAST, ANY_MOST = np.uint64(form.FRONT_ONES * (form.FRONT_HALF - 1)), HALVES
"""What several values, or unknown ones, are compared by: an entry that exists passes."""

_CODE_BITS, _CODE_MASK = np.uint64(16), np.uint64(form.HALF_MAX)
_NONE, _ONE, _SHIFT, _BYTES = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(255)


def fronts_for(attribute_count: int, section_max: int) -> Fronts:
    """Return memory for so many attributes and entries of a section, as between events."""
    least, most = np.zeros(attribute_count, np.uint64), np.full(attribute_count, HALVES)
    late = LATE_MAX + section_max
    return Fronts(least, most, np.zeros(late, np.int64), np.zeros(late, np.int64), np.zeros(late, np.int32))


@leaf
def write_fronts(span: Any, entry_attribute: Any, entry_label: Any, label_shift: Any, fronts: Any) -> None:
    """Write what the labels of the entries of `span` are compared by."""
    first, stop = span
    previous = np.int32(-1)
    for entry in range(first, stop):
        attribute = entry_attribute[Index(entry)]
        if attribute == previous:
            fronts.least[Index(attribute)] = ANY_LEAST
            fronts.most[Index(attribute)] = ANY_MOST
        else:
            label = ONES * np.uint64(entry_label[Index(entry)] >> label_shift[Index(attribute)])
            fronts.least[Index(attribute)] = label
            fronts.most[Index(attribute)] = HALVES - label
        previous = attribute


@leaf
def clear_fronts(span: Any, entry_attribute: Any, fronts: Any) -> None:
    """Undo `write_fronts`."""
    first, stop = span
    for entry in range(first, stop):
        attribute = entry_attribute[Index(entry)]
        fronts.least[Index(attribute)] = _NONE
        fronts.most[Index(attribute)] = HALVES


@leaf
def front_parts(start: Any, head: Any, blob: Any) -> Any:
    """Return the words of the front, of the first row and of the first target, and the words of a row."""
    entry_count = np.int64(head & ENTRY_MASK)
    words = row_words(np.int64((head >> INTERVAL_SHIFT) & INTERVAL_MASK))
    at = np.int64(start) + 1
    if (head & HEAD_LABELS) != 0:
        at += 1 + blob[Index(at)]
    at += at & 1
    rows = at + (entry_count + (FRONT_ENTRIES - 1)) // FRONT_ENTRIES * FRONT_WORDS
    return at, rows, rows + entry_count * words, words


@leaf
def ask_front(start: Any, blob: Any) -> None:
    """Ask for what follows the first line of a section: of a front all, up to a bound, else one line."""
    head = blob[Index(start)]
    words = np.int64(2 * LINE_WORDS)
    if head < 0:
        blocks = (np.int64(head & ENTRY_MASK) + (FRONT_ENTRIES - 1)) // FRONT_ENTRIES
        words = min(2 + blocks * FRONT_WORDS, np.int64(ASKED_WORDS))
    for line in range(LINE_WORDS, words, LINE_WORDS):
        prefetch(blob, start + line)


@leaf
def list_late(parts: Any, head: Any, blobs: Any, fronts: Any, count: Any) -> Any:
    """Add the entries that pass a front to the `count` that are on their way; return how many there are.

    `parts` are as in `front_parts`.
    """
    at, rows, targets, words = parts
    entry = np.int64(0)
    for block in range(at >> 1, rows >> 1, FRONT_WORDS // 2):
        code = blobs.long[Index(block)]
        held = HALVES
        for column in range(FRONT_COLUMNS):
            attribute = Index(code & _CODE_MASK)
            code >>= _CODE_BITS
            number = Index(block + 2 * column)
            held &= blobs.long[number + Index(1)] + fronts.least[attribute]
            held &= blobs.long[number + Index(2)] + fronts.most[attribute]
        while held != _NONE:
            low = held & (~held + _ONE)
            held ^= low
            # Each byte below that of `low` counts one.
            mine = entry + np.int64((((low >> _SHIFT) - _ONE) & ONES) % _BYTES)
            row = rows + mine * words
            prefetch(blobs.word, row)
            fronts.row_at[Index(count)] = row
            fronts.target_at[Index(count)] = targets + mine
            fronts.head[Index(count)] = head
            count += 1
        entry += FRONT_ENTRIES
    return count


@leaf
def late_holds(number: Any, blobs: Any, facts: Any, entry_label: Any, fronts: Any) -> Any:
    """Say whether all intervals of a listed entry hold."""
    half = 2 * fronts.row_at[Index(number)]
    columns = np.int64((fronts.head[Index(number)] >> INTERVAL_SHIFT) & INTERVAL_MASK)
    for at in range(half, half + 3 * columns, 3):
        code, lo, hi = (
            np.int64(blobs.half[Index(at)]),
            np.int64(blobs.half[Index(at + 1)]),
            np.int64(blobs.half[Index(at + 2)]),
        )
        if not inside(code, lo, hi, facts, entry_label):
            return False
    return True
