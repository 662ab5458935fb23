"""What operators see of a live cluster: unmatched events, and counters."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from clusters import next_generation

from pubsub_cluster import Client, Cluster
from pubsub_cluster.cli.main import cli
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
    with client.listen_unmatched(timeout_s=60.0) as unmatched:
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


def test_matches_are_counted_for_subscriptions_and_owners(cluster: Cluster, client: Client) -> None:
    client.subscribe_many(
        [{"id": f"count-{n}", "expr": f"n >= {n}", "owner": "ann" if n < 2 else "bob"} for n in range(4)]
    )
    with client.listen("ann", timeout_s=60.0) as told:
        client.publish([{"n": 0}, {"n": 1}, {"n": 2}])
        client.publish([{"n": 3}], answer="none")
        assert [len(next(told).handles) for _ in range(4)] == [1, 2, 2, 2]
    named = client.stats("subscription", [f"count-{n}" for n in (3, 0, 9)])
    assert [(one["id"], one["owner"], one["matches"]) for one in named] == [
        ("count-3", "bob", 1),
        ("count-0", "ann", 4),
    ]
    assert all(abs(one["last_match"] / 1e6 - time.time()) < 300 for one in named)
    client.update("count-0", "n > 100")
    client.unsubscribe("count-1")
    client.publish([{"n": 101}])
    most = client.stats("subscription", top=2)
    assert [(one["id"], one["matches"]) for one in most] == [("count-0", 5), ("count-2", 3)]
    next_generation(client)
    assert client.stats("subscription", ["count-0"])[0]["matches"] == 5
    ann, bob, nobody = client.stats("owner", ["ann", "bob", "nobody"])
    assert (ann["subscriptions"], ann["matches"], ann["notifications"]) == (1, 5, 4)
    assert ann["bytes_sent"] > 400 and ann["wasted_receipts"] == ann["dropped"] == 0
    assert (bob["subscriptions"], bob["matches"], bob["notifications"]) == (2, 5, 0)
    assert nobody["last_match"] is None and nobody["subscriptions"] == 0
    assert [one["owner"] for one in client.stats("owner")] == ["ann"]
    assert client.stats("group") == []
    for wrong in ({"kind": "all"}, {"kind": "owner", "top": 0}, {"kind": "owner", "names": "ann"}):
        with pytest.raises(ProtocolError):
            run(client._session.ask(Op.STATS, wrong))
    the_command_shows_them(["--data", str(cluster.data_dir)])


def the_command_shows_them(data: list[str]) -> None:
    runner = CliRunner()
    shown = runner.invoke(cli, ["stats", "subscription", "count-0", *data])
    assert shown.exit_code == 0 and "last match" in shown.output and "count-0" in shown.output
    found = runner.invoke(cli, ["stats", "owner", "bob", "--json", *data])
    assert json.loads(found.stdout)[0]["matches"] == 5
    assert "Nothing is counted" in runner.invoke(cli, ["stats", "group", "7", *data]).output
    assert (
        runner.invoke(cli, ["listen", *data]).exit_code
        == runner.invoke(cli, ["stats", "all", *data]).exit_code
        == 2
    )
