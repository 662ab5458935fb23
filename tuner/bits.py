"""How often bits are set, estimated from the texts of events.

A text predicate is taken to hold where one of its needles is found (`language.text_needles`): for most that
is what it says, for others a bound. Work is bounded by looking at fewer texts where predicates are many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from pubsub_cluster.language.predicate import Predicate, PredicateKind
from pubsub_cluster.language.text_needles import TEXT_START, TEXT_STOP, Needles, needles_of
from pubsub_cluster.language.values import fold
from pubsub_cluster.shm.code_space import F8
from pubsub_cluster.tuner.statistics import EventStatistics

UNKNOWN_PROBABILITY = 0.1
"""Of a bit that nothing is known of; it weighs as much as one event."""

SEARCHED_BYTES_MAX = 1 << 26
"""Bytes searched on behalf of one attribute, all predicates together."""

_BYTES_PER_SEARCH = 64
"""What beginning a search costs, in bytes."""


def bit_probabilities(predicates: Sequence[Predicate], events: EventStatistics) -> F8:
    """Return the probability per event that each bit is set.

    Parameters
    ----------
    predicates : sequence of Predicate
        Kinds TEXT and COMPARE.
    events : EventStatistics
        May know none.
    """
    found = np.full(len(predicates), UNKNOWN_PROBABILITY)
    groups: dict[str | None, list[int]] = {}
    for bit, predicate in enumerate(predicates):
        if predicate.kind is PredicateKind.TEXT:
            groups.setdefault(predicate.attribute, []).append(bit)
    for name, bits in groups.items():
        known = events.texts(name)
        times, share = _frequent(known.times, SEARCHED_BYTES_MAX // len(bits))
        needles = [needles_of(predicates[bit]) for bit in bits]
        hits = _hits(needles, times) / share
        estimate = (hits + UNKNOWN_PROBABILITY) / (known.event_count + 1.0)
        found[bits] = np.minimum(estimate, 1.0)
    return found


def _frequent(times: Counter[bytes], size_bytes_max: int) -> tuple[Counter[bytes], float]:
    """Return the most frequent texts as far as the bound allows, and their share of all."""
    total, kept, size_bytes = times.total(), Counter[bytes](), 0
    for text, count in times.most_common():
        size_bytes += len(text) + _BYTES_PER_SEARCH
        if kept and size_bytes > size_bytes_max:
            break
        kept[text] = count
    return kept, kept.total() / total if total else 1.0


def _hits(needles: Iterable[Needles], times: Counter[bytes]) -> F8:
    """Return how many of the texts have a needle, each text as often as it occurs."""
    folded = [(TEXT_START + fold(text.decode()).encode() + TEXT_STOP, count) for text, count in times.items()]
    exact = [(TEXT_START + text + TEXT_STOP, count) for text, count in times.items()]
    total = times.total()
    hits = []
    for wanted, is_folded, _ in needles:
        texts = folded if is_folded else exact
        if not wanted:
            hits.append(total)
        elif len(wanted) == 1:
            one = wanted[0]
            hits.append(sum([count for text, count in texts if one in text]))
        else:
            hits.append(sum([count for text, count in texts if any(needle in text for needle in wanted)]))
    return np.array(hits, np.float64)
