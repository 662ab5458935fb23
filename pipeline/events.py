"""Events as they reach a Python worker, as columns or as a JSON document each: a payload either way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pubsub_cluster.language.batch import Buffer, Payload, payload_from_columns
from pubsub_cluster.language.payload_arrow import values_of_arrow
from pubsub_cluster.language.payload_text import Utf8Values


def column_payload(columns: Mapping[str, Any], count: int) -> Payload:
    """Return events with typed attributes as a publisher would send them.

    Parameters
    ----------
    columns : mapping of str to Arrow or NumPy array
        Each of `count` values; there may be none.
    count : int
    """
    if columns:
        return payload_from_columns(columns)
    return Payload({"format": "columns", "event_count": count, "columns": []}, [], {})


def json_payload(texts: pa.Array) -> Payload:
    """Return events given as JSON objects, whose attributes may be of any kind.

    Parameters
    ----------
    texts : pyarrow.Array
        Of a text type; a null is no event, and is refused as such.
    """
    values, _ = values_of_arrow("json", texts.fill_null("null"))
    assert isinstance(values, Utf8Values)
    buffers: list[Buffer] = [values.offsets.tobytes(), values.data.data.cast("B")]
    return Payload({"format": "json", "event_count": len(texts)}, buffers, {})
