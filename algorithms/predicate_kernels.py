"""Kernels of the index of distinct predicates (`predicate_index`).

A *slot* holds the predicates of one attribute and comparison, sorted by constant, so that those which a value
satisfies are a prefix, a suffix, one, or all but one of them ("deduction", LESUB, fair predicate algorithm;
TOPSS section 3.2, inference). Slots lie in one arena, each with room to grow; a slot that is full moves to
the arena's end with twice the room.

`index` is ``(int64[slots, 3] slots, float64[arena] constants, int32[arena] ids, int64[1] top)``: a slot's row
is where it begins, how many predicates it has and has room for; slot ``6 * attribute + comparison``;
``top[0]`` is where the arena's unused end begins. Each kernel has its plain twin in `predicate_reference`.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.workers.kernels._jit import kernel, leaf

COMPARISONS = 6
LT, LE, EQ, NE, GE, GT = range(COMPARISONS)
ROOM_LEAST = 4


@leaf
def first_not_below(constants: Any, begin: Any, stop: Any, value: Any, probes: Any) -> Any:
    """Return the first place in the sorted ``constants[begin:stop]`` that is not below a value."""
    while begin < stop:
        middle = (begin + stop) >> 1
        probes[0] += 1
        if constants[middle] < value:
            begin = middle + 1
        else:
            stop = middle
    return begin


@leaf
def satisfied(index: Any, row: Any, found: Any, counters: Any) -> Any:
    """Write the ids of the predicates that an event satisfies; return how many.

    Parameters
    ----------
    index : tuple
    row : float64[attributes]
        NaN: the event has no value there. Attributes beyond the slots are passed over.
    found : int32[...]
        Ids (out), with room for all predicates.
    counters : int64[...]
        ``counters[0]`` grows by the constants that searching has looked at.
    """
    slots, constants, ids, _ = index
    count = 0
    for attribute in range(min(row.shape[0], slots.shape[0] // COMPARISONS)):
        value = row[attribute]
        if value != value:
            continue
        for comparison in range(COMPARISONS):
            slot = COMPARISONS * attribute + comparison
            begin, size = slots[slot, 0], slots[slot, 1]
            if size == 0:
                continue
            stop = begin + size
            place = first_not_below(constants, begin, stop, value, counters)
            after = place + 1 if place < stop and constants[place] == value else place
            # Each comparison holds for the places [from_, to) or, NE, for all but those.
            from_, to = place, after
            if comparison == LT:  # value < constant
                from_, to = after, stop
            elif comparison == LE:
                to = stop
            elif comparison == GE:
                from_ = begin
            elif comparison == GT:
                from_, to = begin, place
            elif comparison == NE:
                for at in range(begin, place):
                    found[count] = ids[at]
                    count += 1
                from_, to = after, stop
            for at in range(from_, to):
                found[count] = ids[at]
                count += 1
    return count


@kernel
def satisfied_by(index: Any, row: Any, found: Any, counters: Any) -> Any:
    """See `satisfied`, for callers that are not compiled."""
    return satisfied(index, row, found, counters)


@leaf
def _make_room(index: Any, slot: Any) -> Any:
    """Give a full slot twice the room; return False if the arena has none."""
    slots, constants, ids, top = index
    begin, size = slots[slot, 0], slots[slot, 1]
    room = max(ROOM_LEAST, 2 * size)
    if top[0] + room > constants.shape[0]:
        return False
    moved = top[0]
    for at in range(size):
        constants[moved + at], ids[moved + at] = constants[begin + at], ids[begin + at]
    slots[slot, 0], slots[slot, 2] = moved, room
    top[0] = moved + room
    return True


@kernel
def intern(index: Any, slot: Any, constant: Any, number: Any) -> Any:
    """Return the id of a predicate, which becomes `number` if it is not there; -1: the arena is full."""
    slots, constants, ids, _ = index
    begin, size = slots[slot, 0], slots[slot, 1]
    low, high = begin, begin + size
    while low < high:
        middle = (low + high) >> 1
        if constants[middle] < constant:
            low = middle + 1
        else:
            high = middle
    if low < begin + size and constants[low] == constant:
        return ids[low]
    if size == slots[slot, 2]:
        if not _make_room(index, slot):
            return -1
        low += slots[slot, 0] - begin
        begin = slots[slot, 0]
    for at in range(begin + size, low, -1):
        constants[at], ids[at] = constants[at - 1], ids[at - 1]
    constants[low], ids[low] = constant, number
    slots[slot, 1] = size + 1
    return number


@kernel
def known_until(index: Any, slot: Any, constant: Any, number: Any, begin: Any) -> Any:
    """Write the ids of predicates from `begin` on; return the place of the first that is not there.

    Parameters
    ----------
    index : tuple
    slot : int64[k]
        May lie beyond the slots.
    constant : float64[k]
    number : int32[k]
        Ids (out).
    begin : int
    """
    slots, constants, ids, _ = index
    for at in range(begin, slot.shape[0]):
        if slot[at] >= slots.shape[0]:
            return at
        low = slots[slot[at], 0]
        high = stop = low + slots[slot[at], 1]
        while low < high:
            middle = (low + high) >> 1
            if constants[middle] < constant[at]:
                low = middle + 1
            else:
                high = middle
        if low == stop or constants[low] != constant[at]:
            return at
        number[at] = ids[low]
    return slot.shape[0]


@kernel
def forget(index: Any, slot: Any, constant: Any) -> Any:
    """Take a predicate that is there out of its slot."""
    slots, constants, ids, _ = index
    begin, size = slots[slot, 0], slots[slot, 1]
    at = begin
    while constants[at] != constant:
        at += 1
    for place in range(at, begin + size - 1):
        constants[place], ids[place] = constants[place + 1], ids[place + 1]
    slots[slot, 1] = size - 1
