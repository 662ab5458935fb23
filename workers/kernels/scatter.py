"""What an event is, written into scratch: the digits of its part codes, then labels and flags.

Digits are what its keys are made of, labels and flags what residuals are decided by. They are written apart:
the keys of an event are computed while the one before is checked.

Several values, and the two cells of one value, are *options* of a part code, listed in
`Digits.option_digit`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import leaf, routine
from pubsub_cluster.workers.kernels.tables import (
    NO_DIGIT,
    SEVERAL,
    SEVERAL_DIGITS,
    Index,
)


@leaf
def point_of(attribute: Any, label: Any, points: Any) -> Any:
    """Return the point predicate of a label, -1 for none."""
    base = points.point_base[Index(attribute)]
    if base < 0:
        return np.int32(-1)
    return points.label_point[Index(base + label)]


@leaf
def slice_of(attribute: Any, label: Any, slices: Any) -> Any:
    """Return the slice of a label; the attribute has slices."""
    first = np.int64(slices.slice_start[attribute])
    lo = first
    hi = np.int64(slices.slice_start[attribute + 1])
    while hi - lo > 1:
        mid = (lo + hi) >> 1
        if slices.slice_label[Index(mid)] <= label:
            lo = mid
        else:
            hi = mid
    return lo - first


@leaf
def set_options(code: Any, first: Any, stop: Any, digits: Any) -> None:
    """Make ``option_digit[first:stop]`` the digits of a part code."""
    if stop - first == 1:
        digits.digit_of[code] = digits.option_digit[first]
    elif stop > first:
        digits.digit_of[code] = SEVERAL_DIGITS
        digits.option_start[code] = first
        digits.option_count[code] = stop - first


@routine
def list_points(attribute: Any, span: Any, room: Any, points: Any, entry_label: Any, digits: Any) -> Any:
    """List the points of the labels of the entries of `span`; return the next free option."""
    first, stop = span
    digits.digit_of[2 * attribute] = NO_DIGIT
    at = np.int64(room)
    for entry in range(first, stop):
        point = point_of(attribute, entry_label[entry], points)
        if point >= 0:
            digits.option_digit[at] = point
            at += 1
    set_options(2 * attribute, np.int64(room), at, digits)
    return at


@leaf
def list_cells(attribute: Any, span: Any, room: Any, slices: Any, entry_label: Any, digits: Any) -> Any:
    """List the distinct cells of the labels of the entries of `span`; return the next free option."""
    first, stop = span
    cell_count = np.int64(slices.slice_start[attribute + 1] - slices.slice_start[attribute] - 1)
    at = np.int64(room)
    for entry in range(first, stop):
        above = slice_of(attribute, entry_label[entry], slices)
        for cell in range(max(above - 1, 0), min(above + 1, cell_count)):
            known = False
            for option in range(room, at):
                known |= digits.option_digit[option] == cell
            if not known:
                digits.option_digit[at] = cell
                at += 1
    set_options(2 * attribute + 1, np.int64(room), at, digits)
    return at


@leaf
def list_options(event: Any, has_cells: Any, points: Any, slices: Any, entries: Any, digits: Any) -> None:
    """List the options of attributes with several values, and the cells of all."""
    entry_start, entry_attribute, entry_label = entries
    entry = entry_start[event]
    stop = entry_start[event + 1]
    room = np.int64(0)
    while entry < stop:
        first = entry
        attribute = np.int64(entry_attribute[Index(entry)])
        entry += 1
        while entry < stop and entry_attribute[Index(entry)] == attribute:
            entry += 1
        span = first, entry
        if entry - first > 1:
            room = list_points(attribute, span, room, points, entry_label, digits)
        if has_cells and slices.slice_start[attribute + 1] > slices.slice_start[attribute]:
            room = list_cells(attribute, span, room, slices, entry_label, digits)


@leaf
def write_digits(event: Any, points: Any, slices: Any, entries: Any, raised: Any, digits: Any) -> Any:
    """Write the digits of an event into scratch and list its points, for `raise_flags`.

    Parameters
    ----------
    event : int
    points, slices : Points, Slices
    entries : tuple
        `entry_start`, `entry_attribute` and `entry_label` of EventTables.
    raised : tuple of (int32[], int)
        Where the points are listed, and from which item on.
    digits : Digits

    Returns
    -------
    tuple of (int, bool)
        How many points there are, and whether no attribute has several values.
    """
    entry_start, entry_attribute, entry_label = entries
    raised_point, room = raised
    previous = np.int32(-1)
    has_cells = slices.slice_label.shape[0] != 0
    is_single = True
    count = np.int64(0)
    for entry in range(entry_start[event], entry_start[event + 1]):
        attribute = entry_attribute[Index(entry)]
        point = point_of(attribute, entry_label[Index(entry)], points)
        raised_point[Index(room + count)] = point
        count += 1 if point >= 0 else 0
        digits.digit_of[Index(2 * attribute)] = point
        is_single &= attribute != previous
        previous = attribute
    if has_cells or not is_single:
        list_options(event, has_cells, points, slices, entries, digits)
    return count, is_single


@leaf
def clear_digits(event: Any, entries: Any, part_codes: Any, digit_of: Any) -> None:
    """Undo `write_digits` of an event, -1 for whatever is there, as far as keys are made of it."""
    entry_start, entry_attribute, _ = entries
    if event < 0 or part_codes.shape[0] <= entry_start[event + 1] - entry_start[event]:
        for at in range(part_codes.shape[0]):
            digit_of[Index(part_codes[Index(at)])] = NO_DIGIT
    else:
        for entry in range(entry_start[event], entry_start[event + 1]):
            code = 2 * entry_attribute[Index(entry)]
            digit_of[Index(code)] = NO_DIGIT
            digit_of[Index(code + 1)] = NO_DIGIT


@leaf
def write_labels(span: Any, entry_attribute: Any, entry_label: Any, facts: Any) -> None:
    """Write the labels of the entries of `span` into scratch."""
    first, stop = span
    previous = np.int32(-1)
    for entry in range(first, stop):
        attribute = entry_attribute[Index(entry)]
        label = entry_label[Index(entry)]
        if attribute == previous:
            if facts.label_of[Index(attribute)] != SEVERAL:
                facts.several[Index(2 * attribute)] = entry - 1
            facts.several[Index(2 * attribute + 1)] = entry + 1
            label = np.int32(SEVERAL)
        facts.label_of[Index(attribute)] = label
        previous = attribute


@leaf
def clear_labels(span: Any, entry_attribute: Any, label_of: Any) -> None:
    """Undo `write_labels`."""
    first, stop = span
    for entry in range(first, stop):
        label_of[Index(entry_attribute[Index(entry)])] = 0


@leaf
def flag_points(raised: Any, pair: Any, flag_pair: Any) -> None:
    """Write `pair` to the flags of listed points: `raised` is (points, first item, how many)."""
    raised_point, room, count = raised
    for at in range(room, room + count):
        flag_pair[Index(raised_point[Index(at)])] = pair


@leaf
def flag_tests(event: Any, pair: Any, flags: Any, entries: Any, flag_pair: Any) -> None:
    """Write `pair` to the flags of the tests, other than points and bits, that hold for an event."""
    entry_start, entry_attribute, entry_label = entries
    for entry in range(entry_start[event], entry_start[event + 1]):
        base = flags.flag_base[Index(entry_attribute[Index(entry)])]
        if base >= 0:
            at = base + entry_label[Index(entry)]
            for number in range(flags.flag_start[Index(at)], flags.flag_start[Index(at + 1)]):
                flag_pair[Index(flags.flag_test[Index(number)])] = pair


@leaf
def set_flags(
    event: Any, entries: Any, bits: Any, attribute_point: Any, flags: Any, flag_pair: Any, pair: Any
) -> None:
    """Write `pair`, `PAIR_HOLDS` or `PAIR_FAILS`, to the flags that hold for an event, except points."""
    bit_start, bit = bits
    base = np.int64(attribute_point[attribute_point.shape[0] - 1])
    for at in range(bit_start[event], bit_start[event + 1]):
        flag_pair[base + bit[at]] = pair
    if flags.flag_test.shape[0] > 0:
        flag_tests(event, pair, flags, entries, flag_pair)


@leaf
def option_of(code: Any, number: Any, digits: Any) -> Any:
    """Return the `number`-th digit of a part code that has one or several."""
    digit = digits.digit_of[Index(code)]
    if digit >= 0:
        return digit
    return digits.option_digit[Index(digits.option_start[Index(code)] + number)]


@leaf
def option_count_of(code: Any, digits: Any) -> Any:
    """Return how many digits a part code has."""
    digit = digits.digit_of[Index(code)]
    if digit >= 0:
        return np.int32(1)
    return np.int32(0) if digit == NO_DIGIT else digits.option_count[Index(code)]


@leaf
def has_option(code: Any, digit: Any, digits: Any) -> Any:
    """Say whether a digit is among those of a part code."""
    found = False
    for option in range(option_count_of(code, digits)):
        found |= option_of(code, np.int64(option), digits) == digit
    return found
