"""The client's socket, a DEALER that can be thrown away and opened again; another one for records.

Rules: nothing here blocks but `wait`, which is bounded. A message that the socket has no room for is
dropped: `pubsub_cluster.client.connection` sends again what stays unanswered, so that a full queue and a
lost connection are one case and not two.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence
from typing import Any

import zmq

from pubsub_cluster.client.record_reader import RecordReader
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.protocol import Buffer
from pubsub_cluster.language.records import Record
from pubsub_cluster.language.together import REQUESTS, REQUESTS_MAX, REQUESTS_SIZE_BYTES_MAX, together

QUEUED_MESSAGES_MAX = 1_000
# Plain numbers: combining pyzmq's flags costs more than sending a frame.
NOT_LAST = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
LAST = int(zmq.NOBLOCK)
EVENTS, READABLE = int(zmq.EVENTS), int(zmq.POLLIN)
SELECT_DESCRIPTORS_MAX = 1_024
COPIED_SIZE_BYTES_MAX = 1 << 19
"""Copying less is cheaper than sharing it: a third thread would have to be told when it is out."""
# A reply's largest frame: eight bytes for each of 16 million matches.
FRAME_SIZE_BYTES_MAX = 1 << 28


class Transport:
    """A ZeroMQ connection to the coordinator's client socket.

    Parameters
    ----------
    endpoint : str
        ``ipc://...`` or ``tcp://...``. Connecting succeeds whether or not anything listens there.

    Attributes
    ----------
    descriptor : int
        Becomes readable when something has changed since the socket was looked at last, no more.

    Raises
    ------
    CallerError
        `endpoint` is none.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._socket = self._open()
        except CallerError:
            self._context.term()
            raise
        self.unsent_count = 0
        self._held: list[Sequence[Buffer]] = []
        self._held_size_bytes = 0
        self.records: RecordReader | None = None
        self._both: select.epoll | None = None

    def open_records(self, facts: Mapping[str, Any], way: str) -> bool:
        """Take in records as well, as the cluster says where; return whether that is new.

        Those of another life are let go of.

        Raises
        ------
        ProtocolError
            The facts are none.
        """
        if self.records is not None and self.records.facts == facts:
            return False
        self._close_records()
        self.records = RecordReader(self._context, facts, way)
        self._watch_both()
        return True

    def reopen(self) -> None:
        """Throw the connection away, with all that is queued in it, and open another."""
        self._held, self._held_size_bytes = [], 0
        self._socket.close(linger=0)
        self._socket = self._open()
        if self.records is not None:
            self._watch_both()

    def hold(self, frames: Sequence[Buffer]) -> None:
        """Keep a request until `release`, which sends what is held in one message; others go out after it."""
        if set(map(type, frames)) != {bytes}:  # views of arrays, which are mostly large
            self.send(frames)
            return
        size_bytes = sum(map(len, frames))
        if self._held_size_bytes + size_bytes > REQUESTS_SIZE_BYTES_MAX or len(self._held) == REQUESTS_MAX:
            self.release()
        self._held.append(frames)
        self._held_size_bytes += size_bytes

    def release(self) -> None:
        """Send what is held."""
        held, self._held, self._held_size_bytes = self._held, [], 0
        if held:
            self.send(held[0] if len(held) == 1 else together(REQUESTS, held))

    def send(self, frames: Sequence[Buffer]) -> None:
        """Queue a message; large buffers are not copied and must not change before their answer."""
        if self._held:
            self.release()
        try:
            for frame in frames[:-1]:
                self._socket.send(frame, NOT_LAST, copy=memoryview(frame).nbytes < COPIED_SIZE_BYTES_MAX)
            self._socket.send(frames[-1], LAST, copy=memoryview(frames[-1]).nbytes < COPIED_SIZE_BYTES_MAX)
        except zmq.Again:
            self.unsent_count += 1

    def wait(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` for a message and say whether there is one.

        Not with the socket's own `poll`: that knows milliseconds only, and costs more than receiving.
        """
        end_s = time.monotonic() + timeout_s
        while not self.readable:
            left_s = end_s - time.monotonic()
            if left_s <= 0.0:
                return False
            _wait_for(self.descriptor, left_s)
        return True

    @property
    def descriptor(self) -> int:
        """Readable when something may have changed since the sockets were looked at last."""
        return self._descriptor if self._both is None else self._both.fileno()

    def receive(self) -> list[bytes] | None:
        """Return the next message, or None when none has arrived."""
        return self._socket.recv_multipart(flags=LAST) if self._has_message() else None

    def receive_records(self) -> list[Record]:
        """Return the records that have come."""
        return [] if self.records is None or not self.records.readable else self.records.receive()

    def close(self) -> None:
        """Close the sockets at once."""
        self._close_records()
        self._socket.close(linger=0)
        self._context.term()

    @property
    def readable(self) -> bool:
        """True when a message or a record has arrived."""
        return self._has_message() or (self.records is not None and self.records.readable)

    def _has_message(self) -> bool:
        return int(self._socket.getsockopt(EVENTS)) & READABLE != 0

    def _watch_both(self) -> None:
        """Make one descriptor of two: epoll's own is readable when one of those is."""
        assert self.records is not None
        if self._both is not None:
            self._both.close()
        self._both = select.epoll(2)
        for descriptor in (self._descriptor, int(self.records.socket.getsockopt(zmq.FD))):
            self._both.register(descriptor, select.EPOLLIN)

    def _close_records(self) -> None:
        if self.records is not None and self._both is not None:
            self._both.close()
            self.records.close()
        self.records = self._both = None

    def _open(self) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, QUEUED_MESSAGES_MAX)
        socket.setsockopt(zmq.RCVHWM, QUEUED_MESSAGES_MAX)
        socket.setsockopt(zmq.MAXMSGSIZE, FRAME_SIZE_BYTES_MAX)
        try:
            socket.connect(self._endpoint)
        except (zmq.ZMQError, TypeError) as error:
            socket.close(linger=0)
            raise CallerError(
                f"this is no endpoint that can be connected to: {error}",
                seen=self._endpoint,
                remedy="Write ipc:///path/to/client.sock or tcp://host:port; `start` and `status` print it.",
            ) from None
        self._descriptor = int(socket.getsockopt(zmq.FD))
        return socket


def _wait_for(descriptor: int, timeout_s: float) -> None:
    """Wait until a descriptor is readable, to the microsecond where `select` can take it."""
    if descriptor < SELECT_DESCRIPTORS_MAX:
        select.select([descriptor], (), (), timeout_s)
    else:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        poller.poll(timeout_s * 1_000)  # rounded up
