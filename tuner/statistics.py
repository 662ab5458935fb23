"""Statistics: how often predicates hold, estimated from events.

`EventSample` keeps recent live events as decoded batches, independent of any layout; `tuner.frequencies` has
counts of any number of events beside a sample of them. When a layout is built, values are encoded against the
new code spaces: counts per label give the probability of any interval (the papers' nu and mu). Beside n
values of an attribute stand the root of n, spread evenly over its labels (the minimax estimate of
frequencies), and one where there is none: without a sample all labels are equally likely, and a constant
that a small sample missed by chance is never thought so rare that all its clauses would best hang off it
alone. The labels of the events themselves are kept beside the counts, for joint frequencies. Old events leave
the sample as new ones come, which is its decay.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.raw_batch import AttributeEntries, NumberEntries, RawBatch, TextEntries
from pubsub_cluster.shm.code_space import (
    F8,
    FALSE_LABEL,
    FIRST_NUMBER_LABEL,
    I4,
    I8,
    CodeSpaces,
    first_text_label,
    text_constants,
)
from pubsub_cluster.tuner.event_rows import accepted_events, join_batches, pick_events, text_list
from pubsub_cluster.tuner.value_counts import NO_VALUES, AttributeCounts

SAMPLE_EVENTS_MAX = 2_048
BATCHES_HELD_MAX = 16
EVENT_LABELS_MAX = 1 << 22


class LabelStatistics(NamedTuple):
    """Probabilities per event.

    Attributes
    ----------
    label : float64[L]
        Of each label slot (``label_start[a] + label``).
    present : float64[A]
        That an attribute has a value.
    events : int32[m, A]
        Labels of sampled events, 0 where missing, of several values the last; at most `EVENT_LABELS_MAX`
        items, so with thousands of attributes only the first events.
    """

    label: F8
    present: F8
    events: I4


class TextTimes(NamedTuple):
    """How often texts occur.

    Attributes
    ----------
    times : Counter of bytes
    event_count : int
        In so many events.
    """

    times: Counter[bytes]
    event_count: int


class EventStatistics(Protocol):
    """What the builder asks of whatever knows events."""

    def statistics(self, spaces: CodeSpaces, attribute_names: Sequence[str]) -> LabelStatistics:
        """Return the probabilities of labels and presence against `spaces`."""

    def texts(self, name: str | None) -> TextTimes:
        """Return the texts of an attribute, or of all."""


class EventSample:
    """A bounded sample of recent events; old ones make room for new ones.

    Parameters
    ----------
    event_count_max : int
        Events held at most; one batch gives at most a sixteenth of them, evenly spread over it, or half of
        the room that is left, where that is more: what is chosen by few events is visibly worse.
    """

    def __init__(self, event_count_max: int = SAMPLE_EVENTS_MAX) -> None:
        self._events_per_batch_max = max(1, event_count_max // BATCHES_HELD_MAX)
        self._batches: deque[RawBatch] = deque()
        self._event_count_max = event_count_max
        self.event_count = 0

    @property
    def is_full(self) -> bool:
        """Whether old events make room for new ones from now on."""
        return self.event_count + self._events_per_batch_max > self._event_count_max

    def add(self, raw: RawBatch) -> int:
        """Take events of a batch; return how many. The arrays are copied, never referred to."""
        accepted = accepted_events(raw)
        if not len(accepted):
            return 0
        most = max(self._events_per_batch_max, (self._event_count_max - self.event_count) // 2)
        picked = accepted[:: -(-len(accepted) // most)]
        while self._batches and self.event_count + len(picked) > self._event_count_max:
            self.event_count -= self._batches.popleft().event_count
        self._batches.append(pick_events(raw, picked))
        self.event_count += len(picked)
        return len(picked)

    def events(self) -> RawBatch:
        """Return the sampled events as one batch."""
        return join_batches(self._batches)

    def texts(self, name: str | None) -> TextTimes:
        """Return the texts of an attribute, or of all, in the sampled events."""
        return TextTimes(count_sampled_texts(self._batches, name), self.event_count)

    def statistics(self, spaces: CodeSpaces, attribute_names: Sequence[str]) -> LabelStatistics:
        """Return the probabilities of labels and presence against `spaces`.

        Batches are put together first, because to look values up costs as much as there are constants: they
        may be of one event.
        """
        return label_statistics(spaces, attribute_names, join_batches(self._batches, attribute_names))


def count_sampled_texts(batches: Iterable[RawBatch], name: str | None) -> Counter[bytes]:
    """Count the texts of an attribute, or of all, in some events."""
    times: Counter[bytes] = Counter()
    for raw in batches:
        for entries in raw.attributes.values() if name is None else [raw.attributes.get(name)]:
            if entries is not None and entries.texts is not None:
                times.update(text_list(entries.texts))
    return times


def label_statistics(
    spaces: CodeSpaces,
    attribute_names: Sequence[str],
    events: RawBatch,
    counted: Mapping[str, AttributeCounts] | None = None,
    event_count: int | None = None,
) -> LabelStatistics:
    """Return the probabilities of labels and presence against `spaces`.

    Parameters
    ----------
    spaces : CodeSpaces
    attribute_names : sequence of str
        Of the attributes of `spaces`.
    events : RawBatch
        Some of the events; all of them without `counted`.
    counted : mapping of str to AttributeCounts, optional
        By attribute, of all events. Where it has no exact counts, values are distributed as in `events`.
    event_count : int, optional
        All events.
    """
    label_count = np.diff(spaces.label_start).astype(np.int64)
    times = np.zeros(int(label_count.sum()))
    mass = np.ones(spaces.attribute_count)  # values in all events
    present = np.ones(spaces.attribute_count)
    kept = min(events.event_count, EVENT_LABELS_MAX // max(spaces.attribute_count, 1))
    labels = np.zeros((kept, spaces.attribute_count), np.int32)
    for attribute, name in enumerate(attribute_names):
        first, stop = spaces.label_start[attribute : attribute + 2].tolist()
        mine = None if counted is None else counted.get(name, NO_VALUES)
        entries = events.attributes.get(name)
        if entries is not None:
            event, found = encode_entries(spaces, attribute, entries)
            held = event < kept
            labels[event[held], attribute] = found[held]
            if mine is None:
                present[attribute] += len(np.unique(event))
                mass[attribute] = len(found)
            if mine is None or not mine.is_exact:
                times[first:stop] += np.bincount(found, minlength=stop - first)
        if mine is not None:
            present[attribute] += mine.totals.present
            mass[attribute] = mine.totals.values
            if mine.is_exact:
                values, often = mine.distinct_values()
                _, found = encode_entries(spaces, attribute, values)
                times[first:stop] += np.bincount(found, often, stop - first)
    seen = np.add.reduceat(np.append(times, 0.0), spaces.label_start[:-1]) * (label_count > 0)
    prior = np.sqrt(np.maximum(seen, 1.0))
    evenly, share = prior / np.maximum(label_count, 1), np.maximum(mass, 1.0) / (seen + prior)
    label = (times + np.repeat(evenly, label_count)) * np.repeat(share, label_count)
    total = (events.event_count if event_count is None else event_count) + 1.0
    return LabelStatistics(np.minimum(label / total, 1.0), present / total, labels)


def encode_entries(spaces: CodeSpaces, attribute: int, entries: AttributeEntries) -> tuple[I4, I8]:
    """Return (event, label) of all values of one attribute, without kernels."""
    events: list[npt.NDArray[Any]] = [np.zeros(0, np.int32)]
    labels: list[npt.NDArray[Any]] = [np.zeros(0, np.int64)]
    if entries.booleans is not None:
        events.append(entries.booleans.event)
        labels.append(FALSE_LABEL + (entries.booleans.value != 0))
    if entries.numbers is not None:
        events.append(entries.numbers.event)
        labels.append(_number_labels(spaces, attribute, entries.numbers))
    if entries.texts is not None:
        events.append(entries.texts.event)
        labels.append(_text_labels(spaces, attribute, entries.texts))
    return np.concatenate(events).astype(np.int32), np.concatenate(labels).astype(np.int64)


def _number_labels(spaces: CodeSpaces, attribute: int, numbers: NumberEntries) -> I8:
    """Rank values among the constants by sorting both together, values before equal constants."""
    first, stop = spaces.number_start[attribute : attribute + 2].tolist()
    const_whole, const_part = spaces.number_whole[first:stop], spaces.number_part[first:stop]
    whole = np.concatenate((numbers.whole, const_whole))
    part = np.concatenate((numbers.part, const_part))
    is_constant = np.arange(len(whole)) >= len(numbers.whole)
    order = np.lexsort((is_constant, part, whole))
    below = np.empty(len(order), np.int64)
    below[order] = np.cumsum(is_constant[order])
    at = below[: len(numbers.whole)]
    known = np.minimum(at, max(stop - first - 1, 0))
    equal = np.zeros(len(at), bool)
    if stop > first:
        equal = (
            (at < stop - first) & (const_whole[known] == numbers.whole) & (const_part[known] == numbers.part)
        )
    labels: I8 = FIRST_NUMBER_LABEL + 2 * at + equal
    return labels


def _text_labels(spaces: CodeSpaces, attribute: int, texts: TextEntries) -> I8:
    constants = text_constants(spaces, attribute)
    base = first_text_label(spaces, attribute)
    known = {text: base + 2 * at + 1 for at, text in enumerate(constants)}
    data = texts.data.data
    labels = np.empty(len(texts.event), np.int64)
    for row, (start, end) in enumerate(zip(texts.start.tolist(), texts.end.tolist(), strict=True)):
        text = bytes(data[start:end])
        label = known.get(text)
        if label is None:
            label = known[text] = base + 2 * bisect_left(constants, text)
        labels[row] = label
    return labels
