"""Joining, leaving and changing groups, in any order: who is told by a record has subscribed to its topic.

The model keeps what is really subscribed on the other side, message by message, where subscriptions and their
losses arrive late and in order; the membership must never count on more than that.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pubsub_cluster.coordinator.delivery.membership import (
    EVERYBODY,
    INVITE_AFTER_S,
    JOIN_S_MAX,
    GroupGeneration,
    Invitation,
    Membership,
)
from pubsub_cluster.language.records import token_of, token_topic, wake_topic, whole_topic

CONNECTIONS = [b"a", b"b", b"c"]
NUMBERS = st.integers(0, 4)
GROUPS = st.dictionaries(st.integers(1, 3), st.sets(NUMBERS), max_size=3)


def generation_of(number: int, groups: dict[int, set[int]]) -> GroupGeneration:
    members = {group: np.array(sorted(numbers), np.int32) for group, numbers in groups.items()}
    return GroupGeneration(number, members)


class Joining(RuleBasedStateMachine):
    """Connections that answer invitations late, lose their subscriptions, and come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.membership = Membership()
        self.now_s = 0.0
        self.number = 0
        self.listening: dict[bytes, set[int]] = {identity: set() for identity in CONNECTIONS}
        self.unread: dict[bytes, deque[Invitation]] = {identity: deque() for identity in CONNECTIONS}
        self.topics: dict[bytes, set[tuple[int, int]]] = {identity: set() for identity in CONNECTIONS}
        self.tokens: dict[bytes, dict[int, bytes]] = {identity: {} for identity in CONNECTIONS}
        self.away: set[bytes] = set()

    def deliver(self, invitations: list[Invitation]) -> None:
        for one in invitations:
            self.unread[one.identity].append(one)

    @rule(identity=st.sampled_from(CONNECTIONS), number=NUMBERS)
    def listen(self, identity: bytes, number: int) -> None:
        self.membership.listens(identity, number, self.now_s)
        self.listening[identity].add(number)

    @rule(identity=st.sampled_from(CONNECTIONS), number=NUMBERS)
    def leave(self, identity: bytes, number: int) -> None:
        self.membership.leaves(identity, number)
        self.listening[identity].discard(number)

    @precondition(lambda self: self.membership.offered is None)
    @rule(groups=GROUPS)
    def offer(self, groups: dict[int, set[int]]) -> None:
        self.number += 1
        self.deliver(self.membership.offer(generation_of(self.number, groups), self.now_s))

    @rule(pause_s=st.sampled_from([0.01, INVITE_AFTER_S, JOIN_S_MAX]))
    def time_passes(self, pause_s: float) -> None:
        self.now_s += pause_s
        self.deliver(self.membership.tick(self.now_s))

    @rule(identity=st.sampled_from(CONNECTIONS))
    def take_an_invitation(self, identity: bytes) -> None:
        """As a client does: subscribe, then the token, then let go of what is not needed any more."""
        if not self.unread[identity]:
            return
        _, generation, groups, token = self.unread[identity].popleft()
        kept = {(number, group) for number, group in self.topics[identity] if number != generation}
        self.topics[identity] = kept | {(generation, group) for group in groups}
        earlier = self.tokens[identity].get(generation)
        self.tokens[identity][generation] = token
        if identity not in self.away:
            self.membership.token_seen(token)
            if earlier is not None:
                self.membership.token_lost(earlier)

    @rule(identity=st.sampled_from(CONNECTIONS))
    def lose_the_connection(self, identity: bytes) -> None:
        """That of the topics; invitations come by another."""
        if identity not in self.away:
            self.away.add(identity)
            for token in self.tokens[identity].values():
                self.membership.token_lost(token)

    @rule(identity=st.sampled_from(CONNECTIONS))
    def come_back(self, identity: bytes) -> None:
        """ZeroMQ subscribes again by itself, in no particular order."""
        if identity in self.away:
            self.away.discard(identity)
            for token in self.tokens[identity].values():
                self.membership.token_seen(token)

    @invariant()
    def nobody_is_counted_on_who_has_not_subscribed(self) -> None:
        membership = self.membership
        current = membership.current
        for group in (EVERYBODY, *current.members):
            numbers = np.arange(5, dtype=np.int32)
            reached = np.isin(numbers, membership.members(group))
            for number in range(5):
                having = [c for c in CONNECTIONS if membership.has_joined(c, number)]
                assert membership.joined_counts(numbers)[number] == len(having)
                is_member = group == EVERYBODY or number in current.members[group].tolist()
                assert reached[number] == (bool(having) and is_member)
                for identity in having:
                    assert number in self.listening[identity] and identity not in self.away
                    assert not is_member or (current.number, group) in self.topics[identity]

    @rule()
    def in_the_end_everybody_has_joined(self) -> None:
        for _ in range(3):
            self.now_s += INVITE_AFTER_S
            self.deliver(self.membership.tick(self.now_s))
            for identity in CONNECTIONS:
                self.come_back(identity)
                while self.unread[identity]:
                    self.take_an_invitation(identity)
        assert self.membership.offered is None
        for identity, numbers in self.listening.items():
            assert all(self.membership.has_joined(identity, number) for number in numbers)


Joining.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestJoining = Joining.TestCase


def test_a_record_reaches_who_has_joined_and_nobody_else() -> None:
    membership = Membership()
    assert not len(membership.members(EVERYBODY))
    membership.listens(b"a", 1, 0.0)
    (invitation,) = membership.tick(INVITE_AFTER_S)
    assert invitation.groups == (EVERYBODY,) and not membership.has_joined(b"a", 1)
    membership.token_seen(invitation.token)
    assert membership.members(EVERYBODY).tolist() == [1]
    membership.listens(b"a", 2, 1.0)  # until it is invited again, only what was joined is counted on
    assert membership.members(EVERYBODY).tolist() == [1]


def test_a_generation_takes_over_when_all_have_joined_or_have_had_their_time() -> None:
    membership = Membership()
    for identity, number in ((b"a", 1), (b"b", 2)):
        membership.listens(identity, number, 0.0)
    for invitation in membership.tick(INVITE_AFTER_S):
        membership.token_seen(invitation.token)
    first, second = membership.offer(generation_of(1, {1: {1}, 2: {1, 2}}), 1.0)
    assert (first.groups, second.groups) == ((EVERYBODY, 1, 2), (EVERYBODY, 2))
    membership.token_seen(first.token)
    membership.tick(1.5)
    assert membership.current.number == 0 and membership.members(EVERYBODY).tolist() == [1, 2]
    membership.tick(1.0 + JOIN_S_MAX)
    assert membership.current.number == 1 and membership.members(2).tolist() == [1]
    membership.token_seen(second.token)  # late, but not too late
    assert membership.members(2).tolist() == [1, 2]


def test_a_token_of_another_life_says_nothing() -> None:
    """ZeroMQ subscribes again by itself, also at a coordinator that was started anew."""
    tokens = []
    lives = [Membership(b"one life"), Membership(b"another ")]
    for membership in lives:
        membership.listens(b"a", 1, 0.0)
        (invitation,) = membership.tick(INVITE_AFTER_S)
        tokens.append(invitation.token)
    lives[1].token_seen(tokens[0])
    assert not lives[1].has_joined(b"a", 1)
    lives[1].token_seen(tokens[1])
    assert lives[1].has_joined(b"a", 1)


def test_tokens_sort_behind_all_other_topics() -> None:
    """A subscriber that connects again tells its topics in their order, whatever theirs was at first."""
    pairs = [(0, EVERYBODY), (2**32 - 1, 2**31 - 1)]
    topics = [make(b"\xff" * 8, *pair) for make in (wake_topic, whole_topic) for pair in pairs]
    assert max(topics) < token_topic(b"")
    assert token_of(token_topic(b"x")) == b"x" and not any(map(token_of, topics))
