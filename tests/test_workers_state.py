"""The worker's machine, and how answers are cut into pages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.workers import messages as wire
from pubsub_cluster.workers.pages import cut_pages
from pubsub_cluster.workers.state import (
    Configure,
    Forget,
    MapLayout,
    Match,
    Stop,
    UnmapLayout,
    WorkerMachine,
    WritePage,
)

SETUP = wire.Setup(0, 1, "c", "s", "r", "n", 0, {}, {})


def test_a_task_with_three_pages_waits_to_be_continued() -> None:
    machine = WorkerMachine()
    assert machine.receive(SETUP) == [Configure(SETUP)]
    attach = wire.AttachLayout(3, "l", (), b"", "c")
    assert machine.receive(attach) == [MapLayout(attach)]
    first, second = wire.Task(1, 3, (), 0, 0, 0, 4), wire.Task(2, 3, (), 0, 0, 1, 5)
    assert machine.receive(first) == [Match(first)]
    assert machine.matched(1, 3) == [WritePage(1, 4, 0, True)]
    assert machine.receive(second) == [Match(second)]
    assert machine.matched(2, 1) == [WritePage(2, 5, 0, False), Forget(2)]
    assert machine.receive(wire.Continue(1)) == [WritePage(1, 4, 1, True)]
    assert machine.receive(wire.Continue(1)) == [WritePage(1, 4, 2, False), Forget(1)]
    assert machine.receive(wire.DropLayout(3)) == [UnmapLayout(3)]
    assert machine.receive(wire.Shutdown()) == [Stop()]


def test_a_failed_task_leaves_nothing() -> None:
    machine = WorkerMachine()
    machine.receive(SETUP)
    machine.receive(wire.Task(1, 0, (), 0, 0, 0, 0))
    machine.failed(1)
    with pytest.raises(KeyError):
        machine.receive(wire.Continue(1))


def test_an_answer_that_is_not_wanted_any_more_is_forgotten() -> None:
    machine = WorkerMachine()
    machine.receive(SETUP)
    machine.receive(wire.Task(1, 0, (), 0, 0, 0, 0))
    machine.matched(1, 3)
    assert machine.receive(wire.Forget(1)) == [Forget(1)]
    assert machine.receive(wire.Forget(1)) == []


def test_nothing_works_before_the_setup() -> None:
    with pytest.raises(AssertionError, match="before the setup"):
        WorkerMachine().receive(wire.Task(1, 0, (), 0, 0, 0, 0))


@given(
    counts=st.lists(st.integers(0, 12), max_size=12),
    rows_max=st.integers(1, 9),
    events_max=st.integers(1, 5),
)
def test_pages_cover_every_row_once_in_order(counts: list[int], rows_max: int, events_max: int) -> None:
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    pages = cut_pages(offsets, rows_max, events_max)
    assert len(pages) >= 1
    seen: list[tuple[int, int]] = []
    for page in pages:
        assert page.row_stop - page.row_start <= rows_max
        assert len(page.counts) <= events_max
        assert page.counts.sum() == page.row_stop - page.row_start
        row = page.row_start
        for position, count in enumerate(page.counts.tolist()):
            seen += [(page.first_event + position, row + k) for k in range(count)]
            row += count
    expected = [(event, int(offsets[event]) + k) for event, count in enumerate(counts) for k in range(count)]
    assert seen == expected
