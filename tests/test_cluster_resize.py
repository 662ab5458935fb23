"""Another number of workers under load: every batch answered once, and right, and nothing left behind."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from clusters import WAIT_S_MAX, wait_until

from pubsub_cluster import Cluster
from pubsub_cluster.client.blocking import run
from pubsub_cluster.coordinator.backend import WORKER_NICENESS
from pubsub_cluster.language.errors import ClusterError, LimitError, ProtocolError
from pubsub_cluster.language.protocol import Op
from pubsub_cluster.shm.owner import list_segments, parse_name

pytestmark = pytest.mark.cluster
SHAPES = ((2, 2), (1, 1))
SUBSCRIPTIONS = 60
PAUSE_S = 0.02
"""Between two batches: always one is on its way or about to be, and workers find time to start."""
EVENTS = [{"a": number} for number in range(20)]
EXPECTED = [number % 20 * 3 for number in range(20)]  # of `a > n`, n = 0, 0, 0, 1, 1, 1 ...


class Load:
    """A publisher that goes on until it is told to stop; what it sees is checked at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.batches = 0
        self.error: BaseException | None = None
        self.longest_s = 0.0

    def _run(self) -> None:
        try:
            with self._cluster.client() as client:
                while not self._stop.is_set():
                    begin = time.monotonic()
                    assert client.publish(EVENTS, answer="counts").counts.tolist() == EXPECTED
                    self.longest_s = max(self.longest_s, time.monotonic() - begin)
                    self.batches += 1
                    time.sleep(PAUSE_S)
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S_MAX)
        assert not self._thread.is_alive()


def test_resize_under_load() -> None:
    with Cluster(shards=1, replicas=1) as cluster, cluster.client() as client:
        client.subscribe_many([{"expr": f"a > {number // 3}"} for number in range(SUBSCRIPTIONS)])
        assert client.publish(EVENTS, answer="counts").counts.tolist() == EXPECTED
        with Load(cluster) as load:
            wait_until(lambda: load.batches > 0 or load.error is not None, "the first batch")
            for shards, replicas in SHAPES:
                before = load.batches
                found = client.resize(shards, replicas)
                assert (found["shards"], found["replicas"]) == (shards, replicas)
                assert [worker["ready"] for worker in found["workers"]] == [True] * (shards * replicas)
                pids = [worker["pid"] for worker in found["workers"]]
                nice = {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids}
                assert nice == {min(os.getpriority(os.PRIO_PROCESS, 0) + WORKER_NICENESS, 19)}, (
                    "they are started behind others, and then are not"
                )
                wait_until(lambda: load.batches > before + 1 or load.error is not None, "the next batch")  # noqa: B023
            # Given up before it is over, and one whose worker dies on the way.
            client.resize(2, 1, wait=False)
            found = client.resize(1, 1)
            assert found["resizing"] is None and len(found["workers"]) == 1
            with cluster.client() as other, pytest.raises(ClusterError, match="taken the place of this one"):
                client.resize(2, 1, on_look=lambda _: other.resize(1, 1, wait=False))
            starting = client.resize(2, 1, wait=False)
            pids = [worker["pid"] for worker in starting["workers"] if worker["pid"] and not worker["ready"]]
            for pid in pids[:1]:
                os.kill(pid, signal.SIGKILL)
            found = client.resize(2, 1)
            assert found["shards"] == 2 and len(found["workers"]) == 2
        assert load.error is None
        kinds = [parse_name(name) for name in list_segments(found["cluster_id"])]
        assert sum(kind is not None and kind.kind == "result_slot" for kind in kinds) == 2


def test_a_resize_that_cannot_be_changes_nothing() -> None:
    with Cluster() as cluster, cluster.client() as client:
        with pytest.raises(LimitError, match="too many workers"):
            client.resize(64, 64)
        for wrong in (0, -1, 1.5, "2", None, True):
            with pytest.raises(ProtocolError, match="not an integer above 0"):
                run(client._session.ask(Op.RESIZE, {"shards": wrong, "replicas": 1}))
        found = client.status()
        assert (found["shards"], found["replicas"], len(found["workers"])) == (1, 1, 1)
        assert client.publish([{"a": 1}]).counts.tolist() == [0]
