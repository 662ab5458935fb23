"""What LESUB's counting algorithms did, beside what they should do by the plainest count."""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.lesub.counting_kernels import CHECKS, COMPARISONS, LOOKUPS, PROBES, SUMS
from pubsub_cluster.benchmarks.reproductions.lesub.cores import CORES
from pubsub_cluster.benchmarks.reproductions.outcome import Verdict, decided


class Work:
    """What the algorithms did for some events, beside what they should do by the plainest count."""

    def __init__(self, catalogue: Conjunctions, events: Any, cores: dict[str, Any]) -> None:
        self.catalogue, self.events = catalogue, events
        self.cores = cores
        self.done = {name: core.counters.copy() for name, core in cores.items()}
        self.sizes = np.diff(catalogue.stops)
        self.is_other = catalogue.comparison != Comparison.EQ
        equalities = np.add.reduceat(~self.is_other, catalogue.stops[:-1], dtype=np.int64)
        self.without = int((equalities == 0).sum())
        self.has_some = equalities > 0
        self.others = self.sizes - equalities

    def expected(self) -> dict[str, int]:
        """Count, event by event, what each algorithm has to do."""
        found = dict.fromkeys(("hits", "other hits", "candidates", "other predicates"), 0)
        at = self.catalogue
        for event in self.events:
            value = event[at.attribute]
            holds = np.where(at.comparison == Comparison.EQ, value == at.constant, value < at.constant)
            holds = np.where(at.comparison == Comparison.GT, value > at.constant, holds)
            found["hits"] += int(holds.sum())
            found["other hits"] += int((holds & self.is_other).sum())
            failed = np.add.reduceat(~holds & ~self.is_other, at.stops[:-1], dtype=np.int64)
            is_candidate = (failed == 0) & self.has_some
            found["candidates"] += int(is_candidate.sum())
            found["other predicates"] += int(self.others[is_candidate].sum())
        return found

    def contained(self) -> int:
        """Count the schemas of equalities that each event has all of."""
        used = np.zeros((len(self.sizes), self.events.shape[1]), np.bool_)
        conjunction = np.repeat(np.arange(len(self.sizes)), self.sizes)
        used[conjunction[~self.is_other], self.catalogue.attribute[~self.is_other]] = True
        schemas = np.unique(used[used.any(axis=1)], axis=0)
        return int(sum((~schemas | ~np.isnan(event)).all(axis=1).sum() for event in self.events))

    def verdicts(self, share_of_counting: float) -> list[Verdict]:
        """Decide what is a matter of counting."""
        count, events, expected = len(self.sizes), len(self.events), self.expected()
        naive, fair, preferred, quarantined = (self.done[name] for name in CORES)
        index = self.cores["fair-predicate"].store.predicates
        ours = f"{count:,} subscriptions, {events} events"
        fair_is = fair[SUMS] == expected["hits"] and fair[COMPARISONS] == count * events
        least = expected["candidates"] + self.without * events
        checks = int(quarantined[CHECKS])
        return [
            decided(
                "LESUB-02",
                bool(naive[CHECKS] <= self.sizes.sum() * events),
                f"{naive[CHECKS] / events:,.0f} of {self.sizes.sum():,} predicates an event",
            ),
            decided(
                "LESUB-03",
                bool(fair_is) and share_of_counting > 0.5,
                f"{ours}: {fair[SUMS] / events:,.0f} additions and {count:,} comparisons an event, "
                f"{100 * share_of_counting:.0f} % of the time",
                "searching takes more than half of the time",
            ),
            decided(
                "LESUB-04",
                bool(fair[PROBES] <= _probes_most(index, self.events)),
                f"{fair[PROBES] / events:.1f} constants looked at an event",
            ),
            _deduction(index, self.events),
            decided(
                "LESUB-16",
                bool(preferred[SUMS] == expected["other hits"] and preferred[COMPARISONS] == least),
                f"{preferred[SUMS] / events:,.0f} additions, "
                f"{preferred[COMPARISONS] / events:,.0f} comparisons",
            ),
            decided(
                "LESUB-17",
                bool(preferred[LOOKUPS] == quarantined[LOOKUPS] == self.contained()),
                f"{preferred[LOOKUPS] / events:.1f} look-ups an event",
            ),
            decided(
                "LESUB-19",
                bool(quarantined[COMPARISONS] == self.without * events)
                and checks <= expected["other predicates"],
                f"{quarantined[COMPARISONS] / events:,.0f} comparisons, {checks / events:,.0f} checks of at "
                f"most {expected['other predicates'] / events:,.0f}",
            ),
        ]


def _probes_most(index: Any, events: Any) -> float:
    """Return how many constants searches may look at: log2(n) + 1 for each attribute and comparison."""
    slots = index.arrays[0][:, 1].reshape(-1, 6)
    each = np.where(slots > 0, np.log2(np.maximum(slots, 1)) + 1, 0.0).sum(axis=1)
    return float(sum(each[~np.isnan(event)].sum() for event in events))


def _deduction(index: Any, events: Any) -> Verdict:
    """Whether the satisfied predicates of each slot are a prefix or a suffix by constant (LESUB-05)."""
    used = slice(0, index.bound)
    slot = index.attribute[used].astype(np.int64) * 6 + index.comparison[used]
    order = np.lexsort((index.constant[used], slot))
    is_so = True
    for event in events:
        holds = np.zeros(index.bound, np.bool_)
        holds[index.satisfied(event)] = True
        turns = np.bincount(slot[order][1:], (np.diff(holds[order]) != 0) & (np.diff(slot[order]) == 0))
        is_range = np.isin(np.arange(len(turns)) % 6, (0, 1, 4, 5))
        is_so &= bool((turns[is_range] <= 1).all())
    return decided("LESUB-05", is_so, f"{len(events)} events, {index.count:,} distinct predicates")
