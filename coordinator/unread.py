"""What the peers of a socket have not read yet, in bytes: of each, and of all together.

ZeroMQ bounds the messages that wait for a peer, not their bytes. Asking it about every message would cost
more than sending it, so one is followed per so many bytes sent to a peer: messages leave in turn, and when
the followed one is out, so is everything before it. The fewer peers there are, the rarer it may be.

Of the bound over all peers, half is kept for those that hold little: a peer that reads is not refused because
some others do not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

FOLLOWED_SIZE_BYTES = 64 << 10
"""At least; at most a share of what a peer may leave unread, and an eighth of the bound over all together."""
LATER_SHARE = 8
PEER_SIZE_BYTES_MAX = 128 << 20
ALL_SIZE_BYTES_MAX = 512 << 20
SHARES = 128  # of a bound; one such share is little
PEERS_MAX = 4_096


class Tracker(Protocol):
    """Says whether a message has left: `zmq.MessageTracker`."""

    @property
    def done(self) -> bool:
        """True when it has."""


@dataclass(slots=True)
class _Peer:
    """Followed messages, oldest first, each with the bytes since the one before it."""

    followed: deque[tuple[Tracker, int]] = field(default_factory=deque)
    followed_bytes: int = 0


class Unread:
    """Bytes on their way to peers.

    Parameters
    ----------
    peer_size_bytes_max, all_size_bytes_max : int
        What one peer, and all together, may leave unread, up to what is not followed yet. A single message is
        always let through to a peer that has read everything.
    """

    def __init__(
        self, peer_size_bytes_max: int = PEER_SIZE_BYTES_MAX, all_size_bytes_max: int = ALL_SIZE_BYTES_MAX
    ) -> None:
        self._peer_max = peer_size_bytes_max
        self._all_max = all_size_bytes_max
        self._peers: dict[bytes, _Peer] = {}  # those with followed messages
        # Bytes behind the last followed message, by peer: whether they have left is not known.
        self._later: dict[bytes, int] = {}
        self.size_bytes = 0

    def has_room(self, identity: bytes, size_bytes: int) -> bool:
        """Say whether a message of this size may be sent to a peer."""
        peer = self._peers.get(identity)
        held = 0 if peer is None else peer.followed_bytes
        if held + size_bytes <= self._peer_max and self.size_bytes + size_bytes <= self._all_max // 2:
            return True
        self.settle()
        peer = self._peers.get(identity)
        held = 0 if peer is None else peer.followed_bytes
        if not held:
            return True
        little = held + size_bytes <= self._all_max // SHARES
        bound = self._all_max if little else self._all_max // 2
        return self.size_bytes + size_bytes <= bound and held + size_bytes <= self._peer_max

    def is_due(self, identity: bytes, size_bytes: int) -> bool:
        """Say whether the next message to a peer, of this size, is to be followed."""
        little = min(self._peer_max // SHARES, self._all_max // (LATER_SHARE * (len(self._later) + 1)))
        return size_bytes + self._later.get(identity, 0) >= max(FOLLOWED_SIZE_BYTES, little)

    def sent(self, identity: bytes, size_bytes: int, tracker: Tracker | None) -> None:
        """A message was handed to the socket; with its tracker where it `is_due`."""
        later_bytes = self._later.get(identity, 0) + size_bytes
        if tracker is None:
            if len(self._later) >= PEERS_MAX and identity not in self._later:
                self._later.clear()  # most of them are long gone, and that is not told
            self._later[identity] = later_bytes
            return
        self._later.pop(identity, None)
        peer = self._peers.get(identity)
        if peer is None:
            peer = self._peers[identity] = _Peer()
        peer.followed.append((tracker, later_bytes))
        peer.followed_bytes += later_bytes
        self.size_bytes += later_bytes

    def gone(self, identity: bytes) -> None:
        """A peer has left, and what waited for it is dropped."""
        self._later.pop(identity, None)
        peer = self._peers.pop(identity, None)
        if peer is not None:
            self.size_bytes -= peer.followed_bytes

    def settle(self) -> None:
        """Find out what has left meanwhile; forget the peers for which nothing waits."""
        for identity, peer in list(self._peers.items()):
            while peer.followed and peer.followed[0][0].done:
                _, size_bytes = peer.followed.popleft()
                peer.followed_bytes -= size_bytes
                self.size_bytes -= size_bytes
            if not peer.followed:
                del self._peers[identity]
