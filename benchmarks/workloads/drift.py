"""DRIFT-SCHEMA and DRIFT-SKEW: subscriptions that change while they come and go (RR-4089, section 6.2.3).

Subscriptions are numbered in the order in which they are inserted; with every one that comes the oldest one
goes, so those that live after `inserted` insertions are ``[inserted, inserted + subscriptions)``. The first
`old` hours' worth follows the old workload, what is inserted later the new one. The rate keeps the lifetime
of a subscription at what it is with 3 million of them and 50 insertions per second, whatever the size.

DRIFT-SCHEMA: one fixed and four free equalities on 16 of 32 attributes, later on the other 16.
DRIFT-SKEW: W0; later the first fixed attribute draws 2 values instead of 35, in subscriptions and events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubsub_cluster.benchmarks.workloads import draw
from pubsub_cluster.benchmarks.workloads.rules import I4, Domain, Events, Rules, interval_rules

ATTRIBUTES, DOMAIN, PREDICATES, SKEWED_DOMAIN = 32, 35, 5, 2
FULL_SIZE, FULL_RATE = 3_000_000, 50.0
OLD_H = 2
"""Hours before the new workload begins."""

HOURS = 21
"""Until everything follows the new workload, from 18.7 h on, and two hours more."""


@dataclass(frozen=True)
class Drift:
    """One of both.

    Attributes
    ----------
    name : str
    subscriptions : int
        Alive at any time.
    seed : int
    fixed : int
        Attributes of every subscription.
    drawn_from : int
        Attributes that a subscription's are drawn from, the fixed ones among them; the new workload's are
        those behind, where there are any left.
    new_values : int
        Of the first attribute, in the new workload.
    """

    name: str
    subscriptions: int
    seed: int
    fixed: int
    drawn_from: int
    new_values: int

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The attributes."""
        return tuple(Domain(f"a{number}") for number in range(ATTRIBUTES))

    @property
    def rate(self) -> float:
        """Insertions per second, and as many removals."""
        return FULL_RATE * self.subscriptions / FULL_SIZE

    def inserted(self, seconds: float) -> int:
        """Return the insertions of the first `seconds`."""
        return int(seconds * self.rate)

    def predicates(self, first: int, stop: int) -> tuple[I4, I4]:
        """Return attributes (fixed ones first) and constants of subscriptions [first, stop): int32[n, 5]."""
        free = self.drawn_from - self.fixed
        word = draw.words(self.seed, 1, first, stop - first, free)
        attribute = np.empty((stop - first, PREDICATES), np.int32)
        attribute[:, : self.fixed] = np.arange(self.fixed)
        attribute[:, self.fixed :] = draw.distinct(word, PREDICATES - self.fixed) + self.fixed
        word = draw.words(self.seed, 2, first, stop - first, PREDICATES)
        constant = draw.below(word, DOMAIN) + np.int32(1)
        new = max(self.subscriptions + self.inserted(OLD_H * 3_600) - first, 0)
        if self.drawn_from < ATTRIBUTES:
            attribute[new:] += ATTRIBUTES - self.drawn_from
        constant[new:, 0] = draw.below(word[new:, 0], self.new_values) + np.int32(1)
        return attribute, constant

    def rules(self, inserted: int) -> Rules:
        """Return those that are alive after so many insertions, oldest first."""
        attribute, constant = (
            part.reshape(-1) for part in self.predicates(inserted, inserted + self.subscriptions)
        )
        start = np.arange(0, PREDICATES * self.subscriptions + 1, PREDICATES, dtype=np.int64)
        return interval_rules(self.domains, attribute, constant, constant, start)

    def events(self, count: int, is_new: bool, first: int = 0) -> Events:
        """Draw events [first, first + count) of the old or the new workload."""
        word = draw.words(self.seed, 3, first, count, ATTRIBUTES)
        value = draw.below(word, DOMAIN) + np.int32(1)
        if is_new:
            value[:, 0] = draw.below(word[:, 0], self.new_values) + np.int32(1)
        return Events(self.domains, value)


def drift_schema(subscriptions: int = FULL_SIZE, seed: int = 1) -> Drift:
    """Return DRIFT-SCHEMA (figure 4a)."""
    return Drift("DRIFT-SCHEMA", subscriptions, seed, fixed=1, drawn_from=16, new_values=DOMAIN)


def drift_skew(subscriptions: int = FULL_SIZE, seed: int = 1) -> Drift:
    """Return DRIFT-SKEW (figure 4b)."""
    return Drift("DRIFT-SKEW", subscriptions, seed, fixed=2, drawn_from=32, new_values=SKEWED_DOMAIN)


DRIFTS = {"DRIFT-SCHEMA": drift_schema, "DRIFT-SKEW": drift_skew}
