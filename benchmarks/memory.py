"""Memory of everything: what a cluster of millions of subscriptions occupies beside an empty one's.

    python -m pubsub_cluster.benchmarks.memory [--workload W0] [--subscriptions 6000000] [--json | --keep]

Millions of subscriptions take long through a client, so they are written into the change table, as the
coordinator would, and a cluster starts from it. It sees events, builds the generation that holds everything,
answers more events, and is then measured. ``--keep`` puts the figure into ``benchmarks/results/engine.csv``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from pubsub_cluster import Cluster
from pubsub_cluster.benchmarks.cluster_level import (
    RETUNE_INTERVAL_S,
    await_generation,
    expressions,
    memory_bytes,
    rest,
    settle,
)
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads import WORKLOADS
from pubsub_cluster.benchmarks.workloads.rules import Rules
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.language.subscription import DEFAULT_OWNER
from pubsub_cluster.shm.change_groups import SUBSCRIBE, Change

FIGURE, UNIT = "memory of everything", "bytes/subscription"
GROUP = 2_000
GROUPS_WAITING_MAX = 64
START_TIMEOUT_S = 3_600.0
BATCHES, BATCH = 10, 1_000
SHAPE: dict[str, Any] = {"shards": 1, "replicas": 2, "retune_interval_s": RETUNE_INTERVAL_S}


def write_changes(data_dir: Path, rules: Rules) -> None:
    """Write a change table that makes all subscriptions."""
    store = ChangeStore(data_dir, "normal")
    store.start()
    try:
        waiting = 0
        for first in range(0, rules.size, GROUP):
            made = enumerate(expressions(rules, first, min(first + GROUP, rules.size)), first + 1)
            store.commit([_change(number, item) for number, item in made])
            waiting += 1
            while waiting > GROUPS_WAITING_MAX:
                time.sleep(0.001)
                waiting -= len(_checked(store))
    finally:
        store.close()
    _checked(store)


def _change(number: int, item: dict[str, Any]) -> Change:
    expression = orjson.dumps(item["expr"])
    return Change(number, SUBSCRIBE, number, item["id"], DEFAULT_OWNER, expression, None, None)


def _checked(store: ChangeStore) -> list[Any]:
    reports = store.poll()
    for report in reports:
        if report.error is not None:
            raise report.error
    return reports


def measure(workload: str, subscriptions: int, seed: int = 1) -> dict[str, Any]:
    """Measure a workload; return figures.

    Parameters
    ----------
    workload : str
        In `WORKLOADS`, of conjunctions only.
    subscriptions : int
    seed : int
    """
    made = WORKLOADS[workload].make(subscriptions=subscriptions, seed=seed)
    rules, events = made.rules(), made.events(BATCHES * BATCH)
    batches = [events.slice(first, first + BATCH) for first in range(0, events.size, BATCH)]
    for _ in range(2):  # the first one may compile kernels, which leaves memory behind
        with Cluster(**SHAPE) as cluster, cluster.client() as client:
            client.publish(batches[0].slice(0, 8).columns())
            empty_bytes = memory_bytes(cluster)
    with tempfile.TemporaryDirectory(prefix="psc-") as name:
        begin = time.perf_counter()
        write_changes(Path(name), rules)
        written_s = time.perf_counter() - begin
        note(f"{subscriptions:,} changes written in {written_s:.0f} s")
        del rules
        begin = time.perf_counter()
        with Cluster(name, start_timeout_s=START_TIMEOUT_S, **SHAPE) as cluster, cluster.client() as client:
            start_s = time.perf_counter() - begin
            note(f"started in {start_s:.0f} s")
            await_generation(client)  # until then everything is looked at row by row
            build_s = settle(client, batches)
            for batch in batches:
                client.publish(batch.columns())
            rest(client)
            assert client.status()["delta_rows"] == 0
            used = memory_bytes(cluster) - empty_bytes
    return {
        "workload": workload,
        "subscriptions": subscriptions,
        "seed": seed,
        "start_s": start_s,
        "generation_s": build_s,
        "empty_bytes": empty_bytes,
        "bytes_per_subscription": used / subscriptions,
    }


def note(line: str) -> None:
    """Tell about progress."""
    sys.stderr.write(line + "\n")


def main() -> int:
    """Measure and print, or keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", default="W0")
    parser.add_argument("--subscriptions", type=int, default=6_000_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.workload, arguments.subscriptions)
    if arguments.keep:
        from pubsub_cluster.benchmarks.suite import CSV, TARGETS

        key = (arguments.workload, arguments.subscriptions)
        figure = Figure(
            FIGURE,
            found["bytes_per_subscription"],
            UNIT,
            TARGETS.get((*key, FIGURE), ""),
            "",
            found["seed"],
            *key,
        )
        write(CSV, [figure], keep_others=True, only_figures=True)
    sys.stdout.write(
        orjson.dumps(found).decode() + "\n"
        if arguments.json
        else f"{found['bytes_per_subscription']:.1f} {UNIT}\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
