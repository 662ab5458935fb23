"""Adding catalogue rows to the keyed half of the delta, at a cost that follows their number alone.

Each clause goes under the key that fewest events are expected to have: a pair of equalities whose attributes
are a known pair, or one equality; an equality is taken to hold once in as many events as its attribute has
labels. A row that keys cannot hold is named in `left`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf, routine
from pubsub_cluster.workers.kernels.keyed_tables import (
    ANY_CODE,
    ATTRIBUTES_MAX,
    CLAUSES,
    CODE_BITS,
    COUNT_BITS,
    ENTRIES,
    ENTRY_WIDTH,
    HUNG_SINGLE,
    KEY_WIDTH,
    KEYS,
    LIST_ROOM_FIRST,
    LITERALS,
    LONGEST,
    NEEDED,
    NO_TEST,
    ONE_LABEL,
    PREDICATES,
    PRUNED,
    ROW_CLAUSES_MAX,
    ROW_LITERALS_MAX,
    SET_LABELS,
    SET_LABELS_MAX,
    SETS,
    SEVERAL_CLAUSES,
    find_key,
    key_of,
    mix_key,
)
from pubsub_cluster.workers.kernels.keyed_tests import write_test


class RowSource(NamedTuple):
    """The catalogue's columns of rows and clauses."""

    clause_start: Any
    literal_start: Any
    literal: Any
    removed_version: Any


@leaf
def has_room(clause_count: Any, tables: Any) -> Any:
    """Say whether a row with so many clauses fits, whatever is in it."""
    used = tables.used
    predicates = used[PREDICATES] + ROW_LITERALS_MAX
    entries = used[ENTRIES] + clause_count * (2 * used[LONGEST] + LIST_ROOM_FIRST)
    return (
        2 * predicates <= tables.predicate_slot.shape[0]
        and predicates <= tables.predicate_catalogue.shape[0]
        and used[SETS] + ROW_LITERALS_MAX < tables.set_start.shape[0]
        and used[SET_LABELS] + ROW_LITERALS_MAX * SET_LABELS_MAX <= tables.set_label.shape[0]
        and used[CLAUSES] + clause_count < tables.clause_row.shape[0]
        and used[LITERALS] + ROW_LITERALS_MAX <= tables.literal.shape[0]
        and 2 * KEY_WIDTH * (used[KEYS] + clause_count) <= tables.key.shape[0]
        and entries <= tables.entry_clause.shape[0]
    )


@leaf
def find_predicate(predicate: Any, slots: Any, catalogue: Any) -> Any:
    """Return the slot of a catalogue predicate, or the free one where it belongs."""
    mask = slots.shape[0] - 1
    at = mix_key(predicate) & mask
    while slots[at] >= 0 and catalogue[slots[at]] != predicate:
        at = (at + 1) & mask
    return at


@leaf
def local_predicate(predicate: Any, sources: Any, tables: Any) -> Any:
    """Return the number of a catalogue predicate here; at its first use its test is written."""
    slots, used = tables.predicate_slot, tables.used
    at = find_predicate(predicate, slots, tables.predicate_catalogue)
    if slots[at] < 0:
        number = used[PREDICATES]
        slots[at] = number
        tables.predicate_catalogue[number] = predicate
        written = used, tables.predicate_test, tables.set_start, tables.set_label
        write_test(predicate, sources, number, written)
        used[PREDICATES] = number + 1
    return np.int64(slots[at])


@leaf
def is_point(literal: Any, test: Any) -> Any:
    """Say whether a literal is that an attribute has one label."""
    at = 4 * (literal >> 1)
    return (literal & 1) == 0 and test[at + 3] < 0 and test[at + 1] == test[at + 2]


@leaf
def share_of(literal: Any, test: Any, label_start: Any) -> Any:
    """Return what share of events is taken to have a label of an interval's."""
    at = 4 * (literal >> 1)
    attribute = test[at]
    label_count = np.float64(label_start[attribute + 1] - label_start[attribute])
    return np.float64(test[at + 2] - test[at + 1] + 1) / label_count


@routine
def choose_key(span: Any, tables: Any, access: Any, point_of: Any) -> Any:
    """Return the key for the clause of the literals of `span`, and the one or two literals in it.

    `point_of` is int32[A], all -1 before and after. Literals are -1 where there is none.
    """
    first, stop = span
    literal, test, label_start = tables.literal, tables.predicate_test, access.label_start
    best, one, two = np.float64(2.0), np.int64(-1), np.int64(-1)
    for at in range(first, stop):
        mine = np.int64(literal[at])
        if is_point(mine, test):
            point_of[test[4 * (mine >> 1)]] = mine
            share = share_of(mine, test, label_start)
            if share < best:
                best, one = share, mine
    if one < 0:
        return np.int64(-1), one, two
    for at in range(first, stop):
        mine = np.int64(literal[at])
        if not is_point(mine, test):
            continue
        attribute = test[4 * (mine >> 1)]
        for pair in range(access.pair_start[attribute], access.pair_start[attribute + 1]):
            other = np.int64(point_of[access.pair_second[pair]])
            if other >= 0:
                share = share_of(mine, test, label_start) * share_of(other, test, label_start)
                if share < best:
                    best, one, two = share, mine, other
    for at in range(first, stop):
        mine = np.int64(literal[at])
        if is_point(mine, test):
            point_of[test[4 * (mine >> 1)]] = -1
    key = slot_of(one, test, label_start)
    if two < 0:
        access.hung[test[4 * (one >> 1)]] |= HUNG_SINGLE
        return key_of(key, np.int64(ONE_LABEL)), one, two
    return key_of(key, slot_of(two, test, label_start)), one, two


@leaf
def slot_of(literal: Any, test: Any, label_start: Any) -> Any:
    """Return the label slot of a point."""
    at = 4 * (literal >> 1)
    return np.int64(label_start[test[at]] + test[at + 1])


@routine
def narrowest(span: Any, but: Any, tables: Any, label_start: Any) -> Any:
    """Return the interval of `span`, other than the literal `but`, that lets fewest events pass, or -1."""
    first, stop = span
    test = tables.predicate_test
    best, found = np.float64(2.0), np.int64(-1)
    for at in range(first, stop):
        literal = np.int64(tables.literal[at])
        tested = 4 * (literal >> 1)
        if (literal & 1) == 0 and literal != but and test[tested + 3] < 0 and test[tested] < ATTRIBUTES_MAX:
            share = share_of(literal, test, label_start)
            if share < best:
                best, found = share, literal
    return found


@leaf
def interval_of(literal: Any, test: Any, code_shift: Any) -> Any:
    """Return the interval of a literal, in codes; of -1 one that always holds.

    So does one of an attribute whose number does not fit: its clauses are looked up.
    """
    attribute = np.int64(test[4 * (literal >> 1)]) if literal >= 0 else np.int64(ATTRIBUTES_MAX)
    if attribute >= ATTRIBUTES_MAX:
        return np.int64(ANY_CODE)
    at = 4 * (literal >> 1)
    shift = np.int64(code_shift[attribute])
    lo, hi = np.int64(test[at + 1]) >> shift, np.int64(test[at + 2]) >> shift
    return attribute << (2 * CODE_BITS) | lo << CODE_BITS | ((hi - lo) & ANY_CODE)


@leaf
def move_entry(at: Any, old: Any, to: Any, new: Any) -> None:
    """Write entry `at` of some tables to `to` of others, or of the same."""
    for number in range(ENTRY_WIDTH):
        new.entry[ENTRY_WIDTH * to + number] = old.entry[ENTRY_WIDTH * at + number]
    new.entry_clause[to] = old.entry_clause[at]


@routine
def enter_clause(key: Any, intervals: Any, clause: Any, tables: Any, code_shift: Any) -> None:
    """Append a clause to the list of its key; `intervals` are two literals, or -1."""
    used = tables.used
    at = find_key(key, tables.key)
    if tables.key[at + 1] < 0:
        tables.key[at], tables.key[at + 1] = key, used[ENTRIES] << COUNT_BITS
        used[KEYS] += 1
        used[ENTRIES] += LIST_ROOM_FIRST
        used[LONGEST] = max(used[LONGEST], LIST_ROOM_FIRST)
    first = np.int64(tables.key[at + 1]) >> COUNT_BITS
    count = np.int64(tables.key[at + 1]) - (first << COUNT_BITS)
    if count >= LIST_ROOM_FIRST and count & (count - 1) == 0:  # the room is the next power of two
        new = np.int64(used[ENTRIES])
        for number in range(count):
            move_entry(first + number, tables, new + number, tables)
        first = new
        used[ENTRIES] += 2 * count
        used[LONGEST] = max(used[LONGEST], 2 * count)
    tables.key[at + 1] = (first << COUNT_BITS) + count + 1
    to = first + count
    tables.entry[ENTRY_WIDTH * to] = interval_of(intervals[0], tables.predicate_test, code_shift)
    tables.entry[ENTRY_WIDTH * to + 1] = interval_of(intervals[1], tables.predicate_test, code_shift)
    tables.entry_clause[to] = clause


@routine
def list_clause(span: Any, literal: Any, sources: Any, tables: Any, first: Any) -> Any:
    """Write the literals of one catalogue clause from ``tables.literal[first]`` on.

    Returns
    -------
    int
        Their end; -1 if one of them has no test.
    """
    start, stop = span
    to = first
    for at in range(start, stop):
        code = np.int64(literal[at])
        number = local_predicate(code >> 1, sources, tables)
        if tables.predicate_test[4 * number] == NO_TEST:
            return np.int64(-1)
        tables.literal[to] = 2 * number + (code & 1)
        to += 1
    return to


@routine
def drop_literals(span: Any, one: Any, two: Any, literal: Any) -> Any:
    """Take the literals of a key out of those of `span`; return the new end."""
    first, stop = span
    to = first
    for at in range(first, stop):
        if literal[at] != one and literal[at] != two:
            literal[to] = literal[at]
            to += 1
    return to


@routine
def add_row(row: Any, clauses: Any, rows: Any, sources: Any, access: Any, tables: Any, point_of: Any) -> Any:
    """Add one row with the catalogue clauses of `clauses`; say whether keys can hold it."""
    used = tables.used
    first_clause, first_literal = used[CLAUSES], used[LITERALS]
    to = first_literal
    for clause in range(clauses[0], clauses[1]):
        span = np.int64(rows.literal_start[clause]), np.int64(rows.literal_start[clause + 1])
        stop = list_clause(span, rows.literal, sources, tables, to)
        has_key = False
        for at in range(to, max(stop, to)):
            has_key |= is_point(np.int64(tables.literal[at]), tables.predicate_test)
        if not has_key:
            return False
        mine = first_clause + clause - clauses[0]
        tables.clause_start[mine] = to
        tables.clause_start[mine + 1] = stop
        to = stop
    several = clauses[1] - clauses[0] > 1
    used[SEVERAL_CLAUSES] += clauses[1] - clauses[0] if several else 0
    stop_clause = first_clause + clauses[1] - clauses[0]
    kept = first_literal
    for clause in range(first_clause, stop_clause):
        span = np.int64(tables.clause_start[clause]), np.int64(tables.clause_start[clause + 1])
        key, one, two = choose_key(span, tables, access, point_of)
        stop = drop_literals(span, one, two, tables.literal)
        interval = narrowest((span[0], stop), np.int64(-1), tables, access.label_start)
        second = narrowest((span[0], stop), interval, tables, access.label_start)
        enter_clause(key, (interval, second), clause, tables, access.code_shift)
        tables.clause_row[clause] = row
        tables.clause_first[clause] = first_clause if several else -1
        tables.clause_start[clause] = kept
        for at in range(span[0], stop):
            tables.literal[kept] = tables.literal[at]
            kept += 1
    tables.clause_start[stop_clause] = kept
    used[CLAUSES], used[LITERALS] = stop_clause, kept
    return True


@kernel
def add_rows(span: Any, rows: Any, sources: Any, access: Any, tables: Any, point_of: Any, left: Any) -> Any:
    """Add catalogue rows that are not removed yet.

    ========  =============================================================================  ======
    span      (first row, stop row, shard, shard count, version): rows of other shards and   in
              those removed at this version or before are left out
    rows      RowSource                                                                      in
    sources   (PredicateSource, ConstantSource, LabelSource)                                 in
    access    KeyedAccess; attributes that get keys of one label are marked                  in/out
    tables    KeyedTables                                                                    in/out
    point_of  int32[A], -1                                                                   in/out
    left      int32[stop - first]: rows that keys cannot hold                                out
    ========  =============================================================================  ======

    Returns
    -------
    tuple of (status, row, count)
        OK, or OVERFLOW and the row to go on from; and how many rows are in `left`.
    """
    first, stop, shard_idx, shard_count, version = span
    left_count = np.int64(0)
    for row in range(first, stop):
        if row % shard_count != shard_idx:
            continue
        removed = rows.removed_version[row]
        if 0 < removed <= version:
            tables.used[PRUNED] = max(tables.used[PRUNED], removed)
            continue
        end = np.int64(rows.clause_start[row + 1])
        clauses = np.int64(rows.clause_start[row]) >> 1, end >> 1
        clause_count = clauses[1] - clauses[0]
        if clause_count == 0:
            continue
        literals = np.int64(rows.literal_start[clauses[1]]) - np.int64(rows.literal_start[clauses[0]])
        holds = (end & 1) == 0 and clause_count <= ROW_CLAUSES_MAX and literals <= ROW_LITERALS_MAX
        if holds:
            if not has_room(clause_count, tables):
                tables.used[NEEDED] = clause_count
                return OVERFLOW, row, left_count
            holds = add_row(row, clauses, rows, sources, access, tables, point_of)
        if not holds:
            left[left_count] = row
            left_count += 1
    return OK, stop, left_count


@kernel
def rehash_predicates(tables: Any) -> None:
    """Enter all predicates into `predicate_slot`, all -1."""
    for number in range(tables.used[PREDICATES]):
        predicate = np.int64(tables.predicate_catalogue[number])
        at = find_predicate(predicate, tables.predicate_slot, tables.predicate_catalogue)
        tables.predicate_slot[at] = number


@kernel
def rehash_keys(key: Any, tables: Any) -> None:
    """Enter all keys of the smaller hash into that of `tables`, where all places are free."""
    for old in range(0, key.shape[0], KEY_WIDTH):
        if key[old + 1] >= 0:
            at = find_key(key[old], tables.key)
            tables.key[at], tables.key[at + 1] = key[old], key[old + 1]
