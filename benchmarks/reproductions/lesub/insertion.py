"""LESUB's insertion time: subscriptions that come one by one to many; and what an insertion touches."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Conjunctions, Core
from pubsub_cluster.algorithms.lesub.equality_clusters import conjunctions_at
from pubsub_cluster.algorithms.lesub.equality_preferred import EqualityPreferred
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

SIZES: dict[Scale, tuple[int, ...]] = {"small": (3_000, 30_000), "paper": (10_000, 100_000, 1_000_000)}
INSERTED, ROUNDS, TOUCHED = 200, 5, 50
CORES: dict[str, type[FairPredicate | EqualityPreferred | Quarantining]] = {
    "fair-predicate": FairPredicate,
    "equality-preferred": EqualityPreferred,
    "quarantining": Quarantining,
}


def one_by_one(catalogue: Conjunctions) -> list[Conjunctions]:
    """Return each conjunction alone."""
    at = np.arange(len(catalogue.owner))
    return [conjunctions_at(catalogue, at == one) for one in at]


def insertion_times(core: Core, more: list[Conjunctions]) -> float:
    """Return the mean time of an insertion (s); the subscriptions are removed again."""
    begin = time.perf_counter()
    for one in more:
        core.insert(one)
    took = time.perf_counter() - begin
    for one in more:
        core.delete(int(one.owner[0]))
    return took / len(more)


def contents(core: FairPredicate) -> tuple[dict[Any, Any], dict[int, Any]]:
    """Return the subscriptions of each predicate, and each subscription's number and size."""
    index, store = core.store.predicates, core.store
    subscribed = {
        (int(index.attribute[one]), int(index.comparison[one]), float(index.constant[one])): sorted(
            core.subscribed.of(one).tolist()
        )
        for one in range(index.bound)
        if index.references[one]
    }
    live = np.flatnonzero(store.owner[: store.bound] >= 0).tolist()
    return subscribed, {int(store.owner[one]): (one, int(store.size[one])) for one in live}


def is_incremental(size: int) -> tuple[bool, bool]:
    """Whether insertion and removal leave all as it was, and whether an insertion touches its own alone."""
    made = LeSubscribe(size)
    everything = made.conjunctions()
    core = FairPredicate()
    core.build(conjunctions_at(everything, np.arange(size) < size - TOUCHED))
    before, is_same, is_own = contents(core), True, True
    for one in one_by_one(conjunctions_at(everything, np.arange(size) >= size - TOUCHED)):
        core.insert(one)
        subscribed, _ = contents(core)
        changed = {key for key, mine in subscribed.items() if before[0].get(key) != mine}
        triples = zip(one.attribute.tolist(), one.comparison.tolist(), one.constant.tolist(), strict=True)
        is_own &= changed == set(triples)
        core.delete(int(one.owner[0]))
        is_same &= contents(core) == before
    return is_same, is_own


def run(scale: Scale, note: Note) -> Outcome:
    """Insert into each matcher in turns."""
    lines: list[dict[str, Any]] = []
    for size in SIZES[scale]:
        everything = LeSubscribe(size + INSERTED).conjunctions()
        more = one_by_one(conjunctions_at(everything, np.arange(size + INSERTED) >= size))
        cores = {name: make() for name, make in CORES.items()}
        for core in cores.values():
            core.build(conjunctions_at(everything, np.arange(size + INSERTED) < size))
            insertion_times(core, more[:2])
        times: dict[str, list[float]] = {name: [] for name in CORES}
        for _ in range(ROUNDS):
            for name, core in cores.items():
                times[name].append(insertion_times(core, more))
        lines += [
            {"subscriptions": size, "matcher": name, "us per insertion": 1e6 * min(mine)}
            for name, mine in times.items()
        ]
        note(f"{size:,} subscriptions")
    return Outcome(lines, [_incremental(SIZES[scale][0]), _times(lines)], partial(_draw, lines))


def _incremental(size: int) -> Verdict:
    is_same, is_own = is_incremental(size)
    why = "the structure differs after a removal" if not is_same else "an insertion changes other predicates"
    return decided("LESUB-06", is_same and is_own, f"{TOUCHED} insertions and removals at {size:,}", why)


def _times(lines: list[dict[str, Any]]) -> Verdict:
    fair, preferred, quarantining = (line["us per insertion"] for line in lines[-3:])
    return decided(
        "LESUB-28",
        0.7 <= quarantining / preferred <= 1.4 and fair / quarantining < 1,
        f"fair {fair:.0f} us, equality preferred {preferred:.0f} us, quarantining {quarantining:.0f} us at "
        f"{lines[-1]['subscriptions']:,}",
        "most of an insertion is Python around the same few kernels",
    )


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 1, "Insertion (LESUB)")
    for name in CORES:
        mine = [line for line in lines if line["matcher"] == name]
        sizes = [line["subscriptions"] for line in mine]
        axes[0, 0].plot(sizes, [line["us per insertion"] for line in mine], marker="o", label=name)
    axes[0, 0].set(xlabel="subscriptions (number)", ylabel="time per insertion (µs)", xscale="log")
    axes[0, 0].set(ylim=(0, None))
    axes[0, 0].legend()
    save(pyplot, figure, path)
