"""What makes a batch poison: workers that died while they matched it, and no other deaths."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from clusters import stopped, wait_until

from pubsub_cluster import Cluster
from pubsub_cluster.coordinator.status import POISON_DIR
from pubsub_cluster.language.errors import PoisonBatchError
from pubsub_cluster.shm.fault_points import VARIABLE

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(200)]
AT_A_TASK = "before.page.write"  # matched, and about to be answered


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def test_only_deaths_at_a_batch_make_it_poison(tmp_data_dir: Path, points: Path) -> None:
    at_a_task = points / AT_A_TASK
    with Cluster(tmp_data_dir) as cluster, cluster.client(timeout_s=60.0) as client:
        client.subscribe("x = 1", id="one")
        with stopped(cluster) as pid:  # it is sent the batch and never takes it
            pending = client.publish_soon([{"x": 1}], ids=True)
            wait_until(lambda: client.status()["workers"][0]["tasks_running"] == 1, "the batch is sent")
            at_a_task.touch()  # for its successor
            os.kill(pid, signal.SIGKILL)
        assert pending.result().ids == ["one"]
        assert client.status()["workers"][0]["restarts"] == 2
        assert not at_a_task.exists()

        at_a_task.touch()
        pending = client.publish_soon([{"x": 1}])
        wait_until(lambda: not at_a_task.exists(), "a first death at the batch")
        at_a_task.touch()
        with pytest.raises(PoisonBatchError):
            pending.result()
        assert len(list((tmp_data_dir / POISON_DIR).iterdir())) == 1
        assert client.publish([{"x": 1}], ids=True).ids == ["one"]
