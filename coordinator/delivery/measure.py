"""What the ways of delivery cost on this machine; prints them as one JSON object.

Started by module name, ``python -m pubsub_cluster.coordinator.delivery.measure``, by the tuner when it is
asked for groups first. One process plays both sides over real sockets and a ring. Sending is measured by the
processor time of the process, so that what sockets do in threads of their own counts, on both sides; a
receipt in vain by that of the thread that reads.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
import zmq

from pubsub_cluster.coordinator.delivery.distribution import DeliveryCosts
from pubsub_cluster.language.protocol import notify_frames
from pubsub_cluster.language.records import (
    FRAME,
    LIFE_SIZE_BYTES,
    Columns,
    Record,
    encode_record,
    frame,
    is_whole,
    wake_topic,
)
from pubsub_cluster.shm.broadcast_ring import FAMILY, BroadcastRing
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.lifeline import tie_to_parent

_LIFE = bytes(LIFE_SIZE_BYTES)
NICENESS = 10  # what is going on comes first
REPETITIONS = 25
MESSAGES = 50
REST_S = 0.01
"""Until sockets have handed over what they were given."""
RING_BYTES = 1 << 22
OWNERS = 100
"""That a record tells something; the reader is none of them."""
EVENT = orjson.dumps({"bst": "B", "name": 12.25, "quote": 9.5, "volume": 1_000, "text": "some more of it"})


def measure_costs(messages: int = MESSAGES, repetitions: int = REPETITIONS) -> DeliveryCosts:
    """Measure; the least of some repetitions counts, so that a busy machine disturbs it little."""
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        zmq.Context() as here,
        zmq.Context() as there,
        _pair(here.socket(zmq.ROUTER), there.socket(zmq.DEALER), f"ipc://{folder}/u", messages) as pushes,
        _pair(here.socket(zmq.XPUB), there.socket(zmq.SUB), f"ipc://{folder}/g", messages) as wakes,
    ):
        pushes[1].send(b"")
        identity = pushes[0].recv_multipart()[0]
        wakes[1].subscribe(wake_topic(_LIFE, 1, 1))
        wakes[0].recv()
        ring = BroadcastRing(FamilySegment.private(FAMILY, {"ring_bytes": RING_BYTES}))
        framed = _framed()
        for _ in range(repetitions):
            unicast_ns = _spent_ns(time.process_time_ns, lambda: _push(pushes[0], identity, messages))
            for _ in range(messages):
                pushes[1].recv_multipart()
            group_ns = _spent_ns(time.process_time_ns, lambda: _send_records(wakes[0], ring, messages))
            wasted_ns = _spent_ns(time.thread_time_ns, lambda: _read_in_vain(wakes[1], framed, messages))
            found.append((unicast_ns / messages, group_ns / messages, wasted_ns / messages))
    return DeliveryCosts(*map(min, zip(*found, strict=True)))


@contextmanager
def _pair(sender: Any, receiver: Any, endpoint: str, messages: int) -> Iterator[tuple[Any, Any]]:
    """Connect two sockets that hold so many messages."""
    with sender, receiver:
        for socket in (sender, receiver):
            socket.linger = 0
            socket.set_hwm(2 * messages)
        sender.bind(endpoint)
        receiver.connect(endpoint)
        yield sender, receiver


def _spent_ns(clock: Callable[[], int], work: Callable[[], None]) -> int:
    begin = clock()
    work()
    return max(clock() - begin, 1)


def _push(socket: Any, identity: bytes, messages: int) -> None:
    """Tell one receiver as many events, each in a message of its own."""
    for sequence in range(messages):
        told = {"event_index": 0, "sequence": sequence, "handles": [sequence], "ids": ["one"]}
        body = [{**told, "event": orjson.Fragment(EVENT)}]
        fields = {"owner": "owner", "publisher": "p", "batch_id": "b", "dropped": 0, "events": body}
        socket.send_multipart([identity, *notify_frames(fields)])
    time.sleep(REST_S)


def _send_records(socket: Any, ring: BroadcastRing, messages: int) -> None:
    """Write as many records, and wake the reader for each."""
    topic = wake_topic(_LIFE, 1, 1)
    for _ in range(messages):
        end = ring.write(_record(), 1, 1)
        socket.send_multipart([topic, end.to_bytes(8, "little")])
    time.sleep(REST_S)


def _read_in_vain(socket: Any, framed: bytes, messages: int) -> None:
    """Wake up for as many records that tell this reader nothing."""
    mine = np.array([2 * OWNERS], np.int32)
    for _ in range(messages):
        socket.recv_multipart()
        record = framed[FRAME.size :]
        is_one = is_whole(FRAME.unpack(framed[: FRAME.size]), record)
        if not is_one or Record(record).entries(mine).numbers:
            raise AssertionError("another record than was written")


def _record() -> list[bytes]:
    """Return a record that tells some owners one match each."""
    count = np.arange(OWNERS + 1, dtype=np.int64)
    sequence = np.zeros(OWNERS, np.uint64)
    columns = Columns(count[:-1].astype(np.int32), sequence, count, sequence, count, b"x" * OWNERS)
    head = {"publisher": "p", "batch_id": "b", "event_index": 0, "event": orjson.Fragment(EVENT)}
    return encode_record(head, columns)


def _framed() -> bytes:
    pieces = _record()
    return b"".join([frame(0, pieces, 1, 1), *pieces])


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.coordinator.delivery.measure")
    parser.add_argument("--parent", type=int, default=None)
    options = parser.parse_args(argv)
    if options.parent is not None:
        tie_to_parent(options.parent)
        os.nice(NICENESS)
    sys.stdout.write(json.dumps(measure_costs()._asdict()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
