"""Measure the main job end to end: start, load, match the flights through a client, the whole demonstration.

    python -m pubsub_cluster.benchmarks.main_job

Answers are checked inside the timed passes: the number of matches of all flights is asserted against that of
an independent run of the demonstration with the same seed, which itself is checked against the naive matcher.
Needs the `demo` extra. Takes about five minutes; leave the machine alone meanwhile.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from pubsub_cluster import Cluster
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.cli.demo.alerts import draw_alerts
from pubsub_cluster.cli.demo.flights import read_flights
from pubsub_cluster.cli.demo.stream import publish_flights

ALERTS, SEED, SHARDS = 200_000, 1, 2
IMPORT_RUNS, START_RUNS, STREAM_RUNS = 7, 3, 2


def import_seconds() -> list[float]:
    """Time ``import pubsub_cluster.client`` in fresh processes, interpreter start taken off."""
    found = []
    for _ in range(IMPORT_RUNS):
        seconds = []
        for statement in ("pass", "import pubsub_cluster.client, sys; assert 'numba' not in sys.modules"):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            seconds.append(time.perf_counter() - begin)
        found.append(seconds[1] - seconds[0])
    return found


def start_seconds() -> list[float]:
    """Time a start of two shards until every worker takes tasks, kernels cached."""
    with Cluster(shards=SHARDS):
        pass
    found = []
    for _ in range(START_RUNS):
        begin = time.perf_counter()
        with Cluster(shards=SHARDS):
            found.append(time.perf_counter() - begin)
    return found


def demonstration() -> tuple[dict[str, float], float]:
    """Run ``pubsub-cluster demo flights --json``; return what it prints and its seconds from outside."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pubsub_cluster.cli",
            "demo",
            "flights",
            "--json",
            "--output",
            folder,
        ]
        begin = time.perf_counter()
        run = subprocess.run(command, check=True, capture_output=True)
        body: dict[str, float] = orjson.loads(run.stdout)
        return body, time.perf_counter() - begin


def load_and_match(expected_matches: int) -> tuple[float, list[float]]:
    """Return alerts per second of a durable load, and flights per second of whole streams."""
    flights = read_flights()
    items = [
        {"id": alert.id, "owner": alert.owner, "expr": alert.expr}
        for alert in draw_alerts(flights, ALERTS, SEED)
    ]
    with (
        Cluster(shards=SHARDS) as cluster,
        cluster.client(timeout_s=120.0) as client,
        cluster.client() as control,
    ):
        begin = time.perf_counter()
        made = client.subscribe_many(items)
        load_s = time.perf_counter() - begin
        assert not any(isinstance(result, Exception) for result in made)
        generation = client.status()["generation"]
        client.tune_now()
        while client.status()["generation"] == generation or client.status()["delta_rows"]:
            time.sleep(0.05)
        rates = []
        for _ in range(STREAM_RUNS):
            record = publish_flights(client, control, flights, lambda _: None)
            assert record.match_count == expected_matches, (record.match_count, expected_matches)
            rates.append(record.events_per_second)
    return len(items) / load_s, rates


def main() -> int:
    """Run everything; write ``benchmarks/results/main_job.csv``."""
    imports, starts = import_seconds(), start_seconds()
    outcome, demo_s = demonstration()
    assert outcome["mismatches"] == 0, outcome
    load_rate, rates = load_and_match(int(outcome["matches"]))

    def spread(values: list[float]) -> str:
        return f"{min(values):.3g} to {max(values):.3g}"

    path = write(
        "main_job",
        [
            Figure("whole demonstration", demo_s, "s", "<= 150", seed=SEED),
            Figure("flights matched through the client, swaps included", statistics.mean(rates), "flights/s",
                   ">= 20,000", spread(rates), SEED),
            Figure("flights matched in the demo", outcome["events_per_second"], "flights/s", seed=SEED),
            Figure("matches per flight", outcome["matches"] / outcome["events"], "", "20 to 50", seed=SEED),
            Figure("load, durable", load_rate, "alerts/s", ">= 10,000", seed=SEED),
            Figure("start to READY, kernels cached", statistics.median(starts), "s", "<= 5", spread(starts)),
            Figure("import of the client", statistics.median(imports), "s", "<= 0.3", spread(imports)),
        ],
    )  # fmt: skip
    sys.stdout.write(f"{path}\n{Path(path).read_text()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
