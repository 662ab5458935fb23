"""HTREE figures 5 and 10: matching time by the distribution of constraints' values, and by widths of ranges.

Figure 5 has an H-Tree over values as they are and one over converted ones, for normal and for Pareto values.
Events are even in all cases, and are converted too. Figure 10 also says how often Tama's candidates do not
match.
"""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.htree.h_tree import HTreeCore
from pubsub_cluster.algorithms.htree.plan import Axis, Plan
from pubsub_cluster.algorithms.htree.tama import TamaCore
from pubsub_cluster.benchmarks.reproductions.fits import straight_line
from pubsub_cluster.benchmarks.reproductions.htree.measure import (
    CELLS,
    LEVELS,
    Load,
    Subject,
    Timing,
    all_built,
    at_size,
    axes,
    built,
    counted,
    line_of,
    lookup_us,
    of,
    plan_of,
    tama_seen,
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
from pubsub_cluster.benchmarks.workloads.htree_ranges import (
    PARETO_ALPHA,
    PARETO_LEAST,
    SHARES,
    RangeWorkload,
    share_below,
)

MILLION = 1_000_000
SIZES: dict[Scale, tuple[int, ...]] = {"small": (50_000, 100_000), "paper": (500_000, MILLION)}
WIDTH_SIZE: dict[Scale, int] = {"small": 50_000, "paper": MILLION}
LOADS: dict[Scale, Load] = {"small": Load(50, 300), "paper": Load(40, 200)}
NARROW = 0.02
WIDTHS = (0.02, 0.04, 0.06, 0.08, 0.1)
KNOTS = 1_024
SKEWED = ("normal", "pareto")
ROUNDS = 2
FEW = (1, 2, 3, 5)
FEW_SIZE, FEW_EVENTS = 20_000, 100
KS_SAMPLE, KS_CRITICAL = 20_000, 1.628
PLANTED_EVERY = 20
ANALYTIC = {"normal": (0.855, 855.0), "pareto": (0.868, 1_362.0)}
"""What converting leaves of the candidates, and the buckets looked at then, by calculation."""


def converted_axes(distribution: str) -> tuple[Axis, ...]:
    """Return axes on which values are converted by their distribution function: Y = F(X)."""
    knots = np.searchsorted(share_below(distribution), np.arange(1, KNOTS + 1) / KNOTS).astype(np.float64)
    return tuple(axis._replace(knots=knots) for axis in axes(range(LEVELS)))


def run_distributions(scale: Scale, note: Note) -> Outcome:
    """Figure 5: HT-dist."""
    lines: list[dict[str, Any]] = []
    for size in SIZES[scale]:
        lines += _distributions(size, LOADS[scale])
        note(f"figure 5: {size:,} subscriptions")
    return Outcome(lines, _distribution_verdicts(lines), partial(_draw_distributions, lines))


def _trees(size: int) -> dict[str, dict[str, Subject]]:
    """Build an H-Tree for each distribution, and one over converted values for the skewed ones."""
    trees: dict[str, dict[str, Subject]] = {}
    for values in SHARES:
        ranges = RangeWorkload(size, width=NARROW, values=values).ranges()
        trees[values] = {"raw": built(HTreeCore(Plan(axes(range(LEVELS)), CELLS)), ranges)}
        if values in SKEWED:
            trees[values]["converted"] = built(HTreeCore(Plan(converted_axes(values), CELLS)), ranges)
    return trees


def _distributions(size: int, load: Load) -> list[dict[str, Any]]:
    trees = _trees(size)
    least: dict[tuple[str, str], Timing] = {}
    # Without planted events but the first: all trees see the same events.
    events = RangeWorkload(size, width=NARROW).events(load.events, load.events)
    for _ in range(ROUNDS):
        for values, mine in trees.items():
            for how, timing in timed(mine, events, load).items():
                least[values, how] = min(timing, least.get((values, how), timing))
    lines = []
    for (values, how), timing in least.items():
        subject = trees[values][how]
        looked, compared = counted(subject, events)
        workload = RangeWorkload(size, width=NARROW, values=values)
        more = {
            "values": values,
            "converted": how == "converted",
            "buckets looked at": looked,
            "subscriptions compared": compared,
            "us to convert": _conversion_us(subject, events),
        }
        lines.append(line_of(workload, "H-Tree", timing, **more))
    return lines


def _conversion_us(subject: Subject, events: Any) -> float:
    """Return the time per event to find positions, of which conversion is a part."""
    assert isinstance(subject.core, HTreeCore)
    best = math.inf
    for _ in range(5):
        begin = time.perf_counter()
        subject.core.positions(events)
        best = min(best, time.perf_counter() - begin)
    return 1e6 * best / len(events)


def ks_statistic(distribution: str) -> float:
    """Return sqrt(n) times the greatest distance of F(X)'s distribution from the even one, X not clipped."""
    random = np.random.default_rng(15)
    if distribution == "normal":
        drawn = random.normal(0.5, math.sqrt(0.02), KS_SAMPLE)
    else:
        drawn = PARETO_LEAST * (1 + random.pareto(PARETO_ALPHA, KS_SAMPLE))
    share = np.sort(np.array([SHARES[distribution](value) for value in drawn.tolist()]))
    rank = np.arange(KS_SAMPLE + 1) / KS_SAMPLE
    return math.sqrt(KS_SAMPLE) * float(max((rank[1:] - share).max(), (share - rank[:-1]).max()))


def _distribution_verdicts(lines: list[dict[str, Any]]) -> list[Verdict]:
    size = max(line["subscriptions"] for line in lines)
    last = {(one["values"], one["converted"]): one for one in lines if one["subscriptions"] == size}
    even = last["uniform", False]
    time_of = {key: line["us per event"] / even["us per event"] for key, line in last.items()}
    left = {
        key: line["subscriptions compared"] / even["subscriptions compared"] for key, line in last.items()
    }
    gain = {one: time_of[one, True] / time_of[one, False] for one in SKEWED}
    saved = {one: left[one, True] / left[one, False] for one in SKEWED}
    looked = {one: last[one, True]["buckets looked at"] for one in SKEWED}
    is_near = all(
        abs(saved[one] / ANALYTIC[one][0] - 1) <= 0.05 and abs(looked[one] / ANALYTIC[one][1] - 1) <= 0.1
        for one in SKEWED
    )
    cost = {one: last[one, True]["us to convert"] / last[one, True]["us per event"] for one in SKEWED}
    ks = {one: ks_statistic(one) for one in SKEWED}
    return [
        at_size(
            "HTREE-13",
            size,
            MILLION,
            min(time_of[one, False] for one in SKEWED) > 1,
            "; ".join(
                f"{one}: time {time_of[one, False]:.2f} of uniform, candidates {left[one, False]:.2f}"
                for one in SKEWED
            ),
            "with even events the expected candidates are the same; fewer but longer buckets are read in "
            "order",
        ),
        at_size(
            "HTREE-14",
            size,
            MILLION,
            gain["normal"] <= 0.94 and gain["pareto"] <= 0.9 and is_near,
            "; ".join(
                f"{one}: time {gain[one]:.2f}, candidates {saved[one]:.3f}, buckets {looked[one]:.0f}"
                for one in SKEWED
            ),
            "the calculation, 0.868 for Pareto, has values above 1 keep their F(X); clipped, as the "
            "reading says, a "
            "quarter of the ranges share one cell of the converted axis",
        ),
        decided(
            "HTREE-15",
            max(ks.values()) <= KS_CRITICAL and max(cost.values()) <= 0.05,
            "; ".join(
                f"{one}: sqrt(n) D = {ks[one]:.2f} (1 %: {KS_CRITICAL}), conversion / matching "
                f"{cost[one]:.4f}"
                for one in SKEWED
            )
            + "; matches equal",
            "matching takes so little at this size that ten steps of a search per attribute show",
        ),
    ]


def _draw_distributions(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, plots = canvas(1, 1, "HT-dist: m = 50, k = 20, w = 0.02,\nc = l = 8 (HTREE figure 5)")
    for values, is_converted in dict.fromkeys((line["values"], line["converted"]) for line in lines):
        mine = [line for line in lines if (line["values"], line["converted"]) == (values, is_converted)]
        sizes = [line["subscriptions"] / 1e6 for line in mine]
        label = f"{values}, converted" if is_converted else values
        style = "--" if is_converted else "-"
        plots[0, 0].plot(sizes, [line["us per event"] for line in mine], style, marker="o", label=label)
    plots[0, 0].set(xlabel="subscriptions (millions)", ylabel="time per event (µs)")
    plots[0, 0].legend(fontsize="small")
    save(pyplot, figure, path)


def run_widths(scale: Scale, note: Note) -> Outcome:
    """Figure 10: HT-w; and Tama's false positives."""
    lines: list[dict[str, Any]] = []
    for width in WIDTHS:
        workload = RangeWorkload(WIDTH_SIZE[scale], constrained=25, width=width)
        ranges = workload.ranges()
        values = workload.events(LOADS[scale].events, PLANTED_EVERY)
        plan = plan_of(workload, ranges)
        subjects = all_built(ranges, plan)
        timings = timed(subjects, values, LOADS[scale], ranges, spread=True)
        for name, timing in timings.items():
            lookup = lookup_us(plan, ranges, values) if name == "H-Tree" else ""
            wrong: Any = ""
            if name == "Tama":
                wrong = _wrong(subjects[name], values[: LOADS[scale].slow_events], timing.matches)
            lines.append(
                line_of(
                    workload, name, timing, **{"wrong candidates": wrong, "us to look buckets up": lookup}
                )
            )
        del subjects
        note(f"figure 10: width {width}")
    lines += [_few_constraints(constraints) for constraints in FEW]
    return Outcome(lines, _width_verdicts(lines), partial(_draw_widths, _widths(lines)))


def _wrong(subject: Subject, values: Any, matches: float) -> float:
    """Return which share of Tama's candidates do not match."""
    wrong = float(tama_seen(subject, values)[:, 2].mean())
    return wrong / (wrong + matches) if wrong else 0.0


def _few_constraints(constraints: int) -> dict[str, Any]:
    """Return a line about subscriptions of few constraints, of which many match by chance."""
    workload = RangeWorkload(FEW_SIZE, constrained=constraints)
    ranges = workload.ranges()
    subject = built(TamaCore((0.0, float(RESOLUTION))), ranges)
    values = workload.events(FEW_EVENTS)
    timing = timed({"Tama": subject}, values, Load(FEW_EVENTS, FEW_EVENTS, 1), ranges)["Tama"]
    more: dict[str, Any] = {
        "wrong candidates": _wrong(subject, values, timing.matches),
        "us to look buckets up": "",
    }
    return line_of(workload, "Tama", timing, **more)


def _widths(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["constraints"] not in FEW]


def _width_verdicts(lines: list[dict[str, Any]]) -> list[Verdict]:
    size = lines[0]["subscriptions"]
    times = {
        name: [line["us per event"] for line in of(_widths(lines), name)]
        for name in ("Simple", "Tama", "H-Tree")
    }
    flat = {name: max(one) / min(one) for name, one in times.items()}
    slope, _, quality = straight_line(WIDTHS, times["Tama"])
    wrong = [line for line in lines if line["constraints"] in FEW]
    rates = ", ".join(f"{line['wrong candidates']:.2g} at k = {line['constraints']}" for line in wrong)
    tree = of(_widths(lines), "H-Tree")[-1]
    by_simple, by_tama = (times[name][-1] / times["H-Tree"][-1] for name in ("Simple", "Tama"))
    return [
        at_size(
            "HTREE-27",
            size,
            MILLION,
            flat["H-Tree"] <= 1.3 and flat["Simple"] <= 1.2 and quality >= 0.9 and slope > 0,
            f"max / min: H-Tree {flat['H-Tree']:.2f}, Simple {flat['Simple']:.2f}; Tama R^2 = {quality:.3f}, "
            f"slope {slope:.0f} us; wrong candidates of Tama before they are verified: {rates}",
            "a first range that is wider fails less often, so that a subscription takes more tests",
        ),
        at_size(
            "HTREE-28",
            size,
            MILLION,
            by_simple >= 22 and by_tama >= 17,
            f"Simple / H-Tree = {by_simple:.1f}, Tama / H-Tree = {by_tama:.1f} at w = 0.1",
            f"Simple and Tama read memory in order; of H-Tree's {tree['us per event']:.0f} us, "
            f"{tree['us to look buckets up']:.0f} are the way to its buckets, and the rest is one read "
            "of memory "
            "somewhere for almost every bucket that is not empty",
        ),
    ]


def _draw_widths(lines: list[dict[str, Any]], path: Path) -> None:
    size = lines[0]["subscriptions"]
    title = f"HT-w: n = {size:,}, m = 50, k = 25, c = l = 8 (HTREE figure 10)"
    pyplot, figure, plots = canvas(1, 2, title)
    for name in ("Simple", "Tama", "H-Tree"):
        mine = of(lines, name)
        for plot, key in zip(plots.flat, ("us per event", "sd over events (us)"), strict=True):
            plot.plot(WIDTHS, [line[key] / 1e3 for line in mine], marker="o", label=name)
    for plot, label in zip(plots.flat, ("time per event (ms)", "deviation over events (ms)"), strict=True):
        plot.set(xlabel="width of ranges (of the domain)", ylabel=label, yscale="log")
        plot.legend(fontsize="small")
    save(pyplot, figure, path)
