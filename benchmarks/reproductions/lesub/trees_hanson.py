"""LESUB-12 to LESUB-14: Hanson's matcher: candidates, the wrong choice of what to index, and insertion.

The paper draws no figure of it; sizes are ours. Insertion is measured on intervals of one attribute, all ends
of which differ.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions, Core
from pubsub_cluster.algorithms.lesub.equality_clusters import conjunctions_at
from pubsub_cluster.algorithms.lesub.hanson import Hanson
from pubsub_cluster.benchmarks.reproductions.fits import log_slope
from pubsub_cluster.benchmarks.reproductions.lesub.trees_measures import match_times
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.workloads.lesub import LeSubscribe

SIZES: dict[Scale, tuple[int, ...]] = {
    "small": (1_000, 10_000, 100_000),
    "paper": (1_000, 10_000, 100_000, 1_000_000),
}
CLAIMED_INTERVALS = 1_000_000
BATCH, BATCHES = 500, 9
EVENTS, PASSES = 40, 3
KINDS = ("most selective", "least selective")
Line = dict[str, Any]


def run(scale: Scale, note: Note) -> Outcome:
    """Match, insert, decide, draw."""
    lines: list[Line] = []
    for size in SIZES[scale]:
        note(f"Hanson's trees: {size} subscriptions")
        lines += searches(size)
    for size in SIZES[scale]:
        note(f"Hanson's trees: insertion into {size} intervals")
        lines.append(insertions(size))
    return Outcome(lines, decide(lines), lambda path: draw(lines, path))


def line(about: str, index: str, count: int, **measured: float) -> Line:
    """Return a line of the CSV; what was not measured is empty."""
    names = (
        "predicates per subscription",
        "us per event",
        "keys compared per event",
        "log2 of keys per event",
        "candidates per event",
        "evaluations per event",
        "matches per event",
        "insert us",
        "marks per interval",
    )
    assert measured.keys() <= set(names)
    described = {"part": about, "index": index, "subscriptions": count}
    return {**described, **dict.fromkeys(names, ""), **measured}


def searches(size: int) -> list[Line]:
    """Match with the most and with the least selective predicate indexed."""
    workload = LeSubscribe(size)
    catalogue, values = workload.conjunctions(), workload.events(EVENTS)
    most, least = Hanson("most selective"), Hanson("least selective")
    cores: dict[str, Core] = dict(zip(KINDS, (most, least), strict=True))
    for core in cores.values():
        core.build(catalogue)
    times, matches = match_times(cores, catalogue, values, PASSES)
    lines = []
    for index, core in zip(KINDS, (most, least), strict=True):
        compared, candidates, evaluated = core.work.mean(axis=0).tolist()
        # A balanced tree of n keys has log2(n + 1) levels at least.
        is_searched = ~np.isnan(values[:, core.attributes])
        allowed = float((is_searched * np.log2(core.key_counts + 1)).sum(axis=1).mean())
        lines.append(
            line(
                "search",
                index,
                size,
                **{
                    "predicates per subscription": len(catalogue.attribute) / size,
                    "us per event": times[index],
                    "keys compared per event": compared,
                    "log2 of keys per event": allowed,
                    "candidates per event": candidates,
                    "evaluations per event": evaluated,
                    "matches per event": matches,
                },
            )
        )
    return lines


def intervals(count: int) -> Conjunctions:
    """Return ``lo <= value <= hi`` with random ends."""
    random = np.random.default_rng(14)
    lo = random.uniform(0, 1, count)
    hi = lo + random.uniform(0, 0.1, count)
    return Conjunctions(
        np.arange(count, dtype=np.int64),
        np.arange(0, 2 * count + 1, 2, dtype=np.int64),
        np.zeros(2 * count, np.int32),
        np.tile(np.array([Comparison.GE, Comparison.LE], np.int8), count),
        np.stack((lo, hi), axis=1).reshape(-1),
    )


def insertions(size: int) -> Line:
    """Insert batches of intervals, one call a batch, into a tree that has some."""
    everything, core = intervals(size + BATCH * BATCHES), Hanson()
    core.build(conjunctions_at(everything, everything.owner < size))
    found = []
    for at in range(BATCHES):
        more = conjunctions_at(everything, (everything.owner - size) // BATCH == at)
        begin = time.perf_counter()
        core.insert(more)
        found.append(1e6 * (time.perf_counter() - begin) / BATCH)
    values = np.random.default_rng(15).uniform(0, 1, (EVENTS, 1))
    event, _ = core.match(values)
    lo, hi = everything.constant.reshape(-1, 2).T
    assert len(event) == sum(int(((lo <= value) & (value <= hi)).sum()) for value in values[:, 0])
    measured = {"insert us": statistics.median(found), "marks per interval": core.mark_count / len(lo)}
    return line("insertion", "most selective", size, **measured)


def decide(lines: list[Line]) -> list[Verdict]:
    """Decide LESUB-12 to LESUB-14."""
    most, least = ([o for o in lines if o["part"] == "search" and o["index"] == kind] for kind in KINDS)
    is_cheap = all(
        one["evaluations per event"] <= one["candidates per event"] * (one["predicates per subscription"] - 1)
        for one in most
    )
    is_short = all(one["keys compared per event"] <= one["log2 of keys per event"] for one in most)
    last, worst = most[-1], least[-1]
    ratio = worst["us per event"] / last["us per event"]
    inserted = [one for one in lines if one["part"] == "insertion"]
    sizes, times = ([one[name] for one in inserted] for name in ("subscriptions", "insert us"))
    exponent = log_slope(sizes, times)
    marks = [one["marks per interval"] for one in inserted]
    ours = (
        f"{', '.join(f'{t:.2f}' for t in times)} us an insertion at {sizes[0]} to {sizes[-1]} intervals: "
        f"slope {exponent:.2f}; {marks[0]:.0f} to {marks[-1]:.0f} marks each"
    )
    small = f"the claim goes to {CLAIMED_INTERVALS} intervals, and these are fewer"
    fails = "the marks of an interval grow with log2 n, and each is a cache miss once they no longer fit"
    return [
        decided(
            "LESUB-12",
            is_cheap and is_short,
            f"at {last['subscriptions']} subscriptions {last['evaluations per event']:.0f} evaluations for "
            f"{last['candidates per event']:.0f} candidates of {last['predicates per subscription']:.1f} "
            f"predicates each; {last['keys compared per event']:.1f} keys compared per event, log2 of the "
            f"trees' keys is {last['log2 of keys per event']:.1f}",
            "see the counts",
        ),
        decided(
            "LESUB-13",
            ratio >= 3,
            f"{worst['us per event']:.0f} / {last['us per event']:.0f} us = {ratio:.1f} at "
            f"{last['subscriptions']} subscriptions, with {worst['candidates per event']:.0f} and "
            f"{last['candidates per event']:.0f} candidates per event",
            "candidates of the most selective predicate cost more each",
        ),
        Verdict("LESUB-14", "not decided", ours, small)
        if sizes[-1] < CLAIMED_INTERVALS
        else decided("LESUB-14", exponent < 0.3, ours, fails),
    ]


def draw(lines: list[Line], path: Path) -> None:
    """Draw time, candidates and insertion against sizes."""
    pyplot, figure, axes = canvas(1, 3, "LESUB: Hanson's matcher")
    for index in KINDS:
        mine = [one for one in lines if one["part"] == "search" and one["index"] == index]
        sizes = [one["subscriptions"] for one in mine]
        for axis, name in ((axes[0, 0], "us per event"), (axes[0, 1], "candidates per event")):
            axis.plot(sizes, [one[name] for one in mine], "o-", label=f"{index} indexed")
    mine = [one for one in lines if one["part"] == "insertion"]
    sizes = [one["subscriptions"] for one in mine]
    for name in ("insert us", "marks per interval"):
        axes[0, 2].plot(sizes, [one[name] for one in mine], "o-", label=name)
    titles = (
        ("search", "subscriptions", "time per event (us)"),
        ("search", "subscriptions", "candidates per event"),
        ("insertion", "intervals that are there", "us, or marks"),
    )
    for axis, (title, across, up) in zip(axes[0], titles, strict=True):
        axis.set(title=title, xlabel=across, ylabel=up, xscale="log", yscale="log")
        axis.legend(fontsize=8)
    axes[0, 2].set_yscale("linear")
    axes[0, 2].set_ylim(bottom=0)
    save(pyplot, figure, path)
