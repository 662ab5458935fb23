"""What a new subscription waits for the retained events: 100,000 of them, as columns and as JSON.

    python -m pubsub_cluster.benchmarks.retained [--live]

W0 comes as columns, SERVICE and ADS as JSON, in batches of 1,000. Every answer is one subscription of the
workload against all events, and up to 100 of those that match written as JSON. With ``--live``, also what
`Client.subscribe` takes in a cluster that retains as many, durable, with and without the retained events.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np
import orjson

from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads import WORKLOADS, Workload
from pubsub_cluster.benchmarks.workloads.rules import Events, Rules
from pubsub_cluster.cluster import Cluster
from pubsub_cluster.language.batch import Payload, payload_from_columns, payload_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.protocol import RETAINED_TOLD
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.workers.retained import Batch, RetainedEvents, told_as_json

EVENTS = 100_000
BATCH_EVENTS = 1_000
SUBSCRIPTIONS = 300
LIVE_SUBSCRIPTIONS = 100
FOREVER_US = 1 << 60
AS_COLUMNS = ("W0",)
NAMES = ("W0", "ADS", "SERVICE")
TARGET = "<= 20"


def forms(rules: Rules, count: int) -> list[NormalForm]:
    """Return the first subscriptions as normal forms."""
    found = []
    for first in range(0, count * rules.clauses_each, rules.clauses_each):
        clauses = [rules.literal[a:b].tolist() for a, b in _ends(rules, first)]
        used = list(dict.fromkeys(literal >> 1 for clause in clauses for literal in clause))
        renumbered = [tuple(sorted(2 * used.index(i >> 1) + (i & 1) for i in clause)) for clause in clauses]
        found.append(NormalForm(tuple(rules.canonical(each) for each in used), tuple(renumbered)))
    return found


def _ends(rules: Rules, first: int) -> Iterator[tuple[int, int]]:
    for clause in range(first, first + rules.clauses_each):
        yield int(rules.start[clause]), int(rules.start[clause + 1])


def payload_of(name: str, events: Events) -> Payload:
    """Return a batch as its publisher sends it."""
    if name in AS_COLUMNS:
        return payload_from_columns(events.columns())
    return payload_from_json(b"\n".join(map(orjson.dumps, events.dictionaries())))


def retained(name: str, workload: Workload) -> tuple[RetainedEvents, float]:
    """Return the retained events of a workload, and the seconds that taking them in took."""
    events, store = (
        workload.events(EVENTS),
        RetainedEvents(EMPTY_SCHEMA, DEFAULT_LIMITS, EVENTS, 1 << 40, 1 << 60),
    )
    taken_s = 0.0
    for first in range(0, EVENTS, BATCH_EVENTS):
        payload = payload_of(name, events.slice(first, first + BATCH_EVENTS))
        buffers = [bytes(buffer) for buffer in payload.buffers]
        batch = Batch("benchmark", str(first), 0, 0, FOREVER_US, payload.header, buffers)
        begin = time.process_time()
        store.add(batch, 0)
        taken_s += time.process_time() - begin
    return store, taken_s


def measure(name: str) -> Iterator[Figure]:
    """Yield the figures of one workload, in this process."""
    workload = WORKLOADS[name].make(subscriptions=SUBSCRIPTIONS, seed=1)
    store, taken_s = retained(name, workload)
    wanted = forms(workload.rules(), SUBSCRIPTIONS)
    store.matching(wanted[0], 1, 1, 0)
    times, found = [], 0
    for form in wanted:
        begin = time.perf_counter()
        count, told = store.matching(form, 1, 1, RETAINED_TOLD)
        told_as_json(told)
        times.append(1_000 * (time.perf_counter() - begin))
        found += count
    shown = "columns" if name in AS_COLUMNS else "JSON"

    def figure(what: str, value: float, unit: str, target: str = "") -> Figure:
        return Figure(f"{what}, {shown}", value, unit, target, "", 1, name, SUBSCRIPTIONS)

    yield figure("100,000 retained events answered, median", float(np.median(times)), "ms", TARGET)
    yield figure(
        "100,000 retained events answered, 99th percentile", float(np.quantile(times, 0.99)), "ms", TARGET
    )
    yield figure("100,000 retained events answered, longest", max(times), "ms")
    yield figure("matches of a subscription, mean", found / SUBSCRIPTIONS, "events")
    yield figure("taken in, CPU of an event", 1e6 * taken_s / EVENTS, "µs")
    yield figure("memory of an event", store.counts.size_bytes / EVENTS, "B")


def live(name: str) -> Iterator[Figure]:
    """Yield what a subscription takes in a cluster, with and without the retained events."""
    workload = WORKLOADS[name].make(subscriptions=SUBSCRIPTIONS, seed=1)
    events, end = workload.events(EVENTS), time.time_ns() // 1_000 + 3_600_000_000
    with Cluster() as cluster, cluster.client(timeout_s=120.0) as client:
        for first in range(0, EVENTS, BATCH_EVENTS):
            payload = payload_of(name, events.slice(first, first + BATCH_EVENTS))
            client.publish(payload, answer="none", valid_until=end)
        while client.status()["retained"]["events"] < EVENTS:
            time.sleep(0.05)
        names = [domain.name for domain in workload.events(1).domains]
        times: dict[int, list[float]] = {0: [], RETAINED_TOLD: []}
        for number in range(2 * LIVE_SUBSCRIPTIONS):
            told_max = (0, RETAINED_TOLD)[number % 2]
            parts = [f"{names[(number + step) % len(names)]} = {number % (step + 5)}" for step in range(3)]
            begin = time.perf_counter()
            client.subscribe(" AND ".join(parts), retained=told_max)
            times[told_max].append(1_000 * (time.perf_counter() - begin))
    for told_max, what in ((0, "without"), (RETAINED_TOLD, "with")):
        value = float(np.median(times[told_max]))
        figure = f"durable subscription in a cluster, {what} 100,000 retained events, median"
        yield Figure(figure, value, "ms", "", "", 1, name, SUBSCRIPTIONS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; write ``benchmarks/results/retained.csv``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--live", action="store_true", help="a cluster too")
    options = parser.parse_args(arguments)
    figures = [figure for name in NAMES for figure in measure(name)]
    if options.live:
        figures += live("W0")
    path = write("retained", figures, keep_others=True)
    sys.stdout.write(f"{path}\n{path.read_text()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
