"""Run the workloads that the documents quote, and keep their figures in ``benchmarks/results/engine.csv``.

    python -m pubsub_cluster.benchmarks.suite [--only W0] [--rivals]

Each workload runs in a process of its own, one after the other; its lines in the CSV replace those of the
same workload and size. Leave the machine alone meanwhile: the load average is kept with every line.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any, NamedTuple

import orjson

from pubsub_cluster.benchmarks.memory import FIGURE, UNIT
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads import WORKLOADS

CSV = "engine"
MOST_SECONDS = 3_600
MEMORY_MODULE = "pubsub_cluster.benchmarks.memory"


class Item(NamedTuple):
    """One run: workload, size, events, whether a cluster is measured, rivals, whether memory is."""

    workload: str
    subscriptions: int
    events: int
    with_cluster: bool = False
    rivals: tuple[str, ...] = ()
    with_memory: bool = False


COMPILED = ("scan", "counting", "propagation", "propagation+prefetch")
ALL = (*COMPILED, "duckdb", "mokaccino", "rule-engine")
ITEMS = (
    Item("W0", 100_000, 20_000, rivals=ALL),
    Item("W0", 1_000_000, 20_000, with_cluster=True, rivals=ALL),
    Item("W0", 3_000_000, 20_000, rivals=COMPILED),
    Item("W0", 6_000_000, 20_000, rivals=COMPILED, with_memory=True),
    Item("W1", 3_000_000, 5_000, rivals=COMPILED),
    Item("W2", 3_000_000, 5_000, rivals=COMPILED),
    *(Item(name, 1_000_000, 5_000, rivals=COMPILED) for name in WORKLOADS if name.startswith("W0-domains")),
    Item("HT-n", 100_000, 2_000, rivals=COMPILED),
    Item("HT-n", 1_000_000, 2_000, rivals=COMPILED),
    Item("ADS", 3_000_000, 2_000, rivals=COMPILED),
    Item("SERVICE", 100_000, 20_000, with_cluster=True, rivals=ALL),
    *(
        Item(name, entry.subscriptions, entry.events, rivals=("scan",))
        for name, entry in WORKLOADS.items()
        if entry.about.startswith("adversarial")
    ),
)

# What the engine is meant to reach, by workload, size and figure.
TARGETS: dict[tuple[str, int, str], str] = {
    ("W0", 100_000, "kernel"): "<= 0.3",
    ("W0", 1_000_000, "kernel"): "<= 0.8",
    ("W0", 6_000_000, "kernel"): "<= 1.8",
    ("W0", 6_000_000, "multiple of the floor"): "<= 2.5",
    ("W0", 6_000_000, "index"): "<= 20",
    ("W0", 6_000_000, "time without prefetch / with"): ">= 1.5",
    ("W0", 6_000_000, "build"): "<= 10",
    ("W0", 6_000_000, "build, peak memory / result"): "<= 2",
    ("W1", 3_000_000, "kernel"): "<= 2",
    ("W2", 3_000_000, "kernel"): "<= 2.5",
    ("HT-n", 1_000_000, "kernel"): "<= 60",
    ("HT-n", 1_000_000, "time of scan / kernel"): ">= 40",
    ("ADS", 3_000_000, "kernel"): "<= 20",
    ("SERVICE", 100_000, "events from UTF-8 columns"): ">= 3,000,000",
    ("SERVICE", 100_000, "events from JSON"): ">= 250,000",
    ("SERVICE", 100_000, "index"): "<= 200",
    ("W0", 1_000_000, "cluster, share of two kernels' rate"): ">= 0.65",
    ("W0", 1_000_000, "single events, p99 at 1,000/s"): "<= 2,000",
    ("W0", 1_000_000, "single events, sustained"): ">= 10,000",
    ("W0", 6_000_000, FIGURE): "<= 120",
}


def figures_of(report: dict[str, Any], key: tuple[str, int]) -> list[Figure]:
    """Return a report's figures, with their targets."""
    found: list[Figure] = []
    workload, subscriptions = key

    def add(figure: str, value: float, unit: str, spread: str = "") -> None:
        target = TARGETS.get((*key, figure), "")
        found.append(Figure(figure, value, unit, target, spread, report["seed"], workload, subscriptions))

    def between(low_high: Any, places: int = 3) -> str:
        return f"{low_high[0]:.{places}g} to {low_high[1]:.{places}g}"

    add("kernel", report["us_per_event"], "us/event", report["us_per_event_spread"])
    add(
        "engine from columns", report["engine_us_per_event"], "us/event", report["engine_us_per_event_spread"]
    )
    add("events from UTF-8 columns" if workload == "SERVICE" else "events from columns",
        1e6 / report["engine_us_per_event"], "events/s")  # fmt: skip
    add("events from JSON", 1e6 / report["json_us_per_event"], "events/s")
    add("matches", report["matches"] / report["events"], "per event")
    add("floor", report["floor_us_per_event"], "us/event")
    add("multiple of the floor", report["floor_ratio"], "", between(report["floor_ratio_spread"]))
    add("probed keys", report["work_per_event"]["probes"], "per event")
    add("candidates", report["work_per_event"]["candidates"], "per event")
    add("index", report["index_bytes_per_subscription"], "bytes/subscription")
    add("build", report["build_s"], "s")
    if report["build_peak_ratio"] is not None:
        add("build, peak memory / result", report["build_peak_ratio"], "")
    for name, value in report["ratios"].items():
        spread = between(report["ratio_spreads"][name])
        title = (
            "time without prefetch / with" if name == "kernel, prefetch off" else f"time of {name} / kernel"
        )
        add(title, value, "", spread)
    for name, part in report["ratios_at"].items():
        add(
            f"time of {name} / kernel, at {part['subscriptions']:,}",
            part["ratio"],
            "",
            between(part["spread"]),
        )
    if cluster := report.get("cluster"):
        add("cluster, columns", cluster["events_per_second"], "events/s")
        add("two kernels at once", cluster["kernels_events_per_second"], "events/s")
        share = between(cluster["share_of_kernels_spread"])
        add("cluster, share of two kernels' rate", cluster["share_of_kernels"], "", share)
        add("cluster, load", cluster["load_per_second"], "subscriptions/s")
        add("single events, sustained", cluster["single_events_per_second"], "events/s")
        for name in ("p50", "p99"):
            spread = between(cluster[f"single_{name}_us_spread"], 4)
            add(f"single events, {name} at 1,000/s", cluster[f"single_{name}_us"], "us", spread)
    if everything := report.get("memory") or report.get("cluster"):
        add(FIGURE, everything["bytes_per_subscription"], UNIT)
    return found


def run_item(item: Item, passes: int) -> dict[str, Any]:
    """Run one item in a process of its own; return its report."""
    command = [sys.executable, "-m", "pubsub_cluster.cli", "bench", item.workload, "--json"]
    command += ["--subscriptions", str(item.subscriptions), "--events", str(item.events)]
    command += ["--passes", str(passes)]
    for rival in item.rivals or ("none",):
        command += ["--rival", rival]
    if item.with_cluster:
        command += ["--cluster", "--shards", "1", "--replicas", "2"]  # two workers, each with whole batches
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=MOST_SECONDS)
    report: dict[str, Any] = orjson.loads(done.stdout)
    if item.with_memory:
        command = [sys.executable, "-m", MEMORY_MODULE, "--json", "--workload", item.workload]
        command += ["--subscriptions", str(item.subscriptions)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=MOST_SECONDS)
        report["memory"] = orjson.loads(done.stdout)
    return report


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", help="Workload; repeatable.")
    parser.add_argument("--size", type=int, action="append", help="Only these numbers of subscriptions.")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--no-cluster", action="store_true")
    arguments = parser.parse_args()
    failed = []
    for item in ITEMS:
        if arguments.only and item.workload not in arguments.only:
            continue
        if arguments.size and item.subscriptions not in arguments.size:
            continue
        if arguments.no_cluster:
            item = item._replace(with_cluster=False, with_memory=False)
        sys.stderr.write(f"== {item.workload} {item.subscriptions:,}\n")
        try:
            report = run_item(item, arguments.passes)
        except subprocess.CalledProcessError as error:
            failed.append(f"{item.workload} {item.subscriptions:,}: exit {error.returncode}")
            continue
        write(CSV, figures_of(report, (item.workload, item.subscriptions)), keep_others=True)
    sys.stderr.write("".join(f"failed: {line}\n" for line in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
