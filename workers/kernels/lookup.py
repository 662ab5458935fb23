"""From one value to its label, in the way that suits the attribute's constants.

- SEARCH: binary search among the constants; always right.
- DIRECT: constants are integers close together: one read of a table by value.
- HASH: no predicate of the attribute compares by order, so all values that are no constant may share one
  gap label, the first; constants are found by hash and compared in full.

Which way is taken is decided by `workers.lookups`; labels are those of `shm.code_space`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.shm.code_space import FIRST_NUMBER_LABEL
from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.tables import Index
from pubsub_cluster.workers.kernels.text import (
    MIX_A,
    MIX_B,
    WORD_BYTES,
    hash_of,
    integer_of,
    same_tails,
    swapped,
    word_of,
)

SEARCH, DIRECT, HASH = 0, 1, 2
PREFIX_BYTES = 8
NO_CONSTANT = -1
BYTE_LEAST, BYTE_MOST = -128, 127
"""Where a DIRECT table has all integers of one byte, these need no look at its bounds."""
SIZE_SHIFT = 32
CONSTANT_MASK = (1 << SIZE_SHIFT) - 1
_PART_SCALE = 2.0**53


class NumberLookup(NamedTuple):
    """Number constants of A attributes and the tables to find them; positions are absolute, -1 for none."""

    number_method: Any  # int8[A]
    number_first: Any  # int64[A+1], the constants of an attribute
    number_whole: Any  # int64[]
    number_part: Any  # float64[]
    number_low: Any  # int64[A], DIRECT: the integer of the first place, below all constants
    number_table: Any  # int64[A+1], the part of `direct_label` or `number_slot`
    direct_label: Any  # int32[]
    number_slot: Any  # int32[]
    seed: Any  # uint64


class TextLookup(NamedTuple):
    """As `NumberLookup`, for texts."""

    text_method: Any  # int8[A]
    text_first: Any  # int64[A+1]
    text_base: Any  # int64[A], label of a text below all constants
    text_offset: Any  # int64[]
    text_bytes: Any  # uint8[]
    text_prefix: Any  # uint64[]
    text_table: Any  # int64[A+1], the part of `text_slot`, in slots
    text_slot: Any  # int64[2S]: word, then size << 32 | constant, or -1: most texts need no more memory
    seed: Any  # uint64


class Lookup(NamedTuple):
    """Both."""

    numbers: Any  # NumberLookup
    texts: Any  # TextLookup


@kernel
def prefix_of(data: Any, start: Any, end: Any) -> Any:
    """Return the first eight bytes of ``data[start:end]`` as a big-endian number, zero-padded."""
    return swapped(word_of(data, start, end))


@leaf
def compare_tails(a: Any, a_start: Any, a_end: Any, b: Any, b_start: Any, b_end: Any) -> Any:
    """Compare two texts that agree in their prefixes by the bytes after them; return -1, 0 or 1."""
    a_size = a_end - a_start
    b_size = b_end - b_start
    for at in range(PREFIX_BYTES, min(a_size, b_size)):
        x = a[a_start + at]
        y = b[b_start + at]
        if x != y:
            return -1 if x < y else 1
    if a_size == b_size:
        return 0
    return -1 if a_size < b_size else 1


@leaf
def _number_hash(whole: Any, part: Any, seed: Any) -> Any:
    found = (np.uint64(whole) ^ seed) * MIX_A
    if -1.0 < part < 1.0:
        found ^= np.uint64(np.int64(part * _PART_SCALE)) * MIX_B
    return (found ^ (found >> np.uint64(32))) * MIX_A


@leaf
def direct_label(numbers: Any, attribute: Any, whole: Any) -> Any:
    """Return the label of an integer of a DIRECT attribute."""
    low = numbers.number_low[attribute]
    table = numbers.number_table[attribute]
    high = low + (numbers.number_table[attribute + 1] - table - 1)
    return np.int64(numbers.direct_label[Index(table + (min(max(whole, low), high) - low))])


@leaf
def number_label(numbers: Any, attribute: Any, whole: Any, part: Any) -> Any:
    """Return the label of a number key."""
    first = numbers.number_first[attribute]
    stop = numbers.number_first[attribute + 1]
    method = numbers.number_method[attribute]
    if method == DIRECT:
        label = direct_label(numbers, attribute, whole)
        if part != 0.0 and (label - FIRST_NUMBER_LABEL) & 1:
            label += 1 if part > 0.0 else -1
        return label
    if method == HASH:
        table = numbers.number_table[attribute]
        mask = numbers.number_table[attribute + 1] - table - 1
        at = np.int64(_number_hash(whole, part, numbers.seed) >> np.uint64(33)) & mask
        found = numbers.number_slot[table + at]
        while found >= 0:
            if numbers.number_whole[found] == whole and numbers.number_part[found] == part:
                return np.int64(FIRST_NUMBER_LABEL + 2 * (found - first) + 1)
            at = (at + 1) & mask
            found = numbers.number_slot[table + at]
        return np.int64(FIRST_NUMBER_LABEL)
    lo = first
    hi = stop
    while lo < hi:
        mid = (lo + hi) >> 1
        constant = numbers.number_whole[mid]
        if constant < whole or (constant == whole and numbers.number_part[mid] < part):
            lo = mid + 1
        else:
            hi = mid
    label = np.int64(FIRST_NUMBER_LABEL + 2 * (lo - first))
    if lo < stop and numbers.number_whole[lo] == whole and numbers.number_part[lo] == part:
        label += 1
    return label


@leaf
def hashed_text(texts: Any, attribute: Any, data: Any, start: Any, stop: Any) -> Any:
    """Return the constant that equals the text ``data[start:stop]`` of a HASH attribute, -1 for none."""
    size = stop - start
    word = word_of(data, start, stop)
    table = texts.text_table[attribute]
    mask = texts.text_table[attribute + 1] - table - 1
    at = integer_of(hash_of(data, start, stop, word, texts.seed) >> np.uint64(33)) & mask
    known = texts.text_slot[Index(2 * (table + at) + 1)]
    while known >= 0:
        if texts.text_slot[Index(2 * (table + at))] == integer_of(word) and known >> SIZE_SHIFT == size:
            constant = known & CONSTANT_MASK
            if size <= WORD_BYTES or same_tails(
                texts.text_bytes, texts.text_offset[Index(constant)], data, start, size
            ):
                return constant
        at = (at + 1) & mask
        known = texts.text_slot[Index(2 * (table + at) + 1)]
    return np.int64(NO_CONSTANT)


@leaf
def text_label(texts: Any, attribute: Any, data: Any, start: Any, stop: Any) -> Any:
    """Return the label of the text ``data[start:stop]``."""
    first = texts.text_first[attribute]
    base = texts.text_base[attribute]
    if texts.text_method[attribute] == HASH:
        constant = hashed_text(texts, attribute, data, start, stop)
        return np.int64(base + 2 * (constant - first) + 1) if constant >= 0 else np.int64(base)
    prefix = swapped(word_of(data, start, stop))
    lo = first
    hi = texts.text_first[attribute + 1]
    while lo < hi:
        mid = (lo + hi) >> 1
        constant = texts.text_prefix[mid]
        if constant != prefix:
            order = -1 if constant < prefix else 1
        else:
            order = compare_tails(
                texts.text_bytes, texts.text_offset[mid], texts.text_offset[mid + 1], data, start, stop
            )
        if order == 0:
            return np.int64(base + 2 * (mid - first) + 1)
        if order < 0:
            lo = mid + 1
        else:
            hi = mid
    return np.int64(base + 2 * (lo - first))


@kernel
def fill_number_slots(attribute: Any, numbers: Any, slots: Any) -> Any:
    """Enter an attribute's number constants into its slots (int32, all -1); return the longest probe."""
    table = numbers.number_table[attribute]
    mask = numbers.number_table[attribute + 1] - table - 1
    longest = 0
    for constant in range(numbers.number_first[attribute], numbers.number_first[attribute + 1]):
        found = _number_hash(numbers.number_whole[constant], numbers.number_part[constant], numbers.seed)
        at = np.int64(found >> np.uint64(33)) & mask
        probes = 1
        while slots[table + at] >= 0:
            at = (at + 1) & mask
            probes += 1
        slots[table + at] = constant
        longest = max(longest, probes)
    return longest


@kernel
def fill_text_slots(attribute: Any, texts: Any, slots: Any) -> Any:
    """Enter an attribute's text constants into its slots (`text_slot`, all -1); return the longest probe."""
    table = texts.text_table[attribute]
    mask = texts.text_table[attribute + 1] - table - 1
    longest = 0
    for constant in range(texts.text_first[attribute], texts.text_first[attribute + 1]):
        start, stop = texts.text_offset[constant], texts.text_offset[constant + 1]
        word = word_of(texts.text_bytes, start, stop)
        found = hash_of(texts.text_bytes, start, stop, word, texts.seed)
        at = integer_of(found >> np.uint64(33)) & mask
        probes = 1
        while slots[2 * (table + at) + 1] >= 0:
            at = (at + 1) & mask
            probes += 1
        slots[2 * (table + at)] = integer_of(word)
        slots[2 * (table + at) + 1] = (stop - start) << SIZE_SHIFT | constant
        longest = max(longest, probes)
    return longest
