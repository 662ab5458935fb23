"""Probes: from an event's labels to the places of the blob that may hold its matches.

First `scatter` has written what the event is into scratch. Then the tables that hang off its attributes are
probed (`collect_probes`): keys are computed and their places asked for, then read (`resolve_probes`), and the
blob is asked for. Clusters of slots join there (`collect_slots`). Each of these stops when the pending lists
are full and goes on from `Scratch.cursor`, so that a few kilobytes of scratch do for any event.

Several values, and the two cells of one value, are *options*; a table is probed with every combination of
its parts' options, or, where those outnumber its keys, its keys are gone through.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.shm import blob
from pubsub_cluster.shm.blob import TABLE_DIRECT, TABLE_INEXACT, TABLE_SAME_PREFIX
from pubsub_cluster.workers.kernels._jit import leaf
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.kernels.scatter import has_option, option_count_of, option_of, point_of
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

COMBINATIONS_MAX = 1 << 40
LINE_WORDS = 16

mix_key = leaf(blob.mix_key)
partition_of = leaf(blob.partition_of)


@leaf
def combination_count(table: Any, tables: Any, scratch: Any) -> Any:
    """Return how many keys of a table an event has, at most `COMBINATIONS_MAX`."""
    total = 1
    for part in range(tables.table_part[table], tables.table_part[table + 1]):
        total = min(total * option_count_of(tables.part_code[part], scratch), COMBINATIONS_MAX)
    return total


@leaf
def expand_keys(table: Any, tables: Any, scratch: Any) -> None:
    """Write the keys of all combinations into `key`; the options of the first part change fastest."""
    key = scratch.key
    key[0] = -tables.table_offset[table]
    count = 1
    for part in range(tables.table_part[table], tables.table_part[table + 1]):
        code = tables.part_code[part]
        multiplier = tables.part_multiplier[part]
        options = option_count_of(code, scratch)
        for option in range(options - 1, -1, -1):
            step = option_of(code, option, scratch) * multiplier
            for at in range(count):
                key[option * count + at] = key[at] + step
        count *= options


@leaf
def key_of_combination(table: Any, combination: Any, tables: Any, scratch: Any) -> Any:
    """Return the key of one combination, numbered as in `expand_keys`."""
    key = -tables.table_offset[table]
    rest = combination
    for part in range(tables.table_part[table], tables.table_part[table + 1]):
        code = tables.part_code[part]
        options = option_count_of(code, scratch)
        key += option_of(code, rest % options, scratch) * tables.part_multiplier[part]
        rest //= options
    return key


@leaf
def key_is_open(table: Any, key: Any, tables: Any, scratch: Any) -> Any:
    """Say whether an exact key is one of the event's combinations."""
    rest = key
    for part in range(tables.table_part[table + 1] - 1, tables.table_part[table] - 1, -1):
        multiplier = tables.part_multiplier[part]
        code = tables.part_code[part]
        first = 0 if code & 1 else tables.attribute_point[code >> 1]
        if not has_option(code, first + rest // multiplier, scratch):
            return False
        rest %= multiplier
    return True


@leaf
def add_probe(probe: Any, counts: Any, tables: Any, scratch: Any, how: Any) -> Any:
    """Add one probe to the pending ones unless it is of another shard.

    Parameters
    ----------
    probe : tuple of int
        Table, its mode, key, combination.
    counts : tuple of int
        Pending direct and hash probes; the new ones are returned.
    """
    table, mode, key, combination = probe
    direct_count, hash_count = counts
    ask, all_mine = how
    if not all_mine:
        partition = partition_of(table, mix_key(key), tables.partition_mine.shape[0])
        if tables.partition_mine[partition] == 0:
            return direct_count, hash_count
    if (mode & TABLE_DIRECT) != 0:
        at = tables.table_area[Index(table)] + key
        scratch.direct_at[Index(direct_count)] = at
        if ask:
            prefetch(tables.table_direct, at)
        return direct_count + 1, hash_count
    at = tables.table_area[Index(table)] + (mix_key(key) & (tables.table_size[Index(table)] - 1))
    scratch.hash_key[Index(hash_count)] = key
    scratch.hash_at[Index(hash_count)] = at
    scratch.hash_table[Index(hash_count)] = table
    scratch.hash_combination[Index(hash_count)] = combination
    if ask:
        prefetch(tables.table_hash, 2 * at)
    return direct_count, hash_count + 1


@leaf
def add_place(table: Any, place: Any, counts: Any, tables: Any, scratch: Any, how: Any) -> Any:
    """Add the probe of whatever key lies at one place of a table, if it is one of the event's."""
    direct_count, hash_count = counts
    mode = tables.table_mode[table]
    key = place
    if (mode & TABLE_DIRECT) == 0:
        at = 2 * (tables.table_area[table] + place)
        key = tables.table_hash[at]
        if tables.table_hash[at + 1] < 0:
            return direct_count, hash_count
    if (mode & TABLE_INEXACT) == 0 and not key_is_open(table, key, tables, scratch):
        return direct_count, hash_count
    return add_probe((table, mode, key, -1), (direct_count, hash_count), tables, scratch, how)


@leaf
def prefix_of(table: Any, tables: Any, scratch: Any) -> Any:
    """Return the sum over all parts but the last, and `NO_DIGIT`, `SEVERAL_DIGITS` or 0 for one of each."""
    key = 0
    state = 0
    for part in range(tables.table_part[Index(table)], tables.table_part[Index(table + 1)] - 1):
        digit = scratch.digit_of[Index(tables.part_code[Index(part)])]
        if digit == NO_DIGIT:
            return 0, NO_DIGIT
        if digit == SEVERAL_DIGITS:
            state = SEVERAL_DIGITS
        key += digit * tables.part_multiplier[Index(part)]
    return key, state


@leaf
def add_piece(table: Any, total: Any, done: Any, counts: Any, tables: Any, scratch: Any, how: Any) -> Any:
    """Add what there is room for of a table with more combinations than pending probes, from `done` on.

    Returns
    -------
    tuple of (int, int, int)
        The counts, and where to go on; 0 when all have been added.
    """
    by_place = total > tables.table_places[table]
    stop = tables.table_places[table] if by_place else total
    last = min(done + PENDING_MAX - counts[0] - counts[1], stop)
    for at in range(done, last):
        if by_place:
            counts = add_place(table, at, counts, tables, scratch, how)
        else:
            key = key_of_combination(table, at, tables, scratch)
            counts = add_probe((table, tables.table_mode[table], key, at), counts, tables, scratch, how)
    return counts[0], counts[1], 0 if last == stop else last


@leaf
def collect_probes(event: Any, tables: Any, events: Any, scratch: Any, how: Any) -> Any:
    """Add probes from `cursor` on until there are no more or no more room.

    Returns
    -------
    tuple of (int, int, bool)
        Pending direct and hash probes, and whether all have been added.
    """
    cursor = scratch.cursor
    start = cursor[CURSOR_TABLE]
    done = cursor[CURSOR_COMBINATION]
    direct_count = 0
    hash_count = 0
    for entry in range(cursor[CURSOR_ENTRY], events.entry_start[event + 1]):
        attribute = events.entry_attribute[Index(entry)]
        table = max(start, tables.attribute_table[Index(attribute)])
        stop = tables.attribute_table[Index(attribute + 1)]
        prefix = 0
        state = NO_DIGIT
        is_known = False
        while table < stop:
            mode = tables.table_mode[Index(table)]
            if not is_known or (mode & TABLE_SAME_PREFIX) == 0:
                prefix, state = prefix_of(table, tables, scratch)
                is_known = True
            part = Index(tables.table_part[Index(table + 1)] - 1)
            digit = scratch.digit_of[Index(tables.part_code[part])]
            room = PENDING_MAX - direct_count - hash_count
            counts = direct_count, hash_count
            if (state | digit) >= 0 and room > 0:
                key = prefix + digit * tables.part_multiplier[part] - tables.table_offset[Index(table)]
                direct_count, hash_count = add_probe((table, mode, key, 0), counts, tables, scratch, how)
                table += 1
                continue
            if state == NO_DIGIT or digit == NO_DIGIT:
                table += 1
                continue
            total = combination_count(table, tables, scratch)
            if total > room and (total <= PENDING_MAX or room == 0):
                cursor[CURSOR_ENTRY] = entry
                cursor[CURSOR_TABLE] = table
                cursor[CURSOR_COMBINATION] = done
                return direct_count, hash_count, False
            if total <= PENDING_MAX:
                expand_keys(table, tables, scratch)
                for at in range(total):
                    key = scratch.key[Index(at)]
                    counts = add_probe((table, mode, key, at), counts, tables, scratch, how)
                direct_count, hash_count = counts
            else:
                direct_count, hash_count, done = add_piece(table, total, done, counts, tables, scratch, how)
            table += 1 if done == 0 else 0
        # Other entries of the attribute find all its tables done.
        start = max(start, stop)
    return direct_count, hash_count, True


@leaf
def add_blob(position: Any, probe: Any, count: Any, tables: Any, scratch: Any, ask: Any) -> Any:
    """Add a place of the blob to the pending ones."""
    scratch.blob_at[Index(count)] = position
    scratch.blob_probe[Index(count)] = probe
    if ask:
        prefetch(tables.blob, position)
        prefetch(tables.blob, position + LINE_WORDS)
    return count + 1


@leaf
def resolve_probes(direct_count: Any, hash_count: Any, tables: Any, scratch: Any, ask: Any) -> Any:
    """Read the places of pending probes; return how many lead into the blob."""
    count = 0
    for probe in range(direct_count):
        position = tables.table_direct[Index(scratch.direct_at[Index(probe)])]
        if position >= 0:
            count = add_blob(position, -1, count, tables, scratch, ask)
    for probe in range(hash_count):
        key = scratch.hash_key[Index(probe)]
        at = 2 * scratch.hash_at[Index(probe)]
        while tables.table_hash[Index(at + 1)] >= 0:
            if tables.table_hash[Index(at)] == key:
                count = add_blob(tables.table_hash[Index(at + 1)], probe, count, tables, scratch, ask)
                break
            at += 2
    return count


@leaf
def step_count(event: Any, events: Any) -> Any:
    """Return how many steps `slot_of_step` has: two per entry, one per bit, one for always."""
    entry_count = events.entry_start[event + 1] - events.entry_start[event]
    return 2 * entry_count + events.bit_start[event + 1] - events.bit_start[event] + 1


@leaf
def slot_of_step(step: Any, event: Any, tables: Any, events: Any) -> Any:
    """Return the slot of one step of an event, -1 for none: points, "present" slots, bits, always."""
    first = events.entry_start[event]
    entry_count = events.entry_start[event + 1] - first
    if step < entry_count:
        return point_of(events.entry_attribute[first + step], events.entry_label[first + step], tables)
    attribute_count = tables.attribute_point.shape[0] - 1
    always = tables.access_start.shape[0] - 2
    step -= entry_count
    if step < entry_count:
        attribute = events.entry_attribute[first + step]
        if step > 0 and events.entry_attribute[first + step - 1] == attribute:
            return -1
        return always - attribute_count + attribute
    at = events.bit_start[event] + step - entry_count
    if at < events.bit_start[event + 1]:
        return tables.attribute_point[attribute_count] + events.bit[at]
    return always


@leaf
def collect_slots(event: Any, count: Any, tables: Any, events: Any, scratch: Any, how: Any) -> Any:
    """Add clusters of slots from `cursor` on to `count` pending places; return (count, all added)."""
    cursor = scratch.cursor
    ask, all_mine = how
    if tables.cluster_start.shape[0] == 0:
        return count, True
    for step in range(cursor[CURSOR_STEP], step_count(event, events)):
        slot = slot_of_step(step, event, tables, events)
        if slot < 0:
            continue
        for cluster in range(
            max(cursor[CURSOR_CLUSTER], tables.access_start[slot]), tables.access_start[slot + 1]
        ):
            if not all_mine and tables.partition_mine[tables.cluster_partition[cluster]] == 0:
                continue
            if count == PENDING_MAX:
                cursor[CURSOR_STEP] = step
                cursor[CURSOR_CLUSTER] = cluster
                return count, False
            count = add_blob(tables.cluster_start[cluster], -1, count, tables, scratch, ask)
        cursor[CURSOR_CLUSTER] = 0
    return count, True
