"""The publishing socket: who does not read holds back no more than is said, and nobody waits for it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from clusters import wait_until

from pubsub_cluster.coordinator.delivery.broadcast import (
    MESSAGE_SIZE_BYTES_MAX,
    QUEUED_MESSAGES_MAX,
    Broadcast,
)
from pubsub_cluster.coordinator.sockets import bind
from pubsub_cluster.language.errors import LimitError, StartError
from pubsub_cluster.language.records import LIFE_SIZE_BYTES, token_topic, whole_topic
from pubsub_cluster.shm.broadcast_ring import BroadcastRing
from pubsub_cluster.shm.segment import current_owner

LIFE = b"l" * LIFE_SIZE_BYTES


@pytest.fixture
def made(tmp_data_dir: Path) -> Iterator[tuple[Broadcast, zmq.Socket[bytes]]]:
    """A broadcast, and somebody who has subscribed to the records of everybody."""
    endpoint = f"ipc://{tmp_data_dir}/r"
    ring = BroadcastRing.create(current_owner(uuid.uuid4().hex[:8]), 8 * MESSAGE_SIZE_BYTES_MAX)
    broadcast, context = Broadcast([endpoint], ring, LIFE), zmq.Context()
    subscriber: zmq.Socket[bytes] = context.socket(zmq.SUB)
    subscriber.setsockopt(zmq.LINGER, 0)
    subscriber.setsockopt(zmq.RCVHWM, 1)
    subscriber.connect(endpoint)
    for topic in (whole_topic(LIFE, 0, 0), token_topic(b"t")):
        subscriber.setsockopt(zmq.SUBSCRIBE, topic)
    wait_until(lambda: (b"t", True) in list(broadcast.subscriptions()), "the token is seen")
    yield broadcast, subscriber
    subscriber.close()
    context.term()
    broadcast.close()


def test_who_does_not_read_holds_back_no_more_than_is_said(made: tuple[Broadcast, zmq.Socket[bytes]]) -> None:
    broadcast, subscriber = made
    count, size_bytes = 4 * QUEUED_MESSAGES_MAX, MESSAGE_SIZE_BYTES_MAX // 8
    for _ in range(count):
        broadcast.send([bytes(size_bytes)], 0, 0)
    received = 0
    while subscriber.poll(200):
        assert len(subscriber.recv_multipart()[1]) == size_bytes
        received += 1
    assert 0 < received < count / 2


def test_a_record_too_large_for_a_message_is_not_sent_at_all(
    made: tuple[Broadcast, zmq.Socket[bytes]],
) -> None:
    broadcast, _ = made
    for group, is_sent in ((0, False), (1, True)):  # nobody gets those of group 1 by message
        before = broadcast.ring.position
        try:
            broadcast.send([bytes(MESSAGE_SIZE_BYTES_MAX + 1)], 0, group)
        except LimitError:
            assert not is_sent and broadcast.ring.position == before
        else:
            assert is_sent and broadcast.ring.position > before


def test_an_endpoint_that_is_taken_is_said() -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as first, context.socket(zmq.PUB) as second:
        endpoint = f"tcp://127.0.0.1:{first.bind_to_random_port('tcp://127.0.0.1')}"
        with pytest.raises(StartError, match="bound") as raised:
            bind(second, [endpoint])
        assert raised.value.seen == endpoint
