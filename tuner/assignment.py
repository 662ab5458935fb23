"""Where clauses go under a configuration, and what that is expected to cost, table by table.

Tables are modelled on a sample of the clauses (`Sampled`), which the greedy uses too; then every clause is
given to its best place, block by block, so that memory stays bounded (RR-4089, section 3.2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm.code_space import F8, I1, I4, I8, expand_slices
from pubsub_cluster.tuner.configuration import (
    BY_CELL,
    BY_LABEL,
    Configuration,
    Problem,
    TableMembers,
    TableSchema,
)
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.cost import (
    Block,
    Fit,
    TableModel,
    Ways,
    find_ways_in,
    fit_table,
    least_slot_nu,
    make_block,
    schema_rows,
    shape_count,
    slot_reach,
    table_cost,
)
from pubsub_cluster.tuner.slices import find_cells

SAMPLE_CLAUSES, SAMPLE_LITERALS = 40_000, 400_000
BLOCK_CLAUSES_MAX = 1 << 18
MATRIX_ITEMS_MAX, WAYS_LEAST = 1 << 23, 128
PRIOR_EVENTS = 20.0
"""Weight of independence against the event sample where joint frequencies are estimated."""

TIE = 1e-6
"""Relative difference of costs below which two places are equally good."""


class Sampled(NamedTuple):
    """A sample of clauses laid out against all ways that are considered.

    Attributes
    ----------
    problem : Problem
    ways : Ways
    slices : tuple of tuples of int
        As in `Configuration.slice_first_label`.
    block : Block
    row_of : dict of int to int
        Row of the block's matrix of each way.
    distinct : float64[W]
        Different predicates or cells of each row, as many as an even distribution would have.
    radix : float64[W]
        Different values or cells of each row in the whole catalogue.
    weight : float64[n]
        Clauses of the catalogue that each clause of the sample stands for.
    slot_share : float64[P]
    shapes : float
        Clusters that the clauses of one access fall into, as if evenly spread.
    """

    problem: Problem
    ways: Ways
    slices: tuple[tuple[int, ...], ...]
    block: Block
    row_of: dict[int, int]
    distinct: F8
    radix: F8
    weight: F8
    slot_share: F8
    shapes: float

    def rows(self, schema: TableSchema) -> list[int] | None:
        """Return the rows of a schema; None when no clause of the sample has one of its ways."""
        found = [self.row_of.get(way, -1) for way in schema_rows(schema)]
        return None if min(found) < 0 else found


def sample_clauses(
    problem: Problem,
    slices: tuple[tuple[int, ...], ...],
    constants: CostConstants,
    wanted: Sequence[int] | None = None,
    clause_count_max: int = SAMPLE_CLAUSES,
    literal_count_max: int = SAMPLE_LITERALS,
    seed: int = 0,
) -> Sampled:
    """Sample clauses; all of them when they are few.

    Half of the sample is drawn evenly, half in proportion to what clauses cost in their slots: few dear
    clauses may make most of the cost, and a table for them must not hang on who was drawn.

    Parameters
    ----------
    wanted : sequence of int, optional
        Ways to lay out; by default the most frequent ones that occur.
    clause_count_max, literal_count_max : int
        Of the sample, about.
    """
    count = problem.clause_count
    clause_count_max = min(clause_count_max, literal_count_max * count // max(len(problem.literal), 1) + 1)
    ways = find_ways_in(problem, find_cells(problem, slices))
    clause, weight = np.arange(count), np.ones(count)
    if count > clause_count_max:
        chance = _inclusion(least_slot_nu(problem, ways), clause_count_max)
        clause = np.flatnonzero(np.random.default_rng(seed).random(count) < chance)
        weight = 1.0 / chance[clause]
    weight *= problem.weight
    shapes = shape_count(problem, ways, weight, clause)
    slot_share = slot_reach(problem, weight, clause, shapes)
    rows = ways_used(problem, ways, clause) if wanted is None else list(wanted)
    block = make_block(problem, ways, clause, rows, constants, slot_share)
    distinct = np.array([_distinct(problem, ways, block, weight, at) for at in enumerate(rows)])
    row_of = {way: row for row, way in enumerate(rows)}
    radix = _radices(problem, slices)[rows]
    return Sampled(problem, ways, slices, block, row_of, distinct, radix, weight, slot_share, shapes)


def _inclusion(cost: F8, wanted: int) -> F8:
    """Return the chance of each clause to be drawn; their sum is at most about `wanted`."""
    even = 0.5 * wanted / len(cost)
    return np.asarray(np.minimum(even + 0.5 * wanted * cost / max(float(cost.sum()), 1e-300), 1.0))


def ways_used(problem: Problem, ways: Ways, clause: I8) -> list[int]:
    """Return the ways that positive literals of these clauses have, the most frequent ones."""
    count_max = max(MATRIX_ITEMS_MAX // max(len(clause), 1), WAYS_LEAST)
    count = np.diff(problem.clause_start)[clause]
    literal = problem.literal[expand_slices(problem.clause_start[clause], count)]
    predicate = literal[(literal & 1) == 0] >> 1
    uses = np.zeros(2 * problem.attribute_count, np.int64)
    for mode in (BY_LABEL, BY_CELL):
        usable = predicate[ways.nu[mode][predicate] > 0.0]
        uses[mode::2] = np.bincount(problem.predicate_attribute[usable], minlength=problem.attribute_count)
    order = np.argsort(-uses, kind="stable")[:count_max]
    return sorted(order[uses[order] > 0].tolist())


def _radices(problem: Problem, slices: tuple[tuple[int, ...], ...]) -> F8:
    """Return how many values each way's part of a key has."""
    radix = np.ones(2 * problem.attribute_count)
    points = problem.predicate_attribute[problem.predicate_is_point & (problem.predicate_attribute >= 0)]
    radix[0::2] = np.maximum(np.bincount(points, minlength=problem.attribute_count), 1)
    cell_count = [max(len(first) - 1, 1) for first in slices]
    radix[1 : 2 * len(slices) : 2] = cell_count
    return radix


def _distinct(problem: Problem, ways: Ways, block: Block, weight: F8, row_and_way: tuple[int, int]) -> float:
    """Estimate the number of keys from how often two clauses share one (exact for even distributions)."""
    row, way = row_and_way
    column = np.flatnonzero(block.nu[row])
    if not len(column):
        return 1.0
    at = problem.clause_start[block.clause[column]] + block.literal[row][column]
    predicate = problem.literal[at] >> 1
    key = ways.cell[predicate] if way & 1 else predicate
    mine = weight[column]
    times, squares = np.bincount(key, mine), np.bincount(key, mine * mine)
    seen = float(np.count_nonzero(times))
    pairs = float((times * times - squares).sum())
    all_pairs = float(mine.sum()) ** 2 - float((mine * mine).sum())
    return max(seen, all_pairs / pairs) if pairs > 1e-6 * all_pairs else max(seen * len(column), 1.0)


def model_table(sampled: Sampled, schema: TableSchema, fit: Fit, constants: CostConstants) -> TableModel:
    """Work out what a table costs apart from its clauses, and how its clauses share clusters."""
    problem = sampled.problem
    attributes = list(schema.attributes)
    present = np.maximum(problem.present[attributes], 1e-9)
    independent = float(np.prod(present))
    events = problem.sample_labels
    together = independent
    if len(events) and len(attributes) > 1:
        hits = float(np.count_nonzero(np.all(events[:, attributes] > 0, axis=1)))
        together = (hits + PRIOR_EVENTS * independent) / (len(events) + PRIOR_EVENTS)
    probes = 1.0
    for attribute, cell in zip(*schema, strict=True):
        first, stop = problem.label_start[attribute : attribute + 2].tolist()
        values = float(problem.label_probability[first:stop].sum()) / max(
            float(problem.present[attribute]), 1e-9
        )
        slice_count = len(sampled.slices[attribute]) if cell else 0
        probes *= max(values, 1.0) * (2.0 - 2.0 / slice_count if cell else 1.0)
    overhead = constants.table_ns * float(present.min())
    overhead += together * probes * constants.probe_of(len(attributes), sum(schema.cells))
    rows = sampled.rows(schema) or []
    key_count = float(np.prod(np.maximum(sampled.distinct[rows], 1.0)))
    radix = float(np.prod(sampled.radix[rows]))
    load = max(float(sampled.weight[fit.column] @ fit.copies) / (key_count * sampled.shapes), 1e-9)
    return TableModel(together / independent, overhead, key_count, radix, load)


def assign_clauses(
    problem: Problem, configuration: Configuration, constants: CostConstants = DEFAULT_CONSTANTS
) -> tuple[TableMembers, ...]:
    """Return the members of every table; clauses that are in none are best off in their slot.

    Of equally good places each gets about the same number of clauses (example 3.1 of RR-4089).
    """
    tables, slices = configuration
    wanted = sorted({way for schema in tables for way in schema_rows(schema)})
    if not wanted or not problem.clause_count:
        return tuple(_no_members(len(schema.attributes)) for schema in tables)
    sampled = sample_clauses(problem, slices, constants, wanted)
    placed = [fit_table(sampled.block, sampled.rows(schema) or []) for schema in tables]
    models = [
        model_table(sampled, schema, fit, constants) for schema, fit in zip(tables, placed, strict=True)
    ]
    block_size = min(BLOCK_CLAUSES_MAX, max(MATRIX_ITEMS_MAX // len(wanted), 1))
    found: list[list[TableMembers]] = [[] for _ in tables]
    for first in range(0, problem.clause_count, block_size):
        clause = np.arange(first, min(first + block_size, problem.clause_count))
        block = make_block(problem, sampled.ways, clause, wanted, constants, sampled.slot_share)
        table_of = place_block(block, sampled, tables, models, constants)
        for table, members in enumerate(_members(problem, block, sampled, tables, table_of)):
            found[table].append(members)
    return tuple(
        TableMembers(*(np.concatenate(part) for part in zip(*pieces, strict=True))) for pieces in found
    )


def place_block(
    block: Block,
    sampled: Sampled,
    tables: Sequence[TableSchema],
    models: Sequence[TableModel],
    constants: CostConstants,
) -> I4:
    """Return the best table of every clause of a block, -1 for its slot."""
    best = block.cost.copy()
    table_of = np.full(len(best), -1, np.int32)
    ties: I1 = np.ones(len(best), np.int8)
    for table, (schema, model) in enumerate(zip(tables, models, strict=True)):
        fit = fit_table(block, sampled.rows(schema) or [])
        cost = table_cost(block, fit, schema.cells.count(BY_LABEL), model, constants)
        column, before = fit.column, best[fit.column]
        better = cost < before * (1.0 - TIE)
        tied = ~better & (cost <= before * (1.0 + TIE)) & (table_of[column] >= 0)
        best[column[better]] = cost[better]
        table_of[column[better]] = table
        ties[column[better]] = 1
        equal = column[tied]
        if len(equal):
            ties[equal] += ties[equal] < 100
            turn = equal[block.clause[equal] % ties[equal] == 0]
            table_of[turn] = table
    return table_of


def _members(
    problem: Problem, block: Block, sampled: Sampled, tables: Sequence[TableSchema], table_of: I4
) -> list[TableMembers]:
    """Return the members among a block's clauses, table by table."""
    order = np.argsort(table_of, kind="stable")
    bounds = np.searchsorted(table_of[order], np.arange(len(tables) + 1))
    start = problem.clause_start[block.clause]
    members = []
    for table, schema in enumerate(tables):
        column = order[bounds[table] : bounds[table + 1]]
        if not len(column):
            members.append(_no_members(len(schema.attributes)))
            continue
        rows = sampled.rows(schema) or []
        literal = np.stack([start[column] + block.literal[row][column] for row in rows], axis=1)
        cell = sampled.ways.cell[problem.literal[literal] >> 1]
        cell = np.where(np.array(schema.cells) == BY_CELL, cell, -1).astype(np.int32)
        members.append(TableMembers(block.clause[column], literal, cell))
    return members


def _no_members(width: int) -> TableMembers:
    return TableMembers(np.zeros(0, np.int64), np.zeros((0, width), np.int64), np.zeros((0, width), np.int32))
