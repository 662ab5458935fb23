"""Matchers of RIABOV, by name."""

from __future__ import annotations

from pubsub_cluster.algorithms.interface import Entry
from pubsub_cluster.algorithms.riabov.hilbert_r_tree import HilbertRTree
from pubsub_cluster.algorithms.riabov.s_tree import STree

ENTRIES: dict[str, Entry] = {
    "s-tree": Entry(STree, "RIABOV", "boxes in an unbalanced tree, packed top-down"),
    "hilbert-r-tree": Entry(HilbertRTree, "RIABOV", "boxes in an R-tree, packed along a Hilbert curve"),
}
