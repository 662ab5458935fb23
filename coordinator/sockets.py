"""What both sockets of the coordinator have in common: receiving without a copy too many, or an exception.

A message that is not there costs more than one that is, when its absence is told by an exception; so the
socket is asked first.
"""

from __future__ import annotations

import zmq

from pubsub_cluster.language.protocol import Buffer

# Plain numbers: combining pyzmq's flags costs more than sending a frame. Its options are the other way round.
NOT_LAST = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
LAST = int(zmq.NOBLOCK)
READABLE = int(zmq.POLLIN)
COPIED_SIZE_BYTES_MAX = 1 << 16
"""Copying less is cheaper than sharing it with the thread that sends, or with libzmq's buffers."""


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
