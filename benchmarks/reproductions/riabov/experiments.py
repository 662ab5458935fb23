"""Experiments of RIABOV, by name."""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Experiment
from pubsub_cluster.benchmarks.reproductions.riabov import figure4, figure6, trees
from pubsub_cluster.benchmarks.reproductions.riabov.claims import CLAIMS

EXPERIMENTS: dict[str, Experiment] = {
    "riabov-4": Experiment(figure4.run, CLAIMS, "prices, popularity and amounts (RIABOV figure 4, our data)"),
    "riabov-6": Experiment(figure6.run, CLAIMS, "unicast or multicast by a threshold (RIABOV figure 6)"),
    "riabov-trees": Experiment(trees.run, CLAIMS, "shape and point queries of the S-tree (RIABOV section 3)"),
}
