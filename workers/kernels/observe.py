"""What matching events takes, counted and not timed: keys probed, clusters met, candidates in them.

The same first stages as `match` runs; nothing is checked but how long sections are. A worker runs this on a
few events now and then, the benchmarks on many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import (
    ENTRY_MASK,
    FLAG_MASK,
    FLAG_SHIFT,
    HEAD_LABELS,
    HEAD_LONG,
    HEAD_MORE,
    HEAD_NARROW,
    HEAD_RUNS,
    INTERVAL_MASK,
    INTERVAL_SHIFT,
    LINE_WORDS,
    TEST_MASK,
    TEST_SHIFT,
    UNIFORM_MASK,
    UNIFORM_SHIFT,
)
from pubsub_cluster.workers.kernels._jit import kernel, leaf, routine
from pubsub_cluster.workers.kernels.check import interval_words
from pubsub_cluster.workers.kernels.front import front_parts
from pubsub_cluster.workers.kernels.probe import collect_probes, collect_slots, resolve_probes
from pubsub_cluster.workers.kernels.scatter import clear_digits, write_digits
from pubsub_cluster.workers.kernels.tables import CURSOR_OPENED, CURSOR_SIZE
from pubsub_cluster.workers.kernels.tree import collect_leaves
from pubsub_cluster.workers.kernels.uniform import uniform_parts

PROBES, PLACES, CANDIDATES = 0, 1, 2
KINDS = 3


@leaf
def targets_of(start: Any, blob: Any) -> Any:
    """Return the word of the first target of a section (`shm.blob` has the form)."""
    head = blob[start]
    if head < 0:
        return front_parts(start, head, blob)[2]
    entry_count = np.int64(head & ENTRY_MASK)
    flag_columns = np.int64((head >> FLAG_SHIFT) & FLAG_MASK)
    uniform_columns = np.int64((head >> UNIFORM_SHIFT) & UNIFORM_MASK)
    interval_columns = np.int64((head >> INTERVAL_SHIFT) & INTERVAL_MASK)
    test_columns = np.int64((head >> TEST_SHIFT) & TEST_MASK)
    at = np.int64(start) + 1
    if (head & HEAD_LONG) != 0:
        flag_columns, uniform_columns = np.int64(blob[at]), np.int64(blob[at + 1])
        interval_columns, test_columns = np.int64(blob[at + 2]), np.int64(blob[at + 3])
        at += 4
    if (head & HEAD_LABELS) != 0:
        at += 1 + blob[at]
    word_columns = flag_columns + test_columns
    if (head & HEAD_RUNS) != 0:
        at += 1 + 2 * blob[at]
        word_columns -= 1
    for _ in range(uniform_columns):
        at = uniform_parts(at, entry_count, blob)[3]
    words = interval_words(entry_count, (head & HEAD_NARROW) != 0)
    return at + word_columns * entry_count + interval_columns * words


@routine
def candidates_at(start: Any, blob: Any) -> Any:
    """Return the entries of a place of the blob, over all its sections."""
    total = np.int64(0)
    while True:
        head = blob[start]
        total += head & ENTRY_MASK
        if (head & HEAD_MORE) == 0:
            return total
        start = targets_of(start, blob) + (head & ENTRY_MASK)
        if head < 0:
            start += -start & (LINE_WORDS - 1)


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
    places, blob = seen
    for number in range(first, stop):
        work[line, PLACES] += 1
        work[line, CANDIDATES] += candidates_at(places.blob_at[number], blob)


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
    work         int64[T + 2, KINDS]: probes, places, candidates of each table, then     in/out
                 of the slots, then of the tree, whose probes are inner nodes
    ===========  ======================================================================  ======
    """
    never = np.bool_(False)  # a literal would be a type of its own, as in `match_events`
    how, asking = (never, all_mine), (never, never)
    slot_how = asking, all_mine
    direct_area, direct_table = direct
    slots, tree = work.shape[0] - 2, work.shape[0] - 1
    entries = events.entry_start, events.entry_attribute, events.entry_label
    points, areas, blob, mine = tables.points, tables.areas, tables.blobs.word, tables.partition_mine
    digits = scratch.digits
    cursor, probes, places = scratch.cursor, scratch.probes, scratch.places
    keyed = tables.parts, areas, tables.attribute_table, tables.table_attribute, points.attribute_point
    slotted = tables.slots, points, blob
    seen = places, blob
    leading = tables.slots.cluster_start, tables.slots.cluster_partition, blob, mine
    for event in range(stop):
        clear_digits(event - 1, entries, tables.part_codes, digits.digit_of)
        write_digits(event, points, tables.slices, entries, (scratch.raised, np.int64(0)), digits)
        for at in range(CURSOR_SIZE):
            cursor[at] = 0
        tables_done = never
        while not tables_done:
            probing = digits, probes, scratch.key, cursor, tables_done
            (direct_count, hash_count), tables_done = collect_probes(
                event, entries, keyed, probing, mine, how
            )
            # One at a time, so that it is known which table a place belongs to.
            for number in range(direct_count):
                line = table_of_item(probes.direct_at[number], direct_area, direct_table)
                work[line, PROBES] += 1
                probes.direct_at[0] = probes.direct_at[number]
                alone = np.int64(1), np.int64(0)
                found = resolve_probes(alone, areas, blob, probes, places, asking)
                add_places(line, np.int64(0), found, seen, work)
            for number in range(hash_count):
                line = np.int64(probes.hash_table[number])
                work[line, PROBES] += 1
                probes.hash_key[0], probes.hash_at[0] = probes.hash_key[number], probes.hash_at[number]
                alone = np.int64(0), np.int64(1)
                found = resolve_probes(alone, areas, blob, probes, places, asking)
                add_places(line, np.int64(0), found, seen, work)
        done = tables.slots.cluster_start.shape[0] == 0
        while not done:
            pending, done = collect_slots(event, np.int64(0), slotted, events, cursor, places, mine, slot_how)
            add_places(np.int64(slots), np.int64(0), pending, seen, work)
        done = tables.tree.tree_first.shape[0] == 0
        while not done:
            none = np.int64(0)
            pending, done = collect_leaves(
                event, none, tables.tree, entries, leading, scratch.walk, cursor, places, slot_how
            )
            add_places(np.int64(tree), none, pending, seen, work)
        work[tree, PROBES] += cursor[CURSOR_OPENED]
