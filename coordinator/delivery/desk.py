"""Tells owners what a publication matched.

Notifications to listeners are *live*: each has a bounded queue in its connection; what finds no room there is
dropped, counted, and the receiver is told with the next one that does. What durable receivers are told is
kept (`coordinator.delivery.durable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import orjson

from pubsub_cluster.coordinator.delivery.counters import SentCounters
from pubsub_cluster.coordinator.delivery.durable import DurableDesk
from pubsub_cluster.coordinator.delivery.listeners import NOBODY, Listener, Listeners
from pubsub_cluster.coordinator.delivery.multicast import I8, Bools, Locate, Multicast
from pubsub_cluster.coordinator.delivery.outbox_records import Body, Entry
from pubsub_cluster.coordinator.delivery.told import Told, tell
from pubsub_cluster.coordinator.delivery.unmatched import Unmatched
from pubsub_cluster.coordinator.merge import Merged
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.protocol import Buffer, notify_frames
from pubsub_cluster.shm.catalogue import CatalogueReader

NOTIFIED_SIZE_BYTES_MAX = 32 << 20
MATCH_SIZE_BYTES = 32
KEEP_ALIVE_S = 30.0
Texts: TypeAlias = dict[int, bytes]  # of events, by their index


class DeliveryDesk:
    """Who listens, and what is sent to them.

    Parameters
    ----------
    send : callable
        ``send(identity, frames) -> bool``; False when the connection's queue is full;
        raises `ConnectionError` when the connection is gone.
    multicast : Multicast, optional
        Without it everybody is told by pushes.

    Attributes
    ----------
    sent, dropped : int
        Notifications since the start.
    durable : DurableDesk or None
        Set once there is one.
    unmatched : Unmatched
        Who listens for events that match nobody.
    """

    def __init__(
        self, send: Callable[[bytes, list[Buffer]], bool], multicast: Multicast | None = None
    ) -> None:
        self._send = send
        self.multicast = Multicast(send, None) if multicast is None else multicast
        self.listeners = Listeners()
        self.counters = SentCounters()
        self.unmatched = Unmatched(send)
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

    def listen(
        self, identity: bytes, owner: str, now_s: float = 0.0, takes_records: bool = False
    ) -> dict[str, Any]:
        """Let a connection listen for an owner; return the fields of the reply.

        Raises
        ------
        LimitError
            There are too many listeners, none of whom has gone.
        SegmentError
            It takes records, and there is no room for their ring.
        """
        if self.listeners.is_full:
            self.sweep()
        heard = self.listeners.add(identity, owner)
        self.counters.begin(heard.number, owner)
        sequence = int(self.listeners.sequences[heard.number])
        records = self.multicast.listens(identity, heard.number, now_s) if takes_records else None
        return {"owner": owner, "number": heard.number, "sequence": sequence, "records": records}

    def unlisten(self, identity: bytes, owner: str) -> None:
        """Stop telling a connection; one that does not listen is no error."""
        number = self.listeners.remove(identity, owner)
        if number != NOBODY:
            self.multicast.membership.leaves(identity, number)

    def keep(self, owner: str, on: bool) -> None:
        """Tell an owner that has durable receivers, or no longer for their sake."""
        self.counters.begin(self.listeners.keep(owner, on), owner)

    def pushed(self, owner: str, notifications: int, size_bytes: int) -> None:
        """A push went to an owner's durable receiver."""
        self.sent += notifications
        self.counters.unicast(self.listeners.number_of(owner), notifications, size_bytes)

    def tick(self, now_s: float) -> None:
        """Every now and then, find listeners whose connection is gone."""
        self.multicast.tick(now_s)
        if now_s - self._swept_at_s >= KEEP_ALIVE_S:
            self._swept_at_s = now_s
            self.sweep()

    def sweep(self) -> None:
        """Send everybody a notification without events, and forget who is gone."""
        for listener in self.listeners:
            self._push(listener, NOBODY, {"publisher": "", "batch_id": ""}, [])
        self.unmatched.sweep()

    def notify(
        self,
        merged: Merged,
        catalogue: CatalogueReader,
        owner_count: int,
        publisher: str,
        batch_id: str,
        events_json: Callable[[list[int]], list[bytes]],
        locate: Locate | None = None,
    ) -> int:
        """Tell every listener its matches of one publication, each notification by one way.

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
        try:
            record = self._keep(told, catalogue, publisher, batch_id, event_json) if self.keeps else 0
        except PubSubError:
            self.listeners.uncount(told.number)
            raise
        fields = {"publisher": publisher, "batch_id": batch_id}
        gone = self.multicast.send(told, catalogue, fields, event_json, locate, self.counters)
        self._tell_the_others(told, gone, catalogue, fields, event_json)
        return record

    def _tell_the_others(
        self, told: Told, gone: Bools, catalogue: CatalogueReader, fields: dict[str, Any], event_json: Texts
    ) -> None:
        """Tell by unicast what has not gone with a record, and who has not joined."""
        heard = gone * self.multicast.membership.joined_counts(told.number)
        self.sent += int(heard.sum())
        room_bytes = NOTIFIED_SIZE_BYTES_MAX
        chosen = np.flatnonzero(heard < self.listeners.listener_counts[told.number])
        for number, entries in _by_number(told, chosen):
            body, size_bytes = _body(told, entries, catalogue, event_json)
            alone = [one for one, entry in zip(body, entries, strict=True) if not gone[entry]]
            for listener in list(self.listeners.heard(number).listeners.values()):
                has_joined = self.multicast.membership.has_joined(listener.identity, number)
                mine = alone if has_joined else body
                room_bytes -= size_bytes
                if room_bytes < 0:
                    listener.dropped += len(mine)
                    self._count_dropped(number, len(mine))
                elif mine:
                    self._push(listener, number, fields, mine)

    def _keep(
        self,
        told: Told,
        catalogue: CatalogueReader,
        publisher: str,
        batch_id: str,
        event_json: Texts,
    ) -> int:
        """Keep what owners with durable receivers are told."""
        assert self.durable is not None
        places: dict[int, int] = {}
        parts: dict[str, list[Entry]] = {}
        for number, entries in _by_number(told, np.flatnonzero(self.listeners.is_kept[told.number])):
            part = parts[self.listeners.heard(number).owner] = []
            for entry in entries:
                place = places.setdefault(int(told.event[entry]), len(places))
                part.append(Entry(place, *_matches(told, entry, catalogue)))
        if not parts:
            return 0
        body = Body([(event_idx, event_json[event_idx]) for event_idx in places], parts)
        return self.durable.keep(publisher, batch_id, body)

    def _push(
        self, listener: Listener, number: int, fields: dict[str, Any], body: list[dict[str, Any]]
    ) -> None:
        told = {"owner": listener.owner, "dropped": listener.dropped, "events": body}
        frames = notify_frames({**told, **fields})
        try:
            accepted = self._send(listener.identity, frames)
        except ConnectionError:
            self.unlisten(listener.identity, listener.owner)
            accepted = False
        if not body:
            return
        if accepted:
            listener.dropped = 0
            self.sent += len(body)
            self.counters.unicast(number, len(body), sum(map(len, frames)))
        else:
            listener.dropped += len(body)
            self._count_dropped(number, len(body))

    def _count_dropped(self, number: int, notifications: int) -> None:
        self.dropped += notifications
        self.counters.dropped(number, notifications)


def _by_number(told: Told, chosen: I8) -> Iterator[tuple[int, list[int]]]:
    """Yield each number with those of its entries that are chosen, in order."""
    order = chosen[np.argsort(told.number[chosen], kind="stable")]
    if not len(order):
        return
    numbers, starts = np.unique(told.number[order], return_index=True)
    for number, entries in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        yield number, entries.tolist()


def _body(
    told: Told, entries: list[int], catalogue: CatalogueReader, event_json: Texts
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
