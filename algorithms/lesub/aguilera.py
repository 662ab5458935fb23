"""Aguilera et al.'s tree (Gryphon's matcher), with don't-care edges.

Idea (LESUB, section "Matching algorithms", after Aguilera, Strom, Sturman, Astley, Chandra, PODC 1999): a
node is a test of an attribute: which value it has, with an edge for each value that a predicate names; or
whether one other comparison holds, with one edge. Each node has a don't-care edge besides, to the next test
of those subscriptions that do not ask. A subscription is the one path of its predicates, in a fixed order of
tests (attributes, equality first, then comparisons by operator and constant), and ends in a leaf; an event
follows all edges whose tests it passes, and all don't-care edges.

Cost: the nodes visited, fewer than there are subscriptions when they are equalities. Each comparison with
another constant is a node of its own, though, which every event that comes to its attribute visits, and which
insertion passes one by one: many distinct constants of ``< <= >= > !=`` are slow. Space: at most a node for
each predicate, and a leaf for each subscription. Insertion adds a path; deletion unmarks its end, and the
tree is built anew when more is deleted than is there.
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub.gather import gathered
from pubsub_cluster.algorithms.lesub.store import NOTHING, Store, grown
from pubsub_cluster.algorithms.lesub.tree_kernels import rehash, thread, walk

_EDGES_LEAST = 16
_TEST_DTYPES = (np.int32, np.int8, np.float64, np.int32, np.int32)


class Aguilera:
    """See the module; implements `conjunctions.Core`.

    Attributes
    ----------
    work : int64[events, 3]
        Of each event of the last batch: nodes visited, paths that ended in a leaf, and dead ends.
    """

    def __init__(self) -> None:
        self.build(NOTHING)

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        self.work = np.zeros((0, 3), np.int64)
        self._store = Store(NOTHING)
        # A position is where a path has come to: it has a chain of tests, and subscriptions that end there.
        self._first_test, self._first_place = np.full(1, -1, np.int32), np.full(1, -1, np.int32)
        self._next_place = np.zeros(0, np.int32)
        self._tests = tuple(np.zeros(0, dtype) for dtype in _TEST_DTYPES)
        self._edges = _empty_edges(_EDGES_LEAST)
        self._sizes = np.array([0, 1, 0, 0], np.int64)
        self._add(catalogue)

    def insert(self, more: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        self._add(more)

    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`."""
        self._store.delete(owner)
        if self._store.is_wasteful:
            self.build(self._store.live())

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `conjunctions.Core`."""
        values = values + 0.0  # -0.0 has other bits than 0.0
        bits = values.view(np.int64)
        self.work = np.zeros((len(values), 3), np.int64)
        stack = np.empty(self._sizes[1], np.int32)
        positions = self._first_test, self._first_place, self._next_place

        def search(begin: int, stops: I8, found: np.ndarray) -> int:
            tree = positions, self._tests, self._edges
            return int(walk(values, bits, *tree, stack, begin, stops, found, self.work))

        event, place = gathered(search, len(values))
        return self._store.answer(event, place.astype(np.int64))

    @property
    def node_count(self) -> int:
        """Number of tests and leaves."""
        return int(self._sizes[0] + self._sizes[3])

    @property
    def bytes(self) -> int:
        """See `conjunctions.Core`."""
        test_count, position_count = (int(size) for size in self._sizes[:2])
        tests = test_count * sum(int(column.itemsize) for column in self._tests)
        return (
            self._store.bytes
            + tests
            + 8 * position_count
            + 4 * self._store.count
            + sum(int(column.nbytes) for column in self._edges)
        )

    def _add(self, more: Conjunctions) -> None:
        begin, end = self._store.add(_in_order(more))
        test_count, position_count, edge_count, _ = self._sizes.tolist()
        room = len(more.attribute)
        self._tests = tuple(grown(column, test_count + room) for column in self._tests)
        self._first_test = grown(self._first_test, position_count + room, -1)
        self._first_place = grown(self._first_place, position_count + room, -1)
        self._next_place = grown(self._next_place, end)
        equalities = int(np.count_nonzero(more.comparison == Comparison.EQ))
        if 2 * (edge_count + equalities) > len(self._edges[0]):
            edges = _empty_edges(1 << int(2 * (edge_count + equalities)).bit_length())
            rehash(self._edges, edges)
            self._edges = edges
        store = self._store
        columns = (
            store.stops,
            store.attribute,
            store.comparison,
            store.constant,
            store.constant.view(np.int64),
        )
        positions = self._first_test, self._first_place, self._next_place
        thread(begin, end, columns, positions, self._tests, self._edges, self._sizes)


def _empty_edges(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.full(size, -1, np.int32), np.zeros(size, np.int64), np.zeros(size, np.int32)


def _in_order(catalogue: Conjunctions) -> Conjunctions:
    """Return conjunctions with their predicates in the order of tests."""
    place = np.repeat(np.arange(len(catalogue.owner)), np.diff(catalogue.stops))
    rank = np.where(catalogue.comparison == Comparison.EQ, -1, catalogue.comparison)
    order = np.lexsort((catalogue.constant, rank, catalogue.attribute, place))
    return catalogue._replace(
        attribute=catalogue.attribute[order],
        comparison=catalogue.comparison[order],
        constant=catalogue.constant[order],
    )
