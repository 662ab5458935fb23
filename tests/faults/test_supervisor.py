"""``start --supervise``: a coordinator that is killed comes back without anybody's doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clusters import wait_until

from pubsub_cluster import Client
from pubsub_cluster.coordinator.main import CANNOT_START
from pubsub_cluster.coordinator.supervisor import PAUSE_S_MAX, PAUSE_S_MIN, Supervisor, pause_s
from pubsub_cluster.language.errors import PubSubError


def test_the_pause_grows_and_is_bounded() -> None:
    pauses = [pause_s(count) for count in (*range(1, 20), 5_000)]
    assert pauses[0] == PAUSE_S_MIN and pauses[-1] == PAUSE_S_MAX
    assert pauses == sorted(pauses)


@pytest.mark.parametrize("statuses", [[0], [CANNOT_START], [1, 0], [-9, CANNOT_START, 0]])
def test_only_a_first_refusal_and_a_stop_are_final(
    monkeypatch: pytest.MonkeyPatch, statuses: list[int]
) -> None:
    supervisor = Supervisor(b"{}", -1)
    left = iter(statuses)
    monkeypatch.setattr(supervisor, "_run_once", lambda: next(left))
    monkeypatch.setattr(supervisor, "_wait", lambda seconds: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert supervisor.run() == statuses[-1]
    assert next(left, None) is None


@pytest.mark.cluster
def test_a_killed_coordinator_is_started_again(tmp_data_dir: Path) -> None:
    arguments = ["start", "--supervise", "--workers", "1", "--data", str(tmp_data_dir)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pubsub_cluster.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("READY")
        with Client(tmp_data_dir, timeout_s=90.0) as client:
            client.subscribe("x = 1", id="one")
            first = client.status()["pid"]
            assert first != process.pid
            os.kill(first, signal.SIGKILL)
            assert client.publish([{"x": 1}], ids=True).ids == ["one"]
            assert client.status()["pid"] != first
            client.stop_cluster()
        _, errors = process.communicate(timeout=60.0)
        assert process.returncode == 0, errors
        assert "ended by signal 9" in errors and "started again" in errors
    finally:
        process.terminate()
        process.wait(60.0)


@pytest.mark.cluster
def test_ctrl_c_stops_supervisor_and_cluster(tmp_data_dir: Path) -> None:
    arguments = ["start", "--supervise", "--workers", "1", "--data", str(tmp_data_dir)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pubsub_cluster.cli", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("READY")
        process.send_signal(signal.SIGINT)
        assert process.wait(60.0) == 0
        with pytest.raises(PubSubError), Client(tmp_data_dir, timeout_s=1.0) as client:
            client.ping()
        wait_until(lambda: not list(tmp_data_dir.glob("*.sock")), "the sockets are gone")
    finally:
        process.terminate()
        process.wait(60.0)
