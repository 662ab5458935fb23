"""The whole cluster through a client: typed columns in batches, single events, memory of everything.

The subscriptions go in as they would from an application, durably, as JSON expressions; then a generation
is asked for that holds them all. Publishing at full speed takes turns with as many kernels at once as there
are workers, and the ratio is taken per turn. Single events are sent on a schedule; their latency counts from
the moment at which they should have been sent.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from pubsub_cluster import Cluster
from pubsub_cluster.benchmarks.levels import KernelsAtOnce
from pubsub_cluster.benchmarks.measure import Run, interleaved, ratio
from pubsub_cluster.benchmarks.workloads.rules import I8, Events, Rules
from pubsub_cluster.client.calls import PENDING_MAX
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.shm.owner import list_segments

_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30
SHM = Path("/dev/shm")
IN_FLIGHT = 64
"""Batches on their way: two tasks at each of two workers, of up to eight batches each, and as many again that
are being written, answered or read meanwhile, so that groups are full."""
SINGLES_IN_FLIGHT = 64
SINGLE_RATE = 1_000
SINGLE_SECONDS = 5.0
START_S = 0.01
READY_WAIT_S_MAX = 600.0
LOAD_STEP = 20_000
PASS_REPEATS = 100
"""A pass through a cluster has all batches so many times: half a second, of which filling and emptying the
pipeline take half a percent. Of a tenth of a second they take three, and a neighbour's burst all."""
SAMPLED_EVENTS_MIN, SAMPLE_TURNS_MAX, SAMPLE_WAIT_S = 1_000, 200, 0.3
"""Of the layout that is timed, what the tuner knows then of events: it takes none while it builds others."""
RETUNE_INTERVAL_S = 3_600.0
"""No layout is built for better statistics while something is timed."""


def expressions(rules: Rules, first: int, stop: int) -> Iterator[dict[str, Any]]:
    """Yield subscriptions [first, stop) as a client makes them; conjunctions only."""
    assert rules.clauses_each == 1
    start = rules.start[first : stop + 1].tolist()
    mine = rules.literal[start[0] : start[-1]]
    atoms = {number: atom(rules, number) for number in np.unique(mine).tolist()}
    literal = mine.tolist()
    for row, (begin, end) in enumerate(itertools.pairwise(start), first + 1):
        parts = [atoms[number] for number in literal[begin - start[0] : end - start[0]]]
        yield {"id": str(row), "expr": {"and": parts}}


def atom(rules: Rules, predicate: int) -> dict[str, Any]:
    """Return a predicate in the JSON form of expressions."""
    domain = rules.domains[int(rules.attribute[predicate])]
    member = rules.member[rules.member_start[predicate] : rules.member_start[predicate + 1]].tolist()
    if member:
        operator = "not in" if rules.except_[predicate] else "in"
        return {"attr": domain.name, "op": operator, "value": [domain.value(value) for value in member]}
    lo, hi = domain.value(int(rules.lo[predicate])), domain.value(int(rules.hi[predicate]))
    if lo == hi:
        return {"attr": domain.name, "op": "=", "value": lo}
    return {"attr": domain.name, "op": "between", "lo": lo, "hi": hi}


class ClusterRun:
    """Batches of columns through a client, replies returned."""

    def __init__(self, client: Any, batches: list[Events]) -> None:
        self._client = client
        self._batches = [events.columns() for events in batches]

    def run(self) -> I8:
        """Publish all batches; return the matches of each event."""
        found = [
            matches.counts for matches in self._client.publish_stream(self._batches, in_flight=IN_FLIGHT)
        ]
        return np.concatenate(found)


class SinglesRun:
    """Single events through a client, many on their way."""

    def __init__(self, client: Any, events: Events) -> None:
        self._client = client
        self._events = [[event] for event in events.dictionaries()]

    def run(self) -> I8:
        """Publish all events, one per batch; return the matches of each."""
        stream = self._client.publish_stream(self._events, in_flight=SINGLES_IN_FLIGHT)
        return np.concatenate([matches.counts for matches in stream])


def run_cluster(
    rules: Rules,
    batches: list[Events],
    kernel: Run,
    counts: I8,
    *,
    shards: int,
    replicas: int,
    passes: int,
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure a cluster that holds `rules`; return figures.

    Parameters
    ----------
    rules : Rules
    batches : list of Events
        What is published; all events of the workload.
    kernel : Run
        The kernel on the same batches: as many at once as there are workers, for the ratio.
    counts : int64[n]
        Right number of matches of each event.
    shards, replicas, passes : int
    note : callable
    """
    workers = shards * replicas
    with (
        contextlib.closing(KernelsAtOnce(kernel, workers, PASS_REPEATS)) as kernels,
        Cluster(shards=shards, replicas=replicas, retune_interval_s=RETUNE_INTERVAL_S) as cluster,
        cluster.client(timeout_s=120.0) as client,
    ):
        client.publish(batches[0].slice(0, 8).columns())
        empty_bytes = memory_bytes(cluster)
        begin = time.perf_counter()
        for first in range(0, rules.size, LOAD_STEP):
            stop = min(first + LOAD_STEP, rules.size)
            refused = [
                made
                for made in client.subscribe_many(expressions(rules, first, stop))
                if isinstance(made, PubSubError)
            ]
            assert not refused, refused[0]
            if first % (10 * LOAD_STEP) == 0:
                note(f"cluster: {stop:,} subscriptions loaded")
        load_s = time.perf_counter() - begin
        build_s = settle(client, batches)
        note(f"cluster: generation built in {build_s:.1f} s, timing")
        name = f"cluster, {shards} x {replicas}"
        rest(client)
        runs: dict[str, Run] = {"kernels": kernels, name: ClusterRun(client, batches * PASS_REPEATS)}
        expected = {"kernels": np.tile(counts, workers * PASS_REPEATS), name: np.tile(counts, PASS_REPEATS)}
        timings = interleaved(runs, expected, passes)
        found = ratio(timings["kernels"], timings[name])
        single_events = batches[0].slice(0, min(batches[0].size, 1_000))
        single_counts = {"singles": counts[: single_events.size]}
        singles = interleaved({"singles": SinglesRun(client, single_events)}, single_counts, passes)
        latency_us = [
            np.percentile(latencies(client, batches[0], counts, SINGLE_RATE, SINGLE_SECONDS), (50, 99))
            for _ in range(passes)
        ]
        rest(client)
        used = memory_bytes(cluster) - empty_bytes
        return {
            "shards": shards,
            "replicas": replicas,
            "load_per_second": rules.size / load_s,
            "generation_s": build_s,
            "us_per_event": timings[name].best,
            "us_per_event_spread": timings[name].spread,
            "events_per_second": 1e6 / timings[name].best,
            "kernels_events_per_second": 1e6 / timings["kernels"].best,
            "share_of_kernels": 1.0 / found[0],
            "share_of_kernels_spread": [1.0 / found[2], 1.0 / found[1]],
            "single_events_per_second": 1e6 / singles["singles"].best,
            "single_rate": SINGLE_RATE,
            **_latency_figures(np.array(latency_us)),
            "bytes_per_subscription": used / rules.size,
        }


def _latency_figures(us: Any) -> dict[str, Any]:
    """Return the median over the passes, and the least and most, of float64[passes, 2]: p50 and p99."""
    return {
        key: value
        for name, one in zip(("single_p50_us", "single_p99_us"), us.T, strict=True)
        for key, value in (
            (name, float(np.median(one))),
            (f"{name}_spread", [float(one.min()), float(one.max())]),
        )
    }


def settle(client: Any, batches: list[Events]) -> float:
    """Show the tuner enough events, have everything built into a generation, and wait for it."""
    enough = min(SAMPLED_EVENTS_MIN, sum(batch.size for batch in batches))
    for turn in range(SAMPLE_TURNS_MAX):
        client.publish(batches[turn % len(batches)].columns(), answer="counts")
        time.sleep(SAMPLE_WAIT_S)
        if client.status()["tuner"]["sampled_events"] >= enough:
            return await_generation(client)
    raise TimeoutError(f"the tuner has not sampled {enough} events")


def await_generation(client: Any) -> float:
    """Ask for a generation and wait until it holds everything; return the seconds."""
    begin = time.perf_counter()
    generation = client.status()["generation"]
    client.tune_now()
    while time.perf_counter() - begin < READY_WAIT_S_MAX:
        status = client.status()
        if status["generation"] != generation and not status["delta_rows"]:
            return time.perf_counter() - begin
        time.sleep(0.05)
    raise TimeoutError(f"no generation holds all subscriptions after {READY_WAIT_S_MAX} s")


def rest(client: Any) -> None:
    """Wait until a cluster is not at work: the peak of that is a figure of its own."""
    begin = time.perf_counter()
    while is_at_work(client.status()) and time.perf_counter() - begin < READY_WAIT_S_MAX:
        time.sleep(0.05)


def is_at_work(status: dict[str, Any]) -> bool:
    """Tell whether a cluster builds a generation, leaves an epoch or writes a snapshot."""
    durable, epochs = status["durable"], status["epochs"]
    return status["tuner"]["building"] is not None or durable["working_on"] is not None or epochs["busy"]


def latencies(client: Any, events: Events, counts: I8, rate: float, seconds: float) -> Any:
    """Send single events on a schedule; return microseconds from the intended moment to the answer.

    The loop is open: an event leaves at its moment, however many are unanswered, and a late one together
    with those that are due by then. An answer counts when it is received; it is compared afterwards.

    Parameters
    ----------
    client : Client
    events : Events
        In turn.
    counts : int64[n]
        Right number of matches of each event.
    rate, seconds : float
        Events per second, and for how long.
    """
    singles = [[event] for event in events.dictionaries()]
    total = int(rate * seconds)
    sent: list[Any] = []
    with punctual():
        start = time.monotonic() + START_S
        while len(sent) < total:
            now = time.monotonic()
            while len(sent) < total and start + len(sent) / rate <= now:
                sent.append(client.publish_soon(singles[len(sent) % len(singles)]))
            client.receive(start + len(sent) / rate - now)
        while not all(pending.done for pending in sent[-PENDING_MAX:]):  # before any is read: that takes time
            client.receive(1.0)
    found = np.empty(total)
    for number, pending in enumerate(sent):
        matches = pending.result()
        assert matches.match_count == counts[number % len(singles)], "a single event's matches differ"
        found[number] = (pending.answered_at_s - start - number / rate) * 1e6
    return found


@contextlib.contextmanager
def punctual() -> Iterator[None]:
    """Keep this process's own delays out of what it times: of timers, and of collecting the answers it keeps.

    A wait ends up to 50 microseconds late by default, which is the sender's choice and no matter of the
    cluster. The collector would look at thousands of answers that stay, for tens of milliseconds.
    """
    libc = ctypes.CDLL(None)
    slack_ns = libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)
    libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        libc.prctl(_PR_SET_TIMERSLACK, slack_ns, 0, 0, 0)


def memory_bytes(cluster: Cluster) -> int:
    """Return what a cluster occupies: its processes' share of anonymous memory, and its segments once.

    Pages of files (programs, libraries, the change table) are the system's page cache and are not counted. A
    segment that is unlinked and still mapped is.
    """
    return sum(memory_parts(cluster).values())


def memory_parts(cluster: Cluster) -> dict[str, int]:
    """Return what makes up `memory_bytes`: ``segments``, ``coordinator``, ``tuner`` and the workers."""
    with cluster.client() as client:
        status = client.status()
    names = list_segments(status["cluster_id"])
    parts = {"segments": sum(os.stat(SHM / name).st_blocks * 512 for name in names)}
    pids = {"coordinator": status["pid"], "tuner": status["tuner"]["pid"]}
    pids |= {f"worker {worker['worker']}": worker["pid"] for worker in status["workers"]}
    for process, pid in pids.items():
        if pid is not None:
            maps = psutil.Process(pid).memory_maps(grouped=False)
            parts[process] = sum(
                entry.pss if _is_unlinked_segment(entry.path) else entry.anonymous + entry.swap
                for entry in maps
            )
    return parts


def _is_unlinked_segment(path: str) -> bool:
    return path.startswith(str(SHM)) and path.endswith("(deleted)")
