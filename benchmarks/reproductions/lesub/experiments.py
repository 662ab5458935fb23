"""Experiments of LESUB, by name."""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.lesub import insertion, ratios, times, workers
from pubsub_cluster.benchmarks.reproductions.lesub.claims import CLAIMS
from pubsub_cluster.benchmarks.reproductions.outcome import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    "lesub-time": Experiment(
        times.run, CLAIMS, "processing and execution time against the number of subscriptions (LESUB)"
    ),
    "lesub-ratio": Experiment(ratios.run, CLAIMS, "the ratio of nonequality predicates, 0 included (LESUB)"),
    "lesub-insertion": Experiment(insertion.run, CLAIMS, "time of an insertion (LESUB)"),
    "lesub-workers": Experiment(
        workers.run, CLAIMS, "clusters dealt to workers; event types (LESUB, outlook)"
    ),
}
