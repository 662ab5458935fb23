"""What happens to real processes: killed, restarted, refused a place, stopped; and nothing is left."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters import next_generation, wait_until

from pubsub_cluster import Attribute, Client, Cluster, Schema, attr
from pubsub_cluster.coordinator.backend import WORKER_NICENESS
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.language.errors import StartError, StoreError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.shm.owner import list_segments

pytestmark = pytest.mark.cluster
EVENTS_PER_BATCH = 200


def subscribe_numbers(client: Client, count: int) -> None:
    """Subscription i matches the events with x = i."""
    client.subscribe_many(
        [{"id": f"n{i}", "expr": {"attr": "x", "op": "=", "value": i}} for i in range(count)]
    )


def batches(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"x": np.arange(EVENTS_PER_BATCH) % (5 + number % 7)}


@pytest.fixture
def cluster(tmp_data_dir: Path) -> Iterator[Cluster]:
    with Cluster(tmp_data_dir) as found:
        yield found


def test_a_killed_worker_changes_nothing_but_the_count_of_restarts(tmp_data_dir: Path) -> None:
    with Cluster(tmp_data_dir, shards=2) as cluster, cluster.client() as client:
        subscribe_numbers(client, 6)
        next_generation(client)
        expected = [[len(found) for found in matches] for matches in client.publish_stream(batches(40))]
        killer = threading.Thread(target=_kill_workers_for_a_while, args=(cluster, 3))
        killer.start()
        try:
            for _ in range(6):
                found = [[len(f) for f in matches] for matches in client.publish_stream(batches(40))]
                assert found == expected
        finally:
            killer.join(110.0)
        wait_until(lambda: all(worker["ready"] for worker in client.status()["workers"]), "workers are back")
        assert client.status()["counters"]["worker_restarts"] >= 3
        pids: Any = cluster.pids()
        ahead = os.getpriority(os.PRIO_PROCESS, pids["coordinator"])
        for pid in pids["workers"]:  # or events would leave the coordinator too little time for changes
            assert os.getpriority(os.PRIO_PROCESS, pid) == min(ahead + WORKER_NICENESS, 19)
        assert client.status()["counters"]["batches_refused"] == 0


def test_nothing_is_imported_from_the_working_directory(
    tmp_path: Path, tmp_data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("zmq", "logging", "queue"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('an operator had a file of that name')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep, prepend=os.pathsep)  # ends in an empty entry
    with Cluster(tmp_data_dir) as cluster, cluster.client() as client:
        assert client.publish([{"a": 1}]).counts.tolist() == [0]


def _kill_workers_for_a_while(cluster: Cluster, count: int) -> None:
    with cluster.client() as client:
        for turn in range(count):
            worker = client.status()["workers"][turn % 2]
            os.kill(worker["pid"], signal.SIGKILL)
            # Not sooner than it is back: a batch whose shard loses two workers in a row is refused, rightly.
            wait_until(
                lambda: (
                    client.status()["counters"]["worker_restarts"] > turn  # noqa: B023
                    and all(worker["ready"] for worker in client.status()["workers"])
                ),
                "the worker is back",
            )


def test_a_killed_tuner_comes_back_and_builds(cluster: Cluster) -> None:
    with cluster.client() as client:
        subscribe_numbers(client, 3)
        generation = next_generation(client)
        os.kill(client.status()["tuner"]["pid"], signal.SIGKILL)
        assert [len(found) for found in client.publish([{"x": 1}, {"x": 9}])] == [1, 0]
        wait_until(lambda: bool(client.status()["tuner"]["ready"]), "the tuner is back")
        assert next_generation(client) > generation
        assert client.status()["counters"]["tuner_restarts"] == 1


def test_a_killed_coordinator_takes_its_children_along_and_loses_nothing(cluster: Cluster) -> None:
    with cluster.client() as client:
        subscribe_numbers(client, 50)
        client.unsubscribe("n3")
        client.update("n4", "x = 400")
        next_generation(client)
        pids = cluster.pids()
        cluster_id = client.status()["cluster_id"]
        segments = set(list_segments(cluster_id))
        assert segments
        cluster.kill()
        workers = pids["workers"]
        assert isinstance(workers, list)
        for pid in (*workers, pids["tuner"]):
            assert isinstance(pid, int)
            wait_until(lambda pid=pid: not _runs(pid), "children die with their coordinator")  # type: ignore[misc]
        cluster.start()  # another cluster that starts meanwhile may have removed them already
        assert not segments & set(list_segments(cluster_id)), "the dead coordinator's segments are removed"
        # The same client: it reconnects by itself.
        events = [{"x": 3}, {"x": 4}, {"x": 400}, {"x": 49}]
        found = client.publish(events, ids=True)
        assert [found.ids_of(i) for i in range(4)] == [[], [], ["n4"], ["n49"]]
        assert client.subscribe("x = 3").handle > 50, "a handle is never given twice"


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def test_ctrl_c_leaves_nothing(tmp_data_dir: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pubsub_cluster.cli",
        "start",
        "--data",
        str(tmp_data_dir),
        "--shards",
        "2",
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        with Client(tmp_data_dir, timeout_s=60.0) as client:
            wait_until(lambda: (tmp_data_dir / "client.sock").exists(), "the socket")
            wait_until(lambda: all(w["ready"] for w in client.status()["workers"]), "ready")
            cluster_id = client.status()["cluster_id"]
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
        output, _ = process.communicate(timeout=60.0)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, output
    assert "READY" in output
    assert "Traceback" not in output
    assert list_segments(cluster_id) == []
    left = sorted(path.name for path in tmp_data_dir.iterdir())
    assert left == ["catalogue.sqlite", "marks", "outbox.sqlite", "owner.lock"]


def test_a_directory_in_use_is_said_before_anything_starts(cluster: Cluster) -> None:
    with pytest.raises(StartError, match="in use") as caught:
        Cluster(cluster.data_dir).start()
    assert f"pid {cluster.started['pid']}" in str(caught.value)
    with cluster.client() as client:
        client.ping()


def test_too_little_shared_memory_is_said_before_anything_starts(tmp_data_dir: Path) -> None:
    with pytest.raises(StartError, match="shared memory") as caught:
        Cluster(tmp_data_dir, slab_chunks=10_000_000).start()
    assert caught.value.remedy
    assert not (tmp_data_dir / "client.sock").exists()


def test_a_directory_open_to_others_is_refused(tmp_data_dir: Path) -> None:
    tmp_data_dir.chmod(0o755)
    with pytest.raises(StartError, match="mode"):
        Cluster(tmp_data_dir).start()


def test_a_damaged_store_is_said_and_not_touched(tmp_data_dir: Path) -> None:
    store = tmp_data_dir / "catalogue.sqlite"
    store.write_bytes(b"not a database" * 1_000)
    with pytest.raises(StoreError):
        Cluster(tmp_data_dir).start()
    assert store.read_bytes() == b"not a database" * 1_000


def test_a_worker_that_hangs_is_replaced(tmp_data_dir: Path) -> None:
    with Cluster(tmp_data_dir, task_timeout_s=1.0) as cluster, cluster.client() as client:
        subscribe_numbers(client, 3)
        os.kill(client.status()["workers"][0]["pid"], signal.SIGSTOP)
        assert [len(found) for found in client.publish([{"x": 1}, {"x": 9}])] == [1, 0]
        assert client.status()["counters"]["worker_restarts"] >= 1


def test_settings_travel_to_the_coordinator(tmp_data_dir: Path) -> None:
    limits = Limits(events_per_batch_max=7)
    config = ClusterConfig(tmp_data_dir, shards=3, replicas=2, limits=limits, pin=False)
    assert ClusterConfig.from_json(config.to_json()) == config
    with pytest.raises(StartError):
        ClusterConfig(tmp_data_dir, shards=0)


def test_replicas_share_the_batches(tmp_data_dir: Path) -> None:
    with Cluster(tmp_data_dir, shards=1, replicas=2) as cluster, cluster.client() as client:
        client.subscribe(attr("x") >= 0)
        sent = itertools.count(1)

        def tasks() -> list[int]:
            return [worker["tasks"] for worker in client.status()["workers"]]

        def both_have_worked() -> bool:  # the first is enough where it is done before the next batch comes
            for matches in client.publish_stream(batches(60), in_flight=4):
                assert matches.match_count == EVENTS_PER_BATCH
            count = 60 * next(sent)
            wait_until(
                lambda: sum(tasks()) == count, "every task is counted"
            )  # answered before it is counted
            return min(tasks()) > 0

        wait_until(both_have_worked, "both replicas get batches")


def test_starts_in_a_row_find_what_was_there_and_its_schema(tmp_data_dir: Path) -> None:
    schema = Schema((Attribute("when", "timestamp"),), closed=True)
    event = {"when": "2013-01-01T01:30:00+02:00"}
    with Cluster(tmp_data_dir, schema=schema) as cluster, cluster.client() as client:
        client.subscribe('when > "2013-01-01T00:00:00Z"')
        client.subscribe("when exists")
        assert len(client.publish([event])[0]) == 1
    with Cluster(tmp_data_dir) as cluster, cluster.client() as client:
        assert len(client.publish([event])[0]) == 1
        assert sorted(client.publish([{"whne": 3}]).refused) == [0]
        client.subscribe("when exists")
    with pytest.raises(StartError, match="another schema") as caught:
        Cluster(tmp_data_dir, schema=Schema((Attribute("when", "string"),))).start()
    assert caught.value.seen == ["(closed)", "when"]
    with Cluster(tmp_data_dir, schema=schema) as cluster, cluster.client() as client:
        assert len(client.publish([event])[0]) == 2


@pytest.mark.parametrize(
    "setting",
    [{"result_slot_bytes": -1}, {"retune_interval_s": -1.0}, {"task_timeout_s": 0.0}, {"slab_chunks": 1}],
)
def test_settings_that_cannot_work_are_refused(tmp_data_dir: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(StartError, match=next(iter(setting))):
        ClusterConfig(tmp_data_dir, **setting)
    with pytest.raises(StartError, match="events_per_batch_max"):
        ClusterConfig(tmp_data_dir, limits=Limits(events_per_batch_max=-5))
