"""What the disk takes to make a page durable: the control of whatever is said about durable changes.

A change is acknowledged when the disk has it, and the disk of a virtual machine may hold everybody up for a
tenth of a second, whoever wrote what. So a process overwrites a page of a file of its own in the same folder
and synchronises it, which is what a commit of the change table costs at least: its log is overwritten, too.
"""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

from pubsub_cluster.shm.lifeline import SHORT_TURN_US, take_turns

PAGES = 1_024
JOIN_S = 10.0


class Disk:
    """The process that writes.

    Parameters
    ----------
    pipe : Connection
        To it.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def took_s(self) -> list[float]:
        """Return what each page took since this was asked last."""
        self._pipe.send(True)
        took_s: list[float] = self._pipe.recv()
        return took_s


def write(folder: str, every_s: float, pipe: Connection) -> None:
    """Make a page durable every so often; tell what each took when asked to, leave when left alone."""
    take_turns(SHORT_TURN_US)
    took_s: list[float] = []
    with contextlib.suppress(EOFError, BrokenPipeError), tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(PAGES * mmap.PAGESIZE))
        file.flush()
        os.fsync(file.fileno())
        for number in range(1 << 62):
            if pipe.poll(every_s):
                pipe.recv()
                pipe.send(took_s)
                took_s = []
            begin_s = time.monotonic()
            os.pwrite(file.fileno(), os.urandom(mmap.PAGESIZE), number % PAGES * mmap.PAGESIZE)
            os.fdatasync(file.fileno())
            took_s.append(time.monotonic() - begin_s)


@contextlib.contextmanager
def watching(folder: str, per_second: float) -> Iterator[Disk]:
    """Have pages written into a folder at a rate."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=write, args=(folder, 1.0 / per_second, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        mine.send(True)
        mine.recv()  # it writes
        yield Disk(mine)
    finally:
        mine.close()  # its end is the end of the process
        process.join(JOIN_S)
        if process.is_alive():
            process.terminate()
            process.join()
