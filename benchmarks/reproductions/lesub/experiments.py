"""Experiments of LESUB, by name."""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.lesub import (
    insertion,
    ratios,
    schema,
    times,
    trees_costs,
    trees_hanson,
    trees_neon,
    trees_network,
    trees_paths,
    workers,
)
from pubsub_cluster.benchmarks.reproductions.lesub.claims import CLAIMS
from pubsub_cluster.benchmarks.reproductions.outcome import Experiment
from pubsub_cluster.benchmarks.reproductions.rr4089.claims import CLAIMS as RR_CLAIMS

EXPERIMENTS: dict[str, Experiment] = {
    "lesub-time": Experiment(
        times.run, CLAIMS, "processing and execution time against the number of subscriptions (LESUB)"
    ),
    "lesub-ratio": Experiment(ratios.run, CLAIMS, "the ratio of nonequality predicates, 0 included (LESUB)"),
    "lesub-insertion": Experiment(insertion.run, CLAIMS, "time of an insertion (LESUB)"),
    "lesub-workers": Experiment(
        workers.run, CLAIMS, "clusters dealt to workers; event types (LESUB, outlook)"
    ),
    "lesub-schema": Experiment(
        schema.run, CLAIMS, "valid events, extensions of the schema, hierarchies (LESUB, event model)"
    ),
    "lesub-trees": Experiment(
        trees_paths.run, CLAIMS, "the trees of Gough and of Aguilera: nodes, paths and time per event (LESUB)"
    ),
    "lesub-hanson": Experiment(
        trees_hanson.run,
        CLAIMS,
        "Hanson's trees: candidates, the least selective predicate, insertion (LESUB)",
    ),
    "lesub-neon": Experiment(
        trees_neon.run, CLAIMS, "NEON's tables: rows and operations, two event types (LESUB)"
    ),
    "lesub-costs": Experiment(
        trees_costs.run, CLAIMS, "bytes, evaluations and insertions of Gough's tree and of counting (LESUB)"
    ),
    "rr4089-54": Experiment(
        trees_network.run, RR_CLAIMS, "bytes and insertions of test networks (RR-4089, section 5)"
    ),
}
