"""How long counting the events of W0 takes on Spark, Parquet files to statistics, the session's start apart.

    python -m pubsub_cluster.benchmarks.pipeline_statistics --work FOLDER [--events 5000000] [--cores 2]

The events are drawn into Parquet files once and kept in the folder. Every count is compared with NumPy's over
the events themselves, drawn anew.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pubsub_cluster.benchmarks.record import Figure
from pubsub_cluster.benchmarks.workloads import WORKLOADS, Workload
from pubsub_cluster.benchmarks.workloads.rules import Domain
from pubsub_cluster.pipeline.session import local_session
from pubsub_cluster.pipeline.statistics import Statistics, count_files

EVENTS, CORES, PASSES, SEED = 5_000_000, 2, 3, 1
FILE_EVENTS, GROUP_EVENTS = 1 << 19, 1 << 17
TARGET = "<= 20"


def workload() -> Workload:
    """Return W0; its events do not depend on the number of subscriptions."""
    return WORKLOADS["W0"].make(subscriptions=1, seed=SEED)


def write_events(folder: Path, count: int) -> Path:
    """Draw W0's events into Parquet files, unless they are there; return their folder."""
    done = folder / f"w0-{count}"
    if done.exists():
        return done
    part = folder / f"w0-{count}.part"
    part.mkdir(parents=True, exist_ok=True)
    for first in range(0, count, FILE_EVENTS):
        size = min(FILE_EVENTS, count - first)
        value = workload().events(size, first).value
        columns = {"event_id": np.arange(first, first + size)}
        columns |= {one.name: np.ascontiguousarray(value[:, at]) for at, one in enumerate(domains())}
        pq.write_table(
            pa.table(columns), part / f"{first // FILE_EVENTS:05}.parquet", row_group_size=GROUP_EVENTS
        )
    return part.rename(done)


def domains() -> tuple[Domain, ...]:
    """Return W0's attributes."""
    return workload().events(1).domains


def check(found: Statistics, count: int) -> None:
    """Compare every count with NumPy's."""
    frequencies = found.frequencies
    assert frequencies.event_count == count and not found.rejects
    names = [one.name for one in domains()]
    assert sorted(names) == sorted(frequencies.attributes)
    top = 64
    times = np.zeros((len(names), top), np.int64)
    for first in range(0, count, FILE_EVENTS):
        value = workload().events(min(FILE_EVENTS, count - first), first).value
        for at in range(len(names)):
            times[at] += np.bincount(value[:, at], minlength=top)
    for at, name in enumerate(names):
        mine = frequencies.attributes[name]
        assert mine.is_exact and mine.totals.present == count
        assert mine.numbers.whole.tolist() == np.flatnonzero(times[at]).tolist()
        assert mine.numbers.times.tolist() == times[at][times[at] > 0].tolist()


def measure(work: Path, count: int = EVENTS, cores: int = CORES) -> list[Figure]:
    """Count W0's events a few times; return the figures."""
    folder = write_events(work, count)
    session = local_session(cores)
    try:
        session.range(1).count()
        seconds = []
        for _ in range(PASSES):
            begin_s = time.perf_counter()
            found = count_files(session, [str(folder)])
            seconds.append(time.perf_counter() - begin_s)
    finally:
        session.stop()
    check(found, count)
    first, *later = seconds
    spread = f"{min(later):.3g} to {max(later):.3g}"
    title = f"statistics of {count:,} events"
    target = TARGET if count == EVENTS else ""
    return [
        Figure(f"{title}, first job", first, "s", target, seed=SEED, workload="W0"),
        Figure(title, sorted(later)[len(later) // 2], "s", target, spread, SEED, "W0"),
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True, help="Folder for the events.")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--cores", type=int, default=CORES)
    options = parser.parse_args()
    for figure in measure(options.work, options.events, options.cores):
        sys.stdout.write(f"{figure.figure}: {figure.value:.2f} {figure.unit} {figure.spread}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
