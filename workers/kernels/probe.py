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
from pubsub_cluster.shm.blob import TABLE_DIRECT, TABLE_INEXACT
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
    key[0] = 0
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
    key = 0
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
        if not has_option(tables.part_code[part], rest // multiplier, scratch):
            return False
        rest %= multiplier
    return True


@leaf
def add_probe(
    table: Any, key: Any, combination: Any, counts: Any, tables: Any, scratch: Any, how: Any
) -> Any:
    """Add one probe to the pending ones unless it is of another shard; return the counts (direct, hash)."""
    direct_count, hash_count = counts
    ask, all_mine = how
    if not all_mine:
        partition = partition_of(table, mix_key(key), tables.partition_mine.shape[0])
        if tables.partition_mine[partition] == 0:
            return direct_count, hash_count
    if (tables.table_mode[table] & TABLE_DIRECT) != 0:
        at = tables.table_area[table] + key
        scratch.direct_at[direct_count] = at
        if ask:
            prefetch(tables.table_direct, at)
        return direct_count + 1, hash_count
    at = tables.table_area[table] + (mix_key(key) & (tables.table_size[table] - 1))
    scratch.hash_key[hash_count] = key
    scratch.hash_at[hash_count] = at
    scratch.hash_table[hash_count] = table
    scratch.hash_combination[hash_count] = combination
    if ask:
        prefetch(tables.table_hash, 2 * at)
    return direct_count, hash_count + 1


@leaf
def add_place(table: Any, place: Any, counts: Any, tables: Any, scratch: Any, how: Any) -> Any:
    """Add the probe of whatever key lies at one place of a table, if it is one of the event's."""
    direct_count, hash_count = counts
    is_direct = (tables.table_mode[table] & TABLE_DIRECT) != 0
    key = place
    if not is_direct:
        at = 2 * (tables.table_area[table] + place)
        key = tables.table_hash[at]
        if tables.table_hash[at + 1] < 0:
            return direct_count, hash_count
    if (tables.table_mode[table] & TABLE_INEXACT) == 0 and not key_is_open(table, key, tables, scratch):
        return direct_count, hash_count
    return add_probe(table, key, -1, (direct_count, hash_count), tables, scratch, how)


@leaf
def key_and_count(table: Any, tables: Any, scratch: Any) -> Any:
    """Return the key of a table where the event has one, and how many it has."""
    key = 0
    is_single = True
    for part in range(tables.table_part[table], tables.table_part[table + 1]):
        digit = scratch.digit_of[tables.part_code[part]]
        if digit == NO_DIGIT:
            return key, 0
        if digit == SEVERAL_DIGITS:
            is_single = False
        key += digit * tables.part_multiplier[part]
    if is_single:
        return key, 1
    return key, combination_count(table, tables, scratch)


@leaf
def collect_probes(event: Any, tables: Any, events: Any, scratch: Any, how: Any) -> Any:
    """Add probes from `cursor` on until there are no more or no more room.

    Returns
    -------
    tuple of (int, int, bool)
        Pending direct and hash probes, and whether all have been added.
    """
    cursor = scratch.cursor
    table = cursor[CURSOR_TABLE]
    done = cursor[CURSOR_COMBINATION]
    direct_count = 0
    hash_count = 0
    previous = -1
    for entry in range(cursor[CURSOR_ENTRY], events.entry_start[event + 1]):
        attribute = events.entry_attribute[entry]
        if attribute == previous:
            continue
        previous = attribute
        table = max(table, tables.attribute_table[attribute])
        table_stop = tables.attribute_table[attribute + 1]
        while table < table_stop:
            key, total = key_and_count(table, tables, scratch)
            room = PENDING_MAX - direct_count - hash_count
            if total > room and (total <= PENDING_MAX or room == 0):
                cursor[CURSOR_ENTRY] = entry
                cursor[CURSOR_TABLE] = table
                cursor[CURSOR_COMBINATION] = done
                return direct_count, hash_count, False
            counts = direct_count, hash_count
            if total == 1:
                counts = add_probe(table, key, 0, counts, tables, scratch, how)
            elif total <= PENDING_MAX:
                if total > 0:
                    expand_keys(table, tables, scratch)
                for at in range(total):
                    counts = add_probe(table, scratch.key[at], at, counts, tables, scratch, how)
            else:
                by_place = total > tables.table_places[table]
                stop = tables.table_places[table] if by_place else total
                last = min(done + room, stop)
                for at in range(done, last):
                    if by_place:
                        counts = add_place(table, at, counts, tables, scratch, how)
                    else:
                        key = key_of_combination(table, at, tables, scratch)
                        counts = add_probe(table, key, at, counts, tables, scratch, how)
                done = last
                if done < stop:
                    table -= 1
                else:
                    done = 0
            direct_count, hash_count = counts
            table += 1
        table = 0
    return direct_count, hash_count, True


@leaf
def add_blob(position: Any, probe: Any, count: Any, tables: Any, scratch: Any, ask: Any) -> Any:
    """Add a place of the blob to the pending ones."""
    scratch.blob_at[count] = position
    scratch.blob_probe[count] = probe
    if ask:
        prefetch(tables.blob, position)
        prefetch(tables.blob, position + LINE_WORDS)
    return count + 1


@leaf
def resolve_probes(direct_count: Any, hash_count: Any, tables: Any, scratch: Any, ask: Any) -> Any:
    """Read the places of pending probes; return how many lead into the blob."""
    count = 0
    for probe in range(direct_count):
        position = tables.table_direct[scratch.direct_at[probe]]
        if position >= 0:
            count = add_blob(position, -1, count, tables, scratch, ask)
    for probe in range(hash_count):
        key = scratch.hash_key[probe]
        at = scratch.hash_at[probe]
        while tables.table_hash[2 * at + 1] >= 0:
            if tables.table_hash[2 * at] == key:
                count = add_blob(tables.table_hash[2 * at + 1], probe, count, tables, scratch, ask)
                break
            at += 1
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
