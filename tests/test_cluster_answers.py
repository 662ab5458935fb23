"""A live cluster of two shards answers as the vectors say and as the naive matcher does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import strategies
from clusters import ClusterAdapter, next_generation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vectors import load_vectors, run_vector

from pubsub_cluster import Attribute, Client, Cluster, Schema
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.json_form import expression_to_json
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.language.schema import EMPTY_SCHEMA

pytestmark = pytest.mark.cluster
SERIAL = itertools.count()
# The names of `strategies.NAMES`, one domain of each kind, one attribute left undeclared.
DECLARED = Schema(
    (
        Attribute("a", "integer"),
        Attribute("b", "string"),
        Attribute("c", "timestamp", unique=True),
        Attribute("d.e", "enumerated", values=strategies.RANKED, ordered=True),
        Attribute("in", "hierarchical", values=strategies.PATHS),
    )
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Cluster(shards=2, injected_clock=True) as cluster, cluster.client() as found:
        yield found


@pytest.fixture(scope="module")
def declared_client() -> Iterator[Client]:
    with Cluster(shards=2, replicas=1, schema=DECLARED) as cluster, cluster.client() as found:
        yield found


@pytest.mark.parametrize("vector", load_vectors(), ids=lambda vector: vector["id"])
def test_vector(client: Client, vector: dict[str, Any]) -> None:
    adapter = ClusterAdapter(client, f"{next(SERIAL)}:", swap_every=3)
    try:
        run_vector(vector, adapter)
    finally:
        adapter.clean()


def check_against_naive(
    client: Client, schema: Schema, expressions: list[Any], events: list[Any], later: int, swaps: set[int]
) -> None:
    """Publish the events one batch at a time while subscriptions come, go and are swapped in."""
    naive = NaiveMatcher(schema)
    prefix = f"{next(SERIAL)}:"
    names = [f"{prefix}{idx}" for idx in range(len(expressions))]
    early, late = names[:later], names[later:]
    for step, added in enumerate((early, late)):
        for name in added:
            expression = expressions[int(name.removeprefix(prefix))]
            client.subscribe(expression_to_json(expression), id=name)
            naive.subscribe(name, expression)
        if step in swaps:
            next_generation(client)
        matches = client.publish(events, ids=True)
        for event_idx, event in enumerate(events):
            try:
                expected = naive.match(event)
            except PubSubError:
                assert event_idx in matches.refused
                continue
            assert event_idx not in matches.refused, matches.refused.get(event_idx)
            assert matches.ids_of(event_idx) == expected
    for name in names:
        client.unsubscribe(name)


SETTINGS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@SETTINGS
@given(data=st.data())
def test_like_the_naive_matcher(client: Client, data: st.DataObject) -> None:
    expressions = data.draw(st.lists(strategies.expressions(), min_size=1, max_size=6))
    events = data.draw(st.lists(strategies.events(refusable=True), min_size=1, max_size=5))
    check_against_naive(
        client,
        EMPTY_SCHEMA,
        expressions,
        events,
        data.draw(st.integers(0, len(expressions))),
        data.draw(st.sets(st.integers(0, 1))),
    )


@SETTINGS
@given(data=st.data())
def test_like_the_naive_matcher_with_declared_domains(declared_client: Client, data: st.DataObject) -> None:
    expressions = data.draw(st.lists(strategies.expressions(DECLARED), min_size=1, max_size=6))
    events = data.draw(st.lists(strategies.events(DECLARED, refusable=True), min_size=1, max_size=5))
    check_against_naive(
        declared_client,
        DECLARED,
        expressions,
        events,
        data.draw(st.integers(0, len(expressions))),
        data.draw(st.sets(st.integers(0, 1))),
    )
