"""A list of batches of columns: stacked on their way, and answered as if each had gone alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pubsub_cluster import Cluster
from pubsub_cluster.client import AsyncClient, Client
from pubsub_cluster.client.stacks import PARTS_IN_FLIGHT, STACK_VALUES_MAX
from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import Attribute, Schema

pytestmark = pytest.mark.cluster
MATCHES_MAX = 2_000
IN_FLIGHT = 4 * PARTS_IN_FLIGHT
"""Stacks of four."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        replicas=2,
        limits=Limits(matches_per_batch_max=MATCHES_MAX),
        schema=Schema((Attribute("b", "boolean"),)),
    ) as found:
        with found.client() as client:
            client.subscribe_many([{"expr": f"x = {number}"} for number in range(40)])
            client.subscribe_many([{"expr": "x < 3 and y >= 0"}, {"expr": "y = -1"}])
        yield found


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with cluster.client() as made:
        yield made


def batch(seed: int, event_count: int = 200, **more: Any) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    columns = {name: random.integers(-2, 45, event_count) for name in ("x", "y", "z")}
    return {**columns, **more}


def accepted(client: Client) -> int:
    return int(client.status()["counters"]["batches_accepted"])


def compare(client: Client, batches: list[Any], answer: Any = "handles") -> int:
    """Compare what a list is answered with what each batch is alone; return how many the cluster took."""
    expected = [client.publish(one, answer=answer) for one in batches]
    before = accepted(client)
    found = list(client.publish_stream(batches, in_flight=IN_FLIGHT, answer=answer))
    taken = accepted(client) - before
    assert len(found) == len(batches)
    for mine, alone in zip(found, expected, strict=True):
        assert (mine.event_count, mine.match_count) == (alone.event_count, alone.match_count)
        for name in ("offsets", "handles", "counts"):
            one, other = getattr(mine, name), getattr(alone, name)
            assert (one is None) == (other is None) and np.array_equal(one, other), name
        assert {at: str(error) for at, error in mine.refused.items()} == {
            at: str(error) for at, error in alone.refused.items()
        }
        assert mine.version == alone.version
    return taken


@pytest.mark.parametrize("answer", ["handles", "counts", "none"])
def test_each_batch_has_its_own_answer(client: Client, answer: str) -> None:
    batches = [batch(seed, 100 + seed) for seed in range(10)]
    assert compare(client, batches, answer) == (10 if answer == "none" else 3)  # of 4, 4 and 2


def test_what_cannot_be_stacked_goes_alone_in_its_place(client: Client) -> None:
    odd = [
        [{"x": 1}, {"x": 2, "y": 1}],
        b'{"x": 3}',
        batch(1, z=np.linspace(0.0, 1.0, 200)),
        {"x": np.arange(200)},
    ]
    for place in range(4):
        batches: list[Any] = [batch(seed) for seed in range(4 * len(odd))]
        for number, one in enumerate(odd):
            batches[4 * number + place] = one
        assert compare(client, batches) == len(batches)


def test_refused_events_are_those_of_their_batch(client: Client) -> None:
    """A column of integers is no boolean: each of its events says so, by its own index."""
    batches = [batch(seed, 50, b=np.ones(50, np.int64)) for seed in range(4)]
    assert compare(client, batches) == 1
    for matches in client.publish_stream(batches, in_flight=IN_FLIGHT):
        assert sorted(matches.refused) == list(range(50))
        assert [matches.refused[event].fields["event_index"] for event in range(50)] == list(range(50))


def test_a_stack_that_is_too_much_is_taken_apart(client: Client) -> None:
    """All batches have as many matches as one may have, or one has more: it alone is refused."""
    many = {"x": np.ones(900, np.int64), "y": np.zeros(900, np.int64), "z": np.zeros(900, np.int64)}
    assert compare(client, [many] * 4) == 5, "the stack and each of them"
    more = {name: np.tile(column, 2) for name, column in many.items()}
    stream = client.publish_stream([many, many, more, many], in_flight=IN_FLIGHT)
    assert [len(next(stream)), len(next(stream))] == [900, 900]
    with pytest.raises(LimitError, match="matches too many subscriptions"):
        next(stream)
    assert compare(client, [batch(1), batch(2)]) == 1


def test_stacks_have_a_size(client: Client) -> None:
    event_count = STACK_VALUES_MAX // (3 * 300)
    wide = {f"w{number}": np.zeros(event_count, np.int64) for number in range(300)}
    assert compare(client, [wide] * 8) == 4, "three and one, twice"


def test_without_waiting(cluster: Cluster) -> None:
    """The same for the client of asyncio."""

    async def publish() -> list[int]:
        async with AsyncClient(cluster.data_dir) as client:
            batches = [batch(seed) for seed in range(8)]
            return [one.match_count async for one in client.publish_stream(batches, in_flight=IN_FLIGHT)]

    with cluster.client() as client:
        expected = [client.publish(batch(seed)).match_count for seed in range(8)]
    assert asyncio.run(publish()) == expected
