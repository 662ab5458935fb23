"""A durable receiver's side of its agreement with the cluster: what was taken, and what is acknowledged.

The cluster sends a window of notifications and goes on as they are acknowledged. An acknowledgement is
cumulative: it says that everything up to a sequence has been dealt with. What was sent and not acknowledged
is sent again on another connection, or in another life; what this process has had already is discarded here,
and so is an event that was published again, which has the same (publisher, batch id, event index).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from pubsub_cluster.client.listener import AsyncListener, Hearing, Listener
from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.language.errors import ClusterError, PubSubError

KEYS_MAX = 65_536
"""Notifications whose keys are remembered, to recognise those that are published again."""


class Receipts:
    """What of a durable receiver's notifications has come, was dealt with, and is acknowledged; pure.

    Parameters
    ----------
    window : int
        Notifications that may be unacknowledged: half of them are acknowledged at once, or fewer at rest.

    Attributes
    ----------
    number : int or None
        The cluster's for the receiver.
    repeated_count : int
        Notifications that had come before, and were discarded.
    """

    def __init__(self, window: int) -> None:
        self._step = max(1, window // 2)
        self.number: int | None = None
        self.repeated_count = 0
        self._next = 1  # the sequence that comes next
        self._said = 0  # acknowledged to the cluster
        self._open: deque[int] = deque()  # given out, and not dealt with
        self._lost = 0
        self._keys: OrderedDict[tuple[str, str, int], None] = OrderedDict()

    def begin(self, number: int, sequence: int) -> None:
        """The cluster begins to tell, and takes everything before a sequence for acknowledged."""
        if number != self.number:  # made anew, or the first time
            self.number = number
            self._next = sequence
            self._open.clear()
        self._next = max(self._next, sequence)
        self._said = sequence - 1

    def hear(self, notification: Notification) -> Notification | None:
        """Take one that has arrived; return it, with what was lost before it, unless it came before.

        What comes before `begin` was for a listener before this one, and comes again.
        """
        if self.number is None:
            return None
        sequence = notification.sequence
        if sequence < self._next:
            self.repeated_count += 1
            return None
        self._lost += sequence - self._next
        self._next = sequence + 1
        key = (notification.publisher, notification.batch_id, notification.event_index)
        if key in self._keys:
            self.repeated_count += 1
            return None
        self._keys[key] = None
        if len(self._keys) > KEYS_MAX:
            self._keys.popitem(last=False)
        self._open.append(sequence)
        lost, self._lost = self._lost, 0
        return notification._replace(dropped=lost) if lost else notification

    def dealt_with(self, sequence: int) -> None:
        """Everything up to a sequence has been dealt with."""
        while self._open and self._open[0] <= sequence:
            self._open.popleft()

    def due(self, at_rest: bool) -> int | None:
        """Return the sequence to acknowledge now, if any; it counts as acknowledged then."""
        done = (self._open[0] if self._open else self._next) - 1
        if done - self._said >= (1 if at_rest else self._step):
            self._said = done
            return done
        return None


class DurableHearing(Hearing):
    """What is kept for a durable receiver, in order, and as far as nobody has taken it.

    Parameters
    ----------
    name : str
    window : int
        Notifications that the cluster sends unacknowledged.
    by_hand : bool
        Nothing is acknowledged but by `acknowledge`.
    say : callable
        ``say(number, sequence)`` acknowledges to the cluster.
    *rest
        As for `Hearing`.
    """

    def __init__(
        self, name: str, window: int, by_hand: bool, say: Callable[[int, int], None], *rest: Any
    ) -> None:
        super().__init__(*rest)
        self.durable = name
        self.window = window
        self.receipts = Receipts(window)
        self._by_hand = by_hand
        self._say = say
        self._taken: Notification | None = None
        self._error: PubSubError | None = None

    @property
    def listen_fields(self) -> dict[str, Any]:
        """What the cluster is asked for."""
        return {"owner": self.owner, "durable": self.durable, "window": self.window}

    def acknowledge(self, notification: Notification | None = None) -> None:
        """Say that a notification, the last one without it, and all before it have been dealt with.

        The cluster is told at the latest when nothing else has arrived and the next one is asked for.
        """
        notification = notification or self._taken
        if notification is not None:
            self.receipts.dealt_with(notification.sequence)
            self._taken = None
            self._say_what_is_due(at_rest=False)

    def begin(self, source: Any, sequence: int) -> None:
        """The cluster tells from a sequence on; the last part of `source` is the receiver's number."""
        number = source[-1]
        if self.receipts.number not in (None, number):
            self._queue.clear()
            self._taken = None
        self.receipts.begin(number, sequence)
        self._say_what_is_due(at_rest=True)  # an acknowledgement was lost with a life

    def hear(self, notification: Notification, now_s: float) -> None:
        """Take a notification that has arrived; the window bounds how many."""
        new = self.receipts.hear(notification)
        if new is not None:
            self._queue.put(new)
        elif not self._queue:
            self._say_what_is_due(at_rest=True)

    def tell(self) -> None:
        """Call `on_notification` with the first that is queued; one that it raises at comes again."""
        assert self.on_notification is not None
        self._taken = notification = self._queue.popleft()
        try:
            self.on_notification(notification)
        except BaseException:
            self._queue.appendleft(notification)
            raise
        if not self._by_hand:
            self.acknowledge(notification)
        if not self._queue:
            self._say_what_is_due(at_rest=True)

    def ended_by_cluster(self, why: str) -> None:
        """The cluster tells this connection no longer."""
        super().ended_by_cluster(why)
        self._queue.clear()
        conditions = {
            "taken_over": f"another connection listens as `{self.durable}` for `{self.owner}` now",
            "forgotten": f"the durable receiver `{self.durable}` of `{self.owner}` was forgotten",
        }
        self._error = ClusterError(
            conditions.get(why, why),
            remedy="One connection at a time has a durable receiver's notifications: the one that came last.",
        )

    async def _next(self) -> Notification | None:
        """Wait for the next one; the one before it has been dealt with, unless that is told by hand."""
        if self._taken is not None and not self._by_hand:
            self.acknowledge()
        if not self._queue:
            self._say_what_is_due(at_rest=True)
        self._taken = await super()._next()
        if self._taken is None and self._error is not None:
            raise self._error
        return self._taken

    async def _end(self) -> None:
        if not self.closed:
            if self._taken is not None and not self._by_hand:
                self.acknowledge()
            self._say_what_is_due(at_rest=True)
            self._queue.clear()
        await super()._end()

    def _say_what_is_due(self, at_rest: bool) -> None:
        sequence = None if self.closed else self.receipts.due(at_rest)
        if sequence is not None and self.receipts.number is not None:
            self._say(self.receipts.number, sequence)


class DurableListener(DurableHearing, Listener):
    """Iterator over what is kept for a durable receiver; made by `Client.listen` with a name.

    A notification is acknowledged when the next one is asked for, and the last one when the iterator is
    closed (not when an exception leaves its ``with``); or, by hand, with `acknowledge`. What is not
    acknowledged comes again, to whoever listens next under that name. When another connection does, or the
    receiver is forgotten, asking for the next one raises `ClusterError`.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening; after an exception the last notification will come again."""
        if kind is not None:
            self._taken = None
        self.close()


class AsyncDurableListener(DurableHearing, AsyncListener):
    """What `DurableListener` is, for ``async for``; made by `AsyncClient.listen` with a name."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening; after an exception the last notification will come again."""
        if kind is not None:
            self._taken = None
        await self.close()
