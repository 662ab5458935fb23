"""Result slots: pages come back as copies, and what does not add up is refused on both sides."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.result_slots import ResultSlots
from pubsub_cluster.shm.segment import current_owner


@pytest.fixture
def slots() -> Iterator[ResultSlots]:
    made = ResultSlots.create(current_owner(uuid.uuid4().hex[:8]), 3, 4096)
    yield made
    made.unlink()


def i4(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2), st.integers(0, 65_535), st.lists(st.integers(0, 7), max_size=120))
def test_pages_come_back(slots: ResultSlots, slot_idx: int, first_event: int, counts: list[int]) -> None:
    rows = np.arange(sum(counts), dtype=np.int32)
    ResultSlots.attach(slots.name).write_page(slot_idx, first_event, i4(*counts), rows)
    found = slots.read_page(slot_idx)
    assert found[0] == first_event
    assert np.diff(found[1]).tolist() == counts
    assert found[2].tolist() == rows.tolist()


def test_slots_are_apart_and_pages_are_copies(slots: ResultSlots) -> None:
    for slot_idx in range(3):
        slots.write_page(slot_idx, slot_idx, i4(2), i4(slot_idx, slot_idx + 10))
    page = slots.read_page(1)
    slots.write_page(1, 9, i4(1), i4(99))
    assert (page[0], page[1].tolist(), page[2].tolist()) == (1, [0, 2], [1, 11])
    assert slots.read_page(0)[2].tolist() == [0, 10]
    assert slots.read_page(2)[2].tolist() == [2, 12]


def test_the_largest_page_fits_and_a_larger_one_is_refused(slots: ResultSlots) -> None:
    events, rows = slots.page_events_max, slots.page_rows_max
    counts = np.zeros(events, np.int32)
    counts[-1] = rows
    slots.write_page(0, 0, counts, np.arange(rows, dtype=np.int32))
    assert slots.read_page(0)[2].tolist() == list(range(rows))
    for wrong_counts, wrong_rows in (
        (np.zeros(events + 1, np.int32), 0),
        (i4(rows + 1), rows + 1),
        (i4(1), 2),
    ):
        with pytest.raises(ValueError):
            slots.write_page(0, 0, wrong_counts, np.zeros(wrong_rows, np.int32))
    with pytest.raises(SegmentError, match="slot"):
        slots.write_page(3, 0, i4(), i4())
    with pytest.raises(SegmentError, match="slot"):
        slots.read_page(-1)


@pytest.mark.parametrize(
    ("column", "value"),
    [("event_count", -1), ("event_count", 1 << 40), ("match_count", 3), ("match_count", -2), ("counts", -1)],
)
def test_a_page_that_does_not_add_up_is_refused(slots: ResultSlots, column: str, value: int) -> None:
    slots.write_page(0, 0, i4(1, 1), i4(5, 6))
    FamilySegment.attach("result_slot", slots.name, writable=True).column(column, 0)[0] = value
    with pytest.raises(SegmentError, match="adds up"):
        slots.read_page(0)
