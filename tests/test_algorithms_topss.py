"""TOPSS's matchers: kernels beside their references, cores beside brute force, numbers, limits, queries."""

from __future__ import annotations

import importlib.util
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_cases import INTEGERS, NUMBERS, catalogues, check_core, conjunctions_of, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.algorithms.conjunctions import ABSENT, Comparison, ConjunctionMatcher, brute_force, truth
from pubsub_cluster.algorithms.registry import make_matcher
from pubsub_cluster.algorithms.topss import (
    arena,
    association,
    bit_matrix,
    byte_matrix,
    growable_lists,
    ordered_lists,
    predicate_book,
    predicate_table,
    reference,
    sql_databases,
)
from pubsub_cluster.algorithms.topss.association import Association, Matrix
from pubsub_cluster.algorithms.topss.bit_matrix import BitMatrix
from pubsub_cluster.algorithms.topss.byte_matrix import ByteMatrix
from pubsub_cluster.algorithms.topss.counting import PREDICATES_MAX, Counting
from pubsub_cluster.algorithms.topss.growable_lists import GrowableLists
from pubsub_cluster.algorithms.topss.ordered_lists import OrderedLists
from pubsub_cluster.algorithms.topss.predicate_book import Predicates
from pubsub_cluster.algorithms.topss.predicate_table import BOUND_MAX, PredicateTable
from pubsub_cluster.algorithms.topss.sql import Grouping, Sequential, Sql
from pubsub_cluster.algorithms.topss.sql_databases import DuckDb, Sqlite
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.expression import And, Atom, Operator

LT, LE, EQ, NE, GE, GT = Comparison
PREDICATES: list[type[Predicates]] = [PredicateTable, OrderedLists]
ASSOCIATIONS: list[Callable[[], Association]] = [
    ByteMatrix,
    BitMatrix,
    GrowableLists,
    lambda: GrowableLists(step=2),
]
COUNTING = list(itertools.product(PREDICATES, ASSOCIATIONS))
HAS_DUCKDB = importlib.util.find_spec("duckdb") is not None
DATABASES = [
    Sqlite,
    pytest.param(DuckDb, marks=pytest.mark.skipif(not HAS_DUCKDB, reason="needs the extra `sql`")),
]
# Where each kernel is called, and its reference.
TWINS = {
    predicate_table: {
        "add_all": "table_add_all",
        "remove_all": "table_remove_all",
        "evaluate": "table_evaluate",
    },
    ordered_lists: {"add_all": "list_add_all", "remove_all": "list_remove_all", "evaluate": "list_evaluate"},
    byte_matrix: {"count_bytes": "count_bytes", "set_bytes": "set_bytes"},
    bit_matrix: {"count_bits": "count_bits", "set_bits": "set_bits"},
    growable_lists: {name: name for name in ("append_all", "count_lists", "remove_from")},
    arena: {"repack": "repack"},
}


@pytest.mark.parametrize(("make_predicates", "make_association"), COUNTING)
@settings(max_examples=50)
@given(catalogue=catalogues(), values=rows(), data=st.data())
def test_counting(
    make_predicates: Any, make_association: Any, catalogue: Any, values: Any, data: Any
) -> None:
    """Beside brute force, after building and through changes; on events between and beyond the integers."""
    check_core(lambda: Counting(make_predicates(), make_association()), catalogue, values, data)


@settings(max_examples=50)
@given(catalogue=catalogues(constants=NUMBERS), values=rows(), data=st.data())
def test_ordered_lists_take_any_number(catalogue: Any, values: Any, data: Any) -> None:
    check_core(lambda: Counting(OrderedLists(), BitMatrix()), catalogue, values, data)


@pytest.mark.parametrize("make_database", DATABASES)
@pytest.mark.parametrize("query", [Sequential, Grouping])
@settings(max_examples=15)
@given(catalogue=catalogues(constants=NUMBERS), values=rows(), data=st.data())
def test_queries(
    query: Callable[[Any], Sql], make_database: Any, catalogue: Any, values: Any, data: Any
) -> None:
    """TOPSS-32: exactly the matching ones, whatever the operators and numbers."""
    check_core(lambda: query(make_database), catalogue, values, data)


def state_of(core: Counting) -> list[Any]:
    """All that a core holds."""
    mine: Any = core.predicates, core.association
    arrays = [*core.predicates.book]
    for name in ("_cells", "_directory", "_heads", "_following", "visited", "_matrix", "moved"):
        arrays += [getattr(one, name) for one in mine if hasattr(one, name)]
    for name in ("_lists", "_predicates"):
        held = getattr(core.association, name, None)
        if held:
            arrays += [held.slots, held.top]
            arrays += [held.ids[first : first + size] for first, size, _ in held.slots.tolist()]
    return [array.tolist() for array in arrays]


CONJUNCTION = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(Comparison), INTEGERS),
    max_size=4,
    unique_by=lambda one: one[:2],
)


@pytest.mark.parametrize(("make_predicates", "make_association"), COUNTING)
@settings(max_examples=20)
@given(
    built=st.lists(CONJUNCTION, max_size=6),
    steps=st.lists(st.tuples(st.booleans(), CONJUNCTION, st.integers(0, 99)), max_size=12),
    values=rows(3),
)
def test_kernels_do_as_their_references(
    make_predicates: Any, make_association: Any, built: Any, steps: Any, values: Any
) -> None:
    """The same arrays after each step, the same answers, and the same counts of what was looked at."""

    def story() -> list[Any]:
        core = Counting(make_predicates(), make_association())
        core.build(conjunctions_of(list(enumerate(map(tuple, built)))))
        live = list(range(len(built)))
        seen = [state_of(core)]
        for number, (is_added, conjunction, which) in enumerate(steps, len(built)):
            if is_added or not live:
                core.insert(conjunctions_of([(number, tuple(conjunction))]))
                live.append(number)
            else:
                core.delete(live.pop(which % len(live)))
            seen.append(state_of(core))
        looked, counted = np.zeros(1, np.int64), np.zeros(3, np.int64)
        bits = core.predicates.bits(values, looked)
        stops, found = core.count(bits, counted)
        answer = bits, stops, found[: stops[-1]], looked, counted
        return [*seen, [part.tolist() for part in answer]]

    with pytest.MonkeyPatch.context() as patch:
        # Everything is full soon, so that everything has to grow.
        patch.setattr(arena, "ROOM_LEAST", 3)
        patch.setattr(predicate_book.new_book, "__defaults__", (1,))
        patch.setattr(association, "FOUND_LEAST", 1)
        compiled = story()
        for module, twins in TWINS.items():
            for name, twin in twins.items():
                patch.setattr(module, name, getattr(reference, twin))
        assert story() == compiled


@pytest.mark.parametrize("make", PREDICATES)
@pytest.mark.parametrize("low", [0, 1, -3])
def test_slices_of_every_value(make: Any, low: int) -> None:
    """TOPSS-10: all six operators with all constants of a domain, for every value, its ends, and between."""
    high = low + 5
    every = [(0, op, float(c)) for op in Comparison for c in range(low, high + 1)]
    predicates = make()
    numbers = predicates.build(conjunctions_of([(0, (one,)) for one in every]))
    values = np.array([*np.arange(low - 2, high + 2.5, 0.5), -np.inf, np.inf, 1e300, 2.0**53, ABSENT])
    found = np.unpackbits(predicates.bits(values[:, None]), axis=1, bitorder="little")
    for number, (_, comparison, constant) in zip(numbers.tolist(), every, strict=True):
        assert found[:, number].tolist() == truth(values, comparison, constant).tolist()
    assert found[:, len(every) :].sum() == 0
    above = found[:, [numbers[every.index((0, GT, float(c)))] for c in range(low, high + 1)]]
    assert (np.diff(above.astype(int), axis=1) <= 0).all()  # inference: > c implies > of all smaller ones


@pytest.mark.parametrize("make", PREDICATES)
def test_numbers_are_given_again(make: Any) -> None:
    """TOPSS-11, -12, -13: a number per distinct predicate, freed ones first, eight to a byte."""
    draw, predicates = random.Random(1), make()
    held: list[tuple[int, Any]] = []
    peak = 0
    for _ in range(600):
        if held and draw.random() < 0.5:
            number, _ = held.pop(draw.randrange(len(held)))
            predicates.remove(np.array([number], np.int32))
        else:
            one = (draw.randrange(3), draw.choice(list(Comparison)), float(draw.randrange(-9, 9)))
            bound, was_free = predicates.bound, predicates.count < predicates.bound
            number = int(predicates.add(conjunctions_of([(0, (one,))]))[0])
            assert predicates.bound == bound or not was_free
            assert all((number == other) == (one == predicate) for other, predicate in held)
            held.append((number, one))
        distinct = {predicate for _, predicate in held}
        peak = max(peak, len(distinct))
        assert predicates.count == len(distinct) and predicates.bound <= peak
        assert predicates.bits(np.zeros((2, 3))).shape == (2, -(-predicates.bound // 8))


@pytest.mark.parametrize(("make_predicates", "make_association"), COUNTING)
def test_subscription_ids_are_given_again(make_predicates: Any, make_association: Any) -> None:
    """TOPSS-12, -19: and a deleted one leaves nothing in its column."""
    draw, core, live = random.Random(2), Counting(make_predicates(), make_association()), set()
    everything = {}
    peak = 0
    for owner in range(300):
        if live and draw.random() < 0.5:
            gone = draw.choice(sorted(live))
            live.remove(gone)
            core.delete(gone)
        else:
            mine = tuple((attribute, LT, float(draw.randrange(5))) for attribute in range(draw.randrange(3)))
            live.add(owner)
            everything[owner] = mine
            core.insert(conjunctions_of([(owner, mine)]))
        peak = max(peak, len(live))
        assert core.ids.count == len(live) and core.ids.bound <= peak
    known = conjunctions_of([(owner, everything[owner]) for owner in sorted(live)])
    values = np.array([[0.0, 1.0, 2.0], [ABSENT, 4.0, -1.0]])
    event, owner = core.match(values)
    assert sorted(zip(event, owner, strict=True)) == list(zip(*brute_force(known, values), strict=True))
    for gone in sorted(live):
        core.delete(gone)
    core.delete(7)  # there is none
    assert core.predicates.count == core.ids.count == 0
    assert core.match(values)[0].tolist() == []
    if isinstance(core.association, Matrix):
        assert not core.association._matrix.any()


@pytest.mark.parametrize(("make_predicates", "make_association"), COUNTING)
@pytest.mark.parametrize("size", [254, 255, 256, 257])
def test_a_byte_counts_to_255(make_predicates: Any, make_association: Any, size: int) -> None:
    """TOPSS-14: 255 are counted, 256 would be counted as none and are refused."""
    mine = tuple((attribute, EQ, 1.0) for attribute in range(size))
    core = Counting(make_predicates(), make_association())
    values = np.ones((2, 257))
    values[1, :size] = 0.0
    if size > PREDICATES_MAX:
        for take_in in (core.build, core.insert):
            with pytest.raises(CallerError, match=f"{size} predicates, and a byte counts 255"):
                take_in(conjunctions_of([(0, mine)]))
        assert core.match(values)[0].tolist() == []
    else:
        core.insert(conjunctions_of([(0, mine)]))
        assert core.match(values)[0].tolist() == [0]


@pytest.mark.parametrize("name", ["byte-matrix", "bit-matrix-ordered", "list"])
def test_the_limit_is_said_beforehand(name: str) -> None:
    matcher = make_matcher(name)
    expression = And(tuple(Atom(f"a{number}", Operator.EQ, 1) for number in range(256)))
    assert "a byte counts 255" in str(matcher.supports(expression))
    with pytest.raises(CallerError, match="cannot hold"):
        matcher.insert(0, expression)


@pytest.mark.parametrize(
    ("value", "is_held"),
    [(0.5, False), (BOUND_MAX, True), (-BOUND_MAX - 1, False), (1e300, False), ("x", True)],
)
def test_tables_hold_integers_within_bounds(value: Any, is_held: bool) -> None:
    """TOPSS-33: and ordered lists hold all."""
    expression = Atom("a", Operator.EQ, value)
    assert (make_matcher("bit-matrix").supports(expression) is None) is is_held
    assert make_matcher("bit-matrix-ordered").supports(expression) is None
    if not is_held:
        with pytest.raises(CallerError, match="no place in a table"):
            PredicateTable().add(conjunctions_of([(0, ((0, EQ, value),))]))


def test_what_is_too_large_is_refused_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(association, "BYTES_MAX", 4_096)
    monkeypatch.setattr(predicate_table, "BYTES_MAX", 4_096)
    matcher = make_matcher("byte-matrix")
    assert isinstance(matcher, ConjunctionMatcher)
    held = 0
    with pytest.raises(CallerError, match=r"matrix would be too large.*Choose lists"):
        for held in range(100):
            matcher.insert(held, Atom("a", Operator.EQ, held))
    core = matcher.core
    assert held == 64 and isinstance(core, Counting) and core.association.bytes <= 4_096
    assert core.predicates.count == core.ids.count == 64
    with pytest.raises(CallerError, match=r"tables would be too large.*ordered lists"):
        matcher.insert(held, And((Atom("b", Operator.LT, 2_000), Atom("b", Operator.GT, -2_000))))
    with pytest.raises(CallerError, match="too large"):
        matcher.build([(one, Atom("a", Operator.EQ, one)) for one in range(200)])
    assert matcher.core is core
    matcher.delete(5)
    matcher.insert(200, Atom("a", Operator.EQ, 3))


def test_tables_grow_by_rebuilding() -> None:
    """Bounds that creep are laid out anew a logarithmic number of times, and `<=` brings two slices."""
    table, layouts = PredicateTable(), set()
    for constant in range(200):
        table.add(conjunctions_of([(0, ((1, LT, float(constant)),))]))
        layouts.add(table.bytes)
    assert len(layouts) <= 9
    before = table.bytes
    table.add(conjunctions_of([(0, ((1, LE, 5.0),))]))
    assert table.bytes - 64 == (before - 64) * 6 // 4
    declared = PredicateTable(np.array([[1, 10], [5, 5]]))
    assert declared.bytes == 2 * 32 + 4 * 4 * (10 + 1)


def test_ordered_lists_are_the_same_by_sorting_and_one_by_one() -> None:
    draw = random.Random(3)
    every = [
        (draw.randrange(3), draw.choice(list(Comparison)), float(draw.randrange(20))) for _ in range(200)
    ]
    catalogue = conjunctions_of([(owner, (one,)) for owner, one in enumerate(every)])
    sorted_, added = OrderedLists(), OrderedLists()
    assert sorted_.build(catalogue).tolist() == added.add(catalogue).tolist()
    for mine, other in zip(sorted_.book, added.book, strict=True):
        assert mine[: sorted_.bound].tolist() == other[: sorted_.bound].tolist()
    assert sorted_._heads.tolist() == added._heads.tolist()
    count = sorted_.bound
    assert sorted_._following[:count].tolist() == added._following[:count].tolist()


def test_without_duckdb_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(sql_databases.importlib, "import_module", missing)
    with pytest.raises(CallerError, match=r"not installed.*pubsub-cluster\[sql\]"):
        make_matcher("sql-grouping-duckdb")


@pytest.mark.parametrize("make_database", DATABASES)
def test_rows_of_the_queries(make_database: Any) -> None:
    """TOPSS-30, -31: a row per predicate of each subscription; predicates once, and as many associations."""
    catalogue = conjunctions_of([(0, ((0, EQ, 1.0), (1, LT, 2.0))), (1, ((0, EQ, 1.0),)), (2, ())])
    sequential, grouping = Sequential(make_database), Grouping(make_database)
    for core in (sequential, grouping):
        core.build(catalogue)

    def count(core: Sql, table: str) -> int:
        return int(core.database.numbers(f"SELECT count(*) FROM {table}")[0])

    assert count(sequential, "rows") == count(grouping, "subs_preds") == 3
    assert (count(grouping, "subs"), count(grouping, "preds"), count(grouping, "rows")) == (2, 2, 0)
    grouping.delete(0)
    assert (count(grouping, "subs"), count(grouping, "preds"), count(grouping, "subs_preds")) == (1, 1, 1)
    assert grouping.match(np.ones((1, 2)))[1].tolist() == [1, 2]
    assert grouping.query(np.array([ABSENT, ABSENT])) == ("", [])
    assert grouping.bytes > 0
