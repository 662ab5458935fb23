"""Measurement of what a layout's tree costs on this machine; a part of `workers.measure`.

Unlike the steps of tables these are timed in memory that fits the caches: so small are the catalogues for
which a tree is worth having.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pubsub_cluster.shm.code_space import I4
from pubsub_cluster.workers.kernels import constants as kernels
from pubsub_cluster.workers.kernels.tables import CURSOR_AND_EVENTS, PENDING_MAX, Places, Tree, Walk

BRANCHES, MORE_BRANCHES = (16, 16, 4), (16, 16, 16, 8)
"""Children of the nodes of each level, of a small and of a large tree; the last ones are leaf nodes, of which
every event opens one."""

NARROW, WIDE = 2, 6
"""Dimensions: the difference is the price of an attribute."""

EVENTS = 2_000
SIDE = 1_000
"""Labels of a leaf node's box on each side."""


def grid_tree(dimensions: int, branches: tuple[int, ...] = BRANCHES) -> Tree:
    """Return a tree in which the children of a node lie side by side, each level in the next dimension."""
    tops = [SIDE] * dimensions
    for level, branch in enumerate(branches):
        tops[level % dimensions] *= branch
    lo, hi = [[0] * dimensions], [[top - 1 for top in tops]]
    first: list[int] = []
    count: list[int] = []
    level_of = [0]
    for node, level in enumerate(level_of):
        branch = branches[level] if level < len(branches) else 0
        first.append(len(lo) if branch else len(first))
        count.append(branch)
        side = level % dimensions
        width = (hi[node][side] + 1 - lo[node][side]) // max(branch, 1)
        for child in range(branch):
            below, above = list(lo[node]), list(hi[node])
            below[side] += child * width
            above[side] = below[side] + width - 1
            lo.append(below)
            hi.append(above)
            level_of.append(level + 1)
    leaf = np.cumsum(np.array(count) == 0) - 1
    return Tree(
        np.arange(dimensions, dtype=np.int32),
        np.array(lo, np.int32).T.reshape(-1),
        np.array(hi, np.int32).T.reshape(-1),
        np.where(np.array(count) == 0, leaf, first).astype(np.int32),
        np.array(count, np.int32),
    )


def nodes_of(branches: tuple[int, ...]) -> int:
    """Return how many nodes such a tree has."""
    return 1 + sum(math.prod(branches[: level + 1]) for level in range(len(branches)))


def walk_arguments(tree: Tree, events: I4) -> tuple[Any, ...]:
    """Return the arguments of `kernels.open_leaves`.

    Parameters
    ----------
    tree : Tree
    events : int32[n, dimensions]
        Labels, at least 1.
    """
    event_count, dimensions = events.shape
    entries = (
        np.arange(0, events.size + 1, dimensions, dtype=np.int64),
        np.tile(np.arange(dimensions, dtype=np.int32), event_count),
        events.reshape(-1),
    )
    leaves = int(np.count_nonzero(tree.tree_count == 0))
    leading = (
        np.zeros(leaves, np.int64),
        np.zeros(leaves, np.int32),
        np.zeros(64, np.int32),
        np.ones(1, np.uint8),
    )
    walk = Walk(
        np.zeros(dimensions, np.int32),
        np.zeros(dimensions, np.int32),
        np.zeros(len(tree.tree_first) + 1, np.int32),
        np.zeros(int(tree.tree_count.max(initial=0)), np.uint8),
    )
    places = Places(np.zeros(PENDING_MAX, np.int64), np.zeros(PENDING_MAX, np.int64))
    return entries, tree, leading, walk, np.zeros(CURSOR_AND_EVENTS, np.int64), places


def measure_nodes(
    random: np.random.Generator, events: int, shortest_ns: Callable[[Callable[[], Any]], float]
) -> dict[str, float]:
    """Time the way down; return what an inner node costs without attributes, one's share, and what it costs
    more where the tree has twice as many nodes."""
    narrow, wide = (_node_ns(random, events, one, BRANCHES, shortest_ns) for one in (NARROW, WIDE))
    per_attribute = max((wide - narrow) / (WIDE - NARROW), 0.05)
    large = _node_ns(random, events, NARROW, MORE_BRANCHES, shortest_ns)
    doublings = math.log2(nodes_of(MORE_BRANCHES) / nodes_of(BRANCHES))
    return {
        "node_ns": max(narrow - NARROW * per_attribute, 0.1),
        "node_attribute_ns": per_attribute,
        "node_doubling_ns": max((large - narrow) / doublings, 0.01),
    }


def _node_ns(
    random: np.random.Generator,
    events: int,
    dimensions: int,
    branches: tuple[int, ...],
    shortest_ns: Callable[[Callable[[], Any]], float],
) -> float:
    tree = grid_tree(dimensions, branches)
    top = tree.tree_hi[:: len(tree.tree_first)]
    labels = np.stack([random.integers(1, most + 1, events) for most in top.tolist()], axis=1)
    arguments = walk_arguments(tree, labels.astype(np.int32))
    return shortest_ns(lambda: kernels.open_leaves(*arguments)) / (events * len(branches))
