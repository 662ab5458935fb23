"""Kernels of packed trees: search for the boxes that hold a point, and the sweep of the S-tree's packing.

A tree is `packed_tree.Tree`, arrays only. Each kernel has its plain twin in `algorithms/reference.py`.
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


@kernel
def sweep(lo: Any, hi: Any, order: Any, candidates: Any, work: Any, volume: Any, length: Any) -> None:
    """Add up volumes and edge lengths of the two bounding boxes of each candidate partition (RIABOV 3.1).

    Parameters
    ----------
    lo, hi : float64[dimensions, boxes]
        Finite.
    order : int64[k]
        Boxes by their centres.
    candidates : int64[c]
        How many boxes the first part has; ascending, within 1 to k - 1.
    work : (float64[dimensions], float64[dimensions])
    volume, length : float64[c]
        Out: the sums of both boxes; length is the sum of sides, of which a perimeter is a multiple.
    """
    below, above = work
    dimensions, boxes = lo.shape[0], order.shape[0]
    for side in range(2):
        for dimension in range(dimensions):
            below[dimension] = lo[dimension, order[0 if side == 0 else boxes - 1]]
            above[dimension] = hi[dimension, order[0 if side == 0 else boxes - 1]]
        taken = 0
        for step in range(candidates.shape[0]):
            which = step if side == 0 else candidates.shape[0] - 1 - step
            wanted = candidates[which] if side == 0 else boxes - candidates[which]
            while taken < wanted:
                box = order[taken if side == 0 else boxes - 1 - taken]
                for dimension in range(dimensions):
                    below[dimension] = min(below[dimension], lo[dimension, box])
                    above[dimension] = max(above[dimension], hi[dimension, box])
                taken += 1
            product, total = 1.0, 0.0
            for dimension in range(dimensions):
                product *= above[dimension] - below[dimension]
                total += above[dimension] - below[dimension]
            if side == 0:
                volume[which], length[which] = product, total
            else:
                volume[which] += product
                length[which] += total
