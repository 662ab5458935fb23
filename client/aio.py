"""The asynchronous client: every call of `Client`, for asyncio.

The calls are the same code. Here the session's waits are waits for the event loop: the socket's descriptor
wakes the loop, which takes in what has arrived, and goes on with whoever waited for it. There are no threads,
and any number of tasks may use one client at a time.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, overload

from pubsub_cluster.client.calls import AnswerName, Calls, endpoint_of, soon
from pubsub_cluster.client.connection import NOTHING, Instructions
from pubsub_cluster.client.durable import AsyncDurableListener
from pubsub_cluster.client.listener import AsyncListener
from pubsub_cluster.client.notifications import Notification, check_owner
from pubsub_cluster.client.pending import AsyncPending
from pubsub_cluster.client.publishing import Batch
from pubsub_cluster.client.session import Session
from pubsub_cluster.language.errors import CallerError, PubSubError
from pubsub_cluster.language.protocol import UNMATCHED, WINDOW_DEFAULT


class AsyncSession(Session):
    """A session whose waits leave the event loop to others."""

    def __init__(self, endpoint: str, timeout_s: float, way: str = "auto") -> None:
        super().__init__(endpoint, timeout_s, way)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = math.inf
        self._turn_is_due = False

    async def pause(self, pause_s: float) -> None:
        """Let time pass."""
        await asyncio.sleep(pause_s)

    async def _pump(self, done: Callable[[], bool], deadline_s: float) -> None:
        """Wait for `done` or the deadline; the event loop lets messages and time pass."""
        loop = self._attached()
        if done():
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters[waiter] = done
        timer = None
        try:
            self._take_turn()
            if not waiter.done() and deadline_s < math.inf:
                timer = loop.call_later(max(deadline_s - time.monotonic(), 0.0), _set, waiter)
            await waiter
        finally:
            del self._waiters[waiter]
            if timer is not None:
                timer.cancel()

    def _attached(self) -> asyncio.AbstractEventLoop:
        """Return the event loop, which is told of the socket on first use.

        Raises
        ------
        CallerError
            It is not the one of the first use.
        """
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._transport.descriptor, self._take_turn)
        elif loop is not self._loop:
            raise CallerError(
                "an asynchronous client belongs to the event loop of its first call",
                remedy="Make one inside each `asyncio.run`.",
            )
        return loop

    def _take_turn(self) -> None:
        """Take in what has arrived, do what is overdue, and let those go on who waited for it."""
        self._turn_is_due = False
        if self.closed:
            return
        try:
            self._turn()
        except PubSubError as error:  # something else answers at the endpoint
            if not self._waiters:
                raise
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_exception(error)
        self._tell()
        for waiter, done in self._waiters.items():
            if done():
                _set(waiter)
        self._set_timer(self._wake_at_s())
        if self._transport.readable:  # the descriptor does not tell of what was there before
            self._turn_soon()

    def _set_timer(self, at_s: float) -> None:
        # One that goes off too early does no harm; setting it anew for each request would cost more.
        if self._loop is None or at_s >= self._timer_at_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_s = at_s
        self._timer = self._loop.call_later(max(at_s - time.monotonic(), 0.0), self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer, self._timer_at_s = None, math.inf
        self._take_turn()

    def _turn_soon(self) -> None:
        loop = self._attached()
        if not self._turn_is_due:
            self._turn_is_due = True
            loop.call_soon(self._take_turn)

    def _tell(self) -> None:
        """Tell of finished requests; what is raised then is the event loop's to handle."""
        while self.connection.finished:
            request = self.connection.finished.popleft()
            told, request.on_finish = request.on_finish, None
            self._told_count += 1
            if told is not None:
                try:
                    told()
                except Exception as error:
                    context = {"message": "a function that was told of an answer", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(context)

    def _do(self, instructions: Instructions) -> None:
        super()._do(instructions)
        if instructions is not NOTHING and instructions.send:
            self._turn_soon()  # sending may swallow the descriptor's news

    def release(self) -> None:
        """Send what is held."""
        super().release()
        self._turn_soon()

    def _reopen(self) -> None:
        self._detach()
        super()._reopen()
        if self._loop is not None:
            self._loop.add_reader(self._transport.descriptor, self._take_turn)

    def _open_records(self, facts: Mapping[str, Any]) -> None:
        self._detach()
        super()._open_records(facts)
        if self._loop is not None:
            self._loop.add_reader(self._transport.descriptor, self._take_turn)
            self._turn_soon()

    def _close_transport(self) -> None:
        self._detach()
        super()._close_transport()
        if self._timer is not None:
            self._timer.cancel()
        for waiter in self._waiters:
            _set(waiter)

    def _detach(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._transport.descriptor)


class AsyncClient(Calls):
    """A connection to a running cluster, for asyncio; parameters and calls are those of `Client`.

    Parameters
    ----------
    data_dir, endpoint, timeout_s, publisher, notified_by
        As for `Client`.

    Examples
    --------
    >>> async with AsyncClient() as client:  # doctest: +SKIP
    ...     await client.subscribe("price < 10", owner="ann")
    ...     async with await client.listen("ann") as notifications:
    ...         async for notification in notifications:
    ...             print(notification.event)

    Notes
    -----
    Nothing is sent before the first call. It belongs to the event loop of that call; several tasks may use it
    at a time. A call that is cancelled is forgotten here; the cluster may carry it out.
    """

    _session: AsyncSession

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        endpoint: str | None = None,
        timeout_s: float = 10.0,
        publisher: str | None = None,
        notified_by: str = "auto",
    ) -> None:
        super().__init__(AsyncSession(endpoint_of(data_dir, endpoint), timeout_s, notified_by), publisher)

    async def __aenter__(self) -> AsyncClient:
        """Return the client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.close()

    async def close(self) -> None:
        """Close the connection, as `Client.close`."""
        self._session.close()

    async def publish_soon(
        self,
        batch: Batch,
        *,
        answer: AnswerName = "handles",
        ids: bool = False,
        batch_id: str | None = None,
        at: int | None = None,
        valid_until: int | None = None,
        on_answer: Callable[[AsyncPending], None] | None = None,
    ) -> AsyncPending:
        """Publish a batch without waiting for its answer, as `Client.publish_soon`; await the result for it.

        `on_answer` is called by the event loop.
        """
        return await soon(
            self,
            AsyncPending,
            on_answer,
            batch,
            answer=answer,
            ids=ids,
            batch_id=batch_id,
            at=at,
            valid_until=valid_until,
        )

    @overload
    async def listen(
        self,
        owner: str,
        *,
        timeout_s: float | None = None,
        on_silence: Callable[[], None] | None = None,
        on_return: Callable[[], None] | None = None,
        on_notification: Callable[[Notification], object] | None = None,
        durable: None = None,
    ) -> AsyncListener: ...

    @overload
    async def listen(
        self,
        owner: str,
        *,
        timeout_s: float | None = None,
        on_silence: Callable[[], None] | None = None,
        on_return: Callable[[], None] | None = None,
        on_notification: Callable[[Notification], object] | None = None,
        durable: str,
        window: int = WINDOW_DEFAULT,
        by_hand: bool = False,
    ) -> AsyncDurableListener: ...

    async def listen(
        self,
        owner: str,
        *,
        timeout_s: float | None = None,
        on_silence: Callable[[], None] | None = None,
        on_return: Callable[[], None] | None = None,
        on_notification: Callable[[Notification], object] | None = None,
        durable: str | None = None,
        window: int = WINDOW_DEFAULT,
        by_hand: bool = False,
    ) -> AsyncListener:
        """Listen for the events that an owner's subscriptions match, as `Client.listen`.

        Iterate over the result with ``async for``. With `on_notification`, a task does so, and calls the
        function with each notification; where it returns something to be awaited, that is awaited. What it
        raises ends the listening, and is raised by `AsyncListener.ended`; for a durable receiver that
        notification comes again.
        """
        check_owner(owner)
        kind: Callable[..., AsyncListener] = AsyncListener
        if durable is not None:
            kind = partial(AsyncDurableListener, durable, window, by_hand, self._session.acknowledge)
        listener = await self._session.listen(kind, owner, timeout_s, on_silence, on_return, durable=durable)
        return _calling(listener, on_notification)

    async def listen_unmatched(
        self,
        *,
        timeout_s: float | None = None,
        on_silence: Callable[[], None] | None = None,
        on_return: Callable[[], None] | None = None,
        on_notification: Callable[[Notification], object] | None = None,
    ) -> AsyncListener:
        """Listen for events that match nobody, as `Client.listen_unmatched`."""
        listener = await self._session.listen(AsyncListener, UNMATCHED, timeout_s, on_silence, on_return)
        return _calling(listener, on_notification)


def _calling(listener: AsyncListener, function: Callable[[Notification], object] | None) -> AsyncListener:
    """Have a function called with each notification, if there is one."""
    if function is not None:
        listener.task = asyncio.create_task(_call_for_each(listener, function))
    return listener


async def _call_for_each(listener: AsyncListener, function: Callable[[Notification], object]) -> None:
    async with listener:
        async for notification in listener:
            result = function(notification)
            if inspect.isawaitable(result):
                await result


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
