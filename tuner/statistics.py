"""Statistics: how often predicates hold, estimated from a sample of live events.

`EventSample` keeps recent events as decoded batches, independent of any layout. When a layout is built, the
sample is encoded against the new code spaces: counts per label give the probability of any interval (the
papers' nu and mu). Beside n values of an attribute stand the root of n, spread evenly over its labels (the
minimax estimate of frequencies), and one where there is none: without a sample all labels are equally
likely, and a constant that a small sample missed by chance is never thought so rare that all its clauses
would best hang off it alone. The labels of the events themselves are kept beside the counts, for joint
frequencies. Old events leave the sample as new ones come, which is its decay.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
)
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

SAMPLE_EVENTS_MAX = 2_048
BATCHES_HELD_MAX = 16
EVENT_LABELS_MAX = 1 << 22

EntriesT = TypeVar("EntriesT", NumberEntries, TextEntries, BooleanEntries)
_NO_ENTRIES = AttributeEntries()


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


class EventSample:
    """A bounded sample of recent events; old ones make room for new ones.

    Parameters
    ----------
    event_count_max : int
        Events held at most; one batch gives at most a sixteenth of them, evenly spread over it.
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
        if raw.event_count == 0:
            return 0
        step = -(-raw.event_count // self._events_per_batch_max)
        picked = np.arange(0, raw.event_count, step)
        while self._batches and self.event_count + len(picked) > self._event_count_max:
            self.event_count -= self._batches.popleft().event_count
        self._batches.append(_pick_events(raw, picked))
        self.event_count += len(picked)
        return len(picked)

    def texts(self, name: str | None) -> Iterator[bytes]:
        """Give the texts of an attribute, or of all, in the sampled events."""
        for raw in self._batches:
            for entries in raw.attributes.values() if name is None else [raw.attributes.get(name)]:
                if entries is not None and entries.texts is not None:
                    data = entries.texts.data.data
                    for start, end in zip(
                        entries.texts.start.tolist(), entries.texts.end.tolist(), strict=True
                    ):
                        yield bytes(data[start:end])

    def _entries(self, name: str) -> AttributeEntries | None:
        """Return the entries of an attribute in all events; None without any.

        Together, because to look values up costs as much as there are constants: batches may be of one event.
        """
        numbers: list[NumberEntries] = []
        texts: list[TextEntries] = []
        booleans: list[BooleanEntries] = []
        first_event = text_size = 0
        for raw in self._batches:
            entries = raw.attributes.get(name, _NO_ENTRIES)
            if entries.numbers is not None:
                numbers.append(_moved(entries.numbers, first_event))
            if entries.texts is not None:
                event, start, end, data = _moved(entries.texts, first_event)
                texts.append(TextEntries(event, start + text_size, end + text_size, data))
                text_size += len(data)
            if entries.booleans is not None:
                booleans.append(_moved(entries.booleans, first_event))
            first_event += raw.event_count
        if not (numbers or texts or booleans):
            return None
        return AttributeEntries(_joined(numbers), _joined(texts), _joined(booleans))

    def statistics(self, spaces: CodeSpaces, attribute_names: Sequence[str]) -> LabelStatistics:
        """Return the probabilities of labels and presence against `spaces`."""
        label_count = np.diff(spaces.label_start).astype(np.int64)
        times = np.zeros(int(label_count.sum()))
        present = np.ones(spaces.attribute_count)
        kept = min(self.event_count, EVENT_LABELS_MAX // max(spaces.attribute_count, 1))
        events = np.zeros((kept, spaces.attribute_count), np.int32)
        for attribute, name in enumerate(attribute_names):
            entries = self._entries(name)
            if entries is None:
                continue
            first, stop = spaces.label_start[attribute : attribute + 2].tolist()
            event, found = encode_entries(spaces, attribute, entries)
            times[first:stop] += np.bincount(found, minlength=stop - first)
            present[attribute] += len(np.unique(event))
            held = event < kept
            events[event[held], attribute] = found[held]
        values = np.add.reduceat(np.append(times, 0.0), spaces.label_start[:-1]) * (label_count > 0)
        prior = np.sqrt(np.maximum(values, 1.0))
        evenly, share = prior / np.maximum(label_count, 1), np.maximum(values, 1.0) / (values + prior)
        label = (times + np.repeat(evenly, label_count)) * np.repeat(share, label_count)
        total = self.event_count + 1.0
        return LabelStatistics(np.minimum(label / total, 1.0), present / total, events)


def _moved(entries: EntriesT, first_event: int) -> EntriesT:
    moved: EntriesT = entries._replace(event=entries.event + np.int32(first_event))
    return moved


def _joined(pieces: list[EntriesT]) -> EntriesT | None:
    if not pieces:
        return None
    joined: EntriesT = type(pieces[0])(*map(np.concatenate, zip(*pieces, strict=True)))
    return joined


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


def _pick_events(raw: RawBatch, picked: I8) -> RawBatch:
    number_of = np.full(raw.event_count, -1, np.int32)
    number_of[picked] = np.arange(len(picked))
    attributes: dict[str, AttributeEntries] = {}
    for name, entries in raw.attributes.items():
        numbers, texts, booleans = entries
        attributes[name] = AttributeEntries(
            None if numbers is None else _pick_rows(numbers, number_of),
            None if texts is None else _own_bytes(_pick_rows(texts, number_of)),
            None if booleans is None else _pick_rows(booleans, number_of),
        )
    return RawBatch(len(picked), attributes, {})


def _pick_rows(entries: EntriesT, number_of: I4) -> EntriesT:
    """Copy the rows of picked events; `TextEntries.data` stays as it is."""
    number = number_of[entries.event]
    rows = np.flatnonzero(number >= 0)
    fields = {
        name: column[rows] for name, column in entries._asdict().items() if name not in ("event", "data")
    }
    picked: EntriesT = entries._replace(event=number[rows], **fields)
    return picked


def _own_bytes(texts: TextEntries) -> TextEntries:
    data = texts.data.data
    pieces = [bytes(data[s:e]) for s, e in zip(texts.start.tolist(), texts.end.tolist(), strict=True)]
    end = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))
    size = texts.end - texts.start
    return TextEntries(texts.event, end - size, end, np.frombuffer(b"".join(pieces), np.uint8))
