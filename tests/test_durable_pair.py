"""A durable receiver and the outbox together: either may die, and nothing is lost or told twice."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from test_coordinator_outbox import Disk

from pubsub_cluster.client.durable import Receipts
from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.coordinator.delivery.bounds import Bounds
from pubsub_cluster.coordinator.delivery.outbox import Outbox, Staged
from pubsub_cluster.coordinator.delivery.receivers import Receiver, StoredReceiver

Key = tuple[str, int]
WINDOW = 3
DEATHS = st.sampled_from([None, "receiver", None, "coordinator"])


class PairMachine(RuleBasedStateMachine):
    """One receiver, its cluster, a publisher that publishes again what was not answered, and two wires."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.disk.receivers[1] = StoredReceiver(1, "ann", "a", 0, 1, 0)
        self.disk.last_receiver = 1
        self.on_their_way: list[tuple[Staged, str, int]] = []  # to the disk
        self.unanswered: list[tuple[str, int]] = []
        self.batches = 0
        self.answered: set[Key] = set()
        self.taken: Counter[Key] = Counter()
        self.deaths = 0
        self.start_coordinator()
        self.start_receiver()

    # ---- the cluster ---------------------------------------------------------------------------

    def start_coordinator(self) -> None:
        self.outbox = Outbox(Bounds())
        rows, records = self.disk.receivers.values(), list(self.disk.records.values())
        self.outbox.restore(rows, records, self.disk.last_receiver)
        self.to_receiver: list[Notification] = []
        self.to_cluster: list[int] = []

    @property
    def receiver(self) -> Receiver:
        (found,) = self.outbox.receivers
        return found

    @initialize(counts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def begin(self, counts: list[int]) -> None:
        """Most examples never publish otherwise: rules are left out at random."""
        for count in counts:
            self.publish(count, "answered")

    @rule(count=st.integers(1, 3), fate=st.sampled_from(["answered", "answered", "died", "later"]))
    def publish(self, count: int, fate: str) -> None:
        self.batches += 1
        self.send(f"b{self.batches}", count)
        if fate != "later":
            self.commit(fate == "answered")

    def send(self, batch_id: str, count: int) -> None:
        staged = self.outbox.stage("p", batch_id, {"ann": [(idx, 1) for idx in range(count)]}, 1)
        if staged is None:
            self.answer(batch_id, count)
        else:
            self.on_their_way.append((staged, batch_id, count))

    def answer(self, batch_id: str, count: int) -> None:
        self.answered.update((batch_id, idx) for idx in range(count))

    @rule()
    def publish_again(self) -> None:
        again, self.unanswered = self.unanswered, []
        for batch_id, count in again:
            self.send(batch_id, count)

    @rule(is_answered=st.booleans())
    def commit(self, is_answered: bool) -> None:
        """The disk has a record; its publisher may not learn of it, because the coordinator dies then."""
        if not self.on_their_way:
            return
        staged, batch_id, count = self.on_their_way.pop(0)
        self.disk.keep(staged, batch_id)
        if is_answered:
            self.outbox.committed(staged.number)
            self.answer(batch_id, count)
        else:
            self.unanswered.append((batch_id, count))
            self.kill_coordinator()

    @rule()
    def refuse(self) -> None:
        if self.on_their_way:
            self.outbox.failed(self.on_their_way[0][0].number)
            self.unanswered += [(batch_id, count) for _, batch_id, count in self.on_their_way]
            self.on_their_way.clear()

    @rule(death=DEATHS)
    def settle(self, death: str | None) -> None:
        settled = self.outbox.settled()
        if settled is not None:
            self.disk.settle(settled)
        self.die(death)

    @rule(heard_count=st.integers(0, WINDOW), death=DEATHS)
    def tell(self, heard_count: int, death: str | None) -> None:
        """Send as much as the window allows; what is not heard yet is lost with a death."""
        while self.push():
            pass
        for _ in range(heard_count):
            self.hear()
        self.die(death)

    def push(self) -> bool:
        push = self.outbox.next_push(self.receiver)
        if push is None:
            return False
        _, _, batch_id, _, shares = self.disk.records[push.record]
        (share,) = shares
        place = push.sequence - share.first
        for idx in share.event_idxs[place : place + push.count_max]:
            sequence = share.first + share.event_idxs.index(idx)
            self.to_receiver.append(Notification("ann", "p", batch_id, idx, (), (), None, sequence, 0))
        self.outbox.pushed(push, push.count_max)
        return True

    def die(self, death: str | None) -> None:
        if death == "coordinator":
            self.kill_coordinator()
        elif death == "receiver":
            self.kill_receiver()

    def kill_coordinator(self) -> None:
        self.deaths += 1
        self.unanswered += [(batch_id, count) for _, batch_id, count in self.on_their_way]
        self.on_their_way.clear()
        self.start_coordinator()
        self.listen()

    # ---- the receiver --------------------------------------------------------------------------

    def start_receiver(self) -> None:
        self.receipts = Receipts(WINDOW)
        self.queue: list[Notification] = []
        self.taken_by_process: set[Key] = set()
        self.to_receiver.clear()
        self.listen()

    def listen(self) -> None:
        self.outbox.receivers.connect(self.receiver, b"c", WINDOW)
        self.receipts.begin(1, self.receiver.acked + 1)

    def hear(self) -> None:
        if self.to_receiver:
            new = self.receipts.hear(self.to_receiver.pop(0))
            if new is not None:
                assert not new.dropped, "nothing was dropped"
                self.queue.append(new)

    @rule(count=st.integers(1, WINDOW))
    def take(self, count: int) -> None:
        for _ in range(min(count, len(self.queue))):
            taken = self.queue.pop(0)
            key = (taken.batch_id, taken.event_index)
            assert key not in self.taken_by_process, "told twice in one process"
            self.taken_by_process.add(key)
            self.taken[key] += 1
            self.receipts.dealt_with(taken.sequence)

    @rule(at_rest=st.booleans(), arrives=st.booleans(), death=DEATHS)
    def acknowledge(self, at_rest: bool, arrives: bool, death: str | None) -> None:
        due = self.receipts.due(at_rest)
        if due is not None:
            self.to_cluster.append(due)
        while arrives and self.to_cluster:
            self.outbox.acknowledge(1, self.to_cluster.pop(0))
        self.die(death)

    def kill_receiver(self) -> None:
        self.deaths += 1
        self.to_cluster.clear()
        self.start_receiver()

    # ---- what holds ----------------------------------------------------------------------------

    @invariant()
    def nobody_is_told_twice_without_a_death(self) -> None:
        assert self.deaths or max(self.taken.values(), default=0) <= 1

    def teardown(self) -> None:
        """In the end everything that was answered has been taken, and nothing is kept."""
        for _ in range(2 * (self.batches + 1)):
            self.publish_again()
            while self.on_their_way:
                self.commit(True)
            self.tell(WINDOW, None)
            self.take(WINDOW)
            self.acknowledge(True, True, None)
        assert self.answered <= self.taken.keys(), "lost"
        assert set(self.taken) <= {(f"b{n}", idx) for n in range(self.batches + 1) for idx in range(3)}
        assert self.receiver.waiting_count == 0 and self.receiver.dropped == 0
        self.settle(None)
        assert not self.disk.records


PairMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=25, deadline=None)
test_pair_of_receiver_and_outbox = PairMachine.TestCase
