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
    COLUMN_SHIFT,
    ENTRY_MASK,
    FLAG_MASK,
    FLAG_SHIFT,
    HEAD_LABELS,
    HEAD_LONG,
    HEAD_MORE,
    HEAD_NOT_SIMPLE,
    HEAD_ONCE,
    LINE_WORDS,
    MANY_CLAUSES,
    MANY_KEYS,
    UNIFORM_SHIFT,
)
from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf
from pubsub_cluster.workers.kernels.check import check_flags, check_section, digits_match
from pubsub_cluster.workers.kernels.front import (
    LATE_MAX,
    ask_front,
    clear_fronts,
    front_parts,
    list_late,
    write_fronts,
)
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
from pubsub_cluster.workers.kernels.tell import (
    tell_column,
    tell_columns,
    tell_few,
    tell_flags,
    tell_late,
    tell_once,
    tell_rows,
)
from pubsub_cluster.workers.kernels.tree import collect_leaves

ONE_UNIFORM = HEAD_ONCE | 1 << UNIFORM_SHIFT
"""Head of a section with a uniform column and nothing else, but for its entry count and HEAD_MORE."""

FEW_ENTRIES = 16

AHEAD = 8
"""How many places lie between one that is checked and one that the rest of a front is asked for."""


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
def check_places(
    pending: Any, blobs: Any, telling: Any, given: Any, probing: Any, places: Any, checking: Any, out: Any
) -> Any:
    """Check all pending places of the blob; as `tell_rows`, `out` = (row, count so far, stamp).

    `checking` are Kept, Fronts, and whether memory of fronts is asked for, beyond the first line.
    """
    kept, fronts, ask_fronts = checking
    out_row, count, stamp = out
    parts, digits, probes = probing
    blob, survivor, facts = blobs.word, kept.survivor, given[1]
    all_once = telling[4] > MANY_CLAUSES and telling[2].program_row.shape[0] == 0
    late = np.int64(0)
    for number in range(pending):
        start = places.blob_at[Index(number)]
        if ask_fronts and number + AHEAD < pending:
            ask_front(places.blob_at[Index(number + AHEAD)], blob)
        while True:
            head = blob[Index(start)]
            if head < 0:
                before, shape = late, front_parts(start, head, blob)
                late = list_late(shape, head, blobs, fronts, late)
                if (head & HEAD_LABELS) != 0 and late > before:
                    probe = places.blob_probe[Index(number)]
                    late = before if is_closed(start, probe, blob, parts, probes, digits) else late
                if late > LATE_MAX:
                    count = tell_late(late, blobs, telling, given, (kept, fronts), (out_row, count, stamp))
                    late = np.int64(0)
                if (head & HEAD_MORE) == 0:
                    break
                start = shape[2] + np.int64(head & ENTRY_MASK)
                start += -start & (LINE_WORDS - 1)
                continue
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
                elif is_once and columns > 1 and entry_count <= out_row.shape[0] - count:
                    shape = entry_count, columns
                    count, targets = tell_columns(start, shape, blob, facts.flag, survivor, (out_row, count))
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
    if late > 0:
        count = tell_late(late, blobs, telling, given, (kept, fronts), (out_row, count, stamp))
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

    `raising` are `attribute_point`, FlagLists, `has_labels`, `Scratch.raised`, `cursor`, `flag_pair`, and
    (`has_fronts`, `label_shift`, Fronts).
    """
    attribute_point, flags, has_labels, raised_point, cursor, flag_pair, fronted = raising
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
        has_fronts, label_shift, fronts = fronted
        if has_fronts:
            if pair == PAIR_HOLDS:
                write_fronts(span, entries[1], entries[2], label_shift, fronts)
            else:
                clear_fronts(span, entries[1], fronts)


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
    leading = tables.slots.cluster_start, tables.slots.cluster_partition, tables.blobs.word, mine
    bits = events.bit_start, events.bit
    fronted = tables.has_fronts, tables.label_shift, scratch.fronts
    known_flags = points.attribute_point, tables.flags, tables.has_labels
    raising = *known_flags, raised, cursor, scratch.flag_pair, fronted
    asking = ask, not tables.has_fronts
    checking = scratch.kept, scratch.fronts, ask and tables.has_fronts
    stamped = tables.row_many, scratch.row_stamp, tables.programs, scratch.program_stamp
    count = np.int64(out_start[first_event])
    event, ahead, stop = np.int64(first_event), np.int64(-1), np.int64(events.entry_start.shape[0] - 1)
    probe_counts = np.int64(0), np.int64(0)
    is_asked: Any = False
    # A literal would be a type of its own, for which all that takes it would be compiled once more.
    tables_done: Any = np.bool_(False)
    is_new = True
    while event < stop:
        is_checked, done, pending = is_asked, True, np.int64(0)
        if is_asked:
            pending = resolve_probes(probe_counts, areas, slotted[2], probes, places, asking)
            done = tables_done
            if done and slotted[0].cluster_start.shape[0] != 0:
                how = asking, all_mine
                pending, done = collect_slots(event, pending, slotted, events, cursor, places, mine, how)
                if done and tables.tree.tree_first.shape[0] != 0:
                    pending, done = collect_leaves(
                        event, pending, tables.tree, entries, leading, scratch.walk, cursor, places, how
                    )
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
            count = check_places(pending, tables.blobs, telling, given, closing, places, checking, out)
            if done:
                write_facts(event, np.uint16(PAIR_FAILS), entries, bits, raising, facts)
                if count > out_row.shape[0]:
                    return OVERFLOW, event
                event += 1
                out_start[event] = count
    return OK, event
