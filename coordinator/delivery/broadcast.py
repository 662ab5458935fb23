"""Sends records to groups: into a ring for readers on this host, as messages for all others.

One socket, an XPUB. Readers of the ring subscribe to a group's *wake* topic and are sent positions; others to
its *whole* topic and are sent the records. Who has subscribed to what comes in on the same socket
(`coordinator.delivery.membership`). Nothing here waits for anybody: a subscriber without room misses a
message, and sees it by the sequences; a missed wake-up is made good by the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import zmq

from pubsub_cluster.coordinator.sockets import LAST, NOT_LAST, bind
from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.records import token_of, wake_topic, whole_topic
from pubsub_cluster.shm.broadcast_ring import BroadcastRing

QUEUED_MESSAGES_MAX = 256
MESSAGE_SIZE_BYTES_MAX = 256 << 10
"""Of a record that is sent as a message. A subscriber that does not read holds back 64 MiB at most, and all
such subscribers the same bytes."""
SUBSCRIPTION_SIZE_BYTES_MAX = 256
EVENTS_PER_TURN_MAX = 4_096
_SUBSCRIBED, _WHOLE = 1, b"r"


class Broadcast:
    """The way to groups.

    Parameters
    ----------
    endpoints : sequence of str
        Where to bind.
    ring : BroadcastRing
    life : bytes
        Part of every topic, so that nobody hears another life's records.

    Attributes
    ----------
    endpoint : str
        Where this host's connections are made.
    record_count, message_count : int
        Records since the start, and messages that the socket was given.
    """

    def __init__(self, endpoints: Sequence[str], ring: BroadcastRing, life: bytes) -> None:
        self.ring = ring
        self.life = life
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, QUEUED_MESSAGES_MAX)
        self.socket.setsockopt(zmq.MAXMSGSIZE, SUBSCRIPTION_SIZE_BYTES_MAX)
        bind(self.socket, endpoints)
        self.endpoint = endpoints[0]
        self._whole: set[bytes] = set()  # whole topics that somebody has subscribed to
        self._due: dict[tuple[int, int], None] = {}  # groups that are to be woken
        self.record_count = 0
        self.message_count = 0

    def subscriptions(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the tokens that connections have subscribed to (True), or lost (False), since then."""
        for _ in range(EVENTS_PER_TURN_MAX):
            try:
                event = self.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            is_on, topic = event[:1] == bytes([_SUBSCRIBED]), event[1:]
            token = token_of(topic)
            if token is not None:
                yield token, is_on
            elif topic[:1] == _WHOLE:
                (self._whole.add if is_on else self._whole.discard)(topic)

    def send(self, pieces: Sequence[bytes], generation: int, group: int) -> None:
        """Send a record to a group; readers of the ring are woken by `wake`.

        Raises
        ------
        LimitError
            It is too large; nothing is sent.
        """
        topic = whole_topic(self.life, generation, group)
        size_bytes = sum(map(len, pieces))
        if topic in self._whole and size_bytes > MESSAGE_SIZE_BYTES_MAX:
            raise LimitError(
                "a record is too large for a message to a group",
                seen=size_bytes,
                limit=MESSAGE_SIZE_BYTES_MAX,
                limit_name="MESSAGE_SIZE_BYTES_MAX",
            )
        self.ring.write(pieces, generation, group)
        self.record_count += 1
        self._due[generation, group] = None
        if topic in self._whole:
            self._publish(topic, b"".join(pieces))

    def wake(self) -> None:
        """Wake the readers of all groups that were sent something: once, whatever that was."""
        if not self._due:
            return
        position = self.ring.position.to_bytes(8, "little")
        for generation, group in self._due:
            self._publish(wake_topic(self.life, generation, group), position)
        self._due.clear()

    def close(self) -> None:
        """Close the socket and remove the ring."""
        self.socket.close(linger=0)
        self._context.term()
        self.ring.close()

    def _publish(self, topic: bytes, body: bytes) -> None:
        self.message_count += 1
        self.socket.send(topic, NOT_LAST)
        self.socket.send(body, LAST)
