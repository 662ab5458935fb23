"""Layouts with tables against the naive matcher: any configuration, shards, several values, equal keys."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from configurations import configurations
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch, rows_of_events
from strategies import cases

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import compile_expression, holds
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.blob import TABLE_DIRECT, TABLE_INEXACT
from pubsub_cluster.shm.layout import LayoutArrays
from pubsub_cluster.tuner import clusters, fronts, packing, predicates, tables
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.configuration import BY_CELL, BY_LABEL, Configuration, TableSchema
from pubsub_cluster.workers.engine import MatchEngine

PARTITION_COUNT = 4
NAMES = "abcd"


PLAIN: dict[str, Any] = {}
HASHED: dict[str, Any] = {"is_direct": lambda radix, key_count: False}
ALL_FRONTS = {"INTERVALS_MIN": 1, "FEW_IN": 1 << 30}
FRONTED: dict[str, Any] = {**ALL_FRONTS, "CLUSTER_ENTRIES_MAX": 20}
COLLIDING: dict[str, Any] = {"EXACT_KEYS_MAX": 0, "INEXACT_MULTIPLIERS": (1,) * 6, **ALL_FRONTS}
every_way = pytest.mark.parametrize(
    "ways", [PLAIN, HASHED, FRONTED, COLLIDING], ids=["plain", "hashed", "fronted", "colliding"]
)


def turn_down(monkeypatch: pytest.MonkeyPatch, ways: dict[str, Any]) -> None:
    """Set thresholds so that runs, inline intervals and the given ways are used in small cases."""
    modules = {
        "is_direct": packing,
        "INTERVALS_MIN": fronts,
        "FEW_IN": fronts,
        "CLUSTER_ENTRIES_MAX": clusters,
    }
    monkeypatch.setattr(clusters, "SORTED_ENTRIES_MIN", 2)
    monkeypatch.setattr(clusters, "CLUSTER_ENTRIES_MAX", 3)
    monkeypatch.setattr(predicates, "INLINE_MIN", 2)
    for name, value in ways.items():
        monkeypatch.setattr(modules.get(name, tables), name, value)


def build(catalogue: Case, configuration: Configuration | None) -> LayoutArrays:
    """Build generation 1 with the given tables, or none."""
    counts = catalogue.writer.counts()
    known = configuration or Configuration((), ())
    return build_layout(catalogue.reader, counts, 1, None, 1, PARTITION_COUNT, known)


@every_way
def test_any_configuration(ways: dict[str, Any]) -> None:
    """Whatever the tables, the shards tell every matching row, and each tells a row once."""

    @settings(max_examples=60)
    @given(case=cases(), draw=st.data())
    def check(case: Any, draw: st.DataObject) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            turn_down(monkeypatch, ways)
            catalogue = Case(case.expressions, case.schema)
            configuration = draw.draw(configurations(build(catalogue, None)))
            layout = build(catalogue, configuration)
        values = [flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events]
        expected = [
            {row for row, expression in enumerate(case.expressions) if holds(expression, event, case.schema)}
            for event in values
        ]
        check_shards(catalogue, layout, raw_batch(values), expected, draw.draw(st.integers(1, 3)))

    check()


def check_shards(
    catalogue: Case, layout: LayoutArrays, raw: Any, expected: list[set[int]], count: int
) -> None:
    """Match on `count` shards; compare their union with the naive answer."""
    engine = MatchEngine(catalogue.reader, catalogue.schema)
    found: list[set[int]] = [set() for _ in expected]
    for shard in range(count):
        mine = np.array([p % count == shard for p in range(PARTITION_COUNT)], np.uint8)
        engine.attach_layout(1, layout, None, mine)
        for event, rows in enumerate(rows_of_events(engine.match(raw, 1, layout.counts))):
            assert len(set(rows)) == len(rows), "one shard tells a row once"
            found[event] |= set(rows)
    assert found == expected


def dense_case(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, tuple[object, ...]]]]:
    """Return many conjunctions of equalities, sets, ranges and negations, and events that meet many."""
    rng = random.Random(seed)

    def literal(name: str) -> dict[str, Any]:
        value, kind = rng.randint(0, 5), rng.random()
        if kind < 0.5:
            return {"attr": name, "op": "=", "value": value}
        if kind < 0.65:
            return {"attr": name, "op": "in", "value": [value, value + 1]}
        if kind < 0.9:
            return {"attr": name, "op": "between", "lo": value - 0.5, "hi": value + rng.choice((0.6, 1.4))}
        return {"not": {"attr": name, "op": rng.choice(("=", "<")), "value": value}}

    expressions = [{"and": [literal(n) for n in rng.sample(NAMES, rng.randint(2, 4))]} for _ in range(400)]
    events: list[dict[str, tuple[object, ...]]] = []
    for _ in range(60):
        names = [name for name in NAMES if rng.random() < 0.9]
        counts = [rng.choice((1, 1, 1, 2, 6)) for _ in names]
        events.append({n: tuple(rng.sample(range(7), c)) for n, c in zip(names, counts, strict=True)})
    return expressions, events


@every_way
@pytest.mark.parametrize("kind", [BY_LABEL, BY_CELL])
def test_dense_tables(monkeypatch: pytest.MonkeyPatch, ways: dict[str, Any], kind: int) -> None:
    """Full tables of two to four parts; events with several values everywhere."""
    turn_down(monkeypatch, ways)
    expressions, events = dense_case(7)
    catalogue = Case(expressions)
    labels = np.diff(build(catalogue, None).label_start).tolist()
    cut = tuple(tuple(range(0, count, 4)) for count in labels)
    schemas = [TableSchema((0, 1), (kind, BY_LABEL)), TableSchema((2, 3), (kind, kind))]
    schemas += [TableSchema((0, 1, 2, 3), (kind, kind, BY_LABEL, kind)), TableSchema((1, 2, 3), (kind,) * 3)]
    layout = build(catalogue, Configuration(tuple(schemas), cut))
    modes = set(layout.table_mode.tolist())
    by_ways = {id(HASHED): {0}, id(COLLIDING): {TABLE_INEXACT}}
    assert modes >= by_ways.get(id(ways), {TABLE_DIRECT})
    assert layout.table_cost.any()
    tests = [compile_expression_of(expression) for expression in expressions]
    expected = [{row for row, test in enumerate(tests) if test(event)} for event in events]
    assert sum(map(len, expected)) > 1_000
    for shards in (1, 2):
        check_shards(catalogue, layout, raw_batch(events), expected, shards)


def compile_expression_of(expression: dict[str, Any]) -> Any:
    """Return the naive matcher of an expression in JSON form."""
    return compile_expression(expression_from_json(expression))


@every_way
@pytest.mark.parametrize("value_count", [5, 40])
def test_more_keys_than_pending_probes(
    monkeypatch: pytest.MonkeyPatch, ways: dict[str, Any], value_count: int
) -> None:
    """An event with many values everywhere: its keys are probed piece by piece, or the table gone through."""
    turn_down(monkeypatch, ways)
    rng = random.Random(3)
    expressions = [
        {"and": [{"attr": name, "op": "=", "value": rng.randint(0, 39)} for name in NAMES]}
        for _ in range(300)
    ]
    catalogue = Case(expressions)
    layout = build(catalogue, Configuration((TableSchema((0, 1, 2, 3), (BY_LABEL,) * 4),), ()))
    assert len(layout.cluster_start) == 0 and len(layout.table_mode) == 1
    picked = rng.sample(range(40), value_count)
    events: list[dict[str, tuple[object, ...]]] = [{name: tuple(picked) for name in NAMES}]
    events.append({name: (int(expressions[5]["and"][at]["value"]),) for at, name in enumerate(NAMES)})
    tests = [compile_expression_of(expression) for expression in expressions]
    expected = [{row for row, test in enumerate(tests) if test(event)} for event in events]
    for shards in (1, 3):
        check_shards(catalogue, layout, raw_batch(events), expected, shards)


def test_many_mixed_ranges_have_a_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conjunctions of many ranges, of attributes that differ from one to the next, some negated."""
    turn_down(monkeypatch, FRONTED)
    rng = random.Random(5)
    names = [f"a{number}" for number in range(14)]

    def literal(name: str) -> dict[str, Any]:
        lo = rng.randint(0, 40)
        made = {"attr": name, "op": "between", "lo": lo, "hi": lo + rng.randint(40, 59)}
        return {"not": {**made, "hi": lo + 3}} if rng.random() < 0.1 else made

    expressions = [
        {"and": [{"attr": "key", "op": "=", "value": rng.randint(0, 2)}, *map(literal, rng.sample(names, 9))]}
        for _ in range(200)
    ]
    catalogue = Case(expressions)
    layout = build(catalogue, None)
    assert layout.has_fronts
    events: list[dict[str, tuple[object, ...]]] = []
    for _ in range(80):
        present = [name for name in names if rng.random() < 0.95]
        events.append({"key": (rng.randint(0, 2),), **{n: (rng.randint(30, 70),) for n in present}})
    events += [{**event, "a3": (10, 55, 90)} for event in events[:20]]
    tests = [compile_expression_of(expression) for expression in expressions]
    expected = [{row for row, test in enumerate(tests) if test(event)} for event in events]
    assert sum(map(len, expected)) > 500
    check_shards(catalogue, layout, raw_batch(events), expected, 2)


def test_a_point_lies_in_one_cell() -> None:
    """A clause in a table by cell is registered once, also an equality and one that fits in two cells."""
    expressions = [{"attr": "a", "op": "=", "value": v} for v in range(8)]
    expressions += [{"attr": "a", "op": "between", "lo": v, "hi": v + 1} for v in range(8)]
    catalogue = Case(expressions, EMPTY_SCHEMA)
    layout = build(catalogue, Configuration((TableSchema((0,), (BY_CELL,)),), ((0, 6, 12),)))
    assert not layout.row_many.any()
    expected = [{v, *(8 + lo for lo in (v - 1, v) if lo >= 0)} for v in range(8)]
    check_shards(catalogue, layout, raw_batch([{"a": (v,)} for v in range(8)]), expected, 2)
