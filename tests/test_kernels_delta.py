"""Delta kernels against `workers.kernels.reference`."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.kernels import delta, reference
from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW

LABEL_START = frozen(np.array([0, 5, 12], np.int64))
modules = pytest.mark.parametrize("run", [reference, delta], ids=["reference", "kernel"])

entries = st.lists(
    st.tuples(st.integers(0, 129), st.integers(0, 1), st.integers(1, 4)),
    max_size=40,
)
intervals = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 11), st.integers(0, 11)), max_size=8)
bits = st.lists(st.tuples(st.integers(0, 129), st.integers(1, 4)), max_size=8)


def columns_of(rows: list[tuple[int, ...]], *dtypes: type) -> tuple[np.ndarray, ...]:
    """Return tuples as read-only columns."""
    return tuple(frozen(np.array([row[i] for row in rows], dtype)) for i, dtype in enumerate(dtypes))


def bitmaps(run: ModuleType, found: list, spans: list, set_bits: list) -> list:
    """Run both kernels that lead to bitmaps; return all outputs."""
    slot_stop, slot_event = np.zeros(13, np.int64), np.zeros(len(found), np.int32)
    run.sort_by_slot(columns_of(found, np.int32, np.int32, np.int32), LABEL_START, slot_stop, slot_event)
    bitmap = np.zeros((5, 3), np.uint64)
    run.fill_bitmaps(
        columns_of(spans, np.int32, np.int64, np.int64),
        frozen(slot_stop),
        frozen(slot_event),
        columns_of(set_bits, np.int32, np.int32),
        bitmap,
    )
    return [slot_stop.tolist(), slot_event.tolist(), bitmap.tolist()]


@settings(max_examples=60)
@given(found=entries, spans=intervals, set_bits=bits)
def test_bitmaps(found: list, spans: list, set_bits: list) -> None:
    """A bit is set for every event with a label in one of the predicate's intervals, or with its bit."""
    assert bitmaps(delta, found, spans, set_bits) == bitmaps(reference, found, spans, set_bits)


@st.composite
def programs(draw: st.DrawFn) -> list[int]:
    """Postfix code over five predicates."""
    code: list[int] = []
    depth = 0
    for _ in range(draw(st.integers(1, 8))):
        if depth >= 1 and draw(st.booleans()):
            operand_count = draw(st.integers(1, depth))
            code.append(-2 * operand_count - draw(st.integers(0, 1)))
            depth -= operand_count - 1
        else:
            code.append(draw(st.integers(0, 9)))
            depth += 1
    return [*code, -2 * depth - draw(st.integers(0, 1))]


@settings(max_examples=60)
@given(
    rows=st.lists(programs(), max_size=6),
    words=st.lists(st.integers(0, 2**64 - 1) | st.sampled_from((0, 1, 1 << 63)), min_size=10, max_size=10),
    event_count=st.integers(65, 128) | st.just(100),
    row_stop=st.integers(0, 14),
)
def test_rows(rows: list[list[int]], words: list[int], event_count: int, row_stop: int) -> None:
    """Programs over bitmaps, overflow and the way on included."""
    start = np.cumsum([0, *map(len, rows)])
    table = (
        frozen(start),
        frozen(np.array([code for row in rows for code in row], np.int32)),
        frozen(np.arange(len(rows), dtype=np.int32) * 2 + 1),
    )
    bitmap = frozen(np.array(words, np.uint64).reshape(5, 2))
    results = []
    for run in (reference, delta):
        out = (np.zeros(200, np.int32), np.zeros(200, np.int32))
        stack = np.zeros((9, 2), np.uint64)
        found: list[tuple[int, int]] = []
        row, steps = 0, []
        while True:
            status, row, count = run.match_rows(
                table, (row, row_stop, event_count, 1_000, 0), bitmap, stack, out
            )
            found += list(zip(out[0][:count].tolist(), out[1][:count].tolist(), strict=True))
            steps.append((status, row, count))
            assert status in (OK, OVERFLOW)
            if status == OK:
                break
        results.append((found, steps))
    assert results[0] == results[1]


@modules
def test_merge(run: ModuleType) -> None:
    """Layout rows come first, as catalogue rows; then the pairs, in their order."""
    start, rows = np.zeros(4, np.int64), np.zeros(6, np.int32)
    base = (frozen(np.array([0, 2, 2, 3], np.int64)), frozen(np.array([1, 0, 2], np.int32)))
    pairs = (frozen(np.array([2, 0, 2], np.int32)), frozen(np.array([9, 8, 7], np.int32)))
    run.merge_pairs(base, frozen(np.array([10, 11, 12], np.int32)), pairs, start, rows)
    assert start.tolist() == [0, 3, 3, 6]
    assert rows.tolist() == [11, 10, 8, 12, 9, 7]
