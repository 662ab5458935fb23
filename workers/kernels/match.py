"""Matching against a layout: the hot loop of the project (the papers' second phase).

Per event, over all its tables at once, so that independent accesses to memory wait together: the labels are
scattered, the keys of all tables computed and their places asked for, the places read and the blob asked
for (`probe`), then the sections are checked (`check`). Sections of slots join at the end.

Stamps tell what was done for this event: a row that can be reached more than once is told once, a program
evaluated once.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.shm.blob import (
    ENTRY_MASK,
    FLAG_SHIFT,
    HEAD_MORE,
    HEAD_NOT_SIMPLE,
)
from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf
from pubsub_cluster.workers.kernels.check import check_flags, check_section, program_holds
from pubsub_cluster.workers.kernels.probe import collect_probes, collect_slots, resolve_probes
from pubsub_cluster.workers.kernels.scatter import clear, scatter
from pubsub_cluster.workers.kernels.tables import CURSOR_ENTRY, CURSOR_SIZE

SIMPLE_COLUMNS_MAX = 4


@leaf
def tell_rows(found: Any, targets: Any, tables: Any, events: Any, scratch: Any, stamp: Any, out: Any) -> Any:
    """Append the rows of `found` survivors to `out` = (row int32[], count so far).

    Returns
    -------
    int
        The new count of rows; above the size of the array when they do not fit (those beyond are not
        written).
    """
    out_row, count = out
    for at in range(found):
        row = tables.blob[targets + scratch.survivor[at]]
        if row < 0:
            program = ~row
            if scratch.program_stamp[program] == stamp:
                continue
            scratch.program_stamp[program] = stamp
            if not program_holds(program, tables, events, scratch):
                continue
            row = tables.program_row[program]
        elif tables.row_many[row] != 0:
            if scratch.row_stamp[row] == stamp:
                continue
            scratch.row_stamp[row] = stamp
        if count < out_row.shape[0]:
            out_row[count] = row
        count += 1
    return count


@leaf
def check_blobs(pending: Any, tables: Any, events: Any, scratch: Any, stamp: Any, out: Any) -> Any:
    """Check all pending places of the blob; as `tell_rows`."""
    out_row, count = out
    blob = tables.blob
    for number in range(pending):
        start = scratch.blob_at[number]
        while True:
            head = blob[start]
            if (head & HEAD_NOT_SIMPLE) == 0 and (head >> FLAG_SHIFT) <= SIMPLE_COLUMNS_MAX:
                found, targets = check_flags(start, tables, scratch)
            else:
                found, targets = check_section(start, scratch.blob_probe[number], tables, events, scratch)
            if found > 0:
                count = tell_rows(found, targets, tables, events, scratch, stamp, (out_row, count))
            if (head & HEAD_MORE) == 0:
                break
            start = targets + (head & ENTRY_MASK)
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
    event_count = events.entry_start.shape[0] - 1
    count = out_start[first_event]
    for event in range(first_event, event_count):
        stamp = stamp_base + event
        scatter(event, tables, events, scratch)
        for at in range(CURSOR_SIZE):
            scratch.cursor[at] = 0
        scratch.cursor[CURSOR_ENTRY] = events.entry_start[event]
        tables_done = False
        done = False
        while not done:
            pending = 0
            if not tables_done:
                direct_count, hash_count, tables_done = collect_probes(event, tables, events, scratch, how)
                pending = resolve_probes(direct_count, hash_count, tables, scratch, ask)
            if tables_done:
                pending, done = collect_slots(event, pending, tables, events, scratch, how)
            count = check_blobs(pending, tables, events, scratch, stamp, (out_row, count))
        clear(event, tables, events, scratch)
        if count > out_row.shape[0]:
            return OVERFLOW, event
        out_start[event + 1] = count
    return OK, event_count
