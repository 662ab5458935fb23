"""LESUB-07 to LESUB-11: the trees of Gough and Smith and of Aguilera et al., their nodes and their paths.

The paper draws no figure of them; sizes are ours. Gough and Smith's tree explodes, so its catalogues have
four attributes, most of which a subscription speaks of; it has a million nodes at a thousand subscriptions.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Core
from pubsub_cluster.algorithms.lesub.aguilera import Aguilera
from pubsub_cluster.algorithms.lesub.equality_clusters import conjunctions_at
from pubsub_cluster.algorithms.lesub.fair_predicate import FairPredicate
from pubsub_cluster.algorithms.lesub.gough import Gough
from pubsub_cluster.algorithms.lesub.tree_kernels import descend
from pubsub_cluster.benchmarks.reproductions.fits import log_slope
from pubsub_cluster.benchmarks.reproductions.lesub.trees_measures import (
    interleaved,
    label_sizes,
    match_times,
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
from pubsub_cluster.benchmarks.workloads.lesub import LeSubscribe

GROWTH_SIZES = (125, 250, 500, 1_000)
growing_load = partial(LeSubscribe, strings=2, numbers=2, predicate_probability=0.8)
OPTIONAL_SIZE, OPTIONAL_ATTRIBUTES = 60, (2, 4, 6)
EQUALITY_SIZES: dict[Scale, tuple[int, ...]] = {
    "small": (1_000, 10_000, 100_000),
    "paper": (1_000, 10_000, 100_000, 1_000_000),
}
SHARE_SIZE, EQUALITY_PROBABILITIES = 10_000, (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
EVENTS, MANY_EVENTS, PASSES = 2_000, 300, 7
REPEATED = 20
"""Events whose paths stay in the caches when they come again and again."""
Line = dict[str, Any]
MEASURES = (
    "nodes",
    "bytes",
    "build s",
    "insert s",
    "us per event",
    "path alone us per event",
    "path in caches us per event",
    "levels per event",
    "most levels",
    "comparisons per event",
    "most comparisons",
    "nodes visited per event",
    "paths per event",
    "dead ends per event",
    "matches per event",
)


def line(about: str, matcher: str, workload: LeSubscribe, **measured: Any) -> Line:
    """Return a line of the CSV; what was not measured is empty."""
    share = (1 - workload.equality_probability) * workload.numbers / workload.attributes
    empty = dict.fromkeys(MEASURES, "")
    assert measured.keys() <= empty.keys()
    described = {
        "part": about,
        "matcher": matcher,
        "subscriptions": workload.subscriptions,
        "attributes": workload.attributes,
        "share of nonequality": share,
    }
    return {**described, **empty, **measured}


def gough_line(about: str, workload: LeSubscribe, core: Gough, build_s: float, values: Any) -> Line:
    """Insert once, follow paths alone, and return what the tree has and did."""
    tree = core.tree
    arrays = tree.other, tree.stops, tree.bound, tree.child
    leaf, work = np.empty(len(values), np.int32), np.zeros((len(values), 2), np.int64)
    again = np.tile(values[:REPEATED], (len(values) // REPEATED, 1))
    calls = {
        "again": lambda: descend(again, tree.levels, arrays, leaf[: len(again)], work[: len(again)]),
        "alone": lambda: descend(values, tree.levels, arrays, leaf, work),
    }
    best = {name: 1e6 * min(found) / len(values) for name, found in interleaved(calls, PASSES).items()}
    return line(
        about,
        "gough",
        workload,
        **{
            "nodes": tree.node_count,
            "bytes": core.bytes,
            "build s": build_s,
            "path alone us per event": best["alone"],
            "path in caches us per event": best["again"],
            "levels per event": float(work[:, 0].mean()),
            "most levels": int(work[:, 0].max()),
            "comparisons per event": float(work[:, 1].mean()),
            "most comparisons": int(work[:, 1].max()),
        },
    )


def aguilera_line(about: str, workload: LeSubscribe, core: Aguilera, build_s: float) -> Line:
    """Return what the tree has, and did for the last batch."""
    visited, paths, dead = core.work.mean(axis=0).tolist()
    return line(
        about,
        "aguilera",
        workload,
        **{
            "nodes": core.node_count,
            "bytes": core.bytes,
            "build s": build_s,
            "nodes visited per event": visited,
            "paths per event": paths,
            "dead ends per event": dead,
        },
    )


def built(core: Core, workload: LeSubscribe) -> float:
    """Build; return the seconds that it took."""
    catalogue = workload.conjunctions()
    begin = time.perf_counter()
    core.build(catalogue)
    return time.perf_counter() - begin


def growth(about: str, workload: LeSubscribe) -> list[Line]:
    """Compare Gough and Smith's tree, Aguilera et al.'s and fair predicate; then insert into the first."""
    gough, aguilera, fair = Gough(), Aguilera(), FairPredicate()
    seconds = [built(core, workload) for core in (gough, aguilera, fair)]
    catalogue, values = workload.conjunctions(), workload.events(EVENTS)
    cores: dict[str, Core] = {"gough": gough, "aguilera": aguilera, "fair predicate": fair}
    times, matches = match_times(cores, catalogue, values, PASSES)
    lines = [
        gough_line(about, workload, gough, seconds[0], values),
        aguilera_line(about, workload, aguilera, seconds[1]),
        line(about, "fair predicate", workload, **{"bytes": fair.bytes, "build s": seconds[2]}),
    ]
    for one in lines:
        one |= {"us per event": times[one["matcher"]], "matches per event": matches}
    # One more than there are, which a larger catalogue of the same seed begins with.
    count = workload.subscriptions
    everything = replace(workload, subscriptions=count + 1).conjunctions()
    more = conjunctions_at(everything, everything.owner == count)
    begin = time.perf_counter()
    gough.insert(more)
    lines[0]["insert s"] = time.perf_counter() - begin
    return lines


def one_subscription() -> Line:
    """Time fair predicate where there is next to nothing to do."""
    workload, core = growing_load(1), FairPredicate()
    built(core, workload)
    times, _ = match_times({"fair predicate": core}, workload.conjunctions(), workload.events(EVENTS), PASSES)
    return line("one subscription", "fair predicate", workload, **{"us per event": times["fair predicate"]})


def equality_only(size: int) -> Line:
    """Visit Aguilera et al.'s tree over equalities on ten attributes."""
    workload, core = LeSubscribe(size, equality_probability=1.0), Aguilera()
    build_s = built(core, workload)
    values = workload.events(MANY_EVENTS)
    times, matches = match_times({"aguilera": core}, workload.conjunctions(), values, 3)
    found = aguilera_line("equality only", workload, core, build_s)
    return found | {"us per event": times["aguilera"], "matches per event": matches}


def with_share(probability: float) -> Line:
    """Visit Aguilera et al.'s tree over a share of other comparisons."""
    workload, core = LeSubscribe(SHARE_SIZE, equality_probability=probability), Aguilera()
    build_s = built(core, workload)
    times, matches = match_times({"aguilera": core}, workload.conjunctions(), workload.events(MANY_EVENTS), 3)
    found = aguilera_line("share of nonequality", workload, core, build_s)
    return found | {"us per event": times["aguilera"], "matches per event": matches}


def run(scale: Scale, note: Note) -> Outcome:
    """Grow all trees, decide, draw."""
    built(Gough(), LeSubscribe(20, strings=1, numbers=1))  # compiles
    lines = [one_subscription()]
    for size in GROWTH_SIZES:
        note(f"trees of Gough and of Aguilera: {size} subscriptions on four attributes")
        lines += growth("growth", growing_load(size))
        equal = growing_load(size, equality_probability=1.0)
        lines += growth("growth, equality only", equal)
    for attributes in OPTIONAL_ATTRIBUTES:
        note(f"trees of Gough and of Aguilera: {attributes} attributes")
        half = attributes // 2
        workload = LeSubscribe(OPTIONAL_SIZE, strings=half, numbers=half, predicate_probability=0.5)
        lines += growth("optional attributes", workload)
    for size in EQUALITY_SIZES[scale]:
        note(f"tree of Aguilera: {size} subscriptions, equality only")
        lines.append(equality_only(size))
    for probability in EQUALITY_PROBABILITIES:
        note(f"tree of Aguilera: equality with probability {probability:g}")
        lines.append(with_share(probability))
    return Outcome(lines, [*_gough(lines), *_aguilera(lines)], lambda path: draw(lines, path))


def column(lines: Sequence[Line], about: str, matcher: str, name: str) -> list[float]:
    """Return what lines of one part and matcher say, in order."""
    return [float(one[name]) for one in lines if one["part"] == about and one["matcher"] == matcher]


def _gough(lines: Sequence[Line]) -> list[Verdict]:
    mine = [one for one in lines if one["matcher"] == "gough"]
    is_bounded = all(
        one["most levels"] <= one["attributes"]
        and one["most comparisons"] <= one["attributes"] * np.log2(one["subscriptions"])
        for one in mine
    )
    sizes = column(lines, "growth", "gough", "subscriptions")
    times = column(lines, "growth", "gough", "us per event")
    exponent = log_slope(sizes, times)
    path, cached = (
        log_slope(sizes, column(lines, "growth", "gough", f"path {how} us per event"))
        for how in ("alone", "in caches")
    )
    steps = log_slope(sizes, column(lines, "growth", "gough", "comparisons per event"))
    nodes, matches = (column(lines, "growth", "gough", name) for name in ("nodes", "matches per event"))
    fair = column(lines, "growth", "fair predicate", "us per event")
    alone = column(lines, "one subscription", "fair predicate", "us per event")
    inserts, builds = (column(lines, "growth", "gough", name) for name in ("insert s", "build s"))
    rebuilds = [insert / build for insert, build in zip(inserts, builds, strict=True)]
    growing = log_slope(sizes, nodes)
    counts = column(lines, "optional attributes", "gough", "attributes")
    wide = column(lines, "optional attributes", "gough", "nodes")
    factors = ", ".join(f"{b / a:.0f}" for a, b in itertools.pairwise(wide))
    return [
        decided(
            "LESUB-07",
            is_bounded and exponent < 0.3,
            f"at most {max(one['most levels'] for one in mine)} levels and "
            f"{max(one['most comparisons'] for one in mine)} comparisons, within the bounds: {is_bounded}; "
            f"time per event {', '.join(f'{t:.3f}' for t in times)} us at {sizes[0]:.0f} to {sizes[-1]:.0f} "
            f"subscriptions: slope {exponent:.2f} (the path alone {path:.2f}, its comparisons {steps:.2f})",
            f"the tree grows from {nodes[0]:.0f} to {nodes[-1]:.0f} nodes, out of the caches: the slope of "
            f"the path is {cached:.2f} where {REPEATED} events come again and again; and handing over "
            f"matches ({matches[0]:.1f} to {matches[-1]:.1f} per event) is linear in subscriptions for any "
            "matcher",
        ),
        decided(
            "LESUB-08",
            growing > 1 and all(g < f for g, f in zip(times, fair, strict=True)),
            f"nodes grow with exponent {growing:.2f} in subscriptions ({nodes[0]:.0f} to {nodes[-1]:.0f}), "
            f"and by factors {factors} for two more of {counts[0]:.0f} to {counts[-1]:.0f} optional "
            f"attributes; time per event {times[-1]:.2f} us against {fair[-1]:.2f} of fair predicate, of "
            f"which {alone[0]:.2f} are there with one subscription too; an insertion is a build, and takes "
            f"{min(rebuilds):.2f} to {max(rebuilds):.2f} of the first one's time",
            "fair predicate is faster at some size",
        ),
    ]


def _aguilera(lines: Sequence[Line]) -> list[Verdict]:
    about = "growth, equality only"
    mine = [o for o in lines if o["matcher"] == "aguilera" and o["part"] in (about, "equality only")]
    is_bounded = all(one["nodes"] <= one["subscriptions"] * one["attributes"] + 1 for one in mine)
    ours, theirs = (column(lines, about, matcher, "nodes") for matcher in ("aguilera", "gough"))
    slower = [
        a / g
        for a, g in zip(
            *(column(lines, about, matcher, "us per event") for matcher in ("aguilera", "gough")), strict=True
        )
    ]
    ways = [one["paths per event"] + one["dead ends per event"] for one in mine]
    sizes = column(lines, "equality only", "aguilera", "subscriptions")
    visited = column(lines, "equality only", "aguilera", "nodes visited per event")
    exponent = log_slope(sizes, visited)
    shares = column(lines, "share of nonequality", "aguilera", "share of nonequality")
    nodes, seen = (
        column(lines, "share of nonequality", "aguilera", name)
        for name in ("nodes", "nodes visited per event")
    )
    return [
        decided(
            "LESUB-09",
            is_bounded and all(a < g for a, g in zip(ours, theirs, strict=True)) and min(ways) >= 1,
            f"nodes within subscriptions x attributes + 1: {is_bounded}; {ours[-1]:.0f} nodes against "
            f"{theirs[-1]:.0f} of Gough and Smith's tree at {GROWTH_SIZES[-1]} subscriptions; "
            f"{min(ways):.1f} to {max(ways):.0f} paths per event; time {min(slower):.2f} to "
            f"{max(slower):.2f} of Gough and Smith's, whose tree is larger than the caches",
            "see the counts",
        ),
        decided(
            "LESUB-10",
            exponent < 0.95,
            f"nodes visited per event {', '.join(f'{v:.0f}' for v in visited)} at {sizes[0]:.0f} to "
            f"{sizes[-1]:.0f} subscriptions: slope {exponent:.2f}",
            "visits grow almost with subscriptions",
        ),
        decided(
            "LESUB-11",
            bool(np.all(np.diff(nodes) > 0) and np.all(np.diff(seen) > 0)),
            f"share {shares[0]:g} to {shares[-1]:g}: {nodes[0]:.0f} to {nodes[-1]:.0f} nodes, "
            f"{seen[0]:.0f} to {seen[-1]:.0f} visited per event, at {SHARE_SIZE} subscriptions",
            f"nodes {', '.join(f'{n:.0f}' for n in nodes)}; visited {', '.join(f'{v:.0f}' for v in seen)}",
        ),
    ]


def draw(lines: Sequence[Line], path: Path) -> None:
    """Draw nodes and time against subscriptions, and nodes visited."""
    pyplot, figure, axes = canvas(2, 3, "LESUB: the trees of Gough and Smith and of Aguilera et al.")
    about = "growth"
    for matcher in ("gough", "aguilera", "fair predicate"):
        sizes = column(lines, about, matcher, "subscriptions")
        axes[0, 0].plot(sizes, column(lines, about, matcher, "us per event"), "o-", label=matcher)
        axes[0, 2].plot(sizes, column(lines, about, matcher, "bytes"), "o-", label=matcher)
    for matcher in ("gough", "aguilera"):
        sizes = column(lines, about, matcher, "subscriptions")
        axes[0, 1].plot(sizes, column(lines, about, matcher, "nodes"), "o-", label=matcher)
        counts = column(lines, "optional attributes", matcher, "attributes")
        axes[1, 0].plot(counts, column(lines, "optional attributes", matcher, "nodes"), "o-", label=matcher)
    sizes = column(lines, "equality only", "aguilera", "subscriptions")
    for name in ("nodes visited per event", "paths per event", "dead ends per event"):
        axes[1, 1].plot(sizes, column(lines, "equality only", "aguilera", name), "o-", label=name)
    shares = column(lines, "share of nonequality", "aguilera", "share of nonequality")
    for name in ("nodes", "nodes visited per event"):
        axes[1, 2].plot(shares, column(lines, "share of nonequality", "aguilera", name), "o-", label=name)
    titles = (
        ("four attributes", "subscriptions", "time per event (us)"),
        ("four attributes", "subscriptions", "nodes"),
        ("four attributes", "subscriptions", "bytes"),
        (f"{OPTIONAL_SIZE} subscriptions", "attributes, each optional", "nodes"),
        ("aguilera, ten attributes, equality only", "subscriptions", "per event"),
        (f"aguilera, {SHARE_SIZE} subscriptions", "share of nonequality predicates", "nodes"),
    )
    for at, (axis, (title, across, up)) in enumerate(zip(axes.flat, titles, strict=True)):
        axis.set(title=title, xlabel=across, ylabel=up, yscale="log")
        if at not in (3, 5):
            label_sizes(axis, GROWTH_SIZES if at < 3 else sizes)
        axis.legend(fontsize=8)
    save(pyplot, figure, path)
