"""Matchers of LESUB, by name."""

from __future__ import annotations

from pubsub_cluster.algorithms.interface import Entry
from pubsub_cluster.algorithms.lesub import equality_preferred, fair_predicate, quarantining

ENTRIES: dict[str, Entry] = {
    "fair-predicate": Entry(fair_predicate.matcher, "LESUB", "each predicate once, then all sums compared"),
    "equality-preferred": Entry(
        equality_preferred.matcher, "LESUB", "clusters by equalities, the other predicates counted"
    ),
    "quarantining": Entry(
        quarantining.matcher, "LESUB", "clusters by equalities, the other predicates checked one by one"
    ),
}
