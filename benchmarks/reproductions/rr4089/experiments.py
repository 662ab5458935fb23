"""Experiments of RR-4089, by name."""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Experiment
from pubsub_cluster.benchmarks.reproductions.rr4089 import analysis, drift, example, micro, parameters, sweep
from pubsub_cluster.benchmarks.reproductions.rr4089.claims import CLAIMS

EXPERIMENTS: dict[str, Experiment] = {
    "rr4089-3a": Experiment(sweep.run_3a, CLAIMS, "time per event by subscriptions (RR-4089 figure 3a)"),
    "rr4089-3b": Experiment(parameters.run_operators, CLAIMS, "inequalities, W1 and W2 (RR-4089 figure 3b)"),
    "rr4089-3c": Experiment(sweep.run_3c, CLAIMS, "memory by subscriptions (RR-4089 figure 3c)"),
    "rr4089-3d": Experiment(sweep.run_3d, CLAIMS, "loading by subscriptions (RR-4089 figure 3d)"),
    "rr4089-6.2.2": Experiment(
        parameters.run_domains,
        CLAIMS,
        "sizes of domains, predicates per subscription (RR-4089 section 6.2.2)",
    ),
    "rr4089-4a": Experiment(drift.run_schema, CLAIMS, "schemas change over 20 hours (RR-4089 figure 4a)"),
    "rr4089-4b": Experiment(drift.run_skew, CLAIMS, "values get skewed over 20 hours (RR-4089 figure 4b)"),
    "rr4089-3.1": Experiment(example.run, CLAIMS, "example 3.1, computed (RR-4089)"),
    "rr4089-kernels": Experiment(micro.run, CLAIMS, "loops and look-ups (RR-4089 sections 2.2.3, 3.1.1)"),
    "rr4089-analysis": Experiment(
        analysis.run, CLAIMS, "what the algorithms promise, counted (RR-4089 sections 2.3, 3, 4, 6.1)"
    ),
}
