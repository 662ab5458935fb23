"""Events that matched nobody, for operators who want to see them.

Whoever listens for them has connections like an owner's listeners, and its notifications are counted like an
owner's, so that a loss is noticed. What is sent is bounded by time: most of a busy cluster's events may match
nobody, and a person reads a few. The others are lost, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from pubsub_cluster.coordinator.delivery.listeners import Listener
from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.protocol import UNMATCHED, Buffer, notify_frames

UNMATCHED_LISTENERS_MAX = 16
UNMATCHED_PER_S_MAX = 2_000
"""Events; as many may come at once after a second without any."""
UNMATCHED_SIZE_BYTES_MAX = 1 << 20
"""Of the events of one push; one that is larger alone is sent."""


class Unmatched:
    """Tells of events that matched nobody; without clock and sockets.

    Parameters
    ----------
    send : callable
        As for `DeliveryDesk`.

    Attributes
    ----------
    sent, dropped : int
        Notifications since the start.
    """

    def __init__(self, send: Callable[[bytes, list[Buffer]], bool]) -> None:
        self._send = send
        self._listeners: dict[bytes, Listener] = {}
        self._sequence = 0
        self._room = float(UNMATCHED_PER_S_MAX)
        self._room_at_s: float | None = None
        self.sent = 0
        self.dropped = 0

    @property
    def count(self) -> int:
        """Connections that listen."""
        return len(self._listeners)

    def listen(self, identity: bytes) -> dict[str, Any]:
        """Let a connection listen; return the fields of the reply.

        Raises
        ------
        LimitError
            There are too many, none of whom has gone.
        """
        if identity not in self._listeners:
            if self.count >= UNMATCHED_LISTENERS_MAX:
                self.sweep()
            if self.count >= UNMATCHED_LISTENERS_MAX:
                raise LimitError(
                    "too many listeners for unmatched events",
                    seen=self.count,
                    limit=UNMATCHED_LISTENERS_MAX,
                    remedy="Close some of them.",
                    limit_name="UNMATCHED_LISTENERS_MAX",
                )
            self._listeners[identity] = Listener(identity, UNMATCHED)
        return {"owner": UNMATCHED, "number": 0, "sequence": self._sequence}

    def unlisten(self, identity: bytes) -> None:
        """Stop telling a connection; one that does not listen is no error."""
        self._listeners.pop(identity, None)

    def sweep(self) -> None:
        """Find connections that are gone."""
        self._push("", "", [])

    def tell(
        self,
        offsets: npt.NDArray[np.int64],
        refused: Sequence[int],
        publisher: str,
        batch_id: str,
        events_json: Callable[[list[int]], list[bytes]],
        now_s: float,
    ) -> None:
        """Tell of a publication's events without matches, refused ones left out.

        Parameters
        ----------
        offsets : int64[event_count + 1]
            Where each event's matches start.
        refused : sequence of int
        publisher, batch_id : str
        events_json : callable
            Returns events as JSON.
        now_s : float
        """
        unmatched = offsets[1:] == offsets[:-1]
        unmatched[list(refused)] = False
        found = np.flatnonzero(unmatched)
        if not len(found):
            return
        chosen = found[: self._take_room(len(found), now_s)].tolist()
        body: list[dict[str, Any]] = []
        size_bytes = 0
        for number, event in enumerate(events_json(chosen) if chosen else []):
            size_bytes += len(event)
            if body and size_bytes > UNMATCHED_SIZE_BYTES_MAX:
                break
            told = {"event_index": chosen[number], "sequence": self._sequence + number}
            body.append({**told, "handles": [], "ids": [], "event": orjson.Fragment(event)})
        self._sequence += len(found)
        if body:
            self._push(publisher, batch_id, body)
        lost = len(found) - len(body)
        for listener in self._listeners.values():
            listener.dropped += lost
        self.dropped += lost * self.count

    def _take_room(self, wanted: int, now_s: float) -> int:
        if self._room_at_s is not None:
            gained = (now_s - self._room_at_s) * UNMATCHED_PER_S_MAX
            self._room = min(self._room + gained, UNMATCHED_PER_S_MAX)
        self._room_at_s = now_s
        taken = min(wanted, int(self._room))
        self._room -= taken
        return taken

    def _push(self, publisher: str, batch_id: str, body: list[dict[str, Any]]) -> None:
        fields = {"owner": UNMATCHED, "publisher": publisher, "batch_id": batch_id, "events": body}
        for listener in list(self._listeners.values()):
            try:
                accepted = self._send(
                    listener.identity, notify_frames({**fields, "dropped": listener.dropped})
                )
            except ConnectionError:
                del self._listeners[listener.identity]
                continue
            if body:
                listener.dropped = 0 if accepted else listener.dropped + len(body)
                self.sent += len(body) * accepted
                self.dropped += len(body) * (not accepted)
