"""Checks: which entries of a section hold, given the event in scratch (`shm.blob` has the form).

A flag literal is one byte load; an interval is compared with the attribute's label; anything else goes
through `literal_holds`. Only survivors of a column look at the next one; targets are read for survivors
alone. The columnar check is that of the papers' research report, section 2.2. Uniform columns are checked for
all entries, many at a time (`uniform`).

An attribute with several values has `label_of` = SEVERAL; then a positive test holds when some label
passes, and a negated literal when none does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import (
    ENTRY_MASK,
    FLAG_MASK,
    FLAG_SHIFT,
    HEAD_LABELS,
    HEAD_LONG,
    HEAD_NARROW,
    HEAD_RUNS,
    INTERVAL_MASK,
    INTERVAL_SHIFT,
    PROGRAM_HOLDS,
    TEST_MASK,
    TEST_SHIFT,
    UNIFORM_MASK,
    UNIFORM_SHIFT,
)
from pubsub_cluster.workers.kernels._jit import leaf, routine
from pubsub_cluster.workers.kernels.scatter import has_option, option_count_of, option_of
from pubsub_cluster.workers.kernels.tables import SEVERAL, Index
from pubsub_cluster.workers.kernels.uniform import any_inside, uniform_hold


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
def inside(code: Any, lo: Any, hi: Any, facts: Any, entry_label: Any) -> Any:
    """Say whether an interval holds; `code` is 2 * attribute + negated."""
    negated = (code & 1) == 1
    attribute = code >> 1
    label = facts.label_of[Index(attribute)]
    if label != SEVERAL:
        return ((lo <= label) & (label <= hi)) != negated
    first, stop = facts.several[2 * attribute], facts.several[2 * attribute + 1]
    return any_inside(np.int64(lo), np.int64(hi), first, stop, entry_label) != negated


@leaf
def interval_holds(column: Any, entry: Any, is_narrow: Any, blobs: Any, facts: Any, entry_label: Any) -> Any:
    """Say whether the interval of an entry holds, in the column at word `column` of the blob."""
    if is_narrow:
        half = Index(2 * column + 3 * entry)
        halves = blobs.half
        code, lo, hi = halves[half], halves[half + Index(1)], halves[half + Index(2)]
        return inside(np.int64(code), np.int64(lo), np.int64(hi), facts, entry_label)
    at = Index(column + 3 * entry)
    words = blobs.word
    # Words as they are: cast to int64, the whole kernel comes out a tenth slower, also where it checks none.
    return inside(words[at], words[at + Index(1)], words[at + Index(2)], facts, entry_label)


@leaf
def interval_words(entry_count: Any, is_narrow: Any) -> Any:
    """Return the words of an interval column."""
    return (3 * entry_count + 1) >> 1 if is_narrow else 3 * entry_count


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
def first_hold(shape: Any, at: Any, blobs: Any, given: Any, survivor: Any) -> Any:
    """List the entries that pass the first column at ``blob[at]`` in `survivor`.

    Parameters
    ----------
    shape : tuple of int
        Entry count, flag, interval and test columns, whether intervals are narrow.

    Returns
    -------
    int
        How many pass; all without columns.
    """
    entry_count, flag_columns, interval_columns, test_columns, is_narrow = shape
    tests, facts, entry_label = given
    blob = blobs.word
    count = 0
    if flag_columns == 0 and interval_columns > 0:
        for entry in range(entry_count):
            survivor[Index(count)] = entry
            count += 1 if interval_holds(at, entry, is_narrow, blobs, facts, entry_label) else 0
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
def columns_hold(shape: Any, at: Any, first: Any, count: Any, blobs: Any, given: Any, survivor: Any) -> Any:
    """Reduce `survivor` by the columns at ``blob[at]`` from number `first` on; return how many are left."""
    entry_count, flag_columns, interval_columns, test_columns, is_narrow = shape
    tests, facts, entry_label = given
    blob = blobs.word
    for column in range(first, flag_columns + interval_columns + test_columns):
        if count == 0:
            return 0
        kept = 0
        if flag_columns <= column < flag_columns + interval_columns:
            for number in range(count):
                entry = survivor[Index(number)]
                survivor[Index(kept)] = entry
                kept += 1 if interval_holds(at, entry, is_narrow, blobs, facts, entry_label) else 0
            at += interval_words(entry_count, is_narrow)
        elif column < flag_columns:
            for number in range(count):
                entry = survivor[Index(number)]
                survivor[Index(kept)] = entry
                kept += facts.flag[Index(blob[Index(at + entry)])]
            at += entry_count
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
def check_section(start: Any, blobs: Any, given: Any, kept: Any) -> Any:
    """Check a section of any shape; list the entries that hold in `survivor`.

    Parameters
    ----------
    start : int
        Word of its head.
    blobs : Blobs
    given : tuple
        Tests, Facts, and the labels of the batch's entries.
    kept : Kept

    Returns
    -------
    tuple of (int, int)
        How many hold, and the word of the first target. Digits are not compared.
    """
    blob, survivor = blobs.word, kept.survivor
    head = blob[start]
    entry_count = head & ENTRY_MASK
    flag_columns = (head >> FLAG_SHIFT) & FLAG_MASK
    uniform_columns = (head >> UNIFORM_SHIFT) & UNIFORM_MASK
    interval_columns = (head >> INTERVAL_SHIFT) & INTERVAL_MASK
    test_columns = (head >> TEST_SHIFT) & TEST_MASK
    is_narrow = (head & HEAD_NARROW) != 0
    at = start + 1
    if (head & HEAD_LONG) != 0:
        flag_columns = blob[at]
        uniform_columns = blob[at + 1]
        interval_columns = blob[at + 2]
        test_columns = blob[at + 3]
        at += 4
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
    elif uniform_columns > 0:
        _, facts, entry_label = given
        count, at = uniform_hold(at, (uniform_columns, entry_count), blobs, facts, entry_label, kept)
        columns_at = at
    else:
        shape = entry_count, flag_columns, interval_columns, test_columns, is_narrow
        count = first_hold(shape, at, blobs, given, survivor)
        done = 1
        first_words = interval_words(entry_count, is_narrow)
        columns_at += entry_count if flag_columns > 0 or interval_columns == 0 else first_words
    targets = at + (flag_columns + test_columns) * entry_count
    targets += interval_columns * interval_words(entry_count, is_narrow)
    if count == 0:
        return 0, targets
    shape = entry_count, flag_columns, interval_columns, test_columns, is_narrow
    return columns_hold(shape, columns_at, done, count, blobs, given, survivor), targets


@leaf
def check_flags(start: Any, blob: Any, flag: Any, survivor: Any) -> Any:
    """Check a section with flag columns and nothing else; as `check_section`.

    No branch on a flag: whether it holds is unpredictable, and a wrong guess costs as much as ten entries.
    """
    head = blob[Index(start)]
    n = head & ENTRY_MASK
    columns = (head >> FLAG_SHIFT) & FLAG_MASK
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
def program_holds(program: Any, programs: Any, given: Any) -> Any:
    """Run a Boolean program: its literals say step by step where to go on (`tuner.programs`)."""
    tests, facts, entry_label = given
    first = np.int64(programs.program_start[program])
    at = first
    while True:
        holds = literal_holds(programs.program_code[at], tests, facts, entry_label)
        following = np.int64(programs.program_code[at + 1 if holds else at + 2])
        if following < 0:
            return following == PROGRAM_HOLDS
        at = first + 3 * following
