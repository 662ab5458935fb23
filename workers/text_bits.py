"""Bits: the predicates that are no interval of labels, evaluated outside the matching kernels.

The needles of all text predicates of an attribute (`language.text_needles`) are searched in one pass over
each text, and what is found is kept for the next time (`workers.text_search`). Predicates on any attribute
look at the texts of all attributes. A comparison of two attributes joins the entries of both on the event: it
holds when some pair of values of one kind compares so; numbers compare by their keys, booleans for equality
only.

A predicate's bit is set for an event when some value satisfies it; a negated literal reads the complement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.predicate import Predicate, PredicateKind
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch, TextEntries
from pubsub_cluster.language.values import fold
from pubsub_cluster.shm.code_space import I4, I8
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import bits as kernels
from pubsub_cluster.workers.kernels._jit import Settled
from pubsub_cluster.workers.text_search import TextRows, TextSearch

_arrange_bits = Settled(kernels.arrange_bits)


class TextBits:
    """Evaluates bit predicates over batches.

    Parameters
    ----------
    predicates : sequence of Predicate
        Kinds TEXT and COMPARE; the position is the bit.
    """

    def __init__(self, predicates: Sequence[Predicate]) -> None:
        self.bit_count = len(predicates)
        texts: list[tuple[int, Predicate]] = []
        self._comparisons: list[tuple[int, Predicate]] = []
        for bit, predicate in enumerate(predicates):
            (self._comparisons if predicate.kind == PredicateKind.COMPARE else texts).append((bit, predicate))
        self._search = TextSearch(texts) if texts else None
        self._seen = np.zeros(self.bit_count, np.int64)
        self._stamp = 1

    def evaluate(self, raw: RawBatch) -> tuple[I8, I4]:
        """Return the set bits of every event.

        Returns
        -------
        bit_start : int64[n+1]
        bit : int32[]
            Distinct within an event, in no particular order.
        """
        parts = []
        if self._search is not None:
            names = self._search.wanted_names
            for name, entries in raw.attributes.items():
                if entries.texts is not None and (names is None or name in names):
                    parts.append(self._search.find(_rows_of(entries.texts, self._search.group_of(name))))
        return self._arranged(
            raw.event_count, parts, lambda name: raw.attributes.get(name, AttributeEntries())
        )

    def evaluate_batch(self, batch: EventBatch) -> tuple[I8, I4]:
        """As `evaluate`; values by attribute are asked for only when attributes are compared."""
        parts = []
        if self._search is not None:
            if batch.flat is not None:
                parts.append(self._search.find_flat(batch.flat, batch.rows(), batch.names))
            else:
                for name, texts in batch.named_texts(self._search.wanted_names):
                    parts.append(self._search.find(_rows_of(texts, self._search.group_of(name))))
        return self._arranged(batch.event_count, parts, batch.entries_of)

    def _arranged(
        self, event_count: int, parts: list[tuple[I4, I4]], entries_of: Callable[[str], AttributeEntries]
    ) -> tuple[I8, I4]:
        for bit, predicate in self._comparisons:
            left, right = entries_of(str(predicate.attribute)), entries_of(str(predicate.other))
            events = compared_events(left, right, predicate.text_operator, predicate.ignore_case)
            parts.append((events, np.full(len(events), bit, np.int32)))
        if len(parts) == 1:
            event, value = parts[0]
        else:
            parts.append((np.zeros(0, np.int32), np.zeros(0, np.int32)))
            event, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        bit_start, bits = np.zeros(event_count + 1, np.int64), np.empty(len(value), np.int32)
        pairs = (kernel_input(event, np.int32), kernel_input(value, np.int32))
        kept = _arrange_bits(pairs, self._seen, self._stamp, bit_start, bits)
        self._stamp += event_count
        return bit_start, bits[:kept]


def _rows_of(texts: TextEntries, group: int) -> TextRows:
    return TextRows(
        kernel_input(texts.event, np.int32),
        frozen(np.full(len(texts.event), group, np.int32)),
        kernel_input(texts.start, np.int64),
        kernel_input(texts.end, np.int64),
        kernel_input(texts.data, np.uint8),
    )


def compared_events(
    left: AttributeEntries, right: AttributeEntries, operator: str, ignore_case: bool = False
) -> I4:
    """Return the events for which a COMPARE predicate holds; an event may occur several times.

    Some value of `left` must compare with some value of `right`, within a kind. That needs no look at
    all pairs: order is decided by the least and the greatest value of each event, equality by an
    intersection, and ``!=`` fails only where both sides have one and the same value.
    """
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
        if ignore_case:
            values = [fold(text.decode()).encode() for text in values]
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
