"""Events as they reach a Python worker, as columns or as a JSON document each: a payload either way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pubsub_cluster.language.batch import Buffer, Payload, payload_from_columns
from pubsub_cluster.language.payload_arrow import values_of_arrow
from pubsub_cluster.language.payload_text import Utf8Values


@dataclass(frozen=True, slots=True)
class ColumnEvents:
    """Events with typed attributes.

    Attributes
    ----------
    columns : mapping of str to Arrow or NumPy array
        Each of `count` values.
    count : int
    """

    columns: Mapping[str, Any]
    count: int

    def slice(self, start: int, stop: int) -> ColumnEvents:
        """Return events [start, stop)."""
        return ColumnEvents({name: column[start:stop] for name, column in self.columns.items()}, stop - start)

    def payload(self) -> Payload:
        """Return them as a publisher would send them."""
        if self.columns:
            return payload_from_columns(self.columns)
        return Payload({"format": "columns", "event_count": self.count, "columns": []}, [], {})


@dataclass(frozen=True, slots=True)
class JsonEvents:
    """Events as JSON objects, whose attributes may be of any kind.

    Attributes
    ----------
    texts : pyarrow.Array
        Of a text type.
    """

    texts: pa.Array

    @property
    def count(self) -> int:
        """How many."""
        return len(self.texts)

    def slice(self, start: int, stop: int) -> JsonEvents:
        """Return events [start, stop)."""
        return JsonEvents(self.texts[start:stop])

    def payload(self) -> Payload:
        """Return them as a publisher would send them; a null is no event, and is refused as such."""
        values, _ = values_of_arrow(self.texts.fill_null("null"))
        assert isinstance(values, Utf8Values)
        buffers: list[Buffer] = [values.offsets.tobytes(), values.data.data.cast("B")]
        return Payload({"format": "json", "event_count": self.count}, buffers, {})


Events = ColumnEvents | JsonEvents
