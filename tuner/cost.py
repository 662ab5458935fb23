"""The cost model of RR-4089, section 3.1, and each clause's best place under a configuration.

A clause is looked at when its access holds, with probability nu. Then it costs its share of going to the
cluster, its entry, and the residuals that are evaluated until one fails: `checking` of section 3.1.1. Its
best place (section 3.2.1) is the table, or slot, with the least nu * checking.

A *way* is an attribute taken by label (2 * attribute) or by cell (2 * attribute + 1). Clauses are treated in
blocks: a matrix of ways by clauses holds nu of each, 0 where a clause has no such way, so that a table is a
product of rows. Only rows that the configuration uses are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import F8, I4, I8, U1, expand_slices
from pubsub_cluster.tuner.checking import Residuals, checking, shape_of, unlike_of
from pubsub_cluster.tuner.configuration import Bools, Problem, TableSchema
from pubsub_cluster.tuner.constants import CostConstants
from pubsub_cluster.tuner.slices import Cells

COPIES_MAX = 32
"""Entries of one clause in one table at most (products of the members of its sets)."""

NU_LEAST = 1e-9
USES_LEAST = 4
INLINE_MIN, INLINE_WORDS = 256, 3
"""As in `tuner.predicates`."""

F4 = npt.NDArray[np.float32]


class Ways(NamedTuple):
    """Nu and kind of every predicate's ways in.

    Attributes
    ----------
    nu : float64[2, P]
        By label, by cell; 0: not possible.
    copies : uint8[P]
        Labels under which the predicate is registered by label.
    cell : int32[P]
    slot_nu : float64[P]
        Of the slot that leads to it.
    slot_implies : bool[P]
        That slot's being open means that it holds.
    is_flag : bool[P]
        Checked by a byte load.
    words : uint8[P]
        Words of a cluster that it takes as a residual.
    """

    nu: F8
    copies: U1
    cell: I4
    slot_nu: F8
    slot_implies: Bools
    is_flag: Bools
    words: U1


class Block(NamedTuple):
    """Some clauses against some ways.

    Attributes
    ----------
    clause : int64[n]
    nu : float32[W, n]
    literal : int32[W, n]
        Index within the clause's literals; only where nu > 0.
    copies : uint8[W, n] or None
        None when no set is registered under several labels.
    row_count : int64[W]
        Clauses with nu > 0.
    literal_count, flag_count : float64[n]
        Literals; those of them that are checked as flags.
    word_count : float64[n]
        Words of a cluster that all its literals would take.
    tests_max : float64[n]
        Residuals evaluated beyond the first, were there endlessly many that pass like the clause's own.
    passing : float64[n]
        Mean probability that a range holds.
    unlike : float64[n]
        Minus the logarithm of the share of clauses of the same shape that have ranges of the same attributes.
    cost : float64[n]
        Of the best slot, per event, nanoseconds.
    """

    clause: I8
    nu: F4
    literal: I4
    copies: U1 | None
    row_count: I8
    literal_count: F8
    flag_count: F8
    word_count: F8
    tests_max: F8
    passing: F8
    unlike: F8
    cost: F8


class Fit(NamedTuple):
    """The clauses of a block that satisfy a table's schema.

    Attributes
    ----------
    column : int64[m]
        Their numbers in the block.
    nu : float64[m]
        Product of the parts, as if they were independent.
    copies : int64[m]
        Entries of each in the table.
    """

    column: I8
    nu: F8
    copies: I8


class TableModel(NamedTuple):
    """What is known of a table before clauses are placed.

    Attributes
    ----------
    joint : float
        What nu of a clause is to be multiplied with, against the product of its parts.
    overhead_ns : float
        Per event, whatever the table holds: K_r + mu * probes * (C_h + K_h * |A|).
    key_count : float
        Different keys that clauses could have, were they evenly spread.
    radix : float
        Numbers that keys are taken from.
    load : float
        Entries per section, as if keys were independent of each other.
    """

    joint: float
    overhead_ns: float
    key_count: float
    radix: float
    load: float


def schema_rows(schema: TableSchema) -> list[int]:
    """Return the ways of a schema."""
    return [2 * attribute + cell for attribute, cell in zip(*schema, strict=True)]


def find_ways_in(problem: Problem, cells: Cells) -> Ways:
    """Return the ways of every predicate."""
    probability = np.maximum(problem.predicate_probability, NU_LEAST)
    attribute = problem.predicate_attribute
    spread = problem.predicate_member_count
    is_possible = (problem.predicate_lo <= problem.predicate_hi) | (attribute < 0)
    by_label = (attribute >= 0) & (spread >= 1) & (spread <= COPIES_MAX) & is_possible
    present = np.append(problem.present, 1.0)[attribute]
    implies = by_label | (attribute < 0)
    return Ways(
        np.stack((np.where(by_label, probability, 0.0), cells.probability)),
        np.clip(spread, 1, COPIES_MAX).astype(np.uint8),
        cells.cell,
        np.where(implies, probability, present),
        implies,
        problem.predicate_is_flag,
        _residual_words(problem),
    )


def _residual_words(problem: Problem) -> U1:
    """Return the words of each predicate in a cluster; intervals of busy attributes stand there in full."""
    attribute = problem.predicate_attribute
    is_interval = problem.predicate_is_range & ~problem.predicate_is_point & (attribute >= 0)
    times = np.bincount(attribute[is_interval], minlength=problem.attribute_count + 1)
    return np.where(is_interval & (times[attribute] >= INLINE_MIN), INLINE_WORDS, 1).astype(np.uint8)


def least_slot_nu(problem: Problem, ways: Ways) -> F8:
    """Return nu of the best slot of every clause, 1 where it has none."""
    nu = np.where(problem.literal & 1, 1.0, ways.slot_nu[problem.literal >> 1])
    least = np.ones(problem.clause_count)
    filled = np.flatnonzero(np.diff(problem.clause_start))
    if len(filled):
        least[filled] = np.minimum.reduceat(nu, problem.clause_start[filled])
    return least


def shape_count(problem: Problem, ways: Ways, weight: F8, clause: I8) -> float:
    """Return into how many clusters of like clauses a set of clauses falls, as if evenly spread.

    A cluster holds clauses with equally many residuals of each sort.
    """
    count = np.diff(problem.clause_start)[clause]
    literal = problem.literal[expand_slices(problem.clause_start[clause], count)]
    shape = shape_of(count, literal, ways.is_flag, ways.words)
    share = np.bincount(shape, weight) / max(float(weight.sum()), 1e-300)
    return 1.0 / max(float(share @ share), 1e-9)


def slot_reach(problem: Problem, weight: F8, clause: I8, shapes: float = 1.0) -> F8:
    """Return per predicate the share of a cluster that a clause in its slot bears.

    A clause's fellows in a slot are those of the sample, by their weights. Where these are too few to tell,
    the mean of all predicates of the attribute is taken. They fall into `shapes` clusters.
    """
    count = np.diff(problem.clause_start)[clause]
    literal = problem.literal[expand_slices(problem.clause_start[clause], count)]
    positive = (literal & 1) == 0
    predicate_count = len(problem.predicate_attribute)
    uses = np.bincount(literal[positive] >> 1, minlength=predicate_count)
    total = np.bincount(literal[positive] >> 1, np.repeat(weight, count)[positive], predicate_count)
    fellows = total * (uses - 1.0) / np.maximum(uses, 1)
    attribute = problem.predicate_attribute + 1
    mean = np.bincount(attribute, fellows * uses) / np.maximum(np.bincount(attribute, uses), 1)
    is_known = (uses >= USES_LEAST) | (len(clause) == problem.clause_count)
    known = np.maximum(np.where(is_known, fellows, mean[attribute]), 0.0)
    return np.asarray(1.0 / (1.0 + known / shapes))


def make_block(
    problem: Problem, ways: Ways, clause: I8, rows: Sequence[int], constants: CostConstants, slot_share: F8
) -> Block:
    """Lay clauses out against `rows` of ways."""
    count = np.diff(problem.clause_start)[clause]
    literal = problem.literal[expand_slices(problem.clause_start[clause], count)]
    column = np.repeat(np.arange(len(clause)), count)
    predicate, positive = literal >> 1, (literal & 1) == 0
    passes = np.clip(problem.predicate_probability, NU_LEAST, 1.0 - NU_LEAST)[predicate]
    passes = np.where(positive, passes, 1.0 - passes)
    log_total = np.bincount(column, np.log(passes), minlength=len(clause))
    passing = np.exp(log_total / np.maximum(count, 1))
    tests_max = passing / np.maximum(1.0 - passing, NU_LEAST)
    literal_count = count.astype(np.float64)
    is_range = ~ways.is_flag[predicate]
    range_count = np.maximum(np.bincount(column, is_range, len(clause)), 1.0)
    passing = np.exp(np.bincount(column, np.log(passes) * is_range, len(clause)) / range_count)

    flags: F8 = np.bincount(column, ways.is_flag[predicate], len(clause)).astype(np.float64)
    words: F8 = np.bincount(column, ways.words[predicate], len(clause)).astype(np.float64)
    implied = ways.slot_implies[predicate].astype(np.float64)
    shape = shape_of(count, literal, ways.is_flag, ways.words)
    unlike = unlike_of(count, literal, ways.is_flag, shape, problem.predicate_attribute)
    residuals = Residuals(literal_count, flags, tests_max, passing, unlike)
    load = 1.0 / np.maximum(slot_share[predicate], NU_LEAST) - 1.0
    through_slot = ways.slot_nu[predicate] * checking(
        residuals.of(column, implied), load, slot_share[predicate], constants
    )
    cost = checking(residuals, 0.0, 0.0, constants)
    np.minimum.at(cost, column[positive], through_slot[positive])

    row_of = np.full(2 * problem.attribute_count + 2, -1, np.int32)
    row_of[np.asarray(rows, np.int64)] = np.arange(len(rows))
    nu = np.zeros((len(rows), len(clause)), np.float32)
    at_literal = np.zeros((len(rows), len(clause)), np.int32)
    copies = None
    if np.any(ways.copies > 1):
        copies = np.ones((len(rows), len(clause)), np.uint8)
    within = np.arange(len(literal)) - np.repeat(np.cumsum(count) - count, count)
    for mode in (0, 1):
        usable = positive & (ways.nu[mode][predicate] > 0.0)
        usable &= row_of[2 * problem.predicate_attribute[predicate] + mode] >= 0
        chosen = np.flatnonzero(usable)
        row = row_of[2 * problem.predicate_attribute[predicate[chosen]] + mode]
        _write_least(
            nu,
            at_literal,
            copies if mode == 0 else None,
            ways,
            row,
            column[chosen],
            predicate[chosen],
            within[chosen],
            mode,
        )
    row_count = np.count_nonzero(nu, axis=1).astype(np.int64)
    counts = literal_count, flags, words
    return Block(clause, nu, at_literal, copies, row_count, *counts, tests_max, passing, unlike, cost)


def _write_least(
    nu: F4,
    at_literal: I4,
    copies: U1 | None,
    ways: Ways,
    row: I4,
    column: I8,
    predicate: I4,
    within: I8,
    mode: int,
) -> None:
    """Write each literal into the matrix; of several in one place the most selective one stays."""
    flat = row.astype(np.int64) * nu.shape[1] + column
    value = ways.nu[mode][predicate].astype(np.float32)
    while len(flat):
        nu.reshape(-1)[flat] = value
        at_literal.reshape(-1)[flat] = within
        if copies is not None:
            copies.reshape(-1)[flat] = ways.copies[predicate]
        better = np.flatnonzero(nu.reshape(-1)[flat] > value)
        flat, value, within, predicate = flat[better], value[better], within[better], predicate[better]


def fit_table(block: Block, rows: Sequence[int]) -> Fit:
    """Return the clauses of a block that a table could hold.

    Parameters
    ----------
    rows : sequence of int
        Rows of the block's matrix, one per attribute of the schema.
    """
    rarest, *others = sorted(rows, key=lambda row: int(block.row_count[row]))
    column = np.flatnonzero(block.nu[rarest])
    nu = block.nu[rarest][column].astype(np.float64)
    for row in others:
        factor = block.nu[row][column]
        nu = nu * factor
        if block.row_count[row] < len(block.clause):
            held = np.flatnonzero(factor)
            if len(held) < len(column):
                column, nu = column[held], nu[held]
    copies = np.ones(len(column), np.int64)
    if block.copies is not None:
        for row in rows:
            copies *= block.copies[row][column]
        few = copies <= COPIES_MAX
        column, nu, copies = column[few], nu[few], copies[few]
    return Fit(column, nu, copies)


def table_cost(block: Block, fit: Fit, label_count: int, model: TableModel, constants: CostConstants) -> F8:
    """Return nu * checking of every clause of a fit, nanoseconds per event.

    Parameters
    ----------
    label_count : int
        Attributes of the schema by label, whose literals are no residuals.
    """
    entry_ns = checking_of(block, fit.column, label_count, model.load, constants)
    return np.asarray(np.minimum(fit.nu * model.joint, 1.0) * entry_ns)


def checking_of(block: Block, column: I8, label_count: int, load: float, constants: CostConstants) -> F8:
    """Return what an entry costs in a table with so many entries per section, its share of the way there
    included; `label_count` of its literals are looked up by label."""
    load = max(load, NU_LEAST)
    whole = Residuals(block.literal_count, block.flag_count, block.tests_max, block.passing, block.unlike)
    return checking(whole.of(column, label_count), load, -float(np.expm1(-load)) / load, constants)
