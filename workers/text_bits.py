"""Bits: the predicates that are no interval of labels, evaluated outside the kernels.

Text predicates (`contains`, `like`, `matches`, ...) are evaluated once per distinct value
(`workers.text_cache`). Predicates on any attribute look at the texts of
all attributes. A comparison of two attributes joins the entries of both on the event: it holds when some
pair of values of one kind compares so; numbers compare by their keys, booleans for equality only.

A predicate's bit is set for an event when some value satisfies it; a negated literal reads the complement.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pubsub_cluster.language.predicate import Predicate, PredicateKind
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch, TextEntries
from pubsub_cluster.language.text_match import compile_text
from pubsub_cluster.shm.code_space import I4, I8
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.text_cache import TextCache

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class TextBits:
    """Evaluates bit predicates over batches.

    Parameters
    ----------
    predicates : sequence of Predicate
        Kinds TEXT and COMPARE; the position is the bit.
    """

    def __init__(self, predicates: Sequence[Predicate]) -> None:
        self.bit_count = len(predicates)
        self._groups: dict[str | None, TextCache] = {}
        self._comparisons: list[tuple[int, Predicate]] = []
        for bit, predicate in enumerate(predicates):
            if predicate.kind == PredicateKind.COMPARE:
                self._comparisons.append((bit, predicate))
            else:
                group = self._groups.setdefault(predicate.attribute, TextCache())
                group.tests.append((bit, compile_text(predicate)))

    def evaluate(self, raw: RawBatch) -> tuple[I8, I4]:
        """Return the set bits of every event.

        Returns
        -------
        bit_start : int64[n+1]
        bit : int32[]
            Ascending and distinct within an event.
        """
        return self._evaluate(raw.event_count, lambda name: _texts_of_raw(raw, name), lambda: raw)

    def evaluate_batch(self, batch: EventBatch) -> tuple[I8, I4]:
        """As `evaluate`; values by attribute are asked for only when attributes are compared."""
        return self._evaluate(batch.event_count, batch.texts_of, lambda: batch.raw)

    def _evaluate(
        self,
        event_count: int,
        texts_of: Callable[[str | None], Iterable[TextEntries]],
        raw_of: Callable[[], RawBatch],
    ) -> tuple[I8, I4]:
        width = max(self.bit_count, 1)
        parts = [np.zeros(0, np.int64)]
        for name, cache in self._groups.items():
            parts += [cache.keys_of(texts, width) for texts in texts_of(name)]
        for bit, predicate in self._comparisons:
            events = compared_events(raw_of(), predicate)
            parts.append(events.astype(np.int64) * width + bit)
        found = np.unique(np.concatenate(parts))
        bit_start = np.searchsorted(found, np.arange(event_count + 1, dtype=np.int64) * width)
        return bit_start.astype(np.int64), (found % width).astype(np.int32)


def _texts_of_raw(raw: RawBatch, name: str | None) -> Iterable[TextEntries]:
    columns = raw.attributes.values() if name is None else [raw.attributes.get(name)]
    return [entries.texts for entries in columns if entries is not None and entries.texts is not None]


def compared_events(raw: RawBatch, predicate: Predicate) -> I4:
    """Return the events for which a COMPARE predicate holds; an event may occur several times."""
    left = raw.attributes.get(str(predicate.attribute), AttributeEntries())
    right = raw.attributes.get(str(predicate.other), AttributeEntries())
    compare = _COMPARISONS[predicate.text_operator]
    parts = [np.zeros(0, np.int32)]
    if left.numbers is not None and right.numbers is not None:
        a, b = _join(left.numbers.event, right.numbers.event)
        x, y = left.numbers, right.numbers
        order = np.where(
            x.whole[a] == y.whole[b],
            _order(x.part[a], y.part[b]),
            _order(x.whole[a], y.whole[b]),
        )
        parts.append(x.event[a][compare(order, 0)])
    if left.booleans is not None and right.booleans is not None and predicate.text_operator in ("=", "!="):
        a, b = _join(left.booleans.event, right.booleans.event)
        parts.append(
            left.booleans.event[a][compare(left.booleans.value[a] != 0, right.booleans.value[b] != 0)]
        )
    if left.texts is not None and right.texts is not None:
        a, b = _join(left.texts.event, right.texts.event)
        holds = [
            bool(compare(_text(left.texts, i), _text(right.texts, j)))
            for i, j in zip(a.tolist(), b.tolist(), strict=True)
        ]
        parts.append(left.texts.event[a][np.array(holds, bool)])
    return np.concatenate(parts)


def _order(x: Any, y: Any) -> Any:
    """Return -1, 0 or 1 where x is below, equal to or above y; exact, without a difference that overflows."""
    return (x > y).astype(np.int8) - (x < y).astype(np.int8)


def _text(texts: TextEntries, row: int) -> bytes:
    return texts.data[texts.start[row] : texts.end[row]].tobytes()


def _join(left_event: I4, right_event: I4) -> tuple[I8, I8]:
    """Return all pairs of rows that belong to one event."""
    first = np.searchsorted(right_event, left_event, "left")
    count = np.searchsorted(right_event, left_event, "right") - first
    left = np.repeat(np.arange(len(left_event)), count)
    right = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return left, right
