"""Kill a cluster's coordinator and its durable receivers; nothing may be lost: ``make durable-faults``.

    python tests/faults/durable.py --kills 50,50            (coordinators, receivers)
    python tests/faults/durable.py --kills 50,50 --record

Publishers go on through all of it. Each receiver is a process that writes down what it is told, and asks for
the next when that is written; it is killed, and started again under its name. In the end, everything whose
publisher was answered must have been written by every receiver of an owner that it matches. Prints one line
of counts; ends with status 1, and says why, when a promise was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from outcome import Outcome
from receipts_model import Key, Line, judge

from pubsub_cluster import Client, Cluster
from pubsub_cluster.benchmarks import record
from pubsub_cluster.client import session
from pubsub_cluster.language.errors import PubSubError, ReplyTimeoutError, StartError
from pubsub_cluster.shm.fault_points import VARIABLE

PATIENCE_S = 60.0
SILENCE_S = 0.5  # after which a client asks whether the cluster is there: more restarts fit into a run
SUBSCRIPTIONS = {"ann": "value < 60", "bob": "value >= 40"}
OWNS = {"ann": lambda value: value < 60, "bob": lambda value: value >= 40}
RECEIVERS = (("ann", "one"), ("ann", "two"), ("bob", "one"))
POINTS = (
    *("outbox.write", "outbox.report", "client.send", "client.message"),
    *("store.write", "slab.write", "page.read", "child.message"),
)
STARTS_KILLED = 0.2  # this share of the coordinator's
START_POINTS = ("lock.take", "segment.create", "store.replay", "child.spawn", "child.message")
STARTS_MAX = 20
POINT_WAIT_S = 2.0


def receive(data_dir: str, owner: str, name: str, path: str) -> None:
    """Be a receiver: write down each notification, then ask for the next."""
    session.SILENCE_S = SILENCE_S
    process = str(os.getpid())
    with open(path, "ab", buffering=0) as journal, Client(data_dir, timeout_s=PATIENCE_S) as client:
        _wait_for_cluster(client)
        for told in client.listen(owner, durable=name, window=64, on_silence=lambda: None):
            key = told.publisher, told.batch_id, told.event_index
            line = [process, told.sequence, key, told.event["value"], told.dropped]
            journal.write(orjson.dumps(line) + b"\n")


def _wait_for_cluster(client: Client) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            client.hello()
            return
        except ReplyTimeoutError:  # no socket file yet, or again
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


class Receivers:
    """The processes that receive."""

    def __init__(self, data_dir: Path, base: Path, pairs: Sequence[tuple[str, str]]) -> None:
        self._data_dir = data_dir
        self.paths = {pair: base / f"{pair[0]}-{pair[1]}.journal" for pair in pairs}
        self._processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}

    def start(self, pair: tuple[str, str]) -> None:
        """Start one."""
        arguments = ["--receive", str(self._data_dir), *pair, str(self.paths[pair])]
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        self._processes[pair] = subprocess.Popen([sys.executable, __file__, *arguments], env=environment)

    def kill(self, pair: tuple[str, str]) -> None:
        """Kill one and start another in its place."""
        process = self._processes.pop(pair)
        assert process.poll() is None, f"the receiver {pair} ended by itself"
        process.kill()
        process.wait()
        self.start(pair)

    def stop(self) -> list[str]:
        """End all; return those that had ended by themselves."""
        ended = [
            f"the receiver {pair} ended by itself" for pair, one in self._processes.items() if one.poll()
        ]
        for process in self._processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()
        self._processes.clear()
        return ended

    def lines(self, pair: tuple[str, str]) -> list[Line]:
        """Return what one has written."""
        if not self.paths[pair].exists():
            return []
        found = []
        for text in self.paths[pair].read_bytes().split(b"\n")[:-1]:  # a kill may cut the last one
            process, sequence, key, value, dropped = orjson.loads(text)
            found.append(Line(process, sequence, Key(*key), value, dropped))
        return found


class Publisher(threading.Thread):
    """Publishes through everything, and remembers what it was answered."""

    def __init__(self, data_dir: Path, number: int, seed: int, outcome: Outcome) -> None:
        super().__init__(daemon=True)
        self._data_dir, self._name, self._outcome = data_dir, f"publisher{number}", outcome
        self._draw = random.Random(f"{number}-{seed}")
        self.sent: dict[Key, int] = {}
        self.answered: set[Key] = set()
        self.stopping = threading.Event()

    def run(self) -> None:
        """Publish until stopped."""
        try:
            with Client(self._data_dir, timeout_s=PATIENCE_S, publisher=self._name) as client:
                _wait_for_cluster(client)
                number = 0
                while not self.stopping.is_set():
                    number += 1
                    self._publish(client, f"b{number}")
                    self.stopping.wait(0.01 * self._draw.random())
        except Exception as error:
            self._outcome.breaches.append(f"{self._name} ended: {type(error).__name__}: {error}")

    def _publish(self, client: Client, batch_id: str) -> None:
        values = [self._draw.randrange(100) for _ in range(self._draw.choice((1, 2, 20)))]
        keys = {Key(self._name, batch_id, idx): value for idx, value in enumerate(values)}
        self.sent.update(keys)
        try:
            client.publish([{"value": value} for value in values], answer="none", batch_id=batch_id)
        except PubSubError as error:
            self._outcome.breaches.append(f"batch {batch_id} of {self._name} was not answered: {error}")
            return
        self.answered.update(keys)
        self._outcome.counts["batches answered"] += 1


class Killer:
    """Kills the coordinator, at an instant or at any time, and brings it back."""

    def __init__(
        self, cluster: Cluster, points: Path, draw: random.Random, outcome: Outcome, starts_killed: float
    ) -> None:
        self._cluster, self._points, self._draw, self._outcome = cluster, points, draw, outcome
        self._starts_killed = starts_killed

    def kill(self, name: str | None = None) -> None:
        """Kill the coordinator, half of the times at a named instant; start it until it serves."""
        point = None
        if name is not None or self._draw.random() < 0.5:
            point = (
                self._points / f"{self._draw.choice(('before', 'after'))}.{name or self._draw.choice(POINTS)}"
            )
            point.touch()
            deadline_s = time.monotonic() + POINT_WAIT_S
            while point.exists() and time.monotonic() < deadline_s:
                time.sleep(0.002)
        self._count(point)
        begin_s = time.monotonic()
        for _ in range(STARTS_MAX):
            if self._start():
                self._outcome.restart_s.append(time.monotonic() - begin_s)
                return
        raise AssertionError("the coordinator was never ready")

    def _start(self) -> bool:
        self._cluster.kill()
        point = self._points / f"before.{self._draw.choice(START_POINTS)}"
        if self._draw.random() < self._starts_killed:
            point.touch()
        try:
            self._cluster.start()
        except StartError:
            if not self._taken(point):
                raise
        else:
            if not self._taken(point):
                return True
        self._outcome.kills["coordinator"] += 1
        self._outcome.named[point.name] += 1
        return False

    def _count(self, point: Path | None) -> None:
        self._outcome.kills["coordinator"] += 1
        if point is not None and self._taken(point):
            self._outcome.named[point.name] += 1

    def _taken(self, point: Path) -> bool:
        """Withdraw an instant's file; return whether somebody came by before."""
        point.unlink(missing_ok=True)
        taken = list(self._points.glob(f"{point.name}.*"))
        for path in taken:
            path.unlink()
        return bool(taken)


def run(
    seed: int,
    coordinators: int,
    receivers: int,
    publishers: int = 2,
    pairs: Sequence[tuple[str, str]] = RECEIVERS,
    first_point: str | None = None,
    starts_killed: float = STARTS_KILLED,
) -> Outcome:
    """Run a cluster, kill so many coordinators and receivers, and judge.

    Parameters
    ----------
    pairs : sequence of (str, str)
        Owners and names of the receivers.
    first_point : str, optional
        Where the first coordinator is killed.
    starts_killed : float
        The share of the coordinator's starts that are killed too.
    """
    outcome = Outcome("durable", seed, ("coordinator", "receiver"))
    draw, begin_s = random.Random(seed), time.monotonic()
    base = Path(tempfile.mkdtemp(prefix="psc-", dir="/tmp"))
    (points := base / "points").mkdir()
    before = os.environ.get(VARIABLE), session.SILENCE_S
    os.environ[VARIABLE], session.SILENCE_S = str(points), SILENCE_S
    cluster = Cluster(base / "data", start_timeout_s=300.0)
    processes = Receivers(base / "data", base, pairs)
    threads: list[Publisher] = []
    try:
        cluster.start()
        _prepare(cluster, pairs)
        for pair in pairs:
            processes.start(pair)
        threads = [Publisher(base / "data", number, seed, outcome) for number in range(publishers)]
        for thread in threads:
            thread.start()
        killer = Killer(cluster, points, draw, outcome, starts_killed)
        _kill(killer, processes, threads, draw, outcome, (coordinators, receivers), first_point)
        _settle(cluster, threads, outcome)
        outcome.breaches += processes.stop()
        _judge(processes, threads, outcome)
    except Exception as error:
        outcome.breaches.append(f"the run ended early: {type(error).__name__}: {error}")
    finally:
        for thread in threads:
            thread.stopping.set()
        processes.stop()
        cluster.stop()
        os.environ.pop(VARIABLE)
        if before[0] is not None:
            os.environ[VARIABLE] = before[0]
        session.SILENCE_S = before[1]
    outcome.seconds = time.monotonic() - begin_s
    if outcome.breaches:
        sys.stderr.write(f"the data directory is kept: {base}\n")
    else:
        shutil.rmtree(base, ignore_errors=True)
    return outcome


def _prepare(cluster: Cluster, pairs: Sequence[tuple[str, str]]) -> None:
    """Subscribe, and make the receivers: what is published from now on is kept for them."""
    with cluster.client(timeout_s=PATIENCE_S) as client:
        for owner, expression in SUBSCRIPTIONS.items():
            client.subscribe(expression, owner=owner)
        for owner, name in pairs:
            client.listen(owner, durable=name).close()


def _kill(
    killer: Killer,
    processes: Receivers,
    threads: list[Publisher],
    draw: random.Random,
    outcome: Outcome,
    wanted: tuple[int, int],
    first_point: str | None,
) -> None:
    while True:
        left = {
            "coordinator": max(0, wanted[0] - outcome.kills["coordinator"]),
            "receiver": max(0, wanted[1] - outcome.kills["receiver"]),
        }
        if not sum(left.values()):
            return
        _wait_for_progress(threads, outcome)
        kind = draw.choices(list(left), list(left.values()))[0]
        if kind == "receiver":
            processes.kill(draw.choice(list(processes.paths)))
            outcome.kills["receiver"] += 1
        else:
            killer.kill(first_point)
            first_point = None


def _wait_for_progress(threads: list[Publisher], outcome: Outcome) -> None:
    """Wait until something was published, else nothing would be at stake."""
    before = outcome.counts["batches answered"]
    deadline_s = time.monotonic() + PATIENCE_S
    while outcome.counts["batches answered"] < before + 5 * len(threads):
        if time.monotonic() > deadline_s or outcome.breaches:
            raise TimeoutError("the cluster is stuck")
        time.sleep(0.005)


def _settle(cluster: Cluster, threads: list[Publisher], outcome: Outcome) -> None:
    """Let everything be answered, told and acknowledged."""
    for thread in threads:
        thread.stopping.set()
    for thread in threads:
        thread.join(PATIENCE_S + 10.0)
    deadline_s = time.monotonic() + PATIENCE_S
    told: dict[str, Any] = {}
    while time.monotonic() < deadline_s:
        with contextlib.suppress(PubSubError), cluster.client(timeout_s=PATIENCE_S) as client:
            told = client.status()["durable_receivers"]
            if told["waiting"] == 0:
                break
        time.sleep(0.02)
    else:
        outcome.breaches.append(f"not everything was acknowledged in {PATIENCE_S} s: {told}")
    if told.get("dropped") or told.get("size_bytes"):
        outcome.breaches.append(f"dropped, or left on the disk: {told}")


def _judge(processes: Receivers, threads: list[Publisher], outcome: Outcome) -> None:
    for owner, name in processes.paths:
        matches = OWNS[owner]
        sent = {key: value for thread in threads for key, value in thread.sent.items() if matches(value)}
        answered = {key for thread in threads for key in thread.answered if key in sent}
        deaths = outcome.kills.total()
        counts, breaches = judge(sent, answered, processes.lines((owner, name)), deaths)
        outcome.counts.update(counts)
        outcome.breaches += [f"{owner}/{name}: {breach}" for breach in breaches]


def figures_of(outcome: Outcome) -> list[record.Figure]:
    """Return what ``docs/reliability.md`` shows of a run."""

    def figure(name: str, value: float, unit: str = "", target: str = "") -> record.Figure:
        return record.Figure(name, value, unit, target, seed=outcome.seed, workload="durable")

    return [
        figure("coordinators killed", outcome.kills["coordinator"], "", ">= 50"),
        figure("receivers killed", outcome.kills["receiver"], "", ">= 50"),
        figure("kills at named instants", outcome.named.total()),
        figure("batches answered", outcome.counts["batches answered"]),
        figure("notifications written down", outcome.counts["notifications"]),
        figure("notifications lost", outcome.counts["lost"], "", "<= 0"),
        figure("notifications repeated, with the same key", outcome.counts["repeated"]),
        figure("coordinator restart, median", statistics.median(outcome.restart_s), "s"),
        figure("length of the run", outcome.seconds, "s"),
        figure("broken promises", len(outcome.breaches), "", "<= 0"),
    ]


def main() -> int:
    """Run as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description="Kill a coordinator and durable receivers; lose nothing.")
    parser.add_argument("--kills", default="50,50", help="coordinators,receivers")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/faults_durable.csv")
    parser.add_argument("--receive", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        receive(*options.receive)
        return 0
    coordinators, receivers = (int(number) for number in options.kills.split(","))
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    outcome = run(seed, coordinators, receivers)
    print(outcome.line())
    if options.record:
        record.write("faults_durable", figures_of(outcome))
    return outcome.status()


if __name__ == "__main__":
    raise SystemExit(main())
