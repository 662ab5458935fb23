"""What an event is, written into scratch: labels, flags, and the digits of its part codes.

Several values, and the two cells of one value, are *options* of a part code, listed in
`Scratch.option_digit`.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.workers.kernels._jit import leaf
from pubsub_cluster.workers.kernels.tables import (
    NO_DIGIT,
    PAIR_FAILS,
    PAIR_HOLDS,
    SEVERAL,
    SEVERAL_DIGITS,
    Index,
)


@leaf
def point_of(attribute: Any, label: Any, tables: Any) -> Any:
    """Return the point predicate of a label, -1 for none."""
    base = tables.point_base[Index(attribute)]
    if base < 0:
        return -1
    return tables.label_point[Index(base + label)]


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
            scratch.option_digit[at] = point
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
def scatter_several(first: Any, stop: Any, room: Any, tables: Any, events: Any, scratch: Any) -> Any:
    """Note that the entries [first, stop) are of one attribute; return the next free option."""
    attribute = events.entry_attribute[first]
    scratch.label_of[attribute] = SEVERAL
    scratch.several[2 * attribute] = first
    scratch.several[2 * attribute + 1] = stop
    scratch.digit_of[2 * attribute] = NO_DIGIT
    return list_points(first, stop, room, tables, events, scratch)


@leaf
def scatter_runs(event: Any, has_cells: Any, tables: Any, events: Any, scratch: Any) -> None:
    """List the options of attributes with several values, and the cells of all."""
    entry = events.entry_start[event]
    stop = events.entry_start[event + 1]
    room = 0
    while entry < stop:
        first = entry
        attribute = events.entry_attribute[Index(entry)]
        entry += 1
        while entry < stop and events.entry_attribute[Index(entry)] == attribute:
            entry += 1
        if entry - first > 1:
            room = scatter_several(first, entry, room, tables, events, scratch)
        if has_cells and tables.slice_start[attribute + 1] > tables.slice_start[attribute]:
            room = list_cells(first, entry, room, tables, events, scratch)


@leaf
def scatter(event: Any, tables: Any, events: Any, scratch: Any) -> None:
    """Write labels, digits and flags of one event into scratch."""
    previous = -1
    is_plain = tables.slice_label.shape[0] == 0
    has_cells = not is_plain
    for entry in range(events.entry_start[event], events.entry_start[event + 1]):
        attribute = events.entry_attribute[Index(entry)]
        label = events.entry_label[Index(entry)]
        point = point_of(attribute, label, tables)
        if point >= 0:
            scratch.flag_pair[Index(point)] = PAIR_HOLDS
        scratch.label_of[Index(attribute)] = label
        scratch.digit_of[Index(2 * attribute)] = point
        is_plain &= attribute != previous
        previous = attribute
    if not is_plain:
        scatter_runs(event, has_cells, tables, events, scratch)
    bit_base = tables.attribute_point[tables.attribute_point.shape[0] - 1]
    for at in range(events.bit_start[event], events.bit_start[event + 1]):
        scratch.flag_pair[bit_base + events.bit[at]] = PAIR_HOLDS


@leaf
def clear(event: Any, tables: Any, events: Any, scratch: Any) -> None:
    """Undo `scatter`."""
    for entry in range(events.entry_start[event], events.entry_start[event + 1]):
        attribute = events.entry_attribute[Index(entry)]
        code = Index(2 * attribute)
        point = scratch.digit_of[code]
        if point >= 0:
            scratch.flag_pair[Index(point)] = PAIR_FAILS
        elif point == SEVERAL_DIGITS:
            for option in range(scratch.option_count[code]):
                scratch.flag_pair[scratch.option_digit[scratch.option_start[code] + option]] = PAIR_FAILS
        scratch.label_of[Index(attribute)] = 0
        scratch.digit_of[code] = NO_DIGIT
        scratch.digit_of[Index(2 * attribute + 1)] = NO_DIGIT
    bit_base = tables.attribute_point[tables.attribute_point.shape[0] - 1]
    for at in range(events.bit_start[event], events.bit_start[event + 1]):
        scratch.flag_pair[bit_base + events.bit[at]] = PAIR_FAILS


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
