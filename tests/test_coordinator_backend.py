"""Children are started when they are due, also where the machine had no room for them at first."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pubsub_cluster.coordinator import children
from pubsub_cluster.coordinator.backend import RETAINER, SPAWN_AGAIN_S, TUNER, Backend
from pubsub_cluster.coordinator.children import Child


class Process(subprocess.Popen[bytes]):
    """A process that ends at once, whatever was to be started."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(["true"])


def refuses(*_: Any, **__: Any) -> None:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


@pytest.mark.parametrize("call", ["fork", "pidfd"])
def test_a_child_that_cannot_be_started_is_tried_again(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    backend = Backend(f"ipc://{tmp_path}/workers.sock", [])
    for child in (0, TUNER, RETAINER):
        backend.spawn(child, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(children.subprocess, "Popen", refuses if call == "fork" else Process)
        if call == "pidfd":
            patch.setattr(os, "pidfd_open", refuses)
        assert list(backend.spawn_due(1.0)) == []
        assert "worker 0 cannot be started; seen Resource temporarily unavailable" in caplog.text
        assert list(backend.spawn_due(1.0)) == []
    monkeypatch.setattr(children.subprocess, "Popen", Process)
    assert list(backend.spawn_due(1.0 + SPAWN_AGAIN_S)) == [0]
    assert all(backend.pid(child) for child in (0, TUNER, RETAINER))
    backend.close()


def test_a_child_is_behind_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waits.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    child = Child("waits", [], 3)
    try:
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == min(mine + 3, 19)
    finally:
        child.kill()
        child.reap()


def test_each_worker_has_a_processor_of_its_own_and_more_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: dict[str, list[str]] = {}

    class Recorded(Process):
        def __init__(self, command: list[str], **_: Any) -> None:
            started[command[command.index("--worker") + 1]] = command
            super().__init__()

    monkeypatch.setattr(children.subprocess, "Popen", Recorded)
    backend = Backend(f"ipc://{tmp_path}/workers.sock", [4, 7])
    for worker_idx, place in ((5, 0), (2, 1), (3, 2)):
        backend.spawn(worker_idx, 1.0, place=place)
    assert list(backend.spawn_due(1.0)) == [5, 2, 3]
    backend.close()
    pinned = {
        name: command[command.index("--cpu") + 1] for name, command in started.items() if "--cpu" in command
    }
    assert pinned == {"5": "4", "2": "7"} and len(started) == 3
