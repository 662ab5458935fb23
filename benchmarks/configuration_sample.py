"""What choosing the tables from a sample of the clauses costs, against choosing them from all.

    python -m pubsub_cluster.benchmarks.configuration_sample [--subscriptions 1000000] [--largest 6000000]

Writes ``benchmarks/results/configuration.csv``: seconds of both choices, and the model's cost per event, on
all clauses, of the sample's tables by that of the full choice's; and how long a configuration of the largest
catalogue takes, all of it. RR-4089, section 3.2.3.
"""

from __future__ import annotations

import argparse
import sys
import time

from pubsub_cluster.benchmarks.levels import SAMPLE_BATCH, SAMPLE_EVENTS
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads import WORKLOADS, Workload
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.tuner.assignment import SAMPLE_CLAUSES, SAMPLE_LITERALS, sample_clauses
from pubsub_cluster.tuner.choice import make_problem
from pubsub_cluster.tuner.configuration import Problem, TableSchema
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS
from pubsub_cluster.tuner.greedy import Search
from pubsub_cluster.tuner.slices import choose_slices
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.tuner.work import prepare

VERSION = 1
ALL = 1 << 40


def problem_of(workload: Workload) -> tuple[Problem, float]:
    """Return all clauses of a workload as the greedy sees them, and the seconds that making them took."""
    rules = workload.rules()
    writer = CatalogueWriter.in_memory(rules.size)
    writer.append_columns(rules.columns())
    catalogue, counts = CatalogueReader.of(writer), writer.counts()
    sample, events = EventSample(), workload.events(SAMPLE_EVENTS, first=1 << 30)
    for first in range(0, events.size, SAMPLE_BATCH):
        sample.add(events.slice(first, first + SAMPLE_BATCH).raw())
    begin = time.perf_counter()
    work = prepare(catalogue, counts, VERSION, sample)
    clauses = work.clauses(slice(None))
    problem = make_problem(clauses, work.spaces, work.predicates, work.ways, work.statistics)
    return problem, time.perf_counter() - begin


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


def compare(name: str, subscriptions: int, seed: int) -> list[Figure]:
    """Choose tables from a sample and from all clauses; return seconds of both, and what the sample costs."""
    problem, _ = problem_of(WORKLOADS[name].make(subscriptions=subscriptions, seed=seed))
    tables, _, sample_s = choose(problem, SAMPLE_CLAUSES, SAMPLE_LITERALS)
    _, full_cost, full_s = choose(problem, ALL, ALL)
    everyone = sample_clauses(
        problem, choose_slices(problem), DEFAULT_CONSTANTS, clause_count_max=ALL, literal_count_max=ALL
    )
    cost = Search(everyone, DEFAULT_CONSTANTS).cost_with(tables)

    def figure(what: str, value: float, unit: str, target: str = "") -> Figure:
        return Figure(what, value, unit, target, "", seed, name, subscriptions)

    return [
        figure("choosing tables, from a sample", sample_s, "s"),
        figure("choosing tables, from all clauses", full_s, "s"),
        figure("expected cost, tables of a sample / of all", cost / full_cost, "", "<= 1.05"),
    ]


def time_all(name: str, subscriptions: int, seed: int) -> list[Figure]:
    """Return the seconds of a configuration: code spaces, predicates, statistics, sample and greedy."""
    problem, prepare_s = problem_of(WORKLOADS[name].make(subscriptions=subscriptions, seed=seed))
    _, _, choose_s = choose(problem, SAMPLE_CLAUSES, SAMPLE_LITERALS)
    return [Figure("configuration", prepare_s + choose_s, "s", "<= 30", "", seed, name, subscriptions)]


def main() -> int:
    """Measure and keep the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--subscriptions", type=int, default=1_000_000, help="Of the comparison.")
    parser.add_argument("--largest", type=int, default=6_000_000, help="Of the configuration that is timed.")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    figures = time_all("W0", arguments.largest, arguments.seed)
    for name in ("W0", "W2"):
        figures += compare(name, arguments.subscriptions, arguments.seed)
    path = write("configuration", figures)
    sys.stdout.write(path.read_text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
