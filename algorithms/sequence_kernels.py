"""Kernels of a hash table whose keys are sequences of words (`sequence_table`).

`table` is ``(int32[slots] slots, int64[room + 1] starts, uint64[...] words, int64[1] count)``: a slot has the
number of a key or -1, open addressing with steps of one; key i is ``words[starts[i]:starts[i + 1]]``. Each
kernel has its plain twin in `sequence_reference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel, leaf

_SEED = np.uint64(0xCBF29CE484222325)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@leaf
def slot_of(table: Any, words: Any, begin: Any, size: Any) -> Any:
    """Return the slot of the key ``words[begin:begin + size]``, or the free one where it would be."""
    slots, starts, known, _ = table
    mixed = _SEED
    for at in range(begin, begin + size):
        mixed = (mixed ^ words[at]) * _FACTOR
        mixed ^= mixed >> _SHIFT
    slot = np.int64(mixed & np.uint64(slots.shape[0] - 1))
    while slots[slot] >= 0:
        first = starts[slots[slot]]
        if starts[slots[slot] + 1] - first == size:
            at = 0
            while at < size and known[first + at] == words[begin + at]:
                at += 1
            if at == size:
                return slot
        slot = (slot + 1) & (slots.shape[0] - 1)
    return slot


@kernel
def add_all(table: Any, words: Any, stops: Any, numbers: Any, begin: Any) -> Any:
    """Find the keys from `begin` on, or add them; return how far the room reached.

    Parameters
    ----------
    table : tuple
    words : uint64[...]
    stops : int64[keys + 1]
        Key i is ``words[stops[i]:stops[i + 1]]``.
    numbers : int32[keys]
        Their numbers (out).
    begin : int
    """
    slots, starts, known, count = table
    for at in range(begin, stops.shape[0] - 1):
        size = stops[at + 1] - stops[at]
        slot = slot_of(table, words, stops[at], size)
        if slots[slot] < 0:
            new = count[0]
            is_full = 2 * (new + 1) > slots.shape[0] or new + 1 >= starts.shape[0]
            if is_full or starts[new] + size > known.shape[0]:
                return at
            for place in range(size):
                known[starts[new] + place] = words[stops[at] + place]
            starts[new + 1] = starts[new] + size
            slots[slot] = new
            count[0] = new + 1
        numbers[at] = slots[slot]
    return stops.shape[0] - 1


@kernel
def enter_all(table: Any) -> Any:
    """Give all keys their slots; none has one yet."""
    slots, starts, known, count = table
    for key in range(count[0]):
        slots[slot_of(table, known, starts[key], starts[key + 1] - starts[key])] = key
    return 0
