"""Tells owners what a publication matched.

Notifications to listeners are *live*: each has a bounded queue in its connection; what finds no room there is
dropped, counted, and the receiver is told with the next one that does. What durable receivers are told is
kept (`coordinator.delivery.durable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson

from pubsub_cluster.coordinator.delivery.durable import DurableDesk
from pubsub_cluster.coordinator.delivery.listeners import Listener, Listeners
from pubsub_cluster.coordinator.delivery.outbox_records import Body, Entry
from pubsub_cluster.coordinator.delivery.told import Told, tell
from pubsub_cluster.coordinator.merge import Merged
from pubsub_cluster.language.protocol import Buffer, notify_frames
from pubsub_cluster.shm.catalogue import CatalogueReader

NOTIFIED_SIZE_BYTES_MAX = 32 << 20
MATCH_SIZE_BYTES = 32
KEEP_ALIVE_S = 30.0


class DeliveryDesk:
    """Who listens, and what is sent to them.

    Parameters
    ----------
    send : callable
        ``send(identity, frames) -> bool``; False when the connection's queue is full;
        raises `ConnectionError` when the connection is gone.

    Attributes
    ----------
    sent, dropped : int
        Notifications since the start.
    durable : DurableDesk or None
        Set once there is one.
    """

    def __init__(self, send: Callable[[bytes, list[Buffer]], bool]) -> None:
        self._send = send
        self.listeners = Listeners()
        self.durable: DurableDesk | None = None
        self.sent = 0
        self.dropped = 0
        self._swept_at_s = 0.0

    @property
    def active(self) -> bool:
        """True when somebody listens, or will."""
        return self.listeners.count > 0 or self.keeps

    @property
    def keeps(self) -> bool:
        """True when there are durable receivers."""
        return self.durable is not None and self.durable.active

    def listen(self, identity: bytes, owner: str) -> dict[str, Any]:
        """Let a connection listen for an owner; return the fields of the reply.

        Raises
        ------
        LimitError
            There are too many listeners, none of whom has gone.
        """
        if self.listeners.is_full:
            self.sweep()
        heard = self.listeners.add(identity, owner)
        sequence = int(self.listeners.sequences[heard.number])
        return {"owner": owner, "number": heard.number, "sequence": sequence}

    def unlisten(self, identity: bytes, owner: str) -> None:
        """Stop telling a connection; one that does not listen is no error."""
        self.listeners.remove(identity, owner)

    def tick(self, now_s: float) -> None:
        """Every now and then, find listeners whose connection is gone."""
        if now_s - self._swept_at_s >= KEEP_ALIVE_S:
            self._swept_at_s = now_s
            self.sweep()

    def sweep(self) -> None:
        """Send everybody a notification without events, and forget who is gone."""
        for listener in self.listeners:
            self._push(listener, "", "", [])

    def notify(
        self,
        merged: Merged,
        catalogue: CatalogueReader,
        owner_count: int,
        publisher: str,
        batch_id: str,
        events_json: Callable[[list[int]], list[bytes]],
    ) -> int:
        """Tell every listener its matches of one publication.

        Each event is encoded once, whoever hears of it. When a publication would tell more than
        `NOTIFIED_SIZE_BYTES_MAX`, the owners beyond are dropped and told so later.

        Returns the record that the publisher's answer waits for (`DurableDesk.keep`), 0: none.

        Raises
        ------
        BusyError, LimitError, StoreError
            It cannot be kept for durable receivers; nobody was told.
        """
        told = tell(merged, self.listeners, catalogue, owner_count)
        if told is None:
            return 0
        events = told.events.tolist()
        event_json = dict(zip(events, events_json(events), strict=True))
        record = self._keep(told, catalogue, publisher, batch_id, event_json) if self.keeps else 0
        room_bytes = NOTIFIED_SIZE_BYTES_MAX
        for number, entries in _by_number(told):
            listeners = list(self.listeners.heard(number).listeners.values())
            if not listeners:
                continue
            body, size_bytes = _body(told, entries, catalogue, event_json)
            for listener in listeners:
                room_bytes -= size_bytes
                if room_bytes < 0:
                    listener.dropped += len(body)
                    self.dropped += len(body)
                else:
                    self._push(listener, publisher, batch_id, body)
        return record

    def _keep(
        self,
        told: Told,
        catalogue: CatalogueReader,
        publisher: str,
        batch_id: str,
        event_json: dict[int, bytes],
    ) -> int:
        """Keep what owners with durable receivers are told."""
        assert self.durable is not None
        places: dict[int, int] = {}
        parts: dict[str, list[Entry]] = {}
        for number, entries in _by_number(told):
            heard = self.listeners.heard(number)
            if heard.is_kept:
                part = parts[heard.owner] = []
                for entry in entries:
                    place = places.setdefault(int(told.event[entry]), len(places))
                    part.append(Entry(place, *_matches(told, entry, catalogue)))
        if not parts:
            return 0
        body = Body([(event_idx, event_json[event_idx]) for event_idx in places], parts)
        return self.durable.keep(publisher, batch_id, body)

    def _push(self, listener: Listener, publisher: str, batch_id: str, body: list[dict[str, Any]]) -> None:
        fields = {
            "owner": listener.owner,
            "publisher": publisher,
            "batch_id": batch_id,
            "dropped": listener.dropped,
            "events": body,
        }
        try:
            accepted = self._send(listener.identity, notify_frames(fields))
        except ConnectionError:
            self.listeners.remove(listener.identity, listener.owner)
            self.dropped += len(body)
            return
        if not body:
            return
        listener.dropped = 0 if accepted else listener.dropped + len(body)
        self.sent += len(body) * accepted
        self.dropped += len(body) * (not accepted)


def _by_number(told: Told) -> Iterator[tuple[int, list[int]]]:
    """Yield each number with its entries, in order."""
    order = np.argsort(told.number, kind="stable")
    numbers, starts = np.unique(told.number[order], return_index=True)
    for number, entries in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        yield number, entries.tolist()


def _body(
    told: Told, entries: list[int], catalogue: CatalogueReader, event_json: dict[int, bytes]
) -> tuple[list[dict[str, Any]], int]:
    """Return the events of a push and about how many bytes they take."""
    body: list[dict[str, Any]] = []
    size_bytes = 0
    for entry in entries:
        event_idx = int(told.event[entry])
        handles, ids = _matches(told, entry, catalogue)
        body.append(
            {
                "event_index": event_idx,
                "sequence": int(told.sequence[entry]),
                "handles": handles,
                "ids": ids,
                "event": orjson.Fragment(event_json[event_idx]),
            }
        )
        size_bytes += len(event_json[event_idx]) + MATCH_SIZE_BYTES * len(ids)
    return body, size_bytes


def _matches(told: Told, entry: int, catalogue: CatalogueReader) -> tuple[list[int], list[str]]:
    """Return handles and ids of an entry."""
    matches = slice(int(told.offsets[entry]), int(told.offsets[entry + 1]))
    ids = [catalogue.subscription_id(row) for row in told.rows[matches].tolist()]
    return told.handles[matches].tolist(), ids
