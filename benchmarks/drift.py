"""The drift experiments of RR-4089 (section 6.2.3, figure 4), in simulated time.

    python -m pubsub_cluster.benchmarks.drift [--only DRIFT-SKEW] [--subscriptions 300000]

*Dynamic*: the tables that `tuner.dynamic` arrives at, fed with every insertion and removal and run every
`--tick` simulated seconds. *No change*: the tables that were best at the start. *Rebuilt*: the greedy's
choice from scratch at every hour. At every simulated hour the production builder builds a layout of what is
alive with each of the three, and the kernel matches the same events in all of them, in turn; the first events
are checked against brute force, and every pass against the first. Writes ``benchmarks/results/drift.csv``.

Throughput is that of the report: events in what is left of a second when its insertions, removals and the
maintenance are done, at the rate of a catalogue of this size. With 3 million it takes an hour.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.benchmarks.levels import GENERATION, SAMPLE_BATCH, SAMPLE_EVENTS, WIDE, KernelRun, Loaded
from pubsub_cluster.benchmarks.measure import Run, interleaved
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads.drift import (
    ATTRIBUTES,
    DOMAIN,
    DRIFTS,
    HOURS,
    OLD_H,
    PREDICATES,
    Drift,
)
from pubsub_cluster.benchmarks.workloads.rules import I8, Events, expected_counts
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.clustering import Clustering
from pubsub_cluster.tuner.configuration import Configuration, TableSchema
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.dynamic import CREATED, REMOVED, Decision, DynamicClustering
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.workers.engine import MatchEngine

CSV = "drift"
DYNAMIC, NO_CHANGE, REBUILT = STRATEGIES = ("dynamic", "no change", "rebuilt")
BATCH, CHECKED = 500, 10
SAMPLES_FIRST = 1 << 30
HOUR_S = 3_600
WINDOW_H = 2
Tables = set[tuple[int, ...]]


class Hour(NamedTuple):
    """What was measured at a simulated hour.

    Attributes
    ----------
    us_per_event : dict of str to float
        Of each strategy.
    table_count : dict of str to int
    maintenance_s : float
        Of a simulated second, mean since the hour before: insertions, removals and decisions.
    worst_s : float
        The longest tick since the hour before.
    """

    us_per_event: dict[str, float]
    table_count: dict[str, int]
    maintenance_s: float
    worst_s: float

    def throughput(self, strategy: str) -> float:
        """Return events per second; what maintenance takes is left out of the time of the dynamic one."""
        left_s = 1.0 - (self.maintenance_s if strategy == DYNAMIC else 0.0)
        return 1e6 * max(left_s, 0.0) / self.us_per_event[strategy]


class Live:
    """The dynamic clustering of a workload, in simulated time.

    Parameters
    ----------
    workload : Drift
    tables : set of tuple of int
        To begin with, by attributes.
    sample : Events
    constants : CostConstants
    """

    def __init__(self, workload: Drift, tables: Tables, sample: Events, constants: CostConstants) -> None:
        self._workload = workload
        self._way = (2 * np.repeat(np.arange(ATTRIBUTES), DOMAIN)).astype(np.int32)
        books = Clustering(self._way, chances(sample), np.ones(ATTRIBUTES))
        for attributes in sorted(tables):
            books.add_table(books.schema(tuple(2 * attribute for attribute in attributes)))
        self._dynamic = DynamicClustering(books, constants)
        self._inserted = 0
        self._number = self._insert(0, workload.subscriptions)
        self.decisions: list[tuple[float, Decision]] = []

    @property
    def tables(self) -> Tables:
        """The tables that there are, by attributes."""
        books = self._dynamic.clustering
        return {tuple(way >> 1 for way in books.ways(table)) for table in books.tables}

    def observe(self, sample: Events) -> None:
        """Take other statistics."""
        self._dynamic.set_statistics(self._way, chances(sample), np.ones(ATTRIBUTES))

    def advance(self, seconds: float) -> None:
        """Insert, remove and decide up to a moment."""
        stop = self._workload.inserted(seconds)
        count = stop - self._inserted
        if count:
            self._dynamic.remove(self._number[:count])
            first = self._workload.subscriptions + self._inserted
            self._number = np.concatenate((self._number[count:], self._insert(first, first + count)))
        self._inserted = stop
        self.decisions += [(seconds, decision) for decision in self._dynamic.maintain()]

    def _insert(self, first: int, stop: int) -> I8:
        attribute, constant = self._workload.predicates(first, stop)
        atom = (attribute * DOMAIN + constant - 1).reshape(-1)
        start = np.arange(0, len(atom) + 1, PREDICATES, dtype=np.int64)
        return self._dynamic.insert(start, atom, np.full(stop - first, PREDICATES, np.int32))


def chances(sample: Events) -> Any:
    """Return how often each constant of each attribute was seen, one unseen event spread evenly beside."""
    value = sample.value - 1 + DOMAIN * np.arange(ATTRIBUTES, dtype=np.int32)
    count = np.bincount(value.reshape(-1), minlength=ATTRIBUTES * DOMAIN)
    return (count + 1.0 / DOMAIN) / (sample.size + 1.0)


class Moment:
    """What is alive at a moment, in a catalogue of its own.

    Parameters
    ----------
    workload : Drift
    inserted : int
    sample : Events
    """

    def __init__(self, workload: Drift, inserted: int, sample: Events) -> None:
        self.rules = workload.rules(inserted)
        writer = CatalogueWriter.in_memory(workload.subscriptions * 5 // 3)
        writer.append_columns(self.rules.columns())
        self._catalogue, self._counts = CatalogueReader.of(writer), writer.counts()
        self._sample = EventSample()
        for first in range(0, sample.size, SAMPLE_BATCH):
            self._sample.add(sample.slice(first, first + SAMPLE_BATCH).raw())
        names = [self._catalogue.attribute_name(number) for number in range(self._counts.attributes)]
        self._layout_number = {int(name[1:]): number for number, name in enumerate(names)}

    def load(self, tables: Tables | None, constants: CostConstants) -> Loaded:
        """Build a layout with these tables, or with the greedy's choice, and attach it."""
        configuration = None
        if tables is not None:
            number = self._layout_number
            here = [
                tuple(sorted(number[attribute] for attribute in attributes))
                for attributes in tables
                if all(attribute in number for attribute in attributes)
            ]
            configuration = Configuration(
                tuple(sorted(TableSchema(attributes, (0,) * len(attributes)) for attributes in here)), ()
            )
        begin = time.perf_counter()
        layout = build_layout(
            self._catalogue,
            self._counts,
            1,
            self._sample,
            GENERATION,
            configuration=configuration,
            constants=constants,
        )
        build_s = time.perf_counter() - begin
        engine = MatchEngine(self._catalogue, EMPTY_SCHEMA, WIDE)
        engine.attach_layout(GENERATION, layout)
        return Loaded(self._catalogue, layout, engine, self._counts, 0.0, build_s)

    def tables_of(self, loaded: Loaded) -> Tables:
        """Return the tables of a layout, by attributes of the workload."""
        layout = loaded.layout
        domain = {number: attribute for attribute, number in self._layout_number.items()}
        return {
            tuple(sorted(domain[code >> 1] for code in layout.part_code[first:stop].tolist()))
            for first, stop in zip(
                layout.table_part[:-1].tolist(), layout.table_part[1:].tolist(), strict=True
            )
        }


def measure(
    workload: Drift,
    hour: int,
    tables: dict[str, Tables | None],
    events: int,
    passes: int,
    constants: CostConstants,
) -> tuple[dict[str, float], dict[str, Tables]]:
    """Time the kernel with each strategy's tables; return microseconds per event and the tables."""
    is_new = hour > OLD_H
    moment = Moment(workload, workload.inserted(hour * HOUR_S), sample_of(workload, hour))
    drawn = workload.events(events, is_new, first=hour * events)
    batches = [drawn.slice(first, first + BATCH) for first in range(0, events, BATCH)]
    loaded = {name: moment.load(mine, constants) for name, mine in tables.items()}
    runs: dict[str, Run] = {name: KernelRun(mine, batches) for name, mine in loaded.items()}
    counts = runs[REBUILT].run()
    expected = expected_counts(moment.rules, drawn, CHECKED)
    assert counts[: len(expected)].tolist() == expected.tolist(), "brute force disagrees"
    timings = interleaved(runs, dict.fromkeys(runs, counts), passes)
    found = {name: moment.tables_of(mine) for name, mine in loaded.items()}
    return {name: timing.best for name, timing in timings.items()}, found


def sample_of(workload: Drift, hour: int) -> Events:
    """Return the events that the tuner has seen last, at the beginning of an hour."""
    return workload.events(SAMPLE_EVENTS, hour > OLD_H, first=SAMPLES_FIRST + hour * SAMPLE_EVENTS)


def run(
    workload: Drift, arguments: argparse.Namespace, constants: CostConstants = DEFAULT_CONSTANTS
) -> list[Figure]:
    """Run one experiment; return its figures."""
    first = Moment(workload, 0, sample_of(workload, 0))
    loaded = first.load(None, constants)
    loaded.engine.warm_up()
    start = first.tables_of(loaded)
    live = Live(workload, start, sample_of(workload, 0), constants)
    hours: list[Hour] = []
    for hour in range(arguments.hours + 1):
        maintenance_s, worst_s = _live_through(live, hour, workload, arguments.tick)
        tables: dict[str, Tables | None] = {DYNAMIC: live.tables, NO_CHANGE: start, REBUILT: None}
        times, found = measure(workload, hour, tables, arguments.events, arguments.passes, constants)
        count = {name: len(mine) for name, mine in found.items()}
        hours.append(Hour(times, count, maintenance_s, worst_s))
        _tell(workload, hour, hours[-1], live)
        gc.collect()
    return figures_of(workload, hours, live.decisions)


def _live_through(live: Live, hour: int, workload: Drift, tick_s: int) -> tuple[float, float]:
    """Live through the hour before this one; return CPU seconds per simulated one, and of the worst tick."""
    if not hour:
        return 0.0, 0.0
    live.observe(sample_of(workload, hour))
    spent = []
    for second in range((hour - 1) * HOUR_S + tick_s, hour * HOUR_S + 1, tick_s):
        begin = time.process_time()  # what it costs, however many others are at work on this machine
        live.advance(second)
        spent.append(time.process_time() - begin)
    return float(np.sum(spent)) / HOUR_S, max(spent)


def _tell(workload: Drift, hour: int, seen: Hour, live: Live) -> None:
    times = ", ".join(
        f"{name} {seen.us_per_event[name]:.3f} us ({seen.table_count[name]} tables)" for name in STRATEGIES
    )
    sys.stdout.write(
        f"{workload.name} {workload.subscriptions} h{hour}: {times}; "
        f"maintenance {seen.maintenance_s:.4f} s/s, worst tick {seen.worst_s:.2f} s, "
        f"{len(live.decisions)} decisions\n"
    )
    sys.stdout.flush()


def figures_of(workload: Drift, hours: list[Hour], decisions: list[tuple[float, Decision]]) -> list[Figure]:
    """Return the figures of a run: hour by hour, and windows of two hours compared as the report does."""
    found: list[Figure] = []

    def add(figure: str, value: float, unit: str, target: str = "") -> None:
        found.append(
            Figure(figure, value, unit, target, "", workload.seed, workload.name, workload.subscriptions)
        )

    for hour, seen in enumerate(hours):
        for name in STRATEGIES:
            add(f"throughput, {name}, hour {hour}", seen.throughput(name), "events/s")
            add(f"tables, {name}, hour {hour}", seen.table_count[name], "")
        add(f"maintenance, hour {hour}", seen.maintenance_s, "s per second")
    first = {name: _mean(hours[: WINDOW_H + 1], name) for name in STRATEGIES}
    last = {name: _mean(hours[-WINDOW_H - 1 :], name) for name in STRATEGIES}
    is_schema = workload.name == "DRIFT-SCHEMA"
    add("dynamic / rebuilt, last window", last[DYNAMIC] / last[REBUILT], "", ">= 0.95")
    everywhere = min(seen.throughput(DYNAMIC) / seen.throughput(REBUILT) for seen in hours)
    add("dynamic / rebuilt, worst hour", everywhere, "")
    add(
        "no change, last window / first",
        last[NO_CHANGE] / first[NO_CHANGE],
        "",
        "<= 0.65" if is_schema else "<= 0.9",
    )
    add("dynamic, last window / first", last[DYNAMIC] / first[DYNAMIC], "", "" if is_schema else ">= 0.9")
    add("rebuilt, last window / first", last[REBUILT] / first[REBUILT], "")
    add(
        "dynamic / no change, last window", last[DYNAMIC] / last[NO_CHANGE], "", ">= 1.4" if is_schema else ""
    )
    add("maintenance, worst hour", max(seen.maintenance_s for seen in hours), "s per second", "<= 0.5")
    for kind in (CREATED, REMOVED):
        add(f"{kind}, times", sum(decision.kind == kind for _, decision in decisions), "")
    add("subscriptions moved", sum(len(decision.moved) for _, decision in decisions), "")
    return found


def _mean(hours: list[Hour], strategy: str) -> float:
    return float(np.mean([hour.throughput(strategy) for hour in hours]))


def main() -> int:
    """Run and keep the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=sorted(DRIFTS))
    parser.add_argument("--subscriptions", type=int, default=300_000)
    parser.add_argument("--hours", type=int, default=HOURS)
    parser.add_argument("--tick", type=int, default=60, help="Simulated seconds between decisions.")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name, make in DRIFTS.items():
        if arguments.only in (None, name):
            figures = run(make(arguments.subscriptions, arguments.seed), arguments)
            write(CSV, figures, keep_others=True)
            for figure in figures:
                if ", hour " not in figure.figure:
                    sys.stdout.write(
                        f"{name}: {figure.figure}: {figure.value:.3f} {figure.unit} {figure.target}\n"
                    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
