"""Matching the keyed half of the delta: an event's keys, the lists behind them, the clauses in those.

Two events are on their way: while the lists of one are checked, those of the next have been asked for. Most
clauses of a list are out at the intervals that stand in the list; only the others are looked up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf, routine
from pubsub_cluster.workers.kernels.check import label_passes
from pubsub_cluster.workers.kernels.keyed_tables import (
    ANY_CODE,
    CODE_BITS,
    COUNT_BITS,
    COUNT_MASK,
    ENTRY_WIDTH,
    HUNG_PAIRS,
    HUNG_SINGLE,
    KEPT_MAX,
    ONE_LABEL,
    find_key,
    key_of,
)
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.kernels.tables import PENDING_MAX, SEVERAL, Index

LINE_ENTRIES = 8
"""Entries in one cache line."""
AHEAD_LINES = 16


@leaf
def is_full(span: Any, entry_attribute: Any, attribute_count: Any) -> Any:
    """Say whether the entries of `span` are one of each attribute."""
    if span[1] - span[0] != attribute_count:
        return False
    differ = np.int64(0)
    for attribute in range(attribute_count):  # without a way out, so that many are compared at a time
        differ |= np.int64(entry_attribute[Index(span[0] + attribute)]) ^ attribute
    return differ == 0


@leaf
def write_event(span: Any, entries: Any, base: Any, code_shift: Any, facts: Any) -> Any:
    """Write labels and codes of the entries of `span`; `base` is the first item of the event's half.

    Returns
    -------
    bool
        Whether every attribute has one value.
    """
    entry_attribute, entry_label = entries
    attribute_count = np.int64(code_shift.shape[0])
    if is_full(span, entry_attribute, attribute_count):
        for number in range(attribute_count):
            label = entry_label[Index(span[0] + number)]
            facts.label_of[Index(base + number)] = label
            facts.code_of[Index(base + number)] = label >> code_shift[Index(number)]
        return True
    previous = np.int32(-1)
    is_single = True
    for entry in range(span[0], span[1]):
        attribute = entry_attribute[Index(entry)]
        label = entry_label[Index(entry)]
        code = label >> code_shift[Index(attribute)]
        if attribute == previous:
            if facts.label_of[Index(base + attribute)] != SEVERAL:
                facts.several[Index(2 * (base + attribute))] = entry - 1
            facts.several[Index(2 * (base + attribute) + 1)] = entry + 1
            label = np.int32(SEVERAL)
            code = ANY_CODE
            is_single = False
        facts.label_of[Index(base + attribute)] = label
        facts.code_of[Index(base + attribute)] = code
        previous = attribute
    return is_single


@leaf
def clear_event(span: Any, entry_attribute: Any, base: Any, facts: Any) -> None:
    """Undo `write_event`."""
    attribute_count = np.int64(facts.label_of.shape[0] >> 1)
    if attribute_count <= 2 * (span[1] - span[0]):
        for attribute in range(attribute_count):
            facts.label_of[Index(base + attribute)] = 0
            facts.code_of[Index(base + attribute)] = 0
        return
    for entry in range(span[0], span[1]):
        attribute = entry_attribute[Index(entry)]
        facts.label_of[Index(base + attribute)] = 0
        facts.code_of[Index(base + attribute)] = 0


@leaf
def is_inside(interval: Any, base: Any, code_of: Any) -> Any:
    """Say whether the code of the event is in an interval."""
    code = code_of[Index(base + (interval >> (2 * CODE_BITS)))]
    # One comparison, of how far it is above the first code: which end fails would be unpredictable.
    return ((code - (interval >> CODE_BITS)) & ANY_CODE) <= (interval & ANY_CODE)


@leaf
def may_hold(interval: Any, base: Any, code_of: Any) -> Any:
    """Say whether an interval may hold; there may be several values."""
    code = code_of[Index(base + (interval >> (2 * CODE_BITS)))]
    return is_inside(interval, base, code_of) | (code == ANY_CODE)


@routine
def literals_hold(clause: Any, tables: Any, base: Any, facts: Any, entry_label: Any) -> Any:
    """Say whether all literals of a clause hold for the event in scratch, but for those of its key."""
    test, set_start, set_label = tables.predicate_test, tables.set_start, tables.set_label
    for place in range(tables.clause_start[clause], tables.clause_start[clause + 1]):
        literal = tables.literal[place]
        at = 4 * (literal >> 1)
        attribute = base + test[at]
        label = facts.label_of[attribute]
        holds = False
        if label != SEVERAL:
            holds = label_passes(label, test, at, set_start, set_label)
        else:
            for entry in range(facts.several[2 * attribute], facts.several[2 * attribute + 1]):
                holds |= label_passes(entry_label[entry], test, at, set_start, set_label)
        if holds == ((literal & 1) == 1):
            return False
    return True


@routine
def check_clause(entry: Any, tables: Any, given: Any, moment: Any, out: Any) -> Any:
    """Tell the row of the clause of an entry if it holds; as `check_list`."""
    base, facts, entry_label = given
    event, row_stop, version, stamp, removed_version = moment
    out_event, out_row, count = out
    clause = np.int64(tables.entry_clause[entry])
    if not literals_hold(clause, tables, base, facts, entry_label):  # as most: no word of a row is read
        return count
    row = tables.clause_row[clause]
    if row >= row_stop or 0 < removed_version[row] <= version:
        return count
    first = tables.clause_first[clause]
    if first >= 0:
        if tables.stamp[first] == stamp:
            return count
        tables.stamp[first] = stamp
    if count < out_event.shape[0]:
        out_event[count] = event
        out_row[count] = row
    return count + 1


@leaf
def check_list(mine: Any, tables: Any, given: Any, moment: Any, out: Any) -> Any:
    """Tell the rows of a list whose clauses hold for an event with one value per attribute.

    Parameters
    ----------
    mine : tuple of (int, int)
        First entry, entries.
    tables : KeyedTables
    given : tuple
        First item of the event's half, KeyedFacts, `entry_label`.
    moment : tuple
        Event, row to stop before, version, stamp, `removed_version`.
    out : tuple
        Event and row of the pairs, and how many there are.

    Returns
    -------
    int
        How many pairs there are; more than there is room for if not all could be told.
    """
    base, facts, _ = given
    out_event, out_row, count = out
    intervals, kept = tables.entry, facts.kept
    end = mine[0] + mine[1]
    for first in range(mine[0], end, KEPT_MAX):
        left = np.int64(0)
        for entry in range(first, min(first + KEPT_MAX, end)):
            kept[Index(left)] = entry  # without a branch: that one passes is unpredictable
            left += (
                1 if is_inside(np.int64(intervals[Index(ENTRY_WIDTH * entry)]), base, facts.code_of) else 0
            )
        for number in range(left):
            passed = np.int64(kept[Index(number)])
            if is_inside(np.int64(intervals[Index(ENTRY_WIDTH * passed + 1)]), base, facts.code_of):
                count = check_clause(passed, tables, given, moment, (out_event, out_row, count))
    return count


@leaf
def find_list(first: Any, second: Any, tables: Any) -> Any:
    """Return first entry and number of entries of the list of two label slots; 0, 0 for none."""
    found = tables.key[Index(find_key(key_of(first, second), tables.key) + 1)]
    if found < 0:
        return np.int64(0), np.int64(0)
    return found >> COUNT_BITS, found & COUNT_MASK


@leaf
def keep_list(mine: Any, pending: Any, found: Any, entry: Any) -> Any:
    """Ask for a list and put it where it waits; return how many wait."""
    if mine[1] > 0:
        pending[Index(2 * found)] = mine[0]
        pending[Index(2 * found + 1)] = mine[1]
        found += 1
        lines = min(AHEAD_LINES, mine[1] // LINE_ENTRIES + 1)
        for line in range(lines):
            prefetch(entry, ENTRY_WIDTH * (mine[0] + line * LINE_ENTRIES))
    return found


@leaf
def find_lists(span: Any, attributes: Any, access: Any, tables: Any, half: Any, room: Any) -> Any:
    """Find the lists of an event with one value per attribute and few keys, and ask for them.

    Parameters
    ----------
    span : tuple of (int, int)
        Its entries.
    attributes : tuple of (int32[], int32[])
        `hung_attribute` and `entry_attribute`: the fewer of both are gone through.
    access, tables : KeyedAccess, KeyedTables
    half : tuple
        First item of the event's half, KeyedFacts.
    room : int
        Where in `pending` its lists wait.

    Returns
    -------
    int
        End of those that wait.
    """
    base, facts = half
    label_start = access.label_start
    found = room
    hung_attribute, entry_attribute = attributes
    by_hung = hung_attribute.shape[0] <= span[1] - span[0]
    for number in range(hung_attribute.shape[0] if by_hung else span[1] - span[0]):
        if by_hung:
            attribute = np.int64(hung_attribute[Index(number)])
        else:
            attribute = np.int64(entry_attribute[Index(span[0] + number)])
        state = access.hung[Index(attribute)]
        own = np.int64(facts.label_of[Index(base + attribute)])
        if state == 0 or own == 0:
            continue
        slot = label_start[Index(attribute)] + own
        if state & HUNG_SINGLE:
            mine = find_list(slot, np.int64(ONE_LABEL), tables)
            found = keep_list(mine, facts.pending, found, tables.entry)
        if state & HUNG_PAIRS:
            for pair in range(access.pair_start[Index(attribute)], access.pair_start[Index(attribute + 1)]):
                second = np.int64(access.pair_second[Index(pair)])
                label = np.int64(facts.label_of[Index(base + second)])
                if label > 0:
                    mine = find_list(slot, label_start[Index(second)] + label, tables)
                    found = keep_list(mine, facts.pending, found, tables.entry)
    return found


@routine
def match_at_once(
    span: Any, entries: Any, access: Any, tables: Any, given: Any, moment: Any, out: Any
) -> Any:
    """Find and check the lists of any event, one after the other; as `find_lists` and `check_list`."""
    base, facts, entry_label = given
    out_event, out_row, count = out
    for entry in range(span[0], span[1]):
        attribute = np.int64(entries[0][entry])
        first = access.label_start[attribute] + entry_label[entry]
        start, stop = access.pair_start[attribute] - 1, access.pair_start[attribute + 1]
        for pair in range(start, stop):
            second = np.int64(access.pair_second[pair]) if pair > start else np.int64(-1)
            label = np.int64(facts.label_of[base + second]) if second >= 0 else np.int64(0)
            options = np.int64(0), np.int64(1)
            if label == SEVERAL:
                options = facts.several[2 * (base + second)], facts.several[2 * (base + second) + 1]
            elif label == 0 and second >= 0:
                continue
            for option in range(options[0], options[1]):
                other = np.int64(ONE_LABEL)
                if second >= 0:
                    chosen = np.int64(entry_label[option]) if label == SEVERAL else label
                    other = access.label_start[second] + chosen
                mine = find_list(first, other, tables)
                for at in range(mine[0], mine[0] + mine[1]):
                    one = np.int64(tables.entry[ENTRY_WIDTH * at])
                    two = np.int64(tables.entry[ENTRY_WIDTH * at + 1])
                    if may_hold(one, base, facts.code_of) and may_hold(two, base, facts.code_of):
                        count = check_clause(at, tables, given, moment, (out_event, out_row, count))
    return count


@kernel
def match_keyed(
    tables: Any,
    access: Any,
    hung_attribute: Any,
    facts: Any,
    events: Any,
    bounds: Any,
    removed_version: Any,
    out: Any,
) -> Any:
    """Match events against the clauses.

    ===============  ======================================================================  ======
    tables           KeyedTables; stamps are written                                         in/out
    access           KeyedAccess                                                             in
    hung_attribute   int32[]: attributes that keys hang off, those that `access` marks       in
    facts            KeyedFacts                                                              in/out
    events           (entry_start int64[n+1], entry_attribute int32[], entry_label int32[])  in
    bounds           (first event, row to stop before, version, stamp of event 0, pairs      in
                     so far): rows removed at this version or before are not told
    removed_version  int64[]                                                                 in
    out              (event int32[], row int32[])                                            out
    ===============  ======================================================================  ======

    Returns
    -------
    tuple of (status, event, count)
        OK, or OVERFLOW and the event to go on from with other stamps; and the pairs so far.
    """
    first, row_stop, version, stamp, count = bounds
    entry_start, entry_attribute, entry_label = events
    out_event, out_row = out
    entries = entry_attribute, entry_label
    half = np.int64(facts.label_of.shape[0] >> 1)
    event_count = np.int64(entry_start.shape[0] - 1)
    keys_more = np.int64(access.pair_second.shape[0])
    late, late_stop = np.int64(-1), np.int64(0)
    for event in range(first, event_count + 1):
        turn = np.int64(event & 1)
        span = np.int64(0), np.int64(0)
        is_plain, found = True, np.int64(0)
        if event < event_count:
            span = np.int64(entry_start[event]), np.int64(entry_start[event + 1])
            is_plain = write_event(span, entries, turn * half, access.code_shift, facts)
            is_plain &= span[1] - span[0] + keys_more <= PENDING_MAX
            if is_plain:
                attributes = hung_attribute, entry_attribute
                found = find_lists(span, attributes, access, tables, (turn * half, facts), turn * PENDING_MAX)
        kept = count
        if late >= 0:
            base = (1 - turn) * half
            given = base, facts, entry_label
            moment = late, row_stop, version, stamp + late, removed_version
            for at in range((1 - turn) * PENDING_MAX, late_stop):
                mine = np.int64(facts.pending[Index(2 * at)]), np.int64(facts.pending[Index(2 * at + 1)])
                count = check_list(mine, tables, given, moment, (out_event, out_row, count))
            clear_event((entry_start[late], entry_start[late + 1]), entry_attribute, base, facts)
            if count > out_event.shape[0]:
                clear_event(span, entry_attribute, turn * half, facts)
                return OVERFLOW, late, kept
        late, late_stop = np.int64(event), found
        if not is_plain:
            kept = count
            given = turn * half, facts, entry_label
            moment = np.int64(event), row_stop, version, stamp + event, removed_version
            count = match_at_once(span, entries, access, tables, given, moment, (out_event, out_row, count))
            clear_event(span, entry_attribute, turn * half, facts)
            late = np.int64(-1)
            if count > out_event.shape[0]:
                return OVERFLOW, np.int64(event), kept
    return OK, event_count, count
