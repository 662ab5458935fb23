"""A list of batches: a fifth of those in flight at a time, alike ones stacked into one publication.

What a batch costs besides its events, to its publisher and to the cluster, it costs because it is a batch: a
header, a request, a reply, an entry among the replies that are kept. So batches of the same columns of
integers travel as one, the events of each behind those of the one before, and the answer is divided among
them. If the cluster refuses that as a whole, each is published for itself: one of them may have too many
matches, say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.client.connection import Request
from pubsub_cluster.client.matches import Matches, divided, matches_from_reply
from pubsub_cluster.client.publishing import Batch, Publication
from pubsub_cluster.client.session import Session
from pubsub_cluster.language.errors import BusyError, LimitError, PoisonBatchError
from pubsub_cluster.language.protocol import Op

PARTS_IN_FLIGHT = 5
"""Of a list of batches: the fewer, the more travel together, and the sooner workers may run dry."""
STACK_VALUES_MAX = 384 << 10
"""What the cluster has matched in one go."""


class Ways(NamedTuple):
    """How batches become publications.

    Attributes
    ----------
    alone : callable
        Encodes one batch.
    stacked : callable
        Encodes several as one; None where they are not alike, or their answer could not be divided.
    anew : callable
        Publishes one batch and waits for its matches.
    """

    alone: Callable[[Batch], Coroutine[Any, Any, Publication]]
    stacked: Callable[[Sequence[Batch]], Coroutine[Any, Any, Publication | None]]
    anew: Callable[[Batch], Coroutine[Any, Any, Matches]]


class Sent(NamedTuple):
    """A request, and the batches whose events it has.

    Attributes
    ----------
    request : Request
    publication : Publication
    batches : sequence of Batch
    event_counts : list of int
        Of each of several batches.
    """

    request: Request
    publication: Publication
    batches: Sequence[Batch]
    event_counts: list[int]


async def publish_list(
    session: Session, batches: Sequence[Batch], in_flight: int, ways: Ways
) -> AsyncGenerator[Matches, None]:
    """Publish batches with at most `in_flight` of them unanswered; yield their matches in order.

    None is held back while the caller has what is yielded.

    Raises
    ------
    PubSubError
        A batch is refused as a whole; those before it are answered.
    """
    at_once = max(1, in_flight // PARTS_IN_FLIGHT)
    waiting: deque[Sent] = deque()
    unanswered = 0
    source = iter(batches)
    try:
        while several := list(islice(source, at_once)):
            try:
                await _send(session, several, ways, waiting)
            finally:
                session.release()
            unanswered += len(several)
            while unanswered > in_flight - at_once:
                unanswered -= len(waiting[0].batches)
                async with aclosing(_answers(session, waiting.popleft(), ways)) as answers:
                    async for matches in answers:
                        yield matches
        while waiting:
            async with aclosing(_answers(session, waiting.popleft(), ways)) as answers:
                async for matches in answers:
                    yield matches
    finally:
        for sent in waiting:
            session.connection.forget(sent.request)


async def _send(session: Session, batches: Sequence[Batch], ways: Ways, waiting: deque[Sent]) -> None:
    """Send batches, as few publications as they fit into; what is sent goes to `waiting`."""
    size = _stack_size(batches[0])
    for first in range(0, len(batches), size):
        stack = batches[first : first + size]
        publication = await ways.stacked(stack) if len(stack) > 1 else None
        if publication is not None:
            request = await session.send(Op.PUBLISH, publication.fields, publication.buffers)
            waiting.append(Sent(request, publication, stack, [_shape_of(batch)[1] for batch in stack]))
            continue
        for batch in stack:
            publication = await ways.alone(batch)
            request = await session.send(Op.PUBLISH, publication.fields, publication.buffers, hold=True)
            waiting.append(Sent(request, publication, [batch], []))


def _stack_size(batch: Batch) -> int:
    """Return how many batches like this one are stacked at most."""
    column_count, event_count = _shape_of(batch)
    return max(1, STACK_VALUES_MAX // (max(column_count, 3) * event_count)) if event_count else 1


def _shape_of(batch: Any) -> tuple[int, int]:
    """Return columns and events of a batch of columns; no events where it is something else."""
    if type(batch) is not dict or not batch:
        return 0, 0
    column = next(iter(batch.values()))
    return len(batch), len(column) if isinstance(column, np.ndarray) and column.ndim == 1 else 0


async def _answers(session: Session, sent: Sent, ways: Ways) -> AsyncGenerator[Matches, None]:
    """Yield the matches of each batch of a request, when they are there."""
    publication, batches = sent.publication, sent.batches
    try:
        message = await session.wait(sent.request)
    except (LimitError, PoisonBatchError, BusyError):
        if len(batches) == 1:
            raise
        for batch in batches:
            yield await ways.anew(batch)
        return
    if len(batches) == 1:
        yield matches_from_reply(message, publication.answer, publication.with_ids, publication.refused)
        return
    for matches in divided(message, publication.answer, sent.event_counts):
        yield matches
