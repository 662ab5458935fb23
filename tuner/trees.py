"""The tree of a layout: whether there is one, what is in it, and what it is expected to cost.

A catalogue whose clauses are all conjunctions of ranges may be matched by an S-tree (RIABOV section 3) in
place of tables: each clause is a box in labels, and a leaf node a cluster. Which is cheaper is asked of the
cost model: the tables that were chosen by D-04, the tree by how many nodes and leaf nodes the sampled events
open, each at its measured price. Trees win for small catalogues of ranges that are narrow in most of their
attributes; else bounding boxes overlap, and with size the way down outgrows the probes of a table.

An operator may forbid trees, or force them (`tune set trees`): then all conjunctions of ranges go to the
tree, whatever it costs, and the rest to tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.choice import expected_cost
from pubsub_cluster.tuner.clusters import BlobWriter, deal, pack_entries
from pubsub_cluster.tuner.configuration import Bools, Configuration
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.entries import Entries
from pubsub_cluster.tuner.packing import ResidualOrder, make_residuals
from pubsub_cluster.tuner.s_tree import pack_nodes

if TYPE_CHECKING:
    from pubsub_cluster.tuner.work import Work

BRANCH = 16
"""M. A node's children are compared at once, and smaller nodes have narrower boxes: of the paper's 40 and 16,
16 was the faster one wherever a tree beat tables (`benchmarks.trees`)."""

CLAUSES_MAX = 50_000
"""Trees of more leave the caches, where measured prices are too low: they were chosen wrongly. Packing takes
about two seconds for 100,000, on the tuner's processor, and grows faster than they do."""

DIMENSIONS_MAX = 32
EVENTS_LEAST, EVENTS_MOST = 64, 512
"""Sampled events without which nothing is known of a tree, and those that are looked at."""

MARGIN = 0.85
"""A tree is taken when it is expected to cost less than this share of what the tables do."""


class Boxes(NamedTuple):
    """Conjunctions of ranges, as boxes in labels.

    Attributes
    ----------
    clause : int64[m]
        Ascending.
    attribute : int64[d]
        Layout attributes that one of them has a range of, ascending.
    lo, hi : int64[d, m]
        Closed. An attribute that a clause does not have is from 0, missing, to its last label; of several
        ranges of one attribute what all have in common, which may be nothing (``lo > hi``): each of them may
        be satisfied by another value.
    """

    clause: I8
    attribute: I8
    lo: I8
    hi: I8


class TreePlan(NamedTuple):
    """A packed tree.

    Attributes
    ----------
    boxes : Boxes
    leaf : int64[m]
        Which leaf node, in order of nodes, each of the boxes is in.
    node_lo, node_hi : int32[d, n]
    first_child, child_count : int32[n]
        As in the columns `tree_first` and `tree_count`, with leaf nodes counted from 0.
    chance : float64[n]
        That an event opens the node.
    cost : float
        Expected nanoseconds per event.
    """

    boxes: Boxes
    leaf: I8
    node_lo: I4
    node_hi: I4
    first_child: I4
    child_count: I4
    chance: F8
    cost: float


class Weighed(NamedTuple):
    """What a choice came to.

    Attributes
    ----------
    is_used : bool
    reason : str
    tree_ns, tables_ns : float, optional
        Expected cost per event, where both were worked out.
    """

    is_used: bool
    reason: str
    tree_ns: float | None = None
    tables_ns: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what is known, as a layout's figures tell it."""
        costs = {"tree_ns": self.tree_ns, "tables_ns": self.tables_ns}
        known = {name: round(cost, 2) for name, cost in costs.items() if cost is not None}
        return {"is_used": self.is_used, "reason": self.reason, **known}


class TreeChoice:
    """Who decides on the trees of layouts.

    Parameters
    ----------
    setting : bool, optional
        False: there is none; True: there is one whatever it costs; None: by the cost model.

    Attributes
    ----------
    weighed : Weighed
        What the last decision came to.
    """

    def __init__(self, setting: bool | None = None) -> None:
        self.setting = setting
        self.weighed = Weighed(False, "off")

    def forced(self, work: Work, constants: CostConstants | None) -> TreePlan | None:
        """Return the tree of all conjunctions of ranges where an operator has forced it."""
        self.weighed = Weighed(False, "forbidden" if self.setting is False else "")
        if not self.setting:
            return None
        boxes = find_boxes(work) if work.source.clause_count <= CLAUSES_MAX else None
        if boxes is None or not len(boxes.clause):
            self.weighed = Weighed(False, "forced, but there are no conjunctions of ranges, or too many")
            return None
        plan = plan_tree(boxes, work.statistics.events, constants or DEFAULT_CONSTANTS)
        self.weighed = Weighed(True, "forced", plan.cost)
        return plan

    def cheaper(
        self, work: Work, configuration: Configuration, constants: CostConstants | None
    ) -> TreePlan | None:
        """Return a tree of all clauses where it is expected to be cheaper than tables."""
        if self.setting is not None:
            return None
        constants = constants or DEFAULT_CONSTANTS
        boxes, reason = None, _why_not(work)
        if not reason:
            boxes = find_boxes(work)
            if len(boxes.clause) < work.source.clause_count:
                boxes, reason = None, "not all clauses are conjunctions of ranges"
        if boxes is None:
            self.weighed = Weighed(False, reason)
            return None
        tables_ns = expected_cost(
            configuration,
            work.clauses(boxes.clause),
            work.spaces,
            work.predicates,
            work.ways,
            work.statistics,
            constants,
        )
        plan = plan_tree(boxes, work.statistics.events, constants)
        is_cheaper = plan.cost < MARGIN * tables_ns
        reason = "cheaper than tables" if is_cheaper else "tables are as cheap"
        self.weighed = Weighed(is_cheaper, reason, plan.cost, tables_ns)
        return plan if is_cheaper else None


def _why_not(work: Work) -> str:
    if not work.source.clause_count:
        return "no clauses"
    if work.source.clause_count > CLAUSES_MAX:
        return "too many clauses"
    if len(work.statistics.events) < EVENTS_LEAST:
        return "too few events are known"
    return ""


def find_boxes(work: Work) -> Boxes:
    """Return the clauses that are conjunctions of ranges, equalities among them, as boxes."""
    predicates = work.predicates
    clauses = work.clauses(slice(0, work.source.clause_count))
    predicate = clauses.literal >> 1
    is_range = (predicates.attribute >= 0) & (predicates.reference < 0) & ~predicates.is_impossible
    fits = (clauses.literal & 1 == 0) & is_range[predicate]
    count = len(clauses.start) - 1
    is_box = np.bincount(clauses.owner, fits, count) == np.diff(clauses.start)
    is_box &= np.diff(clauses.start) > 0
    mine = is_box[clauses.owner]
    owner, predicate = clauses.owner[mine], predicate[mine]
    clause = np.flatnonzero(is_box)
    attribute = np.unique(predicates.attribute[predicate])
    if len(attribute) > DIMENSIONS_MAX:  # those with fewer ranges are left to the leaf nodes
        uses = np.bincount(predicates.attribute[predicate])
        attribute = np.sort(np.argsort(-uses, kind="stable")[:DIMENSIONS_MAX])
    lo = np.zeros((len(attribute), len(clause)), np.int64)
    hi = np.repeat(predicates.label_count[attribute] - 1, len(clause)).reshape(lo.shape)
    dimension = np.full(len(predicates.label_count), -1)
    dimension[attribute] = np.arange(len(attribute))
    row = dimension[predicates.attribute[predicate]]
    column = np.searchsorted(clause, owner)
    row, column, predicate = row[row >= 0], column[row >= 0], predicate[row >= 0]
    np.maximum.at(lo, (row, column), predicates.lo[predicate])
    np.minimum.at(hi, (row, column), predicates.hi[predicate])
    return Boxes(clause, attribute, lo, hi)


def plan_tree(boxes: Boxes, events: I4, constants: CostConstants) -> TreePlan:
    """Pack boxes, and work out what that costs events.

    Parameters
    ----------
    boxes : Boxes
        At least one.
    events : int32[m, A]
        Labels of sampled events.
    constants : CostConstants
    """
    # Sides in labels: a box of one label has one of the length 1, so that volumes tell boxes apart.
    upper = np.maximum(boxes.hi, boxes.lo) + 1.0
    nodes = pack_nodes(boxes.lo.astype(np.float64), upper, BRANCH)
    leaves = np.flatnonzero(nodes.is_leaf)
    by_place = leaves[np.argsort(nodes.first_child[leaves])]
    leaf_of_node = np.cumsum(nodes.is_leaf) - 1
    leaf = np.empty(len(boxes.clause), np.int64)
    leaf[nodes.order] = np.repeat(leaf_of_node[by_place], nodes.child_count[by_place])
    node_lo, node_hi = _bounds(boxes, nodes.first_child, nodes.child_count, by_place, nodes.order)
    chance = _chances(boxes.attribute, node_lo, node_hi, events)
    first, count = nodes.first_child.copy(), nodes.child_count.copy()
    first[leaves], count[leaves] = np.arange(len(leaves)), 0
    dimensions = len(boxes.attribute)
    cost = float(chance[count > 0].sum()) * constants.node_of(dimensions, len(count))
    cost += float(chance[leaves].sum()) * constants.leaf_of(dimensions)
    return TreePlan(boxes, leaf, node_lo, node_hi, first, count, chance, cost)


def _bounds(boxes: Boxes, first: I4, count: I4, leaves: I8, order: I8) -> tuple[I4, I4]:
    """Return the bounding boxes of nodes, parents before their children; `leaves` in order of their boxes."""
    shape = (len(boxes.attribute), len(first))
    lo, hi = np.empty(shape, np.int32), np.empty(shape, np.int32)
    lo[:, leaves] = np.minimum.reduceat(boxes.lo[:, order], first[leaves], axis=1)
    hi[:, leaves] = np.maximum.reduceat(boxes.hi[:, order], first[leaves], axis=1)
    is_leaf = np.zeros(len(first), bool)
    is_leaf[leaves] = True
    for node in np.flatnonzero(~is_leaf)[::-1].tolist():
        children = slice(int(first[node]), int(first[node]) + int(count[node]))
        lo[:, node], hi[:, node] = lo[:, children].min(axis=1), hi[:, children].max(axis=1)
    return lo, hi


def _chances(attribute: I8, lo: I4, hi: I4, events: I4) -> F8:
    """Return the share of the events that open each node; one more event opens one of all, we know not which.

    The root is opened by every event.
    """
    picked = events[:: -(-len(events) // EVENTS_MOST) or 1]
    opens: Bools = np.ones((len(picked), lo.shape[1]), bool)
    for dimension, one in enumerate(attribute.tolist()):
        label = picked[:, one : one + 1]
        opens &= (lo[dimension] <= label) & (label <= hi[dimension])
    chance = (np.count_nonzero(opens, axis=0) + 1.0 / lo.shape[1]) / (len(picked) + 1.0)
    chance[0] = 1.0
    return np.asarray(chance)


class PackedTree(NamedTuple):
    """A tree in a layout: its clusters, and what the columns have of it.

    Attributes
    ----------
    cluster_start : int64[l]
        Word of the blob, of each leaf node.
    cluster_partition, cluster_attribute : int32[l]
    partition_cost : float64[P]
        The tree's included.
    target : int32[m]
        Rows of its entries.
    entry_count_max : int
    columns : dict of str to array
        Of the layout, by name.
    """

    cluster_start: I8
    cluster_partition: I4
    cluster_attribute: I4
    partition_cost: F8
    target: I4
    entry_count_max: int
    columns: dict[str, np.ndarray]


def pack_tree(
    tree: TreePlan | None,
    work: Work,
    order: ResidualOrder,
    row_once: Bools,
    cluster_count: int,
    partition_cost: F8,
    blob: BlobWriter,
) -> PackedTree:
    """Pack the clauses of leaf nodes, with all their literals, and deal the leaf nodes to partitions.

    Parameters
    ----------
    tree : TreePlan or None
        None: there is none.
    work : Work
        What the layout is of.
    order : ResidualOrder
    row_once : bool[R]
        Rows of one clause.
    cluster_count : int
        Clusters there are already.
    partition_cost : float64[P]
    blob : BlobWriter
    """
    none4, attribute_count = np.zeros(0, np.int32), work.spaces.attribute_count
    dimension = np.full(attribute_count, -1, np.int32)
    if tree is None:
        columns: dict[str, np.ndarray] = {"attribute_dimension": dimension}
        columns |= {name: none4 for name in ("tree_lo", "tree_hi", "tree_first", "tree_count")}
        columns |= {name: np.zeros(0) for name in ("tree_chance", "tree_cost")}
        columns["tree_entries"] = np.zeros(0, np.int64)
        return PackedTree(np.zeros(0, np.int64), none4, none4, partition_cost, none4, 0, columns)
    clauses, row = work.clauses(tree.boxes.clause), work.source.rows_of(tree.boxes.clause)
    residual, first, shape = make_residuals(clauses, np.ones(len(clauses.literal), bool), None, order)
    entries = Entries(tree.leaf, row, first, shape, residual, row_once[row])
    sections = pack_entries(entries, work.predicates, True, blob)
    start = sections.start[np.flatnonzero(np.diff(sections.key, prepend=-1))]  # of each leaf node's chain
    is_leaf = tree.child_count == 0
    chance = tree.chance[is_leaf]
    partition, cost = deal(tree.cost * chance / chance.sum(), partition_cost)
    dimension[tree.boxes.attribute] = np.arange(len(tree.boxes.attribute))
    columns = {
        "attribute_dimension": dimension,
        "tree_lo": tree.node_lo.reshape(-1),
        "tree_hi": tree.node_hi.reshape(-1),
        "tree_first": np.where(is_leaf, tree.first_child + cluster_count, tree.first_child).astype(np.int32),
        "tree_count": tree.child_count,
        "tree_chance": tree.chance,
        "tree_cost": np.array([tree.cost]),
        "tree_entries": np.array([len(row)]),
    }
    outside = np.full(len(partition), -1, np.int32)
    largest = int(sections.entry_count.max())
    return PackedTree(start, partition, outside, cost, row, largest, columns)
