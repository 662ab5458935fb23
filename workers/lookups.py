"""How each attribute's values find their labels: the choice, from its constants, and the tables for it.

Reported by `LookupChoice`, so that nobody has to guess what a layout does. A hash table whose longest probe
is long (constants can be crafted) is given up for binary search: labels never depend on the choice, except
that attributes without a comparison by order may have all their gaps in one (`kernels.lookup`).
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.shm.code_space import FIRST_NUMBER_LABEL, I4, I8, TEST_WIDTH, CodeSpaces
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import lookup as kernels

DIRECT_SIZE_MIN = 256
"""An integer table may have so many places whatever it holds, or `DIRECT_SPREAD` times its constants."""
DIRECT_SPREAD = 8
DIRECT_SIZE_MAX = 1 << 22
BYTE_PLACES = 256
"""A table grows by no more to have a place for every integer of one byte; all together: `BYTE_PLACES_MAX`."""
BYTE_PLACES_MAX = 1 << 18
HASH_COUNT_MIN = 5
"""Fewer constants are found as fast by binary search."""
PROBES_MAX = 64
_SEED = np.uint64(int.from_bytes(os.urandom(8), "little"))
_METHOD_NAMES = ("search", "direct", "hash")


class LookupChoice(NamedTuple):
    """How one attribute's values are looked up: ``search``, ``direct`` or ``hash``, by value kind."""

    numbers: str
    number_count: int
    texts: str
    text_count: int


def build_lookup(spaces: CodeSpaces, test: I4 | None = None) -> kernels.Lookup:
    """Return the tables for `spaces`.

    Parameters
    ----------
    spaces : CodeSpaces
    test : int32[4P], optional
        All label tests on these labels; without them every attribute is taken to be compared by order.
    """
    attribute_count = spaces.attribute_count
    ordered = np.ones((2, attribute_count), bool) if test is None else kinds_with_order(spaces, test)
    number_method, number_low, number_size = _number_methods(spaces, ordered[0])
    text_count = np.diff(spaces.text_start).astype(np.int64)
    text_method = np.where(~ordered[1] & (text_count >= HASH_COUNT_MIN), kernels.HASH, kernels.SEARCH)
    number_table = _starts(number_size)
    text_table = _starts(np.where(text_method == kernels.HASH, _slot_count(text_count), 0))
    number_count = np.diff(spaces.number_start).astype(np.int64)
    places = _number_places(spaces, number_method, number_low, number_table)
    slots = (places, np.full(2 * text_table[-1], -1, np.int64))
    numbers = kernels.NumberLookup(
        kernel_input(number_method, np.int8),
        kernel_input(spaces.number_start, np.int64),
        kernel_input(spaces.number_whole, np.int64),
        kernel_input(spaces.number_part, np.float64),
        kernel_input(number_low, np.int64),
        kernel_input(number_table, np.int64),
        kernel_input(places, np.int32),
        kernel_input(places, np.int32),  # an attribute has places of one kind only
        _SEED,
    )
    texts = kernels.TextLookup(
        kernel_input(text_method, np.int8),
        kernel_input(spaces.text_start, np.int64),
        kernel_input(FIRST_NUMBER_LABEL + 2 * number_count + 1, np.int64),
        kernel_input(spaces.text_offset, np.int64),
        kernel_input(spaces.text_bytes, np.uint8),
        kernel_input(spaces.text_prefix, np.uint64),
        kernel_input(text_table, np.int64),
        kernel_input(slots[1], np.int64),
        _SEED,
    )
    for attribute in np.flatnonzero(number_method == kernels.HASH).tolist():
        if kernels.fill_number_slots(attribute, numbers, slots[0]) > PROBES_MAX:
            number_method[attribute] = kernels.SEARCH
    for attribute in np.flatnonzero(text_method == kernels.HASH).tolist():
        if kernels.fill_text_slots(attribute, texts, slots[1]) > PROBES_MAX:
            text_method[attribute] = kernels.SEARCH
    return kernels.Lookup(
        numbers._replace(number_method=kernel_input(number_method, np.int8)),
        texts._replace(text_method=kernel_input(text_method, np.int8)),
    )


def kinds_with_order(spaces: CodeSpaces, test: I4) -> npt.NDArray[np.bool_]:
    """Return for which attributes some test tells one gap of a kind from another.

    For the others all values that are no constants behave alike: they may share one gap label.

    Parameters
    ----------
    spaces : CodeSpaces
    test : int32[4P]
        All tests on these labels.

    Returns
    -------
    bool[2, A]
        Numbers, texts.
    """
    attribute, lo, hi, reference = test.reshape(-1, TEST_WIDTH).astype(np.int64).T
    plain = (attribute >= 0) & (reference < 0) & (lo <= hi)
    attribute, lo, hi = attribute[plain], lo[plain], hi[plain]
    first_text = FIRST_NUMBER_LABEL + 2 * np.diff(spaces.number_start).astype(np.int64) + 1
    regions = (
        (np.full(spaces.attribute_count, FIRST_NUMBER_LABEL), first_text - 1),
        (first_text, np.diff(spaces.label_start) - 1),
    )
    found = np.zeros((2, spaces.attribute_count), bool)
    for kind, (first, last) in enumerate(regions):
        start, end = first[attribute], last[attribute]
        is_constant = (lo == hi) & ((lo - start) & 1 == 1)
        is_cut = ((start < lo) & (lo <= end)) | ((start <= hi) & (hi < end))
        found[kind, attribute[is_cut & ~is_constant]] = True
    return found


def choices_of(lookup: kernels.Lookup) -> list[LookupChoice]:
    """Return how each attribute is looked up, for reports."""
    columns = (
        lookup.numbers.number_method,
        np.diff(lookup.numbers.number_first),
        lookup.texts.text_method,
        np.diff(lookup.texts.text_first),
    )
    return [
        LookupChoice(_METHOD_NAMES[numbers], number_count, _METHOD_NAMES[texts], text_count)
        for numbers, number_count, texts, text_count in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _number_methods(spaces: CodeSpaces, is_ordered: npt.NDArray[np.bool_]) -> tuple[I8, I8, I8]:
    """Return method, integer of the first place, and table size per attribute."""
    attribute_count = spaces.attribute_count
    method = np.full(attribute_count, kernels.SEARCH, np.int64)
    low = np.zeros(attribute_count, np.int64)
    size = np.zeros(attribute_count, np.int64)
    first = spaces.number_start.astype(np.int64)
    count = np.diff(first)
    byte_places_left = BYTE_PLACES_MAX
    fractions = np.concatenate((np.zeros(1, np.int64), np.cumsum(spaces.number_part != 0.0)))
    for attribute in np.flatnonzero(count).tolist():
        start, stop = int(first[attribute]), int(first[attribute + 1])
        smallest, largest = int(spaces.number_whole[start]), int(spaces.number_whole[stop - 1])
        spread = largest - smallest + 1
        is_whole = fractions[stop] == fractions[start]
        can_pad = smallest > INT64_MIN and largest < INT64_MAX
        widest = min(max(DIRECT_SIZE_MIN, DIRECT_SPREAD * (stop - start)), DIRECT_SIZE_MAX)
        if is_whole and can_pad and spread <= widest:
            method[attribute] = kernels.DIRECT
            low[attribute], size[attribute], more = _direct_places(smallest, largest, byte_places_left)
            byte_places_left -= more
        elif not is_ordered[attribute] and stop - start >= HASH_COUNT_MIN:
            method[attribute] = kernels.HASH
            size[attribute] = int(_slot_count(np.array([stop - start]))[0])
    return method, low, size


def _direct_places(smallest: int, largest: int, byte_places_left: int) -> tuple[int, int, int]:
    """Return the integer of a table's first place, how many places it has, and how many of them are more.

    One place before the smallest and one after the largest stand for all beyond. Where constants are small,
    there is a place for every integer of one byte: columns of those are most of what publishers send.
    """
    low, high = smallest - 1, largest + 1
    least, most = min(low, kernels.BYTE_LEAST), max(high, kernels.BYTE_MOST)
    more = (most - least) - (high - low)
    if more > min(BYTE_PLACES, byte_places_left):
        return low, high - low + 1, 0
    return least, most - least + 1, more


def _number_places(spaces: CodeSpaces, method: I8, low: I8, table: I8) -> I4:
    """Return the labels of attributes by table, and free slots of those by hash."""
    label = np.full(int(table[-1]), -1, np.int32)
    for attribute in np.flatnonzero(method == kernels.DIRECT).tolist():
        first, stop = int(spaces.number_start[attribute]), int(spaces.number_start[attribute + 1])
        start, end = int(table[attribute]), int(table[attribute + 1])
        place = spaces.number_whole[first:stop] - low[attribute]
        is_constant = np.zeros(end - start, np.int32)
        is_constant[place] = 1
        # Constants up to and including a value count twice; a constant itself is one label below its gap.
        label[start:end] = FIRST_NUMBER_LABEL + 2 * np.cumsum(is_constant) - is_constant
    return label


def _slot_count(count: I8) -> I8:
    """Return a power of two of at least twice `count`."""
    found: I8 = np.int64(1) << np.ceil(np.log2(2 * np.maximum(count, 1))).astype(np.int64)
    return found


def _starts(size: I8) -> I8:
    start = np.zeros(len(size) + 1, np.int64)
    np.cumsum(size, out=start[1:])
    return start
