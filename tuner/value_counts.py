"""How often an attribute has which value: exact while its distinct values are few, else how many there are.

Counts of parts of the events merge into those of all, in whatever order and groups: an attribute is counted
exactly if and only if the distinct values of all parts together are few. Beyond that only the smallest hashes
of distinct values are kept, which say how many there are (Bar-Yossef et al., RANDOM 2002, with k smallest
values; the relative standard error is 1 / sqrt(k - 2)), and how values are distributed is left to a sample
of events (`tuner.frequencies`). No step runs Python for each value, only for each distinct text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    TextEntries,
    Value,
)
from pubsub_cluster.language.values import number_of_key
from pubsub_cluster.shm.code_space import F8, I8, U8
from pubsub_cluster.tuner.event_rows import text_list
from pubsub_cluster.tuner.interning import mixed

LARGE_WHOLE = 1 << 53
"""Below it a number key is the parts of one double, which is their sum."""

SPAN_MIN = 1 << 12
"""Integers within so many, or within as many as there are values, are counted without sorting them."""

LONG_TEXT_BYTES = 512
"""Longer texts are hashed one by one."""

_NUMBER, _PART, _TEXT, _WORD, _BOOLEAN = range(1, 6)  # salts
_WORD_BYTES = 8


class CountLimits(NamedTuple):
    """What is kept at most.

    Attributes
    ----------
    distinct : int
        Distinct values of an attribute that is counted exactly.
    text_bytes : int
        Bytes of its distinct texts.
    hashes : int
        Of distinct values, of an attribute that is not.
    events : int
        In the sample.
    """

    distinct: int = 4_096
    text_bytes: int = 1 << 20
    hashes: int = 1_024
    events: int = 8_192


class NumberCounts(NamedTuple):
    """Distinct numbers, ascending, and how often each occurs.

    Attributes
    ----------
    whole : int64[k]
    part : float64[k]
        Number keys.
    times : int64[k]
    """

    whole: I8
    part: F8
    times: I8


NO_NUMBERS = NumberCounts(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))


class Totals(NamedTuple):
    """Known exactly of every attribute.

    Attributes
    ----------
    present : int
        Events that have a value.
    false, true, numbers, texts : int
        Values by kind; together more than `present` where events have several.
    """

    present: int = 0
    false: int = 0
    true: int = 0
    numbers: int = 0
    texts: int = 0

    @property
    def values(self) -> int:
        """Values of all kinds."""
        return sum(self) - self.present


class AttributeCounts(NamedTuple):
    """What is known of the values of one attribute.

    Attributes
    ----------
    totals : Totals
    numbers : NumberCounts
    texts : dict of bytes to int
        Distinct values and how often each occurs; both empty where the attribute is not counted exactly.
    hashes : uint64[k] or None
        The smallest hashes of distinct values, ascending; None where it is counted exactly.
    """

    totals: Totals = Totals()
    numbers: NumberCounts = NO_NUMBERS
    texts: dict[bytes, int] = {}  # noqa: RUF012 -- never changed
    hashes: U8 | None = None

    @property
    def is_exact(self) -> bool:
        """Whether `numbers` and `texts` have every value."""
        return self.hashes is None

    def distinct_count(self, limits: CountLimits) -> int:
        """Return the number of distinct values; an estimate where the attribute is not counted exactly."""
        if self.hashes is None:
            booleans = (self.totals.false > 0) + (self.totals.true > 0)
            return len(self.numbers.whole) + len(self.texts) + booleans
        if len(self.hashes) < limits.hashes:
            return len(self.hashes)
        return round((limits.hashes - 1) * 2.0**64 / float(self.hashes[-1]))

    def distinct_values(self) -> tuple[AttributeEntries, I8]:
        """Return each distinct value once and how often each occurs, booleans, numbers, texts."""
        counts = [self.totals.false, self.totals.true]
        booleans = np.flatnonzero(counts)
        data = b"".join(self.texts)
        end = np.cumsum(np.fromiter(map(len, self.texts), np.int64, len(self.texts)))
        start = np.append(0, end)[:-1].astype(np.int64)
        whole, part, times = self.numbers
        entries = AttributeEntries(
            NumberEntries(np.zeros(len(whole), np.int32), whole, part),
            TextEntries(np.zeros(len(end), np.int32), start, end, np.frombuffer(data, np.uint8)),
            BooleanEntries(np.zeros(len(booleans), np.int32), booleans.astype(np.uint8)),
        )
        often = np.fromiter(self.texts.values(), np.int64, len(self.texts))
        return entries, np.concatenate((np.array(counts, np.int64)[booleans], times, often))


NO_VALUES = AttributeCounts()


def add_values(known: AttributeCounts, entries: AttributeEntries, limits: CountLimits) -> AttributeCounts:
    """Return `known` with the values that more events have."""
    numbers, texts, booleans = entries
    true_count = int(np.count_nonzero(booleans.value)) if booleans is not None else 0
    seen = AttributeCounts(
        Totals(
            _event_count(entries),
            len(booleans.event) - true_count if booleans is not None else 0,
            true_count,
            len(numbers.event) if numbers is not None else 0,
            len(texts.event) if texts is not None else 0,
        )
    )
    if known.hashes is not None:
        hashes = _hashes(entries)
        if len(known.hashes) == limits.hashes:
            hashes = hashes[hashes < known.hashes[-1]]
        return merge_values([known, seen._replace(hashes=hashes)], limits)
    if numbers is not None:
        seen = seen._replace(numbers=count_numbers(numbers.whole, numbers.part))
    too_many = len(seen.numbers.whole) > limits.distinct
    if texts is not None and not too_many:
        counted = count_texts(texts, limits.distinct)
        too_many = counted is None
        seen = seen._replace(texts=counted or {})
    if too_many:
        seen = seen._replace(numbers=NO_NUMBERS, texts={}, hashes=_smallest([_hashes(entries)], limits))
    return merge_values([known, seen], limits)


def merge_values(parts: Sequence[AttributeCounts], limits: CountLimits) -> AttributeCounts:
    """Return the counts of the events of all parts together."""
    totals = Totals(*map(sum, zip(*(part.totals for part in parts), strict=True)))
    if all(part.is_exact for part in parts):
        pieces = [part.numbers for part in parts if len(part.numbers.whole)]
        numbers = pieces[0] if len(pieces) == 1 else _merged_numbers(pieces)
        texts: dict[bytes, int] = {}
        for part in parts:
            for text, times in part.texts.items():
                texts[text] = texts.get(text, 0) + times
        merged = AttributeCounts(totals, numbers, texts)
        if len(numbers.whole) + len(texts) <= limits.distinct and sum(map(len, texts)) <= limits.text_bytes:
            return merged
        return AttributeCounts(totals, hashes=_smallest([_known_hashes(merged)], limits))
    return AttributeCounts(totals, hashes=_smallest([_known_hashes(part) for part in parts], limits))


def most_frequent(counts: AttributeCounts, count: int) -> list[tuple[Value, int]]:
    """Return the most frequent distinct values and how often each occurs; none where they are not known."""
    found: list[tuple[Value, int]] = [(False, counts.totals.false), (True, counts.totals.true)]
    if counts.hashes is not None:
        return []
    whole, part, times = counts.numbers
    best = np.argsort(-times, kind="stable")[:count]
    for at in best.tolist():
        found.append((number_of_key(int(whole[at]), float(part[at])), int(times[at])))
    texts = sorted(counts.texts.items(), key=lambda item: (-item[1], item[0]))[:count]
    found += [(text.decode(), often) for text, often in texts]
    return sorted((pair for pair in found if pair[1]), key=lambda pair: -pair[1])[:count]


def count_numbers(whole: I8, part: F8) -> NumberCounts:
    """Return the distinct numbers among keys and how often each occurs."""
    if not len(whole):
        return NO_NUMBERS
    low, high = int(whole.min()), int(whole.max())
    if not part.any():
        if high - low < max(SPAN_MIN, len(whole)):
            times = np.bincount(whole - low)
            at = np.flatnonzero(times)
            return NumberCounts(at + low, np.zeros(len(at)), times[at])
        distinct, times = np.unique(whole, return_counts=True)
        return NumberCounts(distinct, np.zeros(len(distinct)), times)
    if low > -LARGE_WHOLE and high < LARGE_WHOLE:
        values, times = np.unique(whole + part, return_counts=True)
        floor = np.trunc(values)
        return NumberCounts(floor.astype(np.int64), values - floor + 0.0, times)
    return _merged_numbers([NumberCounts(whole, part, np.ones(len(whole), np.int64))])


def _merged_numbers(pieces: Sequence[NumberCounts]) -> NumberCounts:
    if not pieces:
        return NO_NUMBERS
    whole, part, times = map(np.concatenate, zip(*pieces, strict=True))
    order = np.lexsort((part, whole))
    whole, part = whole[order], part[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (whole[1:] != whole[:-1]) | (part[1:] != part[:-1])
    return NumberCounts(whole[is_new], part[is_new], np.add.reduceat(times[order], np.flatnonzero(is_new)))


def count_texts(texts: TextEntries, distinct_max: int) -> dict[bytes, int] | None:
    """Return the distinct texts and how often each occurs; None when there are more than `distinct_max`.

    Texts with one 64-bit hash are taken for one.
    """
    hashes = text_hashes(texts)
    distinct, times = np.unique(hashes, return_counts=True)
    if len(distinct) > distinct_max:
        return None
    one = np.empty(len(distinct), np.int64)
    one[np.searchsorted(distinct, hashes)] = np.arange(len(hashes))  # any that has it
    picked = texts._replace(start=texts.start[one], end=texts.end[one])
    return dict(zip(text_list(picked), times.tolist(), strict=True))


def text_hashes(texts: TextEntries) -> U8:
    """Return a hash of every text: eight bytes of all texts at a time."""
    size = texts.end - texts.start
    found = mixed(size, _TEXT)
    data = np.zeros(len(texts.data) + _WORD_BYTES, np.uint8)
    data[: len(texts.data)] = texts.data
    words = np.ndarray(len(texts.data) + 1, "<u8", data.data, strides=(1,))  # one from each byte on
    row = np.flatnonzero((size > 0) & (size <= LONG_TEXT_BYTES))
    at = 0
    while len(row):
        word, left = words[texts.start[row] + at], size[row] - at
        short = left < _WORD_BYTES
        word[short] &= (np.uint64(1) << (8 * left[short]).astype(np.uint64)) - np.uint64(1)
        found[row] = mixed((found[row] ^ word).view(np.int64), _WORD)
        row, at = row[left > _WORD_BYTES], at + _WORD_BYTES
    for long in np.flatnonzero(size > LONG_TEXT_BYTES).tolist():
        text = texts.data[texts.start[long] : texts.end[long]].tobytes()
        found[long] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
    return found


def _hashes(entries: AttributeEntries) -> U8:
    """Return hashes of values of all kinds, repeats included."""
    numbers, texts, booleans = entries
    found = [np.zeros(0, np.uint64)]
    if numbers is not None:
        found.append(mixed(numbers.whole, _NUMBER) ^ mixed(numbers.part.view(np.int64), _PART))
    if texts is not None:
        found.append(text_hashes(texts))
    if booleans is not None:
        false, true = mixed(np.arange(2), _BOOLEAN)
        found.append(np.where(booleans.value != 0, true, false))
    return np.concatenate(found)


def _known_hashes(counts: AttributeCounts) -> U8:
    return _hashes(counts.distinct_values()[0]) if counts.hashes is None else counts.hashes


def _smallest(hashes: Sequence[U8], limits: CountLimits) -> U8:
    """Return the smallest distinct hashes."""
    return np.unique(np.concatenate(hashes))[: limits.hashes]


def _event_count(entries: AttributeEntries) -> int:
    """Return in how many events there are values; rows of one kind are in the order of events."""
    kinds = [kind.event for kind in entries if kind is not None and len(kind.event)]
    if len(kinds) == 1:
        event = kinds[0]
        return 1 + int(np.count_nonzero(event[1:] != event[:-1]))
    return len(np.unique(np.concatenate(kinds))) if kinds else 0
