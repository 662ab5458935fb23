"""An iterator over an owner's notifications.

A listener's queue is bounded. What finds no room is dropped and counted, here as in the cluster: the next
notification that does find room says how many were lost before it, so that a gap is never silent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any

from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.client.ordering import Ordering

NOTIFICATIONS_QUEUED_MAX = 100_000


class Listener:
    """Iterator over an owner's notifications; made by `Client.listen`.

    It is registered with the cluster when it is made, not when it is first asked. It ends after `timeout_s`
    without a notification (None: never) or when it is closed; as a context manager it closes itself.
    """

    def __init__(
        self,
        owner: str,
        timeout_s: float | None,
        wait: Callable[[Listener], None],
        on_close: Callable[[Listener], None],
        queued_max: int = NOTIFICATIONS_QUEUED_MAX,
    ) -> None:
        self.owner = owner
        self.timeout_s = timeout_s
        self._wait = wait
        self._on_close = on_close
        self._queued_max = queued_max
        self._queue: deque[Notification] = deque()
        self._dropped_here = 0
        self.ordering = Ordering()
        self.closed = False

    def __iter__(self) -> Listener:
        """Return the listener itself."""
        return self

    def __next__(self) -> Notification:
        """Wait for the next notification."""
        if not self._queue and not self.closed:
            self._wait(self)
        if not self._queue:
            raise StopIteration
        return self._queue.popleft()

    def __enter__(self) -> Listener:
        """Return the listener itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self.close()

    @property
    def queued_count(self) -> int:
        """Notifications that have arrived and were not yet taken."""
        return len(self._queue)

    def close(self) -> None:
        """Stop listening; what has arrived can still be taken."""
        if not self.closed:
            self.closed = True
            self._on_close(self)

    def begin(self, source: Any, sequence: int) -> None:
        """The cluster tells from a sequence on; see `Ordering.begin`."""
        for notification in self.ordering.begin(source, sequence):
            self.put(notification)

    def hear(self, notification: Notification, now_s: float) -> None:
        """Take a notification that has arrived, by whatever way."""
        for ready in self.ordering.take(notification, now_s):
            self.put(ready)

    def tick(self, now_s: float) -> None:
        """Give up gaps that have been open for too long."""
        for ready in self.ordering.tick(now_s):
            self.put(ready)

    def put(self, notification: Notification) -> None:
        """Queue a notification, or count it as lost when there is no room."""
        if len(self._queue) >= self._queued_max:
            self._dropped_here += 1 + notification.dropped
            return
        if self._dropped_here:
            notification = replace(notification, dropped=notification.dropped + self._dropped_here)
            self._dropped_here = 0
        self._queue.append(notification)
