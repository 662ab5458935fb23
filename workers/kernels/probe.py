"""Probes: from an event's labels to the places of the blob that may hold its matches.

First `write_digits` has written what keys are made of into scratch. Then the tables that hang off its
attributes are probed (`collect_probes`): keys are computed and their places asked for, then read
(`resolve_probes`), and the blob is asked for. Clusters of slots join there (`collect_slots`). Each of these
stops when the pending lists are full and goes on from `Scratch.cursor`, so that a few kilobytes of scratch do
for any event.

Several values, and the two cells of one value, are *options*; a table is probed with every combination of
its parts' options, or, where those outnumber its keys, its keys are gone through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm import blob
from pubsub_cluster.shm.blob import LINE_WORDS, TABLE_DIRECT, TABLE_SAME_PREFIX
from pubsub_cluster.workers.kernels._jit import leaf
from pubsub_cluster.workers.kernels.keys import combination_count, expand_keys, list_keys
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.kernels.scatter import point_of
from pubsub_cluster.workers.kernels.tables import (
    CURSOR_CLUSTER,
    CURSOR_COMBINATION,
    CURSOR_ENTRY,
    CURSOR_STEP,
    CURSOR_TABLE,
    NO_DIGIT,
    PENDING_MAX,
    SEVERAL_DIGITS,
    Index,
)

mix_key = leaf(blob.mix_key)
partition_of = leaf(blob.partition_of)


@leaf
def prefix_of(table: Any, parts: Any, digit_of: Any) -> Any:
    """Return the sum over all parts but the last, and `NO_DIGIT`, `SEVERAL_DIGITS` or 0 for one of each."""
    key = np.int64(0)
    state = np.int32(0)
    for part in range(parts.table_part[Index(table)], parts.table_part[Index(table + 1)] - 1):
        digit = digit_of[Index(parts.part_code[Index(part)])]
        if digit == NO_DIGIT:
            return np.int64(0), np.int32(NO_DIGIT)
        if digit == SEVERAL_DIGITS:
            state = np.int32(SEVERAL_DIGITS)
        key += digit * parts.part_multiplier[Index(part)]
    return key, state


@leaf
def mine_of(table: Any, mixed: Any, mine: Any) -> Any:
    """Return 1 where a key is of this shard, else 0: to count with.

    A branch on it would be foretold wrongly half of the time, which takes longer than the probe.
    """
    return np.int64(mine[Index(partition_of(table, mixed, mine.shape[0]))])


@leaf
def add_probe(probe: Any, counts: Any, areas: Any, mine: Any, probes: Any, how: Any) -> Any:
    """Add one probe to the pending ones unless it is of another shard.

    Parameters
    ----------
    probe : tuple of int
        Table, its mode, key, combination.
    counts : tuple of int
        Pending direct and hash probes; the new ones are returned.
    areas, mine, probes : Areas, MatchTables.partition_mine, Probes
    how : tuple of bool
        Whether memory is asked for ahead, whether all partitions are this shard's.
    """
    table, mode, key, combination = probe
    direct_count, hash_count = counts
    ask, all_mine = how
    if (mode & TABLE_DIRECT) != 0:
        at = areas.table_area[Index(table)] + key
        probes.direct_at[Index(direct_count)] = at
        if all_mine:
            if ask:
                prefetch(areas.table_direct, at)
            return direct_count + 1, hash_count
        one = mine_of(table, mix_key(key), mine)
        if ask:
            prefetch(areas.table_direct, at * one)
        return direct_count + one, hash_count
    at = areas.table_area[Index(table)] + (mix_key(key) & (areas.table_size[Index(table)] - 1))
    probes.hash_key[Index(hash_count)] = key
    probes.hash_at[Index(hash_count)] = at
    probes.hash_table[Index(hash_count)] = table
    probes.hash_combination[Index(hash_count)] = combination
    one = np.int64(1) if all_mine else mine_of(table, mix_key(key), mine)
    if ask:
        prefetch(areas.table_hash, 2 * at * one)
    return direct_count, hash_count + one


@leaf
def add_direct(table: Any, found: Any, count: Any, areas: Any, key: Any, probes: Any, ask: Any) -> Any:
    """Add the first keys of `key` to the `count` pending direct probes, whatever shard they are of."""
    area = areas.table_area[Index(table)]
    for number in range(found):
        at = area + key[Index(number)]
        probes.direct_at[Index(count + number)] = at
        if ask:
            prefetch(areas.table_direct, at)
    return count + found


@leaf
def is_missing(attribute: Any, digit_of: Any) -> Any:
    """Say whether an event has no digit of an attribute that tables hang off."""
    code = 2 * attribute
    return (digit_of[Index(code)] & digit_of[Index(code + 1)]) == NO_DIGIT


@leaf
def collect_combinations(
    table_mode: Any, counts: Any, done: Any, keyed: Any, probing: Any, mine: Any, how: Any
) -> Any:
    """Add the probes of a table of whose parts an event has several digits; as `collect_probes`.

    Parameters
    ----------
    table_mode, counts : tuple
        The table and its mode; pending direct and hash probes.
    done : int
        Combinations of the table that have been added before.

    Returns
    -------
    tuple of ((int, int), int, bool)
        Pending probes; combinations added so far, 0 when that is all; whether there was room.
    """
    table, mode = table_mode
    direct_count, hash_count = counts
    parts, areas, _, _, attribute_point = keyed
    digits, probes, scratch_key, _, _ = probing
    room = PENDING_MAX - direct_count - hash_count
    total = combination_count(table, parts, digits)
    if total > room and (total <= PENDING_MAX or room == 0):
        return (direct_count, hash_count), done, False
    first = np.int64(0)
    found = total
    if total <= PENDING_MAX:
        expand_keys(table, parts, digits, scratch_key)
    else:
        span = total, done, room
        found, first, done = list_keys(table, span, parts, areas, attribute_point, digits, scratch_key)
    if how[1] and (mode & TABLE_DIRECT) != 0:
        direct_count = add_direct(table, found, direct_count, areas, scratch_key, probes, how[0])
        found = np.int64(0)
    for at in range(found):
        combination = first + at if first >= 0 else first
        direct_count, hash_count = add_probe(
            (table, mode, scratch_key[Index(at)], combination),
            (direct_count, hash_count),
            areas,
            mine,
            probes,
            how,
        )
    return (direct_count, hash_count), done, True


@leaf
def collect_probes(event: Any, entries: Any, keyed: Any, probing: Any, mine: Any, how: Any) -> Any:
    """Add probes of an event from `cursor` on until there are no more or no more room.

    Parameters
    ----------
    event : int
    entries : tuple
        `entry_start`, `entry_attribute` and `entry_label` of EventTables.
    keyed : tuple
        Parts, Areas, `attribute_table`, `table_attribute`, `attribute_point`.
    probing : tuple
        Digits, Probes, `key`, `cursor`, and whether all have been added before.
    mine, how
        As in `add_probe`.

    Returns
    -------
    tuple of ((int, int), bool)
        Pending direct and hash probes, and whether all have been added.
    """
    parts, areas, attribute_table, table_attribute, _ = keyed
    digits, probes, _, cursor, is_done = probing
    entry_start, entry_attribute, _ = entries
    start = np.int64(cursor[CURSOR_TABLE])
    done = np.int64(cursor[CURSOR_COMBINATION])
    direct_count = np.int64(0)
    hash_count = np.int64(0)
    # Whichever is shorter: the attributes that tables hang off, or those of the event.
    first_entry = entry_start[event]
    count = np.int64(entry_start[event + 1] - first_entry)
    by_table = table_attribute.shape[0] <= count
    if by_table:
        count = np.int64(table_attribute.shape[0])
    if is_done:
        count = np.int64(0)
    for number in range(cursor[CURSOR_ENTRY], count):
        attribute = (
            table_attribute[Index(number)] if by_table else entry_attribute[Index(first_entry + number)]
        )
        if by_table and is_missing(attribute, digits.digit_of):
            continue
        table = max(start, np.int64(attribute_table[Index(attribute)]))
        stop = np.int64(attribute_table[Index(attribute + 1)])
        prefix = np.int64(0)
        state = np.int32(NO_DIGIT)
        is_known = False
        while table < stop:
            mode = areas.table_mode[Index(table)]
            if not is_known or (mode & TABLE_SAME_PREFIX) == 0:
                prefix, state = prefix_of(table, parts, digits.digit_of)
                is_known = True
            part = Index(parts.table_part[Index(table + 1)] - 1)
            digit = digits.digit_of[Index(parts.part_code[part])]
            room = PENDING_MAX - direct_count - hash_count
            if (state | digit) >= 0 and room > 0:
                key = prefix + digit * parts.part_multiplier[part] - parts.table_offset[Index(table)]
                direct_count, hash_count = add_probe(
                    (table, mode, key, np.int64(0)), (direct_count, hash_count), areas, mine, probes, how
                )
                table += 1
                continue
            if state == NO_DIGIT or digit == NO_DIGIT:
                table += 1
                continue
            counts, done, has_room = collect_combinations(
                (table, mode), (direct_count, hash_count), done, keyed, probing, mine, how
            )
            direct_count, hash_count = counts
            if not has_room:
                cursor[CURSOR_ENTRY] = number
                cursor[CURSOR_TABLE] = table
                cursor[CURSOR_COMBINATION] = done
                return counts, False
            table += 1 if done == 0 else 0
        # Other entries of the attribute find all its tables done.
        start = max(start, stop)
    return (direct_count, hash_count), True


@leaf
def add_blob(position: Any, probe: Any, count: Any, blob_words: Any, places: Any, ask: Any) -> Any:
    """Add a place of the blob to the pending ones; `ask`: for its first line, and for the second one."""
    places.blob_at[Index(count)] = position
    places.blob_probe[Index(count)] = probe
    if ask[0]:
        prefetch(blob_words, position)
        if ask[1]:
            prefetch(blob_words, position + LINE_WORDS)
    return count + 1


@leaf
def resolve_probes(counts: Any, areas: Any, blob_words: Any, probes: Any, places: Any, ask: Any) -> Any:
    """Read the places of pending probes, (direct, hash) of them; return how many lead into the blob."""
    direct_count, hash_count = counts
    count = np.int64(0)
    for probe in range(direct_count):
        position = np.int64(areas.table_direct[Index(probes.direct_at[Index(probe)])])
        if position >= 0:
            count = add_blob(position, np.int64(-1), count, blob_words, places, ask)
    for probe in range(hash_count):
        key = probes.hash_key[Index(probe)]
        at = 2 * probes.hash_at[Index(probe)]
        position = areas.table_hash[Index(at + 1)]
        while position >= 0:
            if areas.table_hash[Index(at)] == key:
                count = add_blob(position, np.int64(probe), count, blob_words, places, ask)
                break
            at += 2
            position = areas.table_hash[Index(at + 1)]
    return count


@leaf
def step_count(event: Any, slots: Any, attribute_count: Any, events: Any) -> Any:
    """Return how many steps `slot_of_step` has: one per entry and bit, one for always, and one per entry.

    The last ones are left out where all clusters of "present" slots are empty.
    """
    entry_count = events.entry_start[event + 1] - events.entry_start[event]
    once = entry_count + events.bit_start[event + 1] - events.bit_start[event] + 1
    always = slots.access_start.shape[0] - 2
    if slots.access_start[always] == slots.access_start[always - attribute_count]:
        return once
    return once + entry_count


@leaf
def slot_of_step(step: Any, event: Any, points: Any, slot_count: Any, events: Any) -> Any:
    """Return the slot of one step of an event, -1 for none: points, bits, always, "present" slots."""
    first = events.entry_start[event]
    entry_count = events.entry_start[event + 1] - first
    if step < entry_count:
        return np.int64(
            point_of(events.entry_attribute[first + step], events.entry_label[first + step], points)
        )
    attribute_count = points.attribute_point.shape[0] - 1
    always = slot_count - 1
    step -= entry_count
    at = events.bit_start[event] + step
    if at < events.bit_start[event + 1]:
        return np.int64(points.attribute_point[attribute_count] + events.bit[at])
    step -= events.bit_start[event + 1] - events.bit_start[event]
    if step == 0:
        return np.int64(always)
    attribute = events.entry_attribute[first + step - 1]
    if step > 1 and events.entry_attribute[first + step - 2] == attribute:
        return np.int64(-1)
    return np.int64(always - attribute_count + attribute)


@leaf
def collect_slots(
    event: Any, count: Any, slotted: Any, events: Any, cursor: Any, places: Any, mine: Any, how: Any
) -> Any:
    """Add clusters of slots from `cursor` on to `count` pending places.

    `slotted` are Slots, Points and the blob. Return (count, all added).
    """
    slots, points, blob_words = slotted
    ask, all_mine = how
    slot_count = slots.access_start.shape[0] - 1
    steps = step_count(event, slots, points.attribute_point.shape[0] - 1, events)
    for step in range(cursor[CURSOR_STEP], steps):
        slot = slot_of_step(np.int64(step), event, points, slot_count, events)
        if slot < 0:
            continue
        for cluster in range(
            max(cursor[CURSOR_CLUSTER], np.int64(slots.access_start[slot])), slots.access_start[slot + 1]
        ):
            if not all_mine and mine[slots.cluster_partition[cluster]] == 0:
                continue
            if count == PENDING_MAX:
                cursor[CURSOR_STEP] = step
                cursor[CURSOR_CLUSTER] = cluster
                return count, False
            count = add_blob(slots.cluster_start[cluster], np.int64(-1), count, blob_words, places, ask)
        cursor[CURSOR_CLUSTER] = 0
    cursor[CURSOR_STEP] = steps
    return count, True
