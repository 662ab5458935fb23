"""The encoder from every form of a batch against the encoder of decoded values."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case
from strategies import cases

from pubsub_cluster.language.batch import decode_payload, payload_from_columns, payload_from_dicts
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.payload import Payload
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, DomainKind, Schema
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.shm.code_space import LabelTests, build_code_spaces, gather_predicates
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.shm.slab import SPARE_BYTES, ChunkBuffers
from pubsub_cluster.workers import dense
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.dense import ColumnPlan, ColumnReader, DenseColumns, PickedColumns
from pubsub_cluster.workers.encoder import EncodedBatch, Encoder
from pubsub_cluster.workers.names import NameTable
from pubsub_cluster.workers.text_bits import TextBits


def compiled(case: Case) -> tuple[Encoder, Encoder, LabelTests]:
    """Return the encoder that may use everything, the one that takes no comparison for granted, the tests."""
    count = case.writer.counts().predicates
    predicates = gather_predicates(case.reader.columns, np.arange(count, dtype=np.int32))
    spaces, tests = build_code_spaces(predicates)
    names = [case.reader.attribute_name(int(i)) for i in predicates.attribute_id]
    held = [case.reader.predicate(int(i)) for i in tests.bit_predicate]
    return (
        Encoder(spaces, names, TextBits(held), tests.test),
        Encoder(spaces, names, TextBits(held)),
        tests,
    )


def lists_of(encoded: EncodedBatch) -> list[Any]:
    count = int(encoded.entry_start[-1])  # the arrays of entries may be longer
    entries = [encoded.entry_attribute[:count].tolist(), encoded.entry_label[:count].tolist()]
    start = encoded.bit_start.tolist()
    bits = [sorted(encoded.bit[a:b].tolist()) for a, b in itertools.pairwise(start)]  # any order
    return [encoded.event_count, encoded.entry_start.tolist(), *entries, bits]


def truths(encoded: EncodedBatch, tests: LabelTests) -> list[tuple[int, int, bool]]:
    """What every test says of every entry."""
    found = []
    sets = [
        set(tests.set_label[a:b].tolist()) for a, b in zip(tests.set_start, tests.set_start[1:], strict=False)
    ]
    entries = list(zip(encoded.entry_attribute.tolist(), encoded.entry_label.tolist(), strict=True))
    for at, (attribute, lo, hi, reference) in enumerate(tests.test.reshape(-1, 4).tolist()):
        for row, (mine, label) in enumerate(entries):
            if mine == attribute:
                holds = lo <= label <= hi
                if reference >= 0:
                    holds = holds and (label in sets[reference >> 1]) != bool(reference & 1)
                found.append((at, row, holds))
    return found


def has_several(encoded: EncodedBatch) -> bool:
    """Say whether an event has several values of an attribute; encoders order their labels differently."""
    events = np.repeat(np.arange(encoded.event_count), np.diff(encoded.entry_start))
    pairs = set(zip(events.tolist(), encoded.entry_attribute.tolist(), strict=True))
    return len(pairs) < len(encoded.entry_attribute)


def json_payload(events: list[Any]) -> Payload:
    documents = [json.dumps(event).encode() for event in events]
    offsets = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    return Payload(
        {"format": "json", "event_count": len(events)}, [offsets.tobytes(), b"".join(documents)], {}
    )


@settings(max_examples=50, deadline=None)
@given(case=cases())
def test_rows_encode_as_their_decoded_values(case: Any) -> None:
    """JSON and dictionaries; the same for both encoders, bits included."""
    fast, exact, tests = compiled(Case(case.expressions, case.schema))
    names = NameTable(case.schema, DEFAULT_LIMITS)
    finite = [event for event in case.events if not {"NaN", "Infinity", "-Infinity"} & _words(event)]
    for payload in (json_payload(finite), payload_from_dicts(case.events)):
        raw = decode_payload(payload.header, payload.buffers, case.schema)
        batch = EventBatch(payload.header, payload.buffers, names, case.schema)
        for encoder in (fast, exact):
            assert lists_of(encoder.encode_batch(batch)) == lists_of(encoder.encode(raw))
        assert batch.refused.keys() == raw.refused.keys()
        if not (has_several(fast.encode(raw)) or has_several(exact.encode(raw))):
            # One value per attribute: entries stand at the same places.
            assert truths(fast.encode(raw), tests) == truths(exact.encode(raw), tests)


def _words(event: Any) -> set[str]:
    return set(
        json.dumps(event).replace(",", " ").replace("}", " ").replace("]", " ").replace("[", " ").split()
    )


VALUES: dict[str, Any] = {
    "i": st.integers(-3, 3) | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)]),
    "f": st.floats() | st.sampled_from([0.0, -0.0, 2.5, 1.0, 2.0**63]),
    "t": st.sampled_from(["", "a", "ab", "abcdefghi", "é", "a\0"]) | st.text(max_size=3),
    "b": st.booleans(),
}
SCHEMAS = [
    EMPTY_SCHEMA,
    Schema(
        (
            Attribute("i", DomainKind.FLOAT),
            Attribute("t", DomainKind.STRING),
            Attribute("z", DomainKind.INTEGER),
        )
    ),
    Schema((Attribute("f", DomainKind.INTEGER), Attribute("t", DomainKind.ENUMERATED, ("a", "ab")))),
    Schema((Attribute("i", DomainKind.TIMESTAMP), Attribute("b", DomainKind.BOOLEAN)), closed=True),
]
SUBSCRIPTIONS = [
    "i = 1",
    "i = 2",
    "i in (0, 3, -1)",
    "i > 9007199254740992",
    "f < 2.5",
    "f = 0",
    "f >= 1e19",
    "t = 'a'",
    "t = 'ab'",
    "t in ('', 'abcdefghi', 'é', 'zz', 'q')",
    "u < 'b'",
    "b = true",
    "t contains 'b'",
    "z = 1",
]


@settings(max_examples=70, deadline=None)
@given(st.integers(0, 6), st.sampled_from(SCHEMAS), st.sampled_from([3, 1 << 20]), st.data())
def test_columns_encode_as_their_decoded_values(
    event_count: int, schema: Schema, size_max: int, draw: st.DataObject
) -> None:
    """Dense columns, masked or not, whatever the schema says of them."""

    columns: dict[str, Any] = {}
    for name in draw.draw(st.sets(st.sampled_from([*VALUES, "u", "unknown"]))):
        strategy = VALUES.get(name, VALUES["t"])
        values = draw.draw(st.lists(strategy, min_size=event_count, max_size=event_count))
        if draw.draw(st.booleans()):
            mask = draw.draw(st.lists(st.booleans(), min_size=event_count, max_size=event_count))
            values = [None if hidden else value for value, hidden in zip(values, mask, strict=True)]
        columns[name] = values
    fast, exact, _ = compiled(Case([parse_text(text) for text in SUBSCRIPTIONS]))
    limits = Limits(string_size_bytes_max=size_max)
    payload = payload_from_columns(columns)
    raw = decode_payload(payload.header, payload.buffers, schema, limits)
    batch = EventBatch(payload.header, payload.buffers, NameTable(schema, limits), schema, limits)
    for encoder in (fast, exact):
        assert lists_of(encoder.encode_batch(batch)) == lists_of(encoder.encode(raw))
    assert batch.refused.keys() == raw.refused.keys()


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
def test_columns_are_read_where_they_lie(kind: str) -> None:
    """A chunk's columns of integers of any width, in any order and place, give the labels of their values."""
    fast, _, _ = compiled(Case([parse_text(text) for text in SUBSCRIPTIONS]))
    column_reader, names = ColumnReader(EMPTY_SCHEMA, DEFAULT_LIMITS), NameTable(EMPTY_SCHEMA, DEFAULT_LIMITS)
    bounds = np.iinfo(kind)
    values = np.array([0, 1, 2, 3, -1, 5, bounds.min, bounds.max, *range(60)], kind)
    columns = {"i": values, "unknown": values[::-1], "f": values + 0.5, "u": values[::-1]}
    kinds = [kind, kind, "float64", kind]
    for order in itertools.permutations(range(4)):
        for count in (len(values), 7):
            parts = [np.array(list(columns.values())[at][:count], kinds[at]).tobytes() for at in order]
            described = [{"name": list(columns)[at], "type": kinds[at]} for at in order]
            header = {"format": "columns", "event_count": count, "columns": described}
            starts = tuple(itertools.accumulate(map(len, parts), initial=3))[:-1]
            content = frozen(np.frombuffer(b"???" + b"".join(parts) + bytes(SPARE_BYTES), np.uint8))
            buffers = ChunkBuffers(content, starts, tuple(map(len, parts)))
            batch = EventBatch(header, buffers, names, column_reader=column_reader)
            assert batch.dense is not None
            raw = decode_payload(header, parts)
            assert lists_of(fast.encode_batch(batch)) == lists_of(fast.encode(raw))


@pytest.mark.parametrize("joined_max", [0, 1 << 20])
def test_columns_are_brought_together_for_batch_after_batch(
    monkeypatch: pytest.MonkeyPatch, joined_max: int
) -> None:
    """In memory that is kept or not, for larger and smaller batches in turn, with gaps and without."""
    monkeypatch.setattr(dense, "_JOINED_MAX_BYTES", joined_max)
    fast, _, _ = compiled(Case([parse_text(text) for text in SUBSCRIPTIONS]))
    column_reader, names = ColumnReader(EMPTY_SCHEMA, DEFAULT_LIMITS), NameTable(EMPTY_SCHEMA, DEFAULT_LIMITS)
    for count, is_masked in itertools.product((5, 0, 90, 3, 120), (False, True)):
        numbers = np.arange(count)
        columns: dict[str, Any] = {
            "i": numbers % 7,
            "f": numbers % 5 / 2,
            "t": [f"{at % 3}b" for at in numbers],
        }
        if is_masked:
            columns["i"] = np.ma.masked_array(columns["i"], numbers % 2 == 0)
        payload = payload_from_columns(columns)
        batch = EventBatch(payload.header, payload.buffers, names, column_reader=column_reader)
        assert batch.dense is not None or not count
        raw = decode_payload(payload.header, payload.buffers)
        assert lists_of(fast.encode_batch(batch)) == lists_of(fast.encode(raw))


@pytest.mark.parametrize("picked", [[], [1]])
def test_places_of_columns_are_forgotten(monkeypatch: pytest.MonkeyPatch, picked: list[int]) -> None:
    """Texts lie elsewhere in each batch: what is remembered of that is bounded, whatever is picked."""
    monkeypatch.setattr(dense, "_KNOWN_NUMBERS_MAX", 100)
    plan = ColumnPlan([{"name": name, "type": "utf8"} for name in "abcdefgh"])
    columns = PickedColumns(plan, picked, picked)
    content = frozen(np.zeros(8, np.uint8))
    for batch in range(50):
        starts = tuple(range(batch, batch + 16))
        buffers = ChunkBuffers(content, starts, (0,) * 16)
        _, rows = columns.gather(DenseColumns(plan, buffers, buffers.sizes))
        assert rows[:, 3:5].tolist() == [[starts[2 * at + 1], starts[2 * at]] for at in picked]
        assert len(columns._known) <= 6


def test_plain_columns_are_used_as_they_are() -> None:
    """No decoding for common columns; a NaN, a list or a foreign type sends the batch the long way."""
    columns = {
        "i": np.arange(3),
        "f": np.array([1.5, 2, 3]),
        "t": ["a", None, "é"],
        "b": np.array([True] * 3),
    }
    for more, is_plain in (({}, True), ({"x": np.array([1.0, np.nan, 2.0])}, False)):
        payload = payload_from_columns({**columns, **more})
        batch = EventBatch(payload.header, payload.buffers, NameTable(EMPTY_SCHEMA, DEFAULT_LIMITS))
        assert (batch.dense is not None) == is_plain


def test_numbers_of_names_survive_new_names() -> None:
    """An encoder follows a table that grows, and one that starts anew."""
    names = NameTable(EMPTY_SCHEMA, DEFAULT_LIMITS)
    names.numbers_of([f"n{at}" for at in range(5_000)])
    assert names.numbers_of(["n4999", "new", "n0"]).tolist() == [4_999, 5_000, 0]


@pytest.mark.parametrize("form", ["json", "columns"])
def test_empty_batches(form: str) -> None:
    """No events, and events without attributes."""
    fast, _, _ = compiled(Case([]))
    for events in ([], [{}, {}]):
        payload = (
            json_payload(events) if form == "json" else payload_from_columns({"a": [None] * len(events)})
        )
        batch = EventBatch(payload.header, payload.buffers, NameTable(EMPTY_SCHEMA, DEFAULT_LIMITS))
        assert fast.encode_batch(batch).entry_start.tolist() == [0] * (len(events) + 1)
