"""The delta by key: what is held by key, growth, reviews of pairs, removals, older tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch, rows_of_events
from strategies import cases

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.workers import delta, delta_keyed
from pubsub_cluster.workers.delta import DeltaIndex
from pubsub_cluster.workers.delta_keyed import choose_pairs
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.kernels.keyed_tables import PREDICATES


def equals(**values: Any) -> dict[str, Any]:
    """Return the expression that attributes have these values."""
    return {"and": [{"attr": name, "op": "=", "value": value} for name, value in values.items()]}


def engine_with(catalogue: Case) -> MatchEngine:
    """Return an engine with the catalogue so far as generation 1."""
    engine = MatchEngine(catalogue.reader, EMPTY_SCHEMA, DEFAULT_LIMITS)
    engine.attach_layout(1, build_layout(catalogue.reader, catalogue.writer.counts(), 1, None, 1))
    return engine


def delta_of(engine: MatchEngine) -> DeltaIndex:
    """Return the delta of generation 1."""
    return engine._generations[1].delta


@settings(max_examples=60)
@given(case=cases(max_expressions=10), draw=st.data())
def test_churn_agrees_with_the_naive_matcher(case: Any, draw: st.DataObject) -> None:
    """Additions, removals and batches in any order, at any version from the last one on or before it."""
    values = [flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events]
    raw = raw_batch(values)
    base_count = draw.draw(st.integers(0, len(case.expressions)), "rows in the layout")
    catalogue = Case(case.expressions[:base_count], case.schema, DEFAULT_LIMITS)
    engine = MatchEngine(catalogue.reader, case.schema)
    engine.attach_layout(1, build_layout(catalogue.reader, catalogue.writer.counts(), 1, None, 1))
    delta_of(engine)._prune_in = 1
    expressions, removed, moments = list(case.expressions[:base_count]), {}, []
    for version in range(1, draw.draw(st.integers(1, 12), "steps")):
        if draw.draw(st.booleans(), "add"):
            expressions.append(draw.draw(st.sampled_from(case.expressions)))
            catalogue.add(expressions[-1:])
        elif len(expressions) > base_count:
            row = draw.draw(st.integers(base_count, len(expressions) - 1), "remove")
            if row not in removed:
                removed[row] = version
                catalogue.writer.columns.removed_version[row] = version
        moments.append((catalogue.writer.counts(), version))
        counts, seen = draw.draw(st.sampled_from(moments[-3:]), "moment")
        shard_count = draw.draw(st.sampled_from((1, 1, 1, 2)), "shards")
        found: list[list[int]] = [[] for _ in values]
        for shard_idx in range(shard_count):
            result = engine.match(raw, 1, counts, shard_idx, shard_count, seen)
            for event, rows in enumerate(rows_of_events(result)):
                mine = [row for row in rows if row >= base_count]
                assert len(mine) == len(set(mine))
                found[event] += mine
        expected = [
            [
                row
                for row in range(base_count, counts.rows)
                if not 0 < removed.get(row, 0) <= seen and holds(expressions[row], event, case.schema)
            ]
            for event in values
        ]
        assert [sorted(rows) for rows in found] == expected


def test_rows_by_key_grow_and_choose_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array grows, pairs are chosen, and the answer is that of brute force."""
    monkeypatch.setattr(delta_keyed, "REVIEW_FIRST", 20)
    rng = np.random.default_rng(1)
    draws = [
        equals(
            a=int(rng.integers(8)), b=int(rng.integers(8)), **{f"c{rng.integers(4)}": int(rng.integers(8))}
        )
        for _ in range(1_300)
    ]
    draws += [{"or": [equals(a=1, b=2), equals(a=int(n % 8), c1=3)]} for n in range(40)]
    draws += [{"and": [equals(a=3, b=4), {"attr": "c2", "op": "in", "value": [1, 5, 7]}]}]
    draws += [{"and": [equals(a=3, b=5), {"not": {"attr": "c2", "op": ">", "value": 4}}]}]
    catalogue = Case(
        [equals(**{name: value}) for name in ("a", "b", "c0", "c1", "c2", "c3") for value in range(8)]
    )
    base_count = catalogue.writer.counts().rows
    engine = engine_with(catalogue)
    events = [
        {
            name: tuple(rng.integers(8, size=rng.integers(1, 3)).tolist())
            for name in ("a", "b", "c0", "c1", "c2")
        }
        for _ in range(40)
    ]
    raw = raw_batch([{name: tuple(dict.fromkeys(v)) for name, v in event.items()} for event in events])
    for first in range(0, len(draws), 300):
        catalogue.add(draws[first : first + 300])
        engine.match(raw, 1, catalogue.writer.counts())
    index = delta_of(engine)
    assert not index._parts, "all rows are held by key"
    assert index._keyed is not None and (0, 1) in index._keyed._pairs
    found = rows_of_events(engine.match(raw, 1, catalogue.writer.counts()))
    alone = MatchEngine(catalogue.reader, EMPTY_SCHEMA)
    assert found == rows_of_events(alone.match(raw, 0, catalogue.writer.counts())), "as by bitmaps"
    assert any(row >= base_count for rows in found for row in rows)


@pytest.mark.parametrize(
    "expression",
    [
        {"attr": "a", "op": ">", "value": 3},
        equals(a=99),
        equals(unknown=1),
        {"and": [equals(a=1), {"attr": "t", "op": "contains", "value": "x"}]},
        {"or": [equals(a=1), {"attr": "b", "op": ">", "value": 2}]},
        {"and": []},
        {"not": equals(a=1)},
    ],
    ids=str,
)
def test_what_keys_cannot_hold_is_left_to_bitmaps(expression: dict[str, Any]) -> None:
    """No equality, unknown constants and attributes, text, one clause without a key."""
    catalogue = Case([equals(a=value, b=value) for value in range(6)])
    engine = engine_with(catalogue)
    catalogue.add([expression])
    raw = raw_batch([{"a": (1,), "b": (3,), "t": ("x",)}, {"a": (99,)}, {"unknown": (1,)}, {}])
    found = rows_of_events(engine.match(raw, 1, catalogue.writer.counts()))
    assert found == rows_of_events(
        MatchEngine(catalogue.reader, EMPTY_SCHEMA).match(raw, 0, catalogue.writer.counts())
    )
    assert len(delta_of(engine)._parts) == 1
    assert any(6 in rows for rows in found)


def test_output_grows_and_events_have_many_values() -> None:
    """More pairs than there is room for, from events of one value and of many."""
    catalogue = Case([equals(a=1), equals(a=2)])
    engine = engine_with(catalogue)
    catalogue.add([equals(a=1)] * 60 + [{"or": [equals(a=1), equals(a=2)]}] * 10)
    raw = raw_batch([{"a": (1, 2) if event % 3 == 0 else (1,)} for event in range(600)])
    found = rows_of_events(engine.match(raw, 1, catalogue.writer.counts()))
    for event, rows in enumerate(found):
        assert rows == [0, *([1] if event % 3 == 0 else []), *range(2, 72)]


def test_removed_rows_are_dropped_once_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """One id that is updated all day; and a task from before that still sees what it saw."""
    monkeypatch.setattr(delta, "PRUNE_CLAUSES_MIN", 8)
    monkeypatch.setattr(delta, "PRUNE_INTERVAL", 2)
    catalogue = Case([equals(a=1)])
    engine = engine_with(catalogue)
    raw = raw_batch([{"a": (1,)}])
    removed = catalogue.writer.columns.removed_version
    for version in range(1, 200):
        catalogue.add([equals(a=1)])
        if version > 1:
            removed[version - 1] = version
        found = rows_of_events(engine.match(raw, 1, catalogue.writer.counts(), version=version))
        assert found == [[0, version]]
        assert delta_of(engine)._keyed.clause_count < 40  # type: ignore[union-attr]
    assert rows_of_events(engine.match(raw, 1, catalogue.writer.counts(), version=100))[0][:3] == [
        0,
        100,
        101,
    ]


def test_predicates_that_only_removed_rows_had_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has another constant, and stays for a moment."""
    monkeypatch.setattr(delta, "PRUNE_CLAUSES_MIN", 8)
    monkeypatch.setattr(delta, "PRUNE_INTERVAL", 2)
    monkeypatch.setattr(delta_keyed, "PREDICATES_FIRST", 64)
    catalogue = Case([equals(a=value) for value in range(600)])
    engine = engine_with(catalogue)
    removed = catalogue.writer.columns.removed_version
    for version in range(1, 600):
        catalogue.add([equals(a=version)])
        if version > 1:
            removed[600 + version - 2] = version
        raw = raw_batch([{"a": (version,)}])
        found = rows_of_events(engine.match(raw, 1, catalogue.writer.counts(), version=version))
        assert found == [[version, 599 + version]]
    keyed = delta_of(engine)._keyed
    assert keyed is not None
    assert keyed.clause_count < 40
    assert keyed._tables.used[PREDICATES] < 300, "and not 599"


def test_too_many_matches_by_key() -> None:
    """The limit of a batch counts for rows by key."""
    from pubsub_cluster.language.errors import LimitError

    catalogue = Case([equals(a=1)])
    engine = MatchEngine(catalogue.reader, EMPTY_SCHEMA, Limits(matches_per_batch_max=30_000))
    engine.attach_layout(1, build_layout(catalogue.reader, catalogue.writer.counts(), 1, None, 1))
    catalogue.add([equals(a=1)] * 40)
    with pytest.raises(LimitError):
        engine.match(raw_batch([{"a": (1,)}] * 1_000), 1, catalogue.writer.counts())
    assert rows_of_events(engine.match(raw_batch([{"a": (1,)}]), 1, catalogue.writer.counts())) == [
        list(range(41))
    ]


def test_choose_pairs() -> None:
    """A pair that most clauses have is worth a look; one that few have is not."""
    clause = np.repeat(np.arange(300, dtype=np.int32), 3)
    attribute = np.array([(0, 1, 2 + n % 30) for n in range(300)], np.int32).reshape(-1)
    share = np.full(900, 1 / 35)
    assert choose_pairs(clause, attribute, share, 10_000) == [(0, 1)]
    assert choose_pairs(clause[:9], attribute[:9], share[:9], 3) == []
    assert choose_pairs(clause[:0], attribute[:0], share[:0], 100) == []
