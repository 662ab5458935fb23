"""The greedy configuration: example 3.1 of RR-4089 in figures, small cases against the optimum, bounds."""

from __future__ import annotations

import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
from configuration_cases import ht_problem, make_problem, w0_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.tuner.assignment import Sampled, assign_clauses, model_table, place_block, sample_clauses
from pubsub_cluster.tuner.configuration import (
    EMPTY_CONFIGURATION,
    Configuration,
    Problem,
    TableSchema,
    check_configuration,
)
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.cost import fit_table
from pubsub_cluster.tuner.greedy import Search, choose_configuration
from pubsub_cluster.tuner.slices import choose_slices, find_cells, formula_8

A, B, C, D = range(4)
CHECKS = CostConstants(*[0.0] * 11)._replace(entry_ns=1.0)
"""Counts subscription checks, nothing else."""


def labels(*attributes: int) -> TableSchema:
    return TableSchema(attributes, (0,) * len(attributes))


def example_3_1(per_subset: int = 300, weight_total: float = 1_000_000.0) -> Problem:
    """A million subscriptions on each non-empty subset of {A, B, C}, 100 values each."""
    predicates = [(attribute, value, value) for attribute in (A, B, C) for value in range(100)]
    subsets = [set_ for size in (1, 2, 3) for set_ in itertools.combinations((A, B, C), size)]
    clauses = [
        [2 * (100 * attribute + number % 100) for attribute in subset]
        for subset in subsets
        for number in range(per_subset)
    ]
    return make_problem([100, 100, 100], predicates, clauses)._replace(weight=weight_total / per_subset)


def place(problem: Problem, tables: list[TableSchema]) -> tuple[Sampled, np.ndarray]:
    """Give clauses to these tables alone, single labels among them."""
    sampled = sample_clauses(problem, (), CHECKS)
    block = sampled.block._replace(cost=np.full(problem.clause_count, np.inf))
    fits = [fit_table(block, sampled.rows(schema) or []) for schema in tables]
    models = [model_table(sampled, s, fit, CHECKS) for s, fit in zip(tables, fits, strict=True)]
    return sampled, place_block(block, sampled, tables, models, CHECKS)


def looked_at(problem: Problem, tables: list[TableSchema], event: set[int]) -> tuple[int, float]:
    """Return look-ups and checks for an event with these attributes."""
    _, table_of = place(problem, tables)
    population = np.bincount(table_of, minlength=len(tables)) * problem.weight
    reached = [number for number, schema in enumerate(tables) if event >= set(schema.attributes)]
    return len(reached), sum(population[n] / 100 ** len(tables[n].attributes) for n in reached)


class TestExample31:
    C1: ClassVar = [labels(A), labels(B), labels(C)]
    C2: ClassVar = [labels(A), labels(B), labels(C), labels(A, B), labels(B, C)]

    def test_populations(self) -> None:
        problem = example_3_1()
        first = np.bincount(place(problem, self.C1)[1]) * problem.weight
        assert first == pytest.approx([7e6 / 3] * 3)
        assert first / 100 == pytest.approx([23_333.33] * 3, rel=1e-6)
        second = np.bincount(place(problem, self.C2)[1]) * problem.weight
        assert second == pytest.approx([1.5e6, 1e6, 1.5e6, 1.5e6, 1.5e6])
        assert second / [100, 100, 100, 1e4, 1e4] == pytest.approx([15_000, 10_000, 15_000, 150, 150])

    @pytest.mark.parametrize(
        ("event", "first", "second"),
        [({A, B}, (2, 46_666.67), (3, 25_150.0)), ({A, B, C}, (3, 70_000.0), (5, 40_300.0))],
    )
    def test_cost_of_an_event(
        self, event: set[int], first: tuple[int, float], second: tuple[int, float]
    ) -> None:
        problem = example_3_1()
        assert looked_at(problem, self.C1, event) == (first[0], pytest.approx(first[1], rel=1e-6))
        assert looked_at(problem, self.C2, event) == (second[0], pytest.approx(second[1]))

    def test_greedy_prefers_conjunctions(self) -> None:
        problem = example_3_1()
        chosen = choose_configuration(problem)
        assert {labels(A, B), labels(B, C)} <= set(chosen.tables)
        search = Search(sample_clauses(problem, (), DEFAULT_CONSTANTS), DEFAULT_CONSTANTS)
        singles = search.total_cost
        search.run()
        assert search.total_cost < 0.7 * singles  # the three million with one equality stay

    def test_no_table_for_clusters_of_one(self) -> None:
        """RR-34: ABC has one subscription per cluster, so ABCD is no use if a look-up costs more than it."""
        constants = DEFAULT_CONSTANTS._replace(probe_ns=30.0)
        predicates = [(attribute, value, value) for attribute in range(4) for value in range(100)]
        clauses = [[2 * (100 * attribute + n % 100) for attribute in range(4)] for n in range(100)]
        problem = make_problem([100] * 4, predicates, clauses)._replace(weight=1e4)
        search = Search(sample_clauses(problem, (), constants), constants)
        for schema in (labels(A, B), labels(A, B, C)):
            found = search.evaluate(schema)
            assert found is not None and search._add(*found)
        found = search.evaluate(labels(A, B, C, D))
        assert found is not None and found[0].benefit < 0.0
        assert len(choose_configuration(problem, constants).tables) == 1


@st.composite
def tiny_problems(draw: st.DrawFn) -> Problem:
    """Up to 5 clauses of equalities on 4 attributes, each standing for many."""
    domains = draw(st.lists(st.integers(2, 60), min_size=4, max_size=4))
    predicates = [(attribute, value, value) for attribute in range(4) for value in range(2)]
    subset = st.sets(st.integers(0, 3), min_size=1, max_size=4)
    clauses = [
        [2 * (2 * attribute + draw(st.integers(0, 1))) for attribute in sorted(draw(subset))]
        for _ in range(draw(st.integers(1, 5)))
    ]
    return make_problem(domains, predicates, clauses)._replace(
        weight=draw(st.sampled_from([1.0, 100.0, 1e4]))
    )


def groups(problem: Problem) -> list[list[TableSchema | None]]:
    """All access schemas of each clause: the non-empty subsets of its equalities, and none."""
    found = []
    for first, stop in itertools.pairwise(problem.clause_start.tolist()):
        mine = sorted(problem.predicate_attribute[problem.literal[first:stop] >> 1].tolist())
        sizes = range(1, len(mine) + 1)
        found.append([None, *(labels(*s) for size in sizes for s in itertools.combinations(mine, size))])
    return found


def cost_with(problem: Problem, tables: tuple[TableSchema, ...]) -> float:
    return Search(sample_clauses(problem, (), DEFAULT_CONSTANTS), DEFAULT_CONSTANTS).cost_with(tables)


@settings(max_examples=40, deadline=None)
@given(tiny_problems())
def test_tiny_cases_against_all_configurations(problem: Problem) -> None:
    """RR-44, RR-45: never worse than singles, a local optimum, near the best of few or maximal tables."""
    choices = groups(problem)
    assert math.prod(map(len, choices)) == math.prod(
        2 ** int(count) for count in np.diff(problem.clause_start)
    )
    candidates = sorted({s for mine in choices for s in mine if s and len(s.attributes) > 1})
    sampled = sample_clauses(problem, (), DEFAULT_CONSTANTS)
    search = Search(sampled, DEFAULT_CONSTANTS)
    search.run()
    chosen = tuple(table.schema for table in search.chosen)
    cost = search.total_cost
    assert cost == pytest.approx(cost_with(problem, chosen))
    maximal = tuple({mine[-1] for mine in choices if mine[-1] and len(mine[-1].attributes) > 1})
    assert cost <= cost_with(problem, ()) * (1 + 1e-9)
    for schema in candidates:
        if schema not in chosen:
            assert cost <= cost_with(problem, (*chosen, schema)) * (1 + 1e-9)
    ever = [maximal, *(c for size in range(3) for c in itertools.combinations(candidates, size))]
    assert cost <= 1.5 * min(cost_with(problem, tables) for tables in ever)
    assert search.evaluated_count <= 8 * (len(candidates) + 1) ** 2


def test_a_local_optimum_may_be_dearer_than_maximal_conjunctions() -> None:
    """RR-45 is no theorem: the pair serves both clauses, and neither triple is worth a table beside it."""
    predicates = [(attribute, value, value) for attribute in range(4) for value in range(2)]
    problem = make_problem([20, 25, 2, 2], predicates, [[0, 4, 8], [0, 4, 12], [0]])._replace(weight=1e4)
    search = Search(sample_clauses(problem, (), DEFAULT_CONSTANTS), DEFAULT_CONSTANTS)
    search.run()
    assert [table.schema for table in search.chosen] == [labels(A, B)]
    maximal = cost_with(problem, (labels(A, B, C), labels(A, B, D)))
    assert 1.0 < search.total_cost / maximal < 1.05


def test_greedy_finds_the_optimum_of_a_plain_case() -> None:
    """All clauses on A, B and C, pairs collide often, triples do not."""
    predicates = [(attribute, value, value) for attribute in range(3) for value in range(20)]
    clauses = [[2 * (20 * attribute + n % 20) for attribute in range(3)] for n in range(20)]
    problem = make_problem([20] * 3, predicates, clauses)._replace(weight=2_000.0)
    candidates = [labels(A, B), labels(A, C), labels(B, C), labels(A, B, C)]
    best = min(
        (s for size in range(4) for s in itertools.combinations(candidates, size)),
        key=lambda tables: cost_with(problem, tables),
    )
    assert choose_configuration(problem).tables == best


def test_space_bound_is_kept() -> None:
    problem = ht_problem(1_500)._replace(weight=50.0)
    sampled = sample_clauses(problem, choose_slices(problem), DEFAULT_CONSTANTS)
    free = Search(sampled, DEFAULT_CONSTANTS)
    slots_bytes = free.size_bytes
    free.run()
    assert free.size_bytes > slots_bytes
    cost = free.total_cost
    for share in (0.0, 0.3, 0.7):
        bound = int(slots_bytes + share * (free.size_bytes - slots_bytes))
        bounded = Search(sampled, DEFAULT_CONSTANTS, bound)
        bounded.run()
        assert bounded.size_bytes <= bound
        assert bounded.total_cost >= cost * 0.9


def test_few_dear_clauses_are_not_left_to_chance() -> None:
    """A sample by cost tells the cost of all clauses, also when a hundredth of them make most of it."""
    predicates = [(0, value, value) for value in range(10_000)] + [(1, 0, 0)]
    clauses = [[2 * (n % 10_000)] for n in range(99_000)] + [[20_000]] * 1_000
    problem = make_problem([10_000, 2], predicates, clauses)
    full = sample_clauses(problem, (), DEFAULT_CONSTANTS, clause_count_max=200_000)
    expected = float(full.block.cost @ full.weight)
    for seed in range(3):
        sampled = sample_clauses(problem, (), DEFAULT_CONSTANTS, clause_count_max=2_000, seed=seed)
        assert len(sampled.weight) == pytest.approx(1_500, rel=0.4)
        assert float(sampled.weight.sum()) == pytest.approx(100_000, rel=0.1)
        assert float(sampled.block.cost @ sampled.weight) == pytest.approx(expected, rel=0.1)


def test_nothing_to_choose() -> None:
    assert choose_configuration(make_problem([3], [(0, 1, 1)], [])) == EMPTY_CONFIGURATION
    always = make_problem([3, 3], [(0, 1, 1), (1, 0, 0)], [[], [1], [1, 3]])
    assert choose_configuration(always).tables == ()
    assert assign_clauses(always, EMPTY_CONFIGURATION) == ()


def test_same_input_same_choice() -> None:
    problem = w0_problem(60_000)
    assert choose_configuration(problem) == choose_configuration(problem)


@pytest.mark.parametrize("problem", [w0_problem(5_000), ht_problem(3_000)], ids=["W0", "HT"])
def test_members_have_what_their_table_asks_for(problem: Problem) -> None:
    chosen = choose_configuration(problem)
    check_configuration(chosen, np.diff(problem.label_start))
    members = assign_clauses(problem, chosen)
    assert sum(len(mine.clause) for mine in members) > 0.9 * problem.clause_count
    everyone = np.concatenate([mine.clause for mine in members])
    assert len(np.unique(everyone)) == len(everyone)
    for schema, mine in zip(chosen.tables, members, strict=True):
        literal = problem.literal[mine.literal]
        assert np.all(problem.predicate_attribute[literal >> 1] == np.array(schema.attributes))
        assert np.all(literal & 1 == 0)
        assert np.all(mine.literal >= problem.clause_start[mine.clause][:, None])
        assert np.all(mine.literal < problem.clause_start[mine.clause + 1][:, None])
        for part, (attribute, cell) in enumerate(zip(*schema, strict=True)):
            if not cell:
                assert np.all(mine.cell[:, part] == -1)
                continue
            first = chosen.slices(attribute)
            last = np.append(first[2:], 1 << 30)
            predicate = literal[:, part] >> 1
            assert np.all(first[mine.cell[:, part]] <= problem.predicate_lo[predicate])
            assert np.all(problem.predicate_hi[predicate] < last[mine.cell[:, part]])


def test_ranges_of_a_tenth_get_ten_slices() -> None:
    """HTREE-04: c <= floor(1/W), and every range then lies in a cell."""
    problem = ht_problem(2_000)
    slices = choose_slices(problem)
    assert {len(first) for first in slices} <= {9, 10}
    cells = find_cells(problem, slices)
    assert np.mean(cells.cell >= 0) > 0.95
    assert cells.probability[cells.cell >= 0] == pytest.approx(0.2, abs=0.03)


def test_formula_8() -> None:
    """HTREE-09, and fewer slices where space counts."""
    assert formula_8(0.5, 0.5, 4, 10, 8) == pytest.approx(6.325, abs=1e-3)
    assert formula_8(0.5, 0.5, 5, 10, 8) == pytest.approx(7.071, abs=1e-3)
    assert formula_8(0.7, 0.3, 4, 10, 8) == pytest.approx(6.669, abs=1e-3)
    problem = ht_problem(2_000)
    assert {len(first) for first in choose_slices(problem, 0.5)} == {6}


def test_attributes_that_never_meet_make_no_table() -> None:
    """Joint presence comes from the sampled events."""
    predicates = [(attribute, value, value) for attribute in range(2) for value in range(10)]
    clauses = [[2 * (n % 10), 2 * (10 + n // 10 % 10)] for n in range(100)]
    problem = make_problem([10, 10], predicates, clauses, [0.5, 0.5])._replace(weight=1_000.0)
    apart = np.zeros((1_000, 2), np.int32)
    apart[:500, 0], apart[500:, 1] = 4, 4
    sampled = sample_clauses(problem._replace(sample_labels=apart), (), DEFAULT_CONSTANTS)
    fit = fit_table(sampled.block, sampled.rows(labels(0, 1)) or [])
    assert model_table(sampled, labels(0, 1), fit, DEFAULT_CONSTANTS).joint < 0.05
    assert isinstance(choose_configuration(problem), Configuration)
