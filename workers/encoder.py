"""The encoder: from a decoded batch to labels and bits per event, against one set of code spaces.

It validates nothing (`language.batch` did) and decides nothing: it brings every input into the one array type
that the kernels are compiled for (read-only, contiguous, aligned), allocates and calls: one kernel for all
dense columns, one for rows, or for decoded values one per attribute and one to arrange the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.payload import Buffer
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch
from pubsub_cluster.shm.code_space import I4, I8, U1, CodeSpaces
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.caches import second_level_bytes
from pubsub_cluster.workers.dense import ColumnPlan, DenseColumns, PickedColumns
from pubsub_cluster.workers.flat_batch import FlatBatch
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import columns, encode
from pubsub_cluster.workers.kernels._jit import Settled
from pubsub_cluster.workers.kernels.tables import EventTables
from pubsub_cluster.workers.lookups import build_lookup, choices_of
from pubsub_cluster.workers.names import NameTable
from pubsub_cluster.workers.text_bits import TextBits

_NONE = frozen(np.zeros(0, np.int32))
_ROOM_KEPT_MAX = 256
TILE_LABELS = second_level_bytes() // 16
"""A quarter of the second-level cache: they stay in it from being made until they are matched."""
_DENSE_ROOM_KEPT_MAX = 1 << 22
"""Entries. Fresh memory is given page by page, which takes a fifth of the time of matching."""
_encode_entries = Settled(encode.encode_entries)
_encode_columns = Settled(columns.encode_columns)


class EncodedBatch(NamedTuple):
    """Labels and bits of n events, event-major; all arrays read-only.

    Attributes
    ----------
    event_count : int
    entry_start : int64[n+1]
    entry_attribute, entry_label : int32[]
        Perhaps longer than what the events have of them. Within an event grouped by attribute, attributes
        ascending; labels of one attribute are distinct.
    bit_start : int64[n+1]
    bit : int32[]
        Bits that are set, ascending within an event.
    columns : int32[C] or None
        The attributes of the entries of each event, if every event has one value of the same ones.
    """

    event_count: int
    entry_start: I8
    entry_attribute: I4
    entry_label: I4
    bit_start: I8
    bit: I4
    columns: I4 | None = None

    @property
    def tables(self) -> EventTables:
        """The arrays, as the kernels take them."""
        return EventTables(self.entry_start, self.entry_attribute, self.entry_label, self.bit_start, self.bit)


class Encoder:
    """Encodes batches against one set of code spaces.

    Parameters
    ----------
    spaces : CodeSpaces
    attribute_names : sequence of str
        Name of each attribute of `spaces`.
    text_bits : TextBits
        The bit predicates.
    test : int32[4P], optional
        All label tests on these labels; knowing them makes lookups faster (`workers.lookups`).
    """

    def __init__(
        self,
        spaces: CodeSpaces,
        attribute_names: Sequence[str],
        text_bits: TextBits,
        test: I4 | None = None,
    ) -> None:
        self._names = list(attribute_names)
        self._attribute_of = {name: attribute for attribute, name in enumerate(self._names)}
        self._text_bits = text_bits
        self.lookup = build_lookup(spaces, test)
        self._numbers = _NameNumbers(self._names)
        self._no_bits: I8 = frozen(np.zeros(1, np.int64))
        self._dense_rows = _DenseRows(ColumnPlan([]), self._attribute_of)
        self._row_room = _RowRoom(1, _ROOM_KEPT_MAX)

    def lookups(self) -> list[tuple[str, str, int, str, int]]:
        """Return how the values of each attribute are looked up, with its name."""
        return [(name, *choice) for name, choice in zip(self._names, choices_of(self.lookup), strict=True)]

    def encode_batch(self, batch: EventBatch) -> EncodedBatch:
        """Encode all events of a batch, from whatever form it has; refused ones come out empty.

        Valid until the next call.
        """
        if batch.flat is not None:
            return self._encode_flat(batch, batch.flat)
        if batch.dense is not None:
            given = self._given(batch.dense)
            return self._encode_dense(given, (0, batch.event_count), self._bits_of(batch))
        return self.encode(batch.raw)

    def encode_in_tiles(self, batch: EventBatch) -> Iterator[EncodedBatch]:
        """Encode a batch as `encode_batch`, events of dense columns some at a time, in order.

        Each is valid until the next is asked for.
        """
        if batch.dense is None:
            yield self.encode_batch(batch)
            return
        data, columns = self._given(batch.dense)
        bit_start, bit = self._bits_of(batch)
        step = max(TILE_LABELS // max(len(columns), 1), 1)
        for first in range(0, batch.event_count, step):
            stop = min(first + step, batch.event_count)
            yield self._encode_dense((data, columns), (first, stop), (bit_start[first : stop + 1], bit))

    def encode_payload(
        self, header: Mapping[str, Any], buffers: Sequence[Buffer], names: NameTable
    ) -> EncodedBatch:
        """Encode a checked payload without a schema, under the default limits."""
        return self.encode_batch(EventBatch(header, buffers, names))

    def _encode_flat(self, batch: EventBatch, flat: FlatBatch) -> EncodedBatch:
        attribute_of = self._numbers.attributes_by_number(batch.names)
        out = self._room_for(flat.event_count, len(flat.name))
        values = (flat.name, flat.kind, flat.whole, flat.part, flat.stop, flat.data)
        events = (flat.event_first, flat.event_stop)
        _encode_entries(events, values, attribute_of, self.lookup, out.entry_start, out.entries)
        return EncodedBatch(flat.event_count, *out.frozen, *self._bits_of(batch))

    def _given(self, dense: DenseColumns) -> tuple[U1, I8]:
        """Return the bytes and the columns that `encode_columns` takes; `_dense_rows` are theirs then."""
        if self._dense_rows.plan is not dense.plan:
            self._dense_rows = _DenseRows(dense.plan, self._attribute_of)
        return self._dense_rows.picked.gather(dense)

    def _encode_dense(self, given: tuple[U1, I8], span: tuple[int, int], bits: tuple[I8, I4]) -> EncodedBatch:
        """Encode the events of `span`; `bits` are theirs."""
        has_gaps = self._dense_rows.picked.has_gaps
        event_count = span[1] - span[0]
        entry_count = len(given[1]) * event_count
        out = self._dense_rows.room_for(entry_count if has_gaps else 0, entry_count)
        entry_start = np.zeros(event_count + 1 if has_gaps else 0, np.int64)
        _encode_columns(*given, span, has_gaps, self.lookup, entry_start, out)
        if has_gaps:
            entry_count = int(entry_start[-1])
            entries = frozen(entry_start), frozen(out[0][:entry_count]), frozen(out[1][:entry_count])
            return EncodedBatch(event_count, *entries, *bits)
        entries = *self._dense_rows.full_entries(event_count), frozen(out[1])
        return EncodedBatch(event_count, *entries, *bits, self._dense_rows.attributes)

    def _room_for(self, event_count: int, entry_count: int) -> _RowRoom:
        if self._row_room.fits(event_count, entry_count):
            return self._row_room
        room = _RowRoom(event_count, max(entry_count, _ROOM_KEPT_MAX))
        if entry_count <= _ROOM_KEPT_MAX:
            self._row_room = room
        return room

    def _bits_of(self, batch: EventBatch) -> tuple[I8, I4]:
        if self._text_bits.bit_count:
            bit_start, bit = self._text_bits.evaluate_batch(batch)
            return frozen(bit_start), frozen(bit)
        if len(self._no_bits) <= batch.event_count:
            self._no_bits = frozen(np.zeros(batch.event_count + 1, np.int64))
        return self._no_bits[: batch.event_count + 1], _NONE

    def encode(self, raw: RawBatch) -> EncodedBatch:
        """Encode all events of a decoded batch; refused ones come out empty."""
        known = self._attribute_of
        found = sorted((known[name], raw.attributes[name]) for name in raw.attributes if name in known)
        room = sum(len(kind.event) for _, entries in found for kind in entries if kind is not None)
        out = (np.empty(room, np.int32), np.empty(room, np.int32))
        segments: list[tuple[int, int, int]] = []
        at = 0
        for attribute, entries in found:
            end, several = self._encode_attribute(attribute, entries, at, out)
            if several:
                end = _make_distinct(at, end, out)
            segments.append((attribute, at, end))
            at = end
        table = np.array(segments, np.int64).reshape(-1, 3)
        entry_start = np.zeros(raw.event_count + 1, np.int64)
        entries_out = (np.empty(at, np.int32), np.empty(at, np.int32))
        encode.arrange(
            (
                kernel_input(table[:, 0], np.int32),
                kernel_input(table[:, 1], np.int64),
                kernel_input(table[:, 2], np.int64),
            ),
            (frozen(out[0]), frozen(out[1])),
            entry_start,
            entries_out,
        )
        bit_start, bit = self._text_bits.evaluate(raw)
        return EncodedBatch(
            raw.event_count,
            frozen(entry_start),
            frozen(entries_out[0]),
            frozen(entries_out[1]),
            frozen(bit_start),
            frozen(bit),
        )

    def _encode_attribute(
        self, attribute: int, entries: AttributeEntries, at: int, out: tuple[I4, I4]
    ) -> tuple[int, bool]:
        """Encode one attribute into `out` from row `at` on; return the next row and whether events repeat."""
        repeats = 0
        if entries.booleans is not None:
            event = kernel_input(entries.booleans.event, np.int32)
            value = kernel_input(entries.booleans.value, np.uint8)
            repeats += encode.encode_booleans(event, value, at, out)
            at += len(event)
        if entries.numbers is not None:
            event = kernel_input(entries.numbers.event, np.int32)
            keys = (
                kernel_input(entries.numbers.whole, np.int64),
                kernel_input(entries.numbers.part, np.float64),
            )
            repeats += encode.encode_numbers(event, keys, self.lookup.numbers, attribute, at, out)
            at += len(event)
        if entries.texts is not None:
            event = kernel_input(entries.texts.event, np.int32)
            texts = (
                kernel_input(entries.texts.start, np.int64),
                kernel_input(entries.texts.end, np.int64),
                kernel_input(entries.texts.data, np.uint8),
            )
            repeats += encode.encode_texts(event, texts, self.lookup.texts, attribute, at, out)
            at += len(event)
        return at, repeats > 0


class _DenseRows:
    """The columns of a plan whose attributes an encoder knows, and what it remembers between batches."""

    def __init__(self, plan: ColumnPlan, attribute_of: Mapping[str, int]) -> None:
        self.plan = plan
        known = sorted((attribute_of[name], at) for at, name in enumerate(plan.names) if name in attribute_of)
        self.attributes: I4 = frozen(np.array([attribute for attribute, _ in known], np.int32))
        self.picked = PickedColumns(plan, [at for _, at in known], self.attributes.tolist())
        self._full: tuple[I8, I4] = (np.zeros(0, np.int64), np.zeros(0, np.int32))
        self._room = (np.empty(0, np.int32), np.empty(0, np.int32))

    def room_for(self, attribute_count: int, label_count: int) -> tuple[I4, I4]:
        """Return room for so many attributes and labels of entries, valid until the next call."""
        kept = self._room
        if attribute_count > len(kept[0]) or label_count > len(kept[1]):
            kept = np.empty(attribute_count, np.int32), np.empty(label_count, np.int32)
            if label_count <= _DENSE_ROOM_KEPT_MAX:
                self._room = kept
        return kept[0][:attribute_count], kept[1][:label_count]

    def full_entries(self, event_count: int) -> tuple[I8, I4]:
        """Return the starts and the attributes of the entries of events that have all columns."""
        if len(self._full[0]) <= event_count:
            starts = np.arange(event_count + 1, dtype=np.int64) * len(self.attributes)
            self._full = (frozen(starts), frozen(np.tile(self.attributes, event_count)))
        starts, attributes = self._full
        return starts[: event_count + 1], attributes[: event_count * len(self.attributes)]


class _RowRoom:
    """Memory for the labels of one small batch of rows after another."""

    def __init__(self, event_count: int, entry_count: int) -> None:
        self.entry_start = np.empty(event_count + 1, np.int64)
        self.entries = (np.empty(entry_count, np.int32), np.empty(entry_count, np.int32))
        self.frozen = (frozen(self.entry_start), frozen(self.entries[0]), frozen(self.entries[1]))

    def fits(self, event_count: int, entry_count: int) -> bool:
        """Tell whether it is for exactly so many events and so many entries at least."""
        return entry_count <= len(self.entries[0]) and event_count + 1 == len(self.entry_start)


class _NameNumbers:
    """The attributes of an encoder by the numbers that a `NameTable` gives to their names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._known: tuple[NameTable | None, int] = (None, 0)
        self._numbers = np.zeros(0, np.int32)
        self._attribute = frozen(np.zeros(0, np.int32))

    def attributes_by_number(self, table: NameTable) -> I4:
        """Return the attribute of every number of `table`, int32, -1 for the names of others."""
        if self._known[0] is not table or self._known[1] != table.epoch:
            self._known = (table, table.epoch)
            self._numbers = table.numbers_of(self._names)
            self._attribute = frozen(np.zeros(0, np.int32))
        if len(self._attribute) < table.count:
            attribute = np.full(2 * table.count, -1, np.int32)
            attribute[self._numbers] = np.arange(len(self._names), dtype=np.int32)
            self._attribute = frozen(attribute)
        return self._attribute


def _make_distinct(first: int, stop: int, out: tuple[I4, I4]) -> int:
    """Sort rows [first, stop) by event and label, drop repeats; return the new stop."""
    event, label = out
    keys = np.unique((event[first:stop].astype(np.int64) << 32) | label[first:stop])
    end = first + len(keys)
    event[first:end] = keys >> 32
    label[first:end] = keys & 0x7FFFFFFF
    return end
