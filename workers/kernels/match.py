"""Matching against a layout: the hot loop of the project (the papers' second phase).

Per event, over all its tables at once, so that independent accesses to memory wait together: its digits are
written, the keys of all tables computed and their places asked for, the places read and the blob asked for
(`probe`), then labels and flags are written and the sections checked (`check`). Sections of slots join at the
end. Two events are on their way: between asking for the blob and checking, the keys of the next one are
computed; its places arrive while this one is checked.

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
    FLAG_MASK,
    FLAG_SHIFT,
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
from pubsub_cluster.workers.kernels.scatter import (
    clear_digits,
    clear_labels,
    flag_points,
    set_flags,
    write_digits,
    write_labels,
)
from pubsub_cluster.workers.kernels.tables import (
    CURSOR_RAISED,
    CURSOR_SINGLE,
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
def check_places(
    pending: Any, blobs: Any, telling: Any, given: Any, probing: Any, places: Any, kept: Any, out: Any
) -> Any:
    """Check all pending places of the blob; as `tell_rows`, `out` = (row, count so far, stamp)."""
    out_row, count, stamp = out
    parts, digits, probes = probing
    blob, survivor, facts = blobs.word, kept.survivor, given[1]
    all_once = telling[5] > MANY_CLAUSES and telling[2].program_row.shape[0] == 0
    for number in range(pending):
        start = places.blob_at[Index(number)]
        while True:
            head = blob[Index(start)]
            entry_count = np.int64(head & ENTRY_MASK)
            found = np.int64(0)
            label = np.int32(SEVERAL)
            is_once = all_once or (head & HEAD_ONCE) != 0
            is_few = is_once and entry_count <= min(FEW_ENTRIES, out_row.shape[0] - count - 4)
            if (head & ~(ENTRY_MASK | HEAD_MORE)) == ONE_UNIFORM:
                label = facts.label_of[Index(blob[Index(start + 1)] >> COLUMN_SHIFT)]
            if label != SEVERAL and is_few:
                count, targets = tell_few(start, entry_count, np.int64(label), blobs, (out_row, count))
            elif (head & HEAD_NOT_SIMPLE) == 0:
                columns = np.int64(head >> FLAG_SHIFT) & FLAG_MASK
                if is_few and entry_count <= 4:
                    shape = entry_count, columns
                    count, targets = tell_flags(start, shape, blob, facts.flag, (out_row, count))
                elif is_few and columns == 1:
                    count, targets = tell_column(start, entry_count, blob, facts.flag, (out_row, count))
                else:
                    found, targets = check_flags(start, blob, facts.flag, survivor)
            else:
                found, targets = check_section(start, blobs, given, kept)
                probe = places.blob_probe[Index(number)]
                if found > 0 and is_closed(start, probe, blob, parts, probes, digits):
                    found = np.int64(0)
            if found > 0:
                if is_once:
                    count = tell_once(found, targets, blob, survivor, (out_row, count))
                else:
                    count = tell_rows(found, targets, blob, survivor, telling, given, stamp, (out_row, count))
            if (head & HEAD_MORE) == 0:
                break
            start = targets + entry_count
    return count


@leaf
def begin_event(
    event: Any, ahead: Any, tables: Any, entries: Any, raised: Any, digits: Any, cursor: Any
) -> None:
    """Write the digits of an event into scratch, and what else the cursor and `Scratch.raised` tell of it.

    Parameters
    ----------
    event : int
    ahead : int
        The event whose digits are there, -1 for none of this batch.
    tables : tuple
        Points, Slices, `part_codes`.
    entries : tuple
        `entry_start`, `entry_attribute` and `entry_label` of EventTables.
    raised, digits, cursor : as in Scratch
    """
    points, slices, part_codes = tables
    clear_digits(ahead, entries, part_codes, digits.digit_of)
    turn = event & 1
    room = turn * (raised.shape[0] >> 1)
    found, is_single = write_digits(event, points, slices, entries, (raised, room), digits)
    for at in range(CURSOR_SIZE):
        cursor[at] = 0
    cursor[Index(CURSOR_RAISED + turn)] = found
    cursor[Index(CURSOR_SINGLE + turn)] = 1 if is_single else 0


@leaf
def write_facts(event: Any, pair: Any, entries: Any, bits: Any, raising: Any, facts: Any) -> None:
    """Write flags of an event, and labels if need be (`pair` is PAIR_HOLDS), or clear them (PAIR_FAILS).

    `raising` are `attribute_point`, FlagLists, `has_labels`, `Scratch.raised`, `cursor` and `flag_pair`.
    """
    attribute_point, flags, has_labels, raised_point, cursor, flag_pair = raising
    turn = event & 1
    first = turn * (raised_point.shape[0] >> 1)
    flag_points((raised_point, first, cursor[Index(CURSOR_RAISED + turn)]), pair, flag_pair)
    set_flags(event, entries, bits, attribute_point, flags, flag_pair, pair)
    if has_labels:
        span = entries[0][event], entries[0][event + 1]
        if pair == PAIR_HOLDS:
            write_labels(span, entries[1], entries[2], facts)
        else:
            clear_labels(span, entries[1], facts.label_of)


@leaf
def once_from_of(is_single: Any, many_max: Any) -> Any:
    """Return from which `row_many` on a row is told once; above all if no row needs it."""
    once_from = MANY_CLAUSES if is_single != 0 else MANY_KEYS
    return np.int64(once_from if many_max >= once_from else MANY_CLAUSES + 1)


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
    entries = events.entry_start, events.entry_attribute, events.entry_label
    points, areas, mine = tables.points, tables.areas, tables.partition_mine
    digits, facts, cursor = scratch.digits, scratch.facts, scratch.cursor
    probes, places, raised = scratch.probes, scratch.places, scratch.raised
    keyed = tables.parts, areas, tables.attribute_table, tables.table_attribute, points.attribute_point
    known = points, tables.slices, tables.part_codes
    slotted = tables.slots, points, tables.blobs.word
    bits = events.bit_start, events.bit
    raising = points.attribute_point, tables.flags, tables.has_labels, raised, cursor, scratch.flag_pair
    stamped = tables.row_many, scratch.row_stamp, tables.programs, scratch.program_stamp, scratch.stack
    count = np.int64(out_start[first_event])
    event, ahead, stop = np.int64(first_event), np.int64(-1), np.int64(events.entry_start.shape[0] - 1)
    probe_counts = np.int64(0), np.int64(0)
    is_asked: Any = False
    tables_done, is_new = False, True
    while event < stop:
        is_checked, done, pending = is_asked, True, np.int64(0)
        if is_asked:
            pending, done = resolve_probes(probe_counts, areas, slotted[2], probes, places, ask), tables_done
            if done and slotted[0].cluster_start.shape[0] != 0:
                how = ask, all_mine
                pending, done = collect_slots(event, pending, slotted, events, cursor, places, mine, how)
        # Keys of the next event are computed before this one is checked, unless its digits are needed still.
        target = event + 1 if is_checked and done else event
        is_asked = target < stop and (not is_checked or (done and tables.is_exact))
        if is_asked:
            if ahead < target:
                begin_event(target, ahead, known, entries, raised, digits, cursor)
                ahead, tables_done = target, False
            probing = digits, probes, scratch.key, cursor, tables_done
            probe_counts, tables_done = collect_probes(target, entries, keyed, probing, mine, (ask, all_mine))
        if is_checked:
            if is_new:
                write_facts(event, np.uint16(PAIR_HOLDS), entries, bits, raising, facts)
            is_new = done
            telling = *stamped, once_from_of(cursor[CURSOR_SINGLE + (event & 1)], tables.many_max)
            out = out_row, count, stamp_base + event
            given, closing = (tables.tests, facts, entries[2]), (tables.parts, digits, probes)
            count = check_places(pending, tables.blobs, telling, given, closing, places, scratch.kept, out)
            if done:
                write_facts(event, np.uint16(PAIR_FAILS), entries, bits, raising, facts)
                if count > out_row.shape[0]:
                    return OVERFLOW, event
                event += 1
                out_start[event] = count
    return OK, event
