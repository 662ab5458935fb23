"""Bits: the predicates that are no interval of labels, evaluated outside the kernels.

Text predicates (`contains`, `like`, `matches`, ...) are evaluated once per distinct value: a cache, bounded
by count and by bytes, remembers which bits a text sets. Predicates on any attribute look at the texts of
all attributes. A comparison of two attributes joins the entries of both on the event: it holds when some
pair of values of one kind compares so; numbers compare by their keys, booleans for equality only.

A predicate's bit is set for an event when some value satisfies it; a negated literal reads the complement.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pubsub_cluster.language.predicate import Predicate, PredicateKind
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch, TextEntries
from pubsub_cluster.language.text_match import compile_text
from pubsub_cluster.shm.code_space import I4, I8

CACHE_TEXTS_MAX = 65_536
PAIRS_MAX = 1 << 20
CACHE_SIZE_BYTES_MAX = 8 << 20

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _TextGroup:
    """The text predicates of one attribute, or of any, with the cache of their results."""

    def __init__(self) -> None:
        self.tests: list[tuple[int, Callable[[str], bool]]] = []
        self._cache: dict[bytes, tuple[int, ...]] = {}
        self._cache_size_bytes = 0

    def bits_of(self, text: bytes) -> tuple[int, ...]:
        """Return the bits that `text` sets."""
        found = self._cache.get(text)
        if found is None:
            value = text.decode()
            found = tuple(bit for bit, test in self.tests if test(value))
            if (
                len(self._cache) >= CACHE_TEXTS_MAX
                or self._cache_size_bytes + len(text) > CACHE_SIZE_BYTES_MAX
            ):
                self._cache.clear()
                self._cache_size_bytes = 0
            self._cache[text] = found
            self._cache_size_bytes += len(text) + 8 * len(found)
        return found


class TextBits:
    """Evaluates bit predicates over batches.

    Parameters
    ----------
    predicates : sequence of Predicate
        Kinds TEXT and COMPARE; the position is the bit.
    """

    def __init__(self, predicates: Sequence[Predicate]) -> None:
        self.bit_count = len(predicates)
        self._groups: dict[str | None, _TextGroup] = {}
        self._comparisons: list[tuple[int, Predicate]] = []
        for bit, predicate in enumerate(predicates):
            if predicate.kind == PredicateKind.COMPARE:
                self._comparisons.append((bit, predicate))
            else:
                group = self._groups.setdefault(predicate.attribute, _TextGroup())
                group.tests.append((bit, compile_text(predicate)))

    def evaluate(self, raw: RawBatch) -> tuple[I8, I4]:
        """Return the set bits of every event.

        Returns
        -------
        bit_start : int64[n+1]
        bit : int32[]
            Ascending and distinct within an event.
        """
        keys: list[int] = []
        width = max(self.bit_count, 1)
        for name, group in self._groups.items():
            columns = raw.attributes.values() if name is None else [raw.attributes.get(name)]
            for entries in columns:
                if entries is not None and entries.texts is not None:
                    _add_text_bits(entries.texts, group, width, keys)
        parts = [np.array(keys, np.int64)]
        for bit, predicate in self._comparisons:
            events = compared_events(raw, predicate)
            parts.append(events.astype(np.int64) * width + bit)
        found = np.unique(np.concatenate(parts))
        bit_start = np.searchsorted(found, np.arange(raw.event_count + 1, dtype=np.int64) * width)
        return bit_start.astype(np.int64), (found % width).astype(np.int32)


def _add_text_bits(texts: TextEntries, group: _TextGroup, width: int, keys: list[int]) -> None:
    data = texts.data.data
    for event, start, end in zip(texts.event.tolist(), texts.start.tolist(), texts.end.tolist(), strict=True):
        bits = group.bits_of(bytes(data[start:end]))
        if bits:
            base = event * width
            keys += [base + bit for bit in bits]


def compared_events(raw: RawBatch, predicate: Predicate) -> I4:
    """Return the events for which a COMPARE predicate holds; an event may occur several times.

    Pairs of values are looked at in blocks: two attributes with thousands of values each in every event
    must not take memory for all pairs at once.
    """
    left = raw.attributes.get(str(predicate.attribute), AttributeEntries())
    right = raw.attributes.get(str(predicate.other), AttributeEntries())
    compare = _COMPARISONS[predicate.text_operator]
    parts = [np.zeros(0, np.int32)]
    if left.numbers is not None and right.numbers is not None:
        x, y = left.numbers, right.numbers
        for a, b in _pairs(x.event, y.event):
            same = x.whole[a] == y.whole[b]
            order = np.where(same, _order(x.part[a], y.part[b]), _order(x.whole[a], y.whole[b]))
            parts.append(np.unique(x.event[a][compare(order, 0)]))
    if left.booleans is not None and right.booleans is not None and predicate.text_operator in ("=", "!="):
        one, two = left.booleans, right.booleans
        for a, b in _pairs(one.event, two.event):
            parts.append(np.unique(one.event[a][compare(one.value[a] != 0, two.value[b] != 0)]))
    if left.texts is not None and right.texts is not None:
        for a, b in _pairs(left.texts.event, right.texts.event):
            holds = [
                bool(compare(_text(left.texts, i), _text(right.texts, j)))
                for i, j in zip(a.tolist(), b.tolist(), strict=True)
            ]
            parts.append(np.unique(left.texts.event[a][np.array(holds, bool)]))
    return np.concatenate(parts)


def _order(x: Any, y: Any) -> Any:
    """Return -1, 0 or 1 where x is below, equal to or above y; exact, without a difference that overflows."""
    return (x > y).astype(np.int8) - (x < y).astype(np.int8)


def _text(texts: TextEntries, row: int) -> bytes:
    return texts.data[texts.start[row] : texts.end[row]].tobytes()


def _pairs(left_event: I4, right_event: I4) -> Iterator[tuple[I8, I8]]:
    """Yield all pairs of rows that belong to one event, in blocks of about `PAIRS_MAX`."""
    first = np.searchsorted(right_event, left_event, "left")
    count = np.searchsorted(right_event, left_event, "right") - first
    block = np.cumsum(count) // PAIRS_MAX
    for rows in np.split(np.arange(len(left_event)), np.flatnonzero(np.diff(block)) + 1):
        mine = count[rows]
        left = np.repeat(rows, mine)
        right = np.arange(len(left)) - np.repeat(np.cumsum(mine) - mine, mine) + np.repeat(first[rows], mine)
        yield left, right
