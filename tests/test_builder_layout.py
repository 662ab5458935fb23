"""The layout builder: what is in a layout, equal bytes every time, and its way through a segment."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch, rows_of_events
from strategies import cases

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.code_space import CodeSpaces
from pubsub_cluster.shm.layout import LayoutArrays, attach_layout, layout_lengths, move_layout
from pubsub_cluster.shm.segment import current_owner
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.clusters import CLUSTER_ENTRIES_MAX
from pubsub_cluster.tuner.configuration import EMPTY_CONFIGURATION
from pubsub_cluster.tuner.predicates import SPREAD_MAX
from pubsub_cluster.tuner.statistics import EventSample, encode_entries
from pubsub_cluster.workers.encoder import Encoder
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.kernels.reference_match import unpack_sections
from pubsub_cluster.workers.text_bits import TextBits


def eq(name: str, value: object) -> dict[str, object]:
    """Return an equality in JSON form."""
    return {"attr": name, "op": "=", "value": value}


def slots_of(layout: LayoutArrays) -> dict[int, list[tuple[int, list[int]]]]:
    """Return (target, residuals) of every slot that leads anywhere."""
    found: dict[int, list[tuple[int, list[int]]]] = {}
    for slot, (first, stop) in enumerate(zip(layout.access_start[:-1], layout.access_start[1:], strict=True)):
        for cluster in range(first, stop):
            ((_, entries),) = unpack_sections(layout.cluster_blob, int(layout.cluster_start[cluster]))
            found.setdefault(slot, []).extend(entries)
    return found


def build(catalogue: Case, version: int = 1, sample: EventSample | None = None) -> LayoutArrays:
    """Build generation 1 of a whole catalogue."""
    return build_layout(catalogue.reader, catalogue.writer.counts(), version, sample, 1)


def test_clause_hangs_off_its_rarest_equality() -> None:
    """With a sample the access predicate is the one that events satisfy least often; it is no residual."""
    catalogue = Case([{"and": [eq("common", 1), eq("rare", 1)]}, {"and": [eq("common", 2), eq("rare", 2)]}])
    sample = EventSample()
    sample.add(raw_batch([{"common": (1 + i % 2,), "rare": (i,)} for i in range(100)]))
    layout = build(catalogue, sample=sample)
    names = [catalogue.reader.attribute_name(int(a)) for a in layout.attribute_catalogue]
    rare = names.index("rare")
    assert set(layout.cluster_attribute.tolist()) == {rare}
    assert sorted(len(residuals) for mine in slots_of(layout).values() for _, residuals in mine) == [1, 1]


def test_small_sets_spread_and_large_ones_do_not() -> None:
    """A small set is found under each member; a large one once, under "present", and stays a residual."""
    small = {"attr": "a", "op": "in", "value": list(range(3))}
    large = {"attr": "b", "op": "in", "value": list(range(SPREAD_MAX + 1))}
    layout = build(Case([small, large]))
    entries = [entry for mine in slots_of(layout).values() for entry in mine]
    assert sorted((target, len(residuals)) for target, residuals in entries) == [(0, 0)] * 3 + [(1, 1)]
    assert layout.row_many.tolist() == [1, 0]


def test_always_and_never() -> None:
    """Clauses without a positive literal are looked at for every event; impossible ones are not there."""
    never = {"attr": "a", "op": "between", "lo": 1, "hi": 1, "lo_open": True}
    layout = build(Case([{"and": []}, {"not": eq("a", 1)}, {"or": []}, never, eq("a", 1)]))
    found = slots_of(layout)
    always = len(layout.access_start) - 2
    assert sorted(target for target, _ in found.pop(always)) == [0, 1]
    assert [target for mine in found.values() for target, _ in mine] == [4]


@pytest.mark.parametrize("value_count", [40, 2_000])
def test_uniform_columns(value_count: int) -> None:
    """Ranges of one attribute are in uniform columns of bytes or halves."""
    step = value_count // 40
    rules = [
        {
            "and": [
                eq("a", 1),
                {"attr": "b", "op": "<", "value": number * step},
                {"attr": "c", "op": "between", "lo": number, "hi": number + 9},
            ]
        }
        for number in range(1, 41)
    ]
    rules += [{"attr": "b", "op": "<", "value": number} for number in range(value_count - 41)]
    catalogue = Case(rules)
    counts = catalogue.writer.counts()
    layout = build_layout(catalogue.reader, counts, 1, None, 1, configuration=EMPTY_CONFIGURATION)
    heads = layout.cluster_blob[layout.cluster_start]
    # One of the forty ranges of "b" may hold one label alone, which is a way in of its own.
    found = heads[(heads & form.ENTRY_MASK) >= 39] >> form.UNIFORM_SHIFT & form.UNIFORM_MASK
    assert set(found.tolist()) == ({2} if value_count == 40 else {1, 2})
    assert (heads & form.HEAD_ONCE).all()
    engine = MatchEngine(catalogue.reader)
    engine.attach_layout(1, layout)
    events = [
        {"a": (1,), "b": (b,), "c": c} for b in (0, 7 * step, value_count) for c in ((3,), (20,), (2, 48))
    ]
    matched = rows_of_events(engine.match(raw_batch(events), 1, counts))
    assert matched == rows_of_events(engine.match(raw_batch(events), 0, counts))


def test_sections_told_once_have_no_row_twice() -> None:
    """A section says so only of rows that no other entry leads to."""
    both = {"or": [eq("a", 1), eq("b", 1)]}
    layout = build(Case([eq("a", 1), both, eq("b", 1), {"attr": "a", "op": "in", "value": [1, 2]}]))
    assert layout.row_many.tolist() == [0, form.MANY_CLAUSES, 0, form.MANY_KEYS]
    for start in layout.cluster_start.tolist():
        ((_, entries),) = unpack_sections(layout.cluster_blob, start)
        if int(layout.cluster_blob[start]) & form.HEAD_ONCE:
            assert not any(layout.row_many[target] for target, _ in entries)


def test_removed_rows_are_left_out() -> None:
    """Rows removed at the version or before are not in the layout; rows are ordered by handle."""
    catalogue = Case([eq("a", number) for number in range(6)])
    catalogue.writer.remove(2, 5)
    catalogue.writer.remove(4, 6)
    assert build(catalogue, version=5).row_catalogue.tolist() == [0, 1, 3, 4, 5]
    assert build(catalogue, version=4).row_catalogue.tolist() == [0, 1, 2, 3, 4, 5]


def test_large_clusters_are_cut() -> None:
    """No cluster exceeds the bound, and partitions share the cost."""
    count = 3 * CLUSTER_ENTRIES_MAX + 5
    catalogue = Case([])
    one, two = Case([eq("a", 1)]).reader.normal_form(0), Case([{"and": []}]).reader.normal_form(0)
    for row in range(count):
        catalogue.writer.append(row + 1, str(row), None, one if row % 2 else two)
    layout = build(catalogue)
    assert layout.cluster_entries_max == CLUSTER_ENTRIES_MAX
    entries = [entry for mine in slots_of(layout).values() for entry in mine]
    assert sorted(target for target, _ in entries) == list(range(count))
    assert layout.partition_cost.sum() > 0


@settings(max_examples=40)
@given(case=cases(), data=st.data())
def test_build_is_pure_and_survives_a_segment(case: object, data: st.DataObject) -> None:
    """Equal work gives equal bytes, and an attached layout is the one written."""
    catalogue = Case(case.expressions, case.schema)  # type: ignore[attr-defined]
    sample = EventSample()
    raw = raw_batch([flatten_event(e, case.schema, DEFAULT_LIMITS) for e in case.events])  # type: ignore[attr-defined]
    sample.add(raw)
    layout = build(catalogue, sample=sample)
    for first, second in zip(layout, build(catalogue, sample=sample), strict=True):
        assert first.dtype == second.dtype and first.tobytes() == second.tobytes()
    owner = current_owner(uuid.uuid4().hex[:8])
    segment = move_layout(list(layout), layout_lengths(layout), layout.generation, owner)
    try:
        attached = attach_layout(segment.name)
    finally:
        segment.unlink()
        segment.close()
    for name, first, second in zip(layout._fields, layout, attached, strict=True):
        assert not second.flags.writeable, name
        assert first.dtype == second.dtype and first.tobytes() == second.tobytes(), name
    assert attached.generation == 1 and attached.counts == catalogue.writer.counts()
    engine = MatchEngine(catalogue.reader, case.schema)  # type: ignore[attr-defined]
    engine.attach_layout(1, attached)
    counts = catalogue.writer.counts()
    by_layout = rows_of_events(engine.match(raw, 1, counts))
    assert by_layout == rows_of_events(engine.match(raw, 0, counts))


@settings(max_examples=40)
@given(case=cases())
def test_sample_encodes_as_the_encoder_does(case: object) -> None:
    """Statistics see the labels that matching sees."""
    catalogue = Case(case.expressions, case.schema)  # type: ignore[attr-defined]
    layout = build(catalogue)
    spaces: CodeSpaces = layout.spaces
    names = [catalogue.reader.attribute_name(int(a)) for a in layout.attribute_catalogue]
    raw = raw_batch([flatten_event(e, case.schema, DEFAULT_LIMITS) for e in case.events])  # type: ignore[attr-defined]
    encoded = Encoder(spaces, names, TextBits([])).encode(raw)
    event = np.repeat(np.arange(raw.event_count), np.diff(encoded.entry_start))
    for attribute, name in enumerate(names):
        mine = encoded.entry_attribute == attribute
        expected = set(zip(event[mine].tolist(), encoded.entry_label[mine].tolist(), strict=True))
        entries = raw.attributes.get(name)
        found = [] if entries is None else encode_entries(spaces, attribute, entries)
        assert set(zip(*(column.tolist() for column in found), strict=True)) == expected


def test_sample_is_bounded() -> None:
    """Old batches make room; a large batch is thinned evenly; nothing refers to the batch's memory."""
    sample = EventSample(event_count_max=64)
    large = raw_batch([{"a": (str(i),)} for i in range(100)])
    assert [sample.add(large) for _ in range(6)] == [25, 17, 10, 6, 4, 4]  # of 64: half of the room, or 4
    for _ in range(20):
        assert sample.add(large) <= 25
        assert sample.event_count <= 64
    for _ in range(20):
        sample.add(raw_batch([{"a": (1,)}] * 4))
    assert sample.event_count == 64
    assert sample.add(raw_batch([])) == 0
