"""HTREE figures 12 to 14: insertion and deletion. Inserted ranges are two doubles, as in the paper.

Subscriptions are inserted in lots, so that all three copy their content at the speed of memory; what H-Tree
and Tama do besides is their index.
"""

from __future__ import annotations

import itertools
import time
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pubsub_cluster.algorithms.htree import h_tree_kernels
from pubsub_cluster.algorithms.htree.h_tree import HTreeCore
from pubsub_cluster.algorithms.htree.plan import Plan
from pubsub_cluster.algorithms.htree.ranges import Ranges
from pubsub_cluster.algorithms.htree.simple import SimpleCore
from pubsub_cluster.algorithms.htree.tama import TamaCore
from pubsub_cluster.benchmarks.reproductions.htree.measure import (
    CELLS,
    LEVELS,
    Load,
    Subject,
    at_size,
    axes,
    line_of,
    of,
    timed,
)
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.workloads.htree import RESOLUTION
from pubsub_cluster.benchmarks.workloads.htree_ranges import RangeWorkload

MILLION = 1_000_000
INSERTED: dict[Scale, int] = {"small": 10_000, "paper": 100_000}
RANDOM_INSERTED: dict[Scale, int] = {"small": 5_000, "paper": MILLION}
DELETED_FROM: dict[Scale, int] = {"small": 50_000, "paper": MILLION}
RUNS = 10
LOTS = 10
DELETED, SETS = 1_000, 3
DELETE_LEVELS = (2, 4, 6, 8)
DELETE_CELLS = 10
ANY_COPIES = 1 << 16
NAMES = ("Simple", "Tama", "H-Tree")
DOMAIN = (0.0, float(RESOLUTION))
Core: TypeAlias = SimpleCore | TamaCore | HTreeCore


def doubles(ranges: Ranges) -> Ranges:
    """Return ranges whose ends are doubles."""
    return ranges._replace(lo=ranges.lo.astype(np.float64), hi=ranges.hi.astype(np.float64))


def _cores() -> dict[str, Core]:
    """Return empty ones."""
    plan = Plan(axes(range(LEVELS)), CELLS, ANY_COPIES)
    return {"Simple": SimpleCore(), "Tama": TamaCore(DOMAIN), "H-Tree": HTreeCore(plan)}


def _lots(ranges: Ranges) -> list[Ranges]:
    bounds = np.linspace(0, ranges.rows, LOTS + 1).astype(np.int64).tolist()
    found = []
    for first, stop in itertools.pairwise(bounds):
        used = slice(int(ranges.stops[first]), int(ranges.stops[stop]))
        stops = ranges.stops[first : stop + 1] - ranges.stops[first]
        found.append(Ranges(stops, ranges.attribute[used], ranges.lo[used], ranges.hi[used]))
    return found


def insertion_us(core: Core, lots: list[Ranges]) -> float:
    """Return the time per subscription to fill an empty core."""
    core.build(lots[0].first(0))
    if not isinstance(core, SimpleCore):
        core.lists.heads[:] = 0  # in memory from now on, as those of a matcher that has been in use
    begin = time.perf_counter()
    for lot in lots:
        core.insert(lot)
    return 1e6 * (time.perf_counter() - begin) / sum(lot.rows for lot in lots)


def _insertions(workload: RangeWorkload) -> dict[str, list[float]]:
    """Return microseconds per insertion of each run, in turns, without the first run, which compiles."""
    lots = _lots(doubles(workload.ranges()))
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for run in range(RUNS + 1):
        for name, core in _cores().items():
            took = insertion_us(core, lots)
            if run:
                times[name].append(took)
    return times


def _insertion_lines(workload: RangeWorkload, times: dict[str, list[float]]) -> list[dict[str, Any]]:
    return [
        line_of(workload, name, run=run, **_insertion_of(took))
        for name, mine in times.items()
        for run, took in enumerate(mine)
    ]


def _insertion_of(took: float) -> dict[str, Any]:
    return {"us per insertion": took}


def run_insertion(scale: Scale, note: Note) -> Outcome:
    """Figure 12: narrow subscriptions."""
    workload = RangeWorkload(INSERTED[scale])
    times = _insertions(workload)
    middle = {name: float(np.median(mine)) for name, mine in times.items()}
    tree, tama = middle["H-Tree"] / middle["Simple"], middle["Tama"] / middle["Simple"]
    verdict = decided(
        "HTREE-32",
        tree <= 1.15 and 1.4 <= tama <= 4,
        f"median of {RUNS} runs: {middle['Simple']:.2f} us for Simple; H-Tree / Simple = {tree:.2f}, "
        f"Tama / Simple = {tama:.1f}",
        "content is copied in lots at the speed of memory, so the index shows: for H-Tree a bucket "
        "somewhere in "
        "134 MB, for Tama about 190 lists a subscription",
    )
    lines = _insertion_lines(workload, times)
    note(f"figure 12: {workload.subscriptions:,} insertions, {RUNS} runs")
    return Outcome(lines, [verdict], partial(_draw_insertion, lines, "fixed widths (HTREE figure 12)"))


def _draw_insertion(lines: list[dict[str, Any]], title: str, path: Path) -> None:
    size = lines[0]["subscriptions"]
    pyplot, figure, plots = canvas(1, 1, f"Insertion of {size:,}, {title}")
    for name in NAMES:
        mine = [line for line in of(lines, name) if line["run"] != ""]
        plots[0, 0].plot(
            [line["run"] for line in mine],
            [line["us per insertion"] for line in mine],
            marker="o",
            label=name,
        )
    plots[0, 0].set(xlabel="run (number)", ylabel="time per insertion (µs)", yscale="log")
    plots[0, 0].legend(fontsize="small")
    save(pyplot, figure, path)


def run_random_widths(scale: Scale, note: Note) -> Outcome:
    """Figure 13: subscriptions whose ranges have both ends drawn."""
    small = RangeWorkload(INSERTED[scale] // 10, is_random_width=True)
    times = _insertions(small)
    lines = _insertion_lines(small, times)
    note(f"figure 13: {small.subscriptions:,} insertions, {RUNS} runs")
    workload = RangeWorkload(RANDOM_INSERTED[scale], is_random_width=True)
    ranges = doubles(workload.ranges())
    lots = _lots(ranges)
    cores = _cores()
    del cores["Tama"]
    took = {name: insertion_us(core, lots) for name, core in cores.items()}
    lines += [line_of(workload, name, run="", **_insertion_of(one)) for name, one in took.items()]
    subjects = {name: Subject(core, np.arange(ranges.rows), 0.0) for name, core in cores.items()}
    values = workload.events(20, 20).astype(np.float64)
    timings = timed(subjects, values, Load(20, 20, 2), ranges)
    tree = subjects["H-Tree"].core
    assert isinstance(tree, HTreeCore)
    copies = int(tree.lists.heads[:, 1].sum(dtype=np.int64)) / ranges.rows
    note(f"figure 13: {ranges.rows:,} insertions, {copies:.0f} copies each")
    spread = {name: float(np.std(mine) / np.mean(mine)) for name, mine in times.items()}
    slower, faster = took["H-Tree"] / took["Simple"], timings["Simple"].us / timings["H-Tree"].us
    verdict = at_size(
        "HTREE-33",
        ranges.rows,
        MILLION,
        slower <= 2 and faster >= 2 and max(spread, key=lambda name: spread[name]) == "Tama",
        f"insertion H-Tree / Simple = {slower:.1f}; matching Simple / H-Tree = {faster:.2f}; "
        f"{copies:.0f} copies; "
        "sd / mean of runs " + ", ".join(f"{name} {one:.3f}" for name, one in spread.items()),
        "ranges of any width have about three pieces on each indexed attribute, and their product is "
        "stored and "
        "searched",
    )
    return Outcome(lines, [verdict], partial(_draw_insertion, lines[:-2], "random widths (HTREE figure 13)"))


def run_deletion(scale: Scale, note: Note) -> Outcome:
    """Figure 14: a thousand deletions, by the number of indexed attributes."""
    workload = RangeWorkload(DELETED_FROM[scale], 100, 30, 0.05)
    ranges = workload.ranges()
    gone = np.random.default_rng(14).permutation(ranges.rows)[: SETS * DELETED].reshape(SETS, DELETED)
    lines = []
    is_bounded = True
    for levels in DELETE_LEVELS:
        core = HTreeCore(Plan(axes(range(levels)), DELETE_CELLS))
        core.build(ranges)
        bound = _bucket_sizes(core, gone)
        line = _deletion_line(workload, "H-Tree", core, gone, levels)
        is_bounded &= line["compared per deletion"] <= bound
        lines.append(line | {"bucket size": bound})
        del core
        note(f"figure 14: l = {levels}")
    tama = TamaCore(DOMAIN)
    tama.build(ranges)
    lines.append(_deletion_line(workload, "Tama", tama, gone, "") | {"bucket size": ""})
    note("figure 14: Tama")
    return Outcome(lines, _deletion_verdicts(lines, is_bounded, ranges.rows), partial(_draw_deletion, lines))


def _bucket_sizes(core: HTreeCore, gone: Any) -> float:
    """Return the mean length of the lists in which rows stand, before they are deleted."""
    rows = np.sort(gone.reshape(-1))
    bucket = np.empty(len(rows), np.int64)
    levels = len(core.plan.axes)
    work = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    h_tree_kernels.first_buckets(tuple(core.store.columns.taken(rows)), tuple(core.index), work, bucket)
    return float(core.lists.heads[bucket, 1].mean())


def _deletion_line(
    workload: RangeWorkload, name: str, core: HTreeCore | TamaCore, gone: Any, levels: Any
) -> dict[str, Any]:
    """Delete sets of rows; the fastest one counts. Another row goes first, which compiles."""
    others = np.setdiff1d(np.arange(core.store.rows), gone)[:1]
    core.delete(others)
    core.compared = 0
    took = []
    for rows in gone:
        begin = time.perf_counter()
        core.delete(rows)
        took.append(1e6 * (time.perf_counter() - begin) / len(rows))
    compared = core.compared / gone.size
    return line_of(
        workload,
        name,
        **{"indexed attributes": levels, "us per deletion": min(took), "compared per deletion": compared},
    )


def _deletion_verdicts(lines: list[dict[str, Any]], is_bounded: bool, size: int) -> list[Verdict]:
    trees = of(lines, "H-Tree")
    times = [line["us per deletion"] for line in trees]
    compared = [line["compared per deletion"] for line in trees]
    tama = lines[-1]["us per deletion"]
    below = next((line["indexed attributes"] for line in trees if line["us per deletion"] < tama), None)
    shown = ", ".join(f"{one:.2f}" for one in times)
    counted = ", ".join(f"{one:.1f}" for one in compared)
    steps = (compared[-1] / compared[0]) ** (1 / (DELETE_LEVELS[-1] - DELETE_LEVELS[0]))
    return [
        at_size(
            "HTREE-34",
            size,
            MILLION,
            all(a > b for a, b in itertools.pairwise(times)) and below is not None,
            f"l = {', '.join(map(str, DELETE_LEVELS))}: {shown} us, compared {counted}; Tama {tama:.1f} us, "
            f"compared {lines[-1]['compared per deletion']:.0f}; below Tama from l = {below}",
            "where buckets are short, what is left is the way to one of 10^l of them",
        ),
        decided(
            "HTREE-35",
            is_bounded,
            f"a row has one cell on each of l attributes, found once; compared per deletion {counted}, "
            "at most "
            f"the buckets' lengths; {steps:.2f} of it is left per level, not 0.1",
            "rows are compared outside their bucket",
        ),
    ]


def _draw_deletion(lines: list[dict[str, Any]], path: Path) -> None:
    size = lines[0]["subscriptions"]
    title = f"Deletion: n = {size:,}, m = 100, k = 30, w = 0.05, c = 10 (HTREE figure 14)"
    pyplot, figure, plots = canvas(1, 2, title)
    mine = of(lines, "H-Tree")
    for plot, key in zip(plots.flat, ("us per deletion", "compared per deletion"), strict=True):
        levels = [line["indexed attributes"] for line in mine]
        plot.plot(levels, [line[key] for line in mine], marker="o", label="H-Tree")
        plot.axhline(lines[-1][key], linestyle="--", color="C1", label="Tama")
        plot.set(xlabel="indexed attributes (number)", yscale="log")
        plot.legend(fontsize="small")
    plots[0, 0].set(ylabel="time per deletion (µs)")
    plots[0, 1].set(ylabel="numbers compared per deletion")
    save(pyplot, figure, path)
