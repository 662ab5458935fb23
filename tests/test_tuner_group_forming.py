"""Forming groups of cells: against the definitions over sets, and what the paper claims of it."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import plain_groups
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_groups import PlainCell, waste_by_definition, waste_by_recursion

from pubsub_cluster.tuner import group_forming
from pubsub_cluster.tuner.group_forming import (
    Measure,
    Renewal,
    Start,
    expected_waste,
    forgy,
    form,
    group_members,
)
from pubsub_cluster.tuner.groups import pack_bits

OWNERS = 70  # more than one word


@st.composite
def cell_lists(draw: st.DrawFn, min_size: int = 1, max_size: int = 12) -> list[PlainCell]:
    """Cells with few owners, so that there are ties, or spread over two words."""
    pool = draw(st.sampled_from((range(3), range(6), range(60, OWNERS))))
    owners = st.frozensets(st.sampled_from(pool), min_size=1)
    return draw(st.lists(st.tuples(st.integers(1, 5), owners), min_size=min_size, max_size=max_size))


def arrays_of(cells: list[PlainCell]) -> tuple[np.ndarray, np.ndarray]:
    is_in = np.array([[owner in interested for owner in range(OWNERS)] for _, interested in cells])
    return np.array([p for p, _ in cells], np.float64), pack_bits(is_in)


@given(cells=cell_lists())
def test_the_corrected_recursion_is_the_expected_waste(cells: list[PlainCell]) -> None:
    """RIABOV-23, D-21; and so is the closed form that groups are judged by."""
    assert waste_by_recursion(cells) == waste_by_definition(cells)
    weight, bits = arrays_of(cells)
    size = np.bitwise_count(bits).sum(axis=1)
    union = group_members(bits, np.zeros(len(cells), np.int32))
    found = expected_waste(
        weight.sum(keepdims=True), (weight * size).sum(keepdims=True), np.bitwise_count(union).sum(axis=1)
    )
    assert found.tolist() == [float(waste_by_definition(cells))]


def test_the_printed_recursion_is_another_one() -> None:
    """RIABOV-23, erratum: it differs for most groups, because its first joins cost the old cells nothing."""
    rng = random.Random(1)
    groups = [
        [(rng.randint(1, 9), frozenset(rng.sample(range(8), rng.randint(1, 6)))) for _ in range(4)]
        for _ in range(200)
    ]
    differ = sum(waste_by_recursion(group, as_printed=True) != waste_by_definition(group) for group in groups)
    assert differ > 150
    disjoint = [(1, frozenset({1})), (1, frozenset({2}))]
    assert waste_by_recursion(disjoint, as_printed=True) == Fraction(1, 2)
    assert waste_by_definition(disjoint) == 1


MEASURED = st.sampled_from(group_forming.MEASURES)


@settings(max_examples=150)
@given(
    cells=cell_lists(),
    count=st.integers(1, 5),
    measure=MEASURED,
    renewal=st.sampled_from(("move", "pass")),
    start=st.sampled_from(("heaviest", "growing", "pairs")),
    passes_max=st.sampled_from((0, 20)),
)
def test_forgy_is_as_defined(
    cells: list[PlainCell], count: int, measure: Measure, renewal: Renewal, start: Start, passes_max: int
) -> None:
    """D-20, RIABOV-21: passes until nothing moves, or up to a limit; 0: who joined whom before them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_forming, "FOUNDING_CELLS", 7)  # of up to 12: some are founders, some are not
        found = forgy(*arrays_of(cells), count, measure, renewal, start, passes_max)
    founders = cells[: max(7, 2 * count)]
    founded = plain_groups.plain_pairwise(founders, count, measure) if start == "pairs" else range(count)
    is_growing = start == "growing"
    expected = plain_groups.plain_forgy(cells, count, measure, renewal, founded, passes_max, is_growing)
    assert (found.group.tolist(), found.passes, found.is_stable) == expected
    assert sorted(set(found.group.tolist())) == list(range(min(count, len(cells)))), "no group is empty"


@settings(max_examples=150)
@given(cells=cell_lists(), count=st.integers(1, 5), measure=MEASURED)
def test_pairwise_grouping_is_as_defined(cells: list[PlainCell], count: int, measure: Measure) -> None:
    found = form("pairwise", *arrays_of(cells), count, measure)
    assert found.group.tolist() == plain_groups.plain_pairwise(cells, count, measure)


def test_a_joined_pair_as_close_as_another_comes_in_the_order_of_first_cells() -> None:
    owners = ([0, 3], [0, 2], [0, 1, 3], [0, 1, 3], [0, 2, 3], [0], [3])
    cells = list(zip((2, 1, 3, 3, 1, 3, 2), map(frozenset, owners), strict=True))
    found = form("pairwise", *arrays_of(cells), 3)
    assert found.group.tolist() == plain_groups.plain_pairwise(cells, 3, "total") == [0, 0, 1, 1, 0, 2, 0]


@settings(max_examples=150)
@given(cells=cell_lists(), count=st.integers(1, 5), measure=MEASURED)
def test_the_spanning_tree_is_as_defined(cells: list[PlainCell], count: int, measure: Measure) -> None:
    found = form("spanning-tree", *arrays_of(cells), count, measure)
    assert found.group.tolist() == plain_groups.plain_spanning_tree(cells, count, measure)


@given(cells=cell_lists(), count=st.integers(1, 4))
def test_forgy_rests_in_a_local_optimum(cells: list[PlainCell], count: int) -> None:
    """RIABOV-21, A.2: no cell of a group of several could waste less in another one."""
    found = form("forgy", *arrays_of(cells), count)
    group = found.group.tolist()
    assert found.is_stable

    def total(groups: list[int]) -> Fraction:
        return sum(
            (waste_by_definition(mine) * sum(p for p, _ in mine)
             for mine in ([cells[c] for c in range(len(cells)) if groups[c] == g] for g in set(groups))),
            Fraction(0),
        )  # fmt: skip

    for cell, number in enumerate(group):
        if group.count(number) > 1:
            moved = [total([*group[:cell], other, *group[cell + 1 :]]) for other in range(max(group) + 1)]
            assert total(group) == min(moved)


@given(cells=cell_lists(), count=st.integers(1, 5))
def test_forgy_from_pairs_is_no_worse_than_pairwise_grouping(cells: list[PlainCell], count: int) -> None:
    """ADR 20: where all cells are founders, moves only lower what pairwise grouping wastes."""
    weight, bits = arrays_of(cells)

    def total(group: np.ndarray) -> Fraction:
        groups = [[cell for cell, mine in zip(cells, group, strict=True) if mine == g] for g in set(group)]
        return sum((waste_by_definition(one) * sum(p for p, _ in one) for one in groups), Fraction(0))

    found = form("forgy", weight, bits, count), form("pairwise", weight, bits, count)
    assert total(found[0].group) <= total(found[1].group)


def many_cells() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    is_in = rng.random((60, OWNERS)) < 0.2
    is_in[:, 0] = True
    return rng.integers(1, 9, 60).astype(np.float64), pack_bits(is_in)


def test_passes_are_limited() -> None:
    """RIABOV-21: and it is told when they were too few."""
    cut = forgy(*many_cells(), 8, passes_max=1)
    assert (cut.passes, cut.is_stable) == (1, False)
    whole = forgy(*many_cells(), 8)
    assert whole.is_stable and 1 < whole.passes < group_forming.PASSES_MAX


@pytest.mark.parametrize("method", group_forming.METHODS)
def test_many_groups_waste_nothing(method: str) -> None:
    cells = [(1, frozenset({n})) for n in range(5)]
    weight, bits = arrays_of(cells)
    assert form(method, weight, bits, 9).group.tolist() == [0, 1, 2, 3, 4]
