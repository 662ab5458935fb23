"""Child processes: started by module name, watched through a pidfd, never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pubsub_cluster
from pubsub_cluster.shm import gentle_start
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.lifeline import GENTLE_NICENESS

STOP_GRACE_S = 2.0
GENTLE_START = gentle_start.__file__
THREAD_COUNTS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""A library's further threads have the priority of the moment at which it was loaded, and wait for work at
full speed: beside a build that gives way they would take a third of a processor from the workers."""


class Child:
    """A running child process.

    Parameters
    ----------
    module : str
    arguments : list of str
    niceness : int
        How far behind this process it is.
    gently : bool
        What it imports is behind everybody else, but not what it does then (`shm.gentle_start`).

    Attributes
    ----------
    pid : int
    pidfd : int
        Readable when the process has ended; register it in the poller.

    Raises
    ------
    OSError
        The machine has no room for another process or open file; there is none.
    """

    @fault_point("child.spawn")
    def __init__(self, module: str, arguments: list[str], niceness: int, gently: bool = False) -> None:
        parent = str(os.getpid())
        start = ["-S", GENTLE_START, str(GENTLE_NICENESS), parent] if gently else ["-m"]
        command = [sys.executable, *start, module, *arguments, "--parent", parent]
        # In a group of its own: a terminal's Ctrl-C is for the coordinator, which tells its children.
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=child_environment(), process_group=0
        )
        self.pid = self._process.pid
        put_behind(self.pid, niceness)
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except OSError:
            self._process.kill()
            self._process.wait()
            raise

    def kill(self) -> None:
        """Kill the process; its end is then seen on `pidfd`."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def reap(self) -> int:
        """Collect an ended process; return its exit status."""
        status = self._process.wait()
        os.close(self.pidfd)
        return status

    def end(self, grace_s: float = STOP_GRACE_S) -> None:
        """Wait for the process to leave, kill it after `grace_s`, collect it."""
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self.reap()


def put_behind(pid: int, niceness: int) -> None:
    """Let a process that was started just now be so far behind this one.

    By its own doing it would be too late: until an interpreter has come to its first line, it takes tens of
    milliseconds of a processor, in the short turns of whoever started it.
    """
    with contextlib.suppress(OSError):  # it has ended, or the system forbids it: it comes to an end anyway
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + niceness)


def child_environment() -> dict[str, str]:
    """Return the environment of a child: same package, nothing else from the working directory, one thread.

    With ``-m`` Python would look there first: a file of the operator's named like any module would be taken.
    """
    environment = dict(os.environ, PYTHONSAFEPATH="1")
    root = str(Path(pubsub_cluster.__file__).parent.parent)
    named = environment.get("PYTHONPATH", "").split(os.pathsep)
    named = [name for name in named if name]  # an empty one is that directory
    environment["PYTHONPATH"] = os.pathsep.join([root, *named])
    environment |= dict.fromkeys(THREAD_COUNTS, "1")
    return environment
