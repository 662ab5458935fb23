"""What a layout costs to build: all of it, and where the last one is taken over as far as it stays.

    python -m pubsub_cluster.benchmarks.builds [--subscriptions 1000000] [--rounds 5] [--keep]

In a catalogue in private memory some subscriptions are replaced by others between two layouts. After each
change the same layout is built in both ways, one after the other, in turns; the time is that of a processor.
Tables are kept and followed by the dynamic algorithm, as the tuner does (`tuner.live`), by either
way on its own. Every layout answers a batch, and is compared with brute force.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from pubsub_cluster.benchmarks.measure import WrongAnswer
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads import WORKLOADS
from pubsub_cluster.benchmarks.workloads.rules import I8, Events, Rules, matching
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.layout import LayoutArrays
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.constants import CostConstants
from pubsub_cluster.tuner.live import LiveTables
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.workers.engine import MatchEngine

CSV = "builds"
CHANGES = (100, 1_000, 10_000, 40_000)
SAMPLED, CHECKED = 4_000, 8
WHOLE, TAKEN_OVER = "whole", "taking over"


class Changing:
    """A catalogue of which any subscriptions go and others come."""

    def __init__(self, rules: Rules, subscriptions: int, seed: int) -> None:
        self._rules = rules
        self._random = np.random.default_rng(seed)
        self.writer = CatalogueWriter.in_memory(len(rules.start) + 1)
        self.catalogue = CatalogueReader.of(self.writer)
        self.live: I8 = np.zeros(0, np.int64)
        self.version = 1
        self._insert(subscriptions)

    def change(self, count: int) -> None:
        """Replace so many."""
        self.version += 1
        gone = self._random.choice(len(self.live), count, replace=False)
        for row in self.live[gone].tolist():
            self.writer.remove(row, self.version)
        self.live = np.delete(self.live, gone)
        self._insert(count)

    def _insert(self, count: int) -> None:
        first = self.writer.counts().rows
        start = self._rules.start[first : first + count + 1]
        literal = self._rules.literal[start[0] : start[-1]]
        self.writer.append_columns(self._rules._replace(start=start - start[0], literal=literal).columns())
        self.live = np.append(self.live, np.arange(first, first + count))


class Way:
    """One way of building the layouts of a catalogue that changes."""

    def __init__(self, name: str, changing: Changing, sample: EventSample) -> None:
        self.name = name
        self._changing, self._sample = changing, sample
        self._live = LiveTables()
        self._constants = CostConstants()

    def build(self) -> tuple[LayoutArrays, float, float]:
        """Return the next layout, how long it took a processor (ms), and the share that was taken over."""
        changing, live = self._changing, self._live
        started_s = time.thread_time()
        layout = build_layout(
            changing.catalogue,
            changing.writer.counts(),
            changing.version,
            self._sample,
            changing.version,
            configuration=live.configure,
            constants=self._constants,
            last=live.last if self.name == TAKEN_OVER else None,
        )
        took_ms = 1e3 * (time.thread_time() - started_s)
        live.last.settle(layout)
        return layout, took_ms, live.last.taken_over


def check(changing: Changing, rules: Rules, layout: LayoutArrays, events: Events) -> None:
    """Compare a layout's answers with brute force."""
    engine = MatchEngine(changing.catalogue, EMPTY_SCHEMA)
    engine.attach_layout(1, layout)
    found = engine.match(events.raw(), 1, changing.writer.counts())
    is_live = np.zeros(len(rules.start), bool)
    is_live[changing.live] = True
    for event in range(events.size):
        rows = np.sort(found.rows[found.event_offsets[event] : found.event_offsets[event + 1]])
        expected = matching(rules, events.value[event])
        expected = expected[is_live[expected]]
        if not np.array_equal(rows, expected):
            raise WrongAnswer(f"event {event}: {len(rows)} matches, brute force finds {len(expected)}")


def measure(workload: str, subscriptions: int, rounds: int, seed: int = 1) -> list[Figure]:
    """Measure both ways after changes of every size."""
    inserted = (rounds + 1) * sum(CHANGES)
    made = WORKLOADS[workload].make(subscriptions=subscriptions + inserted, seed=seed)
    rules, events = made.rules(), made.events(SAMPLED)
    changing, sample = Changing(rules, subscriptions, seed), EventSample()
    sample.add(events.raw())
    ways = [Way(name, changing, sample) for name in (WHOLE, TAKEN_OVER)]
    figures = []
    for way in ways:  # the first layout, and one from which on nothing more is to be said of the tables
        way.build()
    changing.change(CHANGES[0])
    for count in CHANGES:
        for way in ways:
            way.build()
        took: dict[str, list[float]] = {way.name: [] for way in ways}
        share = 0.0
        for number in range(rounds):
            changing.change(count)
            for way in ways[:: 1 if number % 2 else -1]:
                layout, took_ms, taken_over = way.build()
                took[way.name].append(took_ms)
                share = max(share, taken_over)
                check(changing, rules, layout, events.slice(0, CHECKED))
        key = (seed, workload, subscriptions)
        for name, all_ms in took.items():
            spread = f"{min(all_ms):.0f} to {max(all_ms):.0f}"
            figure = f"build after {count:,} were replaced, {name}"
            figures.append(Figure(figure, float(np.median(all_ms)), "ms of a processor", "", spread, *key))
            sys.stderr.write(f"{figure}: {np.median(all_ms):.0f} ms ({spread})\n")
        figures.append(
            Figure(f"entries taken over after {count:,} were replaced", 100.0 * share, "%", "", "", *key)
        )
    return figures


def main() -> int:
    """Measure and print, or keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", default="W0")
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.workload, arguments.subscriptions, arguments.rounds)
    if arguments.keep:
        write(CSV, figures, keep_others=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
