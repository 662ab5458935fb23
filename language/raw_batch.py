"""A decoded batch: for each attribute, the values its events have, as flat arrays by value kind.

This is what matching starts from, whatever the publisher sent (dictionaries, JSON or columns). Rows are
sorted by event; several rows of one event are the several values of a multi-valued attribute. A refused
event has no rows at all. Everything is canonical: schema applied, timestamps as microseconds, enumerated
values as ranks, hierarchical ones as pre-order numbers, numbers as number keys (`language.values`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.values import number_of_key

Value: TypeAlias = bool | int | float | str


class NumberEntries(NamedTuple):
    """Numbers of one attribute.

    Attributes
    ----------
    event : int32[k]
        Event index, ascending.
    whole : int64[k]
    part : float64[k]
        Number key of the value.
    """

    event: npt.NDArray[np.int32]
    whole: npt.NDArray[np.int64]
    part: npt.NDArray[np.float64]


class TextEntries(NamedTuple):
    """Texts of one attribute.

    Attributes
    ----------
    event : int32[k]
        Event index, ascending.
    start, end : int64[k]
        The value is ``data[start:end]``, valid UTF-8.
    data : uint8[...]
        May be shared by several attributes.
    """

    event: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]


class BooleanEntries(NamedTuple):
    """Booleans of one attribute.

    Attributes
    ----------
    event : int32[k]
        Event index, ascending.
    value : uint8[k]
        0 or 1.
    """

    event: npt.NDArray[np.int32]
    value: npt.NDArray[np.uint8]


class AttributeEntries(NamedTuple):
    """The entries of one attribute by value kind; None where no event has a value of that kind."""

    numbers: NumberEntries | None = None
    texts: TextEntries | None = None
    booleans: BooleanEntries | None = None


class RawBatch(NamedTuple):
    """A decoded batch.

    Attributes
    ----------
    event_count : int
    attributes : dict of str to AttributeEntries
    refused : dict of int to EventError
        By event index; each error has ``fields["event_index"]``.
    """

    event_count: int
    attributes: dict[str, AttributeEntries]
    refused: dict[int, EventError]


def without_events(
    attributes: Mapping[str, AttributeEntries], refused: Collection[int], event_count: int
) -> dict[str, AttributeEntries]:
    """Return entries without the rows of some events, those to refuse."""
    is_kept = np.ones(event_count, dtype=np.bool_)
    is_kept[list(refused)] = False
    kept: dict[str, AttributeEntries] = {}
    for name, (numbers, texts, booleans) in attributes.items():
        if numbers is not None:
            keep = is_kept[numbers.event]
            numbers = NumberEntries(numbers.event[keep], numbers.whole[keep], numbers.part[keep])
        if texts is not None:
            keep = is_kept[texts.event]
            texts = TextEntries(texts.event[keep], texts.start[keep], texts.end[keep], texts.data)
        if booleans is not None:
            keep = is_kept[booleans.event]
            booleans = BooleanEntries(booleans.event[keep], booleans.value[keep])
        if any(rows is not None and rows.event.size for rows in (numbers, texts, booleans)):
            kept[name] = AttributeEntries(numbers, texts, booleans)
    return kept


def event_values(raw: RawBatch, event_idx: int) -> dict[str, tuple[Value, ...]]:
    """Return the canonical values of one event, for slow exact paths.

    Integral numbers come back as int whatever the publisher wrote. A refused event is empty. Order of the
    values of one attribute: booleans, numbers, texts, each in the order of the event.
    """
    found: dict[str, tuple[Value, ...]] = {}
    for name, (numbers, texts, booleans) in raw.attributes.items():
        values: list[Value] = []
        if booleans is not None:
            first, stop = _event_rows(booleans.event, event_idx)
            values += (bool(value) for value in booleans.value[first:stop].tolist())
        if numbers is not None:
            first, stop = _event_rows(numbers.event, event_idx)
            for whole, part in zip(
                numbers.whole[first:stop].tolist(), numbers.part[first:stop].tolist(), strict=True
            ):
                values.append(number_of_key(whole, part))
        if texts is not None:
            first, stop = _event_rows(texts.event, event_idx)
            for start, end in zip(
                texts.start[first:stop].tolist(), texts.end[first:stop].tolist(), strict=True
            ):
                values.append(texts.data[start:end].tobytes().decode())
        if values:
            found[name] = tuple(values)
    return found


def _event_rows(event: npt.NDArray[np.int32], event_idx: int) -> tuple[int, int]:
    return int(event.searchsorted(event_idx, "left")), int(event.searchsorted(event_idx, "right"))
