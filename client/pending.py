"""A publication on its way: `Client.publish_soon` returns at once, the answer is taken in later.

There is no thread behind it. The answer comes in during any call that waits for the cluster:
`Client.receive`, `Pending.result`, or another publication.
"""

from __future__ import annotations

from pubsub_cluster.client.connection import Request
from pubsub_cluster.client.matches import Matches, matches_from_reply
from pubsub_cluster.client.publishing import Publication
from pubsub_cluster.client.session import Session


class Pending:
    """A publication and, in time, its answer; made by `Client.publish_soon`.

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

    def result(self) -> Matches:
        """Return the matches; wait for them if need be, at most until the publication's time limit.

        Raises
        ------
        LimitError, PoisonBatchError, ReplyTimeoutError, PubSubError
            As `Client.publish`; also when the client was closed before the answer came.
        """
        if self._matches is None:
            asked = self._publication
            reply = self._session.wait(self._request)
            self._matches = matches_from_reply(reply, asked.answer, asked.with_ids, asked.refused)
        return self._matches
