"""What is kept for durable receivers until they acknowledge it: an account without sockets, disk or clock.

A *receiver* is an owner and a name. A *record* is what one publication tells receivers; a *share* is what it
tells one of them: notifications with consecutive sequences. A receiver's sequences count from 1 and are never
given twice. Its queue is a run of them, ``head`` to ``next - 1``, which grows at the end and shrinks at the
front alone: acknowledging is cumulative, and what goes beyond the bounds goes from the front. So two numbers
say what a receiver still has to get, and a gap in what it gets is what it has lost.

A record is told nobody before it is durable (`committed`). When the disk refuses it, it and all behind it
never were (`failed`): their sequences are given again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pubsub_cluster.coordinator.delivery.bounds import Bounds
from pubsub_cluster.coordinator.delivery.receivers import Receiver, Receivers, Record, Share, StoredReceiver
from pubsub_cluster.language.errors import LimitError, ProtocolError

KNOWN_EVENTS_MAX = 200_000
"""Of the life before, the youngest: their publishers may not have had answers, and publish again."""


class StoredShare(NamedTuple):
    """A share as it is stored."""

    receiver: int
    first: int
    event_idxs: list[int]
    size_bytes: int


class Staged(NamedTuple):
    """A record on its way to the disk, and the shares to be stored with it."""

    number: int
    shares: list[StoredShare]


class Push(NamedTuple):
    """What a receiver is to be sent next: some notifications at most, from a sequence on, of a record."""

    receiver: Receiver
    record: int
    sequence: int
    count_max: int


class Settled(NamedTuple):
    """What the disk has to learn: receivers that have moved on, and records of which nothing is kept."""

    receivers: list[StoredReceiver]
    finished: list[int]


class Outbox:
    """All durable receivers and what is kept for them.

    Parameters
    ----------
    bounds : Bounds
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.receivers = Receivers()
        self._records: dict[int, Record] = {}  # the oldest first
        self._known: dict[tuple[str, str], dict[int, set[int]]] = {}
        self._moved: set[Receiver] = set()
        self._finished: list[int] = []
        self._next_record = self._next_receiver = 1
        self.size_bytes = self.share_count = 0

    # ---- the start -----------------------------------------------------------------------------

    def restore(
        self,
        receivers: Iterable[StoredReceiver],
        records: Iterable[tuple[int, str, str, int, list[StoredShare]]],
        last_receiver: int,
    ) -> None:
        """Take over what is stored.

        Parameters
        ----------
        receivers : iterable of StoredReceiver
        records : iterable
            ``(number, publisher, batch id, size in bytes, shares)``, numbers ascending.
        last_receiver : int
            The largest number that a receiver has ever had.
        """
        for stored in receivers:
            number, owner, name, acked, head, dropped = stored
            receiver = Receiver(number, owner, name, acked, head, head - 1, head, dropped, is_open=True)
            self.receivers.enter(receiver)
        recent: deque[tuple[str, str, list[StoredShare]]] = deque()
        recent_count = 0
        for number, publisher, batch_id, size_bytes, shares in records:
            record = self._records[number] = Record(number, size_bytes, is_committed=True)
            self.size_bytes += size_bytes
            for share in shares:
                self._take_over(record, share)
            recent.append((publisher, batch_id, shares))
            recent_count += sum(len(share.event_idxs) for share in shares)
            while recent_count > KNOWN_EVENTS_MAX:
                recent_count -= sum(len(share.event_idxs) for share in recent.popleft()[2])
            self._next_record = number + 1
            if not record.open_count:
                self._finish(record)
        for publisher, batch_id, shares in recent:
            known = self._known.setdefault((publisher, batch_id), {})
            for share in shares:
                known.setdefault(share.receiver, set()).update(share.event_idxs)
        self._next_receiver = last_receiver + 1
        for receiver in self.receivers:
            self._keep_within_bounds(receiver)
        self._keep_all_within_bounds()

    def _take_over(self, record: Record, stored: StoredShare) -> None:
        receiver = self.receivers.get(stored.receiver)
        last = stored.first + len(stored.event_idxs) - 1
        if receiver is None or last < receiver.head:
            return
        while receiver.queue and receiver.queue[-1].last >= stored.first:
            # It was refused, and written all the same; these are the sequences' second owners.
            refused = receiver.queue.pop()
            receiver.size_bytes -= refused.size_bytes
            self._close(refused)
        self._add(Share(record, receiver, stored.first, last, stored.size_bytes))
        receiver.kept = last
        receiver.size_bytes += stored.size_bytes

    # ---- receivers -----------------------------------------------------------------------------

    def make(self, owner: str, name: str) -> Receiver:
        """Make a receiver; it is told nothing until it is durable, and `is_open`.

        Raises
        ------
        LimitError
            There are too many.
        """
        if len(self.receivers) >= self._bounds.receivers_max:
            raise LimitError(
                "too many durable receivers",
                seen=len(self.receivers),
                limit=self._bounds.receivers_max,
                remedy="Forget those that are not used any more: `pubsub-cluster forget`.",
                limit_name="durable_receivers_max",
            )
        receiver = Receiver(self._next_receiver, owner, name)
        self._next_receiver += 1
        self.receivers.enter(receiver)
        return receiver

    def forget(self, receiver: Receiver) -> bytes | None:
        """Remove a receiver and all that is kept for it; return the connection that it had."""
        identity = receiver.identity
        self.receivers.remove(receiver)
        self._moved.discard(receiver)
        while receiver.queue:
            self._close(receiver.queue.popleft())
        return identity

    # ---- publications --------------------------------------------------------------------------

    def stage(
        self, publisher: str, batch_id: str, told: Mapping[str, Sequence[tuple[int, int]]], size_bytes: int
    ) -> Staged | None:
        """Enter what a publication tells.

        Parameters
        ----------
        publisher, batch_id : str
        told : mapping of str to sequence of (int, int)
            By owner: index of each event, ascending, and about how many bytes it takes.
        size_bytes : int
            Of the record's body.

        Returns
        -------
        Staged or None
            None when no receiver is told anything that it is not told already: a publication of a life
            before, published again, adds nothing to what was kept of it.
        """
        known = self._known.get((publisher, batch_id), {})
        record = Record(self._next_record, size_bytes)
        stored: list[StoredShare] = []
        for owner, events in told.items():
            for receiver in self.receivers.of(owner):
                if not receiver.is_open:
                    continue
                before = known.get(receiver.number, ())
                new = [event for event in events if event[0] not in before]
                if not new:
                    continue
                first = receiver.next
                share_bytes = sum(size for _, size in new)
                self._add(Share(record, receiver, first, first + len(new) - 1, share_bytes))
                stored.append(StoredShare(receiver.number, first, [idx for idx, _ in new], share_bytes))
        if not stored:
            return None
        self._next_record += 1
        self._records[record.number] = record
        self.size_bytes += size_bytes
        return Staged(record.number, stored)

    def committed(self, number: int) -> list[Receiver]:
        """A record is durable; return the receivers that may be sent something now."""
        record = self._records[number]
        record.is_committed = True
        found: list[Receiver] = []
        for share in record.shares:
            receiver = share.receiver
            if receiver in self.receivers:
                receiver.kept = share.last
                receiver.size_bytes += share.size_bytes
                self._keep_within_bounds(receiver)
                found.append(receiver)
        if not record.open_count:
            self._finish(record)
        self._keep_all_within_bounds()
        return found

    def failed(self, number: int) -> None:
        """A record was refused by the disk: it and all behind it never were."""
        for record in list(reversed(self._records.values())):
            if record.number < number:
                return
            for share in record.shares:
                receiver = share.receiver
                if receiver in self.receivers:
                    assert receiver.queue[-1] is share, "records fail from the end"
                    receiver.queue.pop()
                    receiver.next = share.first
                    self.share_count -= 1
            del self._records[record.number]
            self.size_bytes -= record.size_bytes

    def _add(self, share: Share) -> None:
        share.record.shares.append(share)
        share.record.open_count += 1
        share.receiver.queue.append(share)
        share.receiver.next = share.last + 1
        self.share_count += 1

    # ---- sending -------------------------------------------------------------------------------

    def next_push(self, receiver: Receiver) -> Push | None:
        """Return what a receiver is to be sent now, if anything."""
        room = receiver.window - (receiver.pushed - receiver.head)
        if receiver.identity is None or receiver.is_blocked or room <= 0:
            return None
        queue = receiver.queue
        while receiver.cursor < len(queue):
            share = queue[receiver.cursor]
            if share.record.is_lost:
                receiver.pushed = max(receiver.pushed, share.last + 1)
            elif share.last >= receiver.pushed:
                break
            receiver.cursor += 1
        if receiver.cursor == len(queue) or not queue[receiver.cursor].record.is_committed:
            return None
        share = queue[receiver.cursor]
        count = min(room, share.last - receiver.pushed + 1)
        return Push(receiver, share.record.number, receiver.pushed, count)

    def upcoming(self, receiver: Receiver, count: int, size_bytes: int) -> list[int]:
        """Return the records that a receiver is sent next, at least one and within `size_bytes`."""
        found: list[int] = []
        for place in range(receiver.cursor, min(receiver.cursor + count, len(receiver.queue))):
            record = receiver.queue[place].record
            size_bytes -= record.size_bytes
            if not record.is_committed or (found and size_bytes < 0):
                break
            found.append(record.number)
        return found

    def pushed(self, push: Push, count: int) -> None:
        """So many notifications of a push are on their way."""
        push.receiver.pushed += count

    def acknowledge(self, number: int, sequence: int) -> Receiver | None:
        """Take an acknowledgement of all up to a sequence; return its receiver, None for a forgotten one.

        Raises
        ------
        ProtocolError
            There is no such notification yet.
        """
        receiver = self.receivers.get(number)
        if receiver is None:
            return None
        if sequence > receiver.kept:
            raise ProtocolError(
                "an acknowledgement of what was never told", seen=sequence, limit=receiver.kept
            )
        if sequence > receiver.acked:
            receiver.acked = sequence
            self._moved.add(receiver)
            self._advance(receiver, sequence + 1)
        receiver.is_blocked = False
        return receiver

    # ---- bounds, and what is over --------------------------------------------------------------

    def lost(self, number: int) -> int:
        """A record cannot be read: its receivers will see a gap; return how many they are."""
        record = self._records.get(number)
        if record is None or record.is_lost:
            return 0
        record.is_lost = True
        for share in list(record.shares):
            receiver = share.receiver
            if receiver in self.receivers and receiver.head <= share.last:
                receiver.dropped += share.last - max(share.first, receiver.head) + 1
                self._moved.add(receiver)
                self._advance(receiver, receiver.head)
        return len(record.shares)

    def settled(self) -> Settled | None:
        """Return what the disk has to learn since the last call; None: nothing."""
        if not self._moved and not self._finished:
            return None
        moved, self._moved = self._moved, set()
        finished, self._finished = self._finished, []
        rows = [StoredReceiver(r.number, r.owner, r.name, r.acked, r.head, r.dropped) for r in moved]
        return Settled(rows, finished)

    def settle_again(self, settled: Settled) -> None:
        """The disk has refused it: it will be told again."""
        found = [self.receivers.get(row.number) for row in settled.receivers]
        self._moved.update(receiver for receiver in found if receiver is not None)
        self._finished += settled.finished

    def _drop(self, record: Record) -> None:
        for share in list(record.shares):
            receiver = share.receiver
            if receiver in self.receivers and receiver.head <= share.last:
                self._give_up(receiver, share.last + 1)

    def _keep_within_bounds(self, receiver: Receiver) -> None:
        excess = receiver.waiting_count - self._bounds.notifications_max
        if excess > 0:
            self._give_up(receiver, receiver.head + excess)
        while receiver.size_bytes > self._bounds.size_bytes_max and receiver.queue[0].last < receiver.kept:
            self._give_up(receiver, receiver.queue[0].last + 1)

    def _keep_all_within_bounds(self) -> None:
        while self.size_bytes > self._bounds.all_size_bytes_max or self.share_count > self._bounds.shares_max:
            oldest, *others = [record for record, _ in zip(self._records.values(), range(2), strict=False)]
            if not others or not others[0].is_committed:
                return
            self._drop(oldest)

    def _give_up(self, receiver: Receiver, head: int) -> None:
        receiver.dropped += head - receiver.head
        self._moved.add(receiver)
        self._advance(receiver, head)

    def _advance(self, receiver: Receiver, head: int) -> None:
        receiver.head = max(receiver.head, head)
        queue = receiver.queue
        while queue and (queue[0].last < receiver.head or queue[0].record.is_lost):
            share = queue.popleft()
            receiver.head = max(receiver.head, share.last + 1)
            receiver.cursor = max(0, receiver.cursor - 1)
            receiver.size_bytes -= share.size_bytes
            self._close(share)
        receiver.pushed = max(receiver.pushed, receiver.head)

    def _close(self, share: Share) -> None:
        record = share.record
        record.open_count -= 1
        self.share_count -= 1
        if not record.open_count and record.is_committed:
            self._finish(record)

    def _finish(self, record: Record) -> None:
        if self._records.pop(record.number, None) is not None:
            self._finished.append(record.number)
            self.size_bytes -= record.size_bytes
