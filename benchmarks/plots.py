"""Draw the plots of ``docs/benchmarks.md`` from the CSV: time and memory against size, drift against time.

    python -m pubsub_cluster.benchmarks.plots

Needs matplotlib (the `demo` extra). The files carry no date, so that they change only with the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pubsub_cluster.benchmarks.drift import STRATEGIES
from pubsub_cluster.benchmarks.record import ROOT, read
from pubsub_cluster.benchmarks.workloads.drift import DRIFTS

FOLDER = ROOT / "docs" / "images"
TIME_OF = ("scan", "counting", "propagation", "propagation+prefetch")


def points(workload: str, figure: str) -> tuple[list[int], list[float]]:
    """Return sizes and values of one figure of a workload, by size."""
    found = sorted(
        (int(row["subscriptions"]), float(row["value"]))
        for row in read("engine")
        if row["workload"] == workload and row["figure"] == figure
    )
    return [size for size, _ in found], [value for _, value in found]


def hours(workload: str, strategy: str) -> tuple[list[int], list[float]]:
    """Return hours and throughput of one strategy of a drift experiment, at its largest size."""
    lines = [row for row in read("drift") if row["workload"] == workload]
    size = max((int(row["subscriptions"]) for row in lines), default=0)
    name = f"throughput, {strategy}, hour "
    found = sorted(
        (int(row["figure"].removeprefix(name)), float(row["value"]))
        for row in lines
        if row["figure"].startswith(name) and int(row["subscriptions"]) == size
    )
    return [hour for hour, _ in found], [value for _, value in found]


def growth(figure: str) -> tuple[list[int], list[float]]:
    """Return how long the pipeline's files took by events, or by tasks."""
    name = f"files by {figure}, "
    found = sorted(
        (int(row["figure"].removeprefix(name)), float(row["value"]))
        for row in read("pipeline")
        if row["figure"].startswith(name)
    )
    return [at for at, _ in found], [value for _, value in found]


def _save(
    name: str,
    title: str,
    unit: str,
    lines: Sequence[tuple[str, list[int], list[float]]],
    log: bool,
    against: str = "subscriptions",
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "pubsub-cluster"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.6, 3.8))
    drawn: Any = axes
    for label, sizes, values in lines:
        drawn.plot(sizes, values, marker="o", label=label)
    if against == "subscriptions":
        drawn.set_xscale("log")
    if log:
        drawn.set_yscale("log")
    else:
        drawn.set_ylim(bottom=0)
    drawn.set_xlabel(against)
    drawn.set_ylabel(unit)
    drawn.set_title(title)
    drawn.grid(True, alpha=0.3)
    drawn.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    figure.tight_layout()
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def main() -> int:
    """Draw all."""
    sizes, kernel = points("W0", "kernel")
    by_size = dict(zip(sizes, kernel, strict=True))
    times = [("kernel", sizes, kernel), ("floor", *points("W0", "floor"))]
    for rival in TIME_OF:
        at, ratio = points("W0", f"time of {rival} / kernel")
        times.append((rival, at, [value * by_size[size] for size, value in zip(at, ratio, strict=True)]))
    _save("w0-time", "W0: time per event", "us per event", times, log=True)
    index = [("index", *points("W0", "index"))]
    _save("w0-memory", "W0: memory of the index", "bytes per subscription", index, log=False)
    floor = [("kernel / floor", *points("W0", "multiple of the floor"))]
    _save("w0-floor", "W0: the kernel as a multiple of the floor", "multiple", floor, log=False)
    for workload in DRIFTS:
        lines = [(strategy, *hours(workload, strategy)) for strategy in STRATEGIES]
        title = f"{workload}: throughput while subscriptions drift"
        _save(workload.lower(), title, "events/s", lines, log=False, against="simulated hours")
    for figure, title in (("events", "tasks by size"), ("tasks", "5,000,000 events")):
        lines = [("Parquet to Parquet", *growth(figure))]
        _save(
            f"pipeline-{figure}", f"Matching files on Spark: {title}", "s", lines, log=False, against=figure
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
