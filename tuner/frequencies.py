"""Frequencies of any number of events: counts by attribute, and a uniform sample of whole events.

One definition for whoever counts: the parts of a distributed job, or one process. Counts are exact where an
attribute has few distinct values (`tuner.value_counts`). The sample stands for the rest: for values that
occur together, and for the distribution of an attribute with many. Each event has a priority, a hash of where
it stands, and those of the smallest priorities are kept: a uniform sample without replacement (bottom-k,
Cohen and Kaplan, PODC 2007) that is the same however the events were divided. A share p of all events is
known from k of them with a standard error of sqrt(p (1 - p) / k).
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.raw_batch import RawBatch
from pubsub_cluster.shm.code_space import I8, U8, CodeSpaces
from pubsub_cluster.tuner.event_rows import accepted_events, join_batches, pick_events
from pubsub_cluster.tuner.interning import mixed
from pubsub_cluster.tuner.statistics import LabelStatistics, TextTimes, count_sampled_texts, label_statistics
from pubsub_cluster.tuner.value_counts import (
    NO_VALUES,
    AttributeCounts,
    CountLimits,
    add_values,
    merge_values,
)

DEFAULT_LIMITS = CountLimits()


class SampledEvents(NamedTuple):
    """Events of the smallest priorities.

    Attributes
    ----------
    priority : uint64[m]
        Ascending.
    events : RawBatch
    """

    priority: U8
    events: RawBatch


NO_EVENTS = SampledEvents(np.zeros(0, np.uint64), RawBatch(0, {}, {}))


class Frequencies(NamedTuple):
    """What is known of some events; an `EventStatistics`.

    Attributes
    ----------
    event_count : int
        Without refused events.
    attributes : dict of str to AttributeCounts
    sample : SampledEvents
    limits : CountLimits
    """

    event_count: int
    attributes: dict[str, AttributeCounts]
    sample: SampledEvents
    limits: CountLimits

    def statistics(self, spaces: CodeSpaces, attribute_names: Sequence[str]) -> LabelStatistics:
        """Return the probabilities of labels and presence against `spaces`."""
        sampled = self.sample.events
        return label_statistics(spaces, attribute_names, sampled, self.attributes, self.event_count)

    def texts(self, name: str | None) -> TextTimes:
        """Return the texts of an attribute, or of all; of the sampled events where they are not all known."""
        counted = self.attributes.values() if name is None else [self.attributes.get(name, NO_VALUES)]
        if not all(mine.is_exact for mine in counted):
            sampled = self.sample.events
            return TextTimes(count_sampled_texts([sampled], name), sampled.event_count)
        times: Counter[bytes] = Counter()
        for mine in counted:
            times.update(mine.texts)
        return TextTimes(times, self.event_count)

    def error(self, name: str) -> float:
        """Return the largest standard error of a share of all events that is derived for an attribute.

        0 where it is counted exactly, and for the presence of any.
        """
        mine = self.attributes[name]
        sampled = self.sample.events.event_count
        if mine.is_exact or sampled == self.event_count:
            return 0.0
        share = min(mine.totals.present / self.event_count, 0.5)
        return math.sqrt(share * (1.0 - share) / sampled)

    def values(self, name: str) -> tuple[AttributeCounts, int]:
        """Return the values of an attribute, and in how many events they were counted.

        All of them, or those of the sampled events where they are too many.
        """
        mine, sampled = self.attributes[name], self.sample.events
        if mine.is_exact:
            return mine, self.event_count
        endless = self.limits._replace(distinct=2**62, text_bytes=2**62)
        entries = sampled.attributes.get(name)
        return add_values(NO_VALUES, entries, endless) if entries else NO_VALUES, sampled.event_count


NO_FREQUENCIES = Frequencies(0, {}, NO_EVENTS, DEFAULT_LIMITS)


class EventCounter:
    """Counts events, batch after batch.

    Parameters
    ----------
    limits : CountLimits
    """

    def __init__(self, limits: CountLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._attributes: dict[str, AttributeCounts] = {}
        self._samples: list[SampledEvents] = []
        self._threshold = np.uint64(2**64 - 1)
        self._sampled = 0
        self.event_count = 0

    def add(self, raw: RawBatch, source: str, first_row: int) -> None:
        """Count a batch.

        Parameters
        ----------
        raw : RawBatch
        source : str
            Where the events come from: a file, say.
        first_row : int
            Where the batch begins there.
        """
        accepted = accepted_events(raw)
        self.event_count += len(accepted)
        for name, entries in raw.attributes.items():
            known = self._attributes.get(name, NO_VALUES)
            self._attributes[name] = add_values(known, entries, self._limits)
        priority = _priorities(source, accepted + first_row)
        self._keep(raw, accepted, priority)

    def frequencies(self) -> Frequencies:
        """Return what has been counted so far."""
        self._shrink()
        sample = self._samples[0] if self._samples else NO_EVENTS
        return Frequencies(self.event_count, dict(self._attributes), sample, self._limits)

    def _keep(self, raw: RawBatch, accepted: I8, priority: U8) -> None:
        """Sample the events of a batch."""
        at = np.flatnonzero(priority <= self._threshold)
        size = self._limits.events
        if len(at) > size:
            at = np.sort(at[np.argpartition(priority[at], size - 1)[:size]])
        if not len(at):
            return
        self._samples.append(SampledEvents(priority[at], pick_events(raw, accepted[at])))
        self._sampled += len(at)
        if self._sampled >= 2 * size:
            self._shrink()

    def _shrink(self) -> None:
        if self._samples:
            self._samples = [_smallest(self._samples, self._limits.events)]
            priority = self._samples[0].priority
            self._sampled = len(priority)
            if self._sampled == self._limits.events:
                self._threshold = priority[-1]


def merge(parts: Sequence[Frequencies]) -> Frequencies:
    """Return the frequencies of all events of the parts, which were counted under the same limits.

    The same in whatever order and groups parts are merged.
    """
    if not parts:
        return NO_FREQUENCIES
    limits = parts[0].limits
    if any(part.limits != limits for part in parts):
        raise ValueError("frequencies that were counted under different limits cannot be merged")
    names = sorted({name for part in parts for name in part.attributes})
    attributes = {
        name: merge_values([part.attributes[name] for part in parts if name in part.attributes], limits)
        for name in names
    }
    sample = _smallest([part.sample for part in parts], limits.events)
    return Frequencies(sum(part.event_count for part in parts), attributes, sample, limits)


def _priorities(source: str, row: I8) -> U8:
    salt = int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest())
    return mixed(row, salt)


def _smallest(samples: Sequence[SampledEvents], size: int) -> SampledEvents:
    """Return the events of the smallest priorities, in their order."""
    priority = np.concatenate([sample.priority for sample in samples])
    picked = np.argsort(priority, kind="stable")[:size]
    events = join_batches([sample.events for sample in samples])
    return SampledEvents(priority[picked], pick_events(events, picked))
