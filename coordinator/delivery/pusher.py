"""Sends durable receivers what is kept for them.

As far as a receiver's window and its connection have room; from memory while a record is young, and from the
disk otherwise. A few pushes are sent in each turn of the coordinator's loop, receiver by receiver.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from pubsub_cluster.coordinator.delivery.outbox import Outbox
from pubsub_cluster.coordinator.delivery.outbox_records import OpenRecord
from pubsub_cluster.coordinator.delivery.outbox_store import Done, Read
from pubsub_cluster.coordinator.delivery.receivers import Receiver
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.protocol import Buffer, notify_frames

PUSH_SIZE_BYTES_MAX = 1 << 20
PUSHES_PER_TURN = 128
PUSHES_PER_RECEIVER = 16  # and turn, while others wait
READ_RECORDS_MAX = 256
READ_SIZE_BYTES_MAX = 4 << 20
OPEN_SIZE_BYTES_MAX = 32 << 20
log = logging.getLogger("pubsub_cluster.coordinator")


class Pusher:
    """Who may be sent something, and the records that are at hand.

    Parameters
    ----------
    outbox : Outbox
    send : callable
        ``send(identity, frames) -> bool``, see `DeliveryDesk`.
    read : callable
        Has the disk read records; `on_read` is told of them.
    on_push : callable
        ``on_push(owner, notifications, size_bytes)`` is told of what was sent, repeats included.
    """

    def __init__(
        self,
        outbox: Outbox,
        send: Callable[[bytes, list[Buffer]], bool],
        read: Callable[[Read], None],
        on_push: Callable[[str, int, int], None],
    ) -> None:
        self._outbox = outbox
        self._send = send
        self._ask = read
        self._on_push = on_push
        self._open: OrderedDict[int, OpenRecord] = OrderedDict()
        self._open_bytes = 0
        self._ready: dict[Receiver, None] = {}
        self._reading: set[int] = set()

    @property
    def busy(self) -> bool:
        """True when something can be sent at once."""
        return bool(self._ready)

    def wake(self, receiver: Receiver) -> None:
        """A receiver may have something to get."""
        if receiver.identity is not None:
            self._ready[receiver] = None

    def try_again(self) -> None:
        """Those who had no room may have some now."""
        for receiver in self._outbox.receivers.connected():
            if receiver.is_blocked:
                receiver.is_blocked = False
                self._ready[receiver] = None

    def work(self) -> None:
        """Send a turn's worth of pushes."""
        left = PUSHES_PER_TURN
        for receiver in list(self._ready):
            if left <= 0:
                return
            del self._ready[receiver]
            sent = 0
            while sent < PUSHES_PER_RECEIVER and self._push_next(receiver):
                sent += 1
            if sent == PUSHES_PER_RECEIVER:
                self._ready[receiver] = None  # behind the others
            left -= sent

    def _push_next(self, receiver: Receiver) -> bool:
        push = self._outbox.next_push(receiver)
        if push is None or receiver.identity is None:
            return False
        record = self._open.get(push.record)
        if record is None:
            self._read(receiver)
            return False
        self._open.move_to_end(push.record)
        most = push.count_max, PUSH_SIZE_BYTES_MAX
        events = record.events(receiver.number, receiver.owner, push.sequence, *most)
        frames = notify_frames(_header(receiver, record.publisher, record.batch_id, events))
        if not self._offer(receiver.identity, frames):
            receiver.is_blocked = True
            return False
        self._outbox.pushed(push, len(events))
        self._on_push(receiver.owner, len(events), sum(map(len, frames)))
        return True

    def _read(self, receiver: Receiver) -> None:
        """Ask the disk for what a receiver is sent next, unless that is on its way."""
        wanted = self._outbox.upcoming(receiver, READ_RECORDS_MAX, READ_SIZE_BYTES_MAX)
        if wanted[0] in self._reading:
            return
        numbers = [number for number in wanted if number not in self._open and number not in self._reading]
        try:
            self._ask(Read(numbers))
        except StoreError:
            receiver.is_blocked = True  # for a while
            return
        self._reading.update(numbers)

    def on_read(self, numbers: Sequence[int], done: Done) -> None:
        """Take records that the disk was asked for; one that is damaged is lost."""
        self._reading.difference_update(numbers)
        if done.error is not None:
            log.error("what is kept for durable receivers cannot be read: %s", done.error)
            for receiver in self._outbox.receivers.connected():
                receiver.is_blocked = True  # for a while
            return
        for number, record in (done.found or {}).items():
            if record is not None:
                self.remember(number, record)
                continue
            count = self._outbox.lost(number)
            if count:
                log.error("record %d is damaged, and lost to %d durable receivers", number, count)
        self._ready.update(dict.fromkeys(self._outbox.receivers.connected()))

    def end(self, receiver: Receiver, identity: bytes, why: str) -> None:
        """Tell a connection that it has a receiver's notifications no longer."""
        self._offer(identity, notify_frames({**_header(receiver, "", "", []), "ended": why}))

    def sweep(self) -> None:
        """Find connections that are gone: a push without events says nothing."""
        for receiver in self._outbox.receivers.connected():
            if receiver.identity is not None:
                self._offer(receiver.identity, notify_frames(_header(receiver, "", "", [])))

    def _offer(self, identity: bytes, frames: list[Buffer]) -> bool:
        try:
            return self._send(identity, frames)
        except ConnectionError:
            self._outbox.receivers.gone(identity)
            return False

    def remember(self, number: int, record: OpenRecord) -> None:
        """Have a record at hand, and let go of the one that was used longest ago where there are many."""
        self.close(number)
        self._open[number] = record
        self._open_bytes += record.size_bytes
        while self._open_bytes > OPEN_SIZE_BYTES_MAX and len(self._open) > 1:
            self.close(next(iter(self._open)))

    def close(self, number: int) -> None:
        """Let go of a record."""
        record = self._open.pop(number, None)
        if record is not None:
            self._open_bytes -= record.size_bytes


def _header(
    receiver: Receiver, publisher: str, batch_id: str, events: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "owner": receiver.owner,
        "durable": receiver.name,
        "publisher": publisher,
        "batch_id": batch_id,
        "dropped": 0,
        "events": events,
    }
