"""An owner's notifications as a stream of Spark.

The reader listens in a process of the driver's host from the query's start on. Notifications are live: the
cluster keeps none for an owner who is away. So this source is at most once, and says what it lost where it
knows: ``dropped`` of a row counts what the cluster or this reader, whose queue is bounded, had to drop
directly before it. A micro-batch that was begun but not finished when the query was stopped is gone, for its
notifications were in that process only; the query that goes on from the checkpoint gets one row in its place,
with the count in ``dropped`` and no event. What was published while nobody listened is nowhere counted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import orjson
from pyspark.sql.datasource import SimpleDataSourceStreamReader

from pubsub_cluster.client import Client
from pubsub_cluster.client.listener import NotificationQueue
from pubsub_cluster.client.notifications import Notification

log = logging.getLogger("pubsub_cluster.pipeline")

ROWS_PER_READ_MAX = 50_000
Row = tuple[Any, ...]


class NotificationReader(SimpleDataSourceStreamReader):
    """Gives what has come since the last time; an offset counts the notifications taken so far.

    Parameters
    ----------
    owner : str
    client : dict
        Arguments of `Client`.
    """

    def __init__(self, owner: str, client: dict[str, Any]) -> None:
        self._owner = owner
        self._client = client
        self._listening: Listening | None = None

    def initialOffset(self) -> dict[str, int]:
        """Begin to listen."""
        self._queue()
        return {"taken": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Row], dict[str, int]]:
        """Return what has come."""
        rows = [_row_of(one) for one in self._queue().take(ROWS_PER_READ_MAX)]
        return iter(rows), {"taken": start["taken"] + len(rows)}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[Row]:
        """Tell of what is gone: asked for after a restart, and, of nothing, at the beginning."""
        lost = end["taken"] - start["taken"]
        return iter([(self._owner, *[None] * 7, lost)] if lost else [])

    def _queue(self) -> Listening:
        if self._listening is None:
            self._listening = Listening(self._owner, self._client)
        return self._listening


class Listening:
    """Listens in a thread, which has a client of its own, and ends with the process.

    Raises
    ------
    PubSubError
        The cluster does not answer, or refuses the listener.
    """

    def __init__(self, owner: str, client: dict[str, Any]) -> None:
        self._queued = NotificationQueue()
        self._error: BaseException | None = None
        self._begun = threading.Event()
        threading.Thread(target=self._listen, args=(owner, client), daemon=True).start()
        self._begun.wait()
        self._check()

    def take(self, count_max: int) -> list[Notification]:
        """Return what has come, and do not wait for more; raises what has ended the listening."""
        self._check()
        return [self._queued.popleft() for _ in range(min(count_max, len(self._queued)))]

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _listen(self, owner: str, client_options: dict[str, Any]) -> None:
        try:
            with (
                Client(**client_options) as client,
                client.listen(owner, on_silence=_tell_silence, on_return=_tell_return) as listener,
            ):
                self._begun.set()
                for notification in listener:
                    self._queued.put(notification)
        except BaseException as error:  # told by the thread that reads
            self._error = error
        finally:
            self._begun.set()


def _row_of(one: Notification) -> Row:
    event = orjson.dumps(one.event).decode()
    place = (one.owner, one.publisher, one.batch_id, one.event_index)
    return (*place, list(one.handles), list(one.ids), event, one.sequence, one.dropped)


def _tell_silence() -> None:
    log.warning("the connection to the cluster is lost; listening goes on")


def _tell_return() -> None:
    log.warning("the connection to the cluster is back")
