"""What is kept for durable receivers: a stateful test against a plain model, and its corners."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pubsub_cluster.coordinator.delivery.bounds import Bounds
from pubsub_cluster.coordinator.delivery.outbox import Outbox, Settled, Staged, StoredShare
from pubsub_cluster.coordinator.delivery.receivers import Receiver, StoredReceiver
from pubsub_cluster.language.errors import LimitError, ProtocolError

OWNERS, NAMES = ("ann", "bob"), ("a", "b")
BOUNDS = Bounds(receivers_max=4, notifications_max=6, shares_max=9)
Key = tuple[str, int]  # batch id and event index


class Disk:
    """What is stored, and what waits to be: in order, as the thread would carry it out."""

    def __init__(self) -> None:
        self.receivers: dict[int, StoredReceiver] = {}
        self.records: dict[int, tuple[int, str, str, int, list[Any]]] = {}
        self.last_receiver = 0

    def keep(self, staged: Staged, batch_id: str) -> None:
        self.records[staged.number] = (staged.number, "p", batch_id, 1, staged.shares)

    def settle(self, settled: Settled) -> None:
        for row in settled.receivers:
            self.receivers[row.number] = row
        for number in settled.finished:
            self.records.pop(number, None)


class OutboxMachine(RuleBasedStateMachine):
    """An outbox, its disk, and what each receiver must still be told: a list of keys by sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.outbox = Outbox(BOUNDS)
        self.waiting: list[tuple[Staged, str]] = []
        self.batches = 0
        self.told: dict[int, dict[int, Key]] = defaultdict(dict)  # by receiver and sequence, if durable
        self.pushed: dict[int, set[int]] = defaultdict(set)  # sequences, on the present connection
        self.retry: Settled | None = None

    def every(self) -> list[Receiver]:
        return list(self.outbox.receivers)

    @initialize()
    def begin(self) -> None:
        """Most examples have no receiver otherwise: rules are left out at random."""
        self.make("ann", "a")
        self.connect("ann", "a", 3)
        self.publish({"ann": {0, 2}})
        self.commit()

    @rule(owner=st.sampled_from(OWNERS), name=st.sampled_from(NAMES))
    def make(self, owner: str, name: str) -> None:
        if self.outbox.receivers.find(owner, name) is None:
            receiver = self.outbox.make(owner, name)
            self.disk.receivers[receiver.number] = StoredReceiver(receiver.number, owner, name, 0, 1, 0)
            self.disk.last_receiver = receiver.number
            receiver.is_open = True

    @rule(owner=st.sampled_from(OWNERS), name=st.sampled_from(NAMES), window=st.integers(1, 4))
    def connect(self, owner: str, name: str, window: int) -> None:
        receiver = self.outbox.receivers.find(owner, name)
        if receiver is not None:
            self.outbox.receivers.connect(receiver, b"c" + name.encode(), window)
            self.pushed[receiver.number].clear()

    @rule(name=st.sampled_from(NAMES))
    def gone(self, name: str) -> None:
        self.outbox.receivers.gone(b"c" + name.encode())
        assert not [r for r in self.outbox.receivers.connected() if r.identity == b"c" + name.encode()]

    @rule(owner=st.sampled_from(OWNERS), name=st.sampled_from(NAMES))
    def forget(self, owner: str, name: str) -> None:
        receiver = self.outbox.receivers.find(owner, name)
        if receiver is not None:
            self.outbox.forget(receiver)
            del self.disk.receivers[receiver.number]

    @rule(events=st.dictionaries(st.sampled_from(OWNERS), st.sets(st.integers(0, 3), min_size=1), min_size=1))
    def publish(self, events: dict[str, set[int]]) -> None:
        self.batches += 1
        self.stage(f"b{self.batches}", events)

    def stage(self, batch_id: str, events: dict[str, set[int]]) -> Staged | None:
        told = {owner: [(idx, 1) for idx in sorted(idxs)] for owner, idxs in events.items()}
        staged = self.outbox.stage("p", batch_id, told, 1)
        if staged is not None:
            self.waiting.append((staged, batch_id))
        return staged

    @rule()
    def commit(self) -> None:
        if self.waiting:
            staged, batch_id = self.waiting.pop(0)
            self.disk.keep(staged, batch_id)
            for share in staged.shares:
                for place, idx in enumerate(share.event_idxs):
                    self.told[share.receiver][share.first + place] = (batch_id, idx)
            self.outbox.committed(staged.number)

    @rule()
    def fail(self) -> None:
        if self.waiting:
            self.outbox.failed(self.waiting[0][0].number)
            self.waiting.clear()

    @rule(good=st.booleans())
    def settle(self, good: bool) -> None:
        settled = self.outbox.settled()
        if settled is None:
            return
        if good:
            self.disk.settle(settled)
            assert self.outbox.settled() is None
        else:
            self.outbox.settle_again(settled)

    @rule(count=st.integers(1, 3), blocked=st.booleans())
    def push(self, count: int, blocked: bool) -> None:
        for receiver in self.outbox.receivers.connected():
            push = self.outbox.next_push(receiver)
            if push is None:
                continue
            assert push.record in self.disk.records, "told before it was durable"
            assert push.record == self.outbox.upcoming(receiver, 2, 1)[0]
            count = min(count, push.count_max)
            for sequence in range(push.sequence, push.sequence + count):
                assert sequence not in self.pushed[receiver.number], "told twice on one connection"
                assert sequence in self.told[receiver.number]
                self.pushed[receiver.number].add(sequence)
            self.outbox.pushed(push, count)
            receiver.is_blocked = blocked
            in_flight = [s for s in self.pushed[receiver.number] if s >= receiver.head]
            assert len(in_flight) <= receiver.window

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        for receiver in self.every():
            if self.pushed[receiver.number]:
                sequence = data.draw(st.sampled_from(sorted(self.pushed[receiver.number])))
                self.outbox.acknowledge(receiver.number, sequence)
                assert receiver.head > sequence

    @rule()
    def restart(self) -> None:
        before = {receiver.number: (receiver.head, receiver.kept) for receiver in self.every()}
        self.outbox = Outbox(BOUNDS)
        self.outbox.restore(
            self.disk.receivers.values(), list(self.disk.records.values()), self.disk.last_receiver
        )
        self.waiting.clear()
        for receiver in self.every():
            head, kept = before[receiver.number]
            assert receiver.kept == kept and receiver.head <= head, "lost, or acknowledged twice"
        self.pushed.clear()

    @rule(data=st.data())
    def publish_again(self, data: st.DataObject) -> None:
        """After a restart what is stored of a publication is not stored again, and its other events are."""
        if not self.disk.records or self.waiting:
            return
        number = data.draw(st.sampled_from(sorted(self.disk.records)))
        _, _, batch_id, _, shares = self.disk.records[number]
        self.restart()
        staged = self.stage(batch_id, {owner: {0, 1, 2, 3} for owner in OWNERS})
        for share in staged.shares if staged else []:
            stored = [idx for one in shares if one.receiver == share.receiver for idx in one.event_idxs]
            assert not set(stored) & set(share.event_idxs)

    @invariant()
    def what_is_kept_is_a_run_and_within_bounds(self) -> None:
        for receiver in self.every():
            sequences = [s for share in receiver.queue for s in range(share.first, share.last + 1)]
            assert not sequences or sequences[-1] == receiver.next - 1
            assert [s for s in sequences if s >= receiver.head] == list(range(receiver.head, receiver.next))
            assert receiver.waiting_count <= BOUNDS.notifications_max
            assert receiver.acked < receiver.head
            # All that was told is acknowledged, given up, or kept.
            assert receiver.dropped <= receiver.head - 1
            assert receiver.size_bytes == sum(s.size_bytes for s in receiver.queue if s.record.is_committed)
            stored = {share.first for _, _, _, _, shares in self.disk.records.values() for share in shares}
            assert all(share.first in stored for share in receiver.queue if share.record.is_committed)
        assert self.outbox.share_count == sum(len(receiver.queue) for receiver in self.every())
        assert self.outbox.share_count <= BOUNDS.shares_max + len(self.waiting) * len(OWNERS) * len(NAMES) + 4


OutboxMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
test_outbox_against_the_model = OutboxMachine.TestCase


def outbox_with(bounds: Bounds = BOUNDS, *owners: str) -> Outbox:
    outbox = Outbox(bounds)
    for owner in owners:
        outbox.make(owner, "a").is_open = True
    return outbox


def publish(outbox: Outbox, batch_id: str, count: int, size_bytes: int = 1, owner: str = "ann") -> None:
    staged = outbox.stage("p", batch_id, {owner: [(idx, size_bytes) for idx in range(count)]}, 1)
    assert staged is not None
    outbox.committed(staged.number)


def test_the_oldest_is_dropped_beyond_the_bounds_and_counted() -> None:
    outbox = outbox_with(Bounds(notifications_max=5, size_bytes_max=100), "ann")
    (receiver,) = outbox.receivers
    publish(outbox, "b1", 4)
    publish(outbox, "b2", 4)
    assert (receiver.head, receiver.kept, receiver.dropped) == (4, 8, 3)
    publish(outbox, "b3", 1, size_bytes=97)
    assert (receiver.head, receiver.dropped) == (9, 8), "a share of four bytes does not fit beside 97"
    publish(outbox, "b4", 1, size_bytes=1_000)
    assert (receiver.head, receiver.kept) == (10, 10), "one publication is kept whatever its size"


def test_a_record_that_was_refused_and_is_there_all_the_same_gives_way() -> None:
    outbox = Outbox(BOUNDS)
    records = [
        (1, "p", "good", 1, [StoredShare(1, 1, [0, 1], 2)]),
        (2, "p", "refused", 1, [StoredShare(1, 3, [0, 1, 2], 3)]),
        (3, "p", "later", 1, [StoredShare(1, 3, [0], 1)]),
    ]
    outbox.restore([StoredReceiver(1, "ann", "a", 0, 1, 0)], records, 1)
    (receiver,) = outbox.receivers
    assert [(share.first, share.last, share.record.number) for share in receiver.queue] == [
        (1, 2, 1),
        (3, 3, 3),
    ]
    assert (receiver.kept, receiver.size_bytes, outbox.share_count) == (3, 3, 2)
    settled = outbox.settled()
    assert settled is not None and settled.finished == [2]


def test_all_together_are_bounded_by_dropping_the_oldest_record() -> None:
    outbox = outbox_with(Bounds(shares_max=3, all_size_bytes_max=100), "ann", "bob")
    ann, bob = outbox.receivers
    for number in range(3):
        publish(outbox, f"a{number}", 1)
    publish(outbox, "b", 1, owner="bob")
    assert (ann.dropped, bob.dropped, outbox.share_count) == (1, 0, 3)
    settled = outbox.settled()
    assert settled is not None and settled.finished == [1]


@pytest.mark.parametrize("window", [1, 2, 10])
def test_a_record_that_cannot_be_read_is_a_gap(window: int) -> None:
    outbox = outbox_with(Bounds(), "ann")
    (receiver,) = outbox.receivers
    for batch in range(5):
        publish(outbox, f"b{batch}", 2)
    outbox.receivers.connect(receiver, b"c", window)
    assert [outbox.lost(number) for number in (2, 3, 3, 5)] == [1, 1, 0, 1]
    assert (receiver.head, receiver.dropped) == (1, 6)
    told = []
    for _ in range(20):
        push = outbox.next_push(receiver)
        if push is None:
            if told[-1] > receiver.acked:
                outbox.acknowledge(receiver.number, told[-1])
            continue
        told += range(push.sequence, push.sequence + push.count_max)
        outbox.pushed(push, push.count_max)
    assert told == [1, 2, 7, 8]
    assert receiver.waiting_count == 0, "nothing is kept of the last one, either"


def test_only_what_was_told_can_be_acknowledged() -> None:
    outbox = outbox_with(BOUNDS, "ann")
    (receiver,) = outbox.receivers
    publish(outbox, "b1", 2)
    with pytest.raises(ProtocolError, match="never told"):
        outbox.acknowledge(receiver.number, 3)
    assert outbox.acknowledge(77, 1) is None, "a forgotten receiver"
    outbox.acknowledge(receiver.number, 2)
    outbox.acknowledge(receiver.number, 1)
    assert receiver.acked == 2, "acknowledging goes forward alone"


def test_receivers_are_bounded_and_their_numbers_are_never_given_again() -> None:
    outbox = Outbox(Bounds(receivers_max=2))
    first, second = outbox.make("ann", "a"), outbox.make("ann", "b")
    with pytest.raises(LimitError):
        outbox.make("ann", "c")
    outbox.forget(second)
    outbox.forget(first)
    assert outbox.make("ann", "b").number == 3


def test_the_later_of_two_connections_has_all_that_is_unacknowledged() -> None:
    outbox = outbox_with(BOUNDS, "ann")
    (receiver,) = outbox.receivers
    publish(outbox, "b1", 3)
    receivers = outbox.receivers
    assert receivers.connect(receiver, b"one", 10) is None
    push = outbox.next_push(receiver)
    assert push is not None and push.count_max == 3
    outbox.pushed(push, 3)
    outbox.acknowledge(receiver.number, 1)
    assert outbox.next_push(receiver) is None
    assert receivers.connect(receiver, b"two", 1) == b"one"
    receivers.gone(b"one")
    push = outbox.next_push(receiver)
    assert push is not None and (push.sequence, push.count_max) == (2, 1)
