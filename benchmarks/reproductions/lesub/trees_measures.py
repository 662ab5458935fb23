"""What the experiments on LESUB's trees share: interleaved times, slopes, and a plain evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import WITH_ATTRIBUTE, Comparison, Conjunctions, Core
from pubsub_cluster.algorithms.dimensions import F8

COMPARES: dict[Comparison, Callable[..., Any]] = {
    Comparison.LT: np.less,
    Comparison.LE: np.less_equal,
    Comparison.EQ: np.equal,
    Comparison.NE: np.not_equal,
    Comparison.GE: np.greater_equal,
    Comparison.GT: np.greater,
}
CHECKED = 20
"""Events that are evaluated plainly."""


def interleaved(calls: Mapping[str, Callable[[], Any]], passes: int) -> dict[str, list[float]]:
    """Call each in turn, `passes` times over; return the seconds of each call."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(passes):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            found[name].append(time.perf_counter() - begin)
    return found


def match_times(
    cores: Mapping[str, Core], catalogue: Conjunctions, values: F8, passes: int
) -> tuple[dict[str, float], float]:
    """Match in turn; return the best time per event in us of each, and the matches per event.

    In each pass all answers must be the same, and on the first events that of a plain evaluation.
    """
    sums = {}

    def match(name: str) -> Callable[[], None]:
        def call() -> None:
            event, owner = cores[name].match(values)
            sums[name] = len(event), int((event * 1_000_003 + owner).sum())

        return call

    expected = plain_matches(catalogue, values[:CHECKED])
    for name in cores:
        event, owner = cores[name].match(values[:CHECKED])
        assert set(zip(event.tolist(), owner.tolist(), strict=True)) == expected, f"{name} has other matches"
    times = interleaved({name: match(name) for name in cores}, passes)
    assert len(set(sums.values())) == 1, f"matches differ: {sums}"
    best = {name: 1e6 * min(times[name]) / len(values) for name in cores}
    return best, next(iter(sums.values()))[0] / len(values)


def truths(catalogue: Conjunctions, row: F8) -> npt.NDArray[np.bool_]:
    """Return which predicates hold for an event; `conjunctions.WITH_ATTRIBUTE` ones too."""
    has_other, right = catalogue.comparison >= WITH_ATTRIBUTE, catalogue.constant.copy()
    right[has_other] = row[catalogue.constant[has_other].astype(np.int64)]
    kind = np.where(has_other, catalogue.comparison - WITH_ATTRIBUTE, catalogue.comparison)
    left = row[catalogue.attribute]
    found = np.zeros(len(right), np.bool_)
    for comparison, compare in COMPARES.items():
        mine = kind == comparison
        found[mine] = compare(left[mine], right[mine])
    found &= ~(np.isnan(left) | np.isnan(right))
    return found


def plain_matches(catalogue: Conjunctions, values: F8, is_mine: Any = True) -> set[tuple[int, int]]:
    """Return (event, owner) of all matches; each conjunction has a predicate.

    `is_mine`, bool[events, conjunctions], says which conjunctions are asked at all.
    """
    starts, found = catalogue.stops[:-1], set()
    asked = np.broadcast_to(is_mine, (len(values), len(starts)))
    for event, row in enumerate(values):
        holds = np.logical_and.reduceat(truths(catalogue, row), starts) & asked[event]
        found |= {(event, owner) for owner in catalogue.owner[holds].tolist()}
    return found


def label_sizes(axis: Any, sizes: Sequence[float]) -> None:
    """Label a logarithmic axis of sizes with these alone."""
    axis.set_xscale("log")
    axis.set_xticks(list(sizes), [f"{size:,.0f}" for size in sizes])
    axis.tick_params(axis="x", which="minor", labelbottom=False)
