"""Durable receivers between their connections, the outbox and its disk.

`Outbox` decides; here its decisions are carried out: a publication's record goes to the disk (`keep`), and
the publisher's answer waits for it; when it is durable, `Pusher` sends it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pubsub_cluster.coordinator.answers import Reply
from pubsub_cluster.coordinator.delivery.bounds import Bounds
from pubsub_cluster.coordinator.delivery.outbox import Outbox, Settled
from pubsub_cluster.coordinator.delivery.outbox_records import (
    Body,
    OpenRecord,
    StoredRecord,
    encode_body,
    encode_shares,
)
from pubsub_cluster.coordinator.delivery.outbox_store import Make, OutboxStore, Read, Remove, Shrink
from pubsub_cluster.coordinator.delivery.pusher import Pusher
from pubsub_cluster.coordinator.delivery.receivers import Receiver, StoredReceiver
from pubsub_cluster.language.errors import BusyError, LimitError, ProtocolError, StoreError
from pubsub_cluster.language.protocol import WINDOW_DEFAULT, WINDOW_MAX, Buffer

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.delivery.desk import DeliveryDesk

RECORD_SIZE_BYTES_MAX = 64 << 20
OUTSTANDING_MAX = 4_096
OUTSTANDING_SIZE_BYTES_MAX = 64 << 20
BUSY_RETRY_AFTER_S = 0.02
SETTLE_S = 0.05
UNBLOCK_S = 0.1
SWEEP_S = 30.0
SHOWN_MAX = 100


class DurableDesk:
    """All durable receivers of a cluster.

    Parameters
    ----------
    store : OutboxStore
    bounds : Bounds
    delivery : DeliveryDesk
        Learns which owners are told although nobody may listen, and what is sent to them.
    send : callable
        ``send(identity, frames) -> bool``, see `DeliveryDesk`.
    reply : callable
        ``reply(identity, frames)``: answers a request.
    on_kept : callable
        ``on_kept(record, error)``: a record of `keep` is durable, or refused.
    """

    def __init__(
        self,
        store: OutboxStore,
        bounds: Bounds,
        delivery: DeliveryDesk,
        send: Callable[[bytes, list[Buffer]], bool],
        reply: Callable[[bytes, Sequence[Buffer]], None],
        on_kept: Callable[[int, StoreError | None], None],
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._reply = reply
        self._on_kept = on_kept
        self.outbox = Outbox(bounds)
        self.outbox.restore(*_stored(store))
        for receiver in self.outbox.receivers:
            delivery.keep(receiver.owner, True)
        self._asking: dict[int, list[tuple[bytes, str, int]]] = {}  # of receivers that are not durable yet
        self._forgetting: dict[int, list[tuple[bytes, str]]] = {}
        self._outstanding: dict[int, int] = {}  # bytes of records on their way to the disk
        self._outstanding_bytes = 0
        self._pusher = Pusher(self.outbox, send, store.put, delivery.pushed)
        self.work = self._pusher.work
        self._settling = self._shrinking = False
        self._settled_at_s = self._unblocked_at_s = self._swept_at_s = 0.0

    @property
    def wake_fd(self) -> int:
        """Readable when the disk has something to say."""
        return self._store.wake_fd

    @property
    def active(self) -> bool:
        """True when there are receivers."""
        return len(self.outbox.receivers) > 0

    @property
    def busy(self) -> bool:
        """True when something can be sent at once."""
        return self._pusher.busy

    def start(self) -> None:
        """Begin to write."""
        self._store.start()

    # ---- requests ------------------------------------------------------------------------------

    def listen(
        self, identity: bytes, request: str, owner: str, name: str, window: Any
    ) -> dict[str, Any] | None:
        """Let a connection have a receiver's notifications; return the reply, None: it comes later.

        Raises
        ------
        ProtocolError, LimitError, StoreError
            The window is none, there are too many receivers, or too much waits for the disk.
        """
        window = WINDOW_DEFAULT if window is None else window
        if type(window) is not int or not 1 <= window <= WINDOW_MAX:
            raise ProtocolError(
                "`window` is a number of notifications", seen=window, limit=f"1 to {WINDOW_MAX:,}"
            )
        receiver = self.outbox.receivers.find(owner, name)
        if receiver is not None and receiver.is_open:
            return self._connected(receiver, identity, window)
        if receiver is None:
            receiver = self.outbox.make(owner, name)
            row = StoredReceiver(receiver.number, owner, name, 0, receiver.head, 0)
            try:
                self._store.put(Make(row))
            except StoreError:
                self.outbox.forget(receiver)
                raise
        self._asking.setdefault(receiver.number, []).append((identity, request, window))
        return None

    def unlisten(self, identity: bytes, owner: str, name: str) -> None:
        """Stop telling a connection; its receiver stays, and what is kept for it."""
        receiver = self.outbox.receivers.find(owner, name)
        if receiver is not None:
            self.outbox.receivers.disconnect(receiver, identity)

    def forget(self, identity: bytes, request: str, owner: str, name: str) -> dict[str, Any] | None:
        """Remove a receiver and all that is kept for it; return the reply, None: it comes later."""
        receiver = self.outbox.receivers.find(owner, name)
        if receiver is None or not receiver.is_open:
            return {"forgotten": False}
        self._store.put(Remove(receiver.number))
        self._forgetting.setdefault(receiver.number, []).append((identity, request))
        return None

    def acknowledge(self, number: Any, sequence: Any) -> None:
        """Take an acknowledgement of everything up to a sequence; that of a forgotten receiver says nothing.

        Raises
        ------
        ProtocolError
            It is no number, or of what was never told.
        """
        if type(number) is not int or type(sequence) is not int:
            raise ProtocolError("an acknowledgement has two integers", seen=[number, sequence])
        receiver = self.outbox.acknowledge(number, sequence)
        if receiver is not None and receiver.identity is not None:
            self._pusher.wake(receiver)

    def _connected(self, receiver: Receiver, identity: bytes, window: int) -> dict[str, Any]:
        before = self.outbox.receivers.connect(receiver, identity, window)
        if before is not None:
            self._pusher.end(receiver, before, "taken_over")
        self._pusher.wake(receiver)
        told = {"owner": receiver.owner, "durable": receiver.name}
        return {**told, "number": receiver.number, "sequence": receiver.acked + 1}

    # ---- publications --------------------------------------------------------------------------

    def keep(self, publisher: str, batch_id: str, body: Body) -> int:
        """Keep what a publication tells; return the record that its answer waits for, 0: none.

        Raises
        ------
        BusyError
            The disk is behind.
        LimitError
            It tells more than fits a record.
        """
        encoded = encode_body(body)
        if len(encoded) > RECORD_SIZE_BYTES_MAX:
            raise LimitError(
                "the batch tells durable receivers too much",
                seen=len(encoded),
                limit=RECORD_SIZE_BYTES_MAX,
                remedy="Publish fewer events at a time.",
                limit_name="RECORD_SIZE_BYTES_MAX",
            )
        if len(self._outstanding) >= OUTSTANDING_MAX or (
            self._outstanding and self._outstanding_bytes + len(encoded) > OUTSTANDING_SIZE_BYTES_MAX
        ):
            raise BusyError(
                "too much waits to be kept for durable receivers",
                seen=len(self._outstanding),
                limit=OUTSTANDING_MAX,
                remedy="Send again after `retry_after_s`.",
                retry_after_s=BUSY_RETRY_AFTER_S,
            )
        staged = self.outbox.stage(publisher, batch_id, body.told(), len(encoded))
        if staged is None:
            return 0
        shares = encode_shares(staged.shares)
        try:
            self._store.put(StoredRecord(staged.number, publisher, batch_id, shares, encoded))
        except StoreError:
            self.outbox.failed(staged.number)
            raise
        self._outstanding[staged.number] = len(encoded)
        self._outstanding_bytes += len(encoded)
        self._pusher.remember(staged.number, OpenRecord(publisher, batch_id, staged.shares, body))
        return staged.number

    # ---- the disk ------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take in what the disk has reported."""
        for done in self._store.poll():
            match done.job:
                case StoredRecord(number):
                    self._on_record(number, done.error)
                case Make(row):
                    self._on_made(row, done.error)
                case Remove(number):
                    self._on_removed(number, done.error)
                case Settled() as settled:
                    self._settling = False
                    if done.error is not None:
                        self.outbox.settle_again(settled)
                case Read(numbers):
                    self._pusher.on_read(numbers, done)
                case Shrink():
                    self._shrinking = False

    def _on_record(self, number: int, error: StoreError | None) -> None:
        self._outstanding_bytes -= self._outstanding.pop(number)
        if error is None:
            for receiver in self.outbox.committed(number):
                self._pusher.wake(receiver)
        else:
            self.outbox.failed(number)
            self._pusher.close(number)
            if not self._outstanding:
                self._store.resume()
        self._on_kept(number, error)

    def _on_made(self, row: StoredReceiver, error: StoreError | None) -> None:
        receiver = self.outbox.receivers.get(row.number)
        assert receiver is not None, "a receiver is forgotten when it is durable"
        asking = self._asking.pop(row.number)
        if error is None:
            receiver.is_open = True
            self._delivery.keep(receiver.owner, True)
        else:
            self.outbox.forget(receiver)
        for identity, request, window in asking:
            fields = self._connected(receiver, identity, window) if error is None else {}
            self._reply(identity, Reply(fields, error=error).frames(request))

    def _on_removed(self, number: int, error: StoreError | None) -> None:
        receiver = self.outbox.receivers.get(number)
        if error is None and receiver is not None:
            identity = self.outbox.forget(receiver)
            if not self.outbox.receivers.of(receiver.owner):
                self._delivery.keep(receiver.owner, False)
            if identity is not None:
                self._pusher.end(receiver, identity, "forgotten")
        for identity, request in self._forgetting.pop(number, []):
            self._reply(identity, Reply({"forgotten": True}, error=error).frames(request))

    # ---- what time makes due, and the end -----------------------------------------------------

    def tick(self, now_s: float) -> None:
        """Do what time alone makes due."""
        if not self._settling and now_s - self._settled_at_s >= SETTLE_S:
            self._settled_at_s = now_s
            self._settle()
        if now_s - self._unblocked_at_s >= UNBLOCK_S:
            self._unblocked_at_s = now_s
            self._pusher.try_again()
            self._shrink()
        if now_s - self._swept_at_s >= SWEEP_S:
            self._swept_at_s = now_s
            self._pusher.sweep()

    def _settle(self) -> None:
        settled = self.outbox.settled()
        if settled is None:
            return
        for number in settled.finished:
            self._pusher.close(number)
        try:
            self._store.put(settled)
            self._settling = True
        except StoreError:
            self.outbox.settle_again(settled)

    def _shrink(self) -> None:
        """Let the file give pages back while no publisher waits for it."""
        if self._store.free_pages and not self._shrinking and not self._outstanding:
            with contextlib.suppress(StoreError):  # another time
                self._store.put(Shrink())
                self._shrinking = True

    def close(self) -> None:
        """Have the disk learn the last of it; answers that waited are given."""
        self._settle()
        self._store.close()
        self.poll()

    def status(self) -> dict[str, Any]:
        """Return what an operator is told, receivers with most waiting first."""
        receivers = sorted(self.outbox.receivers, key=lambda one: -one.waiting_count)
        shown = [
            {
                "owner": one.owner,
                "name": one.name,
                "connected": one.identity is not None,
                "waiting": one.waiting_count,
                "size_bytes": one.size_bytes,
                "acknowledged": one.acked,
                "dropped": one.dropped,
            }
            for one in receivers[:SHOWN_MAX]
        ]
        return {
            "count": len(receivers),
            "waiting": sum(one.waiting_count for one in receivers),
            "dropped": sum(one.dropped for one in receivers),
            "size_bytes": self.outbox.size_bytes,
            "receivers": shown,
        }


def _stored(store: OutboxStore) -> tuple[list[StoredReceiver], Any, int]:
    receivers, last = store.receivers()
    return receivers, store.records(), last
