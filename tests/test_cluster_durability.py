"""A running cluster's snapshots, backups and verification, and starts from what they leave."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest
from clusters import wait_until

from pubsub_cluster import Client, Cluster
from pubsub_cluster.coordinator.store import STORE_FILE
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.shm.owner import SHM_DIRECTORY

KEEPER_WAIT_S_MAX = 180.0  # it has the lowest priority of all
pytestmark = pytest.mark.cluster
SNAPSHOT_AFTER = 500
COUNT = SNAPSHOT_AFTER + 200


def matched(client: Client, value: int) -> int:
    return len(client.publish([{"x": value}])[0])


def snapshot_version(client: Client) -> int:
    return int(client.status()["durable"]["snapshot_version"])


def test_what_is_durable_comes_back_from_snapshot_and_backup(tmp_data_dir: Path) -> None:
    data_dir, backup = tmp_data_dir / "data", tmp_data_dir / "backup"
    cluster = Cluster(data_dir, snapshot_after=SNAPSHOT_AFTER)
    with cluster, cluster.client() as client:
        client.subscribe_many([{"id": f"n{i}", "expr": f"x = {i % 100}"} for i in range(COUNT)])
        client.unsubscribe_many([f"n{i}" for i in range(0, COUNT, 100)])
        wait_until(lambda: snapshot_version(client) > 0, "a snapshot", KEEPER_WAIT_S_MAX)
        version = snapshot_version(client)
        client.subscribe("x = 0", id="later", valid_until=1 << 60, metadata={"title": "t"})
        before = client.status()

        # A backup is of one version, whatever is changed meanwhile.
        churn = threading.Thread(target=_churn, args=(cluster,))
        churn.start()
        told = client.backup(backup)
        churn.join(120.0)
        assert told["subscriptions"] in range(before["subscriptions"], before["subscriptions"] + 201)
        assert backup.stat().st_mode & 0o77 == 0

        # The coordinator comes back from the snapshot and the changes after it.
        cluster.kill()
        cluster.start()
        assert snapshot_version(client) == version
        assert matched(client, 0) == 1 and matched(client, 7) == (COUNT - 7 + 99) // 100
        found = client.verify(300)
        assert (found["differences"], found["compared"]) == (0, 300) and found["matches"] > 0

        (known,) = client.describe_many(["n7"], expressions=True)
        assert isinstance(known, dict) and known["expr"] == "x = 7", "rows of a snapshot know their changes"

        # A restore replaces everything, also what was made after the backup.
        client.subscribe("x = 7", id="gone")
        handle = client.subscribe("x = 7").handle
        backup.with_name("damaged").write_bytes(backup.read_bytes()[:-1])
        with pytest.raises(StoreError, match="cut short"):
            client.restore(backup.with_name("damaged"))
        life, now = client.hello()["life"], client.status()
        at = now["version"]
        assert client.restore(backup)["subscriptions"] == told["subscriptions"]
        with cluster.client() as other:  # a connection remembers what it was greeted with
            assert other.hello()["life"] != life
        maps = Path(f"/proc/{now['pid']}/maps").read_text().splitlines()
        left = [line for line in maps if SHM_DIRECTORY in line and line.endswith("(deleted)")]
        assert not left, "the segments of the life before take no room"
        assert client.status()["version"] == at + 1
        assert matched(client, 7) == (COUNT - 7 + 99) // 100
        (later, *_) = client.describe_many(["later", "n7"], expressions=True)
        assert isinstance(later, dict)
        assert (later["metadata"], later["valid_until"], later["expr"]) == ({"title": "t"}, 1 << 60, "x = 0")
        assert client.subscribe("x = 7").handle > handle, "a handle is never given twice"
        assert client.verify(300)["differences"] == 0

        # What is wrong in the change table is found.
        with sqlite3.connect(data_dir / STORE_FILE) as connection:
            connection.execute(
                "DELETE FROM changes WHERE first_version = (SELECT min(first_version) FROM changes)"
            )
        connection.close()
        assert client.verify(0)["differences"] > 0


def _churn(cluster: Cluster) -> None:
    with cluster.client() as client:
        for number in range(200):
            client.subscribe("x = 500", id=f"churn{os.getpid()}-{number}")
