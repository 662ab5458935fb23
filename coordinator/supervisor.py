"""Keep a coordinator running: ``python -m pubsub_cluster.coordinator.supervisor``, for ``start --supervise``.

Takes the settings on standard input and the descriptor of ``--ready-fd`` as `coordinator.main` does, and
hands both on. A coordinator that ends otherwise than by being told to is started again, after a pause that
grows while it keeps ending soon. Where systemd, Docker or the like does that already, it is not needed: a
coordinator that was told to stop ends with status 0, and with another one otherwise.

The cluster ends with its supervisor, and the supervisor with a cluster that was stopped.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import time

from pubsub_cluster.coordinator.children import child_environment
from pubsub_cluster.coordinator.config import DOUBLINGS_MAX
from pubsub_cluster.coordinator.main import CANNOT_START
from pubsub_cluster.shm.lifeline import on_stop

PAUSE_S_MIN = 0.1
PAUSE_S_MAX = 5.0
QUIET_LIFE_S = 30.0  # one that lived so long is not part of a series
POLL_S = 0.05
log = logging.getLogger("pubsub_cluster.supervisor")


def pause_s(quick_ends: int) -> float:
    """Return how long to wait after so many ends in a row (at least one), each soon after its start."""
    return min(PAUSE_S_MIN * 2.0 ** min(quick_ends - 1, DOUBLINGS_MAX), PAUSE_S_MAX)


class Supervisor:
    """Runs one coordinator after the other.

    Parameters
    ----------
    settings : bytes
        `ClusterConfig.to_json`, encoded.
    ready_fd : int
        Where the first coordinator tells that it is ready, or why it cannot start; closed here.
    """

    def __init__(self, settings: bytes, ready_fd: int) -> None:
        self._settings = settings
        self._ready_fd = ready_fd
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Run until the cluster is stopped, or cannot even start once; return the exit status."""
        on_stop(self.stop)
        quick_ends = 0
        is_first = True
        while not self._stopping:
            started_s = time.monotonic()
            status = self._run_once()
            if status == 0 or self._stopping or (is_first and status == CANNOT_START):
                return status
            is_first = False
            lived_s = time.monotonic() - started_s
            quick_ends = quick_ends + 1 if lived_s < QUIET_LIFE_S else 1
            again_s = pause_s(quick_ends)
            log.warning(
                "the coordinator ended %s after %.1f s and is started again in %.1f s",
                f"with status {status}" if status > 0 else f"by signal {-status}",
                lived_s,
                again_s,
            )
            self._wait(again_s)
        return 0

    def stop(self) -> None:
        """Stop the cluster, then end."""
        self._stopping = True
        if self._process is not None:
            self._process.terminate()

    def _run_once(self) -> int:
        arguments = ["--ready-fd", str(self._ready_fd), "--parent", str(os.getpid())]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pubsub_cluster.coordinator.main", *arguments],
            stdin=subprocess.PIPE,
            pass_fds=[self._ready_fd],
            env=child_environment(),
            process_group=0,  # a terminal's Ctrl-C comes to it through `stop`, once
        )
        os.close(self._ready_fd)
        self._ready_fd = os.open(os.devnull, os.O_WRONLY)  # only the first is waited for
        if self._stopping:
            self._process.terminate()
        self._process.communicate(self._settings)
        return self._process.returncode

    def _wait(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self._stopping and time.monotonic() < until_s:
            time.sleep(POLL_S)


def main(argv: list[str] | None = None) -> int:
    """Run the supervisor; return the exit status."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.coordinator.supervisor")
    parser.add_argument("--ready-fd", type=int, required=True)
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s supervisor %(message)s")
    return Supervisor(sys.stdin.buffer.read(), options.ready_fd).run()


if __name__ == "__main__":
    raise SystemExit(main())
