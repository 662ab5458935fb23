"""Packing boxes into an S-tree: an unbalanced tree of bounding boxes (RIABOV section 3).

The packing has two stages:

1. Binarisation (3.1). Boxes are divided in two until at most M are left, a leaf node: sorted by their
   centres on the longest side of the bounding box, at the place where the two bounding boxes have the least
   volume together, of places between p and 1 - p of all, M apart; ties have the least perimeter.
2. Compression (3.2). Breadth first from the root, a node takes the place of its child with most boxes, as
   long as it has fewer than M children and one that is no leaf node.

The paper first collapses everything below each node of up to M leaf nodes. Then a child may have more than
two children; whether the second step collapses such a child or not, it breaks a promise of the text (at most
M children, or inner nodes above the penultimate ones full). So this step is off unless it is asked for
(`bottom_up`), and such children are left alone then.

Where no whole number is within both bounds, as for p = 1/2 and odd numbers, the middle is taken. Packing
sorts about log(n) times.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.shm.code_space import F8, I4, I8

BRANCH = 40
"""M, "about 40"."""
SKEW = 0.3
"""p, "about 0.3"."""
NONE = -1


class BinaryTree(NamedTuple):
    """What binarisation gives; node 0 is the root, parents come before their children.

    Attributes
    ----------
    left, right : int32[nodes]
        `NONE` for leaf nodes.
    start, size : int64[nodes]
        A node has the boxes ``order[start:start + size]``; size is N_A.
    order : int64[boxes]
    """

    left: I4
    right: I4
    start: I8
    size: I8
    order: I8


class PackedNodes(NamedTuple):
    """The nodes of a packed tree, breadth first, so that the children of a node stand together.

    Attributes
    ----------
    first_child, child_count : int32[nodes]
        Children: nodes, or of a leaf node boxes in `order`.
    is_leaf : bool[nodes]
    order : int64[boxes]
    """

    first_child: I4
    child_count: I4
    is_leaf: npt.NDArray[np.bool_]
    order: I8


def candidate_places(count: int, branch: int, skew: float) -> I8:
    """Return how many boxes the first part may have: from p * N_A to (1 - p) * N_A in steps of M."""
    least, most = math.ceil(skew * count - 1e-9), math.floor((1 - skew) * count + 1e-9)
    return np.arange(least, most + 1, branch) if least <= most else np.array([count // 2])


def divided_sizes(below: F8, above: F8, places: I8) -> tuple[F8, F8]:
    """Return the sums of volumes, and of side lengths, of both bounding boxes when boxes are divided.

    Parameters
    ----------
    below, above : float64[dimensions, boxes]
        In order.
    places : int64[c]
        How many boxes the first part has; within 1 to boxes - 1.

    Returns
    -------
    volume, length : float64[c]
        A perimeter is a multiple of the length.
    """
    first = np.maximum.accumulate(above, axis=1) - np.minimum.accumulate(below, axis=1)
    rest = np.maximum.accumulate(above[:, ::-1], axis=1) - np.minimum.accumulate(below[:, ::-1], axis=1)
    sides = first[:, places - 1], rest[:, ::-1][:, places]
    volume = sides[0].prod(axis=0) + sides[1].prod(axis=0)
    return volume, sides[0].sum(axis=0) + sides[1].sum(axis=0)


def binarise(lo: F8, hi: F8, branch: int = BRANCH, skew: float = SKEW) -> BinaryTree:
    """Divide boxes in two, again and again (D-17).

    Parameters
    ----------
    lo, hi : float64[dimensions, boxes]
        Finite.
    branch : int
        M.
    skew : float
        p.
    """
    order = np.arange(lo.shape[1])
    nodes: list[list[int]] = [[NONE, NONE, 0, len(order)]]
    at = 0
    while at < len(nodes):
        _, _, start, size = nodes[at]
        if size > branch:
            mine = order[start : start + size]
            below, above = lo[:, mine], hi[:, mine]
            longest = int(np.argmax(above.max(axis=1) - below.min(axis=1)))
            by_centre = np.argsort(below[longest] + above[longest], kind="stable")
            order[start : start + size] = mine[by_centre]
            places = candidate_places(size, branch, skew)
            volume, length = divided_sizes(below[:, by_centre], above[:, by_centre], places)
            first = int(places[np.lexsort((length, volume))[0]])
            nodes[at][:2] = len(nodes), len(nodes) + 1
            nodes.append([NONE, NONE, start, first])
            nodes.append([NONE, NONE, start + first, size - first])
        at += 1
    columns = np.array(nodes, np.int64).reshape(-1, 4).T
    left, right = columns[:2].astype(np.int32)
    return BinaryTree(left, right, columns[2], columns[3], order)


def compress(tree: BinaryTree, branch: int = BRANCH, bottom_up: bool = False) -> dict[int, list[int]]:
    """Collapse nodes until all but penultimate ones have M children (D-18).

    Parameters
    ----------
    tree : BinaryTree
    branch : int
        M.
    bottom_up : bool
        With the paper's first step.

    Returns
    -------
    dict of int to list of int
        The children of each inner node that is left, by the numbers of the binary tree; the root is 0.
    """
    left, right, size = tree.left.tolist(), tree.right.tolist(), tree.size.tolist()
    leaves_below = [1] * len(left)
    for node in range(len(left) - 1, -1, -1):
        if left[node] != NONE:
            leaves_below[node] = leaves_below[left[node]] + leaves_below[right[node]]

    def children_of(node: int) -> list[int]:
        """Return two, or all leaf nodes below where the first step has collapsed what is between."""
        if not bottom_up or leaves_below[node] > branch:
            return [left[node], right[node]]
        found, stack = [], [node]
        while stack:
            one = stack.pop()
            if left[one] == NONE:
                found.append(one)
            else:
                stack += [right[one], left[one]]
        return found

    def can_collapse(node: int) -> bool:
        return left[node] != NONE and not (bottom_up and leaves_below[node] <= branch)

    done: dict[int, list[int]] = {}
    queue = [0] if left[0] != NONE else []
    for node in queue:
        mine = dict.fromkeys(children_of(node))
        heap = [(-size[child], child) for child in mine if can_collapse(child)]
        heapq.heapify(heap)
        while heap and len(mine) < branch:
            _, child = heapq.heappop(heap)
            del mine[child]
            for grandchild in children_of(child):
                mine[grandchild] = None
                if can_collapse(grandchild):
                    heapq.heappush(heap, (-size[grandchild], grandchild))
        done[node] = list(mine)
        queue += [child for child in mine if left[child] != NONE]
    return done


def pack_nodes(
    lo: F8, hi: F8, branch: int = BRANCH, skew: float = SKEW, bottom_up: bool = False
) -> PackedNodes:
    """Pack boxes.

    Parameters
    ----------
    lo, hi : float64[dimensions, boxes]
        Finite; at least one box.
    branch : int
        M, 2 or more.
    skew : float
        p, in (0, 1/2].
    bottom_up : bool
        See `compress`.

    Raises
    ------
    CallerError
        There is no tree of this M and p.
    """
    if branch < 2 or not 0.0 < skew <= 0.5:
        raise CallerError(
            "an S-tree cannot be packed so", seen=f"M = {branch}, p = {skew}", limit="M >= 2 and 0 < p <= 1/2"
        )
    binary = binarise(lo, hi, branch, skew)
    children = compress(binary, branch, bottom_up)
    listed = [0]
    first, count = [], []
    for node in listed:
        mine = children.get(node)
        first.append(int(binary.start[node]) if mine is None else len(listed))
        count.append(int(binary.size[node]) if mine is None else len(mine))
        listed += mine or []
    is_leaf = np.array([node not in children for node in listed])
    return PackedNodes(np.array(first, np.int32), np.array(count, np.int32), is_leaf, binary.order)
