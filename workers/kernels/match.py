"""Matching against a layout: the hot loop of the project (the papers' second phase).

Per event, over all its tables at once, so that independent accesses to memory wait together: the labels are
scattered, the keys of all tables computed and their places asked for, the places read and the blob asked
for (`probe`), then the sections are checked (`check`). Sections of slots join at the end.

Stamps tell what was done for this event: a row that can be reached more than once is told once, a program
evaluated once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import (
    BYTE_MAX,
    COLUMN_FIRST,
    COLUMN_LAST,
    COLUMN_SHIFT,
    COLUMN_WIDE,
    ENTRY_MASK,
    HALF_MAX,
    HEAD_LABELS,
    HEAD_LONG,
    HEAD_MORE,
    HEAD_NOT_SIMPLE,
    HEAD_ONCE,
    MANY_CLAUSES,
    MANY_KEYS,
    UNIFORM_SHIFT,
)
from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf
from pubsub_cluster.workers.kernels.check import check_flags, check_section, digits_match, program_holds
from pubsub_cluster.workers.kernels.probe import collect_probes, collect_slots, resolve_probes
from pubsub_cluster.workers.kernels.scatter import clear, scatter, set_flags
from pubsub_cluster.workers.kernels.tables import (
    CURSOR_ENTRY,
    CURSOR_SIZE,
    PAIR_FAILS,
    PAIR_HOLDS,
    SEVERAL,
    Index,
)
from pubsub_cluster.workers.kernels.uniform import uniform_parts

ONE_UNIFORM = HEAD_ONCE | 1 << UNIFORM_SHIFT
"""Head of a section with a uniform column and nothing else, but for its entry count and HEAD_MORE."""

FEW_ENTRIES = 16


@leaf
def tell_rows(
    found: Any, targets: Any, blob: Any, survivor: Any, telling: Any, given: Any, stamp: Any, out: Any
) -> Any:
    """Append the rows of `found` survivors to `out` = (row int32[], count so far).

    `telling` are `row_many`, `row_stamp`, Programs, `program_stamp`, `stack`, and from which `row_many` on a
    row is told once.

    Returns
    -------
    int
        The new count of rows; above the size of the array when they do not fit (those beyond are not
        written).
    """
    out_row, count = out
    row_many, row_stamp, programs, program_stamp, stack, once_from = telling
    for at in range(found):
        row = blob[Index(targets + survivor[Index(at)])]
        if row < 0:
            program = ~row
            if program_stamp[program] == stamp:
                continue
            program_stamp[program] = stamp
            if not program_holds(program, programs, given, stack):
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
def is_closed(start: Any, probe: Any, blob: Any, parts: Any, probes: Any, digits: Any) -> Any:
    """Say whether the section at `start` is for other digits than those of the probe that led there."""
    head = blob[start]
    if (head & HEAD_LABELS) == 0:
        return False
    at = start + (6 if (head & HEAD_LONG) != 0 else 2)
    table, combination = probes.hash_table[probe], probes.hash_combination[probe]
    return not digits_match(at, table, combination, blob, parts, digits)


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
def check_places(
    pending: Any, blobs: Any, telling: Any, given: Any, probing: Any, places: Any, kept: Any, out: Any
) -> Any:
    """Check all pending places of the blob; as `tell_rows`, `out` = (row, count so far, stamp)."""
    out_row, count, stamp = out
    parts, digits, probes = probing
    blob, survivor, facts = blobs.word, kept.survivor, given[1]
    for number in range(pending):
        start = places.blob_at[Index(number)]
        while True:
            head = blob[Index(start)]
            entry_count = np.int64(head & ENTRY_MASK)
            found = np.int64(0)
            label = np.int32(SEVERAL)
            if (head & ~(ENTRY_MASK | HEAD_MORE)) == ONE_UNIFORM:
                label = facts.label_of[Index(blob[Index(start + 1)] >> COLUMN_SHIFT)]
            if label != SEVERAL and entry_count <= min(FEW_ENTRIES, out_row.shape[0] - count):
                count, targets = tell_few(start, entry_count, np.int64(label), blobs, (out_row, count))
            elif (head & HEAD_NOT_SIMPLE) == 0:
                found, targets = check_flags(start, blob, facts.flag, survivor)
            else:
                found, targets = check_section(start, blobs, given, kept)
                probe = places.blob_probe[Index(number)]
                if found > 0 and is_closed(start, probe, blob, parts, probes, digits):
                    found = np.int64(0)
            if found > 0:
                if (head & HEAD_ONCE) != 0:
                    count = tell_once(found, targets, blob, survivor, (out_row, count))
                else:
                    count = tell_rows(found, targets, blob, survivor, telling, given, stamp, (out_row, count))
            if (head & HEAD_MORE) == 0:
                break
            start = targets + entry_count
    return count


@kernel
def match_events(tables: Any, events: Any, scratch: Any, start: Any, out_row: Any, out_start: Any) -> Any:
    """Match events from `first_event` on against the layout.

    ===========  ======================================================================  ======
    tables       MatchTables                                                             in
    events       EventTables                                                             in
    scratch      Scratch                                                                 in/out
    start        (first_event, stamp, ask, all_mine): stamps ``stamp + event`` were      in
                 never used before; whether memory is asked for ahead; whether all
                 partitions are this shard's
    out_row      int32[], layout rows; event e fills out_start[e] .. out_start[e+1]      out
    out_start    int64[n+1]; out_start[first_event] is set by the caller                 in/out
    ===========  ======================================================================  ======

    Returns
    -------
    tuple of (status, int)
        OK and the event count, or OVERFLOW and the event to go on from with a longer `out_row`.
    """
    first_event, stamp_base, ask, all_mine = start
    how = ask, all_mine
    entries = events.entry_start, events.entry_attribute, events.entry_label
    bits = events.bit_start, events.bit
    points, slices, blob, mine = tables.points, tables.slices, tables.blobs.word, tables.partition_mine
    parts, areas = tables.parts, tables.areas
    facts, flag_pair, digits = scratch.facts, scratch.flag_pair, scratch.digits
    cursor, probes, places = scratch.cursor, scratch.probes, scratch.places
    keyed = parts, areas, tables.attribute_table, points.attribute_point
    probing = digits, probes, scratch.key, cursor
    slotted = tables.slots, points, blob
    row_many, row_stamp, programs = tables.row_many, scratch.row_stamp, tables.programs
    program_stamp, stack = scratch.program_stamp, scratch.stack
    given = tables.tests, facts, events.entry_label
    has_cells = tables.slices.slice_label.shape[0] != 0
    has_slots = tables.slots.cluster_start.shape[0] != 0
    event_count = events.entry_start.shape[0] - 1
    count = np.int64(out_start[first_event])
    for event in range(first_event, event_count):
        is_single = scatter(event, points, slices, entries, facts, flag_pair, digits)
        once_from = MANY_CLAUSES if is_single else MANY_KEYS
        if tables.many_max < once_from:
            once_from = MANY_CLAUSES + 1
        telling = row_many, row_stamp, programs, program_stamp, stack, np.int64(once_from)
        set_flags(
            event, entries, bits, points.attribute_point, tables.flags, flag_pair, np.uint16(PAIR_HOLDS)
        )
        for at in range(CURSOR_SIZE):
            cursor[at] = 0
        cursor[CURSOR_ENTRY] = entries[0][event]
        entry_stop = entries[0][event + 1]
        tables_done = False
        done = False
        while not done:
            pending = np.int64(0)
            if not tables_done:
                direct_count, hash_count, tables_done = collect_probes(
                    entry_stop, events.entry_attribute, keyed, probing, mine, how
                )
                pending = resolve_probes((direct_count, hash_count), areas, blob, probes, places, ask)
            done = tables_done
            if tables_done and has_slots:
                pending, done = collect_slots(event, pending, slotted, events, cursor, places, mine, how)
            out = out_row, count, stamp_base + event
            count = check_places(
                pending, tables.blobs, telling, given, (parts, digits, probes), places, scratch.kept, out
            )
        set_flags(
            event, entries, bits, points.attribute_point, tables.flags, flag_pair, np.uint16(PAIR_FAILS)
        )
        clear((entries[0][event], entry_stop), entries[1], has_cells, facts.label_of, flag_pair, digits)
        if count > out_row.shape[0]:
            return OVERFLOW, event
        out_start[event + 1] = count
    return OK, event_count
