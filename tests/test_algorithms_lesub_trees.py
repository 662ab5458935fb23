"""The trees and tables of LESUB: beside brute force, kernels beside references, and what they promise."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from core_cases import INTEGERS, NUMBERS, catalogues, check_core, conjunctions_of, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import raw_batch

from pubsub_cluster.algorithms.conjunctions import (
    WITH_ATTRIBUTE,
    Comparison,
    ConjunctionMatcher,
    Conjunctions,
)
from pubsub_cluster.algorithms.lesub import (
    aguilera,
    gather,
    gough,
    hanson,
    neon,
    store,
    tree_reference,
)
from pubsub_cluster.algorithms.lesub.aguilera import Aguilera
from pubsub_cluster.algorithms.lesub.gough import Gough
from pubsub_cluster.algorithms.lesub.hanson import Hanson
from pubsub_cluster.algorithms.lesub.intervals import hulls_of, intervals_of
from pubsub_cluster.algorithms.lesub.neon import Neon
from pubsub_cluster.algorithms.registry import make_matcher
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.expression import And, Atom, Operator

LT, LE, EQ, NE, GE, GT = Comparison
CORES = [Gough, Aguilera, Hanson, lambda: Hanson("least selective"), Neon]
FINITE = st.one_of(INTEGERS, st.sampled_from([0.5, 2.5, 1e300]))
"""With an infinity as a key there are places where nothing is; whether they are marked does not matter."""
CATALOGUES = catalogues(constants=NUMBERS)


def columns(catalogue: Any, first: int = 0) -> Conjunctions:
    """Owners from `first` on, in columns."""
    return conjunctions_of([(owner, one) for owner, mine in enumerate(catalogue, first) for one in mine])


@pytest.mark.parametrize("make", CORES)
@settings(max_examples=150)
@given(catalogue=CATALOGUES, values=rows(), data=st.data())
def test_against_brute_force(make: Any, catalogue: Any, values: Any, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "WASTE_LEAST", 1)  # so that deletions start anew
        patch.setattr(gather, "FOUND_LEAST", data.draw(st.sampled_from([1, 16]), "room"))
        check_core(make, catalogue, values, data)


@settings(max_examples=60)
@given(catalogue=CATALOGUES, values=rows(), data=st.data())
def test_kernels_beside_their_references(catalogue: Any, values: Any, data: st.DataObject) -> None:
    places = [
        (Gough(), gough, "descend", slice(0)),
        (Aguilera(), aguilera, "walk", slice(3)),
        (Neon(), neon, "query", slice(3)),
        (Hanson(), hanson.hanson_kernels, "search", slice(1, 2)),
    ]
    built = data.draw(st.integers(0, len(catalogue)), "built")
    for core, module, name, compared in places:
        core.build(columns(catalogue[:built]))
        core.insert(columns(catalogue[built:], built))
        found, work = core.match(values), core.work
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, getattr(tree_reference, name))
            expected = core.match(values)
        assert sorted(zip(*map(np.ndarray.tolist, found), strict=True)) == sorted(
            zip(*map(np.ndarray.tolist, expected), strict=True)
        )
        assert work[:, compared].tolist() == core.work[:, compared].tolist()


@settings(max_examples=60)
@given(catalogue=CATALOGUES, values=rows())
def test_gough_has_one_path_and_the_nodes_it_should(catalogue: Any, values: Any) -> None:
    """LESUB-07: a node is visited per level; and no more nodes than the ranges between constants need."""
    core, everything = Gough(), columns(catalogue)
    core.build(everything)
    core.match(values)
    levels = len(np.unique(everything.attribute))
    assert np.all(core.work[:, 0] <= levels)
    edges = np.diff(core.tree.stops)
    assert np.all(core.work[:, 1] <= core.work[:, 0] * int(edges.max(initial=0)).bit_length())
    intervals, is_possible = intervals_of(everything)
    if np.all(is_possible):
        assert core.tree.node_count == tree_reference.gough_nodes(intervals, len(everything.owner))


def test_gough_refuses_what_explodes() -> None:
    """Beyond a limit, naming it; and what was there is still there."""
    make = ConjunctionMatcher("gough", lambda: Gough(nodes_max=200))
    catalogue = [(at, Atom(f"a{at % 4}", Operator.EQ, at)) for at in range(6)]
    make.build(catalogue)
    batch = raw_batch([{"a0": (4,), "a1": (1,)}, {"a2": (2,)}])
    before = [part.tolist() for part in make.match(batch)]
    assert before == [[0, 2, 3], [1, 4, 2]]
    explosion = [(at, Atom(f"a{at % 9}", Operator.EQ, at)) for at in range(6, 40)]
    with pytest.raises(CallerError, match="too many nodes") as raised:
        make.build(explosion)
    assert raised.value.limit == 200 and raised.value.seen > 200
    for handle, expression in explosion[:30]:
        try:
            make.insert(handle, expression)
        except CallerError:
            break
    else:
        raise AssertionError("nothing was refused")
    assert [part.tolist() for part in make.match(batch)] == before
    make.delete(0)
    with pytest.raises(CallerError, match="too many subscriptions held"):
        Gough(held_max=5).build(columns([[((0, EQ, 1.0),)]] * 6))


@settings(max_examples=60)
@given(catalogue=CATALOGUES, data=st.data())
def test_the_nodes_of_aguileras_tree(catalogue: Any, data: st.DataObject) -> None:
    """LESUB-09: a node for each distinct way to a test, a leaf for each distinct way; in any order."""
    core = Aguilera()
    core.build(columns(catalogue))
    tests, leaves = set(), set()
    for conjunction in (one for mine in catalogue for one in mine):
        way: tuple[Any, ...] = ()
        for attribute, comparison, constant in sorted(
            conjunction, key=lambda one: (one[0], one[1] != EQ, one[1], one[2])
        ):
            is_value = comparison == EQ
            tests.add((way, attribute, comparison, None if is_value else constant))
            way = (*way, (attribute, comparison, constant))
        leaves.add(way)
    assert core.node_count == len(tests) + len(leaves)
    other = Aguilera()
    for owner in data.draw(st.permutations(range(len(catalogue)))):
        other.insert(columns([catalogue[owner]], owner))
    assert other.node_count == core.node_count


def check_forest(core: Hanson, intervals: dict[int, tuple[float, float]]) -> None:
    """The tree is in order and balanced; each interval is marked where it should be, and nowhere else."""
    keys, links, heads, marks, _, _, sizes = core._forest
    marked = []
    for node, kind in itertools.product(range(sizes[0]), range(3)):
        mark = links[node, 2 + kind]
        while mark >= 0:
            assert heads[marks[mark, 1]] == links[node, 2 + kind]
            marked.append((int(marks[mark, 0]), node, kind))
            mark = marks[mark, 2]
    expected = []

    def visit(node: int, left: float, right: float, mine: list[int]) -> int:
        """Check what is between two keys, where `mine` hold something but not everything."""
        if node < 0:
            return 0
        at = float(keys[node])
        assert left <= at <= right
        expected.extend((one, node, 2) for one in mine if intervals[one][0] <= at <= intervals[one][1])
        depths = []
        for side, (lo, hi) in enumerate([(left, at), (at, right)]):
            touching = [one for one in mine if intervals[one][side] != at]
            touching = [one for one in touching if (intervals[one][side] < at) == (side == 0)]
            whole = [one for one in touching if intervals[one][0] <= lo and hi <= intervals[one][1]]
            expected.extend((one, node, side) for one in whole)
            depths.append(visit(int(links[node, side]), lo, hi, [i for i in touching if i not in whole]))
        assert abs(depths[0] - depths[1]) <= 1 and links[node, 5] == 1 + max(depths)
        return int(links[node, 5])

    for root in core._roots.tolist():
        visit(root, -np.inf, np.inf, list(intervals))
    assert sorted(expected) == sorted(marked) and sizes[3] == len(marked)
    free, mark = 0, sizes[2]
    while mark >= 0:
        assert marks[mark, 0] == -1
        free, mark = free + 1, marks[mark, 4]
    assert free + sizes[3] == sizes[1]


@settings(max_examples=150)
@given(catalogue=catalogues(attributes=1, constants=FINITE), data=st.data())
def test_hansons_trees_stay_balanced(catalogue: Any, data: st.DataObject) -> None:
    """LESUB-14: after any insertions and deletions, marks are where a new tree would have them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hanson, "PLACE_MARKS_MAX", 1)  # so that marks run out often
        core = Hanson()
        intervals: dict[int, tuple[float, float]] = {}
        places: dict[int, list[int]] = {}
        for owner, mine in enumerate(catalogue):
            begin = sum(map(len, places.values()))
            part = columns([mine], owner)
            core.insert(part)
            hulls, _ = hulls_of(part)
            places[owner] = list(range(begin, begin + len(mine)))
            for place, lo, hi in zip(hulls.place.tolist(), hulls.lo, hulls.hi, strict=True):
                if lo <= hi:
                    intervals[begin + place] = float(lo), float(hi)
            check_forest(core, intervals)
        owners = st.lists(st.sampled_from(sorted(places)), unique=True) if places else st.just([])
        for owner in data.draw(owners, "deleted"):
            core.delete(owner)
            for place in places[owner]:
                intervals.pop(place, None)
            check_forest(core, intervals)


def test_marks_run_out_within_a_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotation that has to copy a long list asks for room, and its path is balanced afterwards."""
    stops = []

    def grown_a_little(array: Any, size: int, fill: float = 0) -> Any:
        if size <= len(array):
            return array
        stops.append(len(array))
        wider = np.full((size, *array.shape[1:]), fill, array.dtype)
        wider[: len(array)] = array
        return wider

    monkeypatch.setattr(hanson, "grown", grown_a_little)
    lows = [0.0] * 400 + [float(low) for low in np.random.default_rng(2).permutation(60)]
    everything = columns([[((0, GE, low), (0, LE, low or 100.0))] for low in lows])
    core = Hanson()
    core.build(everything)
    hulls, _ = hulls_of(everything)
    check_forest(core, dict(enumerate(zip(hulls.lo.tolist(), hulls.hi.tolist(), strict=True))))
    assert len(stops) > 10


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_many_keys_in_any_order(order: str) -> None:
    """Deep trees, in which rotations move many marks."""
    lows = np.arange(300.0)
    lows = {
        "ascending": lows,
        "descending": lows[::-1],
        "random": np.random.default_rng(1).permutation(lows),
    }[order]
    catalogue = columns([[((0, GE, low), (0, LE, low + 1000 // (low + 1)))] for low in lows.tolist()])
    core = Hanson()
    core.build(catalogue)
    hulls, _ = hulls_of(catalogue)
    check_forest(core, dict(enumerate(zip(hulls.lo.tolist(), hulls.hi.tolist(), strict=True))))


def test_operations_of_the_events_type_are_read_alone() -> None:
    """LESUB-15: a row per predicate; types apart; an attribute may be compared with another."""
    core = Neon()
    less_than_second = (0, WITH_ATTRIBUTE + LT, 1.0)
    catalogue = columns(
        [[((0, EQ, 1.0), (1, LT, 5.0))], [((0, EQ, 1.0),)], [(less_than_second,)], [()], [()]]
    )
    core.build(catalogue, np.array([0, 1, 1, 0, 1], np.int32))
    assert core.row_count == 4 and core.operation_count == 4
    values = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 0.5], [1.0, np.nan], [1.0, 2.0]])
    event, owner = core.match(values, np.array([0, 1, 1, 0, 7], np.int32))
    assert sorted(zip(event.tolist(), owner.tolist(), strict=True)) == [
        (0, 0), (0, 3), (1, 1), (1, 2), (1, 4), (2, 1), (2, 4), (3, 3),
    ]  # fmt: skip
    assert core.work[:, 0].tolist() == [2, 2, 2, 2, 0]


@settings(max_examples=60)
@given(
    triples=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(Comparison), st.integers(0, 2)), min_size=1, max_size=8
    ),
    values=rows(3),
)
def test_attribute_against_attribute(triples: Any, values: Any) -> None:
    """LESUB-15: any comparison of two attributes; none holds where one is absent."""
    core = Neon()
    core.build(columns([[((left, WITH_ATTRIBUTE + op, float(right)),)] for left, op, right in triples]))
    expected = set()
    for owner, (attribute, comparison, with_attribute) in enumerate(triples):
        for event, row in enumerate(values):
            if tree_reference.holds(row[attribute], comparison, row[with_attribute]):
                expected.add((event, owner))
    assert set(zip(*map(np.ndarray.tolist, core.match(values)), strict=True)) == expected


ATTRIBUTES = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from([-1, 0, 1, 2.5, 2**53 + 1, "x", "y", "X", True, False])
ATOMS = st.builds(
    lambda name, operator, other: Atom(name, operator, other=other),
    ATTRIBUTES,
    st.sampled_from([Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.EQ, Operator.NE]),
    ATTRIBUTES,
) | st.builds(
    Atom, ATTRIBUTES, st.sampled_from([Operator.LT, Operator.EQ, Operator.NE]), st.sampled_from([0, 1])
)


@settings(max_examples=150)
@given(
    expressions=st.lists(st.lists(ATOMS, min_size=1, max_size=3).map(tuple).map(And), max_size=8),
    events=st.lists(
        st.dictionaries(ATTRIBUTES, st.lists(VALUES, min_size=1, max_size=2).map(tuple)), max_size=6
    ),
)
def test_neon_compares_attributes_of_any_kind(expressions: Any, events: Any) -> None:
    """LESUB-15 through the language: numbers in rows; texts and booleans as the naive matcher has them."""
    matcher, naive = make_matcher("neon"), make_matcher("naive")
    assert [matcher.supports(one) for one in expressions] == [None] * len(expressions)
    assert make_matcher("gough").supports(Atom("a", Operator.LT, other="b")) is not None
    batch = raw_batch(events)
    for one in (matcher, naive):
        one.build(list(enumerate(expressions[:4])))
        for handle, expression in enumerate(expressions[4:], 4):
            one.insert(handle, expression)
    assert [part.tolist() for part in matcher.match(batch)] == [part.tolist() for part in naive.match(batch)]
