"""Matching against a layout: the hot loop of the project (the papers' second phase).

For each event: its labels and bits are scattered into scratch, then every slot that they open is visited. A
slot leads to clusters (`shm.layout` has the form of their blobs). Entries of a cluster are sorted, so equal
literals stand together in the first column, which is kept as runs: a literal and where its run stops. Only
survivors of a column look at the next one; targets are read for survivors alone. The columnar check is that
of the papers' research report, section 2.2; here a residual is a literal over label tests.

Scratch rule: `label_of` and `bit_flag` are all zero between events; stamps tell what was done for this
event. An attribute with several values has `label_of` = SEVERAL; then a positive test holds when some label
passes, and a negated literal when none does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf

SEVERAL = -1
CLUSTER_HEADER = 3


class MatchTables(NamedTuple):
    """What the kernel reads of a layout and of this worker's share; columns as in `shm.layout.LayoutView`."""

    label_start: Any  # int64[A+1]
    access_start: Any  # int32[S+1]
    access_cluster: Any  # int32[]
    cluster_start: Any  # int64[C+1]
    cluster_partition: Any  # int32[C]
    blob: Any  # int32[]
    predicate_test: Any  # int32[4P]
    set_start: Any  # int32[K+1]
    set_label: Any  # int32[]
    program_start: Any  # int32[G+1]
    program_code: Any  # int32[]
    program_row: Any  # int32[G]
    row_many: Any  # uint8[R]
    partition_mine: Any  # uint8[P], 1 for the partitions of this shard


class EventTables(NamedTuple):
    """An encoded batch; event-major."""

    entry_start: Any  # int64[n+1]
    entry_attribute: Any  # int32[], grouped within an event
    entry_label: Any  # int32[], distinct within an event and attribute
    bit_start: Any  # int64[n+1]
    bit: Any  # int32[]


class Scratch(NamedTuple):
    """Memory of one kernel thread, sized by the layout."""

    label_of: Any  # int32[A]: 0 missing, SEVERAL, or the label
    several: Any  # int64[2A]: first and last + 1 entry of an attribute with several values
    bit_flag: Any  # uint8[B]
    survivor: Any  # int32[largest cluster]
    row_stamp: Any  # int64[R]
    program_stamp: Any  # int64[G]
    stack: Any  # uint8[longest program]


@leaf
def label_passes(label: Any, test: Any, at: Any, set_start: Any, set_label: Any) -> Any:
    """Say whether one label passes the test at ``test[at:at + 4]``."""
    # No branch on either end alone: which one fails is unpredictable, that one does is not.
    inside = (label >= test[at + 1]) & (label <= test[at + 2])
    reference = test[at + 3]
    if not inside or reference < 0:
        return inside
    lo = set_start[reference >> 1]
    stop = set_start[(reference >> 1) + 1]
    hi = stop
    while lo < hi:
        mid = (lo + hi) >> 1
        if set_label[mid] < label:
            lo = mid + 1
        else:
            hi = mid
    member = lo < stop and set_label[lo] == label
    return member == ((reference & 1) == 0)


@leaf
def literal_holds(literal: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """Say whether a literal holds for the event whose labels and bits are in `scratch`."""
    test = tables.predicate_test
    at = (literal >> 1) << 2
    attribute = test[at]
    negated = (literal & 1) == 1
    if attribute < 0:
        return (scratch.bit_flag[test[at + 1]] != 0) != negated
    label = scratch.label_of[attribute]
    if label != SEVERAL:
        return label_passes(label, test, at, tables.set_start, tables.set_label) != negated
    for entry in range(scratch.several[2 * attribute], scratch.several[2 * attribute + 1]):
        if label_passes(events.entry_label[entry], test, at, tables.set_start, tables.set_label):
            return not negated
    return negated


@leaf
def survivors_of(start: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """Check the residuals of the cluster at ``blob[start]``; list the entries that pass in `survivor`."""
    blob = tables.blob
    survivor = scratch.survivor
    column_count = blob[start]
    entry_count = blob[start + 1]
    run_count = blob[start + 2]
    if column_count == 0:
        for entry in range(entry_count):
            survivor[entry] = entry
        return entry_count
    count = 0
    first = 0
    literal_at = start + CLUSTER_HEADER
    for at in range(literal_at, literal_at + run_count):
        stop = blob[at + run_count]
        if literal_holds(blob[at], tables, events, scratch):
            for entry in range(first, stop):
                survivor[count] = entry
                count += 1
        first = stop
    column = literal_at + 2 * run_count
    for _ in range(1, column_count):
        if count == 0:
            return 0
        kept = 0
        previous = -1
        holds = False
        for at in range(count):
            entry = survivor[at]
            literal = blob[column + entry]
            if literal != previous:
                holds = literal_holds(literal, tables, events, scratch)
                previous = literal
            if holds:
                survivor[kept] = entry
                kept += 1
        count = kept
        column += entry_count
    return count


@leaf
def program_holds(program: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """Evaluate a Boolean program: a literal pushes, -2n is the AND of n values, -2n - 1 their OR."""
    stack = scratch.stack
    depth = 0
    for at in range(tables.program_start[program], tables.program_start[program + 1]):
        code = tables.program_code[at]
        if code >= 0:
            stack[depth] = 1 if literal_holds(code, tables, events, scratch) else 0
            depth += 1
            continue
        conjunction = (code & 1) == 0
        operand_count = (-code) >> 1
        result = 1 if conjunction else 0
        for operand in range(depth - operand_count, depth):
            if conjunction:
                result &= stack[operand]
            else:
                result |= stack[operand]
        depth -= operand_count
        stack[depth] = result
        depth += 1
    return stack[0] != 0


@leaf
def visit_slot(slot: Any, tables: Any, events: Any, scratch: Any, stamp: Any, out: Any) -> Any:
    """Check the clusters of one slot; append rows to `out` = (row int32[], count so far).

    Returns
    -------
    int
        The new count of rows; above the size of the array when they do not fit (those beyond are not
        written).
    """
    out_row, count = out
    for reference in range(tables.access_start[slot], tables.access_start[slot + 1]):
        cluster = tables.access_cluster[reference]
        if tables.partition_mine[tables.cluster_partition[cluster]] == 0:
            continue
        start = tables.cluster_start[cluster]
        found = survivors_of(start, tables, events, scratch)
        if found == 0:
            continue
        target_at = tables.cluster_start[cluster + 1] - tables.blob[start + 1]
        for at in range(found):
            row = tables.blob[target_at + scratch.survivor[at]]
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
def scatter(event: Any, events: Any, scratch: Any, clear: Any) -> None:
    """Write the labels and bits of one event into scratch, or clear them."""
    first = events.entry_start[event]
    for entry in range(first, events.entry_start[event + 1]):
        attribute = events.entry_attribute[entry]
        if clear:
            scratch.label_of[attribute] = 0
        elif entry > first and events.entry_attribute[entry - 1] == attribute:
            if scratch.label_of[attribute] != SEVERAL:
                scratch.label_of[attribute] = SEVERAL
                scratch.several[2 * attribute] = entry - 1
            scratch.several[2 * attribute + 1] = entry + 1
        else:
            scratch.label_of[attribute] = events.entry_label[entry]
    for at in range(events.bit_start[event], events.bit_start[event + 1]):
        scratch.bit_flag[events.bit[at]] = 0 if clear else 1


@leaf
def step_count(event: Any, events: Any) -> Any:
    """Return how many steps `slot_of_step` has: two per entry, one per bit, one for always."""
    entry_count = events.entry_start[event + 1] - events.entry_start[event]
    return 2 * entry_count + events.bit_start[event + 1] - events.bit_start[event] + 1


@leaf
def slot_of_step(step: Any, first: Any, event: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """Return the slot of one step of an event, -1 for none: labels, "present" slots, bits, always."""
    entry_count = events.entry_start[event + 1] - first
    attribute_count = tables.label_start.shape[0] - 1
    if step < entry_count:
        return tables.label_start[events.entry_attribute[first + step]] + events.entry_label[first + step]
    bit_base = tables.label_start[attribute_count]
    present_base = bit_base + scratch.bit_flag.shape[0]
    step -= entry_count
    if step < entry_count:
        attribute = events.entry_attribute[first + step]
        if step > 0 and events.entry_attribute[first + step - 1] == attribute:
            return -1
        return present_base + attribute
    at = events.bit_start[event] + step - entry_count
    if at < events.bit_start[event + 1]:
        return bit_base + events.bit[at]
    return present_base + attribute_count


@kernel
def match_events(tables: Any, events: Any, scratch: Any, start: Any, out_row: Any, out_start: Any) -> Any:
    """Match events from `first_event` on against the layout.

    ===========  ======================================================================  ======
    tables       MatchTables                                                             in
    events       EventTables                                                             in
    scratch      Scratch                                                                 in/out
    start        (first_event, stamp): stamps ``stamp + event`` were never used before   in
    out_row      int32[], layout rows; event e fills out_start[e] .. out_start[e+1]      out
    out_start    int64[n+1]; out_start[first_event] is set by the caller                 in/out
    ===========  ======================================================================  ======

    Returns
    -------
    tuple of (status, int)
        OK and the event count, or OVERFLOW and the event to go on from with a longer `out_row`.
    """
    first_event, stamp_base = start
    event_count = events.entry_start.shape[0] - 1
    count = out_start[first_event]
    for event in range(first_event, event_count):
        stamp = stamp_base + event
        scatter(event, events, scratch, False)
        first = events.entry_start[event]
        for step in range(step_count(event, events)):
            slot = slot_of_step(step, first, event, tables, events, scratch)
            if slot >= 0:
                count = visit_slot(slot, tables, events, scratch, stamp, (out_row, count))
        scatter(event, events, scratch, True)
        if count > out_row.shape[0]:
            return OVERFLOW, event
        out_start[event + 1] = count
    return OK, event_count
