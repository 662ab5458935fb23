"""The choice of a layout's tables, from what the builder knows: one call between it and the greedy.

A sample of the clauses is gathered from the catalogue; the rest is never looked at. Without a sample of
events all constants of an attribute are equally likely and attributes are independent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pubsub_cluster.shm.code_space import I8, CodeSpaces
from pubsub_cluster.tuner.access import Ways
from pubsub_cluster.tuner.assignment import sample_clauses
from pubsub_cluster.tuner.configuration import Configuration, Problem
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.greedy import Search, choose_configuration
from pubsub_cluster.tuner.predicates import FLAG_COLUMN, Predicates
from pubsub_cluster.tuner.source import Clauses
from pubsub_cluster.tuner.statistics import LabelStatistics

SAMPLE_SEED = 4_089
FIRST_SAMPLE_CLAUSES = 1 << 18
"""Drawn evenly from the catalogue; of these the greedy's sample is drawn by cost."""


def choose_tables(
    clause_count: int,
    clauses: Callable[[I8], Clauses],
    spaces: CodeSpaces,
    predicates: Predicates,
    ways: Ways,
    statistics: LabelStatistics,
    constants: CostConstants | None = None,
    max_bytes: int | None = None,
) -> Configuration:
    """Choose the tables of a layout.

    Parameters
    ----------
    clause_count : int
        Clauses of the catalogue.
    clauses : callable
        From ascending numbers of clauses to their literals, numbered by the layout.
    spaces, predicates, ways, statistics
        Of the layout.
    constants : CostConstants, optional
        Measured on this machine.
    max_bytes : int, optional
        Bound of hash areas and clusters.

    Returns
    -------
    Configuration
        The same for the same input.
    """
    picked = np.arange(clause_count)
    if clause_count > FIRST_SAMPLE_CLAUSES:
        random = np.random.default_rng(SAMPLE_SEED)
        picked = np.sort(random.choice(clause_count, FIRST_SAMPLE_CLAUSES, replace=False, shuffle=False))
    sampled = clauses(picked)
    problem = make_problem(sampled, spaces, predicates, ways, statistics)
    problem = problem._replace(weight=clause_count / max(len(picked), 1))
    return choose_configuration(problem, constants or DEFAULT_CONSTANTS, max_bytes)


def expected_cost(
    configuration: Configuration,
    clauses: Clauses,
    spaces: CodeSpaces,
    predicates: Predicates,
    ways: Ways,
    statistics: LabelStatistics,
    constants: CostConstants,
) -> float:
    """Return what tables are expected to cost, nanoseconds per event.

    Clauses in slots are included, and so is what the greedy leaves out, since no table alone causes it: to
    find the slices of an event's labels.
    """
    problem = make_problem(clauses, spaces, predicates, ways, statistics)
    slices = (*configuration.slice_first_label, *[()] * spaces.attribute_count)[: spaces.attribute_count]
    search = Search(sample_clauses(problem, slices, constants), constants)
    by_cell = {a for schema in configuration.tables for a, c in zip(*schema, strict=True) if c}
    halvings = [float(statistics.present[a]) * np.log2(len(slices[a])) for a in sorted(by_cell)]
    return search.cost_with(configuration.tables) + constants.halving_ns * float(sum(halvings))


def make_problem(
    clauses: Clauses, spaces: CodeSpaces, predicates: Predicates, ways: Ways, statistics: LabelStatistics
) -> Problem:
    """Return the greedy's view of some clauses."""
    is_interval = (predicates.attribute >= 0) & (predicates.reference < 0) & ~predicates.is_impossible
    is_point = is_interval & (predicates.lo == predicates.hi)
    members = np.where(predicates.is_set, np.diff(ways.slot_start), is_point)
    return Problem(
        attribute_count=spaces.attribute_count,
        predicate_attribute=predicates.attribute.astype(np.int32),
        predicate_is_point=is_point,
        predicate_is_range=is_interval,
        predicate_is_flag=predicates.column == FLAG_COLUMN,
        predicate_member_count=members.astype(np.int32),
        predicate_lo=predicates.lo.astype(np.int32),
        predicate_hi=predicates.hi.astype(np.int32),
        predicate_probability=ways.probability,
        clause_start=clauses.start,
        literal=clauses.literal,
        label_start=spaces.label_start,
        label_probability=statistics.label,
        present=statistics.present,
        sample_labels=statistics.events,
    )
