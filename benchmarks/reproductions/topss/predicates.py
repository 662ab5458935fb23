"""TOPSS figures 2.1 to 2.6: evaluating predicates by tables and by ordered lists, time and memory.

Distinct predicates of T-SMALL, T-MEDIUM, T-BIG and T-MIX, and events with all 120 attributes. Both structures
give the same predicate bit vectors, which is asserted within the timed passes. T-MIX has one size more, since
its tables are as large as the lists of some five million predicates.
"""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Conjunctions
from pubsub_cluster.algorithms.topss.ordered_lists import OrderedLists
from pubsub_cluster.algorithms.topss.predicate_book import Predicates
from pubsub_cluster.algorithms.topss.predicate_table import PAPER_SLICES, PredicateTable
from pubsub_cluster.benchmarks.reproductions.fits import log_slope
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.reproductions.topss import rules
from pubsub_cluster.benchmarks.reproductions.topss.measures import interleaved, part
from pubsub_cluster.benchmarks.workloads.topss import T_BIG, T_MEDIUM, T_MIX, T_SMALL, Topss

SIZES: dict[Scale, tuple[int, ...]] = {
    "small": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "paper": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
}
LARGEST_MIX: dict[Scale, tuple[int, ...]] = {"small": (), "paper": (6_000_000,)}
EVENTS: dict[Scale, int] = {"small": 5, "paper": 20}
PASSES_FEW, PASSES_MANY = 3, 7
"""Of more than 100,000 predicates, and of fewer."""
WORKLOADS = (T_SMALL, T_MEDIUM, T_BIG, T_MIX)
CHANGED = 2_000
"""Predicates added and removed to time that."""


def built(workload: Topss, catalogue: Conjunctions) -> dict[str, Predicates]:
    """Return both structures with the same predicates under the same numbers."""
    made: dict[str, Predicates] = {"table": PredicateTable(workload.bounds), "list": OrderedLists()}
    for one in made.values():
        one.build(catalogue)
    return made


def measure(workloads: tuple[Topss, ...], size: int, events: int) -> list[dict[str, Any]]:
    """Time both structures on several workloads, interleaved; return lines of the CSV."""
    made: dict[str, Predicates] = {}
    values = {one.name: one.events(events) for one in workloads}
    drawn = {one.name: one.distinct(size) for one in workloads}
    for one in workloads:
        made |= {f"{one.name} {kind}": it for kind, it in built(one, drawn[one.name]).items()}
    calls = {name: partial(structure.bits, values[name.split()[0]]) for name, structure in made.items()}
    best, answers = interleaved(calls, PASSES_MANY if size <= 100_000 else PASSES_FEW)
    lines = []
    for name, structure in made.items():
        workload, kind = name.split()
        assert np.array_equal(answers[name], answers[f"{workload} table"]), name
        looked = np.zeros(1, np.int64)
        structure.bits(values[workload], looked)
        count = len(drawn[workload].owner)
        lines.append(
            {
                "structure": kind,
                "workload": workload,
                "asked for": size,
                "predicates": count,
                "ids": structure.count,
                "bit vector bytes": answers[name].shape[1],
                "satisfied per event": float(np.unpackbits(answers[name]).sum()) / events,
                "looked at per event": float(looked[0]) / events,
                "ms per event": 1e3 * best[name] / events,
                "bytes": structure.bytes,
                "ns per insertion": float("nan"),
                "ns per deletion": float("nan"),
            }
        )
    return lines


def changes(workload: Topss, sizes: tuple[int, ...]) -> dict[int, tuple[float, float]]:
    """Return ns per insertion into and deletion from tables with so many predicates, interleaved."""
    most = min(max(sizes) + CHANGED, workload.possible)
    drawn = workload.distinct(most)
    tables = {}
    more = part(drawn, len(drawn.owner) - CHANGED, len(drawn.owner))
    for size in sizes:
        tables[size] = PredicateTable(workload.bounds)
        tables[size].build(part(drawn, 0, min(size, len(drawn.owner) - CHANGED)))
    found = {size: (float("inf"), float("inf")) for size in sizes}
    for _ in range(PASSES_MANY):
        for size, table in tables.items():
            added, numbers = interleaved({"": partial(table.add, more)}, 1)
            removed, _ = interleaved({"": partial(table.remove, numbers[""])}, 1)
            ns = 1e9 * added[""] / CHANGED, 1e9 * removed[""] / CHANGED
            found[size] = min(found[size][0], ns[0]), min(found[size][1], ns[1])
    return found


def run(scale: Scale, note: Note) -> Outcome:
    """Evaluate."""
    lines: list[dict[str, Any]] = []
    measure((T_SMALL,), 1_000, 2)  # compile
    for size in SIZES[scale]:
        lines += measure(tuple(one for one in WORKLOADS if one.possible >= size), size, EVENTS[scale])
        note(f"{size:,} predicates")
    for size in LARGEST_MIX[scale]:
        lines += measure((T_MIX,), size, 5)
    ends = (10_000, SIZES[scale][-1])
    changed = {one.name: changes(one, ends) for one in (T_MEDIUM, T_BIG, T_MIX)}
    for line in lines:
        ns = changed.get(line["workload"], {}).get(line["asked for"])
        if ns and line["structure"] == "table":
            line["ns per insertion"], line["ns per deletion"] = ns
    verdicts = [
        _domains(lines),
        _independence(lines),
        _crossing("TOPSS-03", lines, "ms per event", "ms"),
        _table_bytes(lines),
        _list_bytes(lines),
        _memory(lines, scale),
        _cap(),
        _constant_time(changed, ends),
        _linear(lines),
        *rules.verdicts(),
    ]
    return Outcome(lines, verdicts, partial(_draw, lines))


def of(lines: list[dict[str, Any]], structure: str, workload: str, column: str) -> dict[int, float]:
    """Return a column by the number of predicates."""
    return {
        line["asked for"]: line[column]
        for line in lines
        if line["structure"] == structure and line["workload"] == workload
    }


def _domains(lines: list[dict[str, Any]]) -> Verdict:
    small, medium, big = (of(lines, "table", one.name, "ms per event") for one in WORKLOADS[:3])
    holds = all(small[size] < medium[size] < big[size] for size in small)
    at = max(small)
    ours = f"at {at:,} predicates {small[at]:.3g}, {medium[at]:.3g} and {big[at]:.3g} ms; {len(small)} sizes"
    return decided("TOPSS-01", holds, ours, "with many predicates of few values, setting bits costs most")


def _independence(lines: list[dict[str, Any]]) -> Verdict:
    times = [of(lines, "list", one.name, "ms per event") for one in WORKLOADS[1:]]
    ratios = {
        size: max(one[size] for one in times) / min(one[size] for one in times)
        for size in times[0]
        if all(size in one for one in times)
    }
    ours = ", ".join(f"{size:,}: {ratio:.2f}" for size, ratio in ratios.items())
    visited = [of(lines, "list", one.name, "looked at per event") for one in WORKLOADS[1:]]
    spread = max(max(one[size] for one in visited) / min(one[size] for one in visited) for size in ratios)
    why = f"nodes visited differ by {100 * (spread - 1):.1f} % at most; how many miss the caches differs"
    return decided("TOPSS-02", max(ratios.values()) <= 1.3, f"max/min at {ours}", why)


def _crossing(claim: str, lines: list[dict[str, Any]], column: str, unit: str) -> Verdict:
    table, list_ = (of(lines, one, "T-MIX", column) for one in ("table", "list"))
    is_list = [list_[size] < table[size] for size in table]
    sizes = list(table)
    changes_at = [f"{a:,} to {b:,}" for (a, b), (x, y) in _steps(sizes, is_list) if x != y]
    last = sizes[-1]
    ours = (
        f"at {sizes[0]:,}: list {list_[sizes[0]]:.3g}, table {table[sizes[0]]:.3g} {unit}; at {last:,}: "
        f"list {list_[last]:.3g}, table {table[last]:.3g} {unit}; crossings: "
        + (", ".join(changes_at) or "none")
    )
    holds = is_list[0] and not is_list[-1] and len(changes_at) == 1
    return decided(claim, holds, ours, "there is not one crossing")


def _steps(sizes: list[int], flags: list[bool]) -> list[tuple[tuple[int, int], tuple[bool, bool]]]:
    return list(zip(itertools.pairwise(sizes), itertools.pairwise(flags), strict=True))


def _table_bytes(lines: list[dict[str, Any]]) -> Verdict:
    parts, holds = [], True
    for one in WORKLOADS:
        table, bounds = PredicateTable(one.bounds), one.bounds
        cells = int((bounds[:, 1] - bounds[:, 0] + 1).sum()) * PAPER_SLICES * table.cell_bytes
        directory = table.bytes - cells
        seen = set(of(lines, "table", one.name, "bytes").values())
        holds &= seen == {cells + directory} and directory == 32 * one.attributes
        parts.append(f"{one.name} {cells:,}")
    ours = f"cells of 4 bytes: {', '.join(parts)} bytes at every size; 32 per attribute beside"
    return decided("TOPSS-04", holds, ours, "the bytes are not those of the formula")


def _list_bytes(lines: list[dict[str, Any]]) -> Verdict:
    worst, parts = 1.0, []
    for size in SIZES["small"]:
        found = [
            of(lines, "list", one.name, "bytes")[size] / size
            for one in WORKLOADS
            if size in of(lines, "list", one.name, "bytes")
        ]
        if found:
            worst = max(worst, max(found) / min(found))
            parts.append(f"{size:,}: {min(found):.1f}")
    ours = f"bytes per predicate at {', '.join(parts)}; between domains at most {worst:.3f} times"
    return decided("TOPSS-05", worst <= 1.1, ours, "it depends on the domain")


def _memory(lines: list[dict[str, Any]], scale: Scale) -> Verdict:
    found = _crossing("TOPSS-06", lines, "bytes", "bytes")
    sizes = (
        f"{found.ours}; a node has {OrderedLists().node_bytes} bytes, a cell {PredicateTable().cell_bytes}"
    )
    if not LARGEST_MIX[scale]:
        why = "the tables are as large as lists of 5.3 million predicates, which the scale `paper` has"
        return Verdict("TOPSS-06", "not decided", sizes, why)
    return found._replace(ours=sizes)


def _cap() -> Verdict:
    found = len(T_SMALL.distinct(2 * T_SMALL.possible).owner)
    ours = f"asked for {2 * T_SMALL.possible:,} distinct predicates, the generator gives {found:,}"
    return decided("TOPSS-07", found == T_SMALL.possible == 120_000, ours, "it does not stop at the cap")


def _constant_time(changed: dict[str, dict[int, tuple[float, float]]], ends: tuple[int, int]) -> Verdict:
    parts, worst = [], 0.0
    for workload, by_size in changed.items():
        few, many = by_size[ends[0]], by_size[ends[1]]
        ratios = many[0] / few[0], many[1] / few[1]
        worst = max(worst, *ratios)
        parts.append(f"{workload} {ratios[0]:.2f} and {ratios[1]:.2f} ({many[0]:.0f} and {many[1]:.0f} ns)")
    ours = f"t at {ends[1]:,} / t at {ends[0]:,}, insertion and deletion: {', '.join(parts)}"
    if ends[1] < 1_000_000:
        return Verdict("TOPSS-08", "not decided", ours, "the claim's end is 1,000,000 predicates")
    return decided(
        "TOPSS-08",
        worst <= 1.5,
        ours,
        "the steps are the same; more of the cells and of the book miss the caches",
    )


def _linear(lines: list[dict[str, Any]]) -> Verdict:
    looked, times = (
        of(lines, "list", "T-MIX", "looked at per event"),
        of(lines, "list", "T-MIX", "ms per event"),
    )
    sizes = [size for size in looked if size <= SIZES["small"][-1]]
    is_within = all(looked[size] <= size for size in looked)  # a list per operator: all predicates at most
    by_count, by_time = (log_slope(sizes, [one[size] for size in sizes]) for one in (looked, times))
    shares = sorted(looked[size] / size for size in looked)
    ours = (
        f"nodes visited: {shares[0]:.2f} to {shares[-1]:.2f} of all; "
        f"slopes: nodes {by_count:.2f}, time {by_time:.2f}"
    )
    holds = is_within and 0.9 <= by_count <= 1.2 and 0.9 <= by_time <= 1.2
    return decided(
        "TOPSS-09", holds, ours, "nodes of many predicates miss the caches, so that time grows faster"
    )


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(2, 3, "Predicate evaluation (TOPSS figures 2.1 to 2.6)")
    for row, (column, label) in enumerate(
        (("ms per event", "time per event (ms)"), ("bytes", "memory (bytes)"))
    ):
        for at, kind in enumerate(("table", "list")):
            for one in WORKLOADS:
                points = of(lines, kind, one.name, column)
                axes[row, at].plot(list(points), list(points.values()), marker="o", label=one.name)
            axes[row, at].set(title=f"2.{3 * row + at + 1} {kind}")
            points = of(lines, kind, "T-MIX", column)
            axes[row, 2].plot(list(points), list(points.values()), marker="o", label=f"{kind}, T-MIX")
        axes[row, 2].set(title=f"2.{3 * row + 3} both")
        for one in axes[row]:
            one.set(xlabel="predicates (number)", ylabel=label, xscale="log", yscale="log")
            one.legend(fontsize="small")
    save(pyplot, figure, path)
