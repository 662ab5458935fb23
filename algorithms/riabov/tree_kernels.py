"""The kernel of packed trees: search for the boxes that hold a point.

A tree is `packed_tree.Tree`, arrays only. The plain twin is in `reference`.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.workers.kernels._jit import kernel, leaf


@leaf
def _inside(point: Any, lo: Any, hi: Any, start: Any, size: Any, mask: Any) -> Any:
    """Say which of the boxes [start, start + size) hold a point; return whether any does."""
    for at in range(size):
        mask[at] = 1
    for dimension in range(point.shape[0]):
        value = point[dimension]
        left = 0
        for at in range(size):
            mask[at] &= (lo[dimension, start + at] <= value) & (value <= hi[dimension, start + at])
            left |= mask[at]
        if left == 0:
            return False
    return True


@kernel
def search(points: Any, tree: Any, work: Any, begin: Any, stops: Any, found: Any) -> Any:
    """Find the boxes that hold each point of [begin, n).

    Parameters
    ----------
    points : T[n, dimensions]
    tree : (T[dimensions, nodes], T[dimensions, nodes], int32[nodes], int32[nodes], uint8[nodes],
        T[dimensions, boxes], T[dimensions, boxes])
        The first seven fields of `packed_tree.Tree`.
    work : (int32[nodes], uint8[...], int64[n])
        A stack, a mask at least as long as the longest node, and the nodes that each point visits (out).
    begin : int
    stops : int64[n + 1]
        Where the boxes of each point end in `found`; in up to ``stops[begin]``, out from there on.
    found : int32[...]
        Places of boxes (out).

    Returns
    -------
    int
        n, or the point at which `found` was full.
    """
    node_lo, node_hi, first, count, is_leaf, box_lo, box_hi = tree
    stack, mask, visited = work
    for event in range(begin, points.shape[0]):
        total = stops[event]
        visited[event] = 0
        stack[0] = 0
        top = 1
        while top:
            top -= 1
            node = stack[top]
            visited[event] += 1
            start, size = first[node], count[node]
            if is_leaf[node]:
                if total + size > found.shape[0]:
                    return event
                if _inside(points[event], box_lo, box_hi, start, size, mask):
                    for at in range(size):
                        if mask[at]:
                            found[total] = start + at
                            total += 1
            elif _inside(points[event], node_lo, node_hi, start, size, mask):
                for at in range(size):
                    if mask[at]:
                        stack[top] = start + at
                        top += 1
        stops[event + 1] = total
    return points.shape[0]
