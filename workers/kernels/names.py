"""Names to numbers, inside the kernels: an open hash table of attribute names that learns new ones.

Every name that an event has gets a number, also those that no subscription mentions: so a repeated name is
seen by its stamp, and a name is checked once, when it is learned. The table never grows here: a kernel that
finds it full answers OVERFLOW, its caller grows the arrays and goes on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel, leaf, routine
from pubsub_cluster.workers.kernels.text import INVALID, hash_of, same_tails, utf8_class, word_of

NO_NAME, TABLE_FULL = -1, -2

# What `accepts` allows of the values of a name; nothing at all sends an event the long way.
ACCEPTS_BOOLEAN, ACCEPTS_INTEGER, ACCEPTS_FLOAT, ACCEPTS_TEXT, ACCEPTS_WHOLE_FLOAT = 1, 2, 4, 8, 16

NAME_COUNT, HEAP_USED, STAMP = 0, 1, 2


class NameArrays(NamedTuple):
    """The table; m names at most, a power of two of slots, at least 2m."""

    slot: Any  # int32[], number of a name or -1
    word: Any  # uint64[m]
    start: Any  # int64[m], in heap
    stop: Any  # int64[m]
    heap: Any  # uint8[]
    accepts: Any  # uint8[m]
    stamp: Any  # int64[m], the last event that had the name
    state: Any  # int64[3]: names, bytes of the heap used, last stamp given


class ScanRules(NamedTuple):
    """Limits and choices of a scan, all scalars."""

    name_size_max: Any
    text_size_max: Any
    entries_max: Any
    accepts: Any  # of names that are learned
    seed: Any  # uint64 of the hashes


@leaf
def find_place(names: Any, data: Any, start: Any, stop: Any, word: Any, seed: Any) -> Any:
    """Return the slot where ``data[start:stop]`` is or would be, given its word."""
    size = stop - start
    mask = names.slot.shape[0] - 1
    at = np.int64(hash_of(data, start, stop, word, seed) >> np.uint64(33)) & mask
    number = names.slot[at]
    while number >= 0:
        if (
            names.word[number] == word
            and names.stop[number] - names.start[number] == size
            and same_tails(names.heap, names.start[number], data, start, size)
        ):
            break
        at = (at + 1) & mask
        number = names.slot[at]
    return at


@leaf
def enter(names: Any, data: Any, start: Any, stop: Any, word: Any, at: Any) -> Any:
    """Give ``data[start:stop]`` the next number, in slot `at`; return it, or TABLE_FULL."""
    size = stop - start
    count = names.state[NAME_COUNT]
    used = names.state[HEAP_USED]
    if count >= names.word.shape[0] or used + size > names.heap.shape[0]:
        return np.int64(TABLE_FULL)
    for step in range(size):
        names.heap[used + step] = data[start + step]
    names.slot[at] = count
    names.word[count] = word
    names.start[count] = used
    names.stop[count] = used + size
    names.stamp[count] = -1
    names.state[NAME_COUNT] = count + 1
    names.state[HEAP_USED] = used + size
    return np.int64(count)


@routine
def learn_name(names: Any, data: Any, span: Any, word: Any, at: Any, rules: Any) -> Any:
    """Give the name ``data[start:stop]`` of a `span` a number, in slot `at`; as `name_number`."""
    start, stop = span
    size = stop - start
    if size == 0 or size > rules.name_size_max or utf8_class(data, start, stop) == INVALID:
        return np.int64(NO_NAME)
    number = enter(names, data, start, stop, word, at)
    if number >= 0:
        names.accepts[number] = rules.accepts
    return number


@leaf
def name_number(names: Any, data: Any, start: Any, stop: Any, rules: Any) -> Any:
    """Return the number of the name ``data[start:stop]``, learned if it is new; NO_NAME or TABLE_FULL."""
    word = word_of(data, start, stop)
    at = find_place(names, data, start, stop, word, rules.seed)
    if names.slot[at] >= 0:
        return np.int64(names.slot[at])
    return learn_name(names, data, (start, stop), word, at, rules)


@kernel
def number_names(names: Any, data: Any, offsets: Any, rules: Any, number: Any) -> None:
    """Find or learn the names ``data[offsets[i]:offsets[i + 1]]``; their numbers go to `number` int32[]."""
    for at in range(offsets.shape[0] - 1):
        number[at] = name_number(names, data, offsets[at], offsets[at + 1], rules)
