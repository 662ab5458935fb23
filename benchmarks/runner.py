"""Run one workload: load, check, time interleaved, take the floor, and return one report.

Order of a run: draw, load and build (timed apart), check the kernel's counts by brute force on the first
events and, where known, in total against the frozen number; then everything that is compared takes turns.
What each rival answers is compared with the checked counts in every pass.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.benchmarks.engines.memory_floor import Floor, lines_per_event, work_per_event
from pubsub_cluster.benchmarks.engines.predicates import Unfit
from pubsub_cluster.benchmarks.levels import KernelRun, Loaded, PayloadRun, load
from pubsub_cluster.benchmarks.measure import Run, Timing, WrongAnswer, interleaved, ratio
from pubsub_cluster.benchmarks.rivals import RIVALS, RivalRun, make_rival
from pubsub_cluster.benchmarks.workloads import WORKLOADS, Workload
from pubsub_cluster.benchmarks.workloads.rules import I8, Events, Rules, expected_counts

BATCH = 1_000
SAMPLE_FIRST = 1 << 30  # the tuner's events are others than the timed ones
SAMPLE_EVENTS = 2_048
CHECK_SECONDS = 5.0
CHECKED_MAX = 200
FROZEN = Path(__file__).resolve().parent / "workloads" / "expected.json"
KERNEL, PLAIN, FLOOR = "kernel", "kernel, prefetch off", "floor"
ENGINE, JSON = "engine, columns", "engine, JSON"
JSON_BATCHES = 2


class ClusterShape(NamedTuple):
    """Shards and replicas of the cluster to measure."""

    shards: int = 2
    replicas: int = 1


@dataclass(frozen=True)
class Settings:
    """How to run; None is the workload's usual value.

    Attributes
    ----------
    subscriptions, events : int or None
    seed : int
    passes : int
        Counted turns.
    rivals : tuple of str
        Names in `RIVALS`.
    cluster : ClusterShape or None
        None: no cluster is measured.
    """

    subscriptions: int | None = None
    events: int | None = None
    seed: int = 1
    passes: int = 5
    rivals: tuple[str, ...] = tuple(RIVALS)
    cluster: ClusterShape | None = None


def frozen_matches(workload: Workload, event_count: int) -> int | None:
    """Return the known number of matches of a workload's first events, if it was frozen."""
    known: dict[str, int] = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
    return known.get(frozen_key(workload, event_count))


def frozen_key(workload: Workload, event_count: int) -> str:
    """Return what names the first events of a workload."""
    return f"{workload.name}/{workload.subscriptions}/{workload.seed}/{event_count}"


def batches_of(events: Events) -> list[Events]:
    """Cut events into batches of `BATCH`."""
    return [events.slice(first, first + BATCH) for first in range(0, events.size, BATCH)]


def checked_counts(workload: Workload, rules: Rules, events: Events, run: Run) -> tuple[I8, int]:
    """Return the matches of each event, and how many events brute force has confirmed.

    Raises
    ------
    WrongAnswer
        Brute force or the frozen total says otherwise.
    """
    counts = np.asarray(run.run())
    begin = time.perf_counter()
    checked = 0
    while checked < min(CHECKED_MAX, events.size) and time.perf_counter() - begin < CHECK_SECONDS:
        truth = int(expected_counts(rules, events.slice(checked, checked + 1), 1)[0])
        if counts[checked] != truth:
            raise WrongAnswer(f"event {checked} has {counts[checked]} matches, brute force finds {truth}")
        checked += 1
    frozen = frozen_matches(workload, events.size)
    if frozen is not None and int(counts.sum()) != frozen:
        raise WrongAnswer(f"{int(counts.sum())} matches in all, the frozen number is {frozen}")
    return counts, checked


def run_workload(
    name: str, settings: Settings, note: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Run a workload at kernel and engine level against its rivals; return the report.

    Parameters
    ----------
    name : str
        In `WORKLOADS`.
    settings : Settings
    note : callable
        Takes lines about progress.

    Raises
    ------
    WrongAnswer
        Somebody's answer was wrong; nothing is reported then.
    """
    entry = WORKLOADS[name]
    workload = entry.make(subscriptions=settings.subscriptions or entry.subscriptions, seed=settings.seed)
    note(f"drawing {workload.subscriptions:,} subscriptions of {name}")
    rules, events = workload.rules(), workload.events(settings.events or entry.events)
    sample = workload.events(SAMPLE_EVENTS, first=SAMPLE_FIRST)
    note("loading and building")
    loaded = load(rules, sample)
    kernel = KernelRun(loaded, batches_of(events))
    begin = time.perf_counter()
    counts, checked = checked_counts(workload, rules, events, kernel)
    note(f"{checked} events checked by brute force in {time.perf_counter() - begin:.1f} s")
    work = work_per_event(kernel.observe())
    lines = lines_per_event(work)
    runs: dict[str, Run] = {
        KERNEL: kernel,
        PLAIN: kernel.without_prefetch(),
        ENGINE: PayloadRun(loaded, batches_of(events), "columns"),
        JSON: PayloadRun(loaded, batches_of(events)[:JSON_BATCHES], "json"),
        FLOOR: Floor(loaded.index_bytes, lines, events.size),
    }
    expected: dict[str, I8] = dict.fromkeys(runs, counts)
    expected[FLOOR] = np.zeros(events.size, np.int64)
    expected[JSON] = counts[: JSON_BATCHES * BATCH]
    skipped = _add_rivals(runs, expected, (rules, sample, events, counts), settings, note)
    note("timing " + ", ".join(runs))
    timings = interleaved(runs, expected, settings.passes)
    report = _report(workload, loaded, timings, {"work": work, "lines": lines, "checked": checked})
    report["skipped"] = skipped
    report["frozen"] = frozen_matches(workload, events.size) is not None
    smaller = [rival for rival in settings.rivals if RIVALS[rival].subscriptions_max < workload.subscriptions]
    for rival in smaller:
        report["ratios_at"].update(_smaller(rival, rules, sample, events, settings, note, skipped))
    if settings.cluster is not None:
        from pubsub_cluster.benchmarks.cluster_level import run_cluster

        shards, replicas = settings.cluster
        found = run_cluster(
            rules,
            batches_of(events),
            kernel,
            counts,
            shards=shards,
            replicas=replicas,
            passes=settings.passes,
            note=note,
        )
        report["cluster"] = found
        report["bytes_per_subscription"] = found["bytes_per_subscription"]
        report["bytes_are_of"] = "all processes and segments, minus an empty cluster's"
    return report


def _add_rivals(
    runs: dict[str, Run],
    expected: dict[str, I8],
    material: tuple[Rules, Events, Events, I8],
    settings: Settings,
    note: Callable[[str], None],
) -> dict[str, str]:
    """Add the rivals that take all subscriptions; return why others do not run."""
    rules, sample, events, counts = material
    skipped: dict[str, str] = {}
    for rival in settings.rivals:
        if rules.size > RIVALS[rival].subscriptions_max:
            continue
        note(f"building {rival}")
        try:
            run = make_rival(rival, rules, sample, events)
        except Unfit as reason:
            skipped[rival] = str(reason)
            continue
        runs[rival], expected[rival] = run, counts[: run.event_count]
    return skipped


def _smaller(
    rival: str,
    rules: Rules,
    sample: Events,
    events: Events,
    settings: Settings,
    note: Callable[[str], None],
    skipped: dict[str, str],
) -> dict[str, Any]:
    """Compare with a rival on as many subscriptions as it takes."""
    part = rules.subset(RIVALS[rival].subscriptions_max)
    note(f"{rival}: {part.size:,} subscriptions")
    try:
        other: RivalRun = make_rival(rival, part, sample, events)
    except Unfit as reason:
        skipped[rival] = str(reason)
        return {}
    ours = KernelRun(load(part, sample), batches_of(events))
    counts = np.asarray(ours.run())
    truth = {KERNEL: counts, rival: counts[: other.event_count]}
    timings = interleaved({KERNEL: ours, rival: other}, truth, min(settings.passes, 3))
    found = ratio(timings[KERNEL], timings[rival])
    return {
        rival: {
            "subscriptions": part.size,
            "us_per_event": timings[rival].best,
            "kernel_us_per_event": timings[KERNEL].best,
            "ratio": found[0],
            "spread": found[1:],
        }
    }


def _report(
    workload: Workload, loaded: Loaded, timings: Mapping[str, Timing], facts: Mapping[str, Any]
) -> dict[str, Any]:
    kernel = timings[KERNEL]
    others = [name for name in timings if name not in (KERNEL, FLOOR)]
    ratios = {name: ratio(kernel, timings[name]) for name in others}
    floor = ratio(timings[FLOOR], kernel)
    index = loaded.index_bytes / max(workload.subscriptions, 1)
    return {
        "workload": workload.name,
        "subscriptions": workload.subscriptions,
        "seed": workload.seed,
        "events": kernel.events,
        "matches": kernel.matches,
        "us_per_event": kernel.best,
        "us_per_event_spread": kernel.spread,
        "events_per_second": 1e6 / kernel.best,
        "engine_us_per_event": timings[ENGINE].best,
        "engine_us_per_event_spread": timings[ENGINE].spread,
        "json_us_per_event": timings[JSON].best,
        "bytes_per_subscription": index,
        "bytes_are_of": "index",
        "index_bytes_per_subscription": index,
        "index_bytes": loaded.index_bytes,
        "build_s": loaded.build_s,
        "build_peak_ratio": loaded.build_peak_bytes and loaded.build_peak_bytes / loaded.index_bytes,
        "load_s": loaded.load_s,
        "floor_us_per_event": timings[FLOOR].best,
        "floor_lines_per_event": facts["lines"],
        "floor_ratio": floor[0],
        "floor_ratio_spread": floor[1:],
        "work_per_event": facts["work"],
        "ratios": {name: found[0] for name, found in ratios.items()},
        "ratio_spreads": {name: found[1:] for name, found in ratios.items()},
        "us_per_event_of": {name: timings[name].best for name in others},
        "ratios_at": {},
        "checked_by_brute_force": facts["checked"],
        "verified": True,
    }
