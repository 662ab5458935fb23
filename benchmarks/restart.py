"""A cluster that starts with many subscriptions: how long until it answers.

    python -m pubsub_cluster.benchmarks.restart [--subscriptions 1000000] [--keep]

The subscriptions are loaded from a file by ``pubsub-cluster load``. As soon as a generation holds them, and
again when a snapshot does and nothing goes on, the coordinator is killed with SIGKILL; its workers and its
tuner end with it. Once more it is stopped in order. Each time the cluster is started on what is durable, and
the time counts from the start of its process until a client has the first answer, which has to be right.
``--keep`` puts the figures into ``benchmarks/results/churn.csv``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pubsub_cluster import Client, Cluster
from pubsub_cluster.benchmarks.churn import BATCH, CSV, load, note
from pubsub_cluster.benchmarks.cluster_level import RETUNE_INTERVAL_S, rest
from pubsub_cluster.benchmarks.measure import WrongAnswer
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads import WORKLOADS
from pubsub_cluster.benchmarks.workloads.rules import I8, matching
from pubsub_cluster.coordinator.config import ClusterConfig

TARGET = "<= 5"
KINDS = {
    "loaded": "restart, first answer, killed right after the load",
    "killed": "restart, first answer, killed at rest",
    "stopped": "restart, first answer, stopped at rest",
}
REPEATS = 3
CHECKED = 20
TIMEOUT_S = 120.0


def first_answer(cluster: Cluster, columns: Any, counts: I8) -> float:
    """Start a cluster; return the seconds until its first answer.

    Raises
    ------
    WrongAnswer
    """
    begin = time.perf_counter()
    cluster.start()
    with cluster.client(timeout_s=TIMEOUT_S) as client:
        found: Any = client.publish(columns, answer="counts").counts
        took_s = time.perf_counter() - begin
    if not np.array_equal(found, counts):
        raise WrongAnswer("the first answer after a restart is not the one before it")
    return took_s


def come_to_rest(client: Client) -> None:
    """Wait until a snapshot is as new as it gets at rest and no generation is being built."""
    begin, snapshot_after = time.perf_counter(), ClusterConfig.snapshot_after
    while time.perf_counter() - begin < TIMEOUT_S:
        durable = client.status()["durable"]
        if durable["changes_since"] < snapshot_after and durable["working_on"] is None:
            break
        time.sleep(0.1)
    rest(client)


def measure(workload: str, subscriptions: int, seed: int = 1) -> dict[str, list[float]]:
    """Return the seconds until the first answer, by kind of restart."""
    made = WORKLOADS[workload].make(subscriptions=subscriptions, seed=seed)
    rules, events = made.rules(), made.events(BATCH)
    columns = events.columns()
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with TemporaryDirectory(prefix="psc-") as folder:
        cluster = Cluster(Path(folder), shards=1, replicas=2, retune_interval_s=RETUNE_INTERVAL_S)
        with cluster, cluster.client(timeout_s=TIMEOUT_S) as client:
            client.publish(columns)
            load(cluster, client, rules)
            counts: Any = client.publish(columns).counts
            for event in range(CHECKED):
                assert counts[event] == len(matching(rules, events.value[event]))

            def restart(kind: str, end: Callable[[], None]) -> None:
                end()
                found[kind].append(first_answer(cluster, columns, counts))
                note(f"{KINDS[kind]}: {found[kind][-1]:.2f} s")

            restart("loaded", cluster.kill)
            for _ in range(REPEATS):
                for kind, end in (("killed", cluster.kill), ("stopped", cluster.stop)):
                    come_to_rest(client)
                    restart(kind, end)
    return found


def figures_of(found: dict[str, list[float]], workload: str, subscriptions: int, seed: int) -> list[Figure]:
    """Return the longest of each kind of restart."""
    target = TARGET if subscriptions >= 1_000_000 else ""
    return [
        Figure(
            KINDS[kind],
            max(seconds),
            "s",
            target,
            f"{min(seconds):.3g} to {max(seconds):.3g}" if len(seconds) > 1 else "",
            seed,
            workload,
            subscriptions,
        )
        for kind, seconds in found.items()
    ]


def main() -> int:
    """Measure and print, or keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", default="W0")
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.workload, arguments.subscriptions, arguments.seed)
    figures = figures_of(found, arguments.workload, arguments.subscriptions, arguments.seed)
    if arguments.keep:
        write(CSV, figures, keep_others=True, only_figures=True)
    for figure in figures:
        sys.stdout.write(f"{figure.figure:<56}{figure.value:>8.2f} {figure.unit:<3}{figure.target}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
