"""A matcher of the papers in the place of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import events as any_events
from strategies import expressions as any_expressions

from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.engine_language import check_stored, limits_of, reader_of
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.language.batch import decode_payload, payload_from_dicts
from pubsub_cluster.language.denormalise import expression_of
from pubsub_cluster.language.errors import ExpressionError, LimitError, StartError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import compile_expression
from pubsub_cluster.language.normal_truth import form_holds
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader, CatalogueWriter
from pubsub_cluster.workers.matcher_engine import MatcherEngine
from pubsub_cluster.workers.visible import Visibility

SCHEMA = Schema.from_json(
    {
        "attributes": [
            {"name": "at", "domain": "timestamp"},
            {"name": "kind", "domain": "hierarchical", "values": ["a/b", "a/c", "d"]},
            {"name": "x", "domain": "float", "unique": True},
        ]
    }
)
EVENTS = [{"x": 1.5, "kind": "a/b"}, {"x": 7, "kind": "d"}, {"at": "2026-01-01T00:00:00Z", "y": ["t", 3]}, {}]


class Live:
    """A registry with an engine beside it, of `shards` parts."""

    def __init__(self, name: str, shards: int) -> None:
        config = ClusterConfig(Path("unused"), engine=name, schema=SCHEMA)
        self.registry = Registry(
            CatalogueWriter.in_memory(1 << 12), SCHEMA, limits_of(config), reader_of(config)
        )
        self.reader = CatalogueReader.of(self.registry.catalogue)
        self.engines = [MatcherEngine(self.reader, SCHEMA, DEFAULT_LIMITS, name) for _ in range(shards)]
        for engine in self.engines:
            engine.warm_up()

    def change(self, what: str, item: Any) -> None:
        getattr(self.registry, f"stage_{what}")(item)
        self.registry.apply(1)

    def now(self) -> tuple[CatalogueCounts, int]:
        """What a batch that is accepted now is bound to."""
        return self.registry.catalogue.counts(), self.registry.version

    def held(self) -> set[int]:
        """Rows in the matchers, which are naive ones."""
        return {row for engine in self.engines for row in engine._matcher._tests}  # type: ignore[attr-defined]

    def match(self, moment: tuple[CatalogueCounts, int] | None = None) -> list[list[str]]:
        """Ids that each of `EVENTS` matches, as of a moment."""
        counts, version = moment or self.now()
        payload, found = payload_from_dicts(EVENTS), [list[str]() for _ in EVENTS]
        for shard, engine in enumerate(self.engines):
            batch = engine.read(payload.header, payload.buffers)
            result = engine.match_batch(batch, 0, counts, shard, len(self.engines), version)
            result = Visibility(self.reader).keep(result, counts, version, 0, batch.refused)
            for event, mine in enumerate(found):
                rows = result.rows[result.event_offsets[event] : result.event_offsets[event + 1]]
                mine += [self.reader.subscription_id(row) for row in rows.tolist()]
        return [sorted(mine) for mine in found]


@pytest.mark.parametrize("shards", [1, 2])
def test_live_changes(shards: int) -> None:
    live = Live("naive", shards)
    live.change("subscribe", {"id": "low", "expr": "x < 5"})
    live.change("subscribe", {"id": "under", "expr": 'kind UNDER "a"'})
    live.change("subscribe", {"id": "instant", "expr": 'at < "2026-02-01T00:00:00Z"'})
    live.change("subscribe", {"id": "none", "expr": "NOT EXISTS x"})
    before = [["low", "under"], [], ["instant", "none"], ["none"]]
    assert live.match() == before
    moment, held = live.now(), live.held()
    assert len(held) == 4
    live.change("update", {"id": "low", "expr": "x > 5"})
    live.change("unsubscribe", "none")
    assert live.match() == [["under"], ["low"], ["instant"], []]
    assert len(live.held()) == 3 and len(live.held() & held) == 2  # removed rows are given up
    assert live.match(moment) == before  # a batch of before, of a worker that died
    assert live.match() == [["under"], ["low"], ["instant"], []]


def test_many_at_once_and_a_narrow_language() -> None:
    live = Live("s-tree", 1)
    for number in range(1_200):
        live.change("subscribe", {"id": f"{number:04d}", "expr": f"x BETWEEN {number} AND {number + 1}"})
    assert live.match() == [["0001"], ["0006", "0007"], [], []]
    with pytest.raises(ExpressionError, match="engine s-tree cannot hold the subscription: "):
        live.change("subscribe", {"id": "other", "expr": 'y MATCHES "a+"'})
    live.change("unsubscribe", "0001")
    assert live.match()[0] == []


def test_too_many_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pubsub_cluster.coordinator.engine_language.ENGINE_SUBSCRIPTIONS_MAX", 2)
    live = Live("naive", 1)
    for number in range(2):
        live.change("subscribe", {"id": str(number), "expr": "x < 5"})
    with pytest.raises(LimitError, match="live subscriptions"):
        live.change("subscribe", {"id": "2", "expr": "x < 5"})


def test_a_start_with_what_the_engine_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(CatalogueWriter.in_memory(1 << 10), SCHEMA, DEFAULT_LIMITS)
    for name, expression in (("good", "x BETWEEN 1 AND 2"), ("bad", 'y MATCHES "a+"')):
        registry.stage_subscribe({"id": name, "expr": expression})
        registry.apply(1)
    check_stored(ClusterConfig(Path("unused"), schema=SCHEMA), registry)
    check_stored(ClusterConfig(Path("unused"), schema=SCHEMA, engine="naive"), registry)
    narrow = ClusterConfig(Path("unused"), schema=SCHEMA, engine="s-tree")
    with pytest.raises(StartError, match="cannot hold a stored subscription") as refused:
        check_stored(narrow, registry)
    assert refused.value.seen == "bad"
    registry.stage_unsubscribe("bad")
    registry.apply(1)
    check_stored(narrow, registry)
    monkeypatch.setattr("pubsub_cluster.coordinator.engine_language.ENGINE_SUBSCRIPTIONS_MAX", 0)
    with pytest.raises(StartError, match="too many subscriptions for the engine"):
        check_stored(narrow, registry)


def test_engines_are_named() -> None:
    with pytest.raises(StartError, match="no such engine") as refused:
        ClusterConfig(Path("unused"), engine="s_tree")
    assert refused.value.remedy == "Did you mean 's-tree'?"
    with pytest.raises(StartError, match="layout folder"):
        ClusterConfig(Path("unused"), engine="naive", layout=Path("unused"))


@given(any_expressions(), st.lists(any_events(), max_size=5))
def test_a_normal_form_as_an_expression_says_the_same(
    expression: Expression, events: list[dict[str, Any]]
) -> None:
    form = normalise(expression, Schema(), DEFAULT_LIMITS)
    again = normalise(expression_of(form), Schema(), DEFAULT_LIMITS)
    assert set(again.predicates) == set(form.predicates)  # they may stand in another order
    for event in events:
        values = flatten_event(event)
        assert form_holds(again, values) == form_holds(form, values)
        assert compile_expression(expression_of(form))(values) == form_holds(form, values)


def test_raw_batches_are_what_matchers_take() -> None:
    payload = payload_from_dicts(EVENTS)
    raw = decode_payload(payload.header, payload.buffers, SCHEMA)
    assert raw.attributes["kind"].numbers is not None
    assert np.array_equal(raw.attributes["kind"].numbers.event, [0, 1])
