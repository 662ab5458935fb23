"""RR-4089 sections 2.3, 3, 4, 6.1: what the algorithms promise, counted."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.registry import make_matcher
from pubsub_cluster.algorithms.rr4089 import check_kernels as hk
from pubsub_cluster.algorithms.rr4089 import cluster_kernels as ck
from pubsub_cluster.algorithms.rr4089.dynamic import Dynamic, Thresholds
from pubsub_cluster.algorithms.rr4089.entries import ENTRIES
from pubsub_cluster.algorithms.rr4089.propagation import Propagation
from pubsub_cluster.algorithms.rr4089.reference import candidates_of
from pubsub_cluster.algorithms.rr4089.two_phase import Clustered
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.reproductions.rr4089 import choice, loads
from pubsub_cluster.benchmarks.workloads.drift import Drift, drift_schema
from pubsub_cluster.benchmarks.workloads.papers import FixedAndFree, w0, w1, w2
from pubsub_cluster.language.expression import And, Atom, Expression, Operator, Or
from pubsub_cluster.language.raw_batch import AttributeEntries, NumberEntries, RawBatch

SIZE: dict[Scale, int] = {"small": 50_000, "paper": 200_000}
DRAWN: dict[Scale, int] = {"small": 200_000, "paper": 1_000_000}
ONE_ATTRIBUTE, VALUES = 100_000, 50
EVENTS, ROUNDS = 50, 8


def structures(core: Clustered) -> Verdict:
    """RR-35: the sizes of the structures."""
    held, store = core.clusters.held, core.store
    clusters = held.clusters[: held.counts[ck.CLUSTERS]]
    members = core.clusters.members(np.arange(len(clusters), dtype=np.int32))
    width = np.array([held.parts[0][one, 1] for one in range(store.bound)])
    access = clusters[held.cluster[: store.bound], ck.ACCESS]
    table = held.access[access, ck.TABLE]
    in_access = np.where(table < ck.FIRST_TABLE, table, held.tables[table, 0])
    references = int((clusters[:, ck.COUNT].astype(np.int64) * clusters[:, ck.REST]).sum())
    is_once = np.array_equal(np.sort(members), np.arange(store.bound))
    return decided(
        "RR-35",
        store.predicates.count == store.predicates.bound
        and is_once
        and references == (width - in_access).sum(),
        f"{store.predicates.count:,} bits, as many predicates; {len(members):,} subscriptions, each once; "
        f"{references:,} references of {int(width.sum()):,} predicates",
        "they differ",
    )


def nothing_twice(core: Clustered, rows: Any) -> Verdict:
    """RR-36: by the plain candidates of each event."""
    most = 0
    for row in rows:
        satisfied = core.store.predicates.satisfied(row)
        accesses = candidates_of(core.clusters.held, satisfied)
        clusters = []
        for access in accesses:
            at = int(core.clusters.held.access[access, ck.FIRST])
            while at >= 0:
                clusters.append(at)
                at = int(core.clusters.held.clusters[at, ck.NEXT])
        for numbers in (satisfied, core.clusters.members(clusters)):
            most = max(most, int(np.unique(numbers, return_counts=True)[1].max(initial=0)))
    return decided("RR-36", most <= 1, f"at most {most} in {len(rows)} events", "something is done twice")


def one_attribute() -> Verdict:
    """RR-37: n subscriptions with an equality on the same attribute."""
    random = np.random.default_rng(37)
    core = Propagation()
    core.build(
        Conjunctions(
            np.arange(ONE_ATTRIBUTE, dtype=np.int64),
            np.arange(ONE_ATTRIBUTE + 1, dtype=np.int64),
            np.zeros(ONE_ATTRIBUTE, np.int32),
            np.full(ONE_ATTRIBUTE, Comparison.EQ, np.int8),
            random.integers(0, VALUES, ONE_ATTRIBUTE).astype(np.float64),
        )
    )
    core.match(np.tile(np.arange(VALUES, dtype=np.float64), 20)[:, None])
    mean = core.counters[hk.CHECKED] / core.counters[hk.EVENTS_COUNTED]
    expected = ONE_ATTRIBUTE / VALUES
    return decided(
        "RR-37",
        abs(mean / expected - 1) <= 0.02,
        f"{mean:,.1f} checks, n / D = {expected:,.0f}",
        "they differ",
    )


def exclusive(core: Clustered, rows: Any) -> Verdict:
    """RR-38: accesses of single predicates that an event meets."""
    held, most = core.clusters.held, 0
    for row in rows:
        found = np.array(candidates_of(held, core.store.predicates.satisfied(row)))
        single = found[held.access[found, ck.TABLE] == ck.SINGLE]
        attributes = held.attribute[held.access[single, ck.PARTS]]
        most = max(most, int(np.unique(attributes, return_counts=True)[1].max(initial=0)))
    return decided(
        "RR-38", most <= 1, f"at most {most} per attribute in {len(rows)} events", "more are visited"
    )


def schemas(size: int) -> Verdict:
    """RR-52: footnote 6, and what is drawn."""

    def possible(attributes: int, predicates: int, fixed: int) -> int:
        return math.comb(attributes - fixed, predicates - fixed)

    expected: dict[str, tuple[int, FixedAndFree | Drift]] = {
        "W0": (possible(32, 5, 2), w0(size)),
        "DRIFT-SCHEMA": (possible(16, 5, 1), drift_schema(size)),
        "W1": (possible(32, 4, 3), w1(size)),
        "W2": (possible(32, 9, 8), w2(size)),
    }
    drawn = {}
    for name, (_, made) in expected.items():
        attribute = np.sort(made.predicates(0, size)[0], axis=1).astype(np.int64)
        masks = np.bitwise_or.reduce(np.left_shift(1, attribute), axis=1)
        drawn[name] = len(np.unique(masks))
    numbers = [count for count, _ in expected.values()]
    return decided(
        "RR-52",
        numbers == [4060, 1365, 29, 24] and list(drawn.values()) == numbers,
        f"{numbers}; drawn among {size:,}: {list(drawn.values())}",
        "another number",
    )


def semantics() -> Verdict:
    """RR-53: all six operators, conjunctions and disjunctions, beside the naive matcher."""
    random = np.random.default_rng(53)
    operators = (Operator.LT, Operator.LE, Operator.EQ, Operator.NE, Operator.GE, Operator.GT)

    def conjunction() -> Expression:
        chosen = random.permutation(["a", "b", "c"])[: random.integers(1, 4)]
        return And(
            tuple(Atom(str(n), operators[random.integers(6)], int(random.integers(1, 6))) for n in chosen)
        )

    catalogue: list[tuple[int, Expression]] = [
        (one, Or((conjunction(), conjunction())) if one % 3 == 0 else conjunction()) for one in range(300)
    ]
    catalogue.append((300, Atom("c", Operator.GT, 6)))  # 1.2: A3 > 6
    event = np.arange(200, dtype=np.int32)
    values = {name: random.integers(0, 9, 200) for name in ("a", "b", "c")}
    batch = RawBatch(
        200,
        {
            name: AttributeEntries(NumberEntries(event, one.astype(np.int64), np.zeros(200)))
            for name, one in values.items()
        },
        {},
    )
    naive = make_matcher("naive")
    naive.build(catalogue)
    expected = naive.match(batch)
    wrong = []
    for name in ENTRIES:
        matcher = make_matcher(name)
        matcher.build(catalogue)
        found = matcher.match(batch)
        if not all(map(np.array_equal, found, expected)):
            wrong.append(name)
    by_hand = int((values["c"] > 6).sum())
    alone = int((expected.handles == 300).sum())
    return decided(
        "RR-53",
        not wrong and alone == by_hand,
        f"{len(ENTRIES)} matchers, {len(catalogue)} subscriptions, {len(expected.handles):,} matches; the "
        "vectors of the project's semantics are run by its tests",
        f"{', '.join(wrong)} differ",
    )


def run(scale: Scale, note: Note) -> Outcome:
    """Count."""
    size = SIZE[scale]
    loads.compile_all({"dynamic": Dynamic})
    rows = loads.rows_of(w1(size), EVENTS)
    note("structures")
    core = Dynamic(Thresholds(0.01, 0.0, size / 30))
    loads.load(core, w1(size), 0, size)
    plain = Propagation()
    loads.load(plain, w0(size), 0, size)
    verdicts = [
        structures(core),
        nothing_twice(core, rows),
        one_attribute(),
        exclusive(plain, loads.rows_of(w0(size), EVENTS)),
    ]
    note("choice of tables")
    verdicts += choice.greedy(size)
    verdicts.append(choice.metrics(size))
    note("maintenance")
    verdicts.append(choice.redistribution(ROUNDS))
    linear, moved = choice.moves(4 * size)
    verdicts += [linear, choice.thresholds(size)]
    note("schemas and semantics")
    verdicts += [schemas(DRAWN[scale]), semantics()]
    lines = [{"moves": count, "milliseconds": 1e3 * seconds} for count, seconds in moved]
    return Outcome(lines, verdicts, partial(_draw, lines))


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 1, "RR-4089 section 4.1")
    moves = [line["moves"] / 1_000 for line in lines]
    axes[0, 0].plot(moves, [line["milliseconds"] for line in lines], "o-")
    axes[0, 0].set(
        xlabel="moves of subscriptions, thousands", ylabel="time of redistribution, ms", ylim=(0, None)
    )
    save(pyplot, figure, path)
