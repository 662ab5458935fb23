"""What slow receivers leave unread is bounded, per peer and in all, and costs nobody else anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import zmq
from clusters import wait_until

from pubsub_cluster.coordinator.frontend import Frontend
from pubsub_cluster.coordinator.unread import FOLLOWED_SIZE_BYTES, Unread
from pubsub_cluster.language.limits import DEFAULT_LIMITS


class Followed:
    """A tracker that is done when the test says so."""

    def __init__(self) -> None:
        self.done = False


def send(unread: Unread, identity: bytes, size_bytes: int) -> Followed | None:
    """Send if there is room; return the tracker, or None where there is none."""
    if not unread.has_room(identity, size_bytes):
        return None
    tracker = Followed()
    unread.sent(identity, size_bytes, tracker if unread.is_due(identity, size_bytes) else None)
    return tracker


def test_a_peer_has_its_bound_and_gets_room_again() -> None:
    unread = Unread(10 * FOLLOWED_SIZE_BYTES, 100 * FOLLOWED_SIZE_BYTES)
    sent = []
    while (tracker := send(unread, b"slow", FOLLOWED_SIZE_BYTES)) is not None:
        sent.append(tracker)
    assert len(sent) == 10
    sent[0].done = True
    assert send(unread, b"slow", FOLLOWED_SIZE_BYTES) is not None
    assert send(unread, b"slow", FOLLOWED_SIZE_BYTES) is None
    unread.gone(b"slow")
    assert unread.size_bytes == 0


def test_small_messages_are_counted_too() -> None:
    unread = Unread(4 * FOLLOWED_SIZE_BYTES, 100 * FOLLOWED_SIZE_BYTES)
    count = 0
    while send(unread, b"slow", 1_000) is not None:
        count += 1
        assert count < 1_000
    assert count * 1_000 <= 5 * FOLLOWED_SIZE_BYTES


def test_small_messages_are_counted_too_while_others_hold_much() -> None:
    """Then it is asked before every message what has left: what a peer holds is not forgotten over that."""
    unread = Unread(4 * FOLLOWED_SIZE_BYTES, 8 * FOLLOWED_SIZE_BYTES)
    for name in (b"a", b"b"):
        assert send(unread, name, 4 * FOLLOWED_SIZE_BYTES) is not None
    count = 0
    while send(unread, b"slow", 1_000) is not None:
        count += 1
        assert count < 1_000
    assert count * 1_000 <= 5 * FOLLOWED_SIZE_BYTES


def test_what_is_larger_than_the_bound_goes_to_a_peer_that_has_read_everything() -> None:
    unread = Unread(FOLLOWED_SIZE_BYTES, FOLLOWED_SIZE_BYTES)
    tracker = send(unread, b"a", 50 * FOLLOWED_SIZE_BYTES)
    assert tracker is not None
    assert send(unread, b"a", 50 * FOLLOWED_SIZE_BYTES) is None
    tracker.done = True
    assert send(unread, b"a", 50 * FOLLOWED_SIZE_BYTES) is not None


def test_all_together_have_a_bound_and_readers_do_not_suffer_from_it() -> None:
    unread = Unread(100 * FOLLOWED_SIZE_BYTES, 512 * FOLLOWED_SIZE_BYTES)
    for number in range(60):
        while send(unread, b"slow%d" % number, FOLLOWED_SIZE_BYTES) is not None:
            pass
    assert 256 * FOLLOWED_SIZE_BYTES <= unread.size_bytes <= (512 + 60) * FOLLOWED_SIZE_BYTES
    for _ in range(50):
        tracker = send(unread, b"reader", FOLLOWED_SIZE_BYTES)
        assert tracker is not None
        tracker.done = True


@pytest.mark.parametrize(
    ("peers", "size_bytes"), [(1, 1 << 20), (50, 1 << 20), (511, (64 << 20) // 512), (4_000, 64 << 10)]
)
def test_the_more_peers_the_more_often_one_is_followed(peers: int, size_bytes: int) -> None:
    """So that, however many there are, no more than an eighth of the bound over all goes unseen."""
    unread = Unread(128 << 20, 512 << 20)
    for number in range(peers):
        unread.sent(b"peer%d" % number, 1, None)
    assert not unread.is_due(b"peer0", size_bytes - 2)
    assert unread.is_due(b"peer0", size_bytes)


@pytest.mark.parametrize("size_bytes", [2_000, 300_000])
def test_sockets_that_nobody_reads_stop_at_the_bound(tmp_path: Path, size_bytes: int) -> None:
    frontend = Frontend([f"ipc://{tmp_path}/s"], DEFAULT_LIMITS)
    frontend.unread = Unread(2 << 20, 4 << 20)
    context = zmq.Context()
    peers = {}
    try:
        for name in (b"a", b"b", b"c", b"d", b"reader"):
            peers[name] = context.socket(zmq.DEALER)
            peers[name].setsockopt(zmq.IDENTITY, name)
            peers[name].setsockopt(zmq.RCVHWM, 2)
            peers[name].connect(f"ipc://{tmp_path}/s")
            peers[name].send(b"hello")
        for _ in peers:
            assert frontend.socket.poll(5_000)
            frontend.socket.recv_multipart()
        body = bytes(size_bytes)
        slow = [b"a", b"b", b"c", b"d"]
        sent = dict.fromkeys(slow, 0)
        for _ in range(2 * (16 << 20) // size_bytes // 4):
            for name in slow:
                sent[name] += frontend.offer(name, [body]) * size_bytes
        # The kernel's and the peers' own buffers take a little as well; there is no thread to wait for.
        assert frontend.unread.size_bytes <= 4 << 20
        assert sum(sent.values()) < 8 << 20
        for _ in range(200):
            wait_until(lambda: frontend.offer(b"reader", [body]), "room for who reads")
            assert peers[b"reader"].poll(5_000)
            peers[b"reader"].recv()
    finally:
        for peer in peers.values():
            peer.close(linger=0)
        context.term()
        frontend.close()
