"""A batch as a worker reads it: scanned or seen as columns at once, decoded by attribute only when asked.

Rows (JSON, MessagePack) become a `FlatBatch`. Columns that need no closer look are used as they come
(`workers.dense`). Everything else is what `decode_payload` makes of it, and so is every batch under a schema
with event types. `raw` is for those who want values by attribute (the delta, comparisons of two attributes,
the tuner's sample).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from pubsub_cluster.language.decode import decode_payload
from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.events import event_reader
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.payload import Buffer
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch, TextEntries
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.shm.code_space import I4, I8
from pubsub_cluster.workers.dense import ColumnReader, DenseColumns
from pubsub_cluster.workers.flat_batch import (
    SCANNERS,
    EntryRoom,
    FlatBatch,
    entries_of_flat,
    raw_of,
    rows_of_flat,
    scan_rows,
)
from pubsub_cluster.workers.names import NameTable


class EventBatch:
    """The events of one checked payload; the buffers must outlive it.

    Parameters
    ----------
    header : mapping
    buffers : sequence of bytes-like
    names : NameTable
        Of the same schema and limits; one batch at a time may use it.
    schema : Schema
    limits : Limits
    column_reader : ColumnReader, optional
        Of the same schema and limits; kept from batch to batch it knows what headers say.
    room : EntryRoom, optional
        Where the entries of rows go; the batch is valid until the next one takes it.

    Attributes
    ----------
    event_count : int
    flat : FlatBatch or None
        The entries of rows.
    dense : DenseColumns or None
        Columns to use as they are.
    """

    def __init__(
        self,
        header: Mapping[str, Any],
        buffers: Sequence[Buffer],
        names: NameTable,
        schema: Schema = EMPTY_SCHEMA,
        limits: Limits = DEFAULT_LIMITS,
        column_reader: ColumnReader | None = None,
        room: EntryRoom | None = None,
    ) -> None:
        self.event_count: int = header["event_count"]
        self.names = names
        self.flat: FlatBatch | None = None
        self.dense: DenseColumns | None = None
        self._raw: RawBatch | None = None
        self._rows: tuple[I4, I8] | None = None
        self._decode = (header, buffers, schema, limits)
        if schema.types is not None:
            return  # events are checked against their types as they are decoded
        if header["format"] in SCANNERS:
            self.flat = scan_rows(header, buffers, event_reader(schema, limits), names, room)
        elif header["format"] == "columns":
            self.dense = (column_reader or ColumnReader(schema, limits)).read(header, buffers)

    @classmethod
    def of_raw(cls, raw: RawBatch, names: NameTable) -> EventBatch:
        """Return a batch that is decoded already."""
        batch = cls({"format": "decoded", "event_count": raw.event_count}, [], names)
        batch._raw = raw
        return batch

    @property
    def refused(self) -> dict[int, EventError]:
        """Refused events by index."""
        if self.dense is not None:
            return {}
        return self.flat.refused if self.flat is not None else self.raw.refused

    @property
    def raw(self) -> RawBatch:
        """Values by attribute; made at the first use."""
        if self._raw is None:
            self._raw = (
                raw_of(self.flat, self.names) if self.flat is not None else decode_payload(*self._decode)
            )
        return self._raw

    def rows(self) -> tuple[I4, I8]:
        """Return event and row of every entry of `flat`, in the order of the events."""
        assert self.flat is not None
        if self._rows is None:
            self._rows = rows_of_flat(self.flat)
        return self._rows

    def entries_of(self, name: str) -> AttributeEntries:
        """Return the values of one attribute."""
        if self._raw is None and self.flat is not None:
            return entries_of_flat(self.flat, self.rows(), int(self.names.numbers_of([name])[0]))
        return self.raw.attributes.get(name, AttributeEntries())

    def named_texts(self, names: Container[str] | None) -> Iterable[tuple[str, TextEntries]]:
        """Return the texts of some attributes, or of all, with their names."""
        if self.dense is not None:
            return self.dense.named_texts(names)
        return [
            (name, entries.texts)
            for name, entries in self.raw.attributes.items()
            if entries.texts is not None and (names is None or name in names)
        ]
