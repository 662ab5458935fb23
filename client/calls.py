"""All calls of a client, as coroutines: subscribe, publish, and look after a cluster.

`Client` runs them as plain calls, `AsyncClient` has them as they are. Each waits at most `timeout_s`,
survives a lost connection and a restarted coordinator by itself, and raises the errors of
`pubsub_cluster.language.errors`. Requests carry ids that stay the same when they are sent again, so that a
repeat is never carried out twice (`docs/protocol.md`, sending again).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from pubsub_cluster.client.catalogue import CatalogueCalls, Listed
from pubsub_cluster.client.changes import KEEP, Keep, Subscription
from pubsub_cluster.client.connection import Request
from pubsub_cluster.client.in_order import ask_in_order
from pubsub_cluster.client.matches import Matches, matches_from_reply
from pubsub_cluster.client.operating import OperatorCalls
from pubsub_cluster.client.publishing import Batch, Publication, answer_of, publication_of, stack_of
from pubsub_cluster.client.schema_calls import SchemaCalls
from pubsub_cluster.client.session import Session
from pubsub_cluster.client.stacks import PARTS_IN_FLIGHT, Ways, publish_list
from pubsub_cluster.language.errors import CallerError, PubSubError
from pubsub_cluster.language.paths import client_endpoint, default_data_dir
from pubsub_cluster.language.protocol import RETAINED_TOLD, Message, Op
from pubsub_cluster.language.together import REQUESTS_MAX

PENDING_MAX = 512
"""Publications of `publish_soon` without an answer; more would not fit the sockets' queues."""

AnswerName: TypeAlias = Literal["handles", "counts", "none"]
_Pending = TypeVar("_Pending")


class Calls(OperatorCalls, SchemaCalls):
    """What a client can do, whether or not its session blocks.

    Parameters
    ----------
    session : Session
    publisher : str, optional
        Name under which batches are published; unique to this client without it.
    """

    def __init__(self, session: Session, publisher: str | None) -> None:
        self._session = session
        self.publisher = publisher if publisher is not None else session.client_id
        self._catalogue = CatalogueCalls(session)

    # -- the catalogue -----------------------------------------------------------------------------

    async def subscribe(
        self,
        expression: Any,
        *,
        id: str | None = None,
        owner: str | None = None,
        valid_from: int | None = None,
        valid_until: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        retained: int = RETAINED_TOLD,
    ) -> Subscription:
        """Make a subscription; it is durable, and seen by every later batch, when this returns.

        Parameters
        ----------
        expression : str, dict, Expression or Python form
            ``'price > 10'``, ``{"attr": "price", "op": ">", "value": 10}`` or ``attr("price") > 10``.
        id : str, optional
            Unique; assigned without it.
        owner : str, optional
            Who is notified (`listen`).
        valid_from, valid_until : int, optional
            Window [from, until) in microseconds since the epoch.
        metadata : mapping, optional
            A JSON object that `describe_many` gives back; matching never looks at it.
        retained : int
            Retained events (`publish`, `valid_until`) that `Subscription.retained` tells at most; 0: they
            are not looked at.

        Raises
        ------
        ExpressionError, DomainError, DuplicateIdError, WindowError, LimitError
            The subscription is refused; nothing has changed.
        """
        optional = {
            "id": id,
            "owner": owner,
            "valid_from": valid_from,
            "valid_until": valid_until,
            "metadata": metadata,
        }
        item = {"expr": expression, **{k: v for k, v in optional.items() if v is not None}}
        return _raised((await self.subscribe_many([item], retained=retained))[0])

    async def subscribe_many(
        self,
        items: Iterable[Mapping[str, Any]],
        on_progress: Callable[[int], None] | None = None,
        *,
        retained: int = RETAINED_TOLD,
    ) -> list[Subscription | PubSubError]:
        """Make many subscriptions, pipelined; one that is refused leaves the others as they are.

        Parameters
        ----------
        items : iterable of mapping
            Each ``{"expr": ..., "id": ..., "owner": ..., "valid_from": ..., "valid_until": ..., "metadata":
            ...}``; only ``expr`` is required. They are taken as they are sent, some thousand at a time.
        on_progress : callable, optional
            Called with the number of items answered so far, about once per 2,000.
        retained : int
            As for `subscribe`, of each. Where many events are retained, give 0 for a large load: the
            subscriptions that a request has beyond four seconds' work are made and have an error there.

        Returns
        -------
        list of Subscription or PubSubError
            In the order of the items.
        """
        return await _collected(self._catalogue.subscribe(items, retained), on_progress)

    async def subscribe_stream(
        self, items: Iterable[Mapping[str, Any]], *, retained: int = RETAINED_TOLD
    ) -> AsyncGenerator[Subscription | PubSubError, None]:
        """Do what `subscribe_many` does for more items than fit into memory: yield what became of each.

        Items are taken some thousand ahead of the results.
        """
        async with aclosing(self._catalogue.subscribe(items, retained)) as found:
            async for results in found:
                for result in results:
                    yield result

    async def update(
        self,
        id: str,
        expression: Any,
        *,
        valid_from: int | Keep | None = KEEP,
        valid_until: int | Keep | None = KEEP,
        metadata: Mapping[str, Any] | Keep | None = KEEP,
    ) -> Subscription:
        """Replace a subscription's expression, and its window and metadata where given, at once.

        None is an unbounded window, and no metadata.

        Raises
        ------
        UnknownIdError
            No live subscription has this id. Else as for `subscribe`.
        """
        optional = {"valid_from": valid_from, "valid_until": valid_until, "metadata": metadata}
        item = {"id": id, "expr": expression, **{k: v for k, v in optional.items() if v is not KEEP}}
        return _raised((await self.update_many([item]))[0])

    async def update_many(
        self, items: Iterable[Mapping[str, Any]], on_progress: Callable[[int], None] | None = None
    ) -> list[Subscription | PubSubError]:
        """Replace many subscriptions; items as in `subscribe_many`, with ``id`` and without ``owner``."""
        return await _collected(self._catalogue.update(items), on_progress)

    async def unsubscribe(self, id: str) -> None:
        """Remove a subscription; no later batch sees it.

        Raises
        ------
        UnknownIdError
            No live subscription has this id.
        """
        error = (await self.unsubscribe_many([id]))[0]
        if error is not None:
            raise error

    async def unsubscribe_many(self, ids: Iterable[str]) -> list[PubSubError | None]:
        """Remove many subscriptions; the result has an error or None for each id."""
        return await self._catalogue.remove(ids)

    async def describe_many(
        self, ids: Iterable[str], *, expressions: bool = False
    ) -> list[dict[str, Any] | PubSubError]:
        """Return what subscriptions are: ``id handle owner valid_from valid_until metadata``.

        With `expressions` also ``expr``, as the owner wrote it. One that does not exist has an
        `UnknownIdError` in its place. Changes that are not durable yet are not seen.
        """
        return await self._catalogue.describe(ids, expressions)

    async def subscriptions(self) -> AsyncGenerator[Listed, None]:
        """Yield all subscriptions, the oldest first; a page is held at a time.

        Each that lives from the first to the last is yielded once, with an expression that it had meanwhile;
        one that is made or removed meanwhile may be.
        """
        async with aclosing(self._catalogue.every()) as found:
            async for listed in found:
                yield listed

    # -- events ------------------------------------------------------------------------------------

    async def publish(
        self,
        batch: Batch,
        *,
        answer: AnswerName = "handles",
        ids: bool = False,
        batch_id: str | None = None,
        at: int | None = None,
        valid_until: int | None = None,
    ) -> Matches:
        """Publish a batch of events and return who is to be told.

        Parameters
        ----------
        batch : list of dict, dict of columns, or bytes
            A list of events; a mapping from attribute names to NumPy arrays, Arrow arrays, pandas Series or
            lists of one length, an Arrow table or record batch, or a pandas DataFrame (without its index); or
            JSON: lines of objects, or one array of objects.
            A `datetime` with an offset is a value where the attribute is declared as `timestamp`.
        answer : {"handles", "counts", "none"}
            How much comes back. Owners are notified in any case.
        ids : bool
            Return the subscriptions' ids too (with ``answer="handles"``).
        batch_id : str, optional
            Recognises a repeat: within one life of the coordinator, the same id gives the stored answer.
        at : int, optional
            Time of acceptance; only for a cluster that runs with an injected clock.
        valid_until : int, optional
            Retain the events until then, microseconds since the epoch, for subscriptions that are made later.

        Raises
        ------
        LimitError, BusyError, PoisonBatchError, ReplyTimeoutError
            The batch as a whole was not matched. A refused event is in `Matches.refused` instead.
        """
        publication = await self._publication(batch, answer, ids, batch_id, at, valid_until)
        message = await self._session.ask(Op.PUBLISH, publication.fields, publication.buffers)
        return _matches(message, publication)

    async def receive(self, timeout_s: float = 0.0) -> int:
        """Take in answers to `publish_soon`; wait at most `timeout_s` for the first. Return how many came.

        To be called now and then by whoever publishes so: it also sends again what has to be.
        """
        return await self._session.receive(timeout_s)

    async def publish_stream(
        self,
        batches: Iterable[Batch],
        *,
        in_flight: int = 4,
        answer: AnswerName = "handles",
        ids: bool = False,
        valid_until: int | None = None,
    ) -> AsyncGenerator[Matches, None]:
        """Publish batches with up to `in_flight` of them on their way; yield their matches in order.

        Batches of up to a few thousand events are matched together while they wait for a worker: the more are
        on their way, the less each of them costs (64 for batches of a thousand events and two workers).
        A column's array must not change before its batch's matches are out: large buffers are not copied. The
        first batch that is refused as a whole raises its error and ends the stream.

        Of a list of batches a fifth of `in_flight` is sent at a time, in one message where they are small;
        from anything else, which may have to wait for its next batch, each is sent as soon as it is there.
        Batches of a list with the same columns of integers are stacked: published as one, so that listeners
        are told of their events by one batch id (`pubsub_cluster.client.stacks`).
        """
        in_flight = max(1, in_flight)
        if isinstance(batches, list | tuple) and in_flight >= PARTS_IN_FLIGHT and await self._takes_several():
            ways = Ways(
                lambda batch: self._publication(batch, answer, ids, None, None, valid_until),
                lambda stack: self._stack(stack, answer, ids, valid_until),
                lambda batch: self.publish(batch, answer=answer, ids=ids, valid_until=valid_until),
            )
            async with aclosing(publish_list(self._session, batches, in_flight, ways)) as found:
                async for matches in found:
                    yield matches
            return
        sent: deque[Publication] = deque()

        async def send(batch: Batch) -> Request:
            publication = await self._publication(batch, answer, ids, None, None, valid_until)
            sent.append(publication)
            return await self._session.send(Op.PUBLISH, publication.fields, publication.buffers)

        senders = (partial(send, batch) for batch in batches)
        async with aclosing(ask_in_order(self._session, senders, in_flight)) as finished:
            async for request in finished:
                yield _matches(await self._session.wait(request), sent.popleft())

    async def _takes_several(self) -> bool:
        """Say whether the cluster takes several requests in one message."""
        requests = (await self._session.hello()).get("requests")
        return isinstance(requests, int) and requests >= REQUESTS_MAX

    async def forget(self, owner: str, durable: str) -> bool:
        """Remove a durable receiver and all that is kept for it; return whether there was one."""
        reply = await self._session.ask(Op.FORGET, {"owner": owner, "durable": durable})
        return reply.header.get("forgotten") is True

    # -- helpers -----------------------------------------------------------------------------------

    async def _publication(
        self,
        batch: Batch,
        answer: AnswerName,
        ids: bool,
        batch_id: str | None,
        at: int | None,
        valid_until: int | None = None,
    ) -> Publication:
        size_bytes_max, events_max = await self._catalogue.batch_limits()
        fields = self._batch_fields(batch_id)
        if at is not None:
            fields["at"] = _instant("at", at)
        if valid_until is not None:
            fields["valid_until"] = _instant("valid_until", valid_until)
        return publication_of(batch, answer_of(answer), ids, fields, size_bytes_max, events_max)

    async def _stack(
        self, batches: Sequence[Batch], answer: AnswerName, ids: bool, valid_until: int | None
    ) -> Publication | None:
        """Return batches as one; what is retained is known by its own batch."""
        if answer == "none" or ids or valid_until is not None:
            return None
        return stack_of(
            batches, answer_of(answer), self._batch_fields(None), *await self._catalogue.batch_limits()
        )

    def _batch_fields(self, batch_id: str | None) -> dict[str, Any]:
        return {
            "batch_id": batch_id if batch_id is not None else self._catalogue.new_id("b"),
            "publisher": self.publisher,
        }


async def soon(
    calls: Calls,
    kind: Callable[[Session, Request, Publication], _Pending],
    on_answer: Callable[[_Pending], object] | None,
    batch: Batch,
    *,
    answer: AnswerName,
    ids: bool,
    batch_id: str | None,
    at: int | None,
    valid_until: int | None,
) -> _Pending:
    """Do what `publish_soon` does, for a client of either kind."""
    publication = await calls._publication(batch, answer, ids, batch_id, at, valid_until)
    await calls._session.wait_for_room(PENDING_MAX)
    request = await calls._session.send(Op.PUBLISH, publication.fields, publication.buffers)
    pending = kind(calls._session, request, publication)
    request.on_finish = _ignored if on_answer is None else partial(on_answer, pending)
    return pending


def endpoint_of(data_dir: str | os.PathLike[str] | None, endpoint: str | None) -> str:
    """Return the endpoint that is given, or that of the cluster on a data directory."""
    if endpoint is not None:
        return endpoint
    return client_endpoint(default_data_dir() if data_dir is None else data_dir)


def _instant(name: str, given: int) -> int:
    if type(given) is not int:  # JSON says null for a NaN, which stands for none
        raise CallerError(f"`{name}` is not an integer of microseconds", seen=given)
    return given


def _ignored() -> None:
    """Nobody wants to be told."""


async def _collected(
    parts: AsyncIterable[list[Subscription | PubSubError]], on_progress: Callable[[int], None] | None
) -> list[Subscription | PubSubError]:
    results: list[Subscription | PubSubError] = []
    async for part in parts:
        results += part
        if part and on_progress is not None:
            on_progress(len(results))
    return results


def _raised(result: Subscription | PubSubError) -> Subscription:
    if isinstance(result, PubSubError):
        raise result
    return result


def _matches(message: Message, publication: Publication) -> Matches:
    return matches_from_reply(message, publication.answer, publication.with_ids, publication.refused)
