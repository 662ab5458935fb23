"""What a batch may see of its matches: the kernel against `workers.kernels.reference`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter, NewRow
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.engine import MatchResult
from pubsub_cluster.workers.kernels import reference, visible
from pubsub_cluster.workers.visible import Visibility

ROWS = 40
NO_WINDOWS: list[tuple[int, int, int]] = []


def kept(
    run: ModuleType,
    found: list[list[int]],
    lives: list[tuple[int, int]],
    windows: list[tuple[int, int, int]],
    moment: tuple[int, int, int],
    refused: list[int],
) -> tuple[int, list[list[int]]]:
    """Return what the kernel returns, and the rows that are left of each event."""
    rows = np.array([row for mine in found for row in mine], np.int32)
    start = np.cumsum([0, *map(len, found)]).astype(np.int64)
    handle = np.array([life[0] for life in lives], np.uint64)
    removed = np.array([life[1] for life in lives], np.int64)
    columns = zip(*(windows or [(0, 0, 0)]), strict=True)
    window = tuple(
        frozen(np.array(column, dtype))
        for column, dtype in zip(columns, (np.int32, np.int64, np.int64), strict=True)
    )
    row_count, version, now_us = moment
    unordered = run.keep_visible(
        rows,
        start,
        (row_count, len(windows), version, now_us),
        (frozen(handle), frozen(removed)),
        window,
        frozen(np.array(refused, np.int64)),
    )
    return unordered, [rows[start[event] : start[event + 1]].tolist() for event in range(len(found))]


@st.composite
def matches(draw: st.DrawFn) -> Any:
    """Rows with their lives and windows, what was found, the moment and the refused events."""
    handles = draw(st.permutations(range(1, ROWS + 1)))
    lives = [(handle, draw(st.integers(0, 4))) for handle in handles]
    windowed = sorted(draw(st.sets(st.integers(0, ROWS - 1), max_size=10)))
    windows = [(row, draw(st.integers(0, 3)), draw(st.integers(1, 5))) for row in windowed]
    found = draw(st.lists(st.lists(st.integers(0, ROWS - 1), unique=True), min_size=1, max_size=4))
    moment = draw(st.tuples(st.integers(0, ROWS), st.integers(0, 4), st.integers(0, 5)))
    refused = sorted(draw(st.sets(st.integers(0, len(found) - 1))))
    return found, lives, windows, moment, refused


@settings(max_examples=150)
@given(matches())
def test_the_kernel_does_what_its_reference_does(case: Any) -> None:
    assert kept(visible, *case) == kept(reference, *case)


@pytest.mark.parametrize("run", [reference, visible], ids=["reference", "kernel"])
def test_what_is_kept(run: ModuleType) -> None:
    lives = [(30, 0), (20, 5), (10, 6), (40, 0), (20, 0)]
    found = [[0, 1, 2, 3], [], [4, 0], [3]]
    moment = (4, 5, 0)  # row 4 came later
    assert kept(run, found, lives, NO_WINDOWS, moment, []) == (0, [[2, 0, 3], [], [0], [3]])
    assert kept(run, found, lives, NO_WINDOWS, moment, [0, 3]) == (0, [[], [], [0], []])
    windows = [(0, 0, 1), (3, 1, 9), (4, 0, 0)]
    assert kept(run, found, lives, windows, moment, []) == (0, [[2, 0], [], [0], []])
    assert kept(run, found, lives, windows, (5, 6, 1), []) == (0, [[3], [], [], [3]])


def test_events_with_many_rows_are_ordered_all_the_same() -> None:
    writer = CatalogueWriter.in_memory(64)
    handles = np.random.default_rng(1).permutation(60).tolist()
    for handle in handles:
        writer.append_many([NewRow(handle + 1, "i", None, NormalForm((), ((),)))])
    writer.remove(7, 3)
    found = [list(range(60)), [5, 4], list(range(visible.ORDERED_MAX + 1))]
    offsets = np.cumsum([0, *map(len, found)]).astype(np.int64)
    rows = np.array([row for mine in found for row in mine], np.int32)
    visibility = Visibility(CatalogueReader.of(writer))
    kept = visibility.keep(MatchResult(offsets, rows), writer.counts(), 3, 0)
    for event, mine in enumerate(found):
        expected = sorted((row for row in mine if row != 7), key=lambda row: handles[row])
        assert kept.rows[kept.event_offsets[event] : kept.event_offsets[event + 1]].tolist() == expected
