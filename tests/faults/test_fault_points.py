"""Fault points: nothing without the variable; one death, at the right instant, with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from killer import POINTS, RESTORE_POINTS

from pubsub_cluster.shm import fault_points
from pubsub_cluster.shm.fault_points import VARIABLE, fault_point

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import sys
from pubsub_cluster.shm.fault_points import fault_point

@fault_point("test.step")
def step(number):
    print(number, flush=True)

step(1)
step(2)
"""


def run(points_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run the script with fault points in a directory."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, VARIABLE: str(points_dir)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_the_variable_the_mark_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_points, "_directory", None)

    def step() -> None:
        """Do nothing."""

    assert fault_point("test.step")(step) is step


@pytest.mark.parametrize(("point", "said"), [("before.test.step", ""), ("after.test.step", "1\n")])
def test_who_comes_by_dies_once(tmp_path: Path, point: str, said: str) -> None:
    (tmp_path / point).touch()
    first = run(tmp_path)
    assert first.returncode == -signal.SIGKILL
    assert first.stdout == said
    second = run(tmp_path)
    assert (second.returncode, second.stdout) == (0, "1\n2\n")


def test_the_runner_names_points_that_exist_and_all_of_them() -> None:
    lists = [names for kinds in POINTS.values() for names in kinds] + list(RESTORE_POINTS.values())
    named = {name for names in lists for name in names.split()}
    folders = ("coordinator", "shm", "tuner", "workers")
    sources = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    text = "\n".join(path.read_text() for path in sources)
    marked = {part.split('"')[0] for part in text.split('fault_point("')[1:]}
    assert named <= marked
    rare = {"schema.write", "poison.write"}
    assert marked - named <= rare, "a new instant is in killer.POINTS as well"
