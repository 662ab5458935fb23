"""Matchers of HTREE, by name."""

from __future__ import annotations

from pubsub_cluster.algorithms.htree.h_tree import HTree
from pubsub_cluster.algorithms.htree.simple import Simple
from pubsub_cluster.algorithms.htree.tama import Tama
from pubsub_cluster.algorithms.interface import Entry

ENTRIES: dict[str, Entry] = {
    "h-tree": Entry(HTree, "HTREE", "ranges in a hash table over overlapping cells of several attributes"),
    "tama": Entry(Tama, "HTREE", "pieces of ranges on 13 levels, counted; candidates are verified"),
    "simple": Entry(Simple, "HTREE", "every subscription, to the first range that does not hold"),
}
