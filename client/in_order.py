"""Many requests on their way at a time, their answers in the order in which they were asked."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from pubsub_cluster.client.connection import Request
from pubsub_cluster.client.session import Session

Sender: TypeAlias = Callable[[], Coroutine[Any, Any, Request]]


async def ask_in_order(
    session: Session, senders: Iterable[Sender], in_flight: int
) -> AsyncGenerator[Request, None]:
    """Send requests with at most `in_flight` unanswered and yield them, finished, in order."""
    waiting: deque[Request] = deque()
    try:
        for send in senders:
            waiting.append(await send())
            if len(waiting) == in_flight:
                yield await session.finish(waiting.popleft())
        while waiting:
            yield await session.finish(waiting.popleft())
    finally:
        for request in waiting:
            session.connection.forget(request)
