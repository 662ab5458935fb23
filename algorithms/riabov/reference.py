"""The kernel of `tree_kernels` once more, and the sweep of the S-tree's packing, plainly."""

from __future__ import annotations

import math
from typing import Any


def search(points: Any, tree: Any, work: Any, begin: int, stops: Any, found: Any) -> int:
    """See `tree_kernels.search`."""
    node_lo, node_hi, first, count, is_leaf, box_lo, box_hi = tree
    visited = work[2]

    def holds(point: Any, lo: Any, hi: Any, at: int) -> bool:
        return all(lo[d, at] <= value <= hi[d, at] for d, value in enumerate(point))

    for event in range(begin, len(points)):
        total, stack, visited[event] = int(stops[event]), [0], 0
        while stack:
            node = stack.pop()
            visited[event] += 1
            children = range(first[node], first[node] + count[node])
            if not is_leaf[node]:
                stack += [child for child in children if holds(points[event], node_lo, node_hi, child)]
                continue
            if total + len(children) > len(found):
                return event
            for box in children:
                if holds(points[event], box_lo, box_hi, box):
                    found[total] = box
                    total += 1
        stops[event + 1] = total
    return len(points)


def sweep(lo: Any, hi: Any, order: Any, candidates: Any, work: Any, volume: Any, length: Any) -> None:
    """Sum volumes and sides of both bounding boxes; see `tuner.s_tree.divided_sizes`. `work` is not used."""
    for at, first in enumerate(candidates):
        volume[at] = length[at] = 0.0
        for part in (order[:first], order[first:]):
            sides = [
                max(hi[d, box] for box in part) - min(lo[d, box] for box in part) for d in range(len(lo))
            ]
            volume[at] += math.prod(sides)
            length[at] += sum(sides)
