"""The workloads: frozen values; the same name and seed give the same bytes everywhere.

`WORKLOADS` names them; a workload has ``name``, ``subscriptions``, ``seed``, ``rules()`` and
``events(count, first)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from pubsub_cluster.benchmarks.workloads import adversarial, htree, mixed, papers, service, stock
from pubsub_cluster.benchmarks.workloads.rules import Events, Rules


class Workload(Protocol):
    """What every workload offers."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def subscriptions(self) -> int:
        """How many."""

    @property
    def seed(self) -> int:
        """What everything is drawn from."""

    def rules(self) -> Rules:
        """Draw the subscriptions."""

    def events(self, count: int, first: int = 0) -> Events:
        """Draw events [first, first + count)."""


class Entry(NamedTuple):
    """A workload's line in the list.

    Attributes
    ----------
    make : callable
        ``make(subscriptions=, seed=)``.
    subscriptions : int
        The usual number.
    events : int
        Events per timed pass.
    about : str
        One line.
    """

    make: Callable[..., Workload]
    subscriptions: int
    events: int
    about: str


_PAPER = "RR-4089"
WORKLOADS: dict[str, Entry] = {
    "W0": Entry(
        papers.w0, 1_000_000, 20_000, f"five equalities, two fixed, domain 35 ({_PAPER} fig. 3a, c, d)"
    ),
    "W1": Entry(papers.w1, 3_000_000, 5_000, f"three equalities and one fixed > ({_PAPER} fig. 3b)"),
    "W2": Entry(
        papers.w2, 3_000_000, 5_000, f"three equalities and six fixed inequalities ({_PAPER} fig. 3b)"
    ),
    **{
        f"W0-domains-{domain}": Entry(
            partial(papers.w0_domains, domain=domain),
            1_000_000,
            5_000,
            f"W0 with {domain} values ({_PAPER} 6.2.2)",
        )
        for domain in (10, 30, 50, 70, 90, 100)
    },
    "HT-n": Entry(htree.ht_n, 1_000_000, 1_000, "20 ranges of width 0.1 on 50 attributes (H-Tree fig. 4)"),
    "STOCK": Entry(
        stock.stock, 100_000, 1_000, "rectangles over bst, name, quote and volume (Riabov et al. section 5)"
    ),
    "ADS": Entry(mixed.ads, 3_000_000, 2_000, "equalities, ranges and sets on 122 attributes, Zipf"),
    "SERVICE": Entry(service.service, 100_000, 20_000, "text rules over log events, 10 matches per event"),
    **{
        name: Entry(
            partial(adversarial.Adversarial, name), size, events, f"adversarial: {adversarial.SHAPES[name]}"
        )
        for name, size, events in (
            ("giant-cluster", 200_000, 500),
            ("zero-matches", 1_000_000, 10_000),
            ("all-match", 20_000, 100),
            ("hot-value", 100_000, 200),
            ("wide", 1_000_000, 5_000),
            ("many-clauses", 200, 2_000),
        )
    },
}
