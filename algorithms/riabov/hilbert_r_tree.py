"""Hilbert-packed R-tree: boxes along a space-filling curve (Kamel and Faloutsos; RIABOV section 3.1).

Idea. The centres of the boxes are sorted along a Hilbert curve; each M that follow each other become a leaf
node, each M nodes their parent, up to the root: bottom-up, where the S-tree goes top-down. Centres are taken
to a lattice of equally many steps in each dimension, between the outermost finite ends of all boxes
(`packed_tree.bounded`), with `KEY_BITS` bits over all dimensions; of more dimensions than that the first
ones count. The curve is Skilling's (2004).

Cost. Packing sorts once. A search is that of any R-tree; neighbours on the curve are near in space, but
their bounding boxes are not chosen, so that they overlap more than the S-tree's. Limits: the language of
`algorithms.boxes`. Changes: `packed_tree.Forest`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.riabov.packed_tree import Tree, bounded, make_tree
from pubsub_cluster.algorithms.riabov.spatial import BoxMatcher
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

BRANCH = 40
KEY_BITS = 62
BITS_MAX = 16
"""Of one dimension."""


def hilbert_number(cell: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.int64]:
    """Return how far along the Hilbert curve cells are (Skilling: Programming the Hilbert curve, 2004).

    Parameters
    ----------
    cell : int64[dimensions, n]
        In [0, 2**bits).
    bits : int
        dimensions * bits is at most `KEY_BITS`.

    Returns
    -------
    int64[n]
        Each of 0 to 2**(dimensions * bits) - 1 is that of one cell; neighbours on the curve are neighbours.
    """
    axes = cell.copy()
    for bit in range(bits - 1, 0, -1):
        low = (1 << bit) - 1
        for axis in range(len(axes)):
            is_set = (axes[axis] >> bit) & 1 == 1
            swapped = (axes[0] ^ axes[axis]) & low
            axes[0] ^= np.where(is_set, low, swapped)
            axes[axis] ^= np.where(is_set, 0, swapped)
    for axis in range(1, len(axes)):
        axes[axis] ^= axes[axis - 1]
    flips = np.zeros(axes.shape[1], np.int64)
    for bit in range(bits - 1, 0, -1):
        flips ^= np.where((axes[-1] >> bit) & 1 == 1, (1 << bit) - 1, 0)
    axes ^= flips
    number = np.zeros(axes.shape[1], np.int64)
    for bit in range(bits - 1, -1, -1):
        for axis in range(len(axes)):
            number = (number << 1) | ((axes[axis] >> bit) & 1)
    return number


def curve_order(lo: F8, hi: F8) -> npt.NDArray[np.int64]:
    """Return boxes, float64[dimensions, boxes] with finite ends, by their centres along the curve."""
    dimensions = min(len(lo), KEY_BITS)
    bits = min(BITS_MAX, KEY_BITS // dimensions)
    centre = (lo[:dimensions] + hi[:dimensions]) / 2
    least = centre.min(axis=1, keepdims=True)
    extent = np.maximum(centre.max(axis=1, keepdims=True) - least, np.finfo(np.float64).tiny)
    cell = np.minimum((centre - least) / extent * (1 << bits), (1 << bits) - 1).astype(np.int64)
    return np.argsort(hilbert_number(cell, bits), kind="stable")


def pack(lo: Any, hi: Any, branch: int = BRANCH) -> Tree:
    """Pack boxes into an R-tree.

    Parameters
    ----------
    lo, hi : T[dimensions, boxes]
        Closed; at least one box. Ends may be infinite.
    branch : int
        M, 2 or more.
    """
    order = curve_order(*bounded(lo.astype(np.float64), hi.astype(np.float64)))
    sizes = [len(order)]
    while len(sizes) == 1 or sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // branch))
    first: list[npt.NDArray[np.int64]] = []
    count: list[npt.NDArray[np.int64]] = []
    begin = 1  # where the level below begins; levels are numbered from the root on
    for below, here in zip(sizes[-2::-1], sizes[:0:-1], strict=True):
        is_lowest = below == len(order) and len(first) == len(sizes) - 2
        start = np.arange(here) * branch
        first.append(start if is_lowest else start + begin)
        count.append(np.minimum(branch, below - start))
        begin += below
    is_leaf = np.zeros(sum(sizes[1:]), np.uint8)
    is_leaf[len(is_leaf) - sizes[1] :] = 1
    return make_tree(
        lo,
        hi,
        order,
        np.concatenate(first).astype(np.int32),
        np.concatenate(count).astype(np.int32),
        is_leaf,
    )


class HilbertRTree(BoxMatcher):
    """See the module; implements `interface.Matcher`.

    Parameters
    ----------
    schema : Schema
    branch : int
        M.
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA, branch: int = BRANCH) -> None:
        super().__init__("hilbert-r-tree", partial(pack, branch=branch), schema)
