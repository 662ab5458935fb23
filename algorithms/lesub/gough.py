"""Gough and Smith's tree: each event follows one path from the root to a leaf.

Idea (LESUB, section "Matching algorithms", after Gough and Smith, ACSC 1995): a level of the tree looks at
one attribute. The edges of a node are the ranges between all constants that its subscriptions have on the
attribute, and one for "no value, or a value that no predicate takes"; under each stand the subscriptions that
may still match, those without a predicate on the attribute under every one of them. A leaf is a set of
matches, so no predicate is evaluated twice and nothing is counted.

Cost: a binary search per attribute. Limits: subscriptions without a predicate on an attribute are there once
for each edge, so space explodes with the number of attributes that are left out, and the tree is refused
beyond `NODES_MAX` nodes or `HELD_MAX` subscriptions held by the nodes of a level. It cannot be changed: each
insertion and deletion builds it anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub.intervals import Intervals, after, intervals_of
from pubsub_cluster.algorithms.lesub.store import NOTHING, Store
from pubsub_cluster.algorithms.lesub.tree_kernels import descend
from pubsub_cluster.language.errors import CallerError

NODES_MAX = 1 << 22
HELD_MAX = 1 << 24
_HELD = "subscriptions held by the nodes of a level"


class Tree(NamedTuple):
    """Nodes by number, level by level.

    Attributes
    ----------
    levels : int32[levels]
        The attribute of each level.
    other : int32[nodes]
        The child of an event that no edge takes; -1: nothing matches.
    stops : int64[nodes + 1]
        Node i has the edges [stops[i], stops[i + 1]).
    bound : float64[edges]
        An edge takes values from here up to the bound of the next one.
    child : int32[edges]
    first_leaf : int
        The number of the first node of the last level.
    held_stops, held : int64[leaves + 1], int32[...]
        The conjunctions of each leaf.
    """

    levels: I4
    other: I4
    stops: I8
    bound: F8
    child: I4
    first_leaf: int
    held_stops: I8
    held: I4

    @property
    def node_count(self) -> int:
        """Number of nodes, leaves too."""
        return self.first_leaf + len(self.held_stops) - 1

    @property
    def bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(part.nbytes for part in self if isinstance(part, np.ndarray))


class Gough:
    """See the module; implements `conjunctions.Core`.

    Parameters
    ----------
    nodes_max, held_max : int
        When a tree is refused.

    Attributes
    ----------
    tree : Tree
    work : int64[events, 2]
        Levels and comparisons of each event of the last batch.
    """

    def __init__(self, nodes_max: int = NODES_MAX, held_max: int = HELD_MAX) -> None:
        self._limits = nodes_max, held_max
        self.build(NOTHING)
        self.work = np.zeros((0, 2), np.int64)

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`.

        Raises
        ------
        CallerError
            The tree would be too large; nothing has changed then.
        """
        self.tree = grow(catalogue, *self._limits)
        self._store = Store(catalogue)

    def insert(self, more: Conjunctions) -> None:
        """See `conjunctions.Core`, and `build`: this is a build."""
        store = Store(self._store.live())
        store.add(more)
        self.build(store.live())

    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`; this is a build."""
        self._store.delete(owner)
        self.build(self._store.live())

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `conjunctions.Core`."""
        tree = self.tree
        leaf = np.empty(len(values), np.int32)
        self.work = np.zeros((len(values), 2), np.int64)
        descend(values, tree.levels, (tree.other, tree.stops, tree.bound, tree.child), leaf, self.work)
        event = np.flatnonzero(leaf >= 0)
        mine = leaf[event] - tree.first_leaf
        sizes = tree.held_stops[mine + 1] - tree.held_stops[mine]
        place = tree.held[_ranges(tree.held_stops[mine], sizes)]
        return self._store.answer(np.repeat(event, sizes), place.astype(np.int64))

    @property
    def bytes(self) -> int:
        """See `conjunctions.Core`."""
        return self.tree.bytes + self._store.bytes


def _ranges(start: I8, size: I8) -> I8:
    """Return start[0], start[0] + 1, .., for `size[0]` numbers, then those from start[1] on, .."""
    found: I8 = np.repeat(start - (np.cumsum(size) - size), size) + np.arange(size.sum())
    return found


class _Level(NamedTuple):
    """What a level's nodes become: arrays of `Tree`, without the offsets of other levels."""

    other: I4
    stops: I8
    bound: F8
    child: I4


def grow(catalogue: Conjunctions, nodes_max: int = NODES_MAX, held_max: int = HELD_MAX) -> Tree:
    """Build a tree.

    Raises
    ------
    CallerError
        It would be too large.
    """
    intervals, is_possible = intervals_of(catalogue)
    attributes = np.unique(intervals.attribute)
    held = np.flatnonzero(is_possible).astype(np.int32)  # node by node
    node = np.zeros(len(held), np.int64)
    node_count, total = 1, 0  # of this level, and of those above
    levels: list[_Level] = []
    for attribute in attributes.tolist():
        is_mine = intervals.attribute == attribute
        mine = Intervals(*(column[is_mine] for column in intervals))
        level, node, held, below = _split(node, held, node_count, mine, len(catalogue.owner), held_max)
        total += node_count
        _refuse_beyond(nodes_max, "nodes", total + below)
        levels.append(
            level._replace(
                other=_numbered(level.other, total),
                child=_numbered(level.child, total),
                stops=level.stops + sum(len(one.bound) for one in levels),
            )
        )
        node_count = below
    none = np.zeros(0, np.int32)
    return Tree(
        attributes,
        np.concatenate([none, *(level.other for level in levels)]),
        np.concatenate([np.zeros(1, np.int64), *(level.stops[1:] for level in levels)]),
        np.concatenate([np.zeros(0), *(level.bound for level in levels)]),
        np.concatenate([none, *(level.child for level in levels)]),
        total,
        np.searchsorted(node, np.arange(node_count + 1)),
        held,
    )


def _numbered(child: I4, first: int) -> I4:
    """Return the numbers of nodes of a level as those of the tree."""
    return np.where(child >= 0, child + first, -1).astype(np.int32)


def _split(
    node: I8, held: I4, node_count: int, mine: Intervals, place_count: int, held_max: int
) -> tuple[_Level, I8, I4, int]:
    """Divide the nodes of a level by one attribute.

    Parameters
    ----------
    node, held : int64[k], int32[k]
        Which node holds which conjunction, by node.
    node_count : int
    mine : Intervals
        On the attribute.
    place_count : int
    held_max : int

    Returns
    -------
    _Level
    node, held : int64[k2], int32[k2]
        As above, of the next level.
    int
        The number of its nodes.
    """
    first = np.searchsorted(mine.place, np.arange(place_count + 1))
    count = np.diff(first)[held]
    is_free = count == 0
    free_node, free_held = node[is_free], held[is_free]
    which = _ranges(first[held], count)
    taker, taken = np.repeat(node, count), np.repeat(held, count)
    bound, edge_stops, begin, end = _cut(taker, mine.lo[which], mine.hi[which], node_count)
    spread = end - begin
    free_count = np.bincount(free_node, minlength=node_count)
    is_used = np.zeros(len(bound), np.bool_)
    _refuse_beyond(held_max, _HELD, int(spread.sum()) + len(free_held))
    _refuse_beyond(held_max, _HELD, int(spread.sum()))
    edge = _ranges(begin, spread)
    is_used[edge] = True
    edge_node = np.repeat(np.arange(node_count), np.diff(edge_stops))
    copies = np.where(is_used, free_count[edge_node], 0)
    _refuse_beyond(held_max, _HELD, len(edge) + int(copies.sum()) + len(free_held))
    used_count = int(np.count_nonzero(is_used))
    has_other = free_count > 0
    below = used_count + int(np.count_nonzero(has_other))
    other = np.where(has_other, used_count + np.cumsum(has_other) - 1, -1).astype(np.int32)
    child = np.where(is_used, np.cumsum(is_used) - 1, other[edge_node]).astype(np.int32)
    free_first = np.cumsum(free_count) - free_count
    next_node = np.concatenate((child[edge], np.repeat(child, copies), other[free_node])).astype(np.int64)
    next_held = np.concatenate(
        (np.repeat(taken, spread), free_held[_ranges(free_first[edge_node], copies)], free_held)
    )
    order = np.argsort(next_node, kind="stable")
    return _Level(other, edge_stops, bound, child), next_node[order], next_held[order], below


def _cut(node: I8, lo: F8, hi: F8, node_count: int) -> tuple[F8, I8, I8, I8]:
    """Return the edges between all ends of intervals, and which edges each interval takes.

    Returns
    -------
    bound : float64[edges]
        By node, ascending.
    stops : int64[node_count + 1]
    begin, end : int64[intervals]
        Edges [begin, end).
    """
    has_end = hi < np.inf
    ends = np.concatenate((lo, after(hi[has_end])))
    nodes = np.concatenate((node, node[has_end]))
    order = np.lexsort((ends, nodes))
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (nodes[order][1:] != nodes[order][:-1]) | (ends[order][1:] != ends[order][:-1])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_new) - 1
    bound = ends[order][is_new]
    stops = np.searchsorted(nodes[order][is_new], np.arange(node_count + 1))
    end = stops[node + 1].copy()
    end[has_end] = number[len(lo) :]
    return bound, stops, number[: len(lo)], end


def _refuse_beyond(limit: int, what: str, seen: int) -> None:
    if seen > limit:
        raise CallerError(
            f"a tree with one path per event would have too many {what}",
            seen=seen,
            limit=limit,
            remedy="Use fewer subscriptions or fewer attributes, or a matcher whose space does not explode.",
        )
