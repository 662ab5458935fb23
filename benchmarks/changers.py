"""Clients that change the catalogue while something else is measured, each in a process of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from pubsub_cluster.benchmarks.cluster_level import expressions
from pubsub_cluster.benchmarks.workloads import WORKLOADS
from pubsub_cluster.benchmarks.workloads.rules import Rules
from pubsub_cluster.client import Client
from pubsub_cluster.language.errors import PubSubError

STEPS_PER_SECOND = 5
LIVE_STEPS = 10
"""A subscription that comes and goes stays for so many steps."""
POOL = 20_000
"""Different subscriptions that come and go."""
SINGLES_PER_SECOND = 20


class Changer(NamedTuple):
    """What a client that changes the catalogue does.

    Attributes
    ----------
    data_dir : str
    workload : str
    seed : int
    rate : int
        Insertions a second; 0: single subscriptions are made and removed instead.
    name : str
        What the ids of its subscriptions begin with.
    """

    data_dir: str
    workload: str
    seed: int
    rate: int
    name: str = "c"


def pool(workload: str, seed: int) -> Rules:
    """Return the subscriptions that come and go."""
    found: Rules = WORKLOADS[workload].make(subscriptions=POOL, seed=seed + 1).rules()
    return found


def change(task: Changer, pipe: Any) -> None:
    """Change the catalogue from the first word on the pipe to the next; then tell what was done."""
    made = [item["expr"] for item in expressions(pool(task.workload, task.seed), 0, POOL)]
    with Client(task.data_dir, timeout_s=60.0) as client:
        while pipe.recv():
            work = _many if task.rate else _single
            pipe.send(work(client, made, pipe, task))


def _many(client: Client, made: list[Any], pipe: Any, task: Changer) -> dict[str, Any]:
    step = task.rate // STEPS_PER_SECOND
    live: deque[list[str]] = deque()
    turns = number = inserted = removed = 0
    begin = time.monotonic()
    while not pipe.poll():
        ids = [f"{task.name}{number + offset}" for offset in range(step)]
        items = [{"id": name, "expr": made[(number + at) % POOL]} for at, name in enumerate(ids)]
        raise_first(client.subscribe_many(items))
        number, inserted = number + step, inserted + step
        live.append(ids)
        if len(live) > LIVE_STEPS:
            gone = live.popleft()
            raise_first(client.unsubscribe_many(gone))
            removed += len(gone)
        turns += 1
        time.sleep(max(0.0, begin + turns / STEPS_PER_SECOND - time.monotonic()))
    pipe.recv()
    seconds = time.monotonic() - begin
    while live:
        raise_first(client.unsubscribe_many(live.popleft()))
    # What was made before anything could be removed does not count against the removals.
    steady = seconds * max(0, turns - LIVE_STEPS) / max(1, turns)
    return {
        "inserted": inserted / seconds,
        "removed": removed / steady if steady else 0.0,
    }


def _single(client: Client, made: list[Any], pipe: Any, _: Changer) -> dict[str, Any]:
    took: list[float] = []
    begin = time.monotonic()
    while not pipe.poll():
        turn = time.monotonic()
        client.subscribe(made[len(took) % POOL], id="single")
        took.append(time.monotonic() - turn)
        client.unsubscribe("single")
        time.sleep(max(0.0, begin + len(took) / SINGLES_PER_SECOND - time.monotonic()))
    pipe.recv()
    return {"single_s": took}


def raise_first(results: list[Any]) -> None:
    """Raise the first error among the results of many changes."""
    for result in results:
        if isinstance(result, PubSubError):
            raise result


class Changers:
    """Processes that change the catalogue when they are told to."""

    def __init__(self, tasks: list[Changer]) -> None:
        self._tasks = tasks
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        self._processes = []
        for task in tasks:
            mine, theirs = context.Pipe()
            process = context.Process(target=change, args=(task, theirs), daemon=True)
            process.start()
            self._pipes.append(mine)
            self._processes.append(process)

    @contextlib.contextmanager
    def at_work(self, found: dict[str, Any], only: str | None = None) -> Iterator[None]:
        """Let them change while the block runs; what they did is in `found` afterwards, rates as sums.

        `only` is ``many`` or ``single``: those whose changes are such.
        """
        pipes = [
            pipe
            for pipe, task in zip(self._pipes, self._tasks, strict=True)
            if only in (None, "many" if task.rate else "single")
        ]
        for pipe in pipes:
            pipe.send(True)
        time.sleep(LIVE_STEPS / STEPS_PER_SECOND)
        yield
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            if not pipe.poll(60.0):
                raise TimeoutError("a client that changes the catalogue does not end")
            for what, did in pipe.recv().items():
                found[what] = found[what] + did if what in found else did

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(False)
        for process in self._processes:
            process.join(10.0)
            if process.is_alive():
                process.terminate()
                process.join()
