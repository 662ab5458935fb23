"""A batch of events, from the publisher's values to flat arrays: the one door to its three rooms.

- `pubsub_cluster.language.payload`: what a publisher sends, a header and a list of buffers.
- `pubsub_cluster.language.raw_batch`: what matching starts from, arrays per attribute.
- `pubsub_cluster.language.decode`: from the one to the other, after a check that trusts nothing.

Everyone outside this folder imports from here.
"""

from __future__ import annotations

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
    "NumberEntries",
    "RawBatch",
    "TextEntries",
    "Value",
    "event_values",
]
