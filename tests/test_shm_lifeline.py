"""A process's place on the machine."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pubsub_cluster.coordinator.children import child_environment
from pubsub_cluster.shm import gentle_start, lifeline


def turn_us_now() -> int:
    """What the system says of this thread; 0 where it does not know turns of other lengths."""
    attributes = ctypes.create_string_buffer(lifeline._SCHED_ATTR.size)
    number = lifeline._SCHED_SETATTR[platform.machine()] + 1
    assert ctypes.CDLL(None).syscall(number, 0, attributes, len(attributes), 0) == 0
    return int(lifeline._SCHED_ATTR.unpack(attributes.raw)[5]) // 1_000


@pytest.mark.skipif(platform.machine() not in lifeline._SCHED_SETATTR, reason="an unknown machine")
def test_turns_are_short_for_a_thread_and_those_it_starts_and_nothing_else_changes() -> None:
    """Elsewhere in this process they stay what they were."""
    seen: dict[str, int] = {}

    def inner() -> None:
        seen["inner"] = turn_us_now()
        lifeline.take_turns(lifeline.SYSTEM_TURN_US)
        seen["again"] = turn_us_now()

    def outer() -> None:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        seen["taken"] = lifeline.take_turns(lifeline.SHORT_TURN_US)
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()
        assert os.getpriority(os.PRIO_PROCESS, 0) == nice
        assert os.sched_getscheduler(0) == os.SCHED_OTHER

    before = turn_us_now()
    thread = threading.Thread(target=outer)
    thread.start()
    thread.join()
    assert turn_us_now() == seen["again"] == before
    if seen["taken"] and before:  # Linux before 6.12 tells 0, whatever was asked for
        assert seen["inner"] == lifeline.SHORT_TURN_US


def test_gentle_work_is_done_at_low_priority_and_nothing_else_is() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    found = lifeline.gently(lambda: (os.getpriority(os.PRIO_PROCESS, 0), threading.current_thread()))
    assert found[0] == max(before, lifeline.GENTLE_NICENESS)
    assert found[1] is not threading.current_thread()
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    with pytest.raises(ZeroDivisionError):
        lifeline.gently(lambda: 1 // 0)


GENTLE_MODULE = """
import json, os, sys, threading

def facts():
    return [os.getpriority(os.PRIO_PROCESS, 0), threading.current_thread() is threading.main_thread()]

imported = facts()
import numpy

def main():
    print(json.dumps([sys.argv, imported, facts(), numpy.__name__]))
    return 7
"""


def gently_started(folder: Path, module: str, nice: int = 0) -> subprocess.CompletedProcess[str]:
    environment = child_environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{folder}"
    command = [sys.executable, "-S", gentle_start.__file__, "12", str(os.getpid()), module, "--parent", "7"]
    return subprocess.run(
        ["nice", f"-n{nice}", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60.0,
    )


@pytest.mark.parametrize("nice", [0, 15])
def test_a_gentle_start_imports_behind_others_and_works_like_them(tmp_path: Path, nice: int) -> None:
    (tmp_path / "tells.py").write_text(GENTLE_MODULE)
    done = gently_started(tmp_path, "tells", nice)
    assert done.returncode == 7 and not done.stderr, done.stderr
    mine = min(os.getpriority(os.PRIO_PROCESS, 0) + nice, 19)
    arguments, imported, ran, _ = json.loads(done.stdout)
    assert arguments == ["tells", "--parent", "7"]
    assert imported == [max(mine, 12), False] and ran == [mine, True]


def test_a_gentle_start_ends_with_its_parent_while_it_still_imports(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60.0)")
    environment = child_environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    script = (
        "import os, subprocess, sys\n"
        "command = [sys.executable, '-S', sys.argv[1], '12', str(os.getpid()), 'slow']\n"
        "with subprocess.Popen(command, stdout=subprocess.PIPE) as child:\n"
        "    os.write(1, child.stdout.readline())\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-c", script, gentle_start.__file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60.0)
    assert done.returncode == -signal.SIGKILL
    pid, stop_s = int(done.stdout), time.monotonic() + 20.0
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < stop_s, "it goes on importing, for nobody"
        time.sleep(0.01)


def test_a_gentle_start_that_fails_says_why_and_ends(tmp_path: Path) -> None:
    done = gently_started(tmp_path, "is_not_there")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ModuleNotFoundError: No module named 'is_not_there'")
    assert done.stderr.count("Traceback") == 1


def test_a_module_is_behind_others_before_it_imports_anything(tmp_path: Path) -> None:
    (tmp_path / "tells.py").write_text(
        "import os, sys; print(os.getpriority(os.PRIO_PROCESS, 0), *sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pubsub_cluster.shm.behind", "tells", "--parent", "7"],
        env=child_environment()
        | {"PYTHONPATH": f"{child_environment()['PYTHONPATH']}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=60.0,
    )
    nice = max(os.getpriority(os.PRIO_PROCESS, 0), lifeline.BEHIND_NICENESS)
    assert done.stdout.split() == [str(nice), "--parent", "7"], done.stderr


STOPPED_BY = """
import os, signal, sys
from pubsub_cluster.shm.lifeline import on_stop
number = int(sys.argv[1])
signal.signal(signal.SIGHUP, signal.SIG_IGN if "outlives" in sys.argv else signal.SIG_DFL)
told = []
on_stop(lambda: told.append(number))
os.kill(os.getpid(), number)
print(len(told))
"""


@pytest.mark.parametrize(
    ("number", "how", "told"),
    [
        (signal.SIGINT, "", 1),
        (signal.SIGTERM, "outlives", 1),
        (signal.SIGHUP, "", 1),  # a terminal was closed
        (signal.SIGHUP, "outlives", 0),  # nohup
    ],
)
def test_whoever_ends_the_process_stops_it_in_order(number: int, how: str, told: int) -> None:
    command = [sys.executable, "-c", STOPPED_BY, str(int(number)), how]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=30, env=child_environment(), check=True
    )
    assert int(ended.stdout) == told


def test_whoever_leaves_does_it_behind_others_with_all_its_threads() -> None:
    script = """
import os, threading
from pubsub_cluster.shm import lifeline
threading.Thread(target=threading.Event().wait, daemon=True).start()
def tell(exit_code):
    nices = [os.getpriority(os.PRIO_PROCESS, int(thread)) for thread in os.listdir("/proc/self/task")]
    os.write(1, repr(nices).encode())
    end(exit_code)
end, os._exit = os._exit, tell
lifeline.leave(3)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=60.0)
    nice = max(os.getpriority(os.PRIO_PROCESS, 0), lifeline.GENTLE_NICENESS)
    assert (done.returncode, done.stdout) == (3, f"[{nice}, {nice}]"), done.stderr


def test_a_child_computes_in_one_thread() -> None:
    """A helper of its linear algebra would not give way with whoever asks it, and spin while it waits."""
    script = """
import os
import numpy as np
square = np.ones((1_000, 1_000))
square @ square
print(len(os.listdir("/proc/self/task")))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=60.0)
    assert done.stdout == "1\n", done.stderr
