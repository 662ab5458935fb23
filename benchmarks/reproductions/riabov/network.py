"""A transit-stub network and what it costs to send over it (RIABOV section 5; GT-ITM's model).

Three transit blocks of five transit nodes; each transit node has two stubs of twenty nodes. The paper gives
these numbers as means of a drawing by GT-ITM and speaks of 600 nodes; ours are exact: 600 stub nodes,
numbered as the receivers of STOCK are, and 15 transit nodes after them. Within a stub, and among a block's
transit nodes, edges are drawn at random until all are connected; blocks are connected pairwise, by one edge
each. As in GT-ITM, each domain has a plane of its own in which its nodes lie, and an edge costs the distance
of its ends there, in whole units; probabilities and widths of the planes are those of the specifications
that are in common use with it (`STUB`, `TRANSIT`, `TOP`). An edge between a transit node and a stub costs
what one among transit nodes would.

What these costs are decides where multicast pays: were blocks much farther apart than the nodes of a stub,
a tree would save so much that no threshold would ever pay.

A message to several receivers costs the sum of the edges that it crosses:

- *unicast*: each receiver's shortest path, one by one.
- *network-supported multicast*, dense mode: the edges of the publisher's shortest path tree that lead to
  receivers, each once.
- *application-level multicast*: receivers pass it on; the minimum spanning tree over publisher and receivers,
  of which an edge is a shortest path (Pendarakis et al., ALMI).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import networkx
import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BLOCKS, TRANSIT_NODES, STUBS, STUB_NODES = 3, 5, 2, 20
RECEIVERS = BLOCKS * TRANSIT_NODES * STUBS * STUB_NODES
NODES = RECEIVERS + BLOCKS * TRANSIT_NODES


class Domain(NamedTuple):
    """How the edges of a domain are drawn.

    Attributes
    ----------
    width : float
        Of the plane.
    edges : float
        Probability of each edge.
    """

    width: float
    edges: float


STUB, TRANSIT, TOP = Domain(10.0, 0.42), Domain(20.0, 0.6), Domain(20.0, 1.0)


class Paths(NamedTuple):
    """The shortest path tree of one node.

    Attributes
    ----------
    distance : float64[nodes]
    parent : int64[nodes]
        The next node towards the source; the source's own is itself.
    edge : float64[nodes]
        Cost of the edge to the parent.
    farthest_first : int64[nodes - 1]
        All nodes but the source, children before their parents.
    """

    distance: F8
    parent: I8
    edge: F8
    farthest_first: I8


class Network:
    """See the module.

    Parameters
    ----------
    seed : int
        What edges and places are drawn from.
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.graph = networkx.Graph()
        for block in range(BLOCKS):
            self._add_block(block)
        for one, other, cost in self._domain(BLOCKS, TOP):
            ends = self._random.integers(TRANSIT_NODES, size=2)
            self._connect(_transit(one, int(ends[0])), _transit(other, int(ends[1])), cost)
        self._paths: dict[int, Paths] = {}

    def _add_block(self, block: int) -> None:
        for one, other, cost in self._domain(TRANSIT_NODES, TRANSIT):
            self._connect(_transit(block, one), _transit(block, other), cost)
        for number in range(TRANSIT_NODES):
            for stub in range(STUBS):
                first = ((block * TRANSIT_NODES + number) * STUBS + stub) * STUB_NODES
                for one, other, cost in self._domain(STUB_NODES, STUB):
                    self._connect(first + one, first + other, cost)
                gateway = first + int(self._random.integers(STUB_NODES))
                self._connect(_transit(block, number), gateway, self._distance(TRANSIT.width))

    def _domain(self, count: int, domain: Domain) -> list[tuple[int, int, float]]:
        """Draw the edges of a domain of so many nodes: both ends and the cost."""
        place = self._random.uniform(0.0, domain.width, (count, 2))
        while True:
            drawn = networkx.gnp_random_graph(count, domain.edges, int(self._random.integers(1 << 31)))
            if networkx.is_connected(drawn):
                break
        return [(one, other, _whole(place[one] - place[other])) for one, other in drawn.edges]

    def _distance(self, width: float) -> float:
        """Draw the distance of two nodes in a plane."""
        ends = self._random.uniform(0.0, width, (2, 2))
        return _whole(ends[0] - ends[1])

    def _connect(self, one: int, other: int, cost: float) -> None:
        self.graph.add_edge(one, other, cost=cost)

    def paths(self, source: int) -> Paths:
        """Return the shortest path tree of a node."""
        if source not in self._paths:
            before, distances = networkx.dijkstra_predecessor_and_distance(self.graph, source, weight="cost")
            distance = np.array([distances[node] for node in range(NODES)])
            parent = np.array([before[node][0] if before[node] else node for node in range(NODES)])
            edge = distance - distance[parent]
            order = np.argsort(-distance, kind="stable")
            self._paths[source] = Paths(distance, parent, edge, order[order != source])
        return self._paths[source]

    @cached_property
    def distances(self) -> F8:
        """What it costs from each receiver to each: float64[receivers, receivers]."""
        return np.stack([self.paths(node).distance[:RECEIVERS] for node in range(RECEIVERS)])

    def unicast(self, source: int, wanted: Bools) -> F8:
        """Return what it costs to send to sets of receivers one by one.

        Parameters
        ----------
        source : int
        wanted : bool[k, receivers]
        """
        found: F8 = wanted @ self.paths(source).distance[: wanted.shape[1]]
        return found

    def multicast(self, source: int, wanted: Bools) -> F8:
        """Return the same by network-supported multicast."""
        return self._tree(source, wanted)[0]

    def router_entries(self, source: int, wanted: Bools) -> I8:
        """Return how many nodes each multicast tree has: each keeps an entry for (source, group)."""
        return self._tree(source, wanted)[1]

    def _tree(self, source: int, wanted: Bools) -> tuple[F8, I8]:
        paths = self.paths(source)
        is_reached = np.zeros((NODES, len(wanted)), np.bool_)
        is_reached[: wanted.shape[1]] = wanted.T
        is_reached[source] = True
        cost = np.zeros(len(wanted))
        for node in paths.farthest_first.tolist():
            cost += is_reached[node] * paths.edge[node]
            is_reached[paths.parent[node]] |= is_reached[node]
        return cost, is_reached.sum(axis=0, dtype=np.int64)

    def overlay(self, source: I8, wanted: Bools) -> F8:
        """Return the same by application-level multicast, each set with a source of its own: int64[k]."""
        between = self.distances
        is_left = wanted.copy()
        nearest = np.where(is_left, between[source], np.inf)
        cost = np.zeros(len(wanted))
        open_sets = np.flatnonzero(is_left.any(axis=1))
        while len(open_sets):  # Prim's algorithm for all sets at once
            newest = np.argmin(nearest[open_sets], axis=1)
            cost[open_sets] += nearest[open_sets, newest]
            is_left[open_sets, newest] = False
            closer = np.minimum(nearest[open_sets], between[newest])
            nearest[open_sets] = np.where(is_left[open_sets], closer, np.inf)
            open_sets = open_sets[is_left[open_sets].any(axis=1)]
        return cost


def _whole(difference: F8) -> float:
    """Return the length of an edge in whole units, at least one."""
    return max(1.0, math.ceil(float(np.hypot(*difference))))


def _transit(block: int, number: int) -> int:
    return RECEIVERS + block * TRANSIT_NODES + number
