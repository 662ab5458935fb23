"""The floor: what the memory alone would cost, had the kernel nothing to compute.

Rule 5 of the benchmarks: prefetched, independent reads of random cache lines over as many bytes as the index
has; per event two lines for each probed place of a table (its entry, its blob), one for each cluster of a
slot, and one more per 16 candidates. How many there are is counted by the kernel's own first stages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import ENTRY_MASK, HEAD_MORE
from pubsub_cluster.shm.layout import LayoutView
from pubsub_cluster.workers.encoder import EncodedBatch
from pubsub_cluster.workers.engine import match_scratch, match_tables
from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.check import check_section
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.kernels.probe import collect_probes, collect_slots, resolve_probes
from pubsub_cluster.workers.kernels.scatter import clear, scatter, set_bits
from pubsub_cluster.workers.kernels.tables import (
    CURSOR_ENTRY,
    CURSOR_SIZE,
    PAIR_FAILS,
    PAIR_HOLDS,
    EventTables,
)

LINES_AHEAD = 256  # one event's lines are asked for together, at most so many


@kernel
def count_work(tables: Any, events: Any, scratch: Any, all_mine: Any, out: Any) -> None:
    """Add up over events: probed keys of tables, places of the blob, candidates (entries of sections)."""
    how = True, all_mine
    entries = events.entry_start, events.entry_attribute, events.entry_label
    bits = events.bit_start, events.bit
    points, blob, mine = tables.points, tables.blob, tables.partition_mine
    facts, flag_pair, digits = scratch.facts, scratch.flag_pair, scratch.digits
    cursor, probes, places = scratch.cursor, scratch.probes, scratch.places
    keyed = tables.parts, tables.areas, tables.attribute_table, points.attribute_point
    probing = digits, probes, scratch.key, cursor
    slotted = tables.slots, points, blob
    given = tables.tests, facts, events.entry_label
    for event in range(events.entry_start.shape[0] - 1):
        scatter(event, points, tables.slices, entries, facts, flag_pair, digits)
        set_bits(event, bits, points.attribute_point, flag_pair, PAIR_HOLDS)
        for at in range(CURSOR_SIZE):
            cursor[at] = 0
        cursor[CURSOR_ENTRY] = entries[0][event]
        tables_done = False
        done = False
        while not done:
            pending = np.int64(0)
            if not tables_done:
                direct, hashed, tables_done = collect_probes(
                    entries[0][event + 1], events.entry_attribute, keyed, probing, mine, how
                )
                out[0] += direct + hashed
                pending = resolve_probes((direct, hashed), tables.areas, blob, probes, places, True)
                out[1] += pending
            done = tables_done
            if tables_done and tables.slots.cluster_start.shape[0] != 0:
                before = pending
                pending, done = collect_slots(event, pending, slotted, events, cursor, places, mine, how)
                out[2] += pending - before
            for number in range(pending):
                out[3] += candidates_at(places.blob_at[number], blob, given, scratch.survivor)
        set_bits(event, bits, points.attribute_point, flag_pair, PAIR_FAILS)
        clear(event, events.entry_start, events.entry_attribute, facts.label_of, flag_pair, digits)


@leaf
def candidates_at(start: Any, blob: Any, given: Any, survivor: Any) -> Any:
    """Return the entries of a place of the blob, over all its sections."""
    total = 0
    while True:
        head = blob[start]
        _, targets = check_section(start, blob, given, survivor)
        total += head & ENTRY_MASK
        if (head & HEAD_MORE) == 0:
            return total
        start = targets + (head & ENTRY_MASK)


@kernel
def read_lines(memory: Any, lines: Any, per_event: Any) -> Any:
    """Read `lines` (positions of 8-byte words), `per_event` at a time: asked for together, then read."""
    total = 0
    for first in range(0, lines.shape[0] - per_event + 1, per_event):
        for at in range(first, first + per_event):
            prefetch(memory, lines[at])
        for at in range(first, first + per_event):
            total += memory[lines[at]]
    return total


def work_per_event(layout: LayoutView, batch: EncodedBatch) -> dict[str, float]:
    """Return probed keys, table places, slot clusters and candidates per event."""
    tables = match_tables(layout, np.ones(len(layout.partition_cost), np.uint8))
    entries_max = int(np.diff(batch.entry_start).max(initial=1))
    scratch = match_scratch(layout)
    options = np.zeros(16 * max(entries_max, 64), np.int32)
    scratch = scratch._replace(digits=scratch.digits._replace(option_digit=options))
    out = np.zeros(4, np.int64)
    count_work(tables, EventTables(*batch[1:]), scratch, True, out)
    names = ("probes", "places", "slot_clusters", "candidates")
    return {name: float(value) / batch.event_count for name, value in zip(names, out, strict=True)}


def lines_per_event(work: dict[str, float]) -> float:
    """Return the cache lines of rule 5."""
    return 2 * work["probes"] + work["slot_clusters"] + work["candidates"] / 16


class Floor:
    """A run that reads as much as the kernel must.

    Parameters
    ----------
    index_bytes : int
    lines : float
        Per event.
    event_count : int
        How many events' worth a pass reads.
    """

    def __init__(self, index_bytes: int, lines: float, event_count: int) -> None:
        rng = np.random.Generator(np.random.PCG64(1))
        word_count = max(index_bytes // 8, 64)
        self._memory = np.ones(word_count, np.int64)
        per_event = max(1, min(round(lines), LINES_AHEAD))
        total = max(per_event, round(lines * event_count))
        total -= total % per_event
        line = rng.integers(0, max(word_count // 8, 1), total)
        self._lines = line * 8
        self._per_event = per_event
        self._counts = np.zeros(event_count, np.int64)
        self._expected = total

    def run(self) -> Any:
        """Read everything; the zeros it returns are what `interleaved` expects."""
        assert read_lines(self._memory, self._lines, self._per_event) == self._expected
        return self._counts
