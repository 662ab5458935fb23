"""Matchers of the papers as whole systems: each is the engine of a cluster, reached over ZeroMQ.

    python -m pubsub_cluster.benchmarks.systems [--keep]

All clusters run at the same time and are asked in turns, so that only one works; each has one worker. The
events and subscriptions are W0's. In every turn the matches of every event are compared with those of the
naive matcher.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Sequence

import numpy as np

from pubsub_cluster import Cluster
from pubsub_cluster.benchmarks.cluster_level import ClusterRun, expressions, settle
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads.papers import FixedAndFree
from pubsub_cluster.coordinator.config import LAYOUT_ENGINE

ENGINES = (
    LAYOUT_ENGINE,
    "dynamic",
    "static",
    "propagation-prefetch",
    "counting",
    "bit-matrix",
    "list",
    "fair-predicate",
    "equality-preferred",
    "quarantining",
    "hanson",
    "s-tree",
    "h-tree",
    "naive",
)
SUBSCRIPTIONS, DOMAIN = 10_000, 12
BATCHES, BATCH_EVENTS = 4, 100
REPEATS, ROUNDS = 20, 3
SLOW = {"naive"}
"""Engines that get the batches once only in a turn."""
START_S, ANSWER_S = 300.0, 120.0


def measure(engines: Sequence[str], subscriptions: int, rounds: int) -> list[Figure]:
    """Return the events per second of each engine."""
    made = FixedAndFree("W0", subscriptions, domain=DOMAIN)
    rules = made.rules()
    batches = [made.events(BATCH_EVENTS, first * BATCH_EVENTS) for first in range(BATCHES)]
    rates: dict[str, list[float]] = {engine: [] for engine in engines}
    with contextlib.ExitStack() as running:
        runs = {}
        for engine in engines:
            cluster = running.enter_context(Cluster(engine=engine, start_timeout_s=START_S))
            client = running.enter_context(cluster.client(timeout_s=ANSWER_S))
            for answer in client.subscribe_many(expressions(rules, 0, rules.size)):
                if isinstance(answer, Exception):
                    raise answer
            if engine == LAYOUT_ENGINE:
                settle(client, batches)
            runs[engine] = ClusterRun(client, batches * (1 if engine in SLOW else REPEATS))
            ClusterRun(client, batches).run()  # takes the subscriptions in, and compiles
        expected = runs["naive"].run()
        for _ in range(rounds):
            for engine, run in runs.items():
                begin = time.perf_counter()
                counts = run.run()
                rates[engine].append(len(counts) / (time.perf_counter() - begin))
                assert np.array_equal(counts, np.tile(expected, len(counts) // len(expected))), engine
    return [
        Figure(
            engine,
            statistics.median(mine),
            "events/s",
            spread=f"{min(mine):,.0f} to {max(mine):,.0f}",
            seed=made.seed,
            workload=f"W0, domain {DOMAIN}",
            subscriptions=subscriptions,
        )
        for engine, mine in rates.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; with ``--keep`` write ``benchmarks/results/systems.csv``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engines", nargs="+", default=ENGINES, help="`naive` is always there")
    parser.add_argument("--subscriptions", type=int, default=SUBSCRIPTIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args(arguments)
    engines = list(dict.fromkeys([*options.engines, "naive"]))
    figures = measure(engines, options.subscriptions, options.rounds)
    for one in figures:
        sys.stdout.write(f"{one.figure:24} {one.value:12,.0f} {one.unit} ({one.spread})\n")
    if options.keep:
        sys.stdout.write(f"{write('systems', figures)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
