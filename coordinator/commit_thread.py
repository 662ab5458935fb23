"""A thread that commits whatever has queued up meanwhile in one go (group commit), and reports its fate.

The coordinator never waits for a disk: it queues work and goes on with its sockets; the report comes through
an event file descriptor that its poller watches.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from pubsub_cluster.language.errors import StoreError

Work = TypeVar("Work")
Report = TypeVar("Report")


class CommitThread(Generic[Work, Report]):
    """One thread, its queue and its reports.

    Parameters
    ----------
    name : str
        Of the thread, and in errors: what waits for the disk.
    queued_max : int
        Pieces of work that may wait.
    do : callable
        ``do(works) -> reports``, in the thread: carries out all that had queued up, in order. It must not
        raise.
    at_end : callable
        Called in the thread when it ends.

    Attributes
    ----------
    wake_fd : int
        Readable when there are reports; -1 once closed.
    """

    def __init__(
        self,
        name: str,
        queued_max: int,
        do: Callable[[list[Work]], Iterable[Report]],
        at_end: Callable[[], None],
    ) -> None:
        self._name = name
        self._do = do
        self._at_end = at_end
        self._queued_max = queued_max
        self._queue: queue.Queue[Work | None] = queue.Queue(queued_max)
        self._reports: deque[Report] = deque()
        self._thread: threading.Thread | None = None
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def start(self) -> None:
        """Begin to work."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def put(self, work: Work) -> None:
        """Queue a piece of work.

        Raises
        ------
        StoreError
            Too much waits already.
        """
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            raise StoreError(
                f"too many {self._name} wait for the disk",
                seen=self._queued_max,
                limit=self._queued_max,
                remedy="Send fewer at a time, or put the data directory on a faster disk.",
            ) from None

    def poll(self) -> list[Report]:
        """Return the reports since the last call."""
        if self.wake_fd >= 0:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self.wake_fd)
        found = []
        while self._reports:
            found.append(self._reports.popleft())
        return found

    def close(self) -> None:
        """Do what is queued and end the thread; `poll` still gives the last reports."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        if self.wake_fd >= 0:
            os.close(self.wake_fd)
            self.wake_fd = -1

    def _run(self) -> None:
        closing = False
        while not closing:
            works, closing = self._take_all()
            self._reports.extend(self._do(works))
            os.eventfd_write(self.wake_fd, 1)
        self._at_end()

    def _take_all(self) -> tuple[list[Work], bool]:
        first = self._queue.get()
        if first is None:
            return [], True
        found = [first]
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return found, False
            if item is None:
                return found, True
            found.append(item)
