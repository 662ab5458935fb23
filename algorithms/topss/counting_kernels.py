"""Kernels of subscription evaluation by counting (`counting`), over three association tables.

Each takes the predicate bit vectors of events, adds to the hit vector, uint8[room], what the association
table says of each satisfied predicate, and compares it with the sizes, uint8[room]. `work` is
``(uint8[room] sizes, uint8[room] hits)``, of which the first `count` subscriptions are in use; `counters` is
int64[3] and grows by satisfied predicates, by cells, words or ids looked at, and by subscriptions compared.
All return the number of events, or the event at which `found` might not have had room for all subscriptions.
Each kernel has its plain twin in `reference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.text import trailing_zeros

WORD_BITS = 64


@leaf
def _report(sizes: Any, hits: Any, count: Any, found: Any, total: Any) -> Any:
    """Write the subscriptions all of whose predicates are satisfied; return where they end."""
    for subscription in range(count):
        found[total] = subscription
        total += 1 if hits[subscription] == sizes[subscription] else 0
    return total


@leaf
def _clear(hits: Any, count: Any) -> None:
    for subscription in range(count):
        hits[subscription] = 0


@kernel
def count_bytes(
    bits: Any, matrix: Any, work: Any, count: Any, found: Any, begin: Any, stops: Any, counters: Any
) -> Any:
    """Count over a byte matrix, uint8[predicates, room]: 1 where they belong together.

    Parameters
    ----------
    bits : uint8[rows, ceil(predicates / 8)]
    matrix : uint8[predicates, room]
    work, count, counters
        See the module.
    found : int32[...]
        Subscriptions (out).
    begin : int
        The first event to look at.
    stops : int64[rows + 1]
        Where each event's end in `found`; in up to ``stops[begin]``, out from there on.
    """
    sizes, hits = work
    for row in range(begin, bits.shape[0]):
        if stops[row] + count > found.shape[0]:
            return row
        _clear(hits, count)
        for place in range(8 * bits.shape[1]):
            if (bits[row, place >> 3] >> (place & 7)) & 1:
                counters[0] += 1
                counters[1] += count
                associated = matrix[place]
                for subscription in range(count):
                    hits[subscription] += associated[subscription]
        stops[row + 1] = _report(sizes, hits, count, found, stops[row])
        counters[2] += count
    return bits.shape[0]


@kernel
def count_bits(
    bits: Any, matrix: Any, work: Any, count: Any, found: Any, begin: Any, stops: Any, counters: Any
) -> Any:
    """Count over a bit matrix, uint64[predicates, room / 64]; see `count_bytes`.

    64 associations are looked at at once, and passed over where there is none.
    """
    sizes, hits = work
    words = (count + WORD_BITS - 1) // WORD_BITS
    for row in range(begin, bits.shape[0]):
        if stops[row] + count > found.shape[0]:
            return row
        _clear(hits, count)
        for place in range(8 * bits.shape[1]):
            if (bits[row, place >> 3] >> (place & 7)) & 1:
                counters[0] += 1
                counters[1] += words
                for at in range(words):
                    word = matrix[place, at]
                    while word != 0:
                        hits[WORD_BITS * at + np.int64(trailing_zeros(word))] += 1
                        word &= word - np.uint64(1)
        stops[row + 1] = _report(sizes, hits, count, found, stops[row])
        counters[2] += count
    return bits.shape[0]


@kernel
def count_lists(
    bits: Any, lists: Any, work: Any, count: Any, found: Any, begin: Any, stops: Any, counters: Any
) -> Any:
    """Count over lists, ``(int64[predicates, 3] slots, int32[...] ids)`` (`arena`); see `count_bytes`."""
    sizes, hits = work
    slots, ids = lists
    for row in range(begin, bits.shape[0]):
        if stops[row] + count > found.shape[0]:
            return row
        _clear(hits, count)
        for place in range(8 * bits.shape[1]):
            if (bits[row, place >> 3] >> (place & 7)) & 1:
                first = slots[place, 0]
                counters[0] += 1
                counters[1] += slots[place, 1]
                for at in range(first, first + slots[place, 1]):
                    hits[ids[at]] += 1
        stops[row + 1] = _report(sizes, hits, count, found, stops[row])
        counters[2] += count
    return bits.shape[0]


@kernel
def set_bytes(matrix: Any, numbers: Any, stops: Any, columns: Any) -> None:
    """Associate each of the subscriptions int64[n] with its predicates numbers[stops[i]:stops[i + 1]]."""
    for one in range(columns.shape[0]):
        for at in range(stops[one], stops[one + 1]):
            matrix[numbers[at], columns[one]] = 1


@kernel
def set_bits(matrix: Any, numbers: Any, stops: Any, columns: Any) -> None:
    """As `set_bytes`, in a bit matrix."""
    for one in range(columns.shape[0]):
        column = columns[one]
        bit = np.uint64(1) << np.uint64(column % WORD_BITS)
        for at in range(stops[one], stops[one + 1]):
            matrix[numbers[at], column // WORD_BITS] |= bit


@kernel
def append_all(
    arena: Any, numbers: Any, stops: Any, columns: Any, begin: Any, step: Any, counters: Any
) -> Any:
    """Append subscriptions to the lists of their predicates; a full list moves to the arena's end.

    Parameters
    ----------
    arena : (int64[lists, 3], int32[...], int64[1])
        See `arena.Arena`.
    numbers, stops, columns : int32[p], int64[n + 1], int64[n]
        See `set_bytes`.
    begin : int
        The first of the predicates to look at.
    step : int
        By how many ids a list grows; 0: to twice its room.
    counters : int64[1]
        Grows by the ids moved.

    Returns
    -------
    int
        p, or the predicate for whose list the arena had no room.
    """
    slots, ids, top = arena
    for one in range(columns.shape[0]):
        for at in range(max(begin, stops[one]), stops[one + 1]):
            number = numbers[at]
            first, size, room = slots[number, 0], slots[number, 1], slots[number, 2]
            if size == room:
                room = size + step if step > 0 else max(4, 2 * size)
                if top[0] + room > ids.shape[0]:
                    return at
                for moved in range(size):
                    ids[top[0] + moved] = ids[first + moved]
                counters[0] += size
                first = top[0]
                slots[number, 0], slots[number, 2] = first, room
                top[0] += room
            ids[first + size] = columns[one]
            slots[number, 1] = size + 1
    return numbers.shape[0]


@kernel
def remove_from(arena: Any, numbers: Any, column: Any) -> None:
    """Take a subscription out of the lists of its predicates int32[p]; the last id takes its place."""
    slots, ids, _ = arena
    for at in range(numbers.shape[0]):
        first, size = slots[numbers[at], 0], slots[numbers[at], 1]
        place = first
        while ids[place] != column:
            place += 1
        ids[place] = ids[first + size - 1]
        slots[numbers[at], 1] = size - 1


@kernel
def repack(arena: Any, packed: Any) -> Any:
    """Copy the lists of an arena, with their rooms, without gaps into int32[...]; return where they end."""
    slots, ids, _ = arena
    top = 0
    for number in range(slots.shape[0]):
        first = slots[number, 0]
        for at in range(slots[number, 1]):
            packed[top + at] = ids[first + at]
        slots[number, 0] = top
        top += slots[number, 2]
    return top
