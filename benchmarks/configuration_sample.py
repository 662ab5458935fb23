"""What choosing the tables from a sample of the clauses costs, against choosing them from all.

    python -m pubsub_cluster.benchmarks.configuration_sample [--workload W0] [--subscriptions 1000000]

Prints one JSON object: seconds of both choices, tables, and the model's cost per event of both on all
clauses; `ratio` is the sample's by the full choice's. RR-4089, section 3.2.3; the issue allows 1.05.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from pubsub_cluster.benchmarks.levels import SAMPLE_BATCH, SAMPLE_EVENTS
from pubsub_cluster.benchmarks.workloads import WORKLOADS, Workload
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.tuner.assignment import SAMPLE_CLAUSES, SAMPLE_LITERALS, sample_clauses
from pubsub_cluster.tuner.builder import prepare
from pubsub_cluster.tuner.choice import make_problem
from pubsub_cluster.tuner.configuration import Problem, TableSchema
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS
from pubsub_cluster.tuner.greedy import Search
from pubsub_cluster.tuner.slices import choose_slices
from pubsub_cluster.tuner.statistics import EventSample

VERSION = 1
ALL = 1 << 40


def problem_of(workload: Workload) -> Problem:
    """Return all clauses of a workload as the greedy sees them."""
    rules = workload.rules()
    writer = CatalogueWriter.in_memory(rules.size)
    writer.append_columns(rules.columns())
    catalogue, counts = CatalogueReader.of(writer), writer.counts()
    sample, events = EventSample(), workload.events(SAMPLE_EVENTS, first=1 << 30)
    for first in range(0, events.size, SAMPLE_BATCH):
        sample.add(events.slice(first, first + SAMPLE_BATCH).raw())
    work = prepare(catalogue, counts, VERSION, sample)
    clauses = work.clauses(slice(None))
    return make_problem(clauses, work.spaces, work.predicates, work.ways, work.statistics)


def choose(
    problem: Problem, clause_count_max: int, literal_count_max: int
) -> tuple[list[TableSchema], float, float]:
    """Return the tables of the greedy on so many clauses, its own estimate, and seconds."""
    begin = time.perf_counter()
    slices = choose_slices(problem)
    sampled = sample_clauses(
        problem,
        slices,
        DEFAULT_CONSTANTS,
        clause_count_max=clause_count_max,
        literal_count_max=literal_count_max,
    )
    search = Search(sampled, DEFAULT_CONSTANTS)
    search.run()
    return [table.schema for table in search.chosen], search.total_cost, time.perf_counter() - begin


def main() -> int:
    """Choose both ways and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", default="W0", choices=sorted(WORKLOADS))
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    make = WORKLOADS[arguments.workload].make
    problem = problem_of(make(subscriptions=arguments.subscriptions, seed=arguments.seed))
    tables, estimate, seconds = choose(problem, SAMPLE_CLAUSES, SAMPLE_LITERALS)
    full_tables, full_cost, full_seconds = choose(problem, ALL, ALL)
    everyone = sample_clauses(
        problem, choose_slices(problem), DEFAULT_CONSTANTS, clause_count_max=ALL, literal_count_max=ALL
    )
    cost = Search(everyone, DEFAULT_CONSTANTS).cost_with(tables)
    found = {
        "workload": arguments.workload,
        "subscriptions": arguments.subscriptions,
        "sample_s": round(seconds, 2),
        "sample_tables": len(tables),
        "sample_estimate_ns": round(estimate, 1),
        "sample_cost_ns": round(cost, 1),
        "full_s": round(full_seconds, 2),
        "full_tables": len(full_tables),
        "full_cost_ns": round(full_cost, 1),
        "ratio": round(cost / full_cost, 4),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
