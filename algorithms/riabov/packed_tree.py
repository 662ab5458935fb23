"""Trees that are packed once, as arrays; and a forest of them, which takes insertions and deletions.

A packed tree is laid out for search: the children of a node stand next to each other, and so do the boxes of
a leaf node, column by column, so that a node is tested without a branch per child. S-tree and Hilbert-packed
R-tree differ in the order of boxes and in the nodes over them, and in nothing else.

Neither paper says how a packed tree changes. Ours is the logarithmic method (Bentley and Saxe 1980): new
boxes wait in a buffer, which is a node of its own; when it is full it is packed, together with all trees
that are no larger, so that there are O(log n) trees and a box is packed O(log n) times. A deleted box is
emptied in place; a tree of which half the boxes are gone is packed anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.riabov.tree_kernels import search

I4 = npt.NDArray[np.int32]
BUFFER_BOXES = 1_024
FOUND_LEAST = 1 << 12


class Tree(NamedTuple):
    """A packed tree; node 0 is the root.

    Attributes
    ----------
    node_lo, node_hi : T[dimensions, nodes]
        Bounding boxes.
    first_child, child_count : int32[nodes]
        Nodes, or boxes of a leaf node.
    is_leaf : uint8[nodes]
    box_lo, box_hi : T[dimensions, boxes]
        Closed; T is any type of numbers.
    order : int64[boxes]
        Which of the packed boxes each one is.
    """

    node_lo: Any
    node_hi: Any
    first_child: I4
    child_count: I4
    is_leaf: npt.NDArray[np.uint8]
    box_lo: Any
    box_hi: Any
    order: I8

    @property
    def bytes(self) -> int:
        """Bytes of the arrays that a search reads."""
        return sum(int(array.nbytes) for array in self[:7])


Packer: TypeAlias = Callable[[Any, Any], Tree]
"""``pack(lo, hi)``, T[dimensions, boxes] each, at least one box."""


class Searcher:
    """Search in one tree, with memory that is kept between calls.

    Parameters
    ----------
    tree : Tree
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._arrays = tuple(np.ascontiguousarray(array) for array in tree[:7])
        longest = max(1, int(tree.child_count.max(initial=1)))
        self._scratch = (np.zeros(len(tree.first_child) + 1, np.int32), np.zeros(longest, np.uint8))
        self._found = np.empty(FOUND_LEAST, np.int32)

    def places(self, points: Any) -> tuple[I8, I4, I8]:
        """Find the boxes that hold points.

        Parameters
        ----------
        points : T[n, dimensions]

        Returns
        -------
        stops : int64[n + 1]
            Where the boxes of each point end.
        places : int32[k]
            Places of boxes in the tree; a view that lives until the next call.
        visited : int64[n]
            Nodes that each point's search has opened.
        """
        stops, visited = np.zeros(len(points) + 1, np.int64), np.zeros(len(points), np.int64)
        begin = 0
        while begin < len(points):
            work = (*self._scratch, visited)
            begin = int(search(points, self._arrays, work, begin, stops, self._found))
            if begin < len(points):
                # Room for all that one point can find, and twice what there was.
                more = int(stops[begin]) + len(self.tree.order) + len(self._found)
                self._found = np.concatenate((self._found, np.empty(more - len(self._found), np.int32)))
        return stops, self._found[: stops[-1]], visited


def make_tree(box_lo: Any, box_hi: Any, order: I8, first: I4, count: I4, is_leaf: Any) -> Tree:
    """Return a tree, with the bounding boxes of nodes that are numbered parents first.

    Parameters
    ----------
    box_lo, box_hi : T[dimensions, boxes]
        As they were before packing.
    order : int64[boxes]
    first, count : int32[nodes]
    is_leaf : uint8[nodes]
    """
    lo, hi = np.ascontiguousarray(box_lo[:, order]), np.ascontiguousarray(box_hi[:, order])
    node_lo, node_hi = np.empty((len(lo), len(first)), lo.dtype), np.empty((len(lo), len(first)), lo.dtype)
    leaves = np.flatnonzero(is_leaf)
    leaves = leaves[np.argsort(first[leaves])]
    node_lo[:, leaves] = np.minimum.reduceat(lo, first[leaves], axis=1)
    node_hi[:, leaves] = np.maximum.reduceat(hi, first[leaves], axis=1)
    for node in np.flatnonzero(is_leaf == 0)[::-1].tolist():
        children = slice(int(first[node]), int(first[node]) + int(count[node]))
        node_lo[:, node] = node_lo[:, children].min(axis=1)
        node_hi[:, node] = node_hi[:, children].max(axis=1)
    return Tree(node_lo, node_hi, first, count, is_leaf, lo, hi, order)


def one_leaf(lo: Any, hi: Any) -> Tree:
    """Return boxes in a single leaf node: a scan."""
    count = lo.shape[1]
    return make_tree(
        lo, hi, np.arange(count), np.zeros(1, np.int32), np.array([count], np.int32), np.ones(1, np.uint8)
    )


def bounded(lo: F8, hi: F8) -> tuple[F8, F8]:
    """Return boxes with finite ends, for volumes: open ends lie where the outermost finite ends of all are.

    The paper's open ends are those of the domain (``volume <= maxvolume``).
    """
    ends = np.concatenate((lo, hi), axis=1)
    is_end = np.abs(ends) < np.finfo(np.float64).max
    least = np.where(is_end, ends, np.inf).min(axis=1, initial=np.inf)[:, None]
    greatest = np.where(is_end, ends, -np.inf).max(axis=1, initial=-np.inf)[:, None]
    has_none = least > greatest
    least, greatest = np.where(has_none, 0.0, least), np.where(has_none, 0.0, greatest)
    return np.clip(lo, least, greatest), np.clip(hi, least, greatest)


class _Member:
    """One tree of a forest, and whose boxes it has."""

    def __init__(self, tree: Tree, handle: I8) -> None:
        self.searcher = Searcher(tree)
        self.handle = handle[tree.order]
        self._by_handle = np.argsort(self.handle, kind="stable")
        self._sorted = self.handle[self._by_handle]
        self.is_there = np.ones(len(self.handle), np.bool_)

    @property
    def size(self) -> int:
        return len(self.handle)

    def remove(self, handle: int) -> int:
        """Empty the boxes of a subscription; return how many there were."""
        first, stop = np.searchsorted(self._sorted, (handle, handle + 1))
        places = self._by_handle[first:stop]
        places = places[self.is_there[places]]
        self.is_there[places] = False
        tree = self.searcher.tree
        tree.box_lo[:, places], tree.box_hi[:, places] = np.inf, -np.inf
        return len(places)

    def live(self) -> tuple[F8, F8, I8]:
        """Return the boxes that are there."""
        tree = self.searcher.tree
        return tree.box_lo[:, self.is_there], tree.box_hi[:, self.is_there], self.handle[self.is_there]


class Forest:
    """Boxes of subscriptions in packed trees; takes insertions and deletions.

    Parameters
    ----------
    pack : callable
        Of type `Packer`.
    """

    def __init__(self, pack: Packer) -> None:
        self._pack = pack
        self._members: list[_Member] = []
        self._buffer = (np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0, np.int64))
        self._dimensions = 0

    def build(self, lo: F8, hi: F8, handle: I8) -> None:
        """Take boxes, float64[dimensions, boxes], in place of all that were there."""
        self._dimensions = len(lo)
        self._members = [_Member(self._pack(lo, hi), handle)] if len(handle) else []
        self._clear_buffer()

    def insert(self, lo: F8, hi: F8, handle: I8) -> None:
        """Add boxes; they may have more dimensions than those before."""
        self._widen(len(lo))
        old = self._buffer
        self._buffer = (np.hstack((old[0], lo)), np.hstack((old[1], hi)), np.append(old[2], handle))
        if len(self._buffer[2]) <= BUFFER_BOXES:
            return
        parts, size = [self._buffer], len(self._buffer[2])
        while self._members and self._members[-1].size <= size:
            parts.append(self._members.pop().live())
            size += len(parts[-1][2])
        self._clear_buffer()
        self._add(parts)

    def delete(self, handle: int) -> None:
        """Remove the boxes of a subscription."""
        kept = self._buffer[2] != handle
        self._buffer = (self._buffer[0][:, kept], self._buffer[1][:, kept], self._buffer[2][kept])
        for member in list(self._members):
            if member.remove(handle) and 2 * np.count_nonzero(member.is_there) < member.size:
                self._members.remove(member)
                self._add([member.live()])

    def search(self, points: F8) -> tuple[I8, I8, I8]:
        """Return pairs of event and handle, and the nodes that each point's search has opened."""
        searchers = [(member.searcher, member.handle) for member in self._members]
        if len(self._buffer[2]):
            searchers.append((Searcher(one_leaf(self._buffer[0], self._buffer[1])), self._buffer[2]))
        events, handles = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        visited = np.zeros(len(points), np.int64)
        for searcher, handle in searchers:
            stops, places, opened = searcher.places(points)
            events.append(np.repeat(np.arange(len(points)), np.diff(stops)))
            handles.append(handle[places])
            visited += opened
        return np.concatenate(events), np.concatenate(handles), visited

    @property
    def bytes(self) -> int:
        """Bytes of trees, of handles in both orders with the way between, and of the buffer."""
        trees = sum(member.searcher.tree.bytes + 3 * member.handle.nbytes for member in self._members)
        return trees + sum(array.nbytes for array in self._buffer)

    @property
    def trees(self) -> list[Tree]:
        """The packed trees, largest first."""
        return [member.searcher.tree for member in self._members]

    def _add(self, parts: list[tuple[F8, F8, I8]]) -> None:
        lo, hi, handle = (np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True))
        if len(handle):
            self._members.append(_Member(self._pack(lo, hi), handle))
            self._members.sort(key=lambda member: -member.size)

    def _clear_buffer(self) -> None:
        none = np.zeros((self._dimensions, 0))
        self._buffer = (none, none, np.zeros(0, np.int64))

    def _widen(self, dimensions: int) -> None:
        """Give all boxes the dimensions that are new, without ends there."""
        if dimensions == self._dimensions:
            return
        more = dimensions - self._dimensions
        self._dimensions = dimensions

        def widened(lo: F8, hi: F8) -> tuple[F8, F8]:
            wide = np.full((more, lo.shape[1]), np.inf)
            return np.vstack((lo, -wide)), np.vstack((hi, wide))

        lo, hi, handle = self._buffer
        self._buffer = (*widened(lo, hi), handle)
        for member in self._members:
            tree = member.searcher.tree
            (node_lo, node_hi), (box_lo, box_hi) = widened(*tree[:2]), widened(*tree[5:7])
            member.searcher = Searcher(
                tree._replace(node_lo=node_lo, node_hi=node_hi, box_lo=box_lo, box_hi=box_hi)
            )
