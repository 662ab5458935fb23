"""A publication on its way: `publish_soon` returns at once, the answer is taken in later.

There is no thread behind it. The answer to a blocking client comes in during any call that waits for the
cluster: `Client.receive`, `Pending.result`, or another publication; an asynchronous client's event loop
takes it in by itself.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pubsub_cluster.client.blocking import run
from pubsub_cluster.client.connection import Request
from pubsub_cluster.client.matches import Matches, matches_from_reply
from pubsub_cluster.client.publishing import Publication
from pubsub_cluster.client.session import Session


class _OnItsWay:
    """A publication and, in time, its answer.

    Parameters
    ----------
    session : Session
    request : Request
    publication : Publication
    """

    __slots__ = ("_matches", "_publication", "_request", "_session")

    def __init__(self, session: Session, request: Request, publication: Publication) -> None:
        self._session = session
        self._request = request
        self._publication = publication
        self._matches: Matches | None = None

    @property
    def done(self) -> bool:
        """True once the answer, or the error, is there; looks at nothing new."""
        return self._request.finished

    @property
    def answered_at_s(self) -> float | None:
        """When the answer or the error was there, by `time.monotonic`; None before."""
        return self._request.finished_at_s

    async def _result(self) -> Matches:
        if self._matches is None:
            asked = self._publication
            reply = await self._session.wait(self._request)
            self._matches = matches_from_reply(reply, asked.answer, asked.with_ids, asked.refused)
        return self._matches


class Pending(_OnItsWay):
    """A publication and, in time, its answer; made by `Client.publish_soon`."""

    __slots__ = ()

    def result(self) -> Matches:
        """Return the matches; wait for them if need be, at most until the publication's time limit.

        Raises
        ------
        LimitError, PoisonBatchError, ReplyTimeoutError, PubSubError
            As `Client.publish`; also when the client was closed before the answer came.
        """
        return run(self._result())


class AsyncPending(_OnItsWay):
    """A publication and, in time, its answer; made by `AsyncClient.publish_soon`. It can be awaited."""

    __slots__ = ()

    async def result(self) -> Matches:
        """Return the matches, as `Pending.result`."""
        return await self._result()

    def __await__(self) -> Generator[Any, None, Matches]:
        """Wait for the matches."""
        return self._result().__await__()
