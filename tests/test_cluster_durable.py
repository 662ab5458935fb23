"""Durable receivers of a live cluster: what is kept while nobody listens, restores, functions, takeovers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clusters import wait_until

from pubsub_cluster import Client, Cluster
from pubsub_cluster.client.listener import Listener
from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.language.errors import ClusterError

pytestmark = pytest.mark.cluster
QUIET_S, TIMEOUT_S = 0.2, 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with cluster.client() as made:
        yield made


def hear(listener: Listener, count: int) -> list[Notification]:
    """Return all that comes; it is waited for so many notifications, and a moment for more."""
    with listener:
        heard = [next(listener) for _ in range(count)]
        listener.timeout_s = QUIET_S
        return heard + list(listener)


def prices(listener: Listener, count: int) -> list[Any]:
    """Return the prices of all that comes."""
    return [notification.event["price"] for notification in hear(listener, count)]


def waiting(client: Client, owner: str) -> int:
    receivers = client.status()["durable_receivers"]["receivers"]
    return sum(receiver["waiting"] for receiver in receivers if receiver["owner"] == owner)


def test_what_nobody_listened_to_is_told_later_in_order_and_once(client: Client) -> None:
    client.listen("ann", durable="a").close()  # before there is a subscription
    client.subscribe("price > 10", owner="ann")
    for price in range(8, 30):
        assert client.publish([{"price": price}, {"price": 1}], answer="counts").match_count == (price > 10)
    assert waiting(client, "ann") == 19
    assert prices(client.listen("ann", durable="a", timeout_s=TIMEOUT_S), 19) == list(range(11, 30))
    wait_until(lambda: waiting(client, "ann") == 0, "all is acknowledged")
    assert prices(client.listen("ann", durable="a"), 0) == []
    assert prices(client.listen("ann", durable="b"), 0) == [], "a new receiver begins now"


def test_live_and_durable_listeners_of_one_owner_in_one_client(client: Client) -> None:
    client.subscribe("price < 0", owner="both")
    live, kept = (
        client.listen("both", timeout_s=TIMEOUT_S),
        client.listen("both", durable="a", timeout_s=TIMEOUT_S),
    )
    client.publish([{"price": -1}])
    assert prices(live, 1) == prices(kept, 1) == [-1]
    client.publish([{"price": -2}])
    assert prices(client.listen("both", durable="a", timeout_s=TIMEOUT_S), 1) == [-2]
    assert client.forget("both", "a") and not client.forget("both", "a")


def test_small_batches_that_travel_together_are_each_answered_when_they_are_kept(client: Client) -> None:
    client.subscribe("n >= 0", owner="many")
    client.listen("many", durable="a").close()
    pending = [client.publish_soon([{"n": n}, {"n": -1}], batch_id=f"soon-{n}") for n in range(200)]
    assert [one.result().match_count for one in pending] == [1] * 200
    inbox = client.listen("many", durable="a", window=7, timeout_s=TIMEOUT_S)
    found = [notification.event["n"] for notification in hear(inbox, 200)]
    assert sorted(found) == list(range(200)) and len(found) == 200


def test_a_function_is_called_and_acknowledges_by_returning(client: Client) -> None:
    client.subscribe("called = TRUE", owner="called")
    heard: list[Any] = []
    listener = client.listen("called", durable="a", on_notification=heard.append)
    client.publish([{"called": True}])
    wait_until(lambda: client.receive(0.05) >= 0 and len(heard) == 1, "the function is called")
    wait_until(lambda: waiting(client, "called") == 0, "it is acknowledged")
    listener.close()


def test_the_later_connection_takes_over_all_that_is_unacknowledged(
    cluster: Cluster,
) -> None:
    with cluster.client() as first, cluster.client() as second:
        first.subscribe("twice = TRUE", owner="twice")
        earlier = first.listen("twice", durable="a", timeout_s=TIMEOUT_S, by_hand=True)
        first.publish([{"twice": True, "price": 5}])
        assert next(earlier).event["price"] == 5
        later = second.listen("twice", durable="a", timeout_s=TIMEOUT_S, by_hand=True)
        assert next(later).event["price"] == 5
        with pytest.raises(ClusterError, match="another connection listens"):
            next(earlier)
        earlier.close()
        later.close()
        with second.listen("twice", durable="a", timeout_s=TIMEOUT_S) as again:
            assert next(again).event["price"] == 5
        wait_until(lambda: waiting(second, "twice") == 0, "it is acknowledged")


def test_a_restore_leaves_receivers_and_what_is_kept_for_them(cluster: Cluster, client: Client) -> None:
    path = cluster.data_dir / "before.backup"
    client.subscribe("restored = TRUE", owner="restored", id="r1")
    client.backup(path)
    client.listen("restored", durable="a").close()
    client.publish([{"restored": True, "price": 1}])
    client.subscribe("restored = TRUE", owner="restored", id="r2")
    client.restore(path)
    client.publish([{"restored": True, "price": 2}])
    inbox = client.listen("restored", durable="a", timeout_s=TIMEOUT_S)
    told = [(one.event["price"], one.ids, one.sequence) for one in hear(inbox, 2)]
    assert told == [(1, ("r1",), 1), (2, ("r1",), 2)]
