"""The kernels of `predicate_kernels` once more, with the same signatures, plainly."""

from __future__ import annotations

import bisect
from typing import Any

from pubsub_cluster.algorithms.conjunctions import Comparison
from pubsub_cluster.algorithms.predicate_kernels import COMPARISONS, ROOM_LEAST


def satisfied_by(index: Any, row: Any, found: Any, counters: Any) -> int:
    """See `predicate_kernels.satisfied`; counts no probes."""
    slots, constants, ids, _ = index
    numbers = []
    for attribute, value in enumerate(row[: len(slots) // COMPARISONS].tolist()):
        for comparison in Comparison:
            begin, size, _ = slots[COMPARISONS * attribute + comparison]
            for at in range(begin, begin + size):
                holds = {
                    Comparison.LT: value < constants[at],
                    Comparison.LE: value <= constants[at],
                    Comparison.EQ: value == constants[at],
                    Comparison.NE: value == value and value != constants[at],
                    Comparison.GE: value >= constants[at],
                    Comparison.GT: value > constants[at],
                }
                if holds[comparison]:
                    numbers.append(ids[at])
    found[: len(numbers)] = numbers
    return len(numbers)


def intern(index: Any, slot: int, constant: float, number: int) -> int:
    """See `predicate_kernels.intern`."""
    slots, constants, ids, top = index
    begin, size, room = slots[slot].tolist()
    known = constants[begin : begin + size].tolist()
    if constant in known:
        return int(ids[begin + known.index(constant)])
    if size == room:
        wider = max(ROOM_LEAST, 2 * size)
        if top[0] + wider > len(constants):
            return -1
        moved = int(top[0])
        constants[moved : moved + size] = constants[begin : begin + size]
        ids[moved : moved + size] = ids[begin : begin + size]
        slots[slot] = moved, size, wider
        top[0] += wider
        begin = moved
    at = begin + bisect.bisect_left(known, constant)
    constants[at + 1 : begin + size + 1] = constants[at : begin + size].copy()
    ids[at + 1 : begin + size + 1] = ids[at : begin + size].copy()
    constants[at], ids[at] = constant, number
    slots[slot, 1] += 1
    return number


def known_until(index: Any, slot: Any, constant: Any, number: Any, begin: int) -> int:
    """See `predicate_kernels.known_until`."""
    slots, constants, ids, _ = index
    for at in range(begin, len(slot)):
        first, size, _ = slots[slot[at]].tolist() if slot[at] < len(slots) else (0, 0, 0)
        known = constants[first : first + size].tolist()
        if constant[at] not in known:
            return at
        number[at] = ids[first + known.index(constant[at])]
    return len(slot)


def forget(index: Any, slot: int, constant: float) -> None:
    """See `predicate_kernels.forget`."""
    slots, constants, ids, _ = index
    begin, size, _ = slots[slot].tolist()
    at = begin + constants[begin : begin + size].tolist().index(constant)
    constants[at : begin + size - 1] = constants[at + 1 : begin + size].copy()
    ids[at : begin + size - 1] = ids[at + 1 : begin + size].copy()
    slots[slot, 1] -= 1
