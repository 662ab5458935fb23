"""Matchers of RR-4089, by name."""

from __future__ import annotations

from pubsub_cluster.algorithms.interface import Entry
from pubsub_cluster.algorithms.rr4089 import counting, dynamic, propagation, static

PAPER = "RR-4089"
ENTRIES: dict[str, Entry] = {
    "counting": Entry(counting.matcher, PAPER, "a hit per satisfied predicate; all hits: a match"),
    "propagation": Entry(propagation.matcher, PAPER, "clusters behind single equality predicates"),
    "propagation-prefetch": Entry(
        propagation.matcher_with_prefetch, PAPER, "the same, asking ahead for cache lines of clusters"
    ),
    "static": Entry(static.matcher, PAPER, "clusters behind tables that a cost model chooses"),
    "dynamic": Entry(dynamic.matcher, PAPER, "clusters behind tables that come and go with subscriptions"),
}
