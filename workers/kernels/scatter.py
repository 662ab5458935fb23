"""What an event is, written into scratch: labels, flags, and the digits of its part codes.

Several values, and the two cells of one value, are *options* of a part code, listed in
`Scratch.option_digit`.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.workers.kernels._jit import leaf
from pubsub_cluster.workers.kernels.tables import NO_DIGIT, SEVERAL, SEVERAL_DIGITS


@leaf
def point_of(attribute: Any, label: Any, tables: Any) -> Any:
    """Return the point predicate of a label, -1 for none."""
    base = tables.point_base[attribute]
    if base < 0:
        return -1
    return tables.label_point[base + label]


@leaf
def slice_of(attribute: Any, label: Any, tables: Any) -> Any:
    """Return the slice of a label; the attribute has slices."""
    lo = tables.slice_start[attribute]
    hi = tables.slice_start[attribute + 1]
    while hi - lo > 1:
        mid = (lo + hi) >> 1
        if tables.slice_label[mid] <= label:
            lo = mid
        else:
            hi = mid
    return lo - tables.slice_start[attribute]


@leaf
def set_options(code: Any, first: Any, stop: Any, scratch: Any) -> None:
    """Make ``option_digit[first:stop]`` the digits of a part code."""
    if stop - first == 1:
        scratch.digit_of[code] = scratch.option_digit[first]
    elif stop > first:
        scratch.digit_of[code] = SEVERAL_DIGITS
        scratch.option_start[code] = first
        scratch.option_count[code] = stop - first


@leaf
def list_points(first: Any, stop: Any, room: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """List the digits of the labels of entries [first, stop), one attribute; return the next free option."""
    attribute = events.entry_attribute[first]
    at = room
    for entry in range(first, stop):
        point = point_of(attribute, events.entry_label[entry], tables)
        if point >= 0:
            scratch.option_digit[at] = point - tables.attribute_point[attribute]
            at += 1
    set_options(2 * attribute, room, at, scratch)
    return at


@leaf
def list_cells(first: Any, stop: Any, room: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """List the distinct cells of the labels of entries [first, stop); return the next free option."""
    attribute = events.entry_attribute[first]
    cell_count = tables.slice_start[attribute + 1] - tables.slice_start[attribute] - 1
    at = room
    for entry in range(first, stop):
        above = slice_of(attribute, events.entry_label[entry], tables)
        for cell in range(max(above - 1, 0), min(above + 1, cell_count)):
            known = False
            for option in range(room, at):
                known |= scratch.option_digit[option] == cell
            if not known:
                scratch.option_digit[at] = cell
                at += 1
    set_options(2 * attribute + 1, room, at, scratch)
    return at


@leaf
def scatter(event: Any, tables: Any, events: Any, scratch: Any) -> None:
    """Write labels, digits and flags of one event into scratch."""
    flag = scratch.flag
    stop = events.entry_start[event + 1]
    entry = events.entry_start[event]
    room = 0
    while entry < stop:
        attribute = events.entry_attribute[entry]
        first = entry
        while entry < stop and events.entry_attribute[entry] == attribute:
            point = point_of(attribute, events.entry_label[entry], tables)
            if point >= 0:
                flag[2 * point] = 1
                flag[2 * point + 1] = 0
                scratch.digit_of[2 * attribute] = point - tables.attribute_point[attribute]
            entry += 1
        scratch.label_of[attribute] = events.entry_label[first]
        if entry - first > 1:
            scratch.label_of[attribute] = SEVERAL
            scratch.several[2 * attribute] = first
            scratch.several[2 * attribute + 1] = entry
            room = list_points(first, entry, room, tables, events, scratch)
        if tables.slice_start[attribute + 1] > tables.slice_start[attribute]:
            room = list_cells(first, entry, room, tables, events, scratch)
    bit_base = tables.attribute_point[tables.attribute_point.shape[0] - 1]
    for at in range(events.bit_start[event], events.bit_start[event + 1]):
        literal = 2 * (bit_base + events.bit[at])
        flag[literal] = 1
        flag[literal + 1] = 0


@leaf
def clear(event: Any, tables: Any, events: Any, scratch: Any) -> None:
    """Undo `scatter`."""
    for entry in range(events.entry_start[event], events.entry_start[event + 1]):
        attribute = events.entry_attribute[entry]
        point = point_of(attribute, events.entry_label[entry], tables)
        if point >= 0:
            scratch.flag[2 * point] = 0
            scratch.flag[2 * point + 1] = 1
        scratch.label_of[attribute] = 0
        scratch.digit_of[2 * attribute] = NO_DIGIT
        scratch.digit_of[2 * attribute + 1] = NO_DIGIT
    bit_base = tables.attribute_point[tables.attribute_point.shape[0] - 1]
    for at in range(events.bit_start[event], events.bit_start[event + 1]):
        literal = 2 * (bit_base + events.bit[at])
        scratch.flag[literal] = 0
        scratch.flag[literal + 1] = 1


@leaf
def option_of(code: Any, number: Any, scratch: Any) -> Any:
    """Return the `number`-th digit of a part code that has one or several."""
    digit = scratch.digit_of[code]
    if digit >= 0:
        return digit
    return scratch.option_digit[scratch.option_start[code] + number]


@leaf
def option_count_of(code: Any, scratch: Any) -> Any:
    """Return how many digits a part code has."""
    digit = scratch.digit_of[code]
    if digit >= 0:
        return 1
    return 0 if digit == NO_DIGIT else scratch.option_count[code]


@leaf
def has_option(code: Any, digit: Any, scratch: Any) -> Any:
    """Say whether a digit is among those of a part code."""
    found = False
    for option in range(option_count_of(code, scratch)):
        found |= option_of(code, option, scratch) == digit
    return found
