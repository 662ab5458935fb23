"""Who takes records of which groups: how connections join, and when a generation of groups takes over.

A connection that can take records is *invited* to the topics of its owners' groups. It subscribes to these,
and then to a topic that is nothing but a token; subscriptions come in order, so whoever sees the token knows
that the others are in force: the connection has *joined*, with the owners that it listened for when it was
invited. Only then does a record reach it. Until then, and for whatever a record does not tell it, it is told
by unicast: each notification goes to each listener by exactly one way.

A new generation of groups is *offered*: everybody is invited, and it takes over when all have joined or
have had their time. The topics of two generations differ, so that one can be joined while the other is used.

Pure: no sockets, no clock. What is to be sent comes back as invitations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

EVERYBODY = 0
"""The group of all who have joined."""
UNICAST = -1
"""No group."""
JOIN_S_MAX = 2.0
"""How long a generation waits for those who have not joined it."""
INVITE_AFTER_S = 0.05
"""A connection that listens for more and more owners is invited when it pauses, not for each of them."""


@dataclass(frozen=True)
class GroupGeneration:
    """Groups of owners.

    Attributes
    ----------
    number : int
        Grows.
    members : dict of int to int32[n]
        Numbers of the owners of each group, from 1 on, ascending.
    """

    number: int
    members: dict[int, npt.NDArray[np.int32]]


class Invitation(NamedTuple):
    """A connection is asked to subscribe to the topics of groups, and to the token after them.

    Attributes
    ----------
    identity : bytes
    generation : int
    groups : tuple of int
        Those of the generation, `EVERYBODY` first.
    token : bytes
    """

    identity: bytes
    generation: int
    groups: tuple[int, ...]
    token: bytes


class _Pass(NamedTuple):
    """A token and the numbers of the owners that it stands for."""

    token: bytes
    numbers: frozenset[int]


_NO_PASS = _Pass(b"", frozenset())


@dataclass(slots=True)
class _Connection:
    numbers: set[int] = field(default_factory=set)
    invited: dict[int, _Pass] = field(default_factory=dict)  # by generation
    joined: dict[int, _Pass] = field(default_factory=dict)


class Membership:
    """The connections that can take records.

    Parameters
    ----------
    life : bytes
        What no other life of a coordinator has: a subscriber that connects again tells the tokens that it was
        given before, by whomever.

    Attributes
    ----------
    current : GroupGeneration
        By which records are sent.
    offered : GroupGeneration or None
        The one that takes over next.
    revision : int
        Grows whenever it may be others whom a record reaches.
    """

    def __init__(self, life: bytes = b"") -> None:
        self._life = life
        self.current = GroupGeneration(0, {})
        self.offered: GroupGeneration | None = None
        self.revision = 0
        self._offer_ends_s = 0.0
        self._connections: dict[bytes, _Connection] = {}
        self._due: dict[bytes, float] = {}  # when a connection is invited (again)
        self._passes: dict[bytes, tuple[bytes, int]] = {}  # identity and generation, by token
        self._tokens = itertools.count(1)
        self._joined_count = np.zeros(64, np.int32)  # listeners that have joined `current`, by number

    def listens(self, identity: bytes, number: int, now_s: float) -> None:
        """A connection that can take records listens for an owner."""
        connection = self._connections.setdefault(identity, _Connection())
        if number not in connection.numbers:
            connection.numbers.add(number)
            self._due.setdefault(identity, now_s + INVITE_AFTER_S)

    def leaves(self, identity: bytes, number: int) -> None:
        """A connection does not listen for an owner any more; one that never did is no error."""
        connection = self._connections.get(identity)
        if connection is None or number not in connection.numbers:
            return
        connection.numbers.discard(number)
        self._count(connection.joined.get(self.current.number, _NO_PASS).numbers & {number}, -1)
        for passes in (connection.invited, connection.joined):
            for generation, (token, numbers) in passes.items():
                passes[generation] = _Pass(token, numbers - {number})
        if not connection.numbers:
            del self._connections[identity]
            self._due.pop(identity, None)
            for one in (*connection.invited.values(), *connection.joined.values()):
                self._passes.pop(one.token, None)

    def offer(self, generation: GroupGeneration, now_s: float) -> list[Invitation]:
        """Begin to move to a generation; only when none is on offer."""
        assert self.offered is None and generation.number > self.current.number
        self.offered = generation
        self._offer_ends_s = now_s + JOIN_S_MAX
        return [self._invite(identity, generation) for identity in self._connections]

    def invite_again(self, identity: bytes, now_s: float) -> None:
        """An invitation has not reached a connection: let it be invited once more, later."""
        if identity in self._connections:
            self._due.setdefault(identity, now_s + INVITE_AFTER_S)

    def token_seen(self, token: bytes) -> None:
        """A connection has subscribed to a token; one that is not valid (any more) says nothing."""
        identity, generation = self._passes.get(token, (b"", 0))
        connection = self._connections.get(identity)
        if connection is None or connection.invited.get(generation, _NO_PASS).token != token:
            return
        before = connection.joined.get(generation, _NO_PASS)
        self._passes.pop(before.token, None)
        now = connection.joined[generation] = connection.invited.pop(generation)
        if generation == self.current.number:
            self._count(before.numbers, -1)
            self._count(now.numbers, 1)

    def token_lost(self, token: bytes) -> None:
        """A connection's subscriptions are gone: it is told by unicast until they are there again."""
        identity, generation = self._passes.get(token, (b"", 0))
        connection = self._connections.get(identity)
        if connection is None or connection.joined.get(generation, _NO_PASS).token != token:
            return
        lost = connection.joined.pop(generation)
        if generation == self.current.number:
            self._count(lost.numbers, -1)
        if generation in connection.invited:  # a newer invitation is on its way
            del self._passes[token]
        else:
            connection.invited[generation] = lost

    def tick(self, now_s: float) -> list[Invitation]:
        """Let time pass: invite who is to be invited; take the offered generation if it is time."""
        invitations: list[Invitation] = []
        for identity in [identity for identity, due_s in self._due.items() if now_s >= due_s]:
            del self._due[identity]
            wanted = [self.current] if self.offered is None else [self.current, self.offered]
            invitations += [self._invite(identity, generation) for generation in wanted]
        if self.offered is not None and (now_s >= self._offer_ends_s or self._all_joined(self.offered)):
            self._take_over(self.offered)
        return invitations

    def has_joined(self, identity: bytes, number: int) -> bool:
        """Whether a connection gets what records tell an owner now."""
        connection = self._connections.get(identity)
        return (
            connection is not None and number in connection.joined.get(self.current.number, _NO_PASS).numbers
        )

    def joined_counts(self, number: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return how many listeners of each owner have joined: int32[k]."""
        self._room(int(number.max(initial=0)))
        return self._joined_count[number]

    def members(self, group: int) -> npt.NDArray[np.int32]:
        """Return the numbers of the owners whom a record for a group reaches: int32[n], ascending."""
        joined = np.flatnonzero(self._joined_count > 0).astype(np.int32)
        if group == EVERYBODY:
            return joined
        return np.intersect1d(joined, self.current.members[group], assume_unique=True)

    def _invite(self, identity: bytes, generation: GroupGeneration) -> Invitation:
        connection = self._connections[identity]
        token = self._life + next(self._tokens).to_bytes(8, "little")
        self._passes.pop(connection.invited.get(generation.number, _NO_PASS).token, None)
        connection.invited[generation.number] = _Pass(token, frozenset(connection.numbers))
        self._passes[token] = identity, generation.number
        mine = np.array(sorted(connection.numbers), np.int32)
        groups = [group for group, members in generation.members.items() if np.isin(mine, members).any()]
        return Invitation(identity, generation.number, (EVERYBODY, *sorted(groups)), token)

    def _all_joined(self, generation: GroupGeneration) -> bool:
        return not self._due and all(
            generation.number not in connection.invited for connection in self._connections.values()
        )

    def _take_over(self, generation: GroupGeneration) -> None:
        self.current, self.offered = generation, None
        self._joined_count[:] = 0
        self.revision += 1
        for connection in self._connections.values():
            for passes in (connection.invited, connection.joined):
                for older in [number for number in passes if number < generation.number]:
                    self._passes.pop(passes.pop(older).token, None)
            self._count(connection.joined.get(generation.number, _NO_PASS).numbers, 1)

    def _count(self, numbers: Iterable[int], step: int) -> None:
        for number in numbers:
            self._room(number)
            self._joined_count[number] += step
            self.revision += 1

    def _room(self, number: int) -> None:
        if number >= len(self._joined_count):
            grown = np.zeros(2 * (number + 1), np.int32)
            grown[: len(self._joined_count)] = self._joined_count
            self._joined_count = grown
