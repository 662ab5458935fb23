"""An owner's notifications, one by one: for a loop, an asynchronous loop, or a function that is called.

A listener's queue is bounded. What finds no room is dropped and counted, here as in the cluster: the next
notification that does find room says how many were lost before it, so that a gap is never silent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pubsub_cluster.client.blocking import run
from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.client.ordering import Ordering
from pubsub_cluster.client.watch import Watch
from pubsub_cluster.language.protocol import UNMATCHED

if TYPE_CHECKING:
    import asyncio

NOTIFICATIONS_QUEUED_MAX = 100_000


class NotificationQueue(deque[Notification]):
    """Notifications that nobody has taken yet, and a count of those that found no room."""

    def __init__(self, queued_max: int = NOTIFICATIONS_QUEUED_MAX) -> None:
        super().__init__()
        self.queued_max = queued_max
        self._dropped_count = 0

    def put(self, notification: Notification) -> None:
        """Queue a notification, or count it as lost when there is no room."""
        if len(self) >= self.queued_max:
            self._dropped_count += 1 + notification.dropped
            return
        if self._dropped_count:
            notification = notification._replace(dropped=notification.dropped + self._dropped_count)
            self._dropped_count = 0
        self.append(notification)


class Hearing:
    """What an owner is told, in order, and as far as nobody has taken it.

    Parameters
    ----------
    owner : str
    timeout_s : float or None
        Longest wait for a notification; None: for ever.
    watch : Watch
    wait : callable
        ``await wait(self)`` returns when there is a notification, or the time is up.
    on_close : callable
        ``await on_close(self)``, once.

    Attributes
    ----------
    on_notification : callable or None
        Called with each; then nobody iterates.
    number : int or None
        Of the owner, as the cluster counts those that are listened to; None where records tell it nothing.
    takes_records : bool
    has_news : bool
        The session has noted that `on_notification` is to be called.
    """

    def __init__(
        self,
        owner: str,
        timeout_s: float | None,
        watch: Watch,
        wait: Callable[[Hearing], Coroutine[Any, Any, None]],
        on_close: Callable[[Hearing], Coroutine[Any, Any, None]],
    ) -> None:
        self.owner = owner
        self.timeout_s = timeout_s
        self.watch = watch
        self._wait = wait
        self._on_close = on_close
        self._queue = NotificationQueue()
        self.ordering = Ordering()
        self.number: int | None = None
        self.takes_records = False
        self.has_news = False
        self.closed = False
        self.on_notification: Callable[[Notification], object] | None = None

    @property
    def listen_fields(self) -> dict[str, Any]:
        """What the cluster is asked for."""
        if self.owner == UNMATCHED:
            return {"unmatched": True}
        return {"owner": self.owner, "records": True} if self.takes_records else {"owner": self.owner}

    @property
    def queued_count(self) -> int:
        """Notifications that have arrived and were not yet taken."""
        return len(self._queue)

    def begin(self, source: Any, sequence: int) -> None:
        """The cluster tells from a sequence on; see `Ordering.begin`."""
        for notification in self.ordering.begin(source, sequence):
            self._queue.put(notification)

    def hear(self, notification: Notification, now_s: float) -> None:
        """Take a notification that has arrived, by whatever way."""
        if self.ordering.passes(notification.sequence):
            self._queue.put(notification)
            return
        for ready in self.ordering.take(notification, now_s):
            self._queue.put(ready)

    def tick(self, now_s: float) -> None:
        """Give up gaps that have been open for too long."""
        for ready in self.ordering.tick(now_s):
            self._queue.put(ready)

    def ended_by_cluster(self, why: str) -> None:
        """The cluster tells this connection no longer."""
        self.closed = True

    def tell(self) -> None:
        """Call `on_notification` with the first that is queued."""
        assert self.on_notification is not None
        self.on_notification(self._queue.popleft())

    async def _next(self) -> Notification | None:
        if not self._queue and not self.closed:
            await self._wait(self)
        return self._queue.popleft() if self._queue else None

    async def _end(self) -> None:
        if not self.closed:
            self.closed = True
            await self._on_close(self)


class Listener(Hearing):
    """Iterator over an owner's notifications; made by `Client.listen`.

    It is registered with the cluster when it is made, not when it is first asked. It ends after `timeout_s`
    without a notification (None: never) or when it is closed; as a context manager it closes itself.
    """

    def __iter__(self) -> Listener:
        """Return the listener itself."""
        return self

    def __next__(self) -> Notification:
        """Wait for the next notification."""
        notification = run(self._next())
        if notification is None:
            raise StopIteration
        return notification

    def __enter__(self) -> Listener:
        """Return the listener itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self.close()

    def close(self) -> None:
        """Stop listening; what has arrived can still be taken."""
        run(self._end())


class AsyncListener(Hearing):
    """Asynchronous iterator over an owner's notifications; made by `AsyncClient.listen`.

    Attributes
    ----------
    task : asyncio.Task or None
        Iterates where a function is called with each notification.
    """

    task: asyncio.Task[None] | None = None

    def __aiter__(self) -> AsyncListener:
        """Return the listener itself."""
        return self

    async def __anext__(self) -> Notification:
        """Wait for the next notification."""
        notification = await self._next()
        if notification is None:
            raise StopAsyncIteration
        return notification

    async def __aenter__(self) -> AsyncListener:
        """Return the listener itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        await self.close()

    async def close(self) -> None:
        """Stop listening; what has arrived can still be taken."""
        await self._end()

    async def ended(self) -> None:
        """Wait until `on_notification` is called no more; raise what it has raised."""
        if self.task is not None:
            await self.task
