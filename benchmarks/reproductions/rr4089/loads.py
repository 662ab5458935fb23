"""Workloads as the matchers' cores read them, and how cores are timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.rr4089.check_kernels import CHECKED
from pubsub_cluster.algorithms.rr4089.propagation import PREFETCHED, Propagation
from pubsub_cluster.algorithms.rr4089.two_phase import TwoPhase
from pubsub_cluster.benchmarks.workloads.drift import Drift
from pubsub_cluster.benchmarks.workloads.papers import FixedAndFree

OPERATORS = {"=": Comparison.EQ, "<": Comparison.LT, ">": Comparison.GT}
LOADED_AT_ONCE = 10_000
"""n_Sb of the report."""
EVENTS_AT_ONCE = 100
"""n_Eb."""
EVENTS = 1_000
"""Timed in a pass."""
PROPAGATION, PREFETCH, DYNAMIC, STATIC, COUNTING = (
    "propagation",
    "propagation-prefetch",
    "dynamic",
    "static",
    "counting",
)


class Times(NamedTuple):
    """Of one core, seconds per event; each the best of all passes.

    Attributes
    ----------
    total, first, second : float
        In all, and of each phase.
    checked : float
        Subscriptions checked per event.
    """

    total: float
    first: float
    second: float
    checked: float


def part_of(workload: FixedAndFree | Drift, first: int, stop: int) -> Conjunctions:
    """Return subscriptions [first, stop) of a workload, owned by their numbers."""
    attribute, constant = workload.predicates(first, stop)
    count, width = attribute.shape
    operators = getattr(workload, "fixed", 0)
    comparison = np.full(width, Comparison.EQ, np.int8)
    if isinstance(operators, str):
        comparison[: len(operators)] = [OPERATORS[one] for one in operators]
    return Conjunctions(
        np.arange(first, stop, dtype=np.int64),
        width * np.arange(count + 1, dtype=np.int64),
        attribute.reshape(-1),
        np.tile(comparison, count),
        constant.reshape(-1).astype(np.float64),
    )


def rows_of(workload: FixedAndFree, count: int, first: int = 0) -> Any:
    """Return events as rows, float64[count, attributes]."""
    return workload.events(count, first).value.astype(np.float64)


def load(core: TwoPhase, workload: FixedAndFree, first: int, stop: int) -> float:
    """Insert subscriptions in batches; return the seconds that this took, drawing them apart."""
    seconds = 0.0
    for begin in range(first, stop, LOADED_AT_ONCE):
        more = part_of(workload, begin, min(begin + LOADED_AT_ONCE, stop))
        began = time.perf_counter()
        core.insert(more)
        seconds += time.perf_counter() - began
    return seconds


def prefetching(core: Propagation) -> Propagation:
    """Return propagation with prefetch, over the same clusters."""
    twin = Propagation(PREFETCHED)
    twin.clusters = core.clusters
    return twin


def compile_all(makers: Mapping[str, Callable[[], TwoPhase]]) -> None:
    """Have all kernels compiled."""
    small = FixedAndFree("warm", 500, fixed="==", free=3)
    for make in makers.values():
        core = make()
        core.insert(part_of(small, 0, 250))
        core.build(part_of(small, 0, 500))
        core.match(rows_of(small, 2))
        core.delete(0)


def timed(cores: Mapping[str, TwoPhase], events: Mapping[str, Any], passes: int) -> dict[str, Times]:
    """Match events with each core in turn, `passes` times; the numbers of matches must be the same.

    Parameters
    ----------
    cores : mapping
    events : mapping
        Rows for each of them; they begin alike.
    passes : int
        One more comes before, for the memory to be there.
    """
    found: dict[str, list[Times]] = {name: [] for name in cores}
    fewest = min(map(len, events.values()))
    expected: Sequence[Any] | None = None
    for turn in range(passes + 1):
        for name, core in cores.items():
            rows = events[name]
            core.seconds[:] = 0.0, 0.0
            core.counters[:] = 0
            began = time.perf_counter()
            parts = [core.match(rows[at : at + EVENTS_AT_ONCE]) for at in range(0, len(rows), EVENTS_AT_ONCE)]
            total = time.perf_counter() - began
            pairs = zip(parts[0][0].tolist(), parts[0][1].tolist(), strict=True)
            matches = sorted(pair for pair in pairs if pair[0] < fewest)
            assert expected is None or matches == expected, f"{name} finds other matches"
            expected = matches
            if turn:
                each = [one / len(rows) for one in (total, *core.seconds, int(core.counters[CHECKED]))]
                found[name].append(Times(*each))
    return {name: Times(*map(min, zip(*times, strict=True))) for name, times in found.items()}


def brute_force_count(workload: FixedAndFree, subscriptions: int, events: Any) -> int:
    """Return how many matches there are, by plain comparison of all."""
    attribute, constant = workload.predicates(0, subscriptions)
    count = 0
    for row in events:
        holds = np.ones(subscriptions, np.bool_)
        for column in range(attribute.shape[1]):
            value = row[attribute[:, column]]
            operator = workload.fixed[column] if column < len(workload.fixed) else "="
            other = constant[:, column]
            holds &= (
                value == other if operator == "=" else value < other if operator == "<" else value > other
            )
        count += int(holds.sum())
    return count


def us(seconds: float) -> str:
    """Return microseconds as a text."""
    return f"{seconds * 1e6:.3g} µs"
