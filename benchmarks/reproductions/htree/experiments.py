"""Experiments of HTREE, by name."""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.htree import (
    constraints,
    index,
    memory,
    shapes,
    sizes,
    upkeep,
)
from pubsub_cluster.benchmarks.reproductions.htree.claims import CLAIMS
from pubsub_cluster.benchmarks.reproductions.outcome import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    "htree-index": Experiment(index.run, CLAIMS, "cells, buckets and candidates (HTREE sections 3 and 4)"),
    "htree-4": Experiment(sizes.run_sizes, CLAIMS, "matching by subscriptions (HTREE figure 4)"),
    "htree-5": Experiment(shapes.run_distributions, CLAIMS, "skewed values, converted (HTREE figure 5)"),
    "htree-6": Experiment(constraints.run_constraints, CLAIMS, "matching by constraints (HTREE figure 6)"),
    "htree-7": Experiment(constraints.run_rca, CLAIMS, "constraints by attributes (HTREE figure 7)"),
    "htree-8": Experiment(sizes.run_levels, CLAIMS, "matching by indexed attributes (HTREE figure 8)"),
    "htree-9": Experiment(sizes.run_cells, CLAIMS, "matching by cells (HTREE figure 9)"),
    "htree-10": Experiment(shapes.run_widths, CLAIMS, "matching by widths of ranges (HTREE figure 10)"),
    "htree-11": Experiment(constraints.run_zipf, CLAIMS, "attributes by Zipf's law (HTREE figure 11)"),
    "htree-12": Experiment(upkeep.run_insertion, CLAIMS, "insertion, fixed widths (HTREE figure 12)"),
    "htree-13": Experiment(upkeep.run_random_widths, CLAIMS, "insertion, random widths (HTREE figure 13)"),
    "htree-14": Experiment(upkeep.run_deletion, CLAIMS, "deletion by indexed attributes (HTREE figure 14)"),
    "htree-15": Experiment(memory.run_memory, CLAIMS, "memory by subscriptions (HTREE figure 15)"),
    "htree-t3": Experiment(memory.run_table, CLAIMS, "bytes of a subscription (HTREE table 3)"),
}
