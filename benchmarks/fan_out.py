"""Fan-out: one event to all of many receivers on this host, by each way that notifications can come.

    python -m pubsub_cluster.benchmarks.fan_out [--receivers N] [--processes P ...] [--rounds R] [--keep]

A receiver is an owner that is listened to; some processes listen for them all. An event is published alone,
and the next one when the last receiver has the one before. Ways take turns, round by round; in each round one
is used by everybody. With nobody listening, the same events tell what matching them costs the coordinator:
what it takes beyond that is the sender's part. In further rounds one more process listens for a few more
owners and is stopped while the others go on: they are timed with and without it, in turn. Let go at the end,
it must have every notification, or be told how many it has not.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.client import Client, Notification
from pubsub_cluster.client.record_reader import WAYS
from pubsub_cluster.cluster import Cluster

RECEIVERS, EVENTS, ROUNDS = 1_000, 60, 3
PROCESSES = (2, 4)
"""One for each core of a small machine, and twice as many."""
WARM_EVENTS = 10
VICTIM_OWNERS = 10
"""Few, so that what it costs to match and tell them is not what is measured."""
PAIRS, PAIR_EVENTS = 8, 150
"""Rounds without and with a stopped process, one after the other: 99th percentiles take many events."""
WAIT_S_MAX = 30.0
POLL_S = 0.05
NOBODY, UNICAST = "nobody", "unicast"
RING = "auto"
"""On one host."""
SHOWN = {RING: "ring"}
LATENCY_TARGET_MS, CPU_SHARE_TARGET, STALLED_TARGET = 5.0, 0.1, 1.1


class Part(NamedTuple):
    """What one process listens for.

    Attributes
    ----------
    data_dir : str
    owners : list of str
    """

    data_dir: str
    owners: list[str]


class Heard:
    """Counts what the owners of a process were told, and says when an event has reached them all."""

    def __init__(self, owners: int, pipe: Connection) -> None:
        self._owners = owners
        self._pipe = pipe
        self._told: dict[int, int] = {}
        self.count = self.dropped = 0

    def __call__(self, notification: Notification) -> None:
        """Take one."""
        number = notification.event["number"]
        self.count += 1
        self.dropped += notification.dropped
        self._told[number] = self._told.get(number, 0) + 1
        if self._told[number] == self._owners:
            del self._told[number]
            self._pipe.send((number, time.monotonic()))


def receive(part: Part, pipe: Connection) -> None:
    """Listen by a way whenever the pipe names one, until it says None; end with it."""
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            heard = Heard(len(part.owners), pipe)
            with Client(part.data_dir, notified_by=pipe.recv(), timeout_s=WAIT_S_MAX) as client:
                for owner in part.owners:
                    client.listen(owner, on_notification=heard)
                pipe.send("listening")
                while client.receive(POLL_S) or not pipe.poll():  # looked at only when nothing comes
                    pass
                pipe.recv()
                pipe.send((heard.count, heard.dropped))


@contextlib.contextmanager
def receivers(parts: Sequence[Part]) -> Iterator[list[tuple[int, Connection]]]:
    """Have a process for each part: its pid and the pipe to it."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for part in parts:
            mine, theirs = context.Pipe()
            process = context.Process(target=receive, args=(part, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(mine)
            processes.append(process)
        yield [(process.pid or 0, pipe) for process, pipe in zip(processes, pipes, strict=True)]
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(WAIT_S_MAX)
            if process.is_alive():
                process.kill()
                process.join()


class Round(NamedTuple):
    """What some events took.

    Attributes
    ----------
    last_ms : list of float
        From the publication to the last receiver, of each event.
    cpu_ms : float
        Of the coordinator, all its threads, per event.
    """

    last_ms: list[float]
    cpu_ms: float


def cpu_ms(pid: int) -> float:
    """Return the processor time that a process has had, to the nanosecond, unlike ``times``."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def answer(pipe: Connection) -> Any:
    """Return what a process says next; raises `TimeoutError`."""
    if not pipe.poll(WAIT_S_MAX):
        raise TimeoutError("a process with receivers does not answer")
    return pipe.recv()


def publish(client: Client, pid: int, numbers: range, pipes: Sequence[Connection]) -> Round:
    """Publish events one by one, each when all processes have the one before."""
    last_ms, before_ms = [], cpu_ms(pid)
    for number in numbers:
        begin_s = time.monotonic()
        client.publish([{"price": 1.0, "number": number}], answer="none")
        told = [answer(pipe) for pipe in pipes]
        if any(one != number for one, _ in told):
            raise RuntimeError(f"told of {told} instead of event {number}")
        last_ms.append(1e3 * (max((at_s for _, at_s in told), default=time.monotonic()) - begin_s))
    return Round(last_ms, (cpu_ms(pid) - before_ms) / len(numbers))


class Bench:
    """A cluster, its receivers and the numbers of their events."""

    def __init__(
        self, client: Client, parts: Sequence[Part], processes: Sequence[tuple[int, Connection]]
    ) -> None:
        self._client = client
        self._pid = int(client.status()["pid"])
        *self._pipes, self._victim = [pipe for _, pipe in processes]
        self._victim_pid = processes[-1][0]
        self._owners = {pipe: len(part.owners) for part, (_, pipe) in zip(parts, processes, strict=True)}
        self._number = 0

    def round(self, way: str, events: int) -> Round:
        """Let all but the last process listen by a way, or nobody."""
        pipes = self._pipes if way != NOBODY else []
        self._listen(way, pipes)
        self._publish(WARM_EVENTS, pipes)
        found = self._publish(events, pipes)
        for pipe in pipes:
            self._finish(pipe, WARM_EVENTS + events)
        return found

    def round_beside_a_stopped_one(self, way: str, events: int) -> Round:
        """Let the last process listen as well, and stop it while the events are published."""
        self._listen(way, [*self._pipes, self._victim])
        self._publish(WARM_EVENTS, [*self._pipes, self._victim])
        os.kill(self._victim_pid, signal.SIGSTOP)
        try:
            found = self._publish(events, self._pipes)
        finally:
            os.kill(self._victim_pid, signal.SIGCONT)
        self._publish(1, self._pipes)  # a gap is told with what comes after it
        while answer(self._victim)[0] != self._number - 1:
            pass  # of an event before
        for pipe in self._pipes:
            self._finish(pipe, WARM_EVENTS + events + 1)
        self._finish(self._victim, WARM_EVENTS + events + 1, may_lose=True)
        return found

    def _listen(self, way: str, pipes: Sequence[Connection]) -> None:
        for pipe in pipes:
            pipe.send(way)
        for pipe in pipes:
            answer(pipe)
        self._wait_until_joined(0 if way == UNICAST else sum(self._owners[pipe] for pipe in pipes))

    def _publish(self, events: int, pipes: Sequence[Connection]) -> Round:
        numbers = range(self._number, self._number + events)
        self._number += events
        return publish(self._client, self._pid, numbers, pipes)

    def _wait_until_joined(self, owners: int) -> None:
        deadline_s = time.monotonic() + WAIT_S_MAX
        while self._client.status()["multicast"]["joined"] != owners:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not all of {owners} owners have joined")
            time.sleep(0.01)

    def _finish(self, pipe: Connection, events: int, may_lose: bool = False) -> None:
        pipe.send(None)
        count, dropped = answer(pipe)
        expected = events * self._owners[pipe]
        if count + dropped != expected or (dropped and not may_lose):
            raise RuntimeError(f"{count} notifications and {dropped} lost instead of {expected}")


def measure(receivers_count: int, processes: int, events: int, rounds: int) -> list[Figure]:
    """Return the figures."""
    owners = [f"receiver {idx}" for idx in range(receivers_count + VICTIM_OWNERS)]
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    pairs: list[tuple[list[float], list[float]]] = []
    costs: dict[str, list[float]] = {way: [] for way in (*WAYS, NOBODY)}
    with Cluster() as cluster, cluster.client(timeout_s=WAIT_S_MAX) as client:
        client.subscribe_many([{"expr": "price > 0", "id": owner, "owner": owner} for owner in owners])
        places = [slice(idx, receivers_count, processes) for idx in range(processes)]
        parts = [
            Part(str(cluster.data_dir), owners[place]) for place in (*places, slice(receivers_count, None))
        ]
        with receivers(parts) as started:
            bench = Bench(client, parts, started)
            for _ in range(rounds):
                for way in (*WAYS, NOBODY):
                    found = bench.round(way, events)
                    costs[way].append(found.cpu_ms)
                    if way != NOBODY:
                        times[way] += found.last_ms
            for _ in range(PAIRS):
                alone = bench.round(RING, PAIR_EVENTS).last_ms
                pairs.append((alone, bench.round_beside_a_stopped_one(RING, PAIR_EVENTS).last_ms))
    return figures_of(times, costs, pairs, receivers_count, processes)


def figures_of(
    times: dict[str, list[float]],
    costs: dict[str, list[float]],
    pairs: Sequence[tuple[list[float], list[float]]],
    receivers_count: int,
    processes: int,
) -> list[Figure]:
    """Return the figures of what was measured: latencies in ms, CPU in ms per event and round."""
    found = []

    def add(figure: str, value: float, unit: str, target: str = "", spread: str = "") -> None:
        what = f"{processes} processes: {figure}"
        found.append(Figure(what, value, unit, target, spread, None, "FAN-OUT", receivers_count))

    base_ms = float(np.median(costs[NOBODY]))
    sent_ms = {way: float(np.median(costs[way])) - base_ms for way in WAYS}
    for way in WAYS:
        target = f"<= {LATENCY_TARGET_MS:g}" if way == RING else ""
        add(
            f"one event to the last receiver, {SHOWN.get(way, way)}, median",
            float(np.median(times[way])),
            "ms",
            target,
        )
        add(
            f"one event to the last receiver, {SHOWN.get(way, way)}, p99",
            float(np.quantile(times[way], 0.99)),
            "ms",
        )
        spread = f"{min(costs[way]):.3g} to {max(costs[way]):.3g}"
        add(
            f"coordinator's CPU of an event, {SHOWN.get(way, way)}",
            float(np.median(costs[way])),
            "ms",
            spread=spread,
        )
    add("coordinator's CPU of an event, nobody listens", base_ms, "ms")
    for way in (way for way in WAYS if way != UNICAST):
        target = f"<= {CPU_SHARE_TARGET:g}" if way == RING else ""
        whole = float(np.median(costs[way]) / np.median(costs[UNICAST]))
        add(f"coordinator's CPU, {SHOWN.get(way, way)} by unicast, matching included", whole, "ratio", target)
        add(
            f"sender's CPU, {SHOWN.get(way, way)} by unicast",
            sent_ms[way] / sent_ms[UNICAST],
            "ratio",
            target,
        )
    ratios = sorted(float(np.quantile(beside, 0.99) / np.quantile(alone, 0.99)) for alone, beside in pairs)
    add(
        "p99 of the others beside a receiver that is stopped, median of pairs of rounds",
        float(np.median(ratios)),
        "ratio",
        f"<= {STALLED_TARGET}",
        f"{ratios[0]:.3g} to {ratios[-1]:.3g}",
    )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; with ``--keep`` write ``benchmarks/results/fan_out.csv``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--receivers", type=int, default=RECEIVERS)
    parser.add_argument(
        "--processes", type=int, nargs="+", default=PROCESSES, help="divisors of the receivers"
    )
    parser.add_argument("--events", type=int, default=EVENTS, help="of each round and way")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    for processes in options.processes:
        figures += measure(options.receivers, processes, options.events, options.rounds)
    for one in figures:
        sys.stdout.write(f"{one.figure:64} {one.value:10.3f} {one.unit:6} {one.target:8} {one.spread}\n")
    if options.keep:
        sys.stdout.write(f"{write('fan_out', figures)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
