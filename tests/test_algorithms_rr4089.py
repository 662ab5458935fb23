"""Matchers of RR-4089: cores beside brute force, kernels beside references, what clustering keeps."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from core_cases import catalogues, check_core, conjunctions_of, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.algorithms.conjunctions import brute_force
from pubsub_cluster.algorithms.rr4089 import check_kernels, reference
from pubsub_cluster.algorithms.rr4089.clusters import Clusters
from pubsub_cluster.algorithms.rr4089.cost import Costs
from pubsub_cluster.algorithms.rr4089.counting import Counting
from pubsub_cluster.algorithms.rr4089.counting_kernels import HITS
from pubsub_cluster.algorithms.rr4089.dynamic import Dynamic, Thresholds
from pubsub_cluster.algorithms.rr4089.propagation import Propagation
from pubsub_cluster.algorithms.rr4089.schemas import Schemas
from pubsub_cluster.algorithms.rr4089.static import Static
from pubsub_cluster.benchmarks.reproductions.rr4089 import choice, loads
from pubsub_cluster.benchmarks.workloads.papers import w0

CHEAP = Costs(retrieving=0.0, hashing=0.01, per_attribute=0.001)
EAGER = Thresholds(margin_max=0.05, benefit_min=1.0, power_min=1.0)
CORES = {
    "counting": Counting,
    "propagation": Propagation,
    "propagation-prefetch": lambda: Propagation(3),
    "static": lambda: Static(CHEAP),
    "dynamic": lambda: Dynamic(EAGER),
}


@pytest.mark.parametrize("name", CORES)
@settings(max_examples=100)
@given(catalogue=catalogues(), values=rows(), data=st.data())
def test_cores(name: str, catalogue: Any, values: Any, data: st.DataObject) -> None:
    check_core(CORES[name], catalogue, values, data)


def conjunctions(catalogue: Any) -> Any:
    return conjunctions_of([(owner, one) for owner, mine in enumerate(catalogue) for one in mine])


@st.composite
def clusterings(draw: st.DrawFn) -> Clusters:
    """Some subscriptions behind some tables, which came while they were put, by skewed statistics."""
    clusters = Clusters(draw(st.sampled_from([0.0, 0.3])))
    catalogue = draw(catalogues(attributes=5, constants=st.integers(0, 2).map(float)))
    numbers = clusters.build(conjunctions(catalogue))
    if draw(st.booleans()):
        clusters.observe(draw(rows(5, st.integers(0, 2).map(float))))
    schemas = [one for width in (1, 2, 3) for one in itertools.combinations(range(5), width)]
    for chosen in draw(st.lists(st.sampled_from(schemas), max_size=4, unique=True)):
        if max(chosen) < len(clusters.held.mine):
            clusters.put(numbers[: draw(st.integers(0, len(numbers)))])
            clusters.add_table(chosen)
    clusters.put(numbers)
    return clusters


@settings(max_examples=200)
@given(clusters=clusterings(), event=rows(5, st.integers(0, 2).map(float)), data=st.data())
def test_all_lie_once_where_they_are_best_off(clusters: Clusters, event: Any, data: st.DataObject) -> None:
    """D-02, D-03, D-06; equalities before all others (RR-15), candidates (RR-36), and again without some."""
    bound = clusters.store.bound
    parts = [equalities_and_others(clusters, number) for number in range(bound)]
    gone = data.draw(st.lists(st.integers(0, bound - 1), unique=True) if bound else st.just([]), "gone")
    clusters.remove(np.array(gone, np.int32))
    held = clusters.held
    found = reference.places(held)
    assert sorted(found) == [number for number in range(clusters.store.bound) if number not in gone]
    for number, (access, left) in found.items():
        equal, others = parts[number]
        assert set(access) <= set(equal) and left == [one for one in equal if one not in access] + others
        cost = reference.cost_of(held, number, access, clusters.weight)
        assert cost == pytest.approx(reference.least_cost(held, number, clusters.weight), rel=1e-6)
    for row in event:
        satisfied = clusters.store.predicates.satisfied(row)
        size = len(held.attribute)
        work = (
            np.zeros(size, np.uint8),
            np.full(len(held.mine), -1, np.int32),
            np.zeros(size + len(held.live) + 1, np.int32),
            np.zeros((len(held.live), 2), np.int64),
        )
        count = check_kernels.list_candidates(held, satisfied, work, np.zeros(4, np.int64))
        accesses = set(work[2][:count].tolist())
        assert len(accesses) == count and accesses == set(reference.candidates_of(held, satisfied))


def equalities_and_others(clusters: Clusters, number: int) -> tuple[list[int], list[int]]:
    parts = clusters.store.parts.of(number).tolist()
    equal = reference.equalities_of(clusters.held, number)
    return equal, [one for one in parts if one not in equal]


@settings(max_examples=200)
@given(clusters=clusterings())
def test_schemas_are_weighed(clusters: Clusters) -> None:
    """Sums by schema as the plain ones; taken away again, nothing is left; movers are those who gain."""
    everybody = np.arange(clusters.store.bound, dtype=np.int32)
    schemas = Schemas(clusters)
    schemas.weigh(everybody, 1)
    masks, sums = schemas.sums()
    plain = reference.weigh(clusters.held, everybody, clusters.weight)
    mine = {clusters.schema_of(int(mask)): tuple(row) for mask, row in zip(masks, sums, strict=True)}
    assert mine.keys() == plain.keys()
    for schema, (gain, movers, saved) in plain.items():
        assert mine[schema] == pytest.approx((gain, movers, saved), rel=1e-6)
        assert len(schemas.movers_to(clusters.name_table(schema), everybody)) == movers
    assert len(schemas.better_off(everybody)) == 0
    schemas.weigh(everybody, -1)
    assert len(schemas.sums()[0]) == 0


@given(
    rest=st.integers(0, 12),
    size=st.integers(0, 70),
    columns=st.integers(0, 3),
    share=st.sampled_from([0.1, 0.5, 0.95, 1.0]),
    seed=st.integers(0, 99),
)
def test_all_loops_find_the_same(rest: int, size: int, columns: int, share: float, seed: int) -> None:
    """Special and generic, columns and rows, blocks and remainder; and what is read of each column."""
    random = np.random.default_rng(seed)
    stride, start = size + int(random.integers(0, 5)), int(random.integers(0, 9))
    flags = (random.random(50) < share).astype(np.uint8)
    words = random.integers(0, 50, start + (rest + 1) * stride + 1).astype(np.int32)
    cluster = (start, stride, size)
    expected = reference.check_cluster(words, flags, cluster, rest)
    for is_special in (True, False):
        found = np.zeros(size, np.int64)
        count = check_kernels.check_cluster(words, flags, cluster, rest, columns, found, is_special)
        assert found[:count].tolist() == expected
    lines = [words[start + line * stride :][:size] for line in range(rest + 1)]
    flat = np.stack(lines, axis=1).reshape(-1).copy()
    found = np.zeros(size, np.int64)
    assert found[: check_kernels.check_rows(flat, flags, size, rest, found)].tolist() == expected
    reads = np.zeros((2, max(rest, 1)), np.int64)
    check_kernels.count_reads(words, flags, cluster, rest, reads)
    holds = np.ones(size, np.bool_)
    for column in range(rest):
        assert reads[0, column] == holds.sum()
        at = np.flatnonzero(holds) + start + column * stride
        assert reads[1, column] == len(np.unique(at // check_kernels.UNFOLD))
        holds &= flags[lines[column]] != 0


@settings(max_examples=50)
@given(catalogue=catalogues(), values=rows(), hits=st.booleans())
def test_counting_adds_a_hit_per_satisfied_predicate(catalogue: Any, values: Any, hits: bool) -> None:
    """D-14, and room that runs out."""
    core = Counting()
    core.build(conjunctions(catalogue))
    core._out = (np.zeros(1, np.int64), np.zeros(1, np.int64))
    event, owner = core.match(values)
    pairs = sorted(set(zip(event.tolist(), owner.tolist(), strict=True)))
    expected = brute_force(conjunctions(catalogue), values)
    assert pairs == list(zip(*(part.tolist() for part in expected), strict=True))
    satisfied = [core.store.predicates.satisfied(row) for row in values]
    added = sum(len(core.subscribed.of(one)) for numbers in satisfied for one in numbers.tolist())
    assert core.counters[HITS] >= added and not core._hits.any()


@pytest.mark.parametrize("name", ["propagation-prefetch", "dynamic"])
def test_room_runs_out(name: str) -> None:
    """Matches, satisfied predicates, clusters: all grow while they are used."""
    core = CORES[name]()
    made = choice.w0_like(1)
    core.insert(loads.part_of(made, 0, 1_500))
    core._out = (np.zeros(2, np.int64), np.zeros(2, np.int64))
    core._satisfied = np.zeros(1, np.int32)
    events = loads.rows_of(made, 60)
    event, _ = core.match(events)
    assert len(event) == loads.brute_force_count(made, 1_500, events) > 100


def test_static_takes_what_pays_and_fits() -> None:
    """D-07, D-08: no table at too high a price, none beyond the space; else the best first."""
    made = loads.part_of(w0(20_000), 0, 20_000)
    cores = [Static(), Static(Costs(hashing=1e9)), Static(space_max=0.0)]
    for core in cores:
        core.build(made)
    assert (
        cores[0].clusters.tables[0] == (0, 1)
        and not cores[1].clusters.tables
        and not cores[2].clusters.tables
    )


def test_dynamic_makes_and_removes_tables() -> None:
    """D-11 to D-13: made when a table has the power, kept while it has the benefit, removed below."""
    made = w0(3_000)
    core = Dynamic(Thresholds(0.01, 500.0, 2_000.0))
    core.insert(loads.part_of(made, 0, 1_999))
    assert not core.clusters.tables and len(core.candidates)
    core.insert(loads.part_of(made, 1_999, 2_001))
    assert core.clusters.tables == core.done.created == [(0, 1)]
    core.remove(np.arange(1_501, dtype=np.int32))
    assert core.clusters.tables == [(0, 1)] and not core.done.removed
    core.remove(np.arange(1_501, 1_502, dtype=np.int32))
    assert not core.clusters.tables and core.done.removed == [(0, 1)]
    events = loads.rows_of(made, 50)
    everything = loads.part_of(made, 1_502, 2_001)
    event, owner = core.match(events)
    expected = brute_force(everything, events)
    assert sorted(zip(event.tolist(), owner.tolist(), strict=True)) == list(
        zip(*map(list, expected), strict=True)
    )


@settings(max_examples=15)
@given(seed=st.integers(0, 999))
def test_powers_are_those_of_the_candidates(seed: int) -> None:
    """After any changes, sums by schema are those of who lies in candidate clusters now."""
    core = Dynamic(Thresholds(0.05, 2.0, 6.0))
    random = np.random.default_rng(seed)
    made = choice.w0_like(seed)
    for begin in range(0, 400, 100):
        core.insert(loads.part_of(made, begin, begin + 100))
        living = np.flatnonzero(core.store.owner[: core.store.bound] >= 0).astype(np.int32)
        core.remove(random.choice(living, 30, replace=False))
        if random.random() < 0.5:
            core.observe(np.floor(random.random((40, 8)) ** 2 * 5) + 1)
        masks, sums = core._schemas.sums()
        mine = {core.clusters.schema_of(int(mask)): row[1:] for mask, row in zip(masks, sums, strict=True)}
        members = core.clusters.members(core.candidates)
        plain = reference.weigh(core.clusters.held, members, 0.0)
        assert {schema: tuple(row) for schema, row in mine.items()} == {
            s: one[1:] for s, one in plain.items()
        }
