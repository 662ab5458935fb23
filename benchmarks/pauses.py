"""The longest that a client waits for a batch while the cluster changes itself.

Batches are published on a schedule while another client has the cluster swap generations, fold changes into
one, begin an epoch, grow or shrink, one of these at a time; nothing else goes on. The rate is half of what
that cluster does at full speed just before, or of what it will do when it is resized, where that is less:
two shards are for latency, and do less than two replicas. A batch's time counts from the moment at which it
was to be sent. Two controls: the longest while nothing happens, and how long the machine itself stood still
meanwhile (`benchmarks.standstill`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from pubsub_cluster.benchmarks.changers import POOL, pool, raise_first
from pubsub_cluster.benchmarks.cluster_level import await_generation, expressions, rest
from pubsub_cluster.benchmarks.standstill import watching
from pubsub_cluster.benchmarks.workloads.rules import I8
from pubsub_cluster.client import Client

FOLDED = 5_000
"""Subscriptions that a fold takes in, and that leave with the next epoch."""
SHAPES = (1, 2), (1, 3), (2, 1)
"""Shards and replicas that there are in turn; the first is what the cluster begins with."""
WARM_S = 0.5
FULL_SPEED_S, BEFORE_S, AFTER_S, CONTROL_S = 1.5, 0.5, 1.0, 5.0
TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.01  # at the pipe: not before each batch, which it would hold up
TARGET = "<= 50"


class Punctual(Protocol):
    """Whoever publishes; `churn.Publisher` does."""

    def full_speed(self, seconds: float) -> tuple[float, float]: ...

    def on_schedule(self, rate: float, goes_on: Callable[[], bool]) -> I8: ...


class Pauses(NamedTuple):
    """What was seen while something happened.

    Attributes
    ----------
    took_us : int64[n]
        Of every batch.
    stood_still_s : float
        The longest that the machine did.
    """

    took_us: I8
    stood_still_s: float


def _nothing(client: Client, made: list[Any]) -> None:
    time.sleep(CONTROL_S)


def _swap(client: Client, made: list[Any]) -> None:
    await_generation(client)


def _fold(client: Client, made: list[Any]) -> None:
    raise_first(client.subscribe_many(made[:FOLDED]))
    await_generation(client)


def _epoch(client: Client, made: list[Any]) -> None:
    moves = client.status()["epochs"]["moves"]
    raise_first(client.unsubscribe_many([item["id"] for item in made[:FOLDED]]))
    await_generation(client)
    assert client.status()["epochs"]["moves"] > moves, "the dead rows are still there"


class Happening(NamedTuple):
    """What happens.

    Attributes
    ----------
    does : callable
        Has it happen; returns when it has.
    shape : tuple of (int, int), optional
        Shards and replicas afterwards, if others than before.
    """

    does: Callable[[Client, list[Any]], None]
    shape: tuple[int, int] | None = None


def _resize(shards: int, replicas: int) -> Happening:
    def resize(client: Client, made: list[Any]) -> None:
        client.resize(shards, replicas)

    return Happening(resize, (shards, replicas))


HAPPENINGS = {
    "nothing": Happening(_nothing),
    "a swap": Happening(_swap),
    "a fold": Happening(_fold),
    "an epoch": Happening(_epoch),
    "a replica more": _resize(1, 3),
    "a replica less": _resize(1, 2),
    "a shard more": _resize(2, 1),
    "a shard less": _resize(1, 2),
}
"""By name, in this order: each finds what those before it have left, at first one shard with two replicas.

Other shards are as many workers as before: two, for a machine with two processors."""
assert {happening.shape or SHAPES[0] for happening in HAPPENINGS.values()} == set(SHAPES)


def happen(data_dir: str, workload: str, seed: int, pipe: Any) -> None:
    """Do what comes through the pipe, one after the other; answer with the seconds that it took."""
    made = list(expressions(pool(workload, seed), 0, POOL))
    for item in made:
        item["id"] = f"p{item['id']}"
    with Client(data_dir, timeout_s=60.0) as client:
        pipe.send("ready")
        while name := pipe.recv():
            begin = time.monotonic()
            HAPPENINGS[name].does(client, made)
            pipe.send(time.monotonic() - begin)


@contextlib.contextmanager
def happenings(data_dir: str, workload: str, seed: int) -> Iterator[Any]:
    """Have a process that does what is asked for through the pipe."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=happen, args=(data_dir, workload, seed, theirs), daemon=True)
    process.start()
    theirs.close()  # the end of the process is the end of the pipe
    try:
        mine.recv()  # its start would be measured with the first of them
        yield mine
    finally:
        with contextlib.suppress(OSError):
            mine.send("")
        process.join(10.0)
        if process.is_alive():
            process.terminate()
            process.join()


def measure_pauses(
    client: Client,
    publisher: Punctual,
    batch: int,
    pipe: Any,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Pauses], dict[tuple[int, int], float]]:
    """Publish beside each of `HAPPENINGS`; return what was seen, and the full speeds of `SHAPES`.

    Parameters
    ----------
    client : Client
    publisher : Punctual
    batch : int
        Events of a batch.
    pipe : Connection
        Of `happenings`.
    note : callable

    Raises
    ------
    TimeoutError
        Something does not end.
    """
    found: dict[str, Pauses] = {}
    rest(client)
    await_generation(client)  # dead rows of what was measured before would come with an epoch
    speeds = _speeds(client, publisher)
    shape = SHAPES[0]
    with watching() as machine:
        machine.longest_s()  # they have started when they answer
        for name, happening in HAPPENINGS.items():
            rest(client)
            quiet, _ = publisher.full_speed(FULL_SPEED_S)
            before, shape = shape, happening.shape or shape
            bearable = quiet * min(1.0, speeds[shape] / speeds[before])
            course = _Course(name, pipe)
            machine.longest_s()
            seen = Pauses(publisher.on_schedule(bearable / 2 / batch, course), machine.longest_s())
            took = seen.took_us / 1e3
            note(
                f"{name}: {course.seconds:.1f} s, longest {took.max():.1f} ms, "
                f"p99 {np.percentile(took, 99):.1f} ms of {len(took):,} batches; "
                f"the machine stood still for {1e3 * seen.stood_still_s:.1f} ms"
            )
            found[name] = seen
    return found, speeds


def _speeds(client: Client, publisher: Punctual) -> dict[tuple[int, int], float]:
    """Return the events per second at full speed by shards and replicas."""
    speeds = {}
    for shape in SHAPES[::-1]:  # the first comes last: it is what is there afterwards
        client.resize(*shape)
        rest(client)
        publisher.full_speed(WARM_S)
        speeds[shape], _ = publisher.full_speed(FULL_SPEED_S)
    return speeds


class _Course:
    """Start something a little after the first batch; there are batches until a little after its end."""

    def __init__(self, name: str, pipe: Any) -> None:
        self._name, self._pipe = name, pipe
        self._start_s = time.monotonic() + BEFORE_S
        self._asked = False
        self._stop_s = np.inf
        self._look_s = 0.0
        self.seconds = 0.0

    def __call__(self) -> bool:
        """Tell whether another batch is to be sent."""
        now_s = time.monotonic()
        if not self._asked:
            if now_s >= self._start_s:
                self._asked = True
                self._pipe.send(self._name)
        elif self._stop_s == np.inf and now_s >= self._look_s:
            self._look_s = now_s + LOOK_EVERY_S
            if self._pipe.poll():
                self.seconds = self._pipe.recv()
                self._stop_s = now_s + AFTER_S
            elif now_s - self._start_s > TIMEOUT_S:
                raise TimeoutError(f"{self._name} does not end after {TIMEOUT_S:.0f} s")
        return now_s < self._stop_s


def rows_of(found: dict[str, Pauses], speeds: dict[tuple[int, int], float]) -> list[tuple[str, float, str]]:
    """Return names, values and units of the figures."""
    rows = [
        (f"full speed, {shards} x {replicas} / 1 x 2", speed / speeds[SHAPES[0]], "")
        for (shards, replicas), speed in speeds.items()
        if (shards, replicas) != SHAPES[0]
    ]
    for name, seen in found.items():
        rows.append((figure_of(name), float(seen.took_us.max()) / 1e3, "ms"))
        rows.append((f"machine, longest standstill during {name}", 1e3 * seen.stood_still_s, "ms"))
    return rows


def figure_of(name: str) -> str:
    """Return the name of the figure of one of `HAPPENINGS`."""
    return f"batch, longest at half load, during {name}"


TARGETS = {figure_of(name): TARGET for name in HAPPENINGS if name != "nothing"}
