"""Experiments of TOPSS, by name."""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Experiment
from pubsub_cluster.benchmarks.reproductions.topss import (
    loading,
    matching,
    memory,
    predicates,
    subscriptions,
)
from pubsub_cluster.benchmarks.reproductions.topss.claims import CLAIMS

EXPERIMENTS: dict[str, Experiment] = {
    "topss-2": Experiment(
        predicates.run, CLAIMS, "predicates by table and list, time and memory (TOPSS figures 2.1 to 2.6)"
    ),
    "topss-3": Experiment(
        subscriptions.run, CLAIMS, "counting over bytes, bits and lists, time (TOPSS figure 3)"
    ),
    "topss-4": Experiment(memory.run, CLAIMS, "memory of association tables and a database (TOPSS figure 4)"),
    "topss-table-1": Experiment(
        matching.run, CLAIMS, "time per event, databases beside the counting matchers (TOPSS table 1)"
    ),
    "topss-table-2": Experiment(
        loading.run, CLAIMS, "bulk loading, databases beside the counting matchers (TOPSS table 2)"
    ),
}
