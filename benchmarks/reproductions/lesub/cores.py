"""What LESUB's experiments measure: the cores of its counting algorithms, naive beside them, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub.counting_kernels import COUNTERS, evaluate_all
from pubsub_cluster.algorithms.lesub.equality_preferred import EqualityPreferred
from pubsub_cluster.algorithms.lesub.fair_predicate import FairPredicate
from pubsub_cluster.algorithms.lesub.quarantining import Quarantining
from pubsub_cluster.algorithms.rows import matched_rows
from pubsub_cluster.benchmarks.workloads.lesub import LeSubscribe


class Naive:
    """The naive algorithm over columns; its catalogue does not change."""

    def __init__(self) -> None:
        self.counters = np.zeros(COUNTERS, np.int64)
        self._catalogue: Any = None

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        self._catalogue = tuple(catalogue)
        self.counters[:] = 0

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `conjunctions.Core`."""

        def match_row(event: F8, found: I8) -> int:
            return int(evaluate_all(self._catalogue, event, found, self.counters))

        return matched_rows(values, len(self._catalogue[0]), match_row)


class Counted(Protocol):
    """A core that counts its work."""

    counters: I8

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `conjunctions.Core`."""


CORES: dict[str, Callable[[], Counted]] = {
    "naive": Naive,
    "fair-predicate": FairPredicate,
    "equality-preferred": EqualityPreferred,
    "quarantining": Quarantining,
}
PASSES = 9


def built(names: tuple[str, ...], catalogue: Conjunctions) -> dict[str, Counted]:
    """Return matchers that hold a catalogue and are compiled."""
    cores = {}
    for name in names:
        cores[name] = CORES[name]()
        cores[name].build(catalogue)
        cores[name].match(np.zeros((1, int(catalogue.attribute.max()) + 1)))
    return cores


def measured(made: LeSubscribe, cores: Mapping[str, Counted], events: F8) -> list[dict[str, Any]]:
    """Match events with each matcher in turns; return a line per matcher with its best pass and its work.

    Answers are compared in every pass.
    """
    times: dict[str, list[float]] = {name: [] for name in cores}
    for _ in range(PASSES):
        answers = set()
        for name, core in cores.items():
            core.counters[:] = 0
            begin = time.perf_counter()
            row, owner = core.match(events)
            times[name].append(time.perf_counter() - begin)
            order = np.lexsort((owner, row))
            answers.add((row[order].tobytes(), owner[order].tobytes()))
        assert len(answers) == 1, "two matchers disagree"
    return [
        {
            "subscriptions": made.subscriptions,
            "matcher": name,
            "equality probability": made.equality_probability,
            "values of strings": made.string_values,
            "us per event": 1e6 * min(times[name]) / len(events),
            "matches per event": len(row) / len(events),
            **{
                f"{what} per event": float(core.counters[at]) / len(events)
                for at, what in enumerate(("probes", "additions", "comparisons", "look-ups", "checks"))
            },
        }
        for name, core in cores.items()
    ]
