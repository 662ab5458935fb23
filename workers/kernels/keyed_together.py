"""Matching the keyed half of the delta, many events at once: those that have a key together.

Where a batch has more events than there are keys, the events of each key are brought together, `LANES` at a
time, and each entry of the key's list is compared with all of them at once: their codes lie side by side,
attribute by attribute. So an entry is loaded and taken apart once for all of them.

The events have the same attributes and one value of each, as those of dense columns do: then an event is a
row of labels, and nothing has to be looked for in it. No subscription has several clauses, so that an event
meets each once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf, routine
from pubsub_cluster.workers.kernels.keyed import check_clause
from pubsub_cluster.workers.kernels.keyed_tables import (
    CODE_BITS,
    COUNT_BITS,
    COUNT_MASK,
    ENTRY_WIDTH,
    HUNG_PAIRS,
    HUNG_SINGLE,
    KEY_WIDTH,
    ONE_LABEL,
    find_key,
    key_of,
)
from pubsub_cluster.workers.kernels.lanes import LANES, lanes_inside
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.kernels.tables import Index

LINE_LABELS = 16
"""Labels in one cache line."""
AHEAD_EVENTS = 8
"""How many events lie between those that are compared and those whose labels are asked for."""


class TogetherRoom(NamedTuple):
    """Memory to work in, for n events and the places of `KeyedTables.key`."""

    column_of: Any  # int32[A]: by attribute, -1 for none and between batches
    place_of: Any  # int32[n]: by event, the place of its key, -1 if that has no list
    order: Any  # int32[n]: events by the places of their keys
    end: Any  # int32[places + 1]: by place, the end of its events in `order`
    row_of: Any  # int64[LANES]: by lane, the first label of its event
    code: Any  # uint8[LANES * A]: by attribute, the codes of all lanes; 0 between batches


class SameEvents(NamedTuple):
    """Events with one value of each of the same attributes."""

    event_count: Any  # int
    columns: Any  # int32[C]: attributes, ascending
    entry_label: Any  # int32[n * C]: event by event


@leaf
def sort_events(kind: Any, access: Any, tables: Any, events: Any, room: Any) -> Any:
    """Bring the events into the order of the places of their keys.

    Parameters
    ----------
    kind : tuple of (int, int)
        The attributes of the keys; the second one is -1 for those of one label.
    access, tables, events, room : KeyedAccess, KeyedTables, SameEvents, TogetherRoom

    Returns
    -------
    int
        How many have a list.
    """
    width, label = np.int64(events.columns.shape[0]), events.entry_label
    first, second = np.int64(room.column_of[kind[0]]), np.int64(-1)
    first_slot, second_slot = access.label_start[kind[0]], np.int64(ONE_LABEL)
    if kind[1] >= 0:
        second, second_slot = np.int64(room.column_of[kind[1]]), access.label_start[kind[1]]
    places = tables.key.shape[0] // KEY_WIDTH
    for place in range(places + 1):
        room.end[Index(place)] = 0
    for event in range(events.event_count):
        row = event * width
        other = second_slot
        if second >= 0:
            other += label[Index(row + second)]
        key = find_key(key_of(first_slot + label[Index(row + first)], other), tables.key)
        room.place_of[Index(event)] = -1
        if tables.key[Index(key + 1)] >= 0:
            room.place_of[Index(event)] = key // KEY_WIDTH
            room.end[Index(key // KEY_WIDTH + 1)] += 1  # where those of the next place begin
    for place in range(places):
        room.end[Index(place + 1)] += room.end[Index(place)]
    for event in range(events.event_count):
        mine = np.int64(room.place_of[Index(event)])
        if mine >= 0:
            room.order[Index(room.end[Index(mine)])] = event
            room.end[Index(mine)] += 1
    return np.int64(room.end[Index(places)])


@leaf
def fill_lanes(first: Any, stop: Any, events: Any, code_shift: Any, room: Any) -> None:
    """Put the codes of the events ``order[first:stop]`` into the lanes."""
    width = np.int64(events.columns.shape[0])
    for lane in range(stop - first):
        room.row_of[Index(lane)] = width * room.order[Index(first + lane)]
    for column in range(width):
        attribute = np.int64(events.columns[Index(column)])
        shift, to = code_shift[Index(attribute)], LANES * attribute
        for lane in range(stop - first):
            label = events.entry_label[Index(room.row_of[Index(lane)] + column)]
            room.code[Index(to + lane)] = label >> shift


@leaf
def ask_rows(first: Any, stop: Any, events: Any, order: Any) -> None:
    """Ask for the labels of the events ``order[first:stop]``."""
    width = np.int64(events.columns.shape[0])
    for number in range(first, stop):
        row = width * order[Index(number)]
        for at in range(row, row + width, LINE_LABELS):
            prefetch(events.entry_label, at)


@leaf
def pass_lanes(entry: Any, intervals: Any, code: Any) -> Any:
    """Return the lanes whose codes are in both intervals of an entry, a bit for each."""
    one = np.int64(intervals[Index(ENTRY_WIDTH * entry)])
    two = np.int64(intervals[Index(ENTRY_WIDTH * entry + 1)])
    passed = lanes_inside(code, LANES * (one >> (2 * CODE_BITS)), one >> CODE_BITS, one)
    return passed & lanes_inside(code, LANES * (two >> (2 * CODE_BITS)), two >> CODE_BITS, two)


@routine
def write_labels(row: Any, base: Any, events: Any, label_of: Any) -> None:
    """Write the labels of the event at `row` from ``label_of[base]`` on."""
    for column in range(events.columns.shape[0]):
        label_of[base + events.columns[column]] = events.entry_label[row + column]


@leaf
def check_lanes(mine: Any, group: Any, tables: Any, facts: Any, given: Any, out: Any) -> Any:
    """Tell the rows of a list whose clauses hold for the events in the lanes.

    Parameters
    ----------
    mine : tuple of (int, int)
        First entry, entries.
    group : tuple of (int, int)
        First event in `order`, and the one to stop before.
    tables, facts : KeyedTables, KeyedFacts
        `label_of` is by lane and attribute.
    given : tuple
        SameEvents, TogetherRoom, row to stop before, version, `removed_version`.
    out : tuple
        As for `keyed.check_list`.
    """
    first, stop = group
    events, room, row_stop, version, removed_version = given
    out_event, out_row, count = out
    attribute_count = np.int64(room.column_of.shape[0])
    taken = (np.int64(1) << (stop - first)) - 1
    written = np.int64(0)
    for entry in range(mine[0], mine[0] + mine[1]):
        passed = pass_lanes(entry, tables.entry, room.code) & taken
        lane = np.int64(0)
        while passed != 0:
            if passed & 1:
                base = lane * attribute_count
                if (written >> lane) & 1 == 0:
                    written |= np.int64(1) << lane
                    write_labels(room.row_of[Index(lane)], base, events, facts.label_of)
                event = np.int64(room.order[Index(first + lane)])
                moment = event, row_stop, version, np.int64(0), removed_version
                event_given = base, facts, events.entry_label
                count = check_clause(entry, tables, event_given, moment, (out_event, out_row, count))
            passed >>= 1
            lane += 1
    return count


@leaf
def clear_lanes(columns: Any, label_of: Any, room: Any) -> None:
    """Leave the memory as it was, at a cost that follows the columns, not all attributes."""
    attribute_count = np.int64(room.column_of.shape[0])
    for column in range(columns.shape[0]):
        attribute = np.int64(columns[column])
        room.column_of[attribute] = -1
        for lane in range(LANES):
            room.code[LANES * attribute + lane] = 0
            label_of[lane * attribute_count + attribute] = 0


@routine
def match_kind(kind: Any, access: Any, tables: Any, facts: Any, given: Any, out: Any) -> Any:
    """Match the events by their keys of one kind; as `sort_events` and `check_lanes`."""
    events, room, _, _, _ = given
    out_event, out_row, count = out
    sorted_count = sort_events(kind, access, tables, events, room)
    first = np.int64(0)
    for place in range(tables.key.shape[0] // KEY_WIDTH):
        end = np.int64(room.end[Index(place)])
        if first == end:
            continue
        found = tables.key[Index(KEY_WIDTH * place + 1)]
        mine = found >> COUNT_BITS, found & COUNT_MASK
        while first < end:
            stop = min(first + LANES, end)
            later = stop + AHEAD_EVENTS
            ask_rows(min(later, sorted_count), min(later + stop - first, sorted_count), events, room.order)
            fill_lanes(first, stop, events, access.code_shift, room)
            count = check_lanes(mine, (first, stop), tables, facts, given, (out_event, out_row, count))
            first = stop
    return count


@kernel
def match_together(
    tables: Any,
    access: Any,
    hung_attribute: Any,
    facts: Any,
    room: Any,
    events: Any,
    bounds: Any,
    removed_version: Any,
    out: Any,
) -> Any:
    """Match events against the clauses of rows that have one each.

    ===============  ======================================================================  ======
    tables           KeyedTables                                                             in
    access           KeyedAccess                                                             in
    hung_attribute   int32[]: attributes that keys hang off                                  in
    facts            KeyedFacts with `label_of` int32[LANES * A], 0 between batches          in/out
    room             TogetherRoom                                                            in/out
    events           SameEvents                                                              in
    bounds           (row to stop before, version): rows removed at this version or before   in
                     are not told
    removed_version  int64[]                                                                 in
    out              (event int32[], row int32[])                                            out
    ===============  ======================================================================  ======

    Returns
    -------
    tuple of (status, event, count)
        OK, or OVERFLOW and the event 0, to begin anew with more room; and how many pairs there are.
    """
    for column in range(events.columns.shape[0]):
        room.column_of[events.columns[column]] = column
    given = events, room, np.int64(bounds[0]), np.int64(bounds[1]), removed_version
    out_event, out_row = out
    count = np.int64(0)
    for number in range(hung_attribute.shape[0]):
        own = np.int64(hung_attribute[number])
        if room.column_of[own] < 0:
            continue
        single, pairs = access.hung[own] & HUNG_SINGLE, access.hung[own] & HUNG_PAIRS
        begin = np.int64(access.pair_start[own])
        stop = np.int64(access.pair_start[own + 1]) if pairs else begin
        for pair in range(begin - 1 if single else begin, stop):
            second = np.int64(access.pair_second[pair]) if pair >= begin else np.int64(-1)
            if second < 0 or room.column_of[second] >= 0:
                kind = own, second
                count = match_kind(kind, access, tables, facts, given, (out_event, out_row, count))
    clear_lanes(events.columns, facts.label_of, room)
    if count > out_event.shape[0]:
        return OVERFLOW, np.int64(0), count
    return OK, np.int64(events.event_count), count
