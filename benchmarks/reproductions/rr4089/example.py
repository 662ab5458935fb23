"""RR-4089 example 3.1, computed: seven million subscriptions on three attributes, two clusterings."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.rr4089.cost import COSTS
from pubsub_cluster.algorithms.rr4089.static import Static
from pubsub_cluster.benchmarks.reproductions.outcome import Note, Outcome, Scale, canvas, decided, save

VALUES, EACH = 100, 1_000_000
C1 = {
    "A": ("A",),
    "B": ("B",),
    "C": ("C",),
    "AB": ("A", "B"),
    "AC": ("A", "C"),
    "BC": ("B", "C"),
    "ABC": ("A", "B", "C"),
}
C2 = {
    "A": ("A",),
    "B": ("B",),
    "C": ("C",),
    "AB": ("AB",),
    "AC": ("A", "C"),
    "BC": ("BC",),
    "ABC": ("AB", "BC"),
}
"""Among which tables the subscriptions with equalities on a set of attributes are dealt out evenly."""
SMALL_EACH, SMALL_VALUES = 20_000, 20


def populations(dealt: dict[str, tuple[str, ...]]) -> dict[str, float]:
    """Return the subscriptions of each table."""
    found: dict[str, float] = {}
    for tables in dealt.values():
        for table in tables:
            found[table] = found.get(table, 0.0) + EACH / len(tables)
    return dict(sorted(found.items(), key=lambda one: (len(one[0]), one[0])))


def cluster_size(table: str, population: float) -> float:
    """Return the subscriptions of a cluster."""
    return population / float(VALUES ** len(table))


def cost(dealt: dict[str, tuple[str, ...]], event: str) -> tuple[int, float, float]:
    """Return look-ups, checks, and their cost by the model, for an event with some attributes."""
    looked = {table: size for table, size in populations(dealt).items() if set(table) <= set(event)}
    checks = sum(cluster_size(table, size) for table, size in looked.items())
    # Single attributes are found by the first phase, and cost no look-up.
    tables = sum(COSTS.table(len(table)) for table in looked if len(table) > 1)
    return len(looked), checks, checks + tables


def small_catalogue(attributes: int) -> Conjunctions:
    """Return as many subscriptions on each set of attributes, values drawn alike."""
    random = np.random.default_rng(1)
    sizes, attribute = [], []
    for width in range(1, attributes + 1):
        for chosen in itertools.combinations(range(attributes), width):
            sizes.append(np.full(SMALL_EACH, width))
            attribute.append(np.tile(np.array(chosen, np.int32), SMALL_EACH))
    size = np.concatenate(sizes)
    count = int(size.sum())
    return Conjunctions(
        np.arange(len(size), dtype=np.int64),
        np.concatenate((np.zeros(1, np.int64), np.cumsum(size))),
        np.concatenate(attribute),
        np.full(count, Comparison.EQ, np.int8),
        random.integers(0, SMALL_VALUES, count).astype(np.float64),
    )


def run(_scale: Scale, note: Note) -> Outcome:
    """Compute the example; let the greedy algorithm choose on a smaller one."""
    note("example 3.1")
    first, second = populations(C1), populations(C2)
    sizes = {table: cluster_size(table, count) for table, count in second.items()}
    ab = {name: cost(dealt, "AB") for name, dealt in (("C1", C1), ("C2", C2))}
    abc = {name: cost(dealt, "ABC") for name, dealt in (("C1", C1), ("C2", C2))}
    rounded = 2 * 23_300
    greedy = Static()
    greedy.build(small_catalogue(4))
    widths = sorted(map(len, greedy.clusters.tables))
    verdicts = [
        decided(
            "RR-31",
            round(7 * EACH / 3 / 1e6, 2) == 2.33
            and all(round(one) == 2_333_333 for one in first.values())
            and 2.33e6 / VALUES == 23_300,
            f"{first['A']:,.0f} a table, {cluster_size('A', first['A']):,.0f} a cluster; 23,300 rounded",
            "the sums differ",
        ),
        decided(
            "RR-32",
            list(second.values()) == [1.5e6, 1e6, 1.5e6, 1.5e6, 1.5e6]
            and list(sizes.values()) == [15_000, 10_000, 15_000, 150, 150]
            and sum(second.values()) == 7 * EACH,
            ", ".join(f"{table} {count / 1e6:g} M, {sizes[table]:,.0f}" for table, count in second.items()),
            "the sums differ",
        ),
        decided(
            "RR-33",
            ab["C1"][0] == 2
            and ab["C2"][:2] == (3, 25_150.0)
            and round(ab["C1"][1]) == 46_667
            and rounded == 46_600
            and ab["C2"][2] < ab["C1"][2],
            f"A, B: C1 {ab['C1'][0]} look-ups, {ab['C1'][1]:,.0f} checks; C2 {ab['C2'][0]}, "
            f"{ab['C2'][1]:,.0f}; "
            f"A, B, C: {abc['C1'][0]}, {abc['C1'][1]:,.0f}; {abc['C2'][0]}, {abc['C2'][1]:,.0f}",
            "the sums differ",
        ),
        decided(
            "RR-34",
            EACH / VALUES**3 == 1 and COSTS.table(4) > 1 and max(widths, default=1) < 4,
            f"1 subscription; a look-up costs {COSTS.table(4):g} checks; with {SMALL_EACH:,} for each set "
            f"of four attributes of {SMALL_VALUES} values greedy makes tables of {widths} attributes",
            "greedy adds a table of four attributes",
        ),
    ]
    lines: list[dict[str, Any]] = [
        {"clustering": name, "table": table, "subscriptions": count, "cluster": cluster_size(table, count)}
        for name, all_ in (("C1", first), ("C2", second))
        for table, count in all_.items()
    ]
    bars = {
        f"{name}, {event}": costs[name][1] for event, costs in (("AB", ab), ("ABC", abc)) for name in costs
    }
    return Outcome(lines, verdicts, partial(_draw, lines, bars))


def _draw(lines: list[dict[str, Any]], bars: dict[str, float], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 2, "RR-4089 example 3.1")
    names = [f"{line['clustering']} {line['table']}" for line in lines]
    axes[0, 0].bar(names, [line["cluster"] for line in lines])
    axes[0, 0].set(yscale="log", xlabel="table", ylabel="subscriptions of a cluster")
    axes[0, 1].bar(list(bars), list(bars.values()))
    axes[0, 1].set(xlabel="clustering, attributes of the event", ylabel="checks per event")
    save(pyplot, figure, path)
