"""Telling: the rows of the entries that hold go to the answer.

Small sections of common forms are checked and told in one, without a branch on their size. Entries that
passed a front (`front`) are told once their own rows have been looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import (
    BYTE_MAX,
    COLUMN_FIRST,
    COLUMN_LAST,
    COLUMN_WIDE,
    HALF_MAX,
    MANY_CLAUSES,
)
from pubsub_cluster.workers.kernels._jit import leaf, routine
from pubsub_cluster.workers.kernels.check import program_holds
from pubsub_cluster.workers.kernels.front import late_holds
from pubsub_cluster.workers.kernels.tables import Index
from pubsub_cluster.workers.kernels.uniform import uniform_parts


@leaf
def tell_rows(
    found: Any, targets: Any, blob: Any, survivor: Any, telling: Any, given: Any, stamp: Any, out: Any
) -> Any:
    """Append the rows of `found` survivors to `out` = (row int32[], count so far).

    `telling` are `row_many`, `row_stamp`, Programs, `program_stamp`, and from which `row_many` on a
    row is told once.

    Returns
    -------
    int
        The new count of rows; above the size of the array when they do not fit (those beyond are not
        written).
    """
    out_row, count = out
    row_many, row_stamp, programs, program_stamp, once_from = telling
    for at in range(found):
        row = blob[Index(targets + survivor[Index(at)])]
        if row < 0:
            program = ~row
            if program_stamp[program] == stamp:
                continue
            program_stamp[program] = stamp
            if not program_holds(program, programs, given):
                continue
            row = programs.program_row[program]
        elif once_from <= MANY_CLAUSES and row_many[Index(row)] >= once_from:
            if row_stamp[Index(row)] == stamp:
                continue
            row_stamp[Index(row)] = stamp
        if count < out_row.shape[0]:
            out_row[Index(count)] = row
        count += 1
    return count


@leaf
def tell_once(found: Any, targets: Any, blob: Any, survivor: Any, out: Any) -> Any:
    """Append the rows of `found` survivors, none of which can be told twice; as `tell_rows`."""
    out_row, count = out
    for at in range(min(found, out_row.shape[0] - count)):
        out_row[Index(count + at)] = blob[Index(targets + survivor[Index(at)])]
    return count + found


@leaf
def tell_few(start: Any, entry_count: Any, label: Any, blobs: Any, out: Any) -> Any:
    """Append the rows of a small section with one uniform column whose attribute has one value.

    There is room for all; what is written beyond the new count does not matter.

    Returns
    -------
    tuple of (int, int)
        The new count, and the word of the first target.
    """
    out_row, count = out
    code, common, data, targets = uniform_parts(start + 1, entry_count, blobs.word)
    has_first, has_last = (code & COLUMN_FIRST) != 0, (code & COLUMN_LAST) != 0
    if (not has_first and label < common) or (not has_last and label > common):
        return count, targets
    step = entry_count if has_first and has_last else 0
    is_wide = (code & COLUMN_WIDE) != 0
    top = HALF_MAX if is_wide else BYTE_MAX
    least = label if has_first else top - label
    greatest = top - label if has_last else least
    data = 2 * data if is_wide else 4 * data
    for at in range(data, data + entry_count):
        out_row[Index(count)] = blobs.word[Index(targets + at - data)]
        if is_wide:
            first, last = np.int64(blobs.half[Index(at)]), np.int64(blobs.half[Index(at + step)])
        else:
            first, last = np.int64(blobs.byte[Index(at)]), np.int64(blobs.byte[Index(at + step)])
        count += 1 if (first <= least) & (last <= greatest) else 0
    return count, targets


@leaf
def tell_flags(start: Any, shape: Any, blob: Any, flag: Any, out: Any) -> Any:
    """Append the rows of a section of at most four entries that has only flag columns; as `tell_few`.

    How many entries there are is unpredictable, so four are looked at: the last one again instead of more.

    Parameters
    ----------
    start : int
        Word of the head.
    shape : tuple of (int, int)
        Entries, flag columns.
    """
    entry_count, columns = shape
    out_row, count = out
    first = start + 1
    second = first + min(1, entry_count - 1)
    third = first + min(2, entry_count - 1)
    fourth = first + entry_count - 1
    holds = np.uint8(1), np.uint8(entry_count > 1), np.uint8(entry_count > 2), np.uint8(entry_count > 3)
    at = np.int64(0)
    for _ in range(columns):
        holds = (
            holds[0] & flag[Index(blob[Index(first + at)])],
            holds[1] & flag[Index(blob[Index(second + at)])],
            holds[2] & flag[Index(blob[Index(third + at)])],
            holds[3] & flag[Index(blob[Index(fourth + at)])],
        )
        at += entry_count
    out_row[Index(count)] = blob[Index(first + at)]
    count += holds[0]
    out_row[Index(count)] = blob[Index(second + at)]
    count += holds[1]
    out_row[Index(count)] = blob[Index(third + at)]
    count += holds[2]
    out_row[Index(count)] = blob[Index(fourth + at)]
    count += holds[3]
    return np.int64(count), np.int64(first + at)


@leaf
def tell_column(start: Any, entry_count: Any, blob: Any, flag: Any, out: Any) -> Any:
    """Append the rows of a section with one flag column; as `tell_few`."""
    out_row, count = out
    targets = start + 1 + entry_count
    for at in range(start + 1, targets):
        out_row[Index(count)] = blob[Index(at + entry_count)]
        count += flag[Index(blob[Index(at)])]
    return np.int64(count), np.int64(targets)


@leaf
def tell_columns(start: Any, shape: Any, blob: Any, flag: Any, survivor: Any, out: Any) -> Any:
    """Append the rows of a section with two flag columns or more; as `tell_flags`.

    Only survivors of a column look at the next one, and what passes the last one is told at once.
    """
    entry_count, columns = shape
    out_row, count = out
    at = start + 1
    targets = at + columns * entry_count
    kept = np.int64(0)
    for entry in range(entry_count):
        survivor[Index(kept)] = entry
        kept += flag[Index(blob[Index(at + entry)])]
    for _ in range(2, columns):
        at += entry_count
        left = np.int64(0)
        for number in range(kept):
            entry = survivor[Index(number)]
            survivor[Index(left)] = entry
            left += flag[Index(blob[Index(at + entry)])]
        kept = left
    at += entry_count
    for number in range(kept):
        entry = survivor[Index(number)]
        out_row[Index(count)] = blob[Index(targets + entry)]
        count += flag[Index(blob[Index(at + entry)])]
    return np.int64(count), np.int64(targets)


@routine
def tell_late(late: Any, blobs: Any, telling: Any, given: Any, checking: Any, out: Any) -> Any:
    """Append the rows of `late` entries that passed a front, where their own rows hold; as `check_places`."""
    out_row, count, stamp = out
    kept, fronts = checking
    _, facts, entry_label = given
    kept.survivor[0] = 0
    for number in range(late):
        if late_holds(number, blobs, facts, entry_label, fronts):
            target = fronts.target_at[Index(number)]
            one = np.int64(1)
            count = tell_rows(one, target, blobs.word, kept.survivor, telling, given, stamp, (out_row, count))
    return count
