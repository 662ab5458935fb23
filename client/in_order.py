"""Many requests on their way at a time, their answers in the order in which they were asked."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from itertools import islice
from typing import Any, TypeAlias

from pubsub_cluster.client.connection import Request
from pubsub_cluster.client.session import Session

Sender: TypeAlias = Callable[[], Coroutine[Any, Any, Request]]


async def ask_in_order(
    session: Session, senders: Iterable[Sender], in_flight: int, at_once: int = 1
) -> AsyncGenerator[Request, None]:
    """Send requests with at most `in_flight` unanswered and yield them, finished, in order.

    They are sent `at_once` at a time, in one message where they are held; none is while the caller has what
    is yielded.
    """
    waiting: deque[Request] = deque()
    source = iter(senders)
    try:
        while several := list(islice(source, at_once)):
            try:
                for send in several:
                    waiting.append(await send())
            finally:
                session.release()
            while len(waiting) > in_flight - at_once:
                yield await session.finish(waiting.popleft())
        while waiting:
            yield await session.finish(waiting.popleft())
    finally:
        for request in waiting:
            session.connection.forget(request)
