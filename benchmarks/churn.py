"""A catalogue that changes while it matches: bulk load, insertions and removals at a rate, single changes.

    python -m pubsub_cluster.benchmarks.churn [--subscriptions 1000000] [--rate 20500] [--keep]

Everything goes through real clients of a real cluster with two workers. The base is loaded from a file by
``pubsub-cluster load`` and timed until a generation holds it. Then the same batches are published at full
speed in turns without and with other clients that insert and remove subscriptions, durably, at a rate
(medians of the turns count); and on a schedule, at half of the quiet rate: while one client changes many
and another one makes single subscriptions, while single ones are all that changes (with the disk's own time
as the control, `benchmarks.disk`), and during swaps, folds and resizes (`benchmarks.pauses`). In every
answer the matches of the base are compared with the right ones, and those of what changes are bounded by
all that might have been there. ``--keep`` puts the figures into ``benchmarks/results/churn.csv``.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
import psutil

from pubsub_cluster import Cluster
from pubsub_cluster.benchmarks import disk, pauses
from pubsub_cluster.benchmarks.changers import (
    LIVE_STEPS,
    POOL,
    SINGLES_PER_SECOND,
    STEPS_PER_SECOND,
    Changer,
    Changers,
    pool,
)
from pubsub_cluster.benchmarks.cluster_level import (
    IN_FLIGHT,
    RETUNE_INTERVAL_S,
    await_generation,
    expressions,
    punctual,
    rest,
    settle,
)
from pubsub_cluster.benchmarks.measure import WrongAnswer
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads import WORKLOADS
from pubsub_cluster.benchmarks.workloads.rules import I8, Rules, matching
from pubsub_cluster.client import Client
from pubsub_cluster.client.matches import Matches

CSV = "churn"
RATE = 20_500  # the target and a little: who offers just that measures a few less
"""Insertions a second, and as many removals, of all clients."""
CLIENTS = 2
"""Each waits for its removals before it makes more: one alone would leave the cluster idle."""
BATCH, BATCHES, CHECKED = 1_000, 10, 100
TURNS = 4
SINGLES_TIMES = 3  # as long as the rest: the 99th percentile of 200 would be the second largest of them
LOAD_TIMEOUT_S = 600
TARGETS = {
    "insertions": ">= 20,000",
    "removals": ">= 20,000",
    "events beside changes, share of quiet": ">= 0.5",
    "worker time beside changes / quiet": "<= 1.3",
    "single subscribe, p99 at half load": "<= 15",
    "load from a file, durable and in a generation": "<= 25",
    **pauses.TARGETS,
}

SPREAD_OF = {
    "events beside changes, share of quiet": "share",
    "worker time beside changes / quiet": "worker_ratio",
}


class Publisher:
    """Publishes the same batches and compares the answers.

    Parameters
    ----------
    client : Client
    cluster : Cluster
    batches : list
        Columns of the batches.
    base : list of int64[BATCH]
        Matches of each event among the first `base_size` handles.
    most : list of int64[BATCH]
        The most matches that there can be beside these.
    base_size : int
    """

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        batches: list[Any],
        base: list[I8],
        most: list[I8],
        base_size: int,
    ) -> None:
        self._client = client
        self._batches = batches
        self._base, self._most = base, most
        self._base_size = base_size
        self._cluster = cluster

    def full_speed(self, seconds: float) -> tuple[float, float]:
        """Publish for so long; return events per second and the workers' microseconds per event."""
        worker_s, begin = self._worker_s(), time.monotonic()

        def batches() -> Iterator[Any]:
            number = 0
            while time.monotonic() - begin < seconds:
                yield self._batches[number % BATCHES]
                number += 1

        count = 0
        for matches in self._client.publish_stream(batches(), in_flight=IN_FLIGHT):
            self.check(count % BATCHES, matches)
            count += 1
        took = time.monotonic() - begin
        return count * BATCH / took, (self._worker_s() - worker_s) / (count * BATCH) * 1e6

    def on_schedule(self, rate: float, goes_on: Callable[[], bool]) -> I8:
        """Publish batches at a rate; return microseconds from the intended moment to the answer of each.

        Parameters
        ----------
        rate : float
            Batches per second.
        goes_on : callable
            Tells whether another batch is to be sent.
        """
        waiting: deque[tuple[int, Any]] = deque()
        took_us: list[float] = []

        def settle_first() -> None:
            number, pending = waiting.popleft()
            matches = pending.result()
            took_us.append((pending.answered_at_s - start - number / rate) * 1e6)
            self.check(number % BATCHES, matches)

        with punctual():
            start = time.monotonic() + 0.01
            for number in itertools.takewhile(lambda _: goes_on(), itertools.count()):
                while (left := start + number / rate - time.monotonic()) > 0:
                    self._client.receive(left)
                    while waiting and waiting[0][1].done:
                        settle_first()
                waiting.append((number, self._client.publish_soon(self._batches[number % BATCHES])))
            while waiting:
                settle_first()
        return np.array(took_us, np.int64)

    def check(self, number: int, matches: Any) -> None:
        """Compare a batch's matches.

        Raises
        ------
        WrongAnswer
        """
        event = np.repeat(np.arange(BATCH), matches.counts)
        counts = np.bincount(event[matches.handles <= self._base_size], minlength=BATCH)
        if not np.array_equal(counts, self._base[number]):
            raise WrongAnswer(f"batch {number}: the base's matches are not the right ones")
        if (matches.counts - self._base[number] > self._most[number]).any():
            raise WrongAnswer(f"batch {number}: matches that cannot be")

    def _worker_s(self) -> float:
        pids: Any = self._cluster.pids()["workers"]
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def load(cluster: Cluster, client: Client, rules: Rules) -> dict[str, float]:
    """Load the base from a file by the command; return seconds until it is durable, and in a generation."""
    with tempfile.NamedTemporaryFile(suffix=".ndjson") as file:
        for item in expressions(rules, 0, rules.size):
            file.write(orjson.dumps(item) + b"\n")
        file.flush()
        command = [sys.executable, "-m", "pubsub_cluster.cli", "load", file.name, "--json"]
        command += ["--data", str(cluster.data_dir), "--timeout", "60"]
        begin = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, timeout=LOAD_TIMEOUT_S)
        durable_s = time.perf_counter() - begin
        assert orjson.loads(done.stdout)["loaded"] == rules.size, done.stdout[:400]
        if client.status()["delta_rows"]:
            await_generation(client)
        return {"durable_s": durable_s, "ready_s": time.perf_counter() - begin}


def measure(workload: str, subscriptions: int, rate: int, seconds: float, seed: int = 1) -> dict[str, Any]:
    """Measure a workload of conjunctions; return figures."""
    made = WORKLOADS[workload].make(subscriptions=subscriptions, seed=seed)
    rules, events = made.rules(), made.events(BATCHES * BATCH)
    slices = [events.slice(first, first + BATCH) for first in range(0, events.size, BATCH)]
    batches = [events.columns() for events in slices]
    extra = pool(workload, seed)
    # Each of the pool is there as often as it fits into what a client has, and once as a single one.
    copies = CLIENTS * -(-(LIVE_STEPS + 1) * (rate // CLIENTS // STEPS_PER_SECOND) // POOL) + 1
    most = [np.array([copies * len(matching(extra, row)) for row in one.value], np.int64) for one in slices]
    with (
        Cluster(shards=1, replicas=2, retune_interval_s=RETUNE_INTERVAL_S) as cluster,
        cluster.client(timeout_s=60.0) as client,
    ):
        client.publish(batches[0])
        found: dict[str, Any] = {"seed": seed, **load(cluster, client, rules)}
        note(f"loaded in {found['durable_s']:.1f} s, ready after {found['ready_s']:.1f} s")
        settle(client, slices)
        rest(client)
        base = [_counts(client.publish(columns)) for columns in batches]
        for event in range(CHECKED):
            assert base[0][event] == len(matching(rules, slices[0].value[event]))
        publisher = Publisher(client, cluster, batches, base, most, rules.size)
        tasks = [
            Changer(str(cluster.data_dir), workload, seed, rate // CLIENTS, f"c{number}.")
            for number in range(CLIENTS)
        ]
        tasks.append(Changer(str(cluster.data_dir), workload, seed, 0))
        with contextlib.closing(Changers(tasks)) as changers:
            found |= _at_full_speed(client, publisher, changers, seconds)
            rest(client)
            with changers.at_work({}, only="many"):
                found |= _coordinator_time(cluster, client, seconds)
            half = found["quiet_per_second"] / 2 / BATCH
            found["beside_changes"] = _at_half_load(client, publisher, changers, half, seconds)
            with disk.watching(str(cluster.data_dir), SINGLES_PER_SECOND) as page:
                found["alone"] = _at_half_load(
                    client, publisher, changers, half, SINGLES_TIMES * seconds, only="single"
                )
                found["alone"] |= _quantiles("disk, a page made durable", page.took_s())
        with pauses.happenings(str(cluster.data_dir), workload, seed) as pipe:
            found["pauses"] = pauses.measure_pauses(client, publisher, BATCH, pipe, note)
        for number, columns in enumerate(batches):  # everything that came has gone
            assert np.array_equal(_counts(client.publish(columns)), base[number])
    return found


def _counts(matches: Matches) -> I8:
    assert matches.counts is not None
    return matches.counts


def _coordinator_time(cluster: Cluster, client: Client, seconds: float) -> dict[str, Any]:
    """Return what a change takes of the coordinator while nothing else happens."""
    pid: Any = cluster.pids()["coordinator"]
    process = psutil.Process(pid)

    def so_far() -> tuple[float, int]:
        return sum(process.cpu_times()[:2]), client.status()["counters"]["changes_applied"]

    begin_s, begin = so_far()
    time.sleep(seconds)
    end_s, end = so_far()
    return {"us_per_change": (end_s - begin_s) / (end - begin) * 1e6}


def _at_full_speed(
    client: Client, publisher: Publisher, changers: Changers, seconds: float
) -> dict[str, Any]:
    publisher.full_speed(1.0)
    turns = []
    for _ in range(TURNS):
        rest(client)
        quiet, quiet_us = publisher.full_speed(seconds)
        changes: dict[str, Any] = {}
        with changers.at_work(changes, only="many"):
            busy, busy_us = publisher.full_speed(seconds)
        note(
            f"{quiet:,.0f} events/s ({quiet_us:.2f} us of workers), "
            f"beside {changes['inserted']:,.0f} insertions and {changes['removed']:,.0f} removals "
            f"{busy:,.0f} ({busy_us:.2f} us)"
        )
        turns.append((busy / quiet, busy_us / quiet_us, quiet, busy, changes["inserted"], changes["removed"]))
    names = ("share", "worker_ratio", "quiet_per_second", "busy_per_second", "inserted", "removed")
    columns = dict(zip(names, zip(*turns, strict=True), strict=True))
    spread = {name: f"{min(columns[name]):.3g} to {max(columns[name]):.3g}" for name in names[:2]}
    return {**{name: statistics.median(column) for name, column in columns.items()}, "spread": spread}


def _at_half_load(
    client: Client,
    publisher: Publisher,
    changers: Changers,
    rate: float,
    seconds: float,
    only: str | None = None,
) -> dict[str, float]:
    """Return what batches on a schedule, and single subscriptions beside them, took."""
    rest(client)
    changes: dict[str, Any] = {}
    with changers.at_work(changes, only):
        stop_s = time.monotonic() + seconds
        took = publisher.on_schedule(rate, lambda: time.monotonic() < stop_s)
    return {
        "batch, p50": float(np.percentile(took, 50)) / 1e3,
        "batch, p99": float(np.percentile(took, 99)) / 1e3,
        "batch, longest": float(took.max()) / 1e3,
        **_quantiles("single subscribe", changes["single_s"]),
    }


def _quantiles(what: str, took_s: list[float]) -> dict[str, float]:
    return {f"{what}, p{share}": float(np.percentile(took_s, share)) * 1e3 for share in (50, 99)}


def figures_of(found: dict[str, Any], workload: str, subscriptions: int) -> list[Figure]:
    """Return figures with their targets."""
    rows = [
        ("load from a file, durable", found["durable_s"], "s"),
        ("load from a file, durable and in a generation", found["ready_s"], "s"),
        ("insertions", found["inserted"], "/s"),
        ("removals", found["removed"], "/s"),
        ("coordinator, time of an insertion or removal", found["us_per_change"], "us"),
        ("events, quiet", found["quiet_per_second"], "events/s"),
        ("events beside changes", found["busy_per_second"], "events/s"),
        ("events beside changes, share of quiet", found["share"], ""),
        ("worker time beside changes / quiet", found["worker_ratio"], ""),
        *((f"{what} at half load beside changes", ms, "ms") for what, ms in found["beside_changes"].items()),
        *(
            (f"{what} at half load", ms, "ms")
            for what, ms in found["alone"].items()
            if not what.startswith("batch")
        ),
        *pauses.rows_of(*found["pauses"]),
    ]
    return [
        Figure(
            figure,
            value,
            unit,
            TARGETS.get(figure, "") if subscriptions >= 1_000_000 else "",
            found["spread"].get(SPREAD_OF.get(figure, ""), ""),
            found["seed"],
            workload,
            subscriptions,
        )
        for figure, value, unit in rows
    ]


def note(line: str) -> None:
    """Tell about progress."""
    sys.stderr.write(line + "\n")


def main() -> int:
    """Measure and print, or keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", default="W0")
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=RATE)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.workload, arguments.subscriptions, arguments.rate, arguments.seconds)
    figures = figures_of(found, arguments.workload, arguments.subscriptions)
    if arguments.keep:
        write(CSV, figures, keep_others=True, only_figures=True)
    for figure in figures:
        sys.stdout.write(f"{figure.figure:<56}{figure.value:>14,.4g} {figure.unit:<10}{figure.target}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
