"""HTREE figures 6, 7 and 11: matching time by the number of constraints, and by the choice of attributes."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.algorithms.htree.h_tree import HTreeCore
from pubsub_cluster.algorithms.htree.plan import Plan, most_popular
from pubsub_cluster.benchmarks.reproductions.fits import log_slope
from pubsub_cluster.benchmarks.reproductions.htree.measure import (
    CELLS,
    LEVELS,
    Load,
    all_built,
    at_size,
    axes,
    built,
    counted,
    expected_left,
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
from pubsub_cluster.benchmarks.workloads.htree_ranges import RangeWorkload

MILLION, LARGE = 1_000_000, 5_000_000
SIZE: dict[Scale, int] = {"small": 50_000, "paper": MILLION}
ZIPF_SIZE: dict[Scale, int] = {"small": 100_000, "paper": LARGE}
WIDE_SIZE: dict[Scale, int] = {"small": 20_000, "paper": 400_000}
CONSTRAINTS = (10, 20, 50, 100)
RCA_ATTRIBUTES = 100
RCA_TRIED = (10, 30, 50, 70, 90)
RCA_TAMA = (10, 50, 90)
ZIPF_TRIED = (0.0, 0.5, 1.0)
ZIPF_TAMA = (0.0, 1.0)
MOST_CONSTRAINTS = 200
LOADS: dict[Scale, Load] = {"small": Load(50, 200), "paper": Load(40, 200)}
ZIPF_LOADS: dict[Scale, Load] = {"small": Load(50, 400), "paper": Load(20, 400)}
PLANTED_EVERY = 20


class Run(NamedTuple):
    """A workload that was measured: its lines, and what else is known of its events.

    Attributes
    ----------
    lines : list of dict
    partial_share : float
        Of the subscriptions, those with a satisfied constraint; NaN without Tama.
    """

    lines: list[dict[str, Any]]
    partial_share: float = float("nan")


def _measure(workload: RangeWorkload, load: Load, with_tama: bool, spread: bool, **more: Any) -> Run:
    """Build and time the matchers on one workload; Simple only beside Tama."""
    ranges = workload.ranges()
    values = workload.events(load.events, PLANTED_EVERY)
    plan = plan_of(workload, ranges)
    subjects = {"H-Tree": built(HTreeCore(plan), ranges)}
    if with_tama:
        subjects = all_built(ranges, plan)
    timings = timed(subjects, values, load, ranges, spread)
    looked, compared = counted(subjects["H-Tree"], values)
    lookup = lookup_us(plan, ranges, values)
    popularity = workload.popularity()[[axis.attribute for axis in plan.axes]]
    lines = []
    for name, timing in timings.items():
        is_tree = name == "H-Tree"
        lines.append(
            line_of(
                workload,
                name,
                timing,
                **more,
                **{
                    "buckets looked at": looked if is_tree else "",
                    "us to look buckets up": lookup if is_tree else "",
                    "share compared": compared / workload.subscriptions if is_tree else "",
                    "share expected": expected_left(popularity.tolist(), CELLS) if is_tree else "",
                },
            )
        )
    if not with_tama:
        return Run(lines)
    seen = tama_seen(subjects["Tama"], values[: load.slow_events])
    return Run(lines, float(seen[:, 1].mean()) / workload.subscriptions)


def run_constraints(scale: Scale, note: Note) -> Outcome:
    """Figure 6: HT-k, twice as many attributes as constraints."""
    lines: list[dict[str, Any]] = []
    for constraints in CONSTRAINTS:
        workload = RangeWorkload(SIZE[scale], 2 * constraints, constraints)
        lines += _measure(workload, LOADS[scale], with_tama=True, spread=False).lines
        note(f"figure 6: {constraints} constraints")
    return Outcome(lines, _constraints_verdicts(lines, SIZE[scale]), partial(_draw_constraints, lines))


def _times(lines: list[dict[str, Any]], name: str) -> list[float]:
    return [line["us per event"] for line in of(lines, name)]


def _constraints_verdicts(lines: list[dict[str, Any]], size: int) -> list[Verdict]:
    simple, tama, tree = (_times(lines, name) for name in ("Simple", "Tama", "H-Tree"))
    ratios = [a / b for a, b in zip(tama, tree, strict=True)]
    slope = {name: log_slope(CONSTRAINTS, times) for name, times in (("Tama", tama), ("Simple", simple))}
    mean = float(np.mean(ratios))
    shown = ", ".join(f"{r:.1f} at k = {k}" for k, r in zip(CONSTRAINTS, ratios, strict=True))
    return [
        at_size(
            "HTREE-16",
            size,
            MILLION,
            mean >= 15,
            f"Tama / H-Tree: {mean:.1f} on average; {shown}",
            "Tama's tables are arrays here, so that a count costs about a nanosecond",
        ),
        at_size(
            "HTREE-17",
            size,
            MILLION,
            slope["Tama"] >= 0.5 and all(a < b for a, b in itertools.pairwise(tama)),
            f"log-log slope in k: Tama {slope['Tama']:.2f}, Simple {slope['Simple']:.2f}",
            "the look at every counter does not depend on k",
        ),
    ]


def _draw_constraints(lines: list[dict[str, Any]], path: Path) -> None:
    size = lines[0]["subscriptions"]
    pyplot, figure, plots = canvas(1, 1, f"HT-k: n = {size:,}, m = 2k, w = 0.1,\nc = l = 8 (HTREE figure 6)")
    for name in ("Simple", "Tama", "H-Tree"):
        times = [one / 1e3 for one in _times(lines, name)]
        plots[0, 0].plot(CONSTRAINTS, times, marker="o", label=name)
    plots[0, 0].set(
        xlabel="constraints per subscription (number)", ylabel="time per event (ms)", yscale="log"
    )
    plots[0, 0].legend(fontsize="small")
    save(pyplot, figure, path)


def run_rca(scale: Scale, note: Note) -> Outcome:
    """Figure 7: HT-RCA, constraints by attributes."""
    lines: list[dict[str, Any]] = []
    partial_share: dict[int, float] = {}
    for constraints in RCA_TRIED:
        workload = RangeWorkload(SIZE[scale], RCA_ATTRIBUTES, constraints)
        with_tama = constraints in RCA_TAMA
        found = _measure(workload, LOADS[scale], with_tama, True, RCA=constraints / RCA_ATTRIBUTES)
        lines += found.lines
        if with_tama:
            partial_share[constraints] = found.partial_share
        note(f"figure 7: {constraints} constraints")
    return Outcome(lines, _rca_verdicts(lines, partial_share, SIZE[scale]), partial(_draw_rca, lines))


def _lookup_text(tree: dict[str, Any]) -> str:
    """Say how much of an H-Tree's time no filtering can save."""
    return (
        f"to look up {tree['buckets looked at']:.0f} buckets takes {tree['us to look buckets up']:.0f} of "
        f"{tree['us per event']:.0f} us"
    )


def _rca_verdicts(lines: list[dict[str, Any]], partial_share: dict[int, float], size: int) -> list[Verdict]:
    trees = of(lines, "H-Tree")
    times = [line["us per event"] for line in trees]
    deviations = [line["sd over events (us)"] for line in trees]
    ratio = _times(lines, "Tama")[-1] / _times(lines, "Simple")[-1]
    least = min(share for constraints, share in partial_share.items() if constraints >= 50)
    shares = f"{trees[0]['share compared']:.3f} and {trees[-1]['share compared']:.6f}"
    expected = f"{trees[0]['share expected']:.3f} and {trees[-1]['share expected']:.6f}"
    return [
        at_size(
            "HTREE-18",
            size,
            MILLION,
            0.5 <= ratio <= 2 and least >= 0.99,
            f"Tama / Simple = {ratio:.2f} at k = 90; {least:.4f} have a satisfied constraint at k >= 50",
            "Simple stops at the first failure whatever k is, Tama counts all satisfied constraints",
        ),
        at_size(
            "HTREE-19",
            size,
            MILLION,
            all(a > b for a, b in itertools.pairwise(times)) and times[0] / times[-1] >= 10,
            f"t(0.1) / t(0.9) = {times[0] / times[-1]:.1f}; shares {shares} (F {expected})",
            _lookup_text(trees[-1]),
        ),
        at_size(
            "HTREE-20",
            size,
            MILLION,
            all(a > b for a, b in itertools.pairwise(deviations)) and deviations[0] / deviations[-1] >= 5,
            "deviations "
            + ", ".join(f"{one:.1f} us" for one in deviations)
            + f"; first / last = {deviations[0] / deviations[-1]:.1f}",
            "where few subscriptions are left, what varies is the number of buckets, and the clock",
        ),
    ]


def _draw_rca(lines: list[dict[str, Any]], path: Path) -> None:
    size = lines[0]["subscriptions"]
    pyplot, figure, plots = canvas(
        1, 2, f"HT-RCA: n = {size:,}, m = 100, w = 0.1, c = l = 8 (HTREE figure 7)"
    )
    for name in ("Simple", "Tama", "H-Tree"):
        mine = of(lines, name)
        shares = [line["RCA"] for line in mine]
        for plot, key in zip(plots.flat, ("us per event", "sd over events (us)"), strict=True):
            plot.plot(shares, [line[key] / 1e3 for line in mine], marker="o", label=name)
    for plot, label in zip(plots.flat, ("time per event (ms)", "deviation over events (ms)"), strict=True):
        plot.set(xlabel="constraints / attributes (1)", ylabel=label, yscale="log")
        plot.legend(fontsize="small")
    save(pyplot, figure, path)


def run_zipf(scale: Scale, note: Note) -> Outcome:
    """Figure 11: HT-zipf, an index on the popular attributes; and HT-k with most constraints."""
    size, load = ZIPF_SIZE[scale], ZIPF_LOADS[scale]
    lines: list[dict[str, Any]] = []
    for zipf in ZIPF_TRIED:
        workload = RangeWorkload(size, zipf=zipf)
        lines += _measure(workload, load, zipf in ZIPF_TAMA, True, a=zipf).lines
        note(f"figure 11: a = {zipf}")
    compared = choices(RangeWorkload(SIZE[scale], zipf=1.0), load)
    wide = RangeWorkload(WIDE_SIZE[scale], 2 * MOST_CONSTRAINTS, MOST_CONSTRAINTS)
    lines += _measure(wide, LOADS[scale], True, True, a=0.0).lines
    note(f"figure 11: {MOST_CONSTRAINTS} constraints")
    return Outcome(lines, _zipf_verdicts(lines, compared, size), partial(_draw_zipf, lines))


def choices(workload: RangeWorkload, load: Load) -> dict[str, float]:
    """Return candidates per event of an index on popular, random and rare attributes (HTREE-40)."""
    ranges = workload.ranges()
    values = workload.events(load.slow_events, PLANTED_EVERY)
    by_popularity = most_popular(ranges, workload.attributes, workload.attributes)
    drawn = np.random.default_rng(40).permutation(workload.attributes)[:LEVELS].tolist()
    chosen = {"popular": by_popularity[:LEVELS], "random": drawn, "rare": by_popularity[-LEVELS:]}
    return {
        name: counted(built(HTreeCore(Plan(axes(attributes), CELLS)), ranges), values)[1]
        for name, attributes in chosen.items()
    }


def _zipf_verdicts(lines: list[dict[str, Any]], compared: dict[str, float], size: int) -> list[Verdict]:
    zipf_lines = [line for line in lines if line["constraints"] != MOST_CONSTRAINTS]
    trees = of(zipf_lines, "H-Tree")
    deviations = [line["sd over events (us)"] for line in trees]
    time = {line["a"]: line["us per event"] for line in trees}
    ratio = {line["a"]: line["us per event"] / time[line["a"]] for line in of(zipf_lines, "Tama")}
    even, skewed = ratio[ZIPF_TAMA[0]], ratio[ZIPF_TAMA[-1]]
    wide = [line for line in lines if line["constraints"] == MOST_CONSTRAINTS]
    wide_ratio = _times(wide, "Tama")[0] / _times(wide, "H-Tree")[0]
    best = max(skewed, even, wide_ratio)
    shares = f"{trees[-1]['share compared']:.2e} (F {trees[-1]['share expected']:.2e})"
    every = f"Tama / H-Tree: {skewed:.0f} at a = 1.0, {even:.1f} at even choice"
    return [
        at_size(
            "HTREE-29",
            size,
            LARGE,
            skewed >= 200 and skewed > 10 * even,
            f"{every}; share compared {shares}",
            f"Tama's tables are arrays here; {_lookup_text(trees[-1])}",
        ),
        at_size(
            "HTREE-30",
            size,
            LARGE,
            all(a > b for a, b in itertools.pairwise(deviations)),
            "deviations " + ", ".join(f"{one:.1f} us" for one in deviations),
            "see HTREE-20",
        ),
        at_size(
            "HTREE-31",
            size,
            LARGE,
            best >= 500,
            f"{every}; {wide_ratio:.1f} at k = {MOST_CONSTRAINTS}, n = {wide[0]['subscriptions']:,}",
            "as HTREE-29; Tama with 200 constraints and 5,000,000 subscriptions would take 40 GB",
        ),
        decided(
            "HTREE-40",
            compared["popular"] <= compared["random"] <= compared["rare"],
            ", ".join(f"{name}: {one:.0f} candidates" for name, one in compared.items())
            + "; popularity is one count per constraint and one number per attribute",
            "the draw of the random attributes has more popular ones",
        ),
    ]


def _draw_zipf(lines: list[dict[str, Any]], path: Path) -> None:
    mine = [line for line in lines if line["constraints"] != MOST_CONSTRAINTS]
    size = mine[0]["subscriptions"]
    title = f"HT-zipf: n = {size:,}, m = 50, k = 20, w = 0.1, c = l = 8 (HTREE figure 11)"
    pyplot, figure, plots = canvas(1, 2, title)
    for name in ("Simple", "Tama", "H-Tree"):
        shown = of(mine, name)
        for plot, key in zip(plots.flat, ("us per event", "sd over events (us)"), strict=True):
            plot.plot(
                [line["a"] for line in shown], [line[key] / 1e3 for line in shown], marker="o", label=name
            )
    for plot, label in zip(plots.flat, ("time per event (ms)", "deviation over events (ms)"), strict=True):
        plot.set(xlabel="Zipf parameter a (1)", ylabel=label, yscale="log")
        plot.legend(fontsize="small")
    save(pyplot, figure, path)
