"""What a sample of events says of labels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.language.decode import decode_payload
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.payload import payload_from_dicts
from pubsub_cluster.language.raw_batch import AttributeEntries
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.code_space import CodeSpaces, build_code_spaces, gather_predicates
from pubsub_cluster.tuner import process, statistics
from pubsub_cluster.tuner.messages import Sample, SampleTaken
from pubsub_cluster.tuner.statistics import EventSample

EVENTS = [{"a": n % 7, "b": ("x", "y", n)[n % 3], "c": n % 2 == 0, "d": "no predicate's"} for n in range(40)]
EXPRESSIONS = ["a = 1 AND b = 'x'", "a > 5", "b = 'z' OR b = 20", "c = true", "e = 3"]


def spaces_of(expressions: list[str]) -> tuple[CodeSpaces, list[str]]:
    writer = CatalogueWriter.in_memory(1_000)
    registry = Registry(writer, EMPTY_SCHEMA, DEFAULT_LIMITS)
    for expression in expressions:
        registry.stage_subscribe({"expr": expression})
    registry.apply(len(expressions))
    reader, counts = CatalogueReader.of(writer), writer.counts()
    spaces, _ = build_code_spaces(
        gather_predicates(reader.columns, np.arange(counts.predicates, dtype=np.int32))
    )
    return spaces, [reader.attribute_name(number) for number in range(spaces.attribute_count)]


def test_batches_of_one_event_say_what_one_batch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each attribute's constants are gone through once, not once a batch."""
    spaces, names = spaces_of(EXPRESSIONS)
    together, one_by_one = EventSample(16 * len(EVENTS)), EventSample(16 * len(EVENTS))
    for sample, size in ((together, len(EVENTS)), (one_by_one, 1)):
        for first in range(0, len(EVENTS), size):
            payload = payload_from_dicts(EVENTS[first : first + size])
            sample.add(decode_payload(payload.header, payload.buffers))
    expected = together.statistics(spaces, names)
    encoded = []
    encode = statistics.encode_entries

    def counted(spaces: CodeSpaces, attribute: int, entries: AttributeEntries) -> object:
        encoded.append(names[attribute])
        return encode(spaces, attribute, entries)

    monkeypatch.setattr(statistics, "encode_entries", counted)
    for mine, theirs in zip(one_by_one.statistics(spaces, names), expected, strict=True):
        assert np.array_equal(mine, theirs)
    assert sorted(encoded) == ["a", "b", "c"]
    assert len(np.unique(expected.events)) > 5


def test_a_sample_fills_with_what_there_is_and_forgets_evenly() -> None:
    """Half of the room that is left by one batch, until a sixteenth of all is more."""
    payload = payload_from_dicts([{"a": number} for number in range(1_000)])
    raw = decode_payload(payload.header, payload.buffers)
    sample = EventSample(1_600)
    assert [sample.add(raw) for _ in range(5)] == [500, 500, 250, 167, 100]
    numbers = sample.events().attributes["a"].numbers
    assert numbers is not None
    taken = np.unique(numbers.whole)
    assert taken.min() == 0 and taken.max() >= 990 and np.diff(taken).max() <= 2
    held = [sample.add(raw) and sample.event_count for _ in range(200)]
    assert max(held) <= 1_600
    assert min(held[-20:]) >= 1_400  # as batches of a hundred leave, such come in


def test_what_is_told_of_a_batch_is_what_was_taken_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one large batch would seem to have replaced the whole sample: a reason to build a generation."""
    payload = payload_from_dicts([{"a": number} for number in range(4_000)])
    loop = process.TunerLoop("inproc://nobody")
    said: list[Any] = []
    monkeypatch.setattr(loop, "_say", said.append)
    slab = SimpleNamespace(read=lambda _: (payload.header, payload.buffers))
    parts = {"slab": slab, "schema": EMPTY_SCHEMA, "limits": DEFAULT_LIMITS, "events": EventSample()}
    for name, part in parts.items():
        monkeypatch.setattr(loop, f"_{name}", part, raising=False)  # what `TunerSetup` would make
    for _ in range(5):
        loop._sample(Sample(3))
    loop._context.destroy(linger=0)
    assert said[0] == SampleTaken(3, 1_000, 1_000)
    assert [message.held_count for message in said] == np.cumsum([one.event_count for one in said]).tolist()
