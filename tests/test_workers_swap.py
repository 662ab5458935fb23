"""A swap between batches: a generation is said to be attached when its delta is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matching_cases import Case, raw_batch, rows_of_events

from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import NO_COUNTS
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.workers import messages as wire
from pubsub_cluster.workers.catalogues import Catalogues
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.swap import SLICE_ROWS, SLICE_S, SwapWork


def test_attached_is_said_after_the_last_slice() -> None:
    """One slice each time, for the newest batch seen; without any batch there is nothing to prepare."""
    asked: list[Any] = []
    engine: Any = SimpleNamespace(prepare=lambda *arguments: asked.append(arguments) or len(asked) == 3)
    swap = SwapWork()
    assert not swap.is_pending and swap.work() == []
    first, second = wire.LayoutAttached(1, []), wire.LayoutAttached(2, [])
    swap.add(first, engine, (1, 2), "c1")
    assert swap.is_pending
    assert swap.work() == [first] and not asked
    newest = NO_COUNTS._replace(rows=9)
    swap.saw("c1", newest, 7)
    swap.saw("c1", NO_COUNTS._replace(rows=8), 5)
    swap.add(second, engine, (1, 2), "c1")
    assert [swap.work() for _ in range(3)] == [[], [], [second]]
    assert asked == 3 * [(2, newest, 1, 2, 7, SLICE_ROWS)]
    assert not swap.is_pending
    third = wire.LayoutAttached(3, [])
    swap.add(third, engine, (1, 2), "c2")
    assert swap.work() == [third] and len(asked) == 3, "counts of another epoch say nothing here"
    swap.saw("c2", NO_COUNTS._replace(rows=2), 9)
    swap.add(third, engine, (1, 2), "c2")
    swap.work()
    assert asked[3:] == [(3, NO_COUNTS._replace(rows=2), 1, 2, 9, SLICE_ROWS)]


def pages(count: int) -> Callable[[int], Iterator[None]]:
    return lambda _generation: iter([None] * count)


def test_a_generation_is_unmapped_when_nothing_else_is_to_be_done() -> None:
    """Or when the next one is no longer needed either."""
    swap = SwapWork()
    assert swap.let_go(1) == [] and swap.is_pending
    assert swap.work() == [], "not between two batches"
    assert swap.let_go(2) == [1] and swap.is_pending
    assert swap.idle(pages(0)) == [2] and not swap.is_pending
    assert swap.idle(pages(0)) == []


def test_pages_are_forgotten_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    forgotten: list[int] = []

    def forget(generation: int) -> Iterator[None]:
        nonlocal now_s
        for _ in range(5):
            forgotten.append(generation)
            now_s += SLICE_S * 0.6
            yield

    swap = SwapWork()
    swap.let_go(1)
    assert swap.idle(forget) == [] and forgotten == [1, 1] and swap.is_pending
    assert swap.idle(forget) == [] and forgotten == 4 * [1]
    assert swap.let_go(2) == [1], "at once, whatever is left"
    assert [swap.idle(forget) for _ in range(3)] == [[], [], [2]]
    assert forgotten == [*4 * [1], *5 * [2]] and not swap.is_pending


def test_a_prepared_delta_answers_like_any_other() -> None:
    """Slices of any size; a batch in between; rows that keys hold and rows that they do not."""
    expressions: list[Any] = [{"attr": "a", "op": "=", "value": value} for value in range(4)]
    catalogue = Case(expressions)
    engine = MatchEngine(catalogue.reader, EMPTY_SCHEMA)
    layout = build_layout(catalogue.reader, catalogue.writer.counts(), 1, None, 1)
    base_counts = catalogue.writer.counts()
    catalogue.add([*expressions, {"attr": "a", "op": ">", "value": 1}] * 3)
    counts = catalogue.writer.counts()
    raw = raw_batch([{"a": (value,)} for value in range(5)])
    expected = rows_of_events(engine.match(raw, 0, counts))
    for size in (1, 4, 100):
        engine.attach_layout(1, layout, base_counts)
        done = [engine.prepare(1, counts, 0, 1, 0, size) for _ in range(-(-15 // size))]
        assert done == [*[False] * (len(done) - 1), True]
        assert rows_of_events(engine.match(raw, 1, counts)) == expected
        engine.attach_layout(1, layout, base_counts)
        engine.prepare(1, counts, 0, 1, 0, size)
        assert rows_of_events(engine.match(raw, 1, counts)) == expected
        assert engine.prepare(1, counts, 0, 1, 0, size)
    assert np.array_equal(engine.match(raw, 1, base_counts).rows, [0, 1, 2, 3])


def test_a_catalogue_is_forgotten_with_the_last_generation_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def mapped(name: str) -> Any:
        return SimpleNamespace(name=name, reader=None)

    monkeypatch.setattr(Catalogues, "_map", staticmethod(mapped))
    catalogues = Catalogues("first")
    catalogues.attach(1, "first")
    catalogues.attach(2, "second")
    assert catalogues.alone_of(1) is None and catalogues.alone_of(2) is catalogues.of(2)
    catalogues.drop(0)
    assert catalogues.alone_of(1) is catalogues.of(1)
