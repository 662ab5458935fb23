"""Bulk matching on Spark against bare engines: W0's events in Parquet files, matches to Parquet files.

    python -m pubsub_cluster.benchmarks.pipeline --work FOLDER [--subscriptions 1000000] [--keep]

The layout and the events are made once and kept in the folder. Bare engines, in as many processes as there
are cores, match encoded batches; then Spark matches the files, and the same events as a DataFrame, in turns.
Every job's number of matches is compared with that of one engine over all events, and that engine with brute
force on the first events. The session's start is not timed; what a first task costs is told apart.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from pubsub_cluster.benchmarks.bare_engines import BareEngines
from pubsub_cluster.benchmarks.first_task import first_task_s
from pubsub_cluster.benchmarks.levels import load
from pubsub_cluster.benchmarks.measure import WrongAnswer
from pubsub_cluster.benchmarks.pipeline_statistics import check, write_events
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads import WORKLOADS, Workload
from pubsub_cluster.benchmarks.workloads.rules import I8, expected_counts
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.pipeline.match import match_events, match_files
from pubsub_cluster.pipeline.results import write_result
from pubsub_cluster.pipeline.session import local_session
from pubsub_cluster.pipeline.statistics import count_files
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_packed import pack_catalogue
from pubsub_cluster.shm.layout_folder import (
    LayoutGeneration,
    begin_generation,
    open_folder,
    publish_generation,
    write_part,
)
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.statistics import EventSample

CSV = "pipeline"
EVENTS, BARE_EVENTS, SAMPLE_EVENTS, CHECKED = 5_000_000, 500_000, 2_048, 20
CORES, PASSES, SEED, GENERATION = 2, 3, 1, 1
TINY, STEP = 1_000, 1 << 16
GROWTH_EVENTS = (500_000, 1_000_000, 2_000_000, EVENTS)
GROWTH_TASKS = (2, 4, 10, 20, 40)
NOW_US = 0


def write_layout(folder: Path, workload: Workload) -> Path:
    """Build the layout of a workload in one part, unless it is there; return its folder."""
    done = folder / f"layout-{workload.name}-{workload.subscriptions}"
    if done.exists():
        return done
    rules = workload.rules()
    writer = CatalogueWriter.in_memory(rules.size)
    writer.append_columns(rules.columns())
    packed = pack_catalogue(CatalogueReader.of(writer).columns, writer.counts(), 1)
    part = folder / f"{done.name}.part"
    generation, place = begin_generation(part)
    layout = build_layout(CatalogueReader.over(packed), packed.counts, 1, sample_of(workload), 1)
    facts = write_part(place / "part-00000.packed", packed, layout)
    publish_generation(part, LayoutGeneration(place, generation, EMPTY_SCHEMA, (facts,), {}))
    return part.rename(done)


def sample_of(workload: Workload) -> EventSample:
    """Return what the tuner sees: events that are never matched."""
    sample, step = EventSample(), 128
    events = workload.events(SAMPLE_EVENTS, first=1 << 30)
    for first in range(0, SAMPLE_EVENTS, step):
        sample.add(events.slice(first, first + step).raw())
    return sample


def mapped_share(path: Path, size_bytes: int) -> tuple[float, int]:
    """Return a mapped file's proportional memory over all processes as a share of it, and how many map it."""
    total, users = 0, 0
    for process in psutil.process_iter():
        try:
            text = Path(f"/proc/{process.pid}/smaps").read_text()
        except OSError:
            continue
        found = re.findall(re.escape(str(path)) + r"\n(?:\w+: +\d+ kB\n)*?Pss: +(\d+) kB", text)
        users += bool(found)
        total += sum(map(int, found)) << 10
    return total / size_bytes, users


class Jobs:
    """What is timed, each with its answer checked."""

    def __init__(self, session: Any, work: Path, layout: Path, expected: I8) -> None:
        self._session, self._work, self._layout, self._expected = session, work, layout, expected

    def files(self, events: int, tasks: int | None = None) -> float:
        """Return the seconds of matching files into files."""
        folder = str(write_events(self._work, events))
        return self._timed(
            lambda: match_files(self._session, [folder], self._layout, at_us=NOW_US, tasks=tasks), events
        )

    def frame(self, events: int) -> float:
        """Return the seconds of matching a DataFrame, read from files, into files."""
        folder = str(write_events(self._work, events))
        return self._timed(
            lambda: match_events(self._session.read.parquet(folder), self._layout, at_us=NOW_US), events
        )

    def _timed(self, job: Callable[[], Any], events: int) -> float:
        begin_s = time.perf_counter()
        summary = write_result(job(), self._work / "matches")
        elapsed_s = time.perf_counter() - begin_s
        if summary["matches"] != self._expected[events] or summary["rejects"]:
            raise WrongAnswer(f"{summary} instead of {self._expected[events]} matches")
        return elapsed_s


def expected_matches(workload: Workload, events: int) -> I8:
    """Return how many matches the first so many events have (int64[events + 1]), from one engine.

    Brute force on the first events stands behind it.
    """
    loaded = load(workload.rules(), workload.events(SAMPLE_EVENTS, first=1 << 30))
    brute = expected_counts(workload.rules(), workload.events(CHECKED), CHECKED)
    counts = np.zeros(events + 1, np.int64)
    for first in range(0, events, STEP):
        batch = workload.events(min(STEP, events - first), first)
        result = loaded.engine.match(batch.raw(), GENERATION, loaded.counts)
        counts[first + 1 : first + 1 + batch.size] = np.diff(result.event_offsets)
    if counts[1 : CHECKED + 1].tolist() != brute.tolist():
        raise WrongAnswer("the engine and brute force differ")
    return np.cumsum(counts)


def measure(work: Path, subscriptions: int, event_count: int, cores: int) -> list[Figure]:
    """Measure everything; return the figures."""
    workload = WORKLOADS["W0"].make(subscriptions=subscriptions, seed=SEED)
    layout = write_layout(work, workload)
    for count in (TINY, *GROWTH_EVENTS, event_count):
        write_events(work, count)
    expected = expected_matches(workload, max(event_count, *GROWTH_EVENTS))
    engines = BareEngines(layout, workload, BARE_EVENTS, cores)
    begin_s = time.perf_counter()
    session = local_session(cores)
    session.range(1).count()
    found = [Figure("session start", time.perf_counter() - begin_s, "s")]
    try:
        jobs = Jobs(session, work, layout, expected)
        first_s = jobs.files(TINY, 1)
        again_s = min(jobs.files(TINY, 1) for _ in range(PASSES))
        found.append(Figure("first job of a session, beyond what the next one takes", first_s - again_s, "s"))
        found.append(Figure("smallest job", again_s, "s"))
        tiny = next(write_events(work, TINY).glob("*.parquet"))
        starts = [first_task_s(layout, tiny) for _ in range(PASSES)]
        spread = f"{min(starts):.3g} to {max(starts):.3g}"
        name = "first task of a worker: imports, map, kernels from the cache"
        found.append(Figure(name, statistics.median(starts), "s", "<= 3", spread))
        rates: dict[str, list[float]] = {"bare": [], "files": [], "DataFrame": []}
        for turn in range(PASSES + 1):
            timed = {
                "bare": engines.events_per_second()[0],
                "files": event_count / jobs.files(event_count),
                "DataFrame": event_count / jobs.frame(event_count),
            }
            for name, rate in timed.items() if turn else ():
                rates[name].append(rate)
        engines.close()
        found += rate_figures(rates, event_count, subscriptions)
        part = open_folder(layout).paths[0]
        share, users = mapped_share(part, part.stat().st_size)
        title = f"layout's memory in {users} processes / its size"
        found.append(Figure(title, share, "PSS", "<= 1.2" if subscriptions >= 1_000_000 else ""))
        per_row = part.stat().st_size / subscriptions
        found.append(Figure("layout file, bytes per subscription", per_row, "bytes"))
        found += growth(jobs, event_count)
        begin_s = time.perf_counter()
        counted = count_files(session, [str(write_events(work, event_count))])
        seconds = time.perf_counter() - begin_s
        check(counted, event_count)
        found.append(Figure("statistics", seconds, "s", "<= 20" if event_count >= EVENTS else ""))
    finally:
        engines.close()
        session.stop()
    return [one._replace(seed=SEED, workload="W0", subscriptions=subscriptions) for one in found]


def rate_figures(rates: dict[str, list[float]], event_count: int, subscriptions: int) -> list[Figure]:
    """Return rates, and shares taken within each turn."""
    is_whole = event_count >= EVENTS and subscriptions >= 1_000_000
    found = []
    for name, title, target in (
        ("bare", "bare engines", ""),
        ("files", "Parquet to Parquet", ">= 0.6"),
        ("DataFrame", "DataFrame to Parquet", ">= 0.25"),
    ):
        mine = rates[name]
        spread = f"{min(mine):.4g} to {max(mine):.4g}"
        found.append(
            Figure(f"{title}, {event_count:,} events", statistics.median(mine), "events/s", "", spread)
        )
        if target:
            shares = [one / bare for one, bare in zip(mine, rates["bare"], strict=True)]
            spread = f"{min(shares):.3g} to {max(shares):.3g}"
            share = statistics.median(shares)
            found.append(
                Figure(f"{title}, share of bare engines", share, "", target if is_whole else "", spread)
            )
    return found


def growth(jobs: Jobs, event_count: int) -> list[Figure]:
    """Return how long files take by number of events, and all of them by number of tasks."""
    by_events = [Figure(f"files by events, {count}", jobs.files(count), "s") for count in GROWTH_EVENTS]
    by_tasks = [
        Figure(f"files by tasks, {tasks}", jobs.files(event_count, tasks), "s") for tasks in GROWTH_TASKS
    ]
    return by_events + by_tasks


def main() -> int:
    """Measure and print, or keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True, help="Folder for layout, events and matches.")
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--cores", type=int, default=CORES)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    figures = measure(options.work, options.subscriptions, options.events, options.cores)
    if options.keep:
        write(CSV, figures)
    for one in figures:
        sys.stdout.write(f"{one.figure:<56}{one.value:>14,.4g} {one.unit:<9}{one.target:<9}{one.spread}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
