"""Tells owners by records: which notifications go with one, and who is told by unicast all the same.

The parts: who has joined which group (`membership`), by which way an event goes (`distribution`), and what
carries records (`broadcast`), which is opened when the first connection asks for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import orjson
import zmq

from pubsub_cluster.coordinator.delivery.broadcast import Broadcast
from pubsub_cluster.coordinator.delivery.counters import SentCounters
from pubsub_cluster.coordinator.delivery.distribution import (
    Members,
    Rule,
    Tally,
    decide,
    least_interested,
)
from pubsub_cluster.coordinator.delivery.membership import EVERYBODY, UNICAST, Invitation, Membership
from pubsub_cluster.coordinator.delivery.told import Told
from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.protocol import Buffer, invite_frames
from pubsub_cluster.language.records import LIFE_SIZE_BYTES, Columns, encode_record
from pubsub_cluster.shm.catalogue import CatalogueReader

Bools = npt.NDArray[np.bool_]
I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]


class Locate(Protocol):
    """Gives events to groups."""

    def __call__(self, events: Sequence[int]) -> I4:
        """Return the group of each event by its cell, `UNICAST` for those of S_0: int32[e]."""


class Multicast:
    """Records, and who gets them.

    Parameters
    ----------
    send : callable
        As for `DeliveryDesk`.
    open_broadcast : callable
        ``open_broadcast(life)`` returns the way to groups; called once, when needed. None: there is none.

    Attributes
    ----------
    membership : Membership
    rule : Rule
        When a record pays.
    costs_measured : bool
        Whether its costs are this machine's.
    tally : Tally
        What it has decided.
    broadcast : Broadcast or None
    """

    def __init__(
        self, send: Callable[[bytes, list[Buffer]], bool], open_broadcast: Callable[[bytes], Broadcast] | None
    ) -> None:
        self._send = send
        self._open_broadcast = open_broadcast
        self.broadcast: Broadcast | None = None
        self._life = os.urandom(LIFE_SIZE_BYTES)
        self.membership = Membership(self._life)
        self.rule = Rule()
        self.costs_measured = False
        self.tally = Tally()
        self._members = Members({EVERYBODY: self.membership.members(EVERYBODY)})
        self._members_revision = self.membership.revision
        self._least: tuple[tuple[int, Rule], float] = (-1, self.rule), 1.0

    def listens(self, identity: bytes, number: int, now_s: float) -> dict[str, Any] | None:
        """A connection that takes records listens for an owner; return where they are to be had, if at all.

        Raises
        ------
        SegmentError
            There is no room for the ring.
        """
        if self._open_broadcast is None:
            return None
        if self.broadcast is None:
            self.broadcast = self._open_broadcast(self._life)
        self.membership.listens(identity, number, now_s)
        facts = {"endpoint": self.broadcast.endpoint, "topics": self._life.hex()}
        return {**facts, "ring": self.broadcast.ring.facts}

    @property
    def sockets(self) -> list[zmq.Socket[bytes]]:
        """What is to be polled for `hear`."""
        return [] if self.broadcast is None else [self.broadcast.socket]

    def hear(self) -> None:
        """Take in who has subscribed to what."""
        if self.broadcast is not None:
            for token, is_on in self.broadcast.subscriptions():
                (self.membership.token_seen if is_on else self.membership.token_lost)(token)

    def tick(self, now_s: float) -> None:
        """Let time pass."""
        if self.broadcast is not None:
            self.invite(self.membership.tick(now_s), now_s)

    def invite(self, invitations: list[Invitation], now_s: float) -> None:
        """Send invitations; who has no room for one is invited again later, and told by unicast till then."""
        for one in invitations:
            try:
                if not self._send(one.identity, invite_frames(one.generation, one.groups, one.token)):
                    self.membership.invite_again(one.identity, now_s)
            except ConnectionError:
                continue

    @property
    def members(self) -> Members:
        """Whom a record of each group reaches now."""
        membership = self.membership
        if self._members_revision != membership.revision:
            groups = (EVERYBODY, *membership.current.members)
            self._members = Members({group: membership.members(group) for group in groups})
            self._members_revision = membership.revision
        return self._members

    def _least_interested(self) -> float:
        """Return how many have to be interested in an event before its cell is worth a look."""
        key = self.membership.revision, self.rule
        if self._least[0] != key:
            self._least = key, least_interested(self.members, self.rule)
        return self._least[1]

    def send(
        self,
        told: Told,
        catalogue: CatalogueReader,
        fields: dict[str, Any],
        event_json: dict[int, bytes],
        locate: Locate | None,
        counters: SentCounters,
    ) -> Bools:
        """Send what goes by records; return which notifications those are: bool[k].

        Parameters
        ----------
        told : Told
        catalogue : CatalogueReader
        fields : dict
            Of the head of each record: ``publisher``, ``batch_id``.
        event_json : dict of int to bytes
            By event.
        locate : Locate or None
            None: there are no groups.
        counters : SentCounters
        """
        gone = np.zeros(len(told.event), np.bool_)
        if self.broadcast is None or not self.members.size[EVERYBODY]:
            return gone
        least = self._least_interested()
        first = told.starts
        last = np.append(first[1:], len(told.event))
        events, interested = told.event[first], last - first
        worthy = np.flatnonzero(interested >= least)
        if not len(worthy):
            self.tally.unicasts += len(told.event)
            return gone
        groups = np.full(len(events), UNICAST, np.int32)
        if locate is not None:  # what concerns everybody goes to everybody, wherever it lies
            joined = told.counts(self.members.holds(EVERYBODY, told.number))
            worthy = worthy[joined[worthy] < self.members.size[EVERYBODY]]
            groups[worthy] = locate(events[worthy].tolist()) if len(worthy) else UNICAST
        ways = decide(told, self.members, groups, self.rule)
        counters.of_generation(self.membership.current.number)
        for place in np.flatnonzero(ways != UNICAST).tolist():
            group = int(ways[place])
            members = self.members.numbers[group]
            entries = np.arange(first[place], last[place])
            entries = entries[self.members.holds(group, told.number[entries])]
            event_idx = int(events[place])
            head = {**fields, "event_index": event_idx, "event": orjson.Fragment(event_json[event_idx])}
            pieces = encode_record(head, record_columns(told, entries, catalogue))
            try:
                self.broadcast.send(pieces, self.membership.current.number, group)
            except LimitError:
                continue
            gone[entries] = True
            self.tally.record(len(members), len(entries))
            counters.group(group, members, told.number[entries], sum(map(len, pieces)))
        self.tally.unicasts += len(gone) - int(np.count_nonzero(gone))
        return gone

    def status(self) -> dict[str, Any]:
        """Return what operators are told."""
        broadcast = self.broadcast
        return {
            "generation": self.membership.current.number,
            "groups": len(self.membership.current.members),
            "joined": int(self.members.size[EVERYBODY]),
            **self.tally.to_json(),
            "messages": 0 if broadcast is None else broadcast.message_count,
        }

    def flush(self) -> None:
        """Wake whoever was sent something."""
        if self.broadcast is not None:
            self.broadcast.wake()

    def close(self) -> None:
        """Close the way to groups."""
        if self.broadcast is not None:
            self.broadcast.close()


def record_columns(told: Told, entries: I8, catalogue: CatalogueReader) -> Columns:
    """Return what a record tells: some entries of one event, ascending."""
    chosen: I8 | slice
    match: I8 | slice
    if len(entries) and entries[-1] - entries[0] == len(entries) - 1:  # all of an event's, as a rule
        first, last = int(entries[0]), int(entries[-1]) + 1
        chosen, match = slice(first, last), slice(int(told.offsets[first]), int(told.offsets[last]))
        offsets = told.offsets[first : last + 1] - told.offsets[first]
    else:
        chosen = entries
        sizes = np.diff(told.offsets)[entries]
        offsets = np.zeros(len(entries) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        match = np.repeat(told.offsets[entries] - offsets[:-1], sizes) + np.arange(offsets[-1])
    id_offsets, ids = catalogue.subscription_ids(told.rows[match])
    return Columns(told.number[chosen], told.sequence[chosen], offsets, told.handles[match], id_offsets, ids)
