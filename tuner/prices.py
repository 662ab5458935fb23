"""What each subscription is expected to cost per event, by the model that the tuner chooses tables with.

A clause costs nu * checking in its best place among the tables that the greedy would choose (RR-4089,
sections 3.1 and 3.2.1), and bears its part of its table's overhead. A Boolean program costs the chance that a
slot of its access set is open, times the way there and the literals that are looked at on average. Text
predicates are bits here: to find them in a text is one pass for all subscriptions, belongs to none of them,
and is not in the model.
"""

from __future__ import annotations

import itertools

import numpy as np

from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import F8
from pubsub_cluster.tuner.access import program_access
from pubsub_cluster.tuner.assignment import sample_clauses
from pubsub_cluster.tuner.bits import UNKNOWN_PROBABILITY
from pubsub_cluster.tuner.choice import make_problem
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.greedy import Search
from pubsub_cluster.tuner.programs import literals_looked_at
from pubsub_cluster.tuner.slices import choose_slices
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.tuner.work import Work, prepare


def subscription_costs(
    catalogue: CatalogueReader,
    counts: CatalogueCounts,
    version: int,
    sample: EventSample | None = None,
    constants: CostConstants = DEFAULT_CONSTANTS,
) -> F8:
    """Return the expected cost of every row of a catalogue.

    All clauses are looked at, none is sampled: meant for thousands of subscriptions, not for millions.

    Parameters
    ----------
    catalogue : CatalogueReader
    counts : CatalogueCounts
    version : int
        Rows removed at this version or before cost nothing.
    sample : EventSample, optional
        Without one all constants of an attribute are equally likely, and every attribute is always there.
    constants : CostConstants

    Returns
    -------
    float64[rows]
        Nanoseconds per event.
    """
    work = prepare(catalogue, counts, version, sample)
    cost = np.zeros(len(work.source.row_catalogue))
    everything = slice(0, work.source.clause_count)
    if work.source.clause_count:
        np.add.at(cost, work.source.rows_of(everything), _clause_costs(work, constants))
    unseen = UNKNOWN_PROBABILITY / ((sample.event_count if sample is not None else 0) + 1.0)
    cost[work.source.program_row] += _program_costs(work, constants, unseen)
    found = np.zeros(counts.rows)
    found[work.source.row_catalogue] = cost
    return found


def _clause_costs(work: Work, constants: CostConstants) -> F8:
    clauses = work.clauses(slice(0, work.source.clause_count))
    problem = make_problem(clauses, work.spaces, work.predicates, work.ways, work.statistics)
    count = problem.clause_count
    sampled = sample_clauses(
        problem,
        choose_slices(problem, 0.0),
        constants,
        clause_count_max=count,
        literal_count_max=count + len(problem.literal),
    )
    search = Search(sampled, constants)
    search.run()
    return search.costs()


def _program_costs(work: Work, constants: CostConstants, unseen: float) -> F8:
    """Return what programs cost; `unseen` is the probability of a bit that no event had.

    Of an access set it counts once: that none of a thousand patterns was seen is no reason to expect
    each of them.
    """
    ways, starts = work.ways, work.source.program_start
    looked_at = literals_looked_at(work.program_code, starts, ways.probability)
    codes = work.program_code.tolist()
    is_open = np.ones(len(looked_at))
    for program, (first, stop) in enumerate(itertools.pairwise(starts.tolist())):
        access = program_access(codes[first:stop], ways)
        if access is not None:
            slots = {slot for p in access for slot in ways.slot[ways.slot_start[p] : ways.slot_start[p + 1]]}
            chances = ways.slot_probability[list(slots)]
            seen = np.maximum(chances - unseen, 0.0)
            is_open[program] = min(1.0, float(chances.sum()), float(seen.sum()) + unseen)
    way = constants.cluster_ns + constants.entry_ns
    return np.asarray(is_open * (way + constants.residual_ns * looked_at))
