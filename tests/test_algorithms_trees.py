"""Packed trees: kernels and their twins, the S-tree's promises (RIABOV-02 to -06, -08), curve and forest."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.algorithms.riabov import hilbert_r_tree, packed_tree, reference, s_tree, tree_kernels
from pubsub_cluster.algorithms.riabov.packed_tree import Forest, Searcher, bounded, one_leaf
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.tuner import s_tree as packing

PACKERS = {"s-tree": s_tree.pack, "hilbert": hilbert_r_tree.pack}


def random_boxes(seed: int, count: int, dimensions: int, open_share: float = 0.2) -> tuple[Any, Any]:
    """Boxes with ends on a small lattice, so that faces meet, and some open ends."""
    rng = np.random.default_rng(seed)
    lo = rng.integers(0, 30, (dimensions, count)).astype(np.float64)
    hi = lo + rng.geometric(0.2, (dimensions, count)) - 1
    lo[rng.random(lo.shape) < open_share] = -np.inf
    hi[rng.random(hi.shape) < open_share] = np.inf
    return lo, hi


def random_points(seed: int, count: int, dimensions: int) -> Any:
    """Points on the lattice, some without a number somewhere."""
    rng = np.random.default_rng(seed + 1)
    points = rng.integers(-1, 32, (count, dimensions)).astype(np.float64)
    points[rng.random(points.shape) < 0.1] = -np.inf
    return points


def brute(lo: Any, hi: Any, points: Any) -> list[list[int]]:
    """The boxes of each point."""
    return [np.flatnonzero(((p >= lo.T) & (p <= hi.T)).all(axis=1)).tolist() for p in points]


def searched(tree: packed_tree.Tree, points: Any) -> list[list[int]]:
    """The boxes of each point, by a tree."""
    stops, places, _ = Searcher(tree).places(points)
    return [sorted(tree.order[places[a:b]].tolist()) for a, b in itertools.pairwise(stops.tolist())]


@pytest.mark.parametrize("name", sorted(PACKERS))
@settings(max_examples=40)
@given(
    seed=st.integers(0, 1 << 20),
    count=st.integers(1, 300),
    dimensions=st.integers(1, 5),
    branch=st.sampled_from([2, 3, 8, 40]),
)
def test_a_tree_finds_what_a_scan_finds(
    name: str, seed: int, count: int, dimensions: int, branch: int
) -> None:
    """RIABOV-01, points on faces included."""
    lo, hi = random_boxes(seed, count, dimensions)
    points = random_points(seed, 25, dimensions)
    tree = PACKERS[name](lo, hi, branch)
    assert sorted(tree.order.tolist()) == list(range(count))
    assert searched(tree, points) == brute(lo, hi, points)
    assert int(tree.child_count.max()) <= branch
    integers = packed_tree.Tree(*(array.astype(np.int32) for array in finite(tree)), tree.order)
    assert searched(integers, np.maximum(points, -100).astype(np.int32)) == brute(lo, hi, points)


def finite(tree: packed_tree.Tree) -> list[Any]:
    """The arrays of a tree with ends that fit integers."""
    return [np.clip(array, -100, 100) if array.dtype == np.float64 else array for array in tree[:7]]


@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 20), room=st.integers(0, 40), begin=st.integers(0, 5))
def test_search_and_its_twin(seed: int, room: int, begin: int) -> None:
    """The same boxes, visits and stops; and both stop where there is no room."""
    lo, hi = random_boxes(seed, 60, 3)
    points = random_points(seed, 8, 3)
    tree = s_tree.pack(lo, hi, 4)
    answers = []
    for function in (tree_kernels.search, reference.search):
        stops, visited = np.zeros(9, np.int64), np.zeros(8, np.int64)
        found = np.full(room, -1, np.int32)
        work = (np.zeros(len(tree.first_child) + 1, np.int32), np.zeros(60, np.uint8), visited)
        end = function(points, tree[:7], work, begin, stops, found)
        matched = [sorted(found[a:b].tolist()) for a, b in itertools.pairwise(stops[: end + 1].tolist())]
        answers.append((end, stops[: end + 1].tolist(), visited[begin:end].tolist(), matched))
    assert answers[0] == answers[1]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 20),
    count=st.integers(3, 80),
    dimensions=st.integers(1, 4),
    branch=st.integers(2, 9),
    skew=st.sampled_from([0.1, 0.25, 0.3, 0.5]),
)
def test_sweep_and_its_twin(seed: int, count: int, dimensions: int, branch: int, skew: float) -> None:
    lo, hi = bounded(*random_boxes(seed, count, dimensions))
    order = np.random.default_rng(seed).permutation(count)
    places = packing.candidate_places(count, branch, skew)
    volume, length = np.empty(len(places)), np.empty(len(places))
    reference.sweep(lo, hi, order, places, None, volume, length)
    found = packing.divided_sizes(lo[:, order], hi[:, order], places)
    assert np.array_equal(found, (volume, length))  # small integers: all sums are exact


def is_none_between(skew: float, count: int) -> bool:
    """RIABOV-02, erratum: no whole number is within both bounds, as for p = 1/2 and odd counts."""
    return math.ceil(skew * count - 1e-9) > math.floor((1 - skew) * count + 1e-9)


@pytest.mark.parametrize(("branch", "skew"), list(itertools.product((2, 3, 10, 40), (0.1, 0.3, 0.45, 0.5))))
def test_the_promises_of_the_packing(branch: int, skew: float) -> None:
    """RIABOV-02, -03, -04, -05, -08."""
    lo, hi = bounded(*random_boxes(branch, 3_001, 3))
    binary = packing.binarise(lo, hi, branch, skew)
    inner = np.flatnonzero(binary.left != packing.NONE)
    for node in inner.tolist():
        count, left, right = binary.size[node], binary.left[node], binary.right[node]
        assert binary.size[left] + binary.size[right] == count > branch
        assert binary.start[left] == binary.start[node]
        assert binary.start[right] == binary.start[node] + binary.size[left]
        least = min(binary.size[left], binary.size[right])
        assert least >= skew * count - 1e-9 or (is_none_between(skew, count) and least == count // 2)
        expected = int((1 - 2 * skew) * count / branch) + 1
        assert abs(len(packing.candidate_places(int(count), branch, skew)) - expected) <= 1
    leaves = set(np.flatnonzero(binary.left == packing.NONE).tolist())
    assert all(binary.size[leaf] <= branch for leaf in leaves)
    children = packing.compress(binary, branch)
    kept = [child for mine in children.values() for child in mine]
    assert len(kept) == len(set(kept)) and leaves <= set(kept)  # each node once, all leaf nodes as they were
    for mine in children.values():
        assert len(mine) <= branch
        assert len(mine) == branch or all(child in leaves for child in mine)


def test_the_child_with_most_boxes_is_taken() -> None:
    """RIABOV-08: no inner node that is left as a child has more boxes than one that was collapsed."""
    lo, hi = bounded(*random_boxes(5, 2_000, 3))
    binary = packing.binarise(lo, hi, 8, 0.2)
    children = packing.compress(binary, 8)
    parent = {int(c): n for n in range(len(binary.left)) for c in (binary.left[n], binary.right[n]) if c >= 0}
    for node, mine in children.items():
        collapsed = {parent[child] for child in mine} - {node}
        for child in list(collapsed):
            while parent[child] != node:
                child = parent[child]
                collapsed.add(child)
        left = [binary.size[child] for child in mine if child in children]
        assert min((binary.size[c] for c in collapsed), default=1 << 30) >= max(left, default=0)


def test_the_bottom_up_step_breaks_a_promise() -> None:
    """RIABOV-04, erratum: with the first step some inner node that is not penultimate has fewer than M."""
    lo, hi = bounded(*random_boxes(7, 3_000, 3))
    children = packing.compress(packing.binarise(lo, hi, 10, 0.3), 10, bottom_up=True)
    assert all(len(mine) <= 10 for mine in children.values())
    assert any(len(mine) < 10 and any(child in children for child in mine) for mine in children.values())
    boxes, ends = random_boxes(7, 3_000, 3)
    points = random_points(7, 20, 3)
    assert searched(s_tree.pack(boxes, ends, 10, 0.3, bottom_up=True), points) == brute(boxes, ends, points)


def test_the_example_of_the_sweep() -> None:
    """RIABOV-06: p = 1/4, M = 2, longest side x, eight boxes: 2, 4 or 6 of them come first."""
    lo = np.array([[0, 1, 2, 3, 10, 11, 12, 13], [0, 1, 0, 1, 0, 1, 0, 1]], np.float64)
    hi = lo + 1
    assert packing.candidate_places(8, 2, 0.25).tolist() == [2, 4, 6]
    binary = packing.binarise(lo, hi, 2, 0.25)
    assert binary.size[[binary.left[0], binary.right[0]]].tolist() == [4, 4]


def test_the_least_volume_wins() -> None:
    """RIABOV-05: of all places of the root, also where another one has shorter sides; ties by these."""
    differs = 0
    for seed in range(20):
        lo, hi = bounded(*random_boxes(seed, 60, 3, 0.0))
        binary = packing.binarise(lo, hi, 4, 0.2)
        longest = int(np.argmax(hi.max(axis=1) - lo.min(axis=1)))
        order = np.argsort(lo[longest] + hi[longest], kind="stable")
        places = packing.candidate_places(60, 4, 0.2)
        volume, length = np.empty(len(places)), np.empty(len(places))
        reference.sweep(lo, hi, order, places, None, volume, length)
        best = min(range(len(places)), key=lambda at: (volume[at], length[at]))
        assert binary.size[binary.left[0]] == places[best]
        differs += length[best] > length.min()
    assert differs


def test_ties_have_the_least_perimeter() -> None:
    """Boxes without volume in one dimension: sums of sides decide."""
    lo = np.array([[0, 1, 2, 3, 4, 20, 21, 22], [0] * 8], np.float64)
    binary = packing.binarise(lo, lo.copy(), 2, 0.25)
    # Volumes are all 0; of 2, 4 and 6 first ones: lengths 1 + 19, 3 + 18, 20 + 1.
    assert binary.size[binary.left[0]] == 2


def test_what_cannot_be_packed_is_refused() -> None:
    lo, hi = random_boxes(1, 10, 2)
    for branch, skew in ((1, 0.3), (40, 0.0), (40, 0.6)):
        with pytest.raises(CallerError, match="cannot be packed"):
            s_tree.pack(lo, hi, branch, skew)


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 5), (2, 4), (3, 3), (4, 2), (5, 1)])
def test_the_curve_is_a_walk_over_all_cells(dimensions: int, bits: int) -> None:
    """Each number once; neighbours on the curve are neighbours in space."""
    cells = np.array(list(itertools.product(range(1 << bits), repeat=dimensions))).T
    number = hilbert_r_tree.hilbert_number(cells, bits)
    assert sorted(number.tolist()) == list(range(1 << (bits * dimensions)))
    walk = cells[:, np.argsort(number)]
    assert np.abs(np.diff(walk, axis=1)).sum(axis=0).tolist() == [1] * (cells.shape[1] - 1)


def test_nodes_of_the_packed_r_tree_are_full() -> None:
    lo, hi = random_boxes(3, 1_000, 3)
    tree = hilbert_r_tree.pack(lo, hi, 10)
    assert sorted(tree.child_count.tolist())[-111:] == [10] * 111 and len(tree.first_child) == 111
    assert len(hilbert_r_tree.pack(lo[:, :1], hi[:, :1]).first_child) == 1


@settings(max_examples=30, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(PACKERS)))
def test_a_forest_has_what_was_inserted_and_not_deleted(data: st.DataObject, name: str) -> None:
    """Any mixture of changes, through several packings; dimensions that come later."""
    forest = Forest(lambda lo, hi: PACKERS[name](lo, hi, 4))
    seed = data.draw(st.integers(0, 1 << 16))
    dimensions, handles = 2, np.zeros(0, np.int64)
    lo, hi = np.zeros((2, 0)), np.zeros((2, 0))
    if data.draw(st.booleans(), "built"):
        lo, hi = random_boxes(seed, 50, 2)
        handles = np.arange(50) // 2
        forest.build(lo, hi, handles)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(packed_tree, "BUFFER_BOXES", 8)
        for step in range(data.draw(st.integers(1, 8), "steps")):
            if data.draw(st.booleans(), "insert"):
                more_dimensions = data.draw(st.integers(0, 1), "new dimensions")
                wide = np.full((more_dimensions, lo.shape[1]), np.inf)
                lo, hi, dimensions = (
                    np.vstack((lo, -wide)),
                    np.vstack((hi, wide)),
                    dimensions + more_dimensions,
                )
                new_lo, new_hi = random_boxes(seed + step, data.draw(st.integers(1, 12)), dimensions)
                new = 1_000 * (step + 1) + np.arange(new_lo.shape[1]) // 2
                forest.insert(new_lo, new_hi, new)
                lo, hi, handles = np.hstack((lo, new_lo)), np.hstack((hi, new_hi)), np.append(handles, new)
            elif len(handles):
                gone = data.draw(st.lists(st.sampled_from(sorted(set(handles.tolist()))), max_size=20))
                for handle in gone:
                    forest.delete(handle)
                kept = ~np.isin(handles, gone)
                lo, hi, handles = lo[:, kept], hi[:, kept], handles[kept]
            points = random_points(seed + step, 10, dimensions)
            event, handle, visited = forest.search(points)
            expected = [sorted(handles[found].tolist()) for found in brute(lo, hi, points)]
            assert [sorted(handle[event == at].tolist()) for at in range(10)] == expected
            assert len(visited) == 10 and len(forest.trees) <= 8
    assert forest.bytes > 0 or not len(handles)


@pytest.mark.parametrize("name", sorted(PACKERS))
def test_a_tree_whose_boxes_are_gone_is_packed_anew(name: str) -> None:
    """Memory follows the boxes that are there, within a factor of two."""
    lo, hi = random_boxes(9, 1_000, 3)
    forest = Forest(lambda below, above: PACKERS[name](below, above, 8))
    forest.build(lo, hi, np.arange(1_000))
    whole = forest.bytes
    for handle in range(900):
        forest.delete(handle)
    assert forest.bytes < 0.3 * whole and [len(tree.order) for tree in forest.trees] <= [200]
    points = random_points(9, 20, 3)
    event, handle, _ = forest.search(points)
    expected = [[box for box in found if box >= 900] for found in brute(lo, hi, points)]
    assert [sorted(handle[event == at].tolist()) for at in range(20)] == expected


def test_there_are_few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """About as many as the logarithm of how often the buffer was full."""
    monkeypatch.setattr(packed_tree, "BUFFER_BOXES", 8)
    forest = Forest(s_tree.pack)
    for step in range(40):
        lo, hi = random_boxes(step, 9, 2)
        forest.insert(lo, hi, np.arange(9 * step, 9 * step + 9))
        sizes = [len(tree.order) for tree in forest.trees]
        assert sum(sizes) == 9 * step + 9 and len(sizes) <= 1 + math.log2(step + 1)
        assert sizes == sorted(sizes, reverse=True)


def test_a_scan_is_one_leaf() -> None:
    lo, hi = random_boxes(2, 77, 3)
    points = random_points(2, 9, 3)
    assert searched(one_leaf(lo, hi), points) == brute(lo, hi, points)
