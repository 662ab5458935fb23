"""H-Tree, Tama and Simple: kernels and what the paper words, cores beside a scan, the paper's examples."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.algorithms import list_kernels
from pubsub_cluster.algorithms.htree import (
    h_tree_kernels,
    range_core,
    range_kernels,
    reference,
    tama_kernels,
)
from pubsub_cluster.algorithms.htree.h_tree import HTreeCore
from pubsub_cluster.algorithms.htree.plan import Axis, Plan, chosen_plan, index_of, most_popular, spread
from pubsub_cluster.algorithms.htree.range_core import RangeCore
from pubsub_cluster.algorithms.htree.ranges import Ranges
from pubsub_cluster.algorithms.htree.simple import SimpleCore
from pubsub_cluster.algorithms.htree.tama import TamaCore
from pubsub_cluster.algorithms.htree.tradeoff import best_cells, cost, expected_share, filtration
from pubsub_cluster.algorithms.lists import Lists
from pubsub_cluster.algorithms.registry import make_matcher
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.expression import And, Atom, Operator
from pubsub_cluster.language.raw_batch import AttributeEntries, NumberEntries, RawBatch

ATTRIBUTES = 5
HUGE = float(np.finfo(np.float64).max)
ENDS = st.one_of(
    st.integers(0, 16).map(lambda n: n / 16), st.sampled_from([-HUGE, -1.0, 0.3, 2.0, 1e300, HUGE, math.inf])
)
VALUES = st.one_of(ENDS, st.just(-math.inf))
SIDES = st.tuples(ENDS, ENDS).map(lambda pair: (min(pair), max(pair)))
ROW = st.dictionaries(st.integers(0, ATTRIBUTES - 1), SIDES, max_size=4)
EVENTS = st.lists(st.lists(VALUES, min_size=ATTRIBUTES, max_size=ATTRIBUTES), min_size=1, max_size=6)


def columns(rows: list[dict[int, tuple[float, float]]], dtype: Any = np.float64) -> Ranges:
    """Rows in columns."""
    flat = [(number, *ends) for row in rows for number, ends in row.items()]
    return Ranges(
        np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64))).astype(np.int64),
        np.array([one[0] for one in flat], np.int32),
        np.array([one[1] for one in flat], dtype),
        np.array([one[2] for one in flat], dtype),
    )


def plans() -> st.SearchStrategy[Plan]:
    """Plans with any attributes, lines or knots, and sometimes few copies."""

    def make(numbers: list[int], cells: int, knots: int, most: int, high: float) -> Plan:
        ascending = np.sort(np.random.default_rng(knots).integers(0, 17, knots) / 16)
        return Plan(tuple(Axis(number, 0.0, high, ascending) for number in numbers), cells, most)

    numbers = st.lists(st.integers(0, ATTRIBUTES - 1), unique=True, max_size=3)
    return st.builds(
        make,
        numbers,
        st.integers(4, 9),
        st.sampled_from([0, 0, 7, 40]),
        st.sampled_from([1, 3, 256]),
        st.sampled_from([1.0, 2.0, HUGE]),
    )


def make_core(kind: str, plan: Plan) -> RangeCore:
    """A core of a kind."""
    cores: dict[str, Any] = {
        "planned": lambda: HTreeCore(plan),
        "h-tree": HTreeCore,
        "tama": TamaCore,
        "tama, domain": lambda: TamaCore((0.0, 1.0)),
        "simple": SimpleCore,
    }
    core: RangeCore = cores[kind]()
    return core


@pytest.mark.parametrize("kind", ["planned", "h-tree", "tama", "tama, domain", "simple"])
@settings(max_examples=60)
@given(rows=st.lists(ROW, max_size=14), events=EVENTS, plan=plans(), data=st.data())
def test_cores_find_what_a_scan_finds(
    kind: str, rows: list[Any], events: list[Any], plan: Plan, data: st.DataObject
) -> None:
    """Built with some rows, with others inserted, some deleted, and some inserted again."""
    core, values = make_core(kind, plan), np.array(events)
    built = data.draw(st.integers(0, len(rows)), "built")
    order = core.build(columns(rows[:built]))
    assert sorted(order.tolist()) == list(range(built))
    mine = [rows[which] for which in order.tolist()]

    def check() -> None:
        store = core.store
        alive = store.alive[: store.rows]
        everything = columns(mine)
        expected = reference.matching(tuple(everything), alive, values)
        event, row = core.match(values).pairs()
        found = [row[event == at].tolist() for at in range(len(values))]
        assert found == expected and core.bytes >= 0
        first = core.match(values, 1)
        assert np.diff(first.stops).tolist() == [len(one[:1]) for one in expected]
        live, kept = store.live()
        assert live.tolist() == np.flatnonzero(alive).tolist() and kept.rows == store.live_rows

    check()
    for step in (rows[built:], rows[:3]):
        if step:
            assert core.insert(columns(step)) == len(mine)
            mine += step
        check()
        alive = np.flatnonzero(core.store.alive[: core.store.rows]).tolist()
        gone = data.draw(st.lists(st.sampled_from(alive), unique=True) if alive else st.just([]), "gone")
        core.delete(np.array(gone, np.int64))
        check()


@given(
    low=st.floats(0, 1),
    high=st.floats(0, 1),
    cells=st.integers(4, 12),
    value=st.floats(0, 1),
    inside=st.floats(0, 1),
)
def test_cells(low: float, high: float, cells: int, value: float, inside: float) -> None:
    """HTREE-03: a range's cells hold it wholly; a value is looked for in all its cells."""
    low, high = min(low, high), max(low, high)
    first, last = placed(low, high, cells)
    assert first <= low * cells and high * cells <= last + 2
    pieces = max(1, math.ceil((high - low) * cells))
    assert last - first + 1 <= pieces + 2  # mended by one cell on either side
    at = low + inside * (high - low)
    assert reference.cells_of_value(min(max(at, low), high), cells) & set(range(first, last + 1))
    assert len(reference.cells_of_value(value, cells)) <= 4


def placed(low: float, high: float, cells: int) -> tuple[int, int]:
    """`cells_of_range` through the kernel that calls it."""
    plan = Plan((Axis(0),), cells)
    first, last = np.zeros(1, np.int64), np.zeros(1, np.int64)
    rows = tuple(columns([{0: (low, high)}]))
    heads = np.zeros((plan.buckets, 2), np.int32)
    h_tree_kernels.count_copies(rows, 0, 1, tuple(index_of(plan)), (first, last), heads)
    return int(first[0]), int(last[0])


@given(numerator=st.integers(0, 64), width=st.integers(0, 64), cells=st.sampled_from([4, 8]))
def test_cells_are_those_of_the_definition(numerator: int, width: int, cells: int) -> None:
    """D-24 and D-25 to the letter, where no rounding is: on a lattice of 64ths, and c a power of two."""
    low, high = numerator / 64, min(1.0, (numerator + width) / 64)
    found = placed(low, high, cells)
    pieces = max(1, math.ceil((high - low) * cells))
    if math.log2(pieces).is_integer():
        plain = reference.cells_of_range(low, high, cells)
        assert set(range(found[0], found[1] + 1)) == plain
        assert width * cells > 64 or len(plain) == 1


@given(at=st.lists(st.integers(-1, 64), min_size=3, max_size=3), cells=st.sampled_from([4, 5, 8]))
def test_an_event_looks_at_the_buckets_of_its_cells(at: list[int], cells: int) -> None:
    """Against D-24: one row for each bucket, all of which are compared."""
    plan = Plan(tuple(Axis(number, 0.0, 64.0) for number in range(3)), cells)
    core = HTreeCore(plan)
    core.lists.heads[:, 1] = 1
    core.lists.lay_out()
    pushed = np.arange(plan.buckets)
    assert list_kernels.push_all(core.lists.arrays, pushed, pushed, 0) == plan.buckets
    anything = Ranges(np.zeros(plan.buckets + 1, np.int64), *(column for column in columns([])[1:]))
    core.store.append(anything)
    values = np.array([at], np.float64)
    values[values < 0] = -math.inf
    row = core.match(values).row
    digits = [reference.cells_of_value(one / 64 if one >= 0 else -1.0, cells) for one in at]
    expected = reference.buckets(digits, cells)
    # Positions of 64ths times 5 are not exact: a cell more, whose edge the value is on, may not be looked at.
    assert set(row.tolist()) <= expected and len(row) == len(set(row.tolist()))
    if cells != 5:
        assert set(row.tolist()) == expected
        assert core.seen.tolist() == [[len(expected), len(expected)]]


TABLE_1 = [
    ((0.0, 0.1), (0.2, 0.3)),
    ((0.2, 0.3), (0.8, 0.9)),
    ((0.2, 0.3), (0.1, 0.2)),
    ((0.7, 0.8), (0.3, 0.4)),
    ((0.5, 0.6), (0.4, 0.5)),
    ((0.1, 0.2), (0.8, 0.9)),
    ((0.4, 0.5), (0.6, 0.7)),
    ((0.9, 1.0), (0.9, 1.0)),
    ((0.6, 0.7), (0.5, 0.6)),
    ((0.8, 0.9), (0.3, 0.4)),
]


def test_the_example_of_figure_2() -> None:
    """HTREE-01 and -02: buckets of the ten subscriptions, and what the event is compared with."""
    core = HTreeCore(Plan((Axis(0), Axis(1)), 4))
    order = core.build(columns([dict(enumerate(row)) for row in TABLE_1]))
    heads, pool, _ = core.lists.arrays
    held = {
        bucket: sorted(order[pool[start : start + size]].tolist())
        for bucket, (start, size) in enumerate(heads.tolist())
        if size
    }
    assert held == {0: [0, 2], 2: [1, 5], 5: [4], 6: [6], 8: [3, 9], 9: [8], 10: [7]}
    _, row = core.match(np.array([[0.24, 0.82]])).pairs()
    assert order[row].tolist() == [1] and core.seen.tolist() == [[4, 2]]
    assert reference.buckets([{0, 3}, {2, 3}], 4) == {2, 3, 14, 15}


@settings(max_examples=50)
@given(data=st.data(), count=st.integers(1, 5))
def test_lists(data: st.DataObject, count: int) -> None:
    """Beside Python's lists: pushed and removed in any order, with pieces that are used again."""
    lists, plain = Lists(count), [set[int]() for _ in range(count)]
    laid_out = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    lists.heads[:, 1] = laid_out
    lists.lay_out()
    lists.pool = lists.pool[: lists.arrays[2][0]].copy()
    for number in range(data.draw(st.integers(0, 60))):
        which = data.draw(st.integers(0, count - 1))
        if plain[which] and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(plain[which])))
            compared = list_kernels.remove_all(lists.arrays, np.array([which]), np.array([gone]))
            assert 1 <= compared <= len(plain[which])
            plain[which].remove(gone)
            continue
        while not list_kernels.push_all(lists.arrays, np.array([which]), np.array([number]), 0):
            lists.pool = np.concatenate((lists.pool, np.zeros(1, np.int32)))
        plain[which].add(number)
    heads, pool, _ = lists.arrays
    assert [sorted(pool[start : start + size].tolist()) for start, size in heads] == list(map(sorted, plain))
    used = [(start - 1, start + pool[start - 1]) for start, size in heads.tolist() if start]
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(sorted(used)))


def test_a_full_pool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = Lists(1)
    monkeypatch.setattr("pubsub_cluster.algorithms.lists.POOL_MAX", 1_500)
    with pytest.raises(CallerError, match="too long"):
        lists.grow()


@given(low=st.integers(0, 8191), high=st.integers(0, 8191))
def test_pieces(low: int, high: int) -> None:
    """The fewest cells on 13 levels, and that is what the rows stand in."""
    low, high = min(low, high), max(low, high)
    heads, work = np.zeros((tama_kernels.NODES, 2), np.int32), np.zeros(28, np.int64)
    count = tama_kernels.count_pieces(*np.array([[low], [high]], np.int16), work, heads)
    plain = reference.pieces(low, high)
    assert set(np.flatnonzero(heads[:, 1]).tolist()) == plain and count == len(plain)
    assert reference.leaf_of(float(low), 0.0, 8192.0) == low


@given(ends=st.lists(ENDS.filter(math.isfinite), min_size=2, max_size=2), values=st.lists(ENDS, min_size=2))
def test_positions_never_fall(ends: list[float], values: list[float]) -> None:
    """Whatever the domain: as long as they never fall, no match is missed."""
    low, high = min(ends), max(ends)
    for knots in (np.zeros(0), np.sort(np.array(ends))):
        index = index_of(Plan((Axis(0, low, high, knots),), 4))
        column = np.sort(np.array(values))[:, None]
        out = np.empty((len(values), 1))
        h_tree_kernels.positions(column, np.zeros(1, np.int64), index.line, index.knots, out)
        assert (np.diff(out[:, 0]) >= 0).all() and out.min() >= 0 and out.max() <= 1
        if len(knots) or 0 < high - low < 1e9:
            plain = [reference.position(value, low, high, knots) for value in column[:, 0].tolist()]
            assert np.allclose(out[:, 0], plain)
            assert np.allclose(out[:, 0], spread(Axis(0, low, high, knots), column[:, 0]))


def test_a_scan_goes_on_where_there_was_no_room() -> None:
    """All kernels give the event at which the output was full."""
    anything = columns([{} for _ in range(10)])
    values = np.zeros((3, 1))
    for core in (SimpleCore(), HTreeCore(), TamaCore()):
        core.build(anything)
        core._found = np.empty(4, np.int32)
        assert np.diff(core.match(values).stops).tolist() == [10, 10, 10]
    stops, found = np.zeros(4, np.int64), np.empty(12, np.int32)
    assert range_kernels.scan(tuple(anything), np.ones(10, np.uint8), values, -1, 0, stops, found) == 1


@given(rows=st.lists(ROW, max_size=8), data=st.data())
def test_rows_are_copied_in_any_order(rows: list[Any], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(rows))))[: data.draw(st.integers(0, 8))]
    last = data.draw(st.lists(st.integers(-1, 1), max_size=ATTRIBUTES))
    found = columns(rows).taken(np.array(order, np.int64), np.array(last, np.int16))
    plain = [
        dict(sorted(rows[at].items(), key=lambda one: one[0] < len(last) and last[one[0]] >= 0))
        for at in order
    ]
    assert all(np.array_equal(a, b) for a, b in zip(found, columns(plain), strict=True))
    assert columns(rows).first(len(rows)).rows == len(rows)


@pytest.mark.parametrize(
    ("levels", "least", "greatest", "weight", "cells"),
    [(8, 4, 10, 0.5, 6.325), (3, 5, 10, 0.5, 7.071), (8, 4, 10, 0.7, 6.669)],
)
def test_formula_8(levels: int, least: float, greatest: float, weight: float, cells: float) -> None:
    """HTREE-09: the grid minimum of (6), and the short form of (8)."""
    found = best_cells(levels, least, greatest, weight)
    assert found == pytest.approx(cells, abs=5e-4)
    assert found == pytest.approx(math.sqrt(least * greatest) * (weight / (1 - weight)) ** (1 / (2 * levels)))
    grid = np.linspace(least, greatest, 60_001)
    best = grid[np.argmin([cost(c, levels, least, greatest, weight) for c in grid.tolist()])]
    assert best == pytest.approx(found, abs=2e-4)
    assert filtration(8, 8) == pytest.approx(0.000391, abs=1e-6)
    with pytest.raises(CallerError, match="no best"):
        best_cells(0, least, greatest)


@pytest.mark.parametrize(("cells", "levels"), [(3, 2), (65, 1), (10, 9)])
def test_plans_out_of_bounds_are_refused(cells: int, levels: int) -> None:
    with pytest.raises(CallerError):
        HTreeCore(Plan(tuple(Axis(number) for number in range(levels)), cells))


def test_popular_and_narrow_attributes_are_chosen() -> None:
    """HTREE-40: attribute 0 is rare, 1 popular but wide, 2 and 3 popular and narrow."""
    random = np.random.default_rng(3)
    rows = []
    for number in range(2_000):
        low = random.uniform(0, 0.9, 4)
        row = {1: (0.0, 1.0), 2: (low[2], low[2] + 0.05), 3: (low[3], low[3] + 0.1)}
        rows.append(row if number % 10 else {**row, 0: (low[0], low[0] + 0.01)})
    ranges = columns(rows)
    plan = chosen_plan(ranges)
    assert [axis.attribute for axis in plan.axes] == [2, 3, 0] and plan.cells == 6
    assert most_popular(ranges, 4, 2) == [1, 2]
    assert expected_share(0.4, 8) == pytest.approx(0.7)


def test_a_matcher_is_built_anew_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Insertions past twice the rows make a new plan; deletions past half of them free their room."""
    monkeypatch.setattr(range_core, "SLACK_ROWS", 8)
    numbers = np.arange(0, 100, 7)
    event = np.arange(len(numbers), dtype=np.int32)
    entries = AttributeEntries(NumberEntries(event, numbers.astype(np.int64), np.zeros(len(numbers))))
    batch = RawBatch(len(numbers), {"a": entries}, {})
    for name in ("h-tree", "tama", "simple"):
        matcher, naive = make_matcher(name), make_matcher("naive")
        for handle in range(100):
            low = handle * 37 % 90
            box = And((Atom("a", Operator.GE, low), Atom("a", Operator.LE, low + handle % 9)))
            for one in (matcher, naive):
                one.insert(handle, box)
        for handle in range(3, 100):
            for one in (matcher, naive):
                one.delete(handle)
            if handle % 10 == 0:
                answers = [[part.tolist() for part in one.match(batch)] for one in (matcher, naive)]
                assert answers[0] == answers[1]
        core = matcher.core  # type: ignore[attr-defined]
        assert core.store.rows <= 20
        assert name != "h-tree" or len(core.plan.axes) == 1
