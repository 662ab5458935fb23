"""Matchers of HTREE on one workload: built, timed in turns, and held to the same answers.

Matchers take turns pass by pass, and the best pass counts; deviations are over the events, of each event's
least time. Simple and Tama see fewer events than H-Tree at large sizes, the first of the same ones (the paper
has 10,000); all matchers must agree on those, and with brute force on one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.algorithms.htree.h_tree import HTreeCore
from pubsub_cluster.algorithms.htree.plan import Axis, Plan, most_popular
from pubsub_cluster.algorithms.htree.range_core import ALL, RangeCore
from pubsub_cluster.algorithms.htree.ranges import Ranges
from pubsub_cluster.algorithms.htree.simple import SimpleCore
from pubsub_cluster.algorithms.htree.tama import TamaCore
from pubsub_cluster.algorithms.htree.tradeoff import expected_share
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.benchmarks.reproductions.outcome import Verdict, decided
from pubsub_cluster.benchmarks.workloads.htree import RESOLUTION
from pubsub_cluster.benchmarks.workloads.htree_ranges import RangeWorkload

CELLS, LEVELS = 8, 8
SLOW = ("Simple", "Tama")
FEW_ROWS = 100


class Subject(NamedTuple):
    """A built matcher.

    Attributes
    ----------
    core : RangeCore
    order : int64[n]
        Which subscription each row is.
    build_s : float
    """

    core: RangeCore
    order: I8
    build_s: float


class Timing(NamedTuple):
    """What a matcher takes per event.

    Attributes
    ----------
    us : float
        Mean.
    sd_us : float
        Over events.
    first_us : float
        Mean of events that match, until the first match is found.
    matches : float
        Per event.
    """

    us: float
    sd_us: float
    first_us: float
    matches: float


class Load(NamedTuple):
    """How much is measured.

    Attributes
    ----------
    slow_events, events : int
        For Simple and Tama, and for H-Tree.
    passes : int
    """

    slow_events: int
    events: int
    passes: int = 3


def axes(attributes: Sequence[int]) -> tuple[Axis, ...]:
    """Return axes over the domain of the workloads."""
    return tuple(Axis(attribute, 0.0, float(RESOLUTION)) for attribute in attributes)


def plan_of(workload: RangeWorkload, ranges: Ranges, cells: int = CELLS, levels: int = LEVELS) -> Plan:
    """Return a plan with the most popular attributes, not converted."""
    return Plan(axes(most_popular(ranges, workload.attributes, levels)), cells)


def built(core: RangeCore, ranges: Ranges) -> Subject:
    """Build, and say how long that took."""
    begin = time.perf_counter()
    order = core.build(ranges)
    return Subject(core, order, time.perf_counter() - begin)


def all_built(ranges: Ranges, plan: Plan) -> dict[str, Subject]:
    """Build all three."""
    return {
        "Simple": built(SimpleCore(), ranges),
        "Tama": built(TamaCore((0.0, float(RESOLUTION))), ranges),
        "H-Tree": built(HTreeCore(plan), ranges),
    }


def brute_force(ranges: Ranges, event: Any) -> I8:
    """Return which subscriptions match one event, by columns; each has ranges."""
    value = event[ranges.attribute]
    bad = (value < ranges.lo) | (value > ranges.hi)
    return np.flatnonzero(~np.logical_or.reduceat(bad, ranges.stops[:-1]))


def timed(
    subjects: Mapping[str, Subject],
    values: Any,
    load: Load,
    ranges: Ranges | None = None,
    spread: bool = False,
) -> dict[str, Timing]:
    """Time matchers in turns.

    Parameters
    ----------
    subjects : mapping
        Names in `SLOW` see the first `slow_events` only.
    values : int16[events, attributes]
    load : Load
    ranges : Ranges, optional
        To compare one event with brute force.
    spread : bool
        Event by event too: deviations, and times to the first match.
    """
    share = {name: values[: load.slow_events if name in SLOW else load.events] for name in subjects}
    for name, one in subjects.items():  # compiles
        one.core.match(share[name][:1])
    best = dict.fromkeys(subjects, np.inf)
    each: dict[str, list[Any]] = {name: [] for name in subjects}
    found: dict[str, tuple[I8, I8]] = {}
    for _ in range(load.passes):
        for name, one in subjects.items():
            begin = time.perf_counter()
            rows = one.core.match(share[name])
            best[name] = min(best[name], (time.perf_counter() - begin) / len(share[name]))
            event, row = rows.pairs()
            found[name] = event, one.order[row]
            if spread:
                each[name].append(event_times(one.core, share[name], np.unique(event)))
    check_equal(found, min(len(one) for one in share.values()), ranges, values)
    timings = {}
    for name in subjects:
        least = np.min(each[name], axis=0) if spread else np.zeros((2, 1))
        hits = np.unique(found[name][0])
        timings[name] = Timing(
            1e6 * float(best[name]),
            1e6 * float(least[0].std()),
            1e6 * float(least[1][hits].mean()) if spread and len(hits) else 0.0,
            len(found[name][0]) / len(share[name]),
        )
    return timings


def event_times(core: RangeCore, values: Any, hits: I8) -> Any:
    """Return seconds per event, and until the first match of those that have one: float64[2, events]."""
    found = np.zeros((2, len(values)))
    for kind, (most, events) in enumerate(((ALL, range(len(values))), (1, hits.tolist()))):
        for event in events:
            begin = time.perf_counter()
            core.match(values[event : event + 1], most)
            found[kind, event] = time.perf_counter() - begin
    return found


def check_equal(found: Mapping[str, tuple[I8, I8]], shared: int, ranges: Ranges | None, values: Any) -> None:
    """Fail unless all matchers agree on the events that all have seen, and with brute force on the first."""
    answers = []
    for event, subscription in found.values():
        is_shared = event < shared
        answers.append(np.unique((event[is_shared] << 32) | subscription[is_shared]))
    for one in answers[1:]:
        assert np.array_equal(one, answers[0]), "matchers disagree"
    if ranges is not None:
        first = answers[0][answers[0] < 1 << 32]
        assert np.array_equal(first, brute_force(ranges, values[0])), "brute force disagrees"


def expected_left(popularity: Sequence[float], cells: int) -> float:
    """Return F: the share of the subscriptions that an H-Tree compares, on average."""
    return float(np.prod([expected_share(one, cells) for one in popularity]))


def counted(subject: Subject, values: Any) -> tuple[float, float]:
    """Return buckets looked at and subscriptions compared per event, over these events."""
    assert isinstance(subject.core, HTreeCore)
    subject.core.match(values)
    buckets, compared = subject.core.seen.mean(axis=0).tolist()
    return buckets, compared


def tama_seen(subject: Subject, values: Any) -> Any:
    """Return Tama's counts, rows with a count and wrong candidates, int64[events, 3], of all these events."""
    assert isinstance(subject.core, TamaCore)
    subject.core.match(values)
    return subject.core.seen


def lookup_us(plan: Plan, ranges: Ranges, values: Any) -> float:
    """Return the time per event that the way to the buckets takes alone: of a tree with next to no rows."""
    core = HTreeCore(plan)
    core.build(ranges.first(min(ranges.rows, FEW_ROWS)))
    core.lists.heads[:] = core.lists.heads.copy()  # else all that is zero would be one page in the cache
    best = np.inf
    for _ in range(3):
        begin = time.perf_counter()
        core.match(values)
        best = min(best, (time.perf_counter() - begin) / len(values))
    return 1e6 * float(best)


def line_of(workload: RangeWorkload, name: str, timing: Timing | None = None, **more: Any) -> dict[str, Any]:
    """Return a line of a CSV: the workload, the matcher, its times, and what else there is."""
    return {
        "matcher": name,
        "subscriptions": workload.subscriptions,
        "attributes": workload.attributes,
        "constraints": workload.constrained,
        "width": workload.width,
        "us per event": timing.us if timing else "",
        "sd over events (us)": timing.sd_us if timing and timing.sd_us else "",
        "us to first match": timing.first_us if timing and timing.first_us else "",
        "matches per event": timing.matches if timing else "",
        **more,
    }


def of(lines: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the lines of one matcher."""
    return [line for line in lines if line["matcher"] == name]


def at_size(claim: str, size: int, needed: int, holds: bool, ours: str, why: str) -> Verdict:
    """Return a verdict on a claim about a number of subscriptions, which a smaller one does not decide."""
    if size < needed:
        reason = f"the claim is about {needed:,} subscriptions, which the scale `paper` has"
        return Verdict(claim, "not decided", f"{ours}; at {size:,}", reason)
    return decided(claim, holds, ours, why)
