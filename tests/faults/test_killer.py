"""The killer counts every death, and a retainer's when its coordinator knows of it, not before."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import killer as killer_module
import pytest
from killer import COORDINATOR, RETAINER, Killer

from pubsub_cluster.shm.fault_points import VARIABLE

POINT = "before.retainer.retain"
SCRIPT = """
import time
from pubsub_cluster.shm.fault_points import fault_point

@fault_point("retainer.retain")
def step():
    time.sleep(0.01)

print("ready", flush=True)
while True:
    step()
"""


@pytest.fixture
def retainer(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like a retainer; its coordinator is this one, which collects it when it wants."""
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "workers.retainer"],
        env={**os.environ, VARIABLE: str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


@pytest.mark.parametrize("how", ["at once", "at an instant"])
def test_a_retainers_death_counts_when_its_coordinator_knows_of_it(
    retainer: subprocess.Popen[bytes], tmp_path: Path, how: str
) -> None:
    cluster: Any = SimpleNamespace(_process=SimpleNamespace(pid=os.getpid()))
    breaches: list[str] = []
    killer = Killer(cluster, tmp_path, random.Random(0), breaches.append)
    kill = {
        "at once": lambda: killer._now(RETAINER),
        "at an instant": lambda: killer._at_point(POINT, RETAINER),
    }
    killing = threading.Thread(target=kill[how])
    killing.start()
    assert killer_module._gone(retainer.pid)
    killing.join(0.1)
    assert not killer.kills, "what is handed to it now is lost, and it is not known to be dead"
    retainer.wait()
    killing.join(60.0)
    assert killer.kills == {RETAINER: 1}
    assert killer.named == ({POINT: 1} if how == "at an instant" else {})
    assert not breaches
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_coordinator_that_dies_in_the_moment_that_it_is_ready_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    def start() -> None:
        for point in tmp_path.iterdir():
            point.rename(f"{point}.4711")

    monkeypatch.setattr(killer_module, "STARTS_KILLED", share)
    cluster: Any = SimpleNamespace(kill=lambda: None, start=start)
    killer = Killer(cluster, tmp_path, random.Random(0), lambda _: None)
    assert killer._start() is (share == 0.0)
    assert killer.kills[COORDINATOR] == share
