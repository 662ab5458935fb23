"""Decoded batches as rows of events: pick some, put several batches into one, always in new arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
)
from pubsub_cluster.shm.code_space import I8, U1, expand_slices

EntriesT = TypeVar("EntriesT", NumberEntries, TextEntries, BooleanEntries)
NO_ENTRIES = AttributeEntries()


def accepted_events(raw: RawBatch) -> I8:
    """Return the numbers of the events that were not refused, ascending."""
    kept = np.ones(raw.event_count, bool)
    kept[list(raw.refused)] = False
    return np.flatnonzero(kept)


def pick_events(raw: RawBatch, picked: npt.NDArray[np.integer]) -> RawBatch:
    """Return some events, numbered in the order in which they are picked.

    Parameters
    ----------
    raw : RawBatch
    picked : int[m]
        In any order.
    """
    attributes: dict[str, AttributeEntries] = {}
    for name, (numbers, texts, booleans) in raw.attributes.items():
        found = AttributeEntries(
            None if numbers is None else _pick_rows(numbers, picked),
            None if texts is None else _own_bytes(_pick_rows(texts, picked)),
            None if booleans is None else _pick_rows(booleans, picked),
        )
        if any(entries is not None and len(entries.event) for entries in found):
            attributes[name] = found
    return RawBatch(len(picked), attributes, {})


def join_batches(batches: Sequence[RawBatch], names: Iterable[str] | None = None) -> RawBatch:
    """Return the events of several batches as one, with the attributes of `names`, by default with all."""
    if names is None:
        names = sorted({name for raw in batches for name in raw.attributes})
    attributes: dict[str, AttributeEntries] = {}
    for name in names:
        numbers: list[NumberEntries] = []
        texts: list[TextEntries] = []
        booleans: list[BooleanEntries] = []
        first_event = text_size = 0
        for raw in batches:
            entries = raw.attributes.get(name, NO_ENTRIES)
            if entries.numbers is not None:
                numbers.append(_moved(entries.numbers, first_event))
            if entries.texts is not None:
                event, start, end, data = _moved(entries.texts, first_event)
                texts.append(TextEntries(event, start + text_size, end + text_size, data))
                text_size += len(data)
            if entries.booleans is not None:
                booleans.append(_moved(entries.booleans, first_event))
            first_event += raw.event_count
        if numbers or texts or booleans:
            attributes[name] = AttributeEntries(_joined(numbers), _joined(texts), _joined(booleans))
    return RawBatch(sum(raw.event_count for raw in batches), attributes, {})


def text_list(texts: TextEntries) -> list[bytes]:
    """Return the values."""
    data = texts.data.data
    return [
        bytes(data[first:last]) for first, last in zip(texts.start.tolist(), texts.end.tolist(), strict=True)
    ]


def _moved(entries: EntriesT, first_event: int) -> EntriesT:
    moved: EntriesT = entries._replace(event=entries.event + np.int32(first_event))
    return moved


def _joined(pieces: list[EntriesT]) -> EntriesT | None:
    if not pieces:
        return None
    joined: EntriesT = type(pieces[0])(*map(np.concatenate, zip(*pieces, strict=True)))
    return joined


def _pick_rows(entries: EntriesT, picked: npt.NDArray[np.integer]) -> EntriesT:
    """Copy the rows of picked events; `TextEntries.data` stays as it is."""
    wanted = picked.astype(entries.event.dtype)
    first = np.searchsorted(entries.event, wanted, "left")
    count = np.searchsorted(entries.event, wanted, "right") - first
    rows = expand_slices(first, count)
    fields = {
        name: column[rows] for name, column in entries._asdict().items() if name not in ("event", "data")
    }
    numbered: EntriesT = entries._replace(
        event=np.repeat(np.arange(len(picked), dtype=np.int32), count), **fields
    )
    return numbered


def _own_bytes(texts: TextEntries) -> TextEntries:
    """Copy the bytes of the values, without what lies between them."""
    size = texts.end - texts.start
    end = np.cumsum(size)
    data: U1 = texts.data[expand_slices(texts.start, size)]
    return TextEntries(texts.event, end - size, end, data)
