"""What an owner hears: one notification per event that some of its subscriptions match.

A listener's queue is bounded. What finds no room is dropped and counted, here as in the cluster: the next
notification that does find room says how many were lost before it, so that a gap is never silent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from pubsub_cluster.language.errors import ProtocolError

NOTIFICATIONS_QUEUED_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Notification:
    """One event and the subscriptions of one owner that it matched.

    Attributes
    ----------
    owner, publisher, batch_id : str
    event_index : int
        Index of the event in its batch. ``(publisher, batch_id, event_index)`` recognises a repeat, which a
        restart of the coordinator may cause.
    handles : tuple of int
        Ascending.
    ids : tuple of str
        Ids of the same subscriptions, in the same order.
    event : object
        The event as its publisher gave it (JSON types).
    sequence : int
        Number of the push that carried it (a push has all of an owner's events of one batch), counted per
        owner and connection from 0, lost ones included.
    dropped : int
        Pushes that the cluster dropped, plus notifications that this client dropped, directly before it.
    """

    owner: str
    publisher: str
    batch_id: str
    event_index: int
    handles: tuple[int, ...]
    ids: tuple[str, ...]
    event: Any
    sequence: int
    dropped: int


def notifications_from_push(header: dict[str, Any]) -> list[Notification]:
    """Return the notifications of one push.

    Raises
    ------
    ProtocolError
        A field is missing or of another kind.
    """
    try:
        return [
            Notification(
                header["owner"],
                header["publisher"],
                header["batch_id"],
                entry["event_index"],
                tuple(entry["handles"]),
                tuple(entry["ids"]),
                plain_event(entry["event"]),
                header["sequence"],
                header["dropped"] if entry_idx == 0 else 0,
            )
            for entry_idx, entry in enumerate(header["events"])
        ]
    except (KeyError, TypeError) as error:
        raise ProtocolError(
            "a notification lacks a field or has one of another kind", seen=repr(error)
        ) from None


def plain_event(value: Any) -> Any:
    """Return a pushed event with its tagged infinities, ``{"$float": "inf"}``, as floats."""
    if isinstance(value, dict):
        if value.keys() == {"$float"} and isinstance(value["$float"], str):
            return float(value["$float"])
        return {name: plain_event(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain_event(item) for item in value]
    return value


class Listener:
    """Iterator over an owner's notifications; made by `Client.listen`.

    It is registered with the cluster when it is made, not when it is first asked. It ends after `timeout_s`
    without a notification (None: never) or when it is closed; as a context manager it closes itself.
    """

    def __init__(
        self,
        owner: str,
        timeout_s: float | None,
        wait: Callable[[Listener], None],
        on_close: Callable[[Listener], None],
        queued_max: int = NOTIFICATIONS_QUEUED_MAX,
    ) -> None:
        self.owner = owner
        self.timeout_s = timeout_s
        self._wait = wait
        self._on_close = on_close
        self._queued_max = queued_max
        self._queue: deque[Notification] = deque()
        self._dropped_here = 0
        self.closed = False

    def __iter__(self) -> Listener:
        """Return the listener itself."""
        return self

    def __next__(self) -> Notification:
        """Wait for the next notification."""
        if not self._queue and not self.closed:
            self._wait(self)
        if not self._queue:
            raise StopIteration
        return self._queue.popleft()

    def __enter__(self) -> Listener:
        """Return the listener itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self.close()

    @property
    def queued_count(self) -> int:
        """Notifications that have arrived and were not yet taken."""
        return len(self._queue)

    def close(self) -> None:
        """Stop listening; what has arrived can still be taken."""
        if not self.closed:
            self.closed = True
            self._on_close(self)

    def put(self, notification: Notification) -> None:
        """Queue a notification, or count it as lost when there is no room."""
        if len(self._queue) >= self._queued_max:
            self._dropped_here += 1 + notification.dropped
            return
        if self._dropped_here:
            notification = replace(notification, dropped=notification.dropped + self._dropped_here)
            self._dropped_here = 0
        self._queue.append(notification)
