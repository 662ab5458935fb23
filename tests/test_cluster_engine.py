"""A cluster whose engine is a matcher of the papers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from clusters import wait_until
from matching_cases import raw_batch

from pubsub_cluster import Client, Cluster
from pubsub_cluster.algorithms.registry import make_matcher
from pubsub_cluster.benchmarks import systems
from pubsub_cluster.language.errors import ExpressionError, ProtocolError
from pubsub_cluster.language.text_form import parse_text

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(shards=2, replicas=1, engine="s-tree") as found:
        yield found


def test_a_matcher_over_the_socket(cluster: Cluster) -> None:
    with cluster.client() as client:
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
        client.unsubscribe_many([f"{number:02d}" for number in range(50) if number != 16])


def test_workers_are_killed_under_load(cluster: Cluster) -> None:
    """Every answer is the naive matcher's: a new worker has all that was acknowledged before the batch."""
    naive, ids = make_matcher("naive"), dict[int, str]()
    events = [{"x": x, "y": -x} for x in range(60)]
    batch = raw_batch([{name: (value,) for name, value in event.items()} for event in events])

    def check(client: Client) -> None:
        told, expected = client.publish(events, ids=True), naive.match(batch)
        for event in range(len(events)):
            assert told.ids_of(event) == [ids[handle] for handle in expected.of(event).tolist()]

    with cluster.client() as client:
        killer = threading.Thread(target=_kill_each_worker, args=(cluster,))
        killer.start()
        number = 0
        try:
            while killer.is_alive() or number < 40:
                text = f"x BETWEEN {number % 50} AND {number % 50 + 3} AND y < {-(number % 7)}"
                handle = client.subscribe(text, id=f"k{number}").handle
                naive.insert(handle, parse_text(text))
                ids[handle] = f"k{number}"
                if number % 3 == 2:
                    gone = next(iter(ids))
                    client.unsubscribe(ids.pop(gone))
                    naive.delete(gone)
                check(client)
                number += 1
        finally:
            killer.join(60.0)
        counters = client.status()["counters"]
        assert counters["worker_restarts"] >= 2 and counters["batches_refused"] == 0


def _kill_each_worker(cluster: Cluster) -> None:
    with cluster.client() as client:
        for killed in range(2):
            os.kill(client.status()["workers"][killed]["pid"], signal.SIGKILL)
            wait_until(
                lambda: (
                    client.status()["counters"]["worker_restarts"] > killed  # noqa: B023
                    and all(worker["ready"] for worker in client.status()["workers"])
                ),
                "the worker is back",
            )


@pytest.mark.slow
def test_matchers_are_compared_as_systems() -> None:
    figures = systems.measure(["layout", "quarantining", "naive"], 200, 1)
    assert [one.figure for one in figures] == ["layout", "quarantining", "naive"]
    assert all(one.value > 0 for one in figures)
