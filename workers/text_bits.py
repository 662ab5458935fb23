"""Bits: the predicates that are no interval of labels, evaluated outside the kernels.

Text predicates (`contains`, `like`, `matches`, ...) are evaluated once per distinct value
(`workers.text_cache`). Predicates on any attribute look at the texts of
all attributes. A comparison of two attributes joins the entries of both on the event: it holds when some
pair of values of one kind compares so; numbers compare by their keys, booleans for equality only.

A predicate's bit is set for an event when some value satisfies it; a negated literal reads the complement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.predicate import Predicate, PredicateKind
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch, TextEntries
from pubsub_cluster.language.text_match import compile_text
from pubsub_cluster.shm.code_space import I4, I8
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.text_cache import TextCache


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
    """Return the events for which a COMPARE predicate holds; an event may occur several times.

    Some value of the one attribute must compare with some of the other, within a kind. That needs no look at
    all pairs: order is decided by the least and the greatest value of each event, equality by an
    intersection, and ``!=`` fails only where both sides have one and the same value.
    """
    left = raw.attributes.get(str(predicate.attribute), AttributeEntries())
    right = raw.attributes.get(str(predicate.other), AttributeEntries())
    operator = predicate.text_operator
    parts = [np.zeros(0, np.int32)]
    if left.numbers is not None and right.numbers is not None:
        x, y = left.numbers, right.numbers
        rank = _number_ranks(np.concatenate((x.whole, y.whole)), np.concatenate((x.part, y.part)))
        parts.append(_compared(x.event, y.event, rank, operator))
    if left.booleans is not None and right.booleans is not None and operator in ("=", "!="):
        one, two = left.booleans, right.booleans
        rank = (np.concatenate((one.value, two.value)) != 0).astype(np.int64)
        parts.append(_compared(one.event, two.event, rank, operator))
    if left.texts is not None and right.texts is not None:
        values = [_text(texts, row) for texts in (left.texts, right.texts) for row in range(len(texts.event))]
        number = {text: rank for rank, text in enumerate(sorted(set(values)))}
        rank = np.array([number[text] for text in values], np.int64)
        parts.append(_compared(left.texts.event, right.texts.event, rank, operator))
    return np.concatenate(parts)


def _number_ranks(whole: I8, part: npt.NDArray[np.float64]) -> I8:
    """Return the dense rank of each number key."""
    order = np.lexsort((part, whole))
    new = np.ones(len(order), np.int64)
    in_order = whole[order], part[order]  # compared, not subtracted: infinities are values
    new[1:] = (in_order[0][1:] != in_order[0][:-1]) | (in_order[1][1:] != in_order[1][:-1])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(new) - 1
    return rank


def _compared(left_event: I4, right_event: I4, rank: I8, operator: str) -> I4:
    """Return the events in which some left rank compares with some right one; left ranks come first."""
    split = len(left_event)
    if operator == "=":
        scale = int(rank.max(initial=0)) + 1
        keys = np.intersect1d(
            left_event * np.int64(scale) + rank[:split], right_event * np.int64(scale) + rank[split:]
        )
        return np.unique(keys // scale).astype(np.int32)
    events = np.intersect1d(left_event, right_event)
    if not len(events):
        return events.astype(np.int32)
    (least, greatest), (right_least, right_greatest) = (
        _extremes(left_event, rank[:split], events),
        _extremes(right_event, rank[split:], events),
    )
    holds = {
        "<": least < right_greatest,
        "<=": least <= right_greatest,
        ">": greatest > right_least,
        ">=": greatest >= right_least,
        "!=": (least != greatest) | (right_least != right_greatest) | (least != right_least),
    }[operator]
    found: I4 = events[holds].astype(np.int32)
    return found


def _extremes(event: I4, rank: I8, events: I4) -> tuple[I8, I8]:
    """Return the least and the greatest rank in each of `events`; `event` is sorted."""
    start = np.searchsorted(event, events, "left")
    stop = np.searchsorted(event, events, "right")
    bounds = np.stack((start, stop), axis=1).reshape(-1)
    padded = np.append(rank, 0)
    return np.minimum.reduceat(padded, bounds)[::2], np.maximum.reduceat(padded, bounds)[::2]


def _text(texts: TextEntries, row: int) -> bytes:
    return texts.data[texts.start[row] : texts.end[row]].tobytes()
