"""Takes in records of the groups that this client's owners are in (`pubsub_cluster.language.records`).

On the cluster's host records are read from its ring in shared memory, and messages only tell how far;
elsewhere, or where that is asked for, the messages are the records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import zmq

from pubsub_cluster.client.ring_reader import RingReader
from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.paths import records_endpoint
from pubsub_cluster.language.records import (
    LIFE_SIZE_BYTES,
    RECORD_SIZE_BYTES_MAX,
    Record,
    token_topic,
    wake_topic,
    whole_topic,
)

MESSAGES_QUEUED_MAX = 1_000
MESSAGES_PER_TURN_MAX = 1_024
WAYS = ("auto", "pubsub", "unicast")
"""How a client is notified: as is cheapest here, by records as messages, or only by pushes."""
_WAKE = b"w"
EVENTS, READABLE = int(zmq.EVENTS), int(zmq.POLLIN)
log = logging.getLogger("pubsub_cluster.client")


def reached_from(endpoint: str, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return where records are for a client of an endpoint: by TCP, at the next port."""
    return {**facts, "endpoint": records_endpoint(endpoint)} if endpoint.startswith("tcp://") else facts


class RecordReader:
    """The records of one cluster's life.

    Parameters
    ----------
    context : zmq.Context
    facts : mapping
        ``records`` in the reply to ``listen``.
    way : {"auto", "pubsub"}

    Attributes
    ----------
    ring : RingReader or None
        None: records come as messages.

    Raises
    ------
    ProtocolError
        The facts are none.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], facts: Mapping[str, Any], way: str) -> None:
        self.facts = dict(facts)
        self.ring: RingReader | None = None
        if way == "auto":
            try:
                self.ring = RingReader(facts["ring"])
            except OSError as error:
                log.info("the broadcast ring cannot be mapped, records come as messages: %s", error)
        self.socket: zmq.Socket[bytes] = context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVHWM, MESSAGES_QUEUED_MAX)
        self.socket.setsockopt(zmq.MAXMSGSIZE, RECORD_SIZE_BYTES_MAX)
        try:
            self._life = bytes.fromhex(facts["topics"])
            if len(self._life) != LIFE_SIZE_BYTES:
                raise ValueError(f"{len(self._life)} bytes")
            self.socket.connect(facts["endpoint"])
        except (zmq.ZMQError, KeyError, TypeError, ValueError) as error:
            self.close()
            raise ProtocolError("the cluster did not say where records are", seen=repr(error)) from None
        self._topics: dict[int, set[bytes]] = {}  # by generation, the token's topic among them
        self._wanted: dict[int, set[tuple[int, int]]] = {}

    def join(self, invitation: Mapping[str, Any]) -> None:
        """Subscribe to the topics of groups, then say so by a token.

        The topics of the generation before are kept: it is in force until this one is.

        Raises
        ------
        ProtocolError
            It is no invitation.
        """
        try:
            generation, groups = int(invitation["generation"]), [int(one) for one in invitation["groups"]]
            token = token_topic(bytes.fromhex(invitation["token"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError("an invitation lacks something", seen=repr(error)) from None
        topic = whole_topic if self.ring is None else wake_topic
        before = self._topics.get(generation, set())
        topics = {topic(self._life, generation, group) for group in groups}
        for one in topics - before:
            self.socket.setsockopt(zmq.SUBSCRIBE, one)
        self.socket.setsockopt(zmq.SUBSCRIBE, token)
        older = sorted(number for number in self._topics if number < generation)
        outdated = [self._topics.pop(number) for number in older[:-1]]
        for one in set().union(before - topics, *outdated):
            self.socket.setsockopt(zmq.UNSUBSCRIBE, one)
        for number in older[:-1]:
            del self._wanted[number]
        self._topics[generation] = topics | {token}
        self._wanted[generation] = {(generation, group) for group in groups}

    @property
    def readable(self) -> bool:
        """True when `receive` has something to take in."""
        return int(self.socket.getsockopt(EVENTS)) & READABLE != 0

    def receive(self) -> list[Record]:
        """Return the records that have come."""
        bodies: list[bytes] = []
        end = 0
        for _ in range(MESSAGES_PER_TURN_MAX):
            if not self.readable:
                break
            topic, body = self.socket.recv_multipart(zmq.NOBLOCK)
            if topic[:1] == _WAKE:
                end = max(end, int.from_bytes(body, "little"))
            else:
                bodies.append(body)
        if self.ring is not None and end:
            bodies += self.ring.read(end, frozenset().union(*self._wanted.values()))
        return [Record(body) for body in bodies]

    def close(self) -> None:
        """Let go of socket and ring."""
        self.socket.close(linger=0)
        if self.ring is not None:
            self.ring.close()
