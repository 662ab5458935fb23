"""LESUB's outlook: clusters dealt to parallel workers, and several event types in one matcher.

The clusters of fair predicate by attribute and comparison, and the equality clusters of quarantining, are
dealt by the work that they made for a sample of events, the largest first to whoever has least. Each worker
is a process; it sends back its sums, or its matches.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub.counting_kernels import CHECKS, LOOKUPS, PROBES, SUMS
from pubsub_cluster.algorithms.lesub.equality_clusters import conjunctions_at, predicates_at
from pubsub_cluster.algorithms.lesub.fair_predicate import FairPredicate
from pubsub_cluster.algorithms.lesub.quarantining import Quarantining
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.workloads.lesub import LeSubscribe

SIZE: dict[Scale, int] = {"small": 10_000, "paper": 100_000}
WORKERS = (1, 2, 3, 4)
SAMPLE, EVENTS = 100, 100
TYPES_SIZE = 2_000


def dealt(load: npt.NDArray[Any], workers: int) -> npt.NDArray[np.int64]:
    """Return the worker of each cluster: the heaviest first, to whoever has least."""
    worker, has = np.zeros(len(load), np.int64), np.zeros(workers)
    for cluster in np.argsort(-load, kind="stable").tolist():
        worker[cluster] = int(np.argmin(has))
        has[worker[cluster]] += load[cluster]
    return worker


def sums_of(catalogue: Conjunctions, events: F8) -> tuple[npt.NDArray[np.int16], int]:
    """A worker of fair predicate: the satisfied predicates that it has of each subscription, and its work."""
    core = FairPredicate()
    core.build(catalogue)
    index, sums = core.store.predicates, np.zeros((len(events), len(catalogue.owner)), np.int16)
    for event, values in enumerate(events):
        for predicate in index.satisfied(values, core.counters).tolist():
            sums[event, core.subscribed.of(predicate)] += 1
    return sums, int(sums.sum()) + int(core.counters[PROBES])


def matches_of(catalogue: Conjunctions, events: F8) -> tuple[tuple[I8, I8], int]:
    """A worker of quarantining: who matches among its subscriptions, and its work."""
    core = Quarantining()
    core.build(catalogue)
    found = core.match(events)
    return found, int(core.counters[[PROBES, SUMS, LOOKUPS, CHECKS]].sum()) + len(found[0])


def by_predicates(catalogue: Conjunctions, events: F8, workers: int) -> list[Conjunctions]:
    """Deal the clusters of predicates by attribute and comparison."""
    slot = catalogue.attribute.astype(np.int64) * len(Comparison) + catalogue.comparison
    load = np.zeros(int(slot.max()) + 1)
    for event in events:
        value = event[catalogue.attribute]
        holds = np.where(catalogue.comparison == Comparison.EQ, value == catalogue.constant, False)
        holds |= (catalogue.comparison == Comparison.LT) & (value < catalogue.constant)
        holds |= (catalogue.comparison == Comparison.GT) & (value > catalogue.constant)
        load += np.bincount(slot, holds, minlength=len(load))
    worker = dealt(load, workers)[slot]
    return [predicates_at(catalogue, worker == one) for one in range(workers)]


def by_clusters(catalogue: Conjunctions, events: F8, workers: int) -> list[Conjunctions]:
    """Deal the equality clusters, and the subscriptions without equality one by one."""
    conjunction = np.repeat(np.arange(len(catalogue.owner)), np.diff(catalogue.stops))
    is_equal = catalogue.comparison == Comparison.EQ
    schema = np.bincount(conjunction, is_equal * 2.0**catalogue.attribute, len(catalogue.owner))
    _, cluster = np.unique(schema, return_inverse=True)
    size = np.bincount(cluster)
    cluster = np.where(schema == 0, size.size + np.arange(len(schema)), cluster)
    load = np.zeros(int(cluster.max()) + 1)
    for event in events:
        value = event[catalogue.attribute]
        failed = np.bincount(conjunction, is_equal & (value != catalogue.constant), len(catalogue.owner))
        is_seen = np.where(schema == 0, 0.5 * np.diff(catalogue.stops), failed == 0)
        load += np.bincount(cluster, is_seen, len(load))
        there = np.sum(2.0 ** np.flatnonzero(~np.isnan(event)))
        contained = (schema.astype(np.int64) & ~int(there)) == 0
        load[np.unique(cluster[contained & (schema > 0)])] += 1
    worker = dealt(load, workers)[cluster]
    return [conjunctions_at(catalogue, worker == one) for one in range(workers)]


def in_parallel(scale: Scale, note: Note) -> list[dict[str, Any]]:
    """Match with 1 to 4 workers both ways; return a line each."""
    made = LeSubscribe(SIZE[scale])
    catalogue, sample, events = made.conjunctions(), made.events(SAMPLE), made.events(EVENTS, SAMPLE)
    whole = FairPredicate()
    whole.build(catalogue)
    expected = _pairs([whole.match(events)])
    sizes = np.diff(catalogue.stops)
    lines = []
    for workers in WORKERS:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            counted = list(
                pool.map(partial(sums_of, events=events), by_predicates(catalogue, sample, workers))
            )
            matched = list(
                pool.map(partial(matches_of, events=events), by_clusters(catalogue, sample, workers))
            )
        row, number = np.nonzero(np.sum([sums for sums, _ in counted], axis=0) == sizes)
        found = {
            "predicates": (_pairs([(row, catalogue.owner[number])]), [work for _, work in counted]),
            "equality clusters": (_pairs([pairs for pairs, _ in matched]), [work for _, work in matched]),
        }
        for what, (pairs, work) in found.items():
            lines.append(
                {
                    "dealt": what,
                    "workers": workers,
                    "largest / mean": max(work) / (sum(work) / workers),
                    "work": sum(work),
                    "is the same": pairs == expected,
                }
            )
        note(f"{workers} workers")
    return lines


def _pairs(parts: Iterable[tuple[Any, Any]]) -> set[tuple[int, int]]:
    return {pair for row, owner in parts for pair in zip(row.tolist(), owner.tolist(), strict=True)}


def types_agree() -> bool:
    """Whether one matcher of two event types, names prefixed, finds what one per type finds (LESUB-30)."""
    kinds = [LeSubscribe(TYPES_SIZE, seed=seed, strings=3, numbers=3, string_values=6) for seed in (1, 2)]
    width, parts, rows, expected = kinds[0].attributes, [], [], set()
    for number, made in enumerate(kinds):
        catalogue, events = made.conjunctions(), made.events(EVENTS)
        apart = Quarantining()
        apart.build(catalogue)
        row, owner = apart.match(events)
        expected |= _pairs([(row + number * EVENTS, owner + number * TYPES_SIZE)])
        # The type is the prefix: its attributes have numbers of their own.
        parts.append(
            catalogue._replace(
                owner=catalogue.owner + number * TYPES_SIZE,
                attribute=catalogue.attribute + np.int32(number * width),
            )
        )
        wide = np.full((EVENTS, 2 * width), np.nan)
        wide[:, number * width : (number + 1) * width] = events
        rows.append(wide)
    one, other = parts
    together = Conjunctions(
        np.concatenate((one.owner, other.owner)),
        np.concatenate((one.stops, one.stops[-1] + other.stops[1:])),
        np.concatenate((one.attribute, other.attribute)),
        np.concatenate((one.comparison, other.comparison)),
        np.concatenate((one.constant, other.constant)),
    )
    core = Quarantining()
    core.build(together)
    return _pairs([core.match(np.concatenate(rows))]) == expected


def run(scale: Scale, note: Note) -> Outcome:
    """Deal, match, compare."""
    lines = in_parallel(scale, note)
    verdicts = [
        _parallel(lines),
        decided("LESUB-30", types_agree(), f"2 types x {TYPES_SIZE:,} subscriptions, {EVENTS} events each"),
    ]
    return Outcome(lines, verdicts, partial(_draw, lines))


def _parallel(lines: list[dict[str, Any]]) -> Verdict:
    most = {
        what: max(line["largest / mean"] for line in lines if line["dealt"] == what)
        for what in ("predicates", "equality clusters")
    }
    is_same = all(line["is the same"] for line in lines)
    return decided(
        "LESUB-29",
        is_same and max(most.values()) <= 1.3,
        "largest / mean work: " + ", ".join(f"{what} {one:.2f}" for what, one in most.items()),
        "one cluster is larger than a worker's share" if is_same else "the results differ",
    )


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 1, "Work of parallel workers (LESUB)")
    for what in ("predicates", "equality clusters"):
        mine = [line for line in lines if line["dealt"] == what]
        axes[0, 0].plot(
            [line["workers"] for line in mine],
            [line["largest / mean"] for line in mine],
            marker="o",
            label=what,
        )
    axes[0, 0].axhline(1.3, color="grey", linestyle=":")
    axes[0, 0].set(xlabel="workers (number)", ylabel="largest / mean work (1)", xticks=WORKERS)
    axes[0, 0].set(ylim=(0.9, None))
    axes[0, 0].legend()
    save(pyplot, figure, path)
