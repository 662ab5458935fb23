"""The measured constants: positive and complete; the timed kernels do what they say."""

from __future__ import annotations

import math

import numpy as np

from pubsub_cluster.tuner.constants import SMALL_TREE_NODES, CostConstants
from pubsub_cluster.workers.kernels import constants as kernels
from pubsub_cluster.workers.kernels.tables import Slices
from pubsub_cluster.workers.measure import measure_steps
from pubsub_cluster.workers.measure_tree import BRANCHES, grid_tree, nodes_of, walk_arguments


def test_constants_are_complete() -> None:
    found = measure_steps(scale=0.01)
    constants = CostConstants(**found)
    assert all(math.isfinite(value) and value > 0.0 for value in constants)


def test_timed_kernels_find_what_is_there() -> None:
    part, code = np.array([0, 2, 4], np.int32), np.array([0, 1, 1, 2], np.int32)
    digit = np.array([[3, 1, -1], [0, -1, 2]], np.int32)
    assert kernels.skip_tables(digit.reshape(-1), 3, part, code) == 2 + 1 + 1
    area = np.full(16, -1, np.int32)
    area[7] = 0  # the first table's half: 3 + 4 * 1
    pending = np.zeros(2, np.int64)
    multiplier = np.array([1, 4, 1, 4])
    assert kernels.probe_tables(np.abs(digit[0]), 3, part, code, multiplier, area, pending) == 1
    area = np.full(64, -1, np.int32)
    area[[1 + 4 * 1, 0 + 4 * 2, 63]] = 0  # of the cells {0, 1} and {1, 2}, four keys; two are there
    key = np.zeros(4, np.int64)
    assert kernels.probe_cells(np.array([1, 2], np.int32), 2, np.array([1, 4]), area, key) == 2
    blob = np.array([1, 0, 1, 1, 0, 0], np.int32)
    flag = np.array([1, 0], np.uint8)
    assert kernels.visit_clusters(np.array([0, 2, 4]), blob, flag, 1) == 1
    survivor = np.zeros(3, np.int32)
    columns = np.array([0, 1, 0, 0, 0, 1], np.int32)
    assert kernels.check_columns(1, columns, flag, survivor) == 2
    assert kernels.check_columns(2, columns, flag, survivor) == 1
    assert survivor[0] == 0


def test_every_event_opens_one_leaf_node_of_the_trees_that_are_timed() -> None:
    tree = grid_tree(3, (4, 3, 2, 5))
    assert len(tree.tree_first) == nodes_of((4, 3, 2, 5)) and nodes_of(BRANCHES) == SMALL_TREE_NODES
    random = np.random.default_rng(2)
    top = tree.tree_hi[:: len(tree.tree_first)]
    events = random.integers(1, top + 1, (50, 3)).astype(np.int32)
    assert kernels.open_leaves(*walk_arguments(tree, events)) == 50
    outside = np.repeat(top[None] + 1, 2, axis=0).astype(np.int32)
    assert kernels.open_leaves(*walk_arguments(tree, outside)) == 0


def test_slices_are_found() -> None:
    slices = Slices(np.array([0, 3], np.int32), np.array([0, 4, 9], np.int32))
    assert kernels.find_slices(np.array([0, 3, 4, 8, 9, 50], np.int32), slices) == 0 + 0 + 1 + 1 + 2 + 2
