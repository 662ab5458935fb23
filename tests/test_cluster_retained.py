"""Retained events in a live cluster: the vectors, the order of things, the death of the process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from click.testing import CliRunner
from clusters import WAIT_S_MAX, wait_until
from test_workers_retained import VECTORS, run_retained

from pubsub_cluster import Client, Cluster
from pubsub_cluster.cli.main import cli
from pubsub_cluster.language.errors import PubSubError

END = 1_000_000
pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(injected_clock=True) as running:
        yield running


class Live:
    """A client as what `run_retained` wants; its time goes on from vector to vector."""

    def __init__(self, client: Client, start: int) -> None:
        self._client, self._start = client, start
        self._live: set[str] = set()

    def publish(self, events: list[Any], at: int, valid_until: int | None) -> list[Any]:
        end = None if valid_until is None else self._start + valid_until
        matches = self._client.publish(events, ids=True, at=self._start + at, valid_until=end)
        return [
            matches.refused[number] if number in matches.refused else sorted(matches.ids_of(number))
            for number in range(len(events))
        ]

    def subscribe(self, step: dict[str, Any]) -> list[int]:
        window = {name: self._start + step[name] for name in ("valid_from", "valid_until") if name in step}
        made = self._client.subscribe(step["expr"], id=step["id"], **window)
        self._live.add(step["id"])
        assert made.retained.count == len(made.retained.events)
        return [told["event"]["n"] for told in made.retained.events]

    def update(self, step: dict[str, Any]) -> None:
        assert self._client.update(step["id"], step["expr"]).retained.count == 0

    def unsubscribe(self, step: dict[str, Any]) -> None:
        self._client.unsubscribe(step["id"])
        self._live.discard(step["id"])

    def clean(self) -> None:
        self._client.unsubscribe_many(self._live)


def test_the_cluster_gives_the_answers_of_the_vectors(cluster: Cluster) -> None:
    with cluster.client() as client:
        for number, vector in enumerate(VECTORS):
            live = Live(client, 10_000 * number)
            run_retained(vector, live)
            live.clean()


def test_what_is_told_and_how_much_of_it(cluster: Cluster) -> None:
    with cluster.client(publisher="ann") as client:
        client.publish([{"k": 1}, {"k": float("nan")}, {"k": 2}], at=END, batch_id="b1", valid_until=END + 50)
        client.publish({"k": [3, 4]}, batch_id="b2", valid_until=END + 60)
        made = client.subscribe("k > 0", id="k", retained=2)
        assert made.retained.count == 4
        assert [told["event"] for told in made.retained.events] == [{"k": 3}, {"k": 4}]
        told = made.retained.events[0]
        assert (told["publisher"], told["batch_id"], told["event_index"]) == ("ann", "b2", 0)
        assert (told["accepted_at"], told["valid_until"]) == (END, END + 60)
        first, none = client.subscribe_many([{"expr": "k = 2"}, {"expr": "k = 7"}])
        assert first.retained.events[0]["event_index"] == 2  # type: ignore[union-attr]
        assert none.retained.count == 0  # type: ignore[union-attr]
        assert client.subscribe("k > 0", id="blind", retained=0).retained.count == 0
        with pytest.raises(PubSubError, match="retained"):
            client.subscribe("k > 0", id="greedy", retained=1_001)
        with pytest.raises(PubSubError, match="valid_until"):
            client.publish([{}], valid_until=1.5)  # type: ignore[arg-type]


def test_a_death_loses_events_and_keeps_nobody_waiting(cluster: Cluster) -> None:
    with cluster.client() as client:
        client.publish([{"d": 1}], valid_until=2 * END)
        wait_until(lambda: client.status()["retained"]["events"] > 0, "the event is retained")
        before = client.status()["retained"]
        os.kill(before["pid"], signal.SIGSTOP)  # what is asked meanwhile waits for it
        subscriptions = client.status()["subscriptions"]
        with cluster.client() as other, ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(other.subscribe, "d = 1", id="d1")
            try:
                wait_until(lambda: client.status()["subscriptions"] > subscriptions, "it is made")
                client.subscribe("d = 3", id="d3", retained=0)
                assert client.publish([{"d": 1}], ids=True).ids_of(0) == ["d1"]
                assert not waiting.done()
            finally:
                os.kill(before["pid"], signal.SIGKILL)
            retained = waiting.result(WAIT_S_MAX).retained
        assert retained.count is None and "died" in str(retained.error)
        assert client.status()["retained"]["lost"] >= before["events"]
        client.publish([{"d": 2}], valid_until=2 * END)
        assert [t["event"] for t in client.subscribe("d > 0", id="d").retained.events] == [{"d": 2}]


def test_the_commands_tell_of_retained_events(cluster: Cluster) -> None:
    data = ["--data", str(cluster.data_dir)]
    until = ["--valid-until", "2100-01-01T00:00:00Z"]
    done = CliRunner().invoke(cli, ["publish", "-", *until, *data], input='{"c": "tea"}\n{"c": "no"}\n')
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(cli, ["subscribe", 'c = "tea"', "--id", "c1", *data])
    assert '{"c":"tea"}' in done.output and "1 retained event" in done.output
    done = CliRunner().invoke(cli, ["subscribe", 'c = "tea"', "--id", "c2", "--json", *data])
    told = json.loads(done.stdout)["retained"]
    assert (told["count"], told["events"][0]["event"]) == (1, {"c": "tea"})
    done = CliRunner().invoke(
        cli, ["subscribe", 'c = "tea"', "--id", "c3", "--retained", "0", "--json", *data]
    )
    assert "retained" not in json.loads(done.stdout)
