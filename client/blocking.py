"""Runs the client's coroutines as plain calls.

All calls of the client are written once, as coroutines (`pubsub_cluster.client.calls`). Those of a blocking
session do their waiting within themselves and are never suspended, so that one step runs each to its end:
there is no event loop, and nothing else that could run in between.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that is never suspended.

    Raises
    ------
    RuntimeError
        It was suspended: it belongs to an event loop.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a call of the blocking client waits for an event loop")


def each(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield what an asynchronous generator yields that is never suspended."""
    try:
        while True:
            try:
                item = run(items.asend(None))
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(items.aclose())
