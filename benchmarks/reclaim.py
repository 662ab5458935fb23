"""What is left after rounds of inserting and removing: memory of everything, round by round.

    python -m pubsub_cluster.benchmarks.reclaim [--subscriptions 1000000] [--rounds 10] [--keep]

A cluster makes some subscriptions and one round like those to come, so that what any use leaves behind
(kernels, buffers of the allocator) is there before the start is measured. Then come the rounds: all are
inserted, a generation holds them, events are answered, all are removed, and the cluster comes to rest.
``--keep`` puts the figures into ``benchmarks/results/reclaim.csv``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

from pubsub_cluster import Client, Cluster
from pubsub_cluster.benchmarks.cluster_level import await_generation, expressions, is_at_work, memory_parts
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads import WORKLOADS
from pubsub_cluster.benchmarks.workloads.rules import Events, Rules

CSV = "reclaim"
TARGET = "<= 5"
UNIT = "% of the start"
PART = 50_000
STEADY = 1_000
BATCH, BATCHES = 1_000, 4
REST_S_MAX = 120.0
QUIET_S = 4.0  # longer than a cluster waits before it sets about what may be due


def round_of(client: Client, rules: Rules, batches: list[Events], number: int) -> dict[str, float]:
    """Insert all, match, remove all; return seconds."""
    begin = time.perf_counter()
    for part in parts(expressions(rules, STEADY, rules.size)):
        refused = [one for one in client.subscribe_many(part) if isinstance(one, Exception)]
        assert not refused, refused[0]
    inserted_s = time.perf_counter() - begin
    await_generation(client)
    for batch in batches:
        client.publish(batch.columns(), answer="counts")
    begin = time.perf_counter()
    for names in parts(str(row + 1) for row in range(STEADY, rules.size)):
        refused = [one for one in client.unsubscribe_many(names) if one is not None]
        assert not refused, refused[0]
    removed_s = time.perf_counter() - begin
    come_to_rest(client)
    return {"round": number, "inserted_s": inserted_s, "removed_s": removed_s}


def parts(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield items in lists."""
    iterator = iter(items)
    while part := list(itertools.islice(iterator, PART)):
        yield part


def come_to_rest(client: Client) -> None:
    """Wait until nothing is dead but what is not worth a copy, and nothing has been at work for a while."""
    begin = time.perf_counter()
    quiet_since_s = begin
    while time.perf_counter() < min(begin + REST_S_MAX, quiet_since_s + QUIET_S):
        status = client.status()
        if status["rows"] >= 2 * STEADY + 4_096 or is_at_work(status):
            quiet_since_s = time.perf_counter()
        time.sleep(0.1)


def measure(workload: str, subscriptions: int, rounds: int, seed: int = 1) -> list[dict[str, Any]]:
    """Measure; return a dictionary per round, the start first."""
    made = WORKLOADS[workload].make(subscriptions=subscriptions + STEADY, seed=seed)
    rules, events = made.rules(), made.events(BATCHES * BATCH)
    batches = [events.slice(first, first + BATCH) for first in range(0, events.size, BATCH)]
    found: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="psc-") as name,
        Cluster(name, shards=1, replicas=2) as cluster,
        cluster.client(timeout_s=120.0) as client,
    ):
        client.subscribe_many(expressions(rules, 0, STEADY))
        for number in range(-1, rounds + 1):
            row = {"round": number} if number < 0 else round_of(client, rules, batches, number)
            status = client.status()
            memory = memory_parts(cluster)
            row |= {
                "bytes": sum(memory.values()),
                **memory,
                "segment_bytes": sum(status["segments"].values()),
                "rows": status["rows"],
                "moves": status["epochs"]["moves"],
                "last_step_ms": status["epochs"].get("last_step_ms", 0.0),
            }
            found.append(row)
            note(", ".join(f"{key} {value:,.6g}" for key, value in row.items()))
    return found


def note(line: str) -> None:
    """Tell about progress."""
    sys.stderr.write(line + "\n")


def main() -> int:
    """Measure and print, or keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", default="W0")
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    _, start, *rounds = measure(arguments.workload, arguments.subscriptions, arguments.rounds)
    grown = [100.0 * (row["bytes"] / start["bytes"] - 1.0) for row in rounds]
    key = (None, arguments.workload, arguments.subscriptions)
    figures = [Figure("memory at the start", start["bytes"], "bytes", "", "", *key)]
    for row, percent in zip(rounds, grown, strict=True):
        figure = f"memory after round {row['round']} of inserting and removing all, grown by"
        figures.append(Figure(figure, percent, UNIT, TARGET, "", *key))
    slowest = max(row["last_step_ms"] for row in rounds)
    figures.append(Figure("longest last step of an epoch", slowest, "ms", "<= 50", "", *key))
    if arguments.keep:
        write(CSV, figures, keep_others=True)
    sys.stdout.write(f"grown by {grown[-1]:.2f} % after {len(grown)} rounds, target {TARGET}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
