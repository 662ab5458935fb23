"""Matchers of LESUB, by name."""

from __future__ import annotations

from pubsub_cluster.algorithms.interface import Entry
from pubsub_cluster.algorithms.lesub import fair_predicate

ENTRIES: dict[str, Entry] = {
    "fair-predicate": Entry(fair_predicate.matcher, "LESUB", "each predicate once, then all sums compared"),
}
