"""RR-54: what RR-4089 says of "test networks", the trees of Gough and Smith and of Aguilera et al., on T4.

Gough and Smith's tree cannot be built for 10,000 of T4's subscriptions. A tree of more subscriptions has no
fewer nodes than one of some of them, so what a tree of a dozen takes is a lower bound.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Conjunctions, Core
from pubsub_cluster.algorithms.lesub.aguilera import Aguilera
from pubsub_cluster.algorithms.lesub.equality_clusters import conjunctions_at
from pubsub_cluster.algorithms.lesub.gough import Gough
from pubsub_cluster.algorithms.rr4089.counting import Counting
from pubsub_cluster.benchmarks.reproductions.lesub.insertion import insertion_times, one_by_one
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.workloads.topss import T4
from pubsub_cluster.language.errors import CallerError

SIZE = 10_000
GOUGH_SIZES = (6, 8, 10, 12, 14, 16, 18, 20)
EVENTS, INSERTED, ROUNDS = 200, 50, 5
Line = dict[str, Any]


def largest_gough(everything: Conjunctions) -> tuple[Gough, int, list[Line]]:
    """Build Gough and Smith's tree of more and more subscriptions until it is refused."""
    core, largest, lines = Gough(), 0, []
    for size in GOUGH_SIZES:
        begin = time.perf_counter()
        try:
            core.build(conjunctions_at(everything, everything.owner < size))
        except CallerError:
            break
        largest = size
        lines.append(line("gough", size, core.bytes, 1e6 * (time.perf_counter() - begin)))
    return core, largest, lines


def line(matcher: str, size: int, stored: int, insert_us: float) -> Line:
    """Return a line of the CSV."""
    return {"matcher": matcher, "subscriptions": size, "bytes": stored, "us per insertion": insert_us}


def run(scale: Scale, note: Note) -> Outcome:
    """Measure, decide, draw."""
    everything = T4.conjunctions(SIZE + INSERTED)
    catalogue = conjunctions_at(everything, everything.owner < SIZE)
    more = one_by_one(conjunctions_at(everything, everything.owner >= SIZE))
    note(f"test networks on T4: Gough and Smith's tree of up to {GOUGH_SIZES[-1]} subscriptions")
    _, largest, lines = largest_gough(everything)
    note(f"test networks on T4: {SIZE} subscriptions")
    counting, aguilera = Counting(), Aguilera()
    cores: dict[str, Core] = {"counting": counting, "aguilera": aguilera}
    for core in cores.values():
        core.build(catalogue)
    values = T4.events(EVENTS)
    first, second = (
        np.sort(event * SIZE + owner) for event, owner in (core.match(values) for core in cores.values())
    )
    assert np.array_equal(first, second), "two matchers disagree"
    times: dict[str, list[float]] = {name: [] for name in cores}
    for core in cores.values():
        insertion_times(core, more[:2])
    for _ in range(ROUNDS):
        for name, core in cores.items():
            times[name].append(insertion_times(core, more))
    for name, core in cores.items():
        lines.append(line(name, SIZE, core.bytes, 1e6 * min(times[name])))
    return Outcome(lines, decide(lines, largest), lambda path: draw(lines, path))


def decide(lines: list[Line], largest: int) -> list[Verdict]:
    """Decide RR-54."""
    by_name = {one["matcher"]: one for one in lines}  # of Gough and Smith's trees, the largest
    gough, aguilera, counting = (by_name[name] for name in ("gough", "aguilera", "counting"))
    is_larger = counting["bytes"] < min(gough["bytes"], aguilera["bytes"])
    is_slower = counting["us per insertion"] < min(gough["us per insertion"], aguilera["us per insertion"])
    return [
        decided(
            "RR-54",
            is_larger and is_slower,
            f"bytes: counting {counting['bytes']}, Aguilera {aguilera['bytes']}, Gough at least "
            f"{gough['bytes']} (at {largest} subscriptions; it is refused for more); insertion: counting "
            f"{counting['us per insertion']:.0f} us, Aguilera {aguilera['us per insertion']:.0f} us, Gough "
            f"at least {gough['us per insertion']:.0f} us",
            f"bytes above counting's: {is_larger}; insertion time above counting's: {is_slower}",
        )
    ]


def draw(lines: list[Line], path: Path) -> None:
    """Draw bytes and insertion time."""
    pyplot, figure, axes = canvas(1, 2, "RR-4089, section 5: test networks on T4")
    names = [f"{one['matcher']}, {one['subscriptions']}" for one in lines]
    for axis, what in zip(axes[0], ("bytes", "us per insertion"), strict=True):
        axis.plot([one[what] for one in lines], names, "o")
        axis.set(xscale="log", xlabel=what if what == "bytes" else "time per insertion (us)")
        axis.set_ylabel("matcher, subscriptions")
    save(pyplot, figure, path)
