"""The table of columns: offsets never overlap, segments of another table are refused, the page is current."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm import columns, columns_page
from pubsub_cluster.shm.column_plan import Plan, length_symbols, lengths_span, plan
from pubsub_cluster.shm.columns import FAMILIES, FRAMES
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.segment import Owner, Segment, current_owner, list_segments, unlink_segment


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = current_owner(uuid.uuid4().hex[:8])
    yield made
    for name in list_segments(made.cluster_id):
        unlink_segment(name)


@st.composite
def plans(draw: st.DrawFn) -> tuple[str, dict[str, int], Plan]:
    family = draw(st.sampled_from(sorted(FAMILIES)))
    lengths = {symbol: draw(st.integers(0, 300)) for symbol in length_symbols(family)}
    return family, lengths, plan(family, lengths)


@settings(max_examples=100)
@given(plans())
def test_columns_are_aligned_and_apart(case: tuple[str, dict[str, int], Plan]) -> None:
    family, lengths, found = case
    frame = FRAMES[family]
    directory = lengths_span(family)
    end_bytes = 0 if frame.cell_symbol else directory.offset_bytes + 8 * directory.item_count
    for column in FAMILIES[family]:
        span = found.spans[column.name]
        assert span.dtype == np.dtype(column.dtype)
        assert span.offset_bytes % frame.align_bytes == 0
        assert span.offset_bytes >= end_bytes
        end_bytes = span.offset_bytes + span.item_count * span.dtype.itemsize
    if frame.cell_symbol:
        assert found.cells_offset_bytes >= directory.offset_bytes + 8 * directory.item_count
        assert found.cell_size_bytes >= end_bytes
        end_bytes = found.cell_offset_bytes(lengths[frame.cell_symbol])
    assert found.size_bytes >= end_bytes


def test_length_forms() -> None:
    lengths = dict.fromkeys(length_symbols("layout"), 5)
    spans = plan("layout", lengths).spans
    assert spans["number_start"].item_count == 6
    assert spans["number_whole"].item_count == 5
    assert spans["predicate_test"].item_count == 20


@pytest.mark.parametrize("wrong", [{}, {"slots": 1}, {"slots": -1, "page_events": 1, "page_rows": 1}])
def test_lengths_that_do_not_fit_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SegmentError, match="lengths"):
        plan("result_slot", wrong)


def test_every_column_says_who_writes_and_who_reads() -> None:
    for family in FAMILIES.values():
        names = [column.name for column in family]
        assert len(set(names)) == len(names)
        assert all(column.writer and column.readers and column.ordered_by for column in family)


def test_the_page_is_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert columns_page.main(["--check"]) == 0
    page = tmp_path / "shm-layout.md"
    monkeypatch.setattr(columns_page, "PAGE_PATH", page)
    assert columns_page.main(["--check"]) == 1
    assert columns_page.main([]) == 0
    assert columns_page.main(["--check"]) == 0
    page.write_text(page.read_text() + "edited")
    assert columns_page.main(["--check"]) == 1


def test_a_family_is_attached_by_name_alone(owner: Owner) -> None:
    lengths = {"slots": 3, "page_events": 10, "page_rows": 20}
    made = FamilySegment.create("result_slot", lengths, 1, owner)
    for slot in range(3):
        made.column("rows", slot)[:] = slot
    found = FamilySegment.attach("result_slot", made.name)
    assert found.lengths == lengths
    assert [set(found.column("rows", slot).tolist()) for slot in range(3)] == [{0}, {1}, {2}]
    assert set(found.columns(1)) == {column.name for column in FAMILIES["result_slot"]}
    found.close()
    made.close()


def test_private_memory_has_the_same_columns() -> None:
    made = FamilySegment.private("counters", {"counters": 2, "slots": 1, "values": 2})
    made.column("value")[:] = 1
    assert made.column("value").sum() == 16
    assert not made.column("slot_pid").any()


def test_a_segment_of_another_family_is_refused(owner: Owner) -> None:
    made = FamilySegment.create("result_slot", {"slots": 1, "page_events": 1, "page_rows": 1}, 1, owner)
    with pytest.raises(SegmentError):
        FamilySegment.attach("counters", made.name)


def test_lengths_that_do_not_give_the_size_are_refused(owner: Owner) -> None:
    made = FamilySegment.create("result_slot", {"slots": 1, "page_events": 1, "page_rows": 1}, 1, owner)
    span = lengths_span("result_slot")
    writable = Segment.attach(made.name, writable=True, layout_version=None)
    for value in (2, -1, 1 << 60):
        writable.array(span.dtype, span.offset_bytes, 1)[0] = value
        with pytest.raises(SegmentError):
            FamilySegment.attach("result_slot", made.name)


def test_a_segment_of_another_table_is_refused(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FamilySegment.create("result_slot", {"slots": 1, "page_events": 1, "page_rows": 1}, 1, owner)
    changed = tuple(column._replace(dtype="i8") for column in FAMILIES["result_slot"])
    monkeypatch.setitem(columns.FAMILIES, "result_slot", changed)
    with pytest.raises(SegmentError, match="layout version"):
        FamilySegment.attach("result_slot", made.name)
