"""LESUB-15: NEON's tables with two event types, and predicates that compare two attributes.

Every other nonequality predicate compares with the next attribute of numbers in place of its constant; every
third subscription, and every third event, is of a second type.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import WITH_ATTRIBUTE, Comparison, Conjunctions
from pubsub_cluster.algorithms.lesub.neon import Neon
from pubsub_cluster.benchmarks.reproductions.lesub.trees_measures import interleaved, plain_matches
from pubsub_cluster.benchmarks.reproductions.outcome import Note, Outcome, Scale, canvas, decided, save
from pubsub_cluster.benchmarks.workloads.lesub import LeSubscribe

SIZES = (1_000, 10_000, 100_000)
EVENTS, CHECKED, PASSES = 60, 30, 3
Line = dict[str, Any]


def with_two_attributes(workload: LeSubscribe) -> Conjunctions:
    """Return a catalogue in which every other nonequality predicate compares two attributes."""
    made = workload.conjunctions()
    is_two = (made.comparison != Comparison.EQ) & (np.arange(len(made.attribute)) % 2 == 0)
    following = workload.strings + (made.attribute - workload.strings + 1) % workload.numbers
    return made._replace(
        comparison=np.where(is_two, made.comparison + WITH_ATTRIBUTE, made.comparison).astype(np.int8),
        constant=np.where(is_two, following, made.constant),
    )


def measure(size: int) -> Line:
    """Build, match, compare with a plain evaluation."""
    workload, core = LeSubscribe(size), Neon()
    catalogue, values = with_two_attributes(workload), workload.events(EVENTS)
    has_other = catalogue.comparison >= WITH_ATTRIBUTE
    kind = (np.arange(size) % 3 == 0).astype(np.int32)
    kinds = (np.arange(EVENTS) % 3 == 0).astype(np.int32)
    core.build(catalogue, kind)
    times = interleaved({"match": lambda: core.match(values, kinds)}, PASSES)
    event, owner = core.match(values, kinds)
    found = {pair for pair in zip(event.tolist(), owner.tolist(), strict=True) if pair[0] < CHECKED}
    is_mine = kinds[:CHECKED, None] == kind
    is_right = found == plain_matches(catalogue, values[:CHECKED], is_mine)
    of_type = np.repeat(kind, np.diff(catalogue.stops))
    other = np.where(has_other, catalogue.constant, -1).astype(np.int32)
    operations = np.unique(
        np.stack((of_type, catalogue.attribute, catalogue.comparison.astype(np.int32), other)), axis=1
    )
    own = np.bincount(operations[0], minlength=2)[kinds]
    read, evaluated, held = core.work.T
    return {
        "subscriptions": size,
        "predicates": len(catalogue.attribute),
        "of them attribute against attribute": int(np.count_nonzero(has_other)),
        "rows": core.row_count,
        "operations": core.operation_count,
        "operations read per event": float(read.mean()),
        "only the type's are read": bool(np.array_equal(read, own)),
        "predicates evaluated per event": float(evaluated.mean()),
        "predicates that hold per event": float(held.mean()),
        "matches per event": len(event) / EVENTS,
        "equal to a plain evaluation": is_right,
        "us per event": 1e6 * min(times["match"]) / EVENTS,
    }


def run(scale: Scale, note: Note) -> Outcome:
    """Measure, decide, draw."""
    lines = []
    for size in SIZES:
        note(f"NEON's tables: {size} subscriptions")
        lines.append(measure(size))
    last = lines[-1]
    holds = all(
        one["equal to a plain evaluation"]
        and one["only the type's are read"]
        and one["rows"] == one["predicates"]
        for one in lines
    )
    ours = (
        f"{last['rows']} rows for {last['predicates']} predicates, of which "
        f"{last['of them attribute against attribute']} compare two attributes; "
        f"{last['operations read per event']:.1f} of {last['operations']} operations read per event; matches "
        f"as by plain evaluation ({last['matches per event']:.0f} per event)"
    )
    return Outcome(lines, [decided("LESUB-15", holds, ours, "see the CSV")], lambda path: draw(lines, path))


def draw(lines: list[Line], path: Path) -> None:
    """Draw what is read and evaluated, and time, against subscriptions."""
    pyplot, figure, axes = canvas(1, 2, "LESUB: NEON's tables, two types, attribute against attribute")
    sizes = [one["subscriptions"] for one in lines]
    for name in ("predicates evaluated", "predicates that hold", "operations read", "matches"):
        axes[0, 0].plot(sizes, [one[f"{name} per event"] for one in lines], "o-", label=name)
    axes[0, 1].plot(sizes, [one["us per event"] for one in lines], "o-", label="neon")
    for axis, up in zip(axes[0], ("per event", "time per event (us)"), strict=True):
        axis.set(xlabel="subscriptions", ylabel=up, xscale="log", yscale="log")
        axis.legend(fontsize=8)
    save(pyplot, figure, path)
