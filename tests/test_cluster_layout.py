"""``start --layout``: an empty data directory begins from a folder, and is a cluster like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import wait_until

from pubsub_cluster import Client, Cluster

pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")
from layout_folders import Row, build_folder

pytestmark = pytest.mark.cluster

COUNT = 50
EVENTS = [{"a": n % 5, "b": n} for n in range(20)]


def rows(count: int = COUNT) -> list[Row]:
    return [
        {
            "id": f"s{n:02d}",
            "owner": ["ann", None][n % 2],
            "expr": f"a = {n % 5} AND b >= {n % 9}",
            "valid_until": 1 if n == 7 else None,
            "metadata": '{"n":3}' if n == 3 else None,
        }
        for n in range(count)
    ]


def expected() -> list[list[str]]:
    """Return the ids for each event; s07 is over."""
    return [
        [f"s{n:02d}" for n in range(COUNT) if n != 7 and n % 5 == event["a"] and event["b"] >= n % 9]
        for event in EVENTS
    ]


def check(client: Client) -> None:
    """The cluster has what the folder had, as if it had been told."""
    found = client.publish(EVENTS, ids=True)
    assert [sorted(found.ids_of(event)) for event in range(len(EVENTS))] == expected()
    assert [(one.id, one.handle, one.expression) for one in client.subscriptions()] == [
        (row["id"], handle, row["expr"]) for handle, row in enumerate(rows(), start=1)
    ]
    (described,) = client.describe_many(["s03"], expressions=True)
    assert isinstance(described, dict)
    assert (described["owner"], described["metadata"]) == ("default", {"n": 3})
    assert client.verify()["differences"] == 0


def test_a_cluster_begins_from_a_folder_and_keeps_what_it_took(tmp_data_dir: Path, tmp_path: Path) -> None:
    build_folder(tmp_path / "layout", rows(), size=20)
    cluster = Cluster(tmp_data_dir, layout=tmp_path / "layout", shards=2)
    with cluster:
        with cluster.client() as client:
            wait_until(lambda: client.status()["generation"] == 1, "the folder's layout is in force")
            check(client)
            assert [one["reason"] for one in client.tune_show()["history"]] == ["layout folder"]
            assert client.tune_show()["layout"]["subscriptions"] == COUNT
            assert client.subscribe("a = 1", id="new").handle == COUNT + 1
            client.unsubscribe("new")
            assert client.backup(tmp_path / "backup")["subscriptions"] == COUNT
        cluster.kill()
        build_folder(tmp_path / "layout", rows(3))  # another build: it goes on with what is its own
        cluster.start()
        with cluster.client() as client:
            check(client)
            assert client.subscribe("a = 1", id="later").handle == COUNT + 2
            assert client.restore(tmp_path / "backup")["subscriptions"] == COUNT
        with cluster.client() as client:
            check(client)
