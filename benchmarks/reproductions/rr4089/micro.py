"""RR-4089 sections 2.2.3 and 3.1.1: what the loops over a cluster cost, and look-ups in tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.rr4089 import check_kernels as hk
from pubsub_cluster.algorithms.rr4089.cluster_kernels import WIDTH_MAX
from pubsub_cluster.algorithms.rr4089.dynamic import Dynamic
from pubsub_cluster.benchmarks.reproductions.fits import straight_line
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.reproductions.rr4089.drift import FROZEN

ENTRIES = 1_000_000
CLUSTERS = (10, 100, 1_000, 10_000, 100_000, 300_000, 1_000_000)
TABLES = (5, 50, 100, 200, 300, 400, 500)
TABLE_SIZES: dict[Scale, tuple[int, ...]] = {
    "small": (1_000, 30_000, 300_000),
    "paper": (1_000, 30_000, 300_000, 4_000_000),
}
PREDICATES, SELECTIVITY, PASSES = 1_120, 1 / 35, 7
ATTRIBUTES = 32


class Cluster:
    """One cluster, in columns and in rows, and a bit vector.

    Parameters
    ----------
    entries, rest : int
    """

    def __init__(self, entries: int, rest: int) -> None:
        random = np.random.default_rng(rest)
        columns = random.integers(0, PREDICATES, (rest, entries), np.int32)
        line = np.arange(entries, dtype=np.int32)
        self.words = np.concatenate((columns.reshape(-1), line, np.zeros(hk.UNFOLD, np.int32)))
        self.rows = np.concatenate((columns, line[None]), axis=0).T.reshape(-1).copy()
        self.flags = (random.random(PREDICATES) < SELECTIVITY).astype(np.uint8)
        self.found = np.zeros(entries, np.int64)
        self.shape, self.rest = (0, entries, entries), rest
        self.matching = int((self.flags[columns] != 0).all(axis=0).sum())

    def columns(self, prefetched: int, is_special: bool = True) -> None:
        """Go through the columns."""
        arguments = self.words, self.flags, self.shape, self.rest, prefetched, self.found, is_special
        assert hk.check_cluster(*arguments) == self.matching

    def by_rows(self) -> None:
        """Go through the rows."""
        assert hk.check_rows(self.rows, self.flags, self.shape[1], self.rest, self.found) == self.matching


def best_of(ways: Mapping[str, Callable[[], None]], repeats: int = 1) -> dict[str, float]:
    """Return the seconds of each, the best of `PASSES`, in turn."""
    found = {name: float("inf") for name in ways}
    for turn in range(PASSES + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            for _ in range(repeats):
                way()
            if turn:
                found[name] = min(found[name], (time.perf_counter() - began) / repeats)
    return found


def look_up_time(widths: list[tuple[int, ...]], subscriptions: Conjunctions | None, values: int) -> float:
    """Return the seconds per event of the second phase with some tables."""
    core = Dynamic(FROZEN)
    core.adopt(widths)
    everything = [(attribute, value) for attribute in range(ATTRIBUTES) for value in range(values)]
    core.insert(
        Conjunctions(  # one predicate for each value, so that all are known
            np.arange(len(everything), dtype=np.int64),
            np.arange(len(everything) + 1, dtype=np.int64),
            np.array([one[0] for one in everything], np.int32),
            np.full(len(everything), Comparison.EQ, np.int8),
            np.array([one[1] for one in everything], np.float64),
        )
        if subscriptions is None
        else subscriptions
    )
    random = np.random.default_rng(1)
    rows = random.integers(0, values, (1_000, ATTRIBUTES)).astype(np.float64)
    best = float("inf")
    for _ in range(PASSES):
        core.seconds[:] = 0.0, 0.0
        core.match(rows)
        best = min(best, core.seconds[1] / len(rows))
    return best


def pairs(count: int) -> tuple[Conjunctions, int]:
    """Return subscriptions with all pairs of values of two attributes, and the number of values."""
    values = round(count**0.5)
    first, second = np.divmod(np.arange(values * values), values)
    constants = np.stack((first, second), axis=1).reshape(-1).astype(np.float64)
    number = values * values
    return (
        Conjunctions(
            np.arange(number, dtype=np.int64),
            2 * np.arange(number + 1, dtype=np.int64),
            np.tile(np.array([0, 1], np.int32), number),
            np.full(2 * number, Comparison.EQ, np.int8),
            constants,
        ),
        values,
    )


Keep: TypeAlias = Callable[[str, float, float], float]
"""``keep(what, x, seconds)`` writes a line down; returns the seconds."""


def run(scale: Scale, note: Note) -> Outcome:
    """Time loops and look-ups."""
    lines: list[dict[str, Any]] = []

    def keep(what: str, x: float, seconds: float) -> float:
        lines.append({"what": what, "x": x, "microseconds": 1e6 * seconds})
        return seconds

    note("loops over a cluster")
    verdicts = _loops(keep)
    note("look-ups in tables")
    verdicts += _look_ups(scale, note, keep)
    return Outcome(lines, verdicts, partial(_draw, lines))


def _loops(keep: Keep) -> list[Verdict]:
    """Loops over one cluster: special and generic, columns and rows, and how far to ask ahead."""
    generic = {}
    for rest in (3, 5, 10):
        cluster = Cluster(100_000, rest)
        ways = {"special": partial(cluster.columns, 0), "generic": partial(cluster.columns, 0, False)}
        times = best_of(ways, 5)
        generic[rest] = keep("generic loop", rest, times["generic"]) / keep(
            "special loop", rest, times["special"]
        )
    many = Cluster(ENTRIES, 4)
    by_layout = best_of({"columns": partial(many.columns, 0), "rows": many.by_rows})
    reads = np.zeros((2, many.rest), np.int64)
    hk.count_reads(many.words, many.flags, many.shape, many.rest, reads)
    lines_of_column = -(-ENTRIES // hk.UNFOLD)
    share = reads[1, 1] / lines_of_column
    for name, seconds in by_layout.items():
        keep(name, many.rest, seconds)
    wide = Cluster(ENTRIES, 10)
    ahead = best_of({"first 3": partial(wide.columns, 3), "all": partial(wide.columns, 11)})
    some = keep("first 3 columns prefetched", 10, ahead["first 3"])
    every = keep("all columns prefetched", 10, ahead["all"])
    return [
        decided(
            "RR-41",
            min(generic.values()) >= 1.1,
            ", ".join(f"{rest} predicates {ratio:.2f}" for rest, ratio in generic.items()),
            "loops written out for five and ten predicates are slower than the general one; cause unknown",
        ),
        decided(
            "RR-42",
            by_layout["rows"] / by_layout["columns"] >= 1.3 and share < 1,
            f"rows / columns {by_layout['rows'] / by_layout['columns']:.2f}; {share:.0%} of column 2's lines",
            "the hardware asks ahead for both",
        ),
        decided(
            "RR-43",
            some <= 1.05 * every,
            f"first 3 / all: {some / every:.2f}",
            "there are slots for as many requests now",
        ),
    ]


def _look_ups(scale: Scale, note: Note, keep: Keep) -> list[Verdict]:
    """What a look-up costs by a table's attributes and size, and by the number of tables."""
    by_width = []
    for width in range(1, WIDTH_MAX + 1):
        chosen = [
            tuple(sorted((at + step) % ATTRIBUTES for step in range(width))) for at in range(ATTRIBUTES)
        ]
        by_width.append(keep("32 tables, by attributes", width, look_up_time(chosen, None, 35)))
    all_pairs: list[tuple[int, ...]] = [(a, b) for a in range(ATTRIBUTES) for b in range(a + 1, ATTRIBUTES)]
    all_pairs += [(a, a + 1, a + 2) for a in range(ATTRIBUTES - 2)]
    by_tables = [keep("tables", count, look_up_time(all_pairs[:count], None, 35)) for count in TABLES]
    by_size = []
    for count in TABLE_SIZES[scale]:
        note(f"a table of {count:,} accesses")
        more, values = pairs(count)
        by_size.append(keep("accesses of a table", count, look_up_time([(0, 1)], more, values)))
    widths = list(range(1, WIDTH_MAX + 1))
    per_attribute, fixed, linear = straight_line(widths, [1e9 * one / ATTRIBUTES for one in by_width])
    retrieving = straight_line(TABLES, by_tables)[2]
    sizes = {n: Cluster(n, 4) for n in CLUSTERS}
    checking = [
        keep("cluster", n, best_of({"": partial(one.columns, 3)}, max(1, 100_000 // n))[""])
        for n, one in sizes.items()
    ]
    checks = straight_line(CLUSTERS, checking)[2]
    per_check = 1e9 * checking[-1] / CLUSTERS[-1]
    return [
        decided(
            "RR-46",
            linear >= 0.9,
            f"R^2 = {linear:.3f}: {fixed:.1f} + {per_attribute:.1f} ns per attribute; by size: "
            + ", ".join(f"{n:,} {1e6 * s:.2f} µs" for n, s in zip(TABLE_SIZES[scale], by_size, strict=True)),
            "the hash of a key is a few cycles per attribute, next to the memory that a look-up reads",
        ),
        decided(
            "RR-47",
            retrieving >= 0.95 and checks >= 0.95,
            f"R^2 = {retrieving:.3f} in tables, {checks:.3f} in subscriptions; {per_check:.2f} ns a check",
            "caches: the larger ones are slower each",
        ),
    ]


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 4, "RR-4089 sections 2.2.3 and 3.1.1")
    panels = {
        "predicates left": ("special loop", "generic loop"),
        "entries of a cluster": ("cluster",),
        "tables": ("tables",),
        "attributes of each of 32 tables": ("32 tables, by attributes",),
    }
    for at, (label, names) in enumerate(panels.items()):
        for name in names:
            mine = [line for line in lines if line["what"] == name]
            axes[0, at].plot(
                [line["x"] for line in mine], [line["microseconds"] for line in mine], "o-", label=name
            )
        axes[0, at].set(xlabel=label, ylabel="time, µs", ylim=(0, None))
        axes[0, at].legend(fontsize=7)
    save(pyplot, figure, path)
