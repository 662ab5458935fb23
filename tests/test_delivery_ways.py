"""Whatever joins, leaves, regroups and breaks: each listener hears each thing once, or what it missed.

The coordinator's side is the real one but for its sockets: pushes wait in a queue for each connection,
records in another, and either is read late and in any order. A connection's subscriptions may break, which
the coordinator notices later; what is sent meanwhile is gone, and is to be counted by who should have heard.
A record may reach a listener that was told by a push because it had not joined: it tells by the sequence.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from test_coordinator_delivery import Rows, merged_of

from pubsub_cluster.client.notifications import head_of, notifications_from_push, notifications_from_record
from pubsub_cluster.client.ordering import Ordering
from pubsub_cluster.coordinator.delivery.desk import DeliveryDesk
from pubsub_cluster.coordinator.delivery.distribution import Rule
from pubsub_cluster.coordinator.delivery.membership import INVITE_AFTER_S, JOIN_S_MAX, GroupGeneration
from pubsub_cluster.coordinator.delivery.multicast import Multicast
from pubsub_cluster.language.records import Record

OWNERS, CONNECTIONS, GROUPS = 4, 3, 3
ROWS_OF_OWNER = 2
FOR_EVER_S = 1e9
"""A gap is given up when all has been read: then it is a loss, and no haste of the reader."""
CONNECTION = st.integers(0, CONNECTIONS - 1)
OWNER = st.integers(0, OWNERS - 1)
EVENTS = st.lists(
    st.tuples(st.sets(st.integers(0, OWNERS * ROWS_OF_OWNER - 1)), st.integers(-1, GROUPS)),
    min_size=1,
    max_size=3,
)
Told = tuple[str, int]  # batch, event


class Catalogue(Rows):
    """The same with the ids of many rows at once."""

    def subscription_ids(self, rows: Any) -> tuple[Any, bytes]:
        ids = [f"s{row}".encode() for row in rows]
        return np.cumsum([0, *map(len, ids)]).astype(np.int64), b"".join(ids)


class Ring:
    """Nobody maps it."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}


class Wire:
    """Stands for the socket and the ring: records go to whoever has subscribed at that moment."""

    endpoint = "ipc://none"
    record_count = message_count = 0
    socket = None

    def __init__(self, ears: list[Ear]) -> None:
        self.ring = Ring()
        self._ears = ears

    def send(self, pieces: list[bytes], generation: int, group: int) -> None:
        for ear in self._ears:
            has_subscribed = (generation, group) in ear.topics.get(generation, ())
            if has_subscribed and not ear.broken:
                ear.records.append(b"".join(pieces))

    def wake(self) -> None:
        """Readers look by themselves."""


class Ear:
    """A connection: what is on its way to it, its subscriptions, and what its listeners have heard."""

    def __init__(self, number: int) -> None:
        self.identity = b"c%d" % number
        self.pushes: deque[dict[str, Any]] = deque()
        self.records: deque[bytes] = deque()
        self.topics: dict[int, set[tuple[int, int]]] = {}
        self.tokens: dict[int, bytes] = {}
        self.broken = self.noticed = self.is_full = False
        self.may_lose = False  # from the first time that it was broken, or full
        self.orderings: dict[str, Ordering] = {}
        self.numbers: dict[int, str] = {}
        self.begun: dict[str, int] = {}
        self.heard: dict[str, list[tuple[Told, int]]] = {}
        self.expected: dict[str, list[Told]] = {}

    def take(self, owner: str, ready: list[Any]) -> None:
        self.heard[owner] += [((one.batch_id, one.event_index), one.dropped) for one in ready]


class Delivering(RuleBasedStateMachine):
    """Publications while everything changes."""

    def __init__(self) -> None:
        super().__init__()
        self.ears = [Ear(number) for number in range(CONNECTIONS)]
        wire: Any = Wire(self.ears)
        self.multicast = Multicast(self.send, lambda _life: wire)
        self.desk = DeliveryDesk(self.send, self.multicast)
        self.catalogue: Any = Catalogue([row // ROWS_OF_OWNER for row in range(OWNERS * ROWS_OF_OWNER)])
        self.now_s = 0.0
        self.batches = self.generations = 0

    @initialize(groups=st.lists(st.sets(st.integers(0, OWNERS), min_size=1), min_size=1, max_size=GROUPS))
    def begin(self, groups: list[set[int]]) -> None:
        """Some listen and have joined, so that there is something to change."""
        for connection, owner in ((0, 0), (1, 0), (1, 1), (2, 1), (2, 2)):
            self.listen(connection, owner)
        self.settle()
        self.regroup(groups)
        self.settle()

    @rule()
    def settle(self) -> None:
        """Let everybody who can join what there is."""
        self.time_passes(INVITE_AFTER_S)
        for ear in self.ears:
            self.read_pushes(self.ears.index(ear), len(ear.pushes))
        self.time_passes(0.0)

    def send(self, identity: bytes, frames: list[Any]) -> bool:
        ear = self.ears[int(identity[1:])]
        if not ear.is_full:
            ear.pushes.append(orjson.loads(frames[1]))
        return not ear.is_full

    @rule(connection=CONNECTION, owner=OWNER)
    def listen(self, connection: int, owner: int) -> None:
        ear, name = self.ears[connection], f"o{owner}"
        if name in ear.orderings:
            return
        reply = self.desk.listen(ear.identity, name, self.now_s, takes_records=connection > 0)
        ear.orderings[name] = Ordering(FOR_EVER_S if connection > 0 else 0.0)
        ear.heard[name], ear.expected[name], ear.begun[name] = [], [], reply["sequence"]
        ear.numbers[reply["number"]] = name
        ear.take(name, ear.orderings[name].begin(reply["number"], reply["sequence"]))

    @rule(connection=CONNECTION, owner=OWNER)
    def unlisten(self, connection: int, owner: int) -> None:
        ear, name = self.ears[connection], f"o{owner}"
        if name in ear.orderings:
            self.desk.unlisten(ear.identity, name)
            self.hear_all(ear)
            self.check(ear, name)
            del ear.orderings[name]
            ear.numbers = {number: one for number, one in ear.numbers.items() if one != name}

    @rule(events=EVENTS, threshold=st.sampled_from([0.0, 0.5, 1.0]))
    def publish(self, events: list[tuple[set[int], int]], threshold: float) -> None:
        self.multicast.rule = Rule(threshold)
        self.batches += 1
        batch_id = f"b{self.batches}"
        groups = [group for _, group in events]
        for event_idx, (rows, _) in enumerate(events):
            for owner in sorted({row // ROWS_OF_OWNER for row in rows}):
                for ear in self.ears:
                    if f"o{owner}" in ear.orderings:
                        ear.expected[f"o{owner}"].append((batch_id, event_idx))
        self.desk.notify(
            merged_of([sorted(rows) for rows, _ in events]),
            self.catalogue,
            OWNERS,
            "p",
            batch_id,
            lambda idxs: [b"{}" for _ in idxs],
            lambda idxs: np.array([groups[idx] for idx in idxs], np.int32),
        )
        self.multicast.flush()

    @precondition(lambda self: self.multicast.membership.offered is None and self.multicast.broadcast)
    @rule(groups=st.lists(st.sets(st.integers(0, OWNERS)), min_size=1, max_size=GROUPS))
    def regroup(self, groups: list[set[int]]) -> None:
        self.generations += 1
        members = {1 + idx: np.array(sorted(numbers), np.int32) for idx, numbers in enumerate(groups)}
        generation = GroupGeneration(self.generations, members)
        self.multicast.invite(self.multicast.membership.offer(generation, self.now_s), self.now_s)

    @rule(pause_s=st.sampled_from([0.02, INVITE_AFTER_S, JOIN_S_MAX]))
    def time_passes(self, pause_s: float) -> None:
        self.now_s += pause_s
        self.desk.multicast.tick(self.now_s)

    @rule(connection=CONNECTION, is_full=st.booleans())
    def room(self, connection: int, is_full: bool) -> None:
        self.ears[connection].is_full = is_full
        self.ears[connection].may_lose |= is_full

    @rule(connection=CONNECTION)
    def break_subscriptions(self, connection: int) -> None:
        self.ears[connection].broken = self.ears[connection].may_lose = True

    @rule(connection=CONNECTION)
    def notice(self, connection: int) -> None:
        ear = self.ears[connection]
        if ear.broken and not ear.noticed:
            ear.noticed = True
            for token in ear.tokens.values():
                self.multicast.membership.token_lost(token)

    @rule(connection=CONNECTION)
    def subscribe_again(self, connection: int) -> None:
        ear = self.ears[connection]
        if ear.broken:
            self.notice(connection)
            ear.broken = ear.noticed = False
            for token in ear.tokens.values():
                self.multicast.membership.token_seen(token)

    @rule(connection=CONNECTION, count=st.integers(1, 3))
    def read_pushes(self, connection: int, count: int) -> None:
        ear = self.ears[connection]
        for _ in range(min(count, len(ear.pushes))):
            self.read_push(ear, ear.pushes.popleft())

    @rule(connection=CONNECTION, count=st.integers(1, 3))
    def read_records(self, connection: int, count: int) -> None:
        ear = self.ears[connection]
        for _ in range(min(count, len(ear.records))):
            record = Record(ear.records.popleft())
            entries = record.entries(np.array(sorted(ear.numbers), np.int32))
            names = [ear.numbers[number] for number in entries.numbers]
            for told in notifications_from_record(names, head_of(record), entries):
                ordering = ear.orderings[told.owner]
                if told.sequence < ear.begun[told.owner]:
                    continue  # it was on its way before this listener was there
                passes = ordering.passes(told.sequence)
                ear.take(told.owner, [told] if passes else ordering.take(told, self.now_s))

    def read_push(self, ear: Ear, header: dict[str, Any]) -> None:
        if header["op"] == "invite":
            self.join(ear, header)
        elif header["owner"] in ear.orderings:
            for told in notifications_from_push(header):
                ear.take(header["owner"], ear.orderings[header["owner"]].take(told, self.now_s))

    def join(self, ear: Ear, header: dict[str, Any]) -> None:
        generation, token = header["generation"], bytes.fromhex(header["token"])
        before = ear.tokens.get(generation)
        ear.topics[generation] = {(generation, group) for group in header["groups"]}
        ear.tokens[generation] = token
        for older in sorted(number for number in ear.topics if number < generation)[:-1]:
            del ear.topics[older], ear.tokens[older]
        if not ear.broken:
            self.multicast.membership.token_seen(token)
            if before is not None:
                self.multicast.membership.token_lost(before)

    def hear_all(self, ear: Ear) -> None:
        self.read_pushes(self.ears.index(ear), len(ear.pushes))
        self.read_records(self.ears.index(ear), len(ear.records))
        for name, ordering in ear.orderings.items():
            ear.take(name, ordering.tick(self.now_s + 2 * FOR_EVER_S))

    def check(self, ear: Ear, name: str) -> None:
        """All that was heard was expected, in that order, and what lies between is counted."""
        place = 0
        for told, dropped in ear.heard[name]:
            place += dropped
            assert ear.expected[name][place] == told
            place += 1
        assert place == len(ear.expected[name]) == len(ear.heard[name]) or ear.may_lose

    def teardown(self) -> None:
        for ear in self.ears:
            self.hear_all(ear)
            for name in ear.orderings:
                self.check(ear, name)


Delivering.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestDelivering = Delivering.TestCase


def test_an_invitation_that_found_no_room_is_repeated() -> None:
    machine = Delivering()
    machine.listen(1, 0)
    machine.room(1, is_full=True)
    machine.settle()
    machine.room(1, is_full=False)
    assert not machine.multicast.membership.has_joined(b"c1", 0)
    machine.settle()
    assert machine.multicast.membership.has_joined(b"c1", 0)
