"""The worker's loop: the order of what it does with a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zmq

from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.workers import messages as wire
from pubsub_cluster.workers.catalogues import Catalogues
from pubsub_cluster.workers.engine import MatchEngine, MatchResult
from pubsub_cluster.workers.layout_index import Observation
from pubsub_cluster.workers.loop import WorkerLoop

SETUP = wire.Setup(0, 1, "c", "s", "r", "n", 0, {}, {})


def test_what_is_said_of_a_batch_and_when(monkeypatch: Any) -> None:
    """It is observed before its answer, with which its chunk may be another's that its texts are views of.

    That it is begun is said before anything is done that could be this worker's end.
    """
    loop = WorkerLoop("inproc://nobody", 0, None)
    said: list[Any] = []
    monkeypatch.setattr(loop, "_say", said.append)
    batch = SimpleNamespace(refused={}, event_count=1)
    result = MatchResult(np.array([0, 1]), np.array([7], np.int32), 0)
    engine = SimpleNamespace(
        read=lambda header, buffers: batch,
        match_batch=lambda *_: result,
        observe=lambda *_: Observation(1, np.zeros((1, 1), np.int64)),
    )
    visibility = SimpleNamespace(keep=lambda *_: result)
    parts = {
        "setup": SETUP,
        "slab": SimpleNamespace(read=lambda chunk_idx: (said.append("reads"), [])),
        "engine": engine,
        "catalogues": SimpleNamespace(of=lambda _: SimpleNamespace(name="c", visibility=visibility)),
        "slots": SimpleNamespace(page_rows_max=8, page_events_max=8, write_page=lambda *_: None),
        "counters": SimpleNamespace(add=lambda *_: None, begin=lambda task_id: said.append(f"at {task_id}")),
    }
    for name, part in parts.items():
        monkeypatch.setattr(loop, f"_{name}", part, raising=False)  # what `Setup` would make
    task = wire.Task(1, 3, (0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0, 0, 0, 4)
    loop._machine.receive(SETUP)
    for action in loop._machine.receive(task):
        loop._do(action)
    loop._context.destroy(linger=0)
    named = [message if isinstance(message, str) else type(message).__name__ for message in said]
    assert named == ["at 1", "reads", "Observed", "Page", "at 0"]


def test_a_worker_is_heard_of_while_it_makes_a_swap_ready(monkeypatch: Any) -> None:
    """A long delta takes longer than a silence may be, after which the coordinator would kill the worker."""
    loop = WorkerLoop("inproc://nobody", 0, None)
    said: list[Any] = []
    now_s = 0.0
    monkeypatch.setattr(loop, "_say", said.append)
    monkeypatch.setattr(time, "monotonic", lambda: now_s)

    def work() -> list[Any]:
        nonlocal now_s
        now_s += 0.3
        if now_s > 3.0:
            loop._running = False
        return []

    monkeypatch.setattr(loop, "_swap", SimpleNamespace(is_pending=True, work=work, idle=lambda forget: []))
    loop.run()
    beats = [message for message in said if isinstance(message, wire.Heartbeat)]
    assert 2 <= len(beats) <= 4


def test_a_layout_that_cannot_be_mapped_is_said_and_the_worker_goes_on(monkeypatch: Any) -> None:
    loop = WorkerLoop("inproc://nobody", 0, None)
    said: list[Any] = []
    dropped: list[int] = []
    monkeypatch.setattr(loop, "_say", said.append)
    monkeypatch.setattr(loop, "_engine", SimpleNamespace(drop_layout=dropped.append), raising=False)
    monkeypatch.setattr(loop, "_catalogues", SimpleNamespace(drop=dropped.append), raising=False)
    loop._machine.receive(SETUP)
    for action in loop._machine.receive(
        wire.AttachLayout(7, "pubsub-0badc0de-1-1-layout-7", (0,) * 10, b"", "catalogue")
    ):
        loop._do(action)
    loop._context.destroy(linger=0)
    (refused,) = said
    assert isinstance(refused, wire.LayoutRefused)
    assert refused.generation == 7 and "is missing" in refused.error["condition"]
    assert dropped == [7, 7], "of the layout and of its catalogue nothing is left"


@pytest.fixture
def given_back(monkeypatch: Any) -> list[bool]:
    """What a loop has given back of its heap."""
    calls: list[bool] = []
    monkeypatch.setattr("pubsub_cluster.workers.loop.give_back_memory", lambda: calls.append(True))
    return calls


@pytest.fixture
def idle_loop(monkeypatch: Any) -> Iterator[WorkerLoop]:
    """A loop over an empty catalogue that nobody sends anything; it ends after some looks at its socket."""
    loop = WorkerLoop("inproc://nobody", 0, None)
    loop._machine.receive(SETUP)
    looks = 0

    def nothing(_flags: int) -> bytes:
        nonlocal looks
        looks += 1
        loop._running = looks < 4
        raise zmq.Again

    def mapped(name: str) -> Any:
        return SimpleNamespace(name=name, reader=CatalogueReader.of(CatalogueWriter.in_memory(16)))

    monkeypatch.setattr(Catalogues, "_map", staticmethod(mapped))
    monkeypatch.setattr(loop, "_socket", SimpleNamespace(recv=nothing))
    monkeypatch.setattr(loop, "_say", lambda message: None)
    monkeypatch.setattr(loop, "_catalogues", Catalogues("catalogue"), raising=False)
    engine = MatchEngine(loop._catalogues.of(0).reader)
    monkeypatch.setattr(loop, "_engine", engine, raising=False)
    yield loop
    loop._context.destroy(linger=0)


@pytest.mark.parametrize("generation", [7, 0], ids=["one that could not be mapped", "one that is there"])
def test_whatever_generation_is_dropped_the_worker_goes_on(
    idle_loop: WorkerLoop, given_back: list[bool], generation: int
) -> None:
    """A refused generation is dropped by everybody, the worker that refused it included."""
    for action in idle_loop._machine.receive(wire.DropLayout(generation)):
        idle_loop._do(action)
    idle_loop.run()
    assert not idle_loop._swap.is_pending and idle_loop._engine.layout(generation) is None
    assert given_back == [True], "once, at rest"


def test_a_worker_that_has_freed_nothing_keeps_its_memory(
    idle_loop: WorkerLoop, given_back: list[bool]
) -> None:
    idle_loop.run()
    assert not given_back
