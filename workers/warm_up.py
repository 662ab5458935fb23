"""Compiles or loads every kernel before the first batch, for the array types that it will see."""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.language.batch import Payload, payload_from_columns
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
)
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.layout import empty_layout
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.encoder import Encoder
from pubsub_cluster.workers.kernels import lookup
from pubsub_cluster.workers.names import NameTable
from pubsub_cluster.workers.text_bits import TextBits

_ONE_ATTRIBUTE: dict[str, Any] = {
    "number_start": np.zeros(2, np.int32),
    "text_start": np.zeros(2, np.int32),
    "label_start": np.array([0, 5], np.int64),
}


def warm_up_encoder() -> None:
    """Encode one event in every form."""
    encoder = Encoder(empty_layout().spaces._replace(**_ONE_ATTRIBUTE), ["a"], TextBits([]))
    lookup.fill_number_slots(0, encoder.lookup.numbers, np.zeros(0, np.int32))
    lookup.fill_text_slots(0, encoder.lookup.texts, np.zeros(0, np.int64))
    names = NameTable(EMPTY_SCHEMA, DEFAULT_LIMITS)
    for payload in one_event_payloads():
        encoder.encode_batch(EventBatch(payload.header, payload.buffers, names))
    encoder.encode(one_event())
    TextBits(_TEXT_PREDICATES).evaluate(one_event())


# The second one is tested on every text.
_TEXT_PREDICATES = [
    Predicate(PredicateKind.TEXT, "a", constants=((ValueKind.TEXT, pattern),), text_operator=operator)
    for operator, pattern in (("contains", b"a"), ("matches", b"."))
]
_DOCUMENTS = {"json": b'{"a":1}', "msgpack": b"\x81\xa1a\x01"}


def one_event_payloads() -> list[Payload]:
    """Return an event with a number in attribute ``a``, in every form that a publisher may send."""
    rows = []
    for name, document in _DOCUMENTS.items():
        offsets = np.array([0, len(document)], np.int64)
        rows.append(Payload({"format": name, "event_count": 1}, [offsets.tobytes(), document], {}))
    return [*rows, payload_from_columns({"a": np.zeros(1)})]


def one_event() -> RawBatch:
    """Return one event with an attribute ``a`` that has a value of each kind."""
    event = np.zeros(1, np.int32)
    numbers = NumberEntries(event, np.zeros(1, np.int64), np.zeros(1, np.float64))
    texts = TextEntries(event, np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.uint8))
    entries = AttributeEntries(numbers, texts, BooleanEntries(event, np.zeros(1, np.uint8)))
    return RawBatch(1, {"a": entries}, {})
