"""LESUB-18, LESUB-20: what Gough and Smith's tree costs beside the counting algorithms, where it can be had.

Sizes are ours: those of `trees_paths`, at which the tree has a million nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Conjunctions, Core
from pubsub_cluster.algorithms.lesub.counting_kernels import CHECKS, LOOKUPS, PROBES
from pubsub_cluster.algorithms.lesub.equality_clusters import conjunctions_at
from pubsub_cluster.algorithms.lesub.equality_preferred import EqualityPreferred
from pubsub_cluster.algorithms.lesub.fair_predicate import FairPredicate
from pubsub_cluster.algorithms.lesub.gough import Gough
from pubsub_cluster.algorithms.lesub.quarantining import Quarantining
from pubsub_cluster.benchmarks.reproductions.lesub.cores import Naive
from pubsub_cluster.benchmarks.reproductions.lesub.insertion import insertion_times, one_by_one
from pubsub_cluster.benchmarks.reproductions.lesub.trees_measures import label_sizes
from pubsub_cluster.benchmarks.reproductions.lesub.trees_paths import growing_load
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)

SIZES = (125, 250, 500, 1_000)
EVENTS, INSERTED, ROUNDS = 300, 50, 5
GOUGH_INSERTED, GOUGH_ROUNDS = 1, 3
EVALUATIONS = [CHECKS, PROBES, LOOKUPS]
"""A look-up of a cluster counts as an evaluation of its equalities."""
Line = dict[str, Any]


def insertions(catalogue: Conjunctions, more: list[Conjunctions]) -> dict[str, float]:
    """Return the least mean time (s) of an insertion, in turns."""
    cores: dict[str, Core] = {
        "fair predicate": FairPredicate(),
        "equality preferred": EqualityPreferred(),
        "gough": Gough(),
    }
    for core in cores.values():
        core.build(catalogue)
    insertion_times(cores["fair predicate"], more[:2])
    insertion_times(cores["equality preferred"], more[:2])
    times: dict[str, list[float]] = {name: [] for name in cores}
    for round_number in range(ROUNDS):
        for name, core in cores.items():
            if name != "gough":
                times[name].append(insertion_times(core, more))
            elif round_number < GOUGH_ROUNDS:
                times[name].append(insertion_times(core, more[:GOUGH_INSERTED]))
    return {name: min(mine) for name, mine in times.items()}


def measure(size: int) -> list[Line]:
    """Return a line for each matcher: bytes, evaluations of predicates, and insertion."""
    workload = growing_load(size + INSERTED)
    everything, values = workload.conjunctions(), workload.events(EVENTS)
    catalogue = conjunctions_at(everything, everything.owner < size)
    found = insertions(catalogue, one_by_one(conjunctions_at(everything, everything.owner >= size)))
    cores: dict[str, Any] = {
        "naive": Naive(),
        "fair predicate": FairPredicate(),
        "equality preferred": EqualityPreferred(),
        "quarantining": Quarantining(),
        "gough": Gough(),
    }
    lines, answers = [], set()
    for name, core in cores.items():
        core.build(catalogue)
        event, owner = core.match(values)
        answers.add(tuple(np.sort(event * size + owner).tolist()))
        if isinstance(core, Gough):
            evaluations = int(core.work[:, 1].sum())
        else:
            evaluations = int(core.counters[EVALUATIONS].sum())
        lines.append(
            {
                "matcher": name,
                "subscriptions": size,
                "bytes": "" if isinstance(core, Naive) else core.bytes,
                "evaluations per event": evaluations / EVENTS,
                "us per insertion": 1e6 * found[name] if name in found else "",
            }
        )
    assert len(answers) == 1, "two matchers disagree"
    return lines


def run(scale: Scale, note: Note) -> Outcome:
    """Measure, decide, draw."""
    lines: list[Line] = []
    for size in SIZES:
        note(f"bytes, evaluations and insertions: {size} subscriptions")
        lines += measure(size)
    return Outcome(lines, decide(lines), lambda path: draw(lines, path))


def decide(lines: list[Line]) -> list[Verdict]:
    """Decide LESUB-18 and LESUB-20."""
    by_size = [{o["matcher"]: o for o in lines if o["subscriptions"] == size} for size in SIZES]
    names = ("fair predicate", "equality preferred", "gough")
    inserted = [[one[name]["us per insertion"] for name in names] for one in by_size]
    stored = [{name: line["bytes"] for name, line in one.items() if name != "naive"} for one in by_size]
    counted = [{name: line["evaluations per event"] for name, line in one.items()} for one in by_size]
    is_stored = all(
        one["fair predicate"] < min(between) and max(between) < one["gough"]
        for one in stored
        for between in [(one["equality preferred"], one["quarantining"])]
    )
    is_counted = all(
        one["naive"] > max(count for name, count in one.items() if name != "naive") for one in counted
    )
    last = inserted[-1]
    return [
        decided(
            "LESUB-18",
            all(fair <= preferred < gough for fair, preferred, gough in inserted),
            f"{last[0]:.0f} us fair predicate, {last[1]:.0f} us equality preferred, {last[2]:.0f} us Gough "
            f"at {SIZES[-1]} subscriptions",
            "see the CSV for the sizes at which the order differs",
        ),
        decided(
            "LESUB-20",
            is_stored and is_counted,
            f"at {SIZES[-1]} subscriptions "
            + ", ".join(f"{name} {size} bytes" for name, size in stored[-1].items())
            + "; evaluations per event "
            + ", ".join(f"{name} {count:.0f}" for name, count in counted[-1].items()),
            f"bytes in this order at all sizes: {is_stored}; evaluations: {is_counted}",
        ),
    ]


def draw(lines: list[Line], path: Path) -> None:
    """Draw bytes, evaluations and insertion time against subscriptions."""
    pyplot, figure, axes = canvas(1, 3, "LESUB: bytes, evaluations and insertions")
    for name in dict.fromkeys(one["matcher"] for one in lines):
        for axis, what in zip(axes[0], ("bytes", "evaluations per event", "us per insertion"), strict=True):
            mine = [one for one in lines if one["matcher"] == name and one[what] != ""]
            if mine:
                sizes = [one["subscriptions"] for one in mine]
                axis.plot(sizes, [one[what] for one in mine], "o-", label=name)
    for axis, up in zip(axes[0], ("bytes", "evaluations per event", "time per insertion (us)"), strict=True):
        axis.set(xlabel="subscriptions", ylabel=up, yscale="log")
        label_sizes(axis, SIZES)
        axis.legend(fontsize=8)
    save(pyplot, figure, path)
