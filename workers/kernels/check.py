"""Checks: which entries of a section hold, given the event in scratch (`shm.blob` has the form).

A flag literal is one byte load; an interval is compared with the attribute's label; anything else goes
through `literal_holds`. Only survivors of a column look at the next one; targets are read for survivors
alone. The columnar check is that of the papers' research report, section 2.2.

An attribute with several values has `label_of` = SEVERAL; then a positive test holds when some label
passes, and a negated literal when none does.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.shm.blob import (
    COUNT_MASK,
    ENTRY_MASK,
    FLAG_SHIFT,
    HEAD_LABELS,
    HEAD_LONG,
    HEAD_RUNS,
    INTERVAL_SHIFT,
    TEST_SHIFT,
)
from pubsub_cluster.workers.kernels._jit import leaf
from pubsub_cluster.workers.kernels.scatter import has_option, option_count_of, option_of
from pubsub_cluster.workers.kernels.tables import SEVERAL, Index


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
    """Say whether a literal holds for the event in scratch."""
    if literal < scratch.flag.shape[0]:
        return scratch.flag[literal] != 0
    test = tables.predicate_test
    at = (literal >> 1) << 2
    attribute = test[at]
    negated = (literal & 1) == 1
    label = scratch.label_of[attribute]
    if label != SEVERAL:
        return label_passes(label, test, at, tables.set_start, tables.set_label) != negated
    for entry in range(scratch.several[2 * attribute], scratch.several[2 * attribute + 1]):
        if label_passes(events.entry_label[entry], test, at, tables.set_start, tables.set_label):
            return not negated
    return negated


@leaf
def interval_holds(at: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """Say whether the interval at ``blob[at:at + 3]`` holds."""
    code = tables.blob[Index(at)]
    lo = tables.blob[Index(at + 1)]
    hi = tables.blob[Index(at + 2)]
    negated = (code & 1) == 1
    attribute = code >> 1
    label = scratch.label_of[Index(attribute)]
    if label != SEVERAL:
        return ((lo <= label) & (label <= hi)) != negated
    for entry in range(scratch.several[2 * attribute], scratch.several[2 * attribute + 1]):
        if lo <= events.entry_label[entry] <= hi:
            return not negated
    return negated


@leaf
def digits_match(at: Any, probe: Any, tables: Any, scratch: Any) -> Any:
    """Say whether the digits at ``blob[at]`` are those of a pending probe."""
    table = scratch.hash_table[probe]
    rest = scratch.hash_combination[probe]
    for part in range(tables.table_part[table], tables.table_part[table + 1]):
        code = tables.part_code[part]
        digit = tables.blob[at]
        if rest < 0:
            if not has_option(code, digit, scratch):
                return False
        else:
            options = option_count_of(code, scratch)
            if option_of(code, rest % options, scratch) != digit:
                return False
            rest //= options
        at += 1
    return True


@leaf
def runs_hold(at: Any, run_count: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """List the entries of the runs whose literal holds in `survivor`; return how many."""
    count = 0
    first = 0
    for run in range(at, at + run_count):
        stop = tables.blob[run + run_count]
        if literal_holds(tables.blob[run], tables, events, scratch):
            for entry in range(first, stop):
                scratch.survivor[count] = entry
                count += 1
        first = stop
    return count


@leaf
def first_hold(shape: Any, at: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """List the entries that pass the first column at ``blob[at]`` in `survivor`.

    Parameters
    ----------
    shape : tuple of int
        Entry count, flag, interval and test columns.

    Returns
    -------
    int
        How many pass; all without columns.
    """
    entry_count, flag_columns, interval_columns, test_columns = shape
    survivor = scratch.survivor
    count = 0
    if flag_columns == 0 and interval_columns > 0:
        for entry in range(entry_count):
            survivor[Index(count)] = entry
            count += 1 if interval_holds(at + 3 * entry, tables, events, scratch) else 0
    elif flag_columns + test_columns > 0:
        for entry in range(entry_count):
            survivor[Index(count)] = entry
            literal = tables.blob[Index(at + entry)]
            count += 1 if literal_holds(literal, tables, events, scratch) else 0
    else:
        for entry in range(entry_count):
            survivor[Index(entry)] = entry
        count = entry_count
    return count


@leaf
def columns_hold(shape: Any, at: Any, first: Any, count: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """Reduce `survivor` by the columns at ``blob[at]`` from number `first` on; return how many are left."""
    entry_count, flag_columns, interval_columns, test_columns = shape
    survivor = scratch.survivor
    for column in range(first, flag_columns + interval_columns + test_columns):
        if count == 0:
            return 0
        kept = 0
        if flag_columns <= column < flag_columns + interval_columns:
            for number in range(count):
                entry = survivor[Index(number)]
                survivor[Index(kept)] = entry
                kept += 1 if interval_holds(at + 3 * entry, tables, events, scratch) else 0
            at += 3 * entry_count
        else:
            previous = -1
            holds = False
            for number in range(count):
                entry = survivor[Index(number)]
                literal = tables.blob[Index(at + entry)]
                if literal != previous:
                    holds = literal_holds(literal, tables, events, scratch)
                    previous = literal
                survivor[Index(kept)] = entry
                kept += 1 if holds else 0
            at += entry_count
        count = kept
    return count


@leaf
def check_section(start: Any, probe: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """Check a section of any shape; list the entries that hold in `survivor`.

    Returns
    -------
    tuple of (int, int)
        How many hold, and the word of the first target.
    """
    blob = tables.blob
    head = blob[start]
    entry_count = head & ENTRY_MASK
    flag_columns = (head >> FLAG_SHIFT) & COUNT_MASK
    interval_columns = (head >> INTERVAL_SHIFT) & COUNT_MASK
    test_columns = (head >> TEST_SHIFT) & COUNT_MASK
    at = start + 1
    if (head & HEAD_LONG) != 0:
        flag_columns = blob[at]
        interval_columns = blob[at + 1]
        test_columns = blob[at + 2]
        at += 3
    is_open = True
    if (head & HEAD_LABELS) != 0:
        is_open = digits_match(at + 1, probe, tables, scratch)
        at += 1 + blob[at]
    count = 0
    done = 0
    columns_at = at
    if (head & HEAD_RUNS) != 0:
        run_count = blob[at]
        count = runs_hold(at + 1, run_count, tables, events, scratch) if is_open else 0
        at += 1 + 2 * run_count
        columns_at = at
        if flag_columns > 0:
            flag_columns -= 1
        else:
            test_columns -= 1
    elif is_open:
        shape = entry_count, flag_columns, interval_columns, test_columns
        count = first_hold(shape, at, tables, events, scratch)
        done = 1
        columns_at += entry_count if flag_columns > 0 or interval_columns == 0 else 3 * entry_count
    targets = at + (flag_columns + 3 * interval_columns + test_columns) * entry_count
    if count == 0:
        return 0, targets
    shape = entry_count, flag_columns, interval_columns, test_columns
    return columns_hold(shape, columns_at, done, count, tables, events, scratch), targets


@leaf
def check_flags(start: Any, tables: Any, scratch: Any) -> Any:
    """Check a section with up to four flag columns and nothing else; as `check_section`."""
    blob = tables.blob
    flag = scratch.flag
    survivor = scratch.survivor
    head = blob[Index(start)]
    n = head & ENTRY_MASK
    columns = head >> FLAG_SHIFT
    first = start + 1
    targets = first + columns * n
    count = 0
    if columns == 0:
        for entry in range(n):
            survivor[Index(entry)] = entry
        count = n
    elif columns == 1:
        for at in range(first, first + n):
            if flag[Index(blob[Index(at)])] != 0:
                survivor[Index(count)] = at - first
                count += 1
    elif columns == 2:
        for at in range(first, first + n):
            if flag[Index(blob[Index(at)])] != 0 and flag[Index(blob[Index(at + n)])] != 0:
                survivor[Index(count)] = at - first
                count += 1
    elif columns == 3:
        for at in range(first, first + n):
            if (
                flag[Index(blob[Index(at)])] != 0
                and flag[Index(blob[Index(at + n)])] != 0
                and flag[Index(blob[Index(at + 2 * n)])] != 0
            ):
                survivor[Index(count)] = at - first
                count += 1
    else:
        for at in range(first, first + n):
            holds = flag[Index(blob[Index(at)])] != 0 and flag[Index(blob[Index(at + n)])] != 0
            if (
                holds
                and flag[Index(blob[Index(at + 2 * n)])] != 0
                and flag[Index(blob[Index(at + 3 * n)])] != 0
            ):
                survivor[Index(count)] = at - first
                count += 1
    return count, targets


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
