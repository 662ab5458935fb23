"""The control of pauses: what a stopped processor looks like, and that nobody stays behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

from pubsub_cluster.benchmarks.standstill import watching

STOPPED_S = 0.06
SEEN_S_MAX = 60.0


def test_who_could_not_wake_is_seen_once_and_all_leave() -> None:
    before = multiprocessing.active_children()
    with watching() as machine:
        machine.longest_s()
        watchers = [child for child in multiprocessing.active_children() if child not in before]
        assert len(watchers) == len(os.sched_getaffinity(0))
        stopped = watchers[0].pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(stopped, signal.SIGCONT)
        deadline = time.monotonic() + SEEN_S_MAX
        while machine.longest_s() <= STOPPED_S / 2:  # it tells when it has run again
            assert time.monotonic() < deadline
    assert multiprocessing.active_children() == before
