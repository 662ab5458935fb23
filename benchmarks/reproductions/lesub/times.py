"""LESUB's first figures: processing and execution time against the number of subscriptions.

Processing is what a matcher takes for an event; execution is that and the sending of events and answers
between two processes, here over ZeroMQ. The text has lost its sizes; ours are `SIZES`.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from pubsub_cluster.algorithms.conjunctions import Conjunctions, brute_force
from pubsub_cluster.algorithms.lesub.aguilera import Aguilera
from pubsub_cluster.algorithms.lesub.fair_predicate import FairPredicate
from pubsub_cluster.algorithms.lesub.gough import Gough
from pubsub_cluster.algorithms.lesub.hanson import Hanson
from pubsub_cluster.algorithms.lesub.neon import Neon
from pubsub_cluster.benchmarks.reproductions.fits import straight_line
from pubsub_cluster.benchmarks.reproductions.lesub.cores import CORES, built, measured
from pubsub_cluster.benchmarks.reproductions.lesub.work import Work
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
from pubsub_cluster.benchmarks.workloads.papers import FixedAndFree

SIZES: dict[Scale, tuple[int, ...]] = {
    "small": (1_000, 3_000, 10_000, 30_000, 100_000),
    "paper": (1_000, 10_000, 100_000, 300_000, 1_000_000),
}
EVENTS, CHECKED_EVENTS = 60, 40
EXACT_SIZE, T4_SIZE = 300, 20
ANSWER_S = 60.0
ALL: dict[str, Callable[[], Any]] = {
    **CORES,
    "gough": Gough,
    "hanson": Hanson,
    "aguilera": Aguilera,
    "neon": Neon,
}


def w0(count: int) -> tuple[Conjunctions, Any]:
    """Return W0 as conjunctions and rows: five equalities each, two of them fixed."""
    made = FixedAndFree("W0", count, domain=6, attributes=6)
    rules = made.rules()
    attribute, constant = rules.attribute[rules.literal], rules.lo[rules.literal].astype(np.float64)
    catalogue = Conjunctions(
        np.arange(count, dtype=np.int64),
        rules.start,
        attribute,
        np.full(len(attribute), 2, np.int8),
        constant,
    )
    return catalogue, made.events(CHECKED_EVENTS).value.astype(np.float64)


def all_agree() -> list[str]:
    """Return which matchers differ from brute force, on LESUB, T4 and W0 in small (LESUB-01)."""
    lesub = LeSubscribe(EXACT_SIZE, strings=2, numbers=3, string_values=4, number_values=8)
    # Few, since most leave out seven of ten attributes, and Gough's tree has each of them under every value.
    t4 = LeSubscribe(
        T4_SIZE, strings=0, numbers=10, number_values=10, predicate_probability=0.3, event_probability=1.0
    )
    cases = {
        "LESUB": (lesub.conjunctions(), lesub.events(CHECKED_EVENTS)),
        "T4": (t4.conjunctions(), t4.events(CHECKED_EVENTS)),
        "W0": w0(EXACT_SIZE),
    }
    wrong = []
    for name, (catalogue, events) in cases.items():
        expected = np.unique(np.stack(brute_force(catalogue, events)), axis=1)
        for matcher, make in ALL.items():
            core = make()
            core.build(catalogue)
            if not np.array_equal(np.unique(np.stack(core.match(events)), axis=1), expected):
                wrong.append(f"{matcher} on {name}")
    return wrong


def serve(pipe: Connection, size: int) -> None:
    """The second process: match what comes, send back who matches and how long that took."""
    made = LeSubscribe(size)
    core = built(("quarantining",), made.conjunctions())["quarantining"]
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    pipe.send(socket.bind_to_random_port("tcp://127.0.0.1"))
    while message := socket.recv():
        begin = time.perf_counter()
        events = np.frombuffer(message).reshape(-1, made.attributes)
        row, owner = core.match(events)
        took = time.perf_counter() - begin
        parts = np.array([took]), np.bincount(row, minlength=len(events)), owner
        socket.send_multipart([part.tobytes() for part in parts])
    context.destroy(linger=0)


def communication(size: int) -> tuple[float, float]:
    """Return what sending takes for an event (s), and its matches, between two processes."""
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, size), daemon=True)
    process.start()
    context = zmq.Context()
    try:
        socket = context.socket(zmq.REQ)
        socket.setsockopt(zmq.RCVTIMEO, int(1_000 * ANSWER_S))
        assert mine.poll(ANSWER_S), "the second process did not start"
        socket.connect(f"tcp://127.0.0.1:{mine.recv()}")
        events, taken = LeSubscribe(size).events(EVENTS), []
        for _ in range(9):
            begin = time.perf_counter()
            socket.send(events.tobytes())
            answer = socket.recv_multipart()
            owners = np.frombuffer(answer[2], np.int64).tolist()  # the receiver reads its list
            taken.append(time.perf_counter() - begin - float(np.frombuffer(answer[0])[0]))
        socket.send(b"")
        return min(taken) / EVENTS, len(owners) / EVENTS
    finally:
        context.destroy(linger=0)
        process.join(ANSWER_S)
        process.kill()


def phases(core: FairPredicate, events: Any) -> tuple[float, float]:
    """Return the time of the search for satisfied predicates, and of all (s), best of a few."""
    search, whole = [], []
    for _ in range(5):
        begin = time.perf_counter()
        for event in events:
            core.store.predicates.satisfied(event)
        search.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        core.match(events)
        whole.append(time.perf_counter() - begin)
    return min(search), min(whole)


def run(scale: Scale, note: Note) -> Outcome:
    """Measure each size; decide what the paper says of work and times."""
    lines: list[dict[str, Any]] = []
    for size in SIZES[scale]:
        made = LeSubscribe(size)
        catalogue, events = made.conjunctions(), made.events(EVENTS)
        cores = built(tuple(CORES), catalogue)
        lines += measured(made, cores, events)
        sent, _ = communication(size)
        for line in lines[-len(CORES) :]:
            line["communication us per event"] = 1e6 * sent
        note(f"{size:,} subscriptions")
    last = {line["matcher"]: line for line in lines[-len(CORES) :]}
    work = Work(catalogue, events, cores)
    fair = cores["fair-predicate"]
    assert isinstance(fair, FairPredicate)
    search, whole = phases(fair, events)
    size = SIZES[scale][-1]
    times = {name: line["us per event"] for name, line in last.items()}
    verdicts = [
        _agreement(all_agree()),
        *work.verdicts((whole - search) / whole),
        _order(times, size),
        decided(
            "LESUB-23",
            times["naive"] / times["quarantining"] >= 20,
            f"{times['naive'] / times['quarantining']:.1f} at {size:,}",
            "it stops at the first false predicate, and its columns are read in order; sizes are ours",
        ),
        _linear(lines),
    ]
    return Outcome(lines, sorted(verdicts), partial(_draw, lines))


def _agreement(wrong: list[str]) -> Verdict:
    ours = f"{EXACT_SIZE} subscriptions of LESUB and W0, {T4_SIZE} of T4; {CHECKED_EVENTS} events each"
    return decided("LESUB-01", not wrong, ours, ", ".join(wrong))


def _order(times: dict[str, float], size: int) -> Verdict:
    quarantining, preferred, fair = (
        times[name] for name in ("quarantining", "equality-preferred", "fair-predicate")
    )
    return decided(
        "LESUB-21",
        quarantining < preferred < fair and fair / quarantining >= 2,
        f"{quarantining:.0f}, {preferred:.0f}, {fair:.0f} us at {size:,}; fair / quarantining "
        f"{fair / quarantining:.2f}",
        "looking up a few hundred clusters costs more than it saves where subscriptions are few",
    )


def _linear(lines: list[dict[str, Any]]) -> Verdict:
    mine = [one for one in lines if one["matcher"] == "quarantining"]
    matches = [one["matches per event"] for one in mine]
    sent = [one["communication us per event"] for one in mine]
    slope, start, r2 = straight_line(matches, sent)
    ours = f"{start:.1f} us + {1e3 * slope:.1f} ns per match, R^2 {r2:.3f}"
    return decided("LESUB-27", r2 >= 0.9 and slope > 0, ours, "small answers cost the same, few or many")


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 3, "Time against subscriptions (LESUB)")
    for name in CORES:
        mine = [line for line in lines if line["matcher"] == name]
        sizes = [line["subscriptions"] for line in mine]
        times = [line["us per event"] for line in mine]
        sent = [line["communication us per event"] for line in mine]
        axes[0, 0].plot(sizes, times, marker="o", label=name)
        if name != "naive":
            axes[0, 1].plot(sizes, np.add(times, sent), marker="o", label=name)
    axes[0, 2].plot([line["matches per event"] for line in mine], sent, marker="o")
    axes[0, 0].set(ylabel="processing time per event (µs)", yscale="log")
    axes[0, 1].set(ylabel="execution time per event (µs)", yscale="log")
    for one in axes[0, :2]:
        one.set(xlabel="subscriptions (number)", xscale="log")
        one.legend(fontsize="small")
    axes[0, 2].set(xlabel="matches per event (number)", ylabel="communication per event (µs)")
    save(pyplot, figure, path)
