"""W0, W1, W2 and W0-domains: the workloads of Fabret et al. (RR-4089, section 6, Table 1).

Names follow the report: n_t attributes, n_P predicates per subscription, of which some are *fixed* (the same
attributes in every subscription) and the others on attributes drawn without repeats from the unused ones.
Values are 1..domain, drawn uniformly; events have every attribute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubsub_cluster.benchmarks.workloads import draw
from pubsub_cluster.benchmarks.workloads.rules import I4, TOP, Domain, Events, Rules, interval_rules


@dataclass(frozen=True)
class FixedAndFree:
    """Subscriptions with fixed attributes 0, 1, 2, ... and free ones among the rest.

    Attributes
    ----------
    name : str
    subscriptions : int
    seed : int
    attributes : int
        n_t.
    domain : int
        Values 1..domain.
    fixed : str
        Operator of each fixed predicate, in order: characters of ``=<>``.
    free : int
        Number of free ``=`` predicates.
    """

    name: str
    subscriptions: int
    seed: int = 1
    attributes: int = 32
    domain: int = 35
    fixed: str = "=="
    free: int = 3

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The attributes."""
        return tuple(Domain(f"a{number}") for number in range(self.attributes))

    def predicates(self, first: int, stop: int) -> tuple[I4, I4]:
        """Return attributes, fixed ones first, and constants of [first, stop): int32[n, n_P]."""
        fixed, count = len(self.fixed), stop - first
        attribute = np.empty((count, fixed + self.free), np.int32)
        attribute[:, :fixed] = np.arange(fixed)
        for step in range(0, count, draw.ROWS_PER_STEP):
            rows = min(draw.ROWS_PER_STEP, count - step)
            word = draw.words(self.seed, 1, first + step, rows, self.attributes - fixed)
            attribute[step : step + rows, fixed:] = draw.distinct(word, self.free) + fixed
        word = draw.words(self.seed, 2, first, count, fixed + self.free)
        return attribute, draw.below(word, self.domain) + np.int32(1)

    def rules(self) -> Rules:
        """Draw the subscriptions."""
        attribute, constant = self.predicates(0, self.subscriptions)
        size = attribute.shape[1]
        lo, hi = constant.copy(), constant.copy()
        for column, operator in enumerate(self.fixed):
            if operator == "<":
                lo[:, column], hi[:, column] = 0, constant[:, column] - 1
            elif operator == ">":
                lo[:, column], hi[:, column] = constant[:, column] + 1, TOP
        start = np.arange(0, size * self.subscriptions + 1, size, dtype=np.int64)
        return interval_rules(self.domains, attribute.reshape(-1), lo.reshape(-1), hi.reshape(-1), start)

    def events(self, count: int, first: int = 0) -> Events:
        """Draw events [first, first + count)."""
        word = draw.words(self.seed, 3, first, count, self.attributes)
        return Events(self.domains, draw.below(word, self.domain) + np.int32(1))


def w0(subscriptions: int = 1_000_000, seed: int = 1) -> FixedAndFree:
    """Return W0: five ``=``, two of them fixed (figures 3a, 3c, 3d)."""
    return FixedAndFree("W0", subscriptions, seed)


def w1(subscriptions: int = 3_000_000, seed: int = 1) -> FixedAndFree:
    """Return W1: two fixed ``=``, one fixed ``>``, one free ``=`` (figure 3b)."""
    return FixedAndFree("W1", subscriptions, seed, fixed="==>", free=1)


def w2(subscriptions: int = 3_000_000, seed: int = 1) -> FixedAndFree:
    """Return W2: two fixed ``=``, five fixed ``<``, one fixed ``>``, one free ``=`` (figure 3b)."""
    return FixedAndFree("W2", subscriptions, seed, fixed="==<<<<<>", free=1)


def w0_domains(
    subscriptions: int = 1_000_000, seed: int = 1, domain: int = 50, predicates: int = 5
) -> FixedAndFree:
    """Return W0 with another domain and number of predicates (section 6.2.2)."""
    name = f"W0-domains({domain},{predicates})"
    return FixedAndFree(name, subscriptions, seed, domain=domain, free=predicates - 2)
