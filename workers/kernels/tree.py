"""The tree: which of its leaf nodes an event opens (RIABOV section 3; `tuner.s_tree` packs it).

Nodes are the bounding boxes of clauses in labels. From the root on every child is opened whose box holds the
event, down to the leaf nodes, which are clusters like those of the slots: what is in them is checked there,
every literal of it. So boxes only have to hold all that may match. A missing value is label 0, and a box
without a bound begins there. Several values are the interval from their least label to their greatest: a
clause that some of them satisfy has boxes that meet it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel
from pubsub_cluster.workers.kernels.probe import add_blob
from pubsub_cluster.workers.kernels.tables import CURSOR_OPENED, CURSOR_TREE, PENDING_MAX, Index


@kernel
def place_event(event: Any, entries: Any, attribute_dimension: Any, least: Any, most: Any) -> None:
    """Write the least and the greatest label of each dimension of an event, 0 where it is missing.

    Parameters
    ----------
    event : int
    entries : tuple
        `entry_start`, `entry_attribute` and `entry_label` of EventTables.
    attribute_dimension : int32[A]
    least, most : int32[D]
        Out.
    """
    entry_start, entry_attribute, entry_label = entries
    for dimension in range(least.shape[0]):
        least[Index(dimension)] = 0
        most[Index(dimension)] = 0
    for entry in range(entry_start[event], entry_start[event + 1]):
        dimension = attribute_dimension[Index(entry_attribute[Index(entry)])]
        if dimension < 0:
            continue
        label = entry_label[Index(entry)]
        if most[Index(dimension)] == 0:
            least[Index(dimension)] = label
            most[Index(dimension)] = label
        else:
            least[Index(dimension)] = min(least[Index(dimension)], label)
            most[Index(dimension)] = max(most[Index(dimension)], label)


@kernel
def mark_children(first: Any, count: Any, bounds: Any, least: Any, most: Any, mark: Any) -> Any:
    """Mark the children [first, first + count) whose boxes hold the event; return whether any does.

    `bounds` are (`tree_lo`, `tree_hi`, nodes).
    """
    lo, hi, nodes = bounds
    for child in range(count):
        mark[Index(child)] = 1
    for dimension in range(least.shape[0]):
        at = dimension * nodes + first
        below, above = most[Index(dimension)], least[Index(dimension)]
        left = 0
        for child in range(count):
            mark[Index(child)] &= (lo[Index(at + child)] <= below) & (above <= hi[Index(at + child)])
            left |= mark[Index(child)]
        if left == 0:
            return False
    return True


@kernel
def collect_leaves(
    event: Any,
    count: Any,
    tree: Any,
    entries: Any,
    leading: Any,
    walk: Any,
    cursor: Any,
    places: Any,
    how: Any,
) -> Any:
    """Add the clusters of the leaf nodes that an event opens to `count` pending places.

    From `cursor` on, where it is told how much of the stack is left when the places are full, and how many
    inner nodes were opened.

    Parameters
    ----------
    event, count : int
    tree : Tree
    entries : tuple
        As for `place_event`.
    leading : tuple
        `cluster_start`, `cluster_partition`, the blob, `partition_mine`.
    walk, cursor, places
        Of Scratch.
    how : tuple
        What memory is asked for ahead (as for `add_blob`), and whether all partitions are this shard's.

    Returns
    -------
    tuple of (int, bool)
        Pending places, and whether all have been added.
    """
    attribute_dimension, tree_lo, tree_hi, tree_first, tree_count = tree
    cluster_start, cluster_partition, blob_words, mine = leading
    least, most, stack, mark = walk
    ask, all_mine = how
    bounds = tree_lo, tree_hi, tree_first.shape[0]
    top = cursor[Index(CURSOR_TREE)]
    if top == 0:
        place_event(event, entries, attribute_dimension, least, most)
        stack[0] = 0
        top = np.int64(1)
    opened = np.int64(0)
    while top > 0:
        if count == PENDING_MAX:
            cursor[Index(CURSOR_TREE)] = top
            cursor[Index(CURSOR_OPENED)] += opened
            return count, False
        top -= 1
        node = stack[Index(top)]
        first, children = tree_first[Index(node)], tree_count[Index(node)]
        if children == 0:
            if all_mine or mine[Index(cluster_partition[Index(first)])] != 0:
                count = add_blob(cluster_start[Index(first)], np.int64(-1), count, blob_words, places, ask)
            continue
        opened += 1
        if mark_children(first, children, bounds, least, most, mark):
            for child in range(children):
                stack[Index(top)] = first + child
                top += mark[Index(child)]
    cursor[Index(CURSOR_OPENED)] += opened
    return count, True
