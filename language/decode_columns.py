"""From the columns of a payload to the arrays of a batch, without a Python object per value.

A column is taken whole: its rows with a value are found, its values are brought to the declared domain by
array operations, and the events that this refuses are noted. Refused events lose their rows in a last
pass, so that no column has to know about another. Only declared texts that stand for numbers (timestamps,
enumerated and hierarchical values) are looked at one by one, and converted once per distinct text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.event_types import checked_batch
from pubsub_cluster.language.events import EventReader, refuse_count, refuse_several
from pubsub_cluster.language.payload import Buffer
from pubsub_cluster.language.payload_check import INTEGER_BYTES, ColumnView, split_columns
from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
    Value,
    without_events,
)
from pubsub_cluster.language.schema import Attribute, DomainKind
from pubsub_cluster.language.values import number_keys_float64, number_keys_int64

_TEXT_AS_NUMBER = frozenset({DomainKind.TIMESTAMP, DomainKind.ENUMERATED, DomainKind.HIERARCHICAL})
_TYPES_OF_DOMAIN: dict[DomainKind, frozenset[str]] = {
    DomainKind.INTEGER: frozenset({*INTEGER_BYTES, "float64"}),
    DomainKind.FLOAT: frozenset({*INTEGER_BYTES, "float64"}),
    DomainKind.STRING: frozenset({"utf8"}),
    DomainKind.BOOLEAN: frozenset({"bool"}),
    DomainKind.TIMESTAMP: frozenset({*INTEGER_BYTES, "utf8"}),
    DomainKind.ENUMERATED: frozenset({"utf8"}),
    DomainKind.HIERARCHICAL: frozenset({"utf8"}),
}

IndexArray = npt.NDArray[np.int64]


def decode_columns(
    header: Mapping[str, Any],
    buffers: Sequence[Buffer],
    reader: EventReader,
    names: Collection[str] | None = None,
    picked: Sequence[int] | None = None,
) -> RawBatch:
    """Decode a checked payload in format ``columns``; see `pubsub_cluster.language.decode.decode_payload`.

    With `names`, only the columns of these names; what others would have refused is not. With `picked`, only
    these events, numbered in their order here.
    """
    event_count = header["event_count"] if picked is None else len(picked)
    refused: dict[int, EventError] = {}
    attributes: dict[str, AttributeEntries] = {}
    entry_count = np.zeros(event_count, dtype=np.int64)
    has_many = False
    for view in split_columns(header, buffers):
        if names is not None and view.name not in names:
            continue
        if picked is not None:
            view = _events_of(view, np.asarray(picked, np.int64))
        event, row = _rows(view, event_count)
        if event.size == 0:
            continue
        if view.list_offsets is not None:
            has_many = True
        entry_count += np.bincount(event, minlength=event_count)
        entries = _Column(view, event, row, reader, refused).entries()
        if entries is not None:
            attributes[view.name] = entries
    if has_many:
        entry_count_max = reader.limits.attributes_per_event_max
        for event_idx in np.flatnonzero(entry_count > entry_count_max).tolist():
            _refuse(refused, event_idx, lambda: refuse_count(entry_count_max))
    if refused:
        attributes = without_events(attributes, refused, event_count)
    raw = RawBatch(event_count, attributes, refused)
    types = reader.schema.types
    return raw if types is None or names is not None else checked_batch(raw, types)


def _events_of(view: ColumnView, picked: IndexArray) -> ColumnView:
    """Return a column with some of its events only, in new arrays."""
    valid = None if view.valid is None else view.valid[picked]
    row, list_offsets = picked, None
    if view.list_offsets is not None:
        row, list_offsets = _slices(view.list_offsets, picked)
    if view.text_offsets is None:
        return view._replace(valid=valid, list_offsets=list_offsets, values=view.values[row])
    octet, text_offsets = _slices(view.text_offsets, row)
    return view._replace(
        valid=valid, list_offsets=list_offsets, values=view.values[octet], text_offsets=text_offsets
    )


def _slices(offsets: IndexArray, picked: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return the items of slices, ``offsets[i]`` to ``offsets[i + 1]``, and the offsets among these."""
    size = offsets[picked + 1] - offsets[picked]
    first = np.zeros(len(picked) + 1, np.int64)
    np.cumsum(size, out=first[1:])
    return np.arange(first[-1]) + np.repeat(offsets[picked] - first[:-1], size), first


def _rows(view: ColumnView, event_count: int) -> tuple[npt.NDArray[np.int32], IndexArray | None]:
    """Return the event of every value, and the rows of these values; None for all rows in order."""
    event = np.arange(event_count, dtype=np.int32)
    if view.list_offsets is not None:
        event = np.repeat(event, view.list_offsets[1:] - view.list_offsets[:-1])
    if view.valid is None:
        return event, None
    row = np.flatnonzero(view.valid[event])
    return (event, None) if row.size == event.size else (event[row], row)


class _Column:
    """One column on its way: `event` and `row` as `_rows` gives them, refusals added to `refused`."""

    def __init__(
        self,
        view: ColumnView,
        event: npt.NDArray[np.int32],
        row: IndexArray | None,
        reader: EventReader,
        refused: dict[int, EventError],
    ) -> None:
        self.view = view
        self.event = event
        self.row = row
        self.reader = reader
        self.refused = refused

    def entries(self) -> AttributeEntries | None:
        """Return the column's entries; None when all its events are refused for its sake."""
        name, declared = self.view.name, self.reader.schema.get(self.view.name)
        if declared is None and self.reader.schema.closed:
            self._refuse_rows(np.arange(self.event.size), lambda _: self.reader.refuse_undeclared(name))
            return None
        if declared is not None:
            if declared.unique and self.view.list_offsets is not None:
                self._refuse_several()
            if self.view.type not in _TYPES_OF_DOMAIN[declared.domain]:
                self._refuse_by_domain(np.arange(self.event.size), declared)
                return None
        if self.view.type == "utf8":
            return self._texts(declared)
        values = self.view.values if self.row is None else self.view.values[self.row]
        if self.view.type == "bool":
            return AttributeEntries(booleans=BooleanEntries(self.event, values.astype(np.uint8)))
        if self.view.type in INTEGER_BYTES:
            whole, part = number_keys_int64(values.astype(np.int64))
            return AttributeEntries(numbers=NumberEntries(self.event, whole, part))
        values = values.astype(np.float64)
        is_nan = np.isnan(values)
        if is_nan.any():
            self._refuse_rows(np.flatnonzero(is_nan), lambda _: self.reader.check_scalar(name, float("nan")))
            values[is_nan] = 0.0
        whole, part = number_keys_float64(values)
        if declared is not None and declared.domain is DomainKind.INTEGER and part.any():
            self._refuse_by_domain(np.flatnonzero(part), declared)
        return AttributeEntries(numbers=NumberEntries(self.event, whole, part))

    def _texts(self, declared: Attribute | None) -> AttributeEntries:
        offsets = self.view.text_offsets
        assert offsets is not None
        first = offsets[:-1] if self.row is None else offsets[self.row]
        last = offsets[1:] if self.row is None else offsets[self.row + 1]
        start, end = first.astype(np.int64), last.astype(np.int64)
        is_long = end - start > self.reader.limits.string_size_bytes_max
        if is_long.any():
            name = self.view.name
            self._refuse_rows(
                np.flatnonzero(is_long),
                lambda at: self.reader.check_text(name, self._text(start[at], end[at])),
            )
        if declared is not None and declared.domain in _TEXT_AS_NUMBER:
            return AttributeEntries(numbers=self._numbers_of_texts(start, end, declared))
        return AttributeEntries(texts=TextEntries(self.event, start, end, read_only(self.view.values)))

    def _numbers_of_texts(self, start: IndexArray, end: IndexArray, declared: Attribute) -> NumberEntries:
        data = self.view.values.tobytes()
        number_of: dict[bytes, int | None] = {}
        whole = np.zeros(self.event.size, dtype=np.int64)
        foreign: list[int] = []
        for at, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
            text = data[first:last]
            if text not in number_of:
                number_of[text] = self._number_of_text(text.decode(), declared)
            number = number_of[text]
            if number is None:
                foreign.append(at)
            else:
                whole[at] = number
        self._refuse_by_domain(np.array(foreign, dtype=np.int64), declared)
        return NumberEntries(self.event, *number_keys_int64(whole))

    def _number_of_text(self, text: str, declared: Attribute) -> int | None:
        try:
            number = self.reader.canonical(declared, text)
        except EventError:
            return None
        assert isinstance(number, int)
        return number

    def _refuse_by_domain(self, rows: IndexArray, declared: Attribute) -> None:
        self._refuse_rows(rows, lambda at: self.reader.canonical(declared, self._value(at)))

    def _refuse_several(self) -> None:
        counts = np.bincount(self.event)
        for event_idx in np.flatnonzero(counts > 1).tolist():
            _refuse(
                self.refused,
                event_idx,
                lambda count: refuse_several(self.view.name, count),
                int(counts[event_idx]),
            )

    def _refuse_rows(self, rows: IndexArray, check: Callable[[int], Any]) -> None:
        """Refuse the events of rows (positions in `event`) by what `check` raises for the first of each."""
        for at in rows.tolist():
            _refuse(self.refused, int(self.event[at]), check, at)

    def _value(self, at: int) -> Value:
        """Return the value at a position in `event` as the publisher gave it."""
        row = at if self.row is None else int(self.row[at])
        offsets = self.view.text_offsets
        if offsets is not None:
            return self._text(offsets[row], offsets[row + 1])
        value = self.view.values[row]
        if self.view.type == "bool":
            return bool(value)
        return int(value) if self.view.type in INTEGER_BYTES else float(value)

    def _text(self, start: Any, end: Any) -> str:
        return self.view.values[int(start) : int(end)].tobytes().decode()


def read_only(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return a view that cannot be written, so that text data has one array type wherever it comes from."""
    view = data.view()
    view.flags.writeable = False
    return view


def _refuse(refused: dict[int, EventError], event_idx: int, check: Callable[..., Any], *seen: Any) -> None:
    """Note what `check` raises as the refusal of an event that has none yet."""
    if event_idx in refused:
        return
    try:
        check(*seen)
    except EventError as error:
        error.fields["event_index"] = event_idx
        refused[event_idx] = error
    else:
        raise AssertionError("a value that was found to be wrong passed its own check")
