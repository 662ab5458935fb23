"""TOPSS table 1: time per event on T4 of bit matrix, lists, and a database, from values to matches.

The DBMS of the paper is Kdb; here it is DuckDB, with both queries, of which the better counts, the generation
of the query included; SQLite stands beside it up to `SQLITE_MOST`. A database is asked fewer events than the
others, and all answers to the events that it is asked are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.topss.counting import Counting
from pubsub_cluster.algorithms.topss.sql import Sql
from pubsub_cluster.benchmarks.reproductions.outcome import Note, Outcome, Scale, canvas, save
from pubsub_cluster.benchmarks.reproductions.topss import matching_verdicts
from pubsub_cluster.benchmarks.reproductions.topss.cores import (
    ASSOCIATIONS,
    COLUMN_STORE,
    DATABASES,
    counting,
    counting_by_lists,
)
from pubsub_cluster.benchmarks.reproductions.topss.measures import (
    PAPER_SIZES,
    check_answers,
    interleaved,
    part,
)
from pubsub_cluster.benchmarks.workloads.topss import T4
from pubsub_cluster.language.errors import CallerError

SIZES: dict[Scale, tuple[int, ...]] = {"small": (*PAPER_SIZES[:5], 200_000), "paper": PAPER_SIZES}
EVENTS, PREDICATE_EVENTS = 10, 1_000
SQLITE_MOST = 100_000
PASSES_FEW, PASSES_MANY = 3, 9
"""Of more than 100,000 subscriptions, and of fewer."""


def events_of_databases(count: int) -> int:
    """Return how many events a database is asked."""
    return 10 if count <= 10_000 else 3 if count <= 200_000 else 1


def measure(catalogue: Conjunctions) -> list[dict[str, Any]]:
    """Time all that are there at this size, interleaved; return lines of the CSV."""
    count, values = len(catalogue.owner), T4.events(EVENTS)
    passes = PASSES_FEW if count > 100_000 else PASSES_MANY
    asked = values[: events_of_databases(count)]
    cores: dict[str, Counting] = {}
    for name, association in ASSOCIATIONS.items():
        for suffix, make in (("", counting), ("-ordered", counting_by_lists)):
            core = make(association)
            try:
                core.build(catalogue)
            except CallerError:
                continue
            cores[f"{name}{suffix}"] = core
    best, _ = interleaved({name: partial(core.match, values) for name, core in cores.items()}, passes)
    lines = [_line(name, catalogue, best[name] / EVENTS, EVENTS) for name in cores]
    answers = {name: core.match(asked) for name, core in cores.items()}
    cores.clear()
    for name, make_database in DATABASES.items():
        if name in COLUMN_STORE or count <= SQLITE_MOST:
            line, answers[name] = ask(name, make_database, catalogue, asked)
            lines.append(line)
    check_answers(answers, catalogue, asked)
    distinct = distinct_predicates(catalogue)
    return [{**line, "distinct predicates": distinct} for line in lines]


def distinct_predicates(catalogue: Conjunctions) -> int:
    """Return how many there are, by sorting."""
    slot = catalogue.attribute.astype(np.int64) * len(Comparison) + catalogue.comparison
    return len(np.unique(slot << 32 | catalogue.constant.astype(np.int64)))


def ask(
    name: str, make: Callable[[], Sql], catalogue: Conjunctions, values: F8
) -> tuple[dict[str, Any], tuple[Any, Any]]:
    """Ask a database; return its line of the CSV, and its answer."""
    core = make()
    core.build(catalogue)
    best, answers = interleaved({"": partial(core.match, values)}, 2)
    line = _line(name, catalogue, best[""] / len(values), len(values))
    table = "rows" if "sequential" in name else "subs_preds"
    line["rows"] = int(core.database.numbers(f"SELECT count(*) FROM {table}")[0])
    line["predicates evaluated"] = (
        line["rows"] if table == "rows" else int(core.database.numbers("SELECT count(*) FROM preds")[0])
    )
    return line, answers[""]


def _line(name: str, catalogue: Conjunctions, seconds: float, events: int) -> dict[str, Any]:
    return {
        "matcher": name,
        "subscriptions": len(catalogue.owner),
        "associations": len(catalogue.attribute),
        "distinct predicates": 0,
        "events": events,
        "ms per event": 1e3 * seconds,
        "rows": 0,
        "predicates evaluated": 0,
    }


def predicate_phase(catalogue: Conjunctions) -> dict[str, float]:
    """Return ms per event of the first phase alone, interleaved, by table and by list."""
    values = T4.events(PREDICATE_EVENTS)
    cores = {
        "table": counting(ASSOCIATIONS["list"]),
        "list": counting_by_lists(ASSOCIATIONS["list"]),
    }
    for core in cores.values():
        core.build(catalogue)
    calls = {name: partial(core.predicates.bits, values) for name, core in cores.items()}
    best, _ = interleaved(calls, PASSES_MANY)
    return {name: 1e3 * seconds / PREDICATE_EVENTS for name, seconds in best.items()}


def run(scale: Scale, note: Note) -> Outcome:
    """Match."""
    measure(T4.conjunctions(200))  # compile
    lines: list[dict[str, Any]] = []
    everything = T4.conjunctions(SIZES[scale][-1])
    for size in SIZES[scale]:
        lines += measure(part(everything, 0, size))
        note(f"{size:,} subscriptions")
    phase = predicate_phase(part(everything, 0, SIZES[scale][0]))
    return Outcome(lines, matching_verdicts.verdicts(lines, phase), partial(_draw, lines))


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 1, "Time per event on T4 (TOPSS table 1)")
    figure.set_size_inches(10.5, 5.5)
    for name in ("byte-matrix", "bit-matrix", "list", *DATABASES):
        points = matching_verdicts.of(lines, name)
        axes[0, 0].plot(list(points), list(points.values()), marker="o", label=name)
    for name, paper in matching_verdicts.PAPER_MS.items():
        label = f"{name}, the paper's"
        axes[0, 0].plot(PAPER_SIZES, paper, linestyle=":", marker="x", label=label)
    axes[0, 0].set(xlabel="subscriptions (number)", ylabel="time per event (ms)", xscale="log", yscale="log")
    axes[0, 0].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    save(pyplot, figure, path)
