"""A cluster whose engine is a matcher of the papers."""

from __future__ import annotations

import pytest

from pubsub_cluster import Cluster
from pubsub_cluster.benchmarks import systems
from pubsub_cluster.language.errors import ExpressionError, ProtocolError

pytestmark = pytest.mark.cluster


def test_a_matcher_over_the_socket() -> None:
    with Cluster(shards=2, replicas=1, engine="s-tree") as cluster, cluster.client() as client:
        assert client.status()["engine"] == "s-tree"
        for number in range(50):
            client.subscribe(f"x BETWEEN {number} AND {number + 10}", id=f"{number:02d}")
        with pytest.raises(ExpressionError, match="engine s-tree cannot hold"):
            client.subscribe("EXISTS y", id="other")
        found = client.publish([{"x": 20.5}, {"x": 1000}, {"y": 1}], ids=True)
        assert [found.ids_of(event) for event in range(3)] == [[f"{n:02d}" for n in range(11, 21)], [], []]
        client.update("15", "x BETWEEN 999 AND 1001")
        client.unsubscribe("16")
        found = client.publish([{"x": 20.5}, {"x": 1000}], ids=True)
        assert found.ids_of(0) == ["11", "12", "13", "14", "17", "18", "19", "20"]
        assert found.ids_of(1) == ["15"]
        with pytest.raises(ProtocolError, match="is not tuned"):
            client.tune_now()
        with pytest.raises(ProtocolError, match="takes no backup over"):
            client.restore("nothing")
        assert client.verify()["differences"] == 0


@pytest.mark.slow
def test_matchers_are_compared_as_systems() -> None:
    figures = systems.measure(["layout", "quarantining", "naive"], 200, 1)
    assert [one.figure for one in figures] == ["layout", "quarantining", "naive"]
    assert all(one.value > 0 for one in figures)
