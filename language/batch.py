"""A batch of events, from the publisher's values to flat arrays: the one door to its rooms.

- `pubsub_cluster.language.payload`: what a publisher sends, a header and a list of buffers.
- `pubsub_cluster.language.payload_check`: whether a payload from outside is what it says.
- `pubsub_cluster.language.raw_batch`: what matching starts from, arrays per attribute.
- `pubsub_cluster.language.decode`: from a checked payload to these arrays.

Everyone outside this folder imports from here.
"""

from __future__ import annotations

from pubsub_cluster.language.decode import (
    column_views,
    decode_payload,
    decode_some,
    event_as_json,
    events_as_json,
)
from pubsub_cluster.language.payload import (
    Buffer,
    Payload,
    payload_from_columns,
    payload_from_dicts,
    payload_from_json,
)
from pubsub_cluster.language.payload_check import check_payload
from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
    Value,
    event_values,
)

__all__ = [
    "AttributeEntries",
    "BooleanEntries",
    "Buffer",
    "NumberEntries",
    "Payload",
    "RawBatch",
    "TextEntries",
    "Value",
    "check_payload",
    "column_views",
    "decode_payload",
    "decode_some",
    "event_as_json",
    "event_values",
    "events_as_json",
    "payload_from_columns",
    "payload_from_dicts",
    "payload_from_json",
]
