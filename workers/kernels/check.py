"""Checks: which entries of a section hold, given the event in scratch (`shm.blob` has the form).

A flag literal is one byte load; an interval is compared with the attribute's label; anything else goes
through `literal_holds`. Only survivors of a column look at the next one; targets are read for survivors
alone. The columnar check is that of the papers' research report, section 2.2.

An attribute with several values has `label_of` = SEVERAL; then a positive test holds when some label
passes, and a negated literal when none does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
from pubsub_cluster.workers.kernels._jit import leaf, routine
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
def literal_holds(literal: Any, tests: Any, facts: Any, entry_label: Any) -> Any:
    """Say whether a literal holds for the event in scratch."""
    if literal < facts.flag.shape[0]:
        return facts.flag[Index(literal)] != 0
    test = tests.predicate_test
    at = (literal >> 1) << 2
    attribute = test[at]
    negated = (literal & 1) == 1
    label = facts.label_of[attribute]
    if label != SEVERAL:
        return label_passes(label, test, at, tests.set_start, tests.set_label) != negated
    for entry in range(facts.several[2 * attribute], facts.several[2 * attribute + 1]):
        if label_passes(entry_label[entry], test, at, tests.set_start, tests.set_label):
            return not negated
    return negated


@leaf
def interval_holds(at: Any, blob: Any, facts: Any, entry_label: Any) -> Any:
    """Say whether the interval at ``blob[at:at + 3]`` holds."""
    code = blob[Index(at)]
    lo = blob[Index(at + 1)]
    hi = blob[Index(at + 2)]
    negated = (code & 1) == 1
    attribute = code >> 1
    label = facts.label_of[Index(attribute)]
    if label != SEVERAL:
        return ((lo <= label) & (label <= hi)) != negated
    for entry in range(facts.several[2 * attribute], facts.several[2 * attribute + 1]):
        if lo <= entry_label[entry] <= hi:
            return not negated
    return negated


@routine
def digits_match(at: Any, table: Any, combination: Any, blob: Any, parts: Any, digits: Any) -> Any:
    """Say whether the digits at ``blob[at]`` are those of a table's combination, or -1: of any."""
    rest = np.int64(combination)
    for part in range(parts.table_part[table], parts.table_part[table + 1]):
        code = parts.part_code[part]
        digit = blob[at]
        if rest < 0:
            if not has_option(code, digit, digits):
                return False
        else:
            options = option_count_of(code, digits)
            if option_of(code, rest % options, digits) != digit:
                return False
            rest //= options
        at += 1
    return True


@leaf
def runs_hold(at: Any, run_count: Any, blob: Any, given: Any, survivor: Any) -> Any:
    """List the entries of the runs whose literal holds in `survivor`; return how many."""
    tests, facts, entry_label = given
    count = 0
    first = 0
    for run in range(at, at + run_count):
        stop = blob[run + run_count]
        if literal_holds(blob[run], tests, facts, entry_label):
            for entry in range(first, stop):
                survivor[count] = entry
                count += 1
        first = stop
    return count


@leaf
def first_hold(shape: Any, at: Any, blob: Any, given: Any, survivor: Any) -> Any:
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
    tests, facts, entry_label = given
    count = 0
    if flag_columns == 0 and interval_columns > 0:
        for entry in range(entry_count):
            survivor[Index(count)] = entry
            count += 1 if interval_holds(at + 3 * entry, blob, facts, entry_label) else 0
    elif flag_columns + test_columns > 0:
        for entry in range(entry_count):
            survivor[Index(count)] = entry
            literal = blob[Index(at + entry)]
            count += 1 if literal_holds(literal, tests, facts, entry_label) else 0
    else:
        for entry in range(entry_count):
            survivor[Index(entry)] = entry
        count = entry_count
    return count


@leaf
def columns_hold(shape: Any, at: Any, first: Any, count: Any, blob: Any, given: Any, survivor: Any) -> Any:
    """Reduce `survivor` by the columns at ``blob[at]`` from number `first` on; return how many are left."""
    entry_count, flag_columns, interval_columns, test_columns = shape
    tests, facts, entry_label = given
    for column in range(first, flag_columns + interval_columns + test_columns):
        if count == 0:
            return 0
        kept = 0
        if flag_columns <= column < flag_columns + interval_columns:
            for number in range(count):
                entry = survivor[Index(number)]
                survivor[Index(kept)] = entry
                kept += 1 if interval_holds(at + 3 * entry, blob, facts, entry_label) else 0
            at += 3 * entry_count
        else:
            previous = -1
            holds = False
            for number in range(count):
                entry = survivor[Index(number)]
                literal = blob[Index(at + entry)]
                if literal != previous:
                    holds = literal_holds(literal, tests, facts, entry_label)
                    previous = literal
                survivor[Index(kept)] = entry
                kept += 1 if holds else 0
            at += entry_count
        count = kept
    return count


@leaf
def targets_of(start: Any, blob: Any) -> Any:
    """Return the word of the first target of a section."""
    head = blob[start]
    flag_columns = np.int64((head >> FLAG_SHIFT) & COUNT_MASK)
    interval_columns = np.int64((head >> INTERVAL_SHIFT) & COUNT_MASK)
    test_columns = np.int64((head >> TEST_SHIFT) & COUNT_MASK)
    at = np.int64(start) + 1
    if (head & HEAD_LONG) != 0:
        flag_columns, interval_columns, test_columns = blob[at], blob[at + 1], blob[at + 2]
        at += 3
    if (head & HEAD_LABELS) != 0:
        at += 1 + blob[at]
    columns = flag_columns + 3 * interval_columns + test_columns
    if (head & HEAD_RUNS) != 0:
        at += 1 + 2 * blob[at]
        columns -= 1
    return at + columns * (head & ENTRY_MASK)


@leaf
def check_section(start: Any, blob: Any, given: Any, survivor: Any) -> Any:
    """Check a section of any shape; list the entries that hold in `survivor`.

    Parameters
    ----------
    start : int
        Word of its head.
    blob : int32[]
    given : tuple
        Tests, Facts, and the labels of the batch's entries.
    survivor : int32[]

    Returns
    -------
    tuple of (int, int)
        How many hold, and the word of the first target. Digits are not compared.
    """
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
    if (head & HEAD_LABELS) != 0:
        at += 1 + blob[at]
    count: Any = np.int64(0)
    done: Any = np.int64(0)
    columns_at = at
    if (head & HEAD_RUNS) != 0:
        run_count = blob[at]
        count = runs_hold(at + 1, run_count, blob, given, survivor)
        at += 1 + 2 * run_count
        columns_at = at
        if flag_columns > 0:
            flag_columns -= 1
        else:
            test_columns -= 1
    else:
        shape = entry_count, flag_columns, interval_columns, test_columns
        count = first_hold(shape, at, blob, given, survivor)
        done = 1
        columns_at += entry_count if flag_columns > 0 or interval_columns == 0 else 3 * entry_count
    targets = at + (flag_columns + 3 * interval_columns + test_columns) * entry_count
    if count == 0:
        return 0, targets
    shape = entry_count, flag_columns, interval_columns, test_columns
    return columns_hold(shape, columns_at, done, count, blob, given, survivor), targets


@leaf
def check_flags(start: Any, blob: Any, flag: Any, survivor: Any) -> Any:
    """Check a section with flag columns and nothing else; as `check_section`.

    No branch on a flag: whether it holds is unpredictable, and a wrong guess costs as much as ten entries.
    """
    head = blob[Index(start)]
    n = head & ENTRY_MASK
    columns = head >> FLAG_SHIFT
    at = start + 1
    targets = at + columns * n
    count = np.int64(0)
    if columns == 0:
        for entry in range(n):
            survivor[Index(entry)] = entry
        return np.int64(n), targets
    for entry in range(n):
        survivor[Index(count)] = entry
        count += flag[Index(blob[Index(at + entry)])]
    for _ in range(1, columns):
        if count == 0:
            break
        at += n
        kept = np.int64(0)
        for number in range(count):
            entry = survivor[Index(number)]
            survivor[Index(kept)] = entry
            kept += flag[Index(blob[Index(at + entry)])]
        count = kept
    return count, targets


@routine
def program_holds(program: Any, programs: Any, given: Any, stack: Any) -> Any:
    """Evaluate a Boolean program: a literal pushes, -2n is the AND of n values, -2n - 1 their OR."""
    tests, facts, entry_label = given
    depth = 0
    for at in range(programs.program_start[program], programs.program_start[program + 1]):
        code = programs.program_code[at]
        if code >= 0:
            stack[depth] = 1 if literal_holds(code, tests, facts, entry_label) else 0
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
