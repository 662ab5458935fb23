"""RR-4089 sections 3 and 4: what greedy chooses beside others, the metrics, and what maintenance does."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4, Comparison, Conjunctions
from pubsub_cluster.algorithms.rr4089 import cluster_kernels as ck
from pubsub_cluster.algorithms.rr4089.cost import COSTS, Costs
from pubsub_cluster.algorithms.rr4089.dynamic import Dynamic, Thresholds
from pubsub_cluster.algorithms.rr4089.propagation import Propagation
from pubsub_cluster.algorithms.rr4089.schema_kernels import GAIN, MOVERS
from pubsub_cluster.algorithms.rr4089.schemas import Schemas
from pubsub_cluster.algorithms.rr4089.static import Static
from pubsub_cluster.algorithms.rr4089.two_phase import Clustered
from pubsub_cluster.benchmarks.reproductions.fits import straight_line
from pubsub_cluster.benchmarks.reproductions.outcome import Verdict, decided
from pubsub_cluster.benchmarks.reproductions.rr4089 import loads
from pubsub_cluster.benchmarks.reproductions.rr4089.example import small_catalogue
from pubsub_cluster.benchmarks.workloads.drift import drift_schema
from pubsub_cluster.benchmarks.workloads.mixed import ads
from pubsub_cluster.benchmarks.workloads.papers import w0

NEVER = COSTS._replace(hashing=1e300)
"""Costs at which no table pays."""
CHEAP = Costs(retrieving=0.0, hashing=0.5, per_attribute=0.1)
"""Costs at which tables pay for few subscriptions."""
CLOSED = Thresholds(math.inf, 0.0, math.inf)


def matching_cost(core: Clustered, costs: Costs) -> float:
    """Return the cost of matching an event (D-04), of tables of several attributes and of checks."""
    held = core.clusters.held
    rows = np.arange(held.counts[ck.CLUSTERS], dtype=np.int32)
    checking = 1.0 + costs.predicate * held.clusters[rows, ck.REST]
    checks = float((Schemas(core.clusters).margins(rows) * checking).sum())
    return checks + sum(costs.table(len(one)) for one in core.clusters.tables)


def maximal_cost(core: Clustered, costs: Costs) -> float:
    """Return the cost with all equalities of each subscription as its access predicate."""
    held, store = core.clusters.held, core.store
    checks, schemas = 0.0, set()
    for number in range(store.bound):
        parts = store.parts.of(number)
        mine = parts[held.comparison[parts] == Comparison.EQ]
        checks += float(np.prod(held.nu[mine])) * (1.0 + costs.predicate * (len(parts) - len(mine)))
        if len(mine) > 1:
            schemas.add(tuple(sorted(held.attribute[mine].tolist())))
    return checks + sum(costs.table(len(one)) for one in schemas)


def ads_equalities(count: int) -> Conjunctions:
    """Return the equalities and the ranges of ADS; sets are left out."""
    rules = ads(count).rules()
    is_set = np.diff(rules.member_start) > 0
    owner = np.repeat(np.arange(rules.size), np.diff(rules.start))
    is_kept = ~is_set[rules.literal]
    literal, owner = rules.literal[is_kept], owner[is_kept]
    is_point = rules.lo[literal] == rules.hi[literal]
    comparison = np.where(is_point, Comparison.EQ, Comparison.GE).astype(np.int8)
    stops = np.searchsorted(owner, np.arange(rules.size + 1)).astype(np.int64)
    return Conjunctions(
        np.arange(rules.size, dtype=np.int64),
        stops,
        rules.attribute[literal],
        comparison,
        rules.lo[literal].astype(np.float64),
    )


def best_cost(catalogue: Conjunctions, tables: Any, costs: Costs) -> float:
    """Return the cost of the best instance with some tables (D-06)."""
    core = Static(NEVER._replace(predicate=costs.predicate))
    for table in tables:
        core.clusters.add_table(table)
    core.clusters.put(core.clusters.build(catalogue))
    return matching_cost(core, costs)


def greedy(size: int) -> list[Verdict]:
    """RR-44, RR-45."""
    shown, is_optimum = [], True
    catalogues = {
        "W0": (loads.part_of(w0(size), 0, size), COSTS),
        "ADS": (ads_equalities(size // 5), COSTS),
        "example 3.1": (small_catalogue(3), COSTS),
    }
    most_steps = []
    for name, (catalogue, costs) in catalogues.items():
        core, singles = Static(costs), Static(NEVER._replace(predicate=costs.predicate))
        core.build(catalogue)
        singles.build(catalogue)
        costs_of = matching_cost(core, costs), matching_cost(singles, costs), maximal_cost(core, costs)
        again = Schemas(core.clusters)
        again.weigh(np.arange(core.store.bound, dtype=np.int32), 1)
        masks, sums = again.sums()
        gains = [
            float(row[GAIN]) - costs.table(len(core.clusters.schema_of(int(mask))))
            for mask, row in zip(masks, sums, strict=True)
        ]
        small = Static(costs, core.space / 2)
        small.build(catalogue)
        is_optimum &= costs_of[0] <= min(costs_of[1:]) and max(gains, default=0.0) <= 0.0
        is_optimum &= small.space <= max(core.space / 2, singles.space) and not singles.clusters.tables
        groups = schema_count(singles)
        most_steps.append((core.steps, groups))
        shown.append(f"{name} {costs_of[0]:,.0f} <= {costs_of[1]:,.0f}, {costs_of[2]:,.0f}")
    tiny = loads.part_of(w0(60), 0, 60)
    tiny = tiny._replace(
        attribute=tiny.attribute % 3
    )  # few attributes, so that all sets of tables can be tried
    tiny = shortest(tiny)
    schemas = [one for width in (2, 3) for one in itertools.combinations(range(3), width)]
    every = [
        best_cost(tiny, chosen, CHEAP)
        for count in range(len(schemas) + 1)
        for chosen in itertools.combinations(schemas, count)
    ]
    core = Static(CHEAP)
    core.build(tiny)
    beside = matching_cost(core, CHEAP) / min(every)
    sizes = (2, 3, 1)
    subsets = [
        [chosen for n in range(k + 1) for chosen in itertools.combinations(range(k), n)] for k in sizes
    ]
    instances = sum(1 for _ in itertools.product(*subsets))
    return [
        decided(
            "RR-44",
            instances == math.prod(2**k for k in sizes) and all(s <= g**2 for s, g in most_steps),
            f"{instances} = 2^6 for subscriptions of 2, 3 and 1 equalities; candidates weighed / #GA^2: "
            + ", ".join(f"{s:,} / {g**2:,}" for s, g in most_steps),
            "more steps than that",
        ),
        decided(
            "RR-45",
            is_optimum,
            f"cost of greedy <= singles, maximal: {'; '.join(shown)}; tiny S: {beside:.3f} of the optimum; "
            "ADS without its sets; schemas of at most four attributes, of the first 62",
            "one of the costs is lower, or a table more would pay",
        ),
    ]


def shortest(catalogue: Conjunctions) -> Conjunctions:
    """Return subscriptions with the first predicate on each attribute only."""
    owner = np.repeat(catalogue.owner, np.diff(catalogue.stops))
    pairs = owner * 1_000 + catalogue.attribute
    first = np.sort(np.unique(pairs, return_index=True)[1])
    stops = np.searchsorted(owner[first], np.arange(len(catalogue.owner) + 1)).astype(np.int64)
    return catalogue._replace(
        stops=stops,
        attribute=catalogue.attribute[first],
        comparison=catalogue.comparison[first],
        constant=catalogue.constant[first],
    )


def schema_count(core: Clustered) -> int:
    """Return #GA: the sets of attributes that occur in subscriptions (of at most four)."""
    schemas = Schemas(core.clusters)
    schemas.weigh(np.arange(core.store.bound, dtype=np.int32), 1)
    return len(schemas.sums()[0]) + len(core.clusters.held.mine)


def metrics(size: int) -> Verdict:
    """RR-48: on the clusters of single attributes, and on those of two."""
    worst = []
    is_near = True
    for core in (Propagation(), Dynamic(Thresholds(0.0, 0.0, size / 2))):
        loads.load(core, w0(size), 0, size)
        held = core.clusters.held
        rows = np.arange(held.counts[ck.CLUSTERS], dtype=np.int32)
        rows = rows[held.clusters[rows, ck.COUNT] > 0]
        count = held.clusters[rows, ck.COUNT].astype(np.float64)
        margin = Schemas(core.clusters).margins(rows)
        nu = margin / count
        whole = 35.0**-5
        benefit, exact_benefit = count, (1 - nu) * count
        exact_margin = margin - whole * count
        error = margin / exact_margin - 1
        is_near &= bool(np.all(benefit / exact_benefit - 1 <= nu / (1 - nu) * (1 + 1e-9) + 1e-12))
        is_near &= bool(np.all(margin >= exact_margin) and np.all(error <= whole / (nu - whole) * (1 + 1e-6)))
        worst.append(f"nu {nu.max():.2g}: {benefit[0] / exact_benefit[0] - 1:.2g}, {error.max():.2g}")
    return decided("RR-48", is_near, f"errors of B and BM: {'; '.join(worst)}", "an error is larger")


class Recorder(Dynamic):
    """Notes how often a call of redistribution moves a subscription."""

    calls, most, _noted = 0, 0, np.zeros(0, np.int32)

    def _move(self, numbers: I4) -> I4:
        self._noted = np.append(self._noted, numbers)
        return super()._move(numbers)

    def _redistribute(self, rows: I4) -> None:
        self._noted = np.zeros(0, np.int32)
        super()._redistribute(rows)
        self.calls += 1
        if len(self._noted):
            self.most = max(self.most, int(np.unique(self._noted, return_counts=True)[1].max()))


def redistribution(rounds: int) -> Verdict:
    """RR-49: random subscriptions, thresholds and statistics."""
    random = np.random.default_rng(49)
    calls = most = moved = 0
    for seed in range(rounds):
        made = w0_like(seed)
        core = Recorder(Thresholds(10.0 ** -random.integers(0, 3), 10.0, float(random.integers(1, 300))))
        for begin in range(0, 1_500, 300):
            core.insert(loads.part_of(made, begin, begin + 300))
            skewed = np.floor(random.random((200, made.attributes)) ** random.uniform(1, 4) * made.domain) + 1
            core.observe(skewed)
        calls, most, moved = calls + core.calls, max(most, core.most), moved + core.done.moved
    return decided(
        "RR-49", most <= 1, f"{calls:,} calls, {moved:,} moves, at most {most} of one", "it moves more"
    )


def w0_like(seed: int) -> Any:
    """Return W0 in small: eight attributes of five values."""
    return type(w0(1))("small", 1_500, seed, attributes=8, domain=5, fixed="=", free=3)


def moves(size: int) -> tuple[Verdict, list[tuple[int, float]]]:
    """RR-50: a table is there, and clusters of ever more subscriptions are redistributed to it."""
    found = []
    for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
        core = Dynamic(CLOSED)
        count = int(size * share)
        loads.load(core, w0(size), 0, count)
        core.clusters.add_table((0, 1))
        core.thresholds = Thresholds(0.0, 0.0, math.inf)
        began = time.perf_counter()
        core._redistribute(np.arange(core.clusters.held.counts[ck.CLUSTERS], dtype=np.int32))
        found.append((core.done.moved, time.perf_counter() - began))
    linear = straight_line([one[0] for one in found], [one[1] for one in found])[2]
    each = found[-1][1] / max(found[-1][0], 1)
    ours = f"R^2 = {linear:.3f} over {found[0][0]:,} to {found[-1][0]:,} moves, {loads.us(each)} each"
    return decided("RR-50", linear >= 0.9, ours, "the more, the less they are in caches"), found


def thresholds(size: int) -> Verdict:
    """RR-51: one at a time, on DRIFT-SCHEMA's first subscriptions."""
    made = drift_schema(size)

    def loaded(one: Thresholds) -> Dynamic:
        core = Dynamic(one)
        for begin in range(0, size, loads.LOADED_AT_ONCE):
            core.insert(loads.part_of(made, begin, min(begin + loads.LOADED_AT_ONCE, size)))
        return core

    margins = [0.001, 0.01, 0.1, 1.0, 100.0]
    candidates = [tables_wanted(loaded(Thresholds(one, 0.0, math.inf))) for one in margins]
    powers = [size / 200, size / 60, size / 10, size / 3, 2.0 * size]
    created = [len(loaded(Thresholds(0.001, 0.0, one)).done.created) for one in powers]
    leasts = [0.0, size / 100, size / 40, size / 20, size]
    removed = []
    for least in leasts:
        core = loaded(Thresholds(0.001, 0.0, size / 60))
        core.thresholds = core.thresholds._replace(benefit_min=least, power_min=math.inf)
        core.remove(np.arange(0, size // 2, dtype=np.int32))
        removed.append(len(core.done.removed))
    core = loaded(Thresholds(1e6, 0.0, 1.0))
    clusters = core.clusters.held.clusters[: core.clusters.held.counts[ck.CLUSTERS]]
    is_left_alone = not clusters[:, [ck.EPOCH, ck.CANDIDATE]].any() and core.done.moved == 0
    largest = int(clusters[:, ck.COUNT].max())
    orders = [
        all(a >= b for a, b in itertools.pairwise(candidates)) and candidates[0] > candidates[-1],
        all(a >= b for a, b in itertools.pairwise(created)) and created[0] > created[-1],
        all(a <= b for a, b in itertools.pairwise(removed)) and removed[0] < removed[-1],
    ]
    return decided(
        "RR-51",
        all(orders) and is_left_alone,
        f"candidates {candidates} for BMmax {margins}; created {created} for RPmin "
        f"{[round(p) for p in powers]}; removed {removed} for Bmin {[round(p) for p in leasts]}; a cluster "
        f"of {largest:,} was left alone",
        "one of them does not fall or grow",
    )


def tables_wanted(core: Dynamic) -> int:
    """Return the number of tables to which somebody would move from clusters that are too high."""
    schemas = Schemas(core.clusters)
    schemas.weigh(core.clusters.members(core.candidates), 1)
    return int((schemas.sums()[1][:, MOVERS] > 0).sum())
