"""What matching events takes, counted and not timed: keys probed, clusters met, candidates in them.

The same first stages as `match` runs; nothing is checked but how long sections are. A worker runs this on a
few events now and then, the benchmarks on many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import ENTRY_MASK, HEAD_MORE
from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.check import check_section
from pubsub_cluster.workers.kernels.probe import collect_probes, collect_slots, resolve_probes
from pubsub_cluster.workers.kernels.scatter import clear, scatter
from pubsub_cluster.workers.kernels.tables import CURSOR_ENTRY, CURSOR_SIZE

PROBES, PLACES, CANDIDATES = 0, 1, 2
KINDS = 3


@leaf
def candidates_at(start: Any, blobs: Any, given: Any, kept: Any) -> Any:
    """Return the entries of a place of the blob, over all its sections."""
    total = 0
    while True:
        head = blobs.word[start]
        _, targets = check_section(start, blobs, given, kept)
        total += head & ENTRY_MASK
        if (head & HEAD_MORE) == 0:
            return total
        start = targets + (head & ENTRY_MASK)


@leaf
def table_of_item(item: Any, direct_area: Any, direct_table: Any) -> Any:
    """Return the table that an item of `table_direct` belongs to; areas are ascending."""
    lo = 0
    hi = direct_area.shape[0]
    while hi - lo > 1:
        mid = (lo + hi) >> 1
        if direct_area[mid] <= item:
            lo = mid
        else:
            hi = mid
    return np.int64(direct_table[lo])


@leaf
def add_places(line: Any, first: Any, stop: Any, seen: Any, work: Any) -> None:
    """Add the pending places [first, stop) to line `line` of the counts."""
    places, blobs, given, kept = seen
    for number in range(first, stop):
        work[line, PLACES] += 1
        work[line, CANDIDATES] += candidates_at(places.blob_at[number], blobs, given, kept)


@kernel
def observe_events(
    tables: Any, events: Any, scratch: Any, stop: Any, all_mine: Any, direct: Any, work: Any
) -> None:
    """Add up what the first events of a batch take.

    ===========  ======================================================================  ======
    tables       MatchTables                                                             in
    events       EventTables                                                             in
    scratch      Scratch                                                                 in/out
    stop         int, events to look at                                                  in
    all_mine     bool, whether all partitions are this shard's                           in
    direct       (area int64[d], table int32[d]) of the direct tables, areas ascending   in
    work         int64[T + 1, KINDS]: probes, places, candidates of each table, then     in/out
                 of the slots
    ===========  ======================================================================  ======
    """
    how = False, all_mine
    direct_area, direct_table = direct
    slots = work.shape[0] - 1
    given = tables.tests, scratch.facts, events.entry_label
    seen = scratch.places, tables.blobs, given, scratch.kept
    probes, blob = scratch.probes, tables.blobs.word
    for event in range(stop):
        scatter(event, tables, events, scratch)
        for at in range(CURSOR_SIZE):
            scratch.cursor[at] = 0
        scratch.cursor[CURSOR_ENTRY] = events.entry_start[event]
        tables_done = False
        while not tables_done:
            direct_count, hash_count, tables_done = collect_probes(event, tables, events, scratch, how)
            # One at a time, so that it is known which table a place belongs to.
            for number in range(direct_count):
                line = table_of_item(probes.direct_at[number], direct_area, direct_table)
                work[line, PROBES] += 1
                probes.direct_at[0] = probes.direct_at[number]
                alone = np.int64(1), np.int64(0)
                found = resolve_probes(alone, tables.areas, blob, probes, scratch.places, False)
                add_places(line, np.int64(0), found, seen, work)
            for number in range(hash_count):
                line = np.int64(probes.hash_table[number])
                work[line, PROBES] += 1
                probes.hash_key[0], probes.hash_at[0] = probes.hash_key[number], probes.hash_at[number]
                alone = np.int64(0), np.int64(1)
                found = resolve_probes(alone, tables.areas, blob, probes, scratch.places, False)
                add_places(line, np.int64(0), found, seen, work)
        done = False
        while not done:
            pending, done = collect_slots(event, np.int64(0), tables, events, scratch, how)
            add_places(np.int64(slots), np.int64(0), pending, seen, work)
        clear(event, tables, events, scratch)
