"""What operators see of a live cluster: unmatched events, and counters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pubsub_cluster import Client, Cluster
from pubsub_cluster.client.blocking import run
from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.protocol import Op

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as found:
        yield found


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with cluster.client() as found:
        yield found


def test_events_that_match_nobody_are_told(client: Client) -> None:
    client.subscribe("x = 1", id="unmatched-one")
    with client.listen_unmatched(timeout_s=5.0) as unmatched:
        client.publish([{"x": 1}, {"x": 2}, {"x": 10**30}, {"y": "tea"}], batch_id="b1")
        client.publish([{"x": 1}], answer="none")
        client.publish({"x": [1, 5]}, batch_id="b2")
        found = [next(unmatched) for _ in range(3)]
        assert [(one.batch_id, one.event_index, one.event) for one in found] == [
            ("b1", 1, {"x": 2}),
            ("b1", 3, {"y": "tea"}),
            ("b2", 1, {"x": 5}),
        ]
        assert {(one.owner, one.handles, one.ids, one.dropped) for one in found} == {("", (), (), 0)}
        assert client.status()["unmatched_listeners"] == 1
        for wrong in ({"unmatched": False}, {"unmatched": True, "owner": "ann"}, {}, {"owner": ""}):
            with pytest.raises(ProtocolError):
                run(client._session.ask(Op.LISTEN, wrong))
    assert client.status()["unmatched_listeners"] == 0
    client.unsubscribe("unmatched-one")
