"""RR-4089 figures 3a, 3c, 3d: time per event, memory and loading of the five matchers on W0, by size.

Counting, propagation and dynamic load batches of 10,000 from size to size; static is built anew at each.
One run serves the three figures.
"""

from __future__ import annotations

import functools
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.algorithms.rr4089.counting import Counting
from pubsub_cluster.algorithms.rr4089.dynamic import Dynamic
from pubsub_cluster.algorithms.rr4089.propagation import Propagation
from pubsub_cluster.algorithms.rr4089.static import Static
from pubsub_cluster.algorithms.rr4089.two_phase import TwoPhase
from pubsub_cluster.benchmarks.reproductions.fits import log_slope
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.reproductions.rr4089 import loads
from pubsub_cluster.benchmarks.reproductions.rr4089.loads import (
    COUNTING,
    DYNAMIC,
    PREFETCH,
    PROPAGATION,
    STATIC,
    Times,
    us,
)
from pubsub_cluster.benchmarks.workloads.papers import FixedAndFree, w0

SIZES: dict[Scale, tuple[int, ...]] = {
    "small": (100_000, 200_000, 300_000),
    "paper": (100_000, 1_000_000, 3_000_000, 6_000_000),
}
DELETED, DELETED_AT_ONCE = 2_000, 50
PASSES = 5
CHECKED_BY_HAND = 5
TIME = "microseconds per event"
PAPER_SIZE = 6_000_000
PAPER_MS = {COUNTING: 90377.0, PROPAGATION: 804.0, PREFETCH: 509.0, DYNAMIC: 166.0}
"""Per 100 events at 6 M."""
NAMES = (COUNTING, PROPAGATION, PREFETCH, STATIC, DYNAMIC)
MAKERS: dict[str, Any] = {COUNTING: Counting, PROPAGATION: Propagation, DYNAMIC: Dynamic, STATIC: Static}
TOO_SMALL = "the claim is about 6 M subscriptions; this scale ends at {:,}"


class Point(NamedTuple):
    """What was measured of a matcher at a size.

    Attributes
    ----------
    times : Times
    bytes_, bytes_in_all : int
        Read by matching; and by changes too.
    loading : float
        Seconds, from nothing to this size.
    deletion : float
        Seconds per subscription; 0 where it was not measured.
    tables : int
    """

    times: Times
    bytes_: int
    bytes_in_all: int
    loading: float
    deletion: float
    tables: int


Found = dict[int, dict[str, Point]]


@functools.cache
def measured(scale: Scale, note: Note) -> tuple[Found, bool]:
    """Return points by size and name, and whether copies of subscriptions leave the indexes as they are."""
    workload = w0(SIZES[scale][-1])
    loads.compile_all(MAKERS)
    growing: dict[str, TwoPhase] = {name: MAKERS[name]() for name in (COUNTING, PROPAGATION, DYNAMIC)}
    seconds = dict.fromkeys(growing, 0.0)
    found: Found = {}
    before = 0
    for size in SIZES[scale]:
        note(f"{size:,} subscriptions")
        for name, core in growing.items():
            seconds[name] += loads.load(core, workload, before, size)
        before = size
        static = Static()
        catalogue = loads.part_of(workload, 0, size)
        began = time.perf_counter()
        static.build(catalogue)
        loading = {**seconds, PREFETCH: seconds[PROPAGATION], STATIC: time.perf_counter() - began}
        del catalogue
        found[size] = _points(workload, size, {**growing, STATIC: static}, loading)
        del static
    return found, _copies_change_nothing(growing[DYNAMIC], workload)


def _points(
    workload: FixedAndFree, size: int, built: dict[str, TwoPhase], loading: dict[str, float]
) -> dict[str, Point]:
    propagation = built[PROPAGATION]
    assert isinstance(propagation, Propagation)
    cores = {**built, PREFETCH: loads.prefetching(propagation)}
    rows = loads.rows_of(workload, loads.EVENTS)
    few = rows[: max(CHECKED_BY_HAND, 10)]
    times = loads.timed(cores, {name: few if name == COUNTING else rows for name in cores}, PASSES)
    by_hand = loads.brute_force_count(workload, size, rows[:CHECKED_BY_HAND])
    assert len(cores[DYNAMIC].match(rows[:CHECKED_BY_HAND])[0]) == by_hand
    deletion = dict.fromkeys(cores, 0.0) | {DYNAMIC: _deletion(cores[DYNAMIC], workload, size)}
    return {
        name: Point(
            times[name],
            core.bytes,
            core.bytes_in_all,
            loading[name],
            deletion[name],
            len(core.clusters.tables) if isinstance(core, Static | Dynamic) else 0,
        )
        for name, core in cores.items()
    }


def _deletion(core: TwoPhase, workload: FixedAndFree, size: int) -> float:
    """Return the seconds that a deletion takes, the best batch's; what was deleted is inserted again."""
    assert isinstance(core, Dynamic)
    owners = np.linspace(0, size - 1, DELETED).astype(np.int64)
    numbers = np.flatnonzero(np.isin(core.store.owner[: core.store.bound], owners)).astype(np.int32)
    gone = core.store.owner[numbers].copy()
    seconds = []
    for begin in range(0, len(numbers), DELETED_AT_ONCE):
        mine = numbers[begin : begin + DELETED_AT_ONCE]
        began = time.perf_counter()
        core.remove(mine)
        seconds.append((time.perf_counter() - began) / len(mine))
    for owner in gone.tolist():
        core.insert(loads.part_of(workload, owner, owner + 1))
    return float(np.median(seconds))


def _copies_change_nothing(core: TwoPhase, workload: FixedAndFree) -> bool:
    predicates = core.store.predicates
    before = tuple(np.array(part) for part in predicates.arrays)
    copies = loads.part_of(workload, 0, 100)
    core.insert(copies._replace(owner=copies.owner + (1 << 40)))
    return all(bool(np.all(old == new)) for old, new in zip(before, predicates.arrays, strict=True))


def _lines(found: Found) -> list[dict[str, Any]]:
    return [
        {
            "subscriptions": size,
            "matcher": name,
            TIME: 1e6 * point.times.total,
            "phase 1": 1e6 * point.times.first,
            "phase 2": 1e6 * point.times.second,
            "checked per event": point.times.checked,
            "tables": point.tables,
            "bytes matching reads": point.bytes_,
            "bytes in all": point.bytes_in_all,
            "seconds to load": point.loading,
            "paper, microseconds per event at 6 M": 10.0 * PAPER_MS.get(name, float("nan")),
        }
        for size, points in found.items()
        for name, point in points.items()
    ]


def _at_full_size(scale: Scale, verdicts: list[Verdict], claims: tuple[str, ...]) -> list[Verdict]:
    """Leave claims about the paper's sizes undecided at others."""
    if scale == "paper":
        return verdicts
    why = TOO_SMALL.format(SIZES[scale][-1])
    return [one._replace(verdict="not decided", why=why) if one.claim in claims else one for one in verdicts]


def _of_order(found: Found) -> list[Verdict]:
    """Decide which matcher is how much faster than which, at the largest size (RR-01 to -05)."""
    size = list(found)[-1]
    total = {name: found[size][name].times.total for name in NAMES}
    wp, plain = total[DYNAMIC] / total[PREFETCH], total[DYNAMIC] / total[PROPAGATION]
    by_counting = total[COUNTING] / total[DYNAMIC], total[COUNTING] / total[PROPAGATION]
    gain = total[PROPAGATION] / total[PREFETCH]
    order = " < ".join(f"{name} {us(total[name])}" for name in (DYNAMIC, PREFETCH, PROPAGATION, COUNTING))
    rising = [total[name] for name in (DYNAMIC, PREFETCH, PROPAGATION, COUNTING)]
    return [
        Verdict(
            "RR-01",
            "not decided",
            f"{1 / total[DYNAMIC]:,.0f} events/s at {size:,}, matching alone",
            "nothing to decide: a figure of another machine",
        ),
        decided("RR-02", rising == sorted(rising), order, "the order is another one"),
        decided("RR-03", wp <= 0.5 and plain <= 0.35, f"{wp:.3f}, {plain:.3f}", "tables gain too little"),
        decided(
            "RR-04",
            by_counting[0] >= 100 and by_counting[1] >= 20,
            f"counting / dynamic {by_counting[0]:.0f}, counting / propagation {by_counting[1]:.1f}",
            "hits of a predicate lie in ascending order, so that caches serve counting better than in 2000",
        ),
        decided(
            "RR-05",
            gain >= 1.2,
            f"{gain:.2f}",
            "the arrays are read in order, and the hardware asks ahead for such by itself",
        ),
    ]


def _of_growth(found: Found) -> list[Verdict]:
    """Decide what grows with the subscriptions, and in which phase (RR-06 to -11)."""
    sizes = list(found)
    last, first = found[sizes[-1]], found[sizes[0]]
    dynamic, prefetch = last[DYNAMIC].times, last[PREFETCH].times
    growth = dynamic.total / first[DYNAMIC].times.total
    second = dynamic.second / first[DYNAMIC].times.second
    checks = dynamic.checked / first[DYNAMIC].times.checked
    more = last[DYNAMIC].tables, first[DYNAMIC].tables
    apart = max(abs(points[DYNAMIC].tables - points[STATIC].tables) for points in found.values())
    beside = max(points[DYNAMIC].times.total / points[STATIC].times.total for points in found.values())
    phases = dynamic.first / dynamic.second
    firsts = [points[PREFETCH].times.first / points[DYNAMIC].times.first for points in found.values()]
    steep = log_slope(sizes, [points[PREFETCH].times.second for points in found.values()])
    lead = prefetch.second / dynamic.second
    return [
        decided(
            "RR-06",
            growth <= 1.5,
            f"t({sizes[-1]:,}) / t({sizes[0]:,}) = {growth:.2f}; phase 2 alone {second:.2f}",
            f"phase 1 takes {us(dynamic.first)} only, so that the look-ups of {more[0]} tables, each a few "
            f"lines of memory ({us(dynamic.second)}), are not hidden behind it",
        ),
        decided(
            "RR-07", checks <= 15 and more[0] > more[1], f"{checks:.2f}; tables {more[1]} and {more[0]}", "so"
        ),
        decided(
            "RR-08",
            apart <= 2 and beside <= 1.1,
            f"tables differ by {apart} at most, t(dynamic) / t(static) <= {beside:.2f}; dynamic's thresholds "
            f"are ours",
            "of the numbers of tables or the times one is beyond",
        ),
        decided(
            "RR-09",
            phases >= 2,
            f"{us(dynamic.first)} and {us(dynamic.second)}: {phases:.2f}",
            "events come decoded, as rows, so that phase 1 is the search for predicates alone; the paper's "
            "includes parsing",
        ),
        decided(
            "RR-10",
            all(0.9 <= one <= 1.1 for one in firsts),
            ", ".join(f"{one:.2f}" for one in firsts),
            "the same kernel on the same index; in microseconds the caches that the other phase left show",
        ),
        decided(
            "RR-11",
            0.7 <= steep <= 1.1 and lead >= 10,
            f"slope {steep:.2f}; phase 2 {lead:.1f} times dynamic's",
            "the slope, or dynamic's lead, is beyond",
        ),
    ]


def run_3a(scale: Scale, note: Note) -> Outcome:
    """Times (figure 3a)."""
    found, _ = measured(scale, note)
    verdicts = _of_order(found) + _of_growth(found)
    full = ("RR-02", "RR-03", "RR-04", "RR-05", "RR-06", "RR-07", "RR-09", "RR-11")
    panels = {"time per event, µs (x: the paper's)": TIME, "phase 2, µs": "phase 2"}
    lines = _lines(found)
    return Outcome(lines, _at_full_size(scale, verdicts, full), partial(draw, lines, panels, "figure 3a, W0"))


def run_3c(scale: Scale, note: Note) -> Outcome:
    """Memory (figure 3c)."""
    found, _ = measured(scale, note)
    whole = {name: [points[name].bytes_in_all for points in found.values()] for name in NAMES}
    ratio = max(c / p for c, p in zip(whole[COUNTING], whole[PROPAGATION], strict=True))
    ordered = all(
        p == w < c < d
        for p, w, c, d in zip(
            whole[PROPAGATION], whole[PREFETCH], whole[COUNTING], whole[DYNAMIC], strict=True
        )
    )
    sizes = list(found)
    each = {name: whole[name][-1] / sizes[-1] for name in (PROPAGATION, COUNTING, DYNAMIC)}
    per_predicate = {
        name: (whole[name][-1] / sizes[-1]) / (whole[name][1] / sizes[1])
        for name in (PROPAGATION, COUNTING, DYNAMIC)
    }
    loading = {name: [points[name].loading for points in found.values()] for name in NAMES}
    grows = all(a < b for rows in (whole, loading) for row in rows.values() for a, b in pairwise(row))
    texts = ", ".join(f"{name} {value:.0f}" for name, value in each.items())
    verdicts = [
        decided(
            "RR-17",
            ordered and ratio <= 1.5,
            f"bytes per subscription, changes included: {texts}; counting / propagation <= {ratio:.2f}",
            "a cluster behind a table of three attributes refers to two predicates and not to four, which is "
            "more than its hash takes; and arrays that double have more or less room to spare by their size",
        ),
        decided(
            "RR-19",
            grows and all(abs(one - 1) <= 0.15 for one in per_predicate.values()),
            f"bytes per predicate, {sizes[-1]:,} / {sizes[1]:,}: "
            + ", ".join(f"{name} {value:.2f}" for name, value in per_predicate.items()),
            "linear, but arrays double when they are full: the room to spare differs by size",
        ),
    ]
    lines = _lines(found)
    panels = {"bytes, changes included": "bytes in all", "bytes that matching reads": "bytes matching reads"}
    return Outcome(
        lines, _at_full_size(scale, verdicts, ("RR-19",)), partial(draw, lines, panels, "figure 3c, W0")
    )


def run_3d(scale: Scale, note: Note) -> Outcome:
    """Loading, insertion and deletion (figure 3d)."""
    found, is_alone = measured(scale, note)
    sizes = list(found)
    last, first = found[sizes[-1]], found[sizes[0]]
    counting, dynamic, static = (last[name].loading for name in (COUNTING, DYNAMIC, STATIC))
    middle = sizes[-2]  # 3 M
    insertion = (last[DYNAMIC].loading - found[middle][DYNAMIC].loading) / (sizes[-1] - middle)
    share = insertion / found[middle][DYNAMIC].times.total
    slower = last[DYNAMIC].deletion / first[DYNAMIC].deletion
    verdicts = [
        decided(
            "RR-18",
            counting < dynamic < static and dynamic / static <= 0.7,
            f"counting {counting:.1f} s, dynamic {dynamic:.1f} s, static {static:.1f} s at {sizes[-1]:,}",
            "static keeps each candidate's benefit as a sum and so takes up each subscription a few times "
            "only, not once per candidate and step; and it loads all at once",
        ),
        decided(
            "RR-39",
            0.1 <= share <= 3 and is_alone,
            f"{us(insertion)} beyond {middle:,}, in batches of {loads.LOADED_AT_ONCE:,}, / "
            f"{us(found[middle][DYNAMIC].times.total)} = {share:.2f}; copies leave the indexes: {is_alone}",
            "an insertion writes what matching only reads",
        ),
        decided(
            "RR-40",
            slower <= 2,
            f"{us(first[DYNAMIC].deletion)} at {sizes[0]:,}, {us(last[DYNAMIC].deletion)} at {sizes[-1]:,}, "
            f"in batches of {DELETED_AT_ONCE}",
            "its lines of memory are in no cache",
        ),
    ]
    lines = _lines(found)
    panels = {"seconds to load": "seconds to load"}
    full = ("RR-18", "RR-39", "RR-40")
    return Outcome(lines, _at_full_size(scale, verdicts, full), partial(draw, lines, panels, "figure 3d, W0"))


def draw(lines: list[dict[str, Any]], panels: dict[str, str], title: str, path: Path) -> None:
    """Draw columns over the number of subscriptions."""
    pyplot, figure, axes = canvas(1, len(panels), f"RR-4089 {title}")
    for at, (label, column) in enumerate(panels.items()):
        for name in NAMES:
            mine = [line for line in lines if line["matcher"] == name]
            (curve,) = axes[0, at].plot(
                [line["subscriptions"] for line in mine], [line[column] for line in mine], "o-", label=name
            )
            if column == TIME and name in PAPER_MS:
                axes[0, at].plot(PAPER_SIZE, 10.0 * PAPER_MS[name], "x", color=curve.get_color())
        axes[0, at].set(xscale="log", yscale="log", xlabel="subscriptions", ylabel=label)
        axes[0, at].legend(fontsize=7)
    save(pyplot, figure, path)
