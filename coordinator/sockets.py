"""What both sockets of the coordinator have in common: receiving without a copy too many, or an exception.

A message that is not there costs more than one that is, when its absence is told by an exception; so the
socket is asked first.
"""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from pubsub_cluster.language.errors import StartError
from pubsub_cluster.language.protocol import Buffer

# Plain numbers: combining pyzmq's flags costs more than sending a frame. Its options are the other way round.
NOT_LAST = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
LAST = int(zmq.NOBLOCK)
READABLE = int(zmq.POLLIN)
COPIED_SIZE_BYTES_MAX = 1 << 17
"""Copying less is cheaper than sharing it with the thread that sends, or with libzmq's buffers."""


def bind(socket: zmq.Socket[bytes], endpoints: Sequence[str]) -> None:
    """Bind a socket everywhere.

    Raises
    ------
    StartError
        An endpoint is taken, or cannot be had on this machine.
    """
    for endpoint in endpoints:
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise StartError(
                f"an endpoint cannot be bound: {error}",
                seen=endpoint,
                remedy="Choose another with --listen: its port and the next one must be free.",
            ) from error


def readable(socket: zmq.Socket[bytes]) -> bool:
    """Say whether a message has arrived."""
    return int(socket.getsockopt(zmq.EVENTS)) & READABLE != 0


def receive(socket: zmq.Socket[bytes]) -> tuple[bytes, list[Buffer]]:
    """Return the sender and the frames of a message that has arrived; large frames are views of bytes."""
    frame = socket.recv(LAST, copy=False)
    identity = frame.bytes
    frames: list[Buffer] = []
    while frame.more:
        frame = socket.recv(LAST, copy=False)
        frames.append(frame.bytes if len(frame) < COPIED_SIZE_BYTES_MAX else frame.buffer)
    return identity, frames
