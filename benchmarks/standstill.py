"""How long the machine itself stood still: the control of whatever is said about pauses.

A virtual machine gets its processors from a host that may take them away for tens of milliseconds, and says
so to nobody. So on each processor a process wakes every two milliseconds, before everything else where it may
have real-time priority (as root), else in short turns like the cluster's own; how late it wakes is what no
cluster could have helped.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

from pubsub_cluster.shm.lifeline import SHORT_TURN_US, pin_to, take_turns

WAKES_EVERY_S = 0.002
WAKES_PER_LOOK = 32  # at the pipe, which takes longer than to wake: it would be missing where it is measured
JOIN_S = 10.0


class Standstill:
    """The watching processes.

    Parameters
    ----------
    pipes : list of Connection
        To one on each processor.
    """

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes

    def longest_s(self) -> float:
        """Return the longest that any processor stood still since this was asked last."""
        for pipe in self._pipes:
            pipe.send(True)
        return max(float(pipe.recv()) for pipe in self._pipes)


def watch(cpu: int, pipe: Connection) -> None:
    """Wake again and again; tell the longest delay when asked to, leave when told to or left alone."""
    pin_to(cpu)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        take_turns(SHORT_TURN_US)
    longest_s, woke_s = 0.0, time.monotonic()
    with contextlib.suppress(EOFError, BrokenPipeError):
        for wakes in itertools.count():
            time.sleep(WAKES_EVERY_S)
            now_s = time.monotonic()  # compared with the last time, so that no moment is left out
            longest_s, woke_s = max(longest_s, now_s - woke_s - WAKES_EVERY_S), now_s
            if wakes % WAKES_PER_LOOK == 0 and pipe.poll():
                if not pipe.recv():
                    return
                pipe.send(longest_s)
                longest_s = 0.0


@contextlib.contextmanager
def watching() -> Iterator[Standstill]:
    """Have every processor watched."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for cpu in sorted(os.sched_getaffinity(0)):
            mine, theirs = context.Pipe()
            process = context.Process(target=watch, args=(cpu, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(mine)
            processes.append(process)
        yield Standstill(pipes)
    finally:
        for pipe in pipes:
            pipe.close()  # its end is the end of the process
        for process in processes:
            process.join(JOIN_S)
            if process.is_alive():
                process.terminate()
                process.join()
