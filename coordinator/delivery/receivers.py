"""Durable receivers: who they are, what is queued for them, and which connection each is told by."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(slots=True, eq=False)
class Record:
    """What one publication tells receivers.

    Attributes
    ----------
    number : int
        Ascending.
    size_bytes : int
        Of its body on the disk.
    shares : list of Share
    open_count : int
        Shares of which something is still kept.
    is_lost : bool
        It cannot be read any more.
    """

    number: int
    size_bytes: int
    shares: list[Share] = field(default_factory=list)
    open_count: int = 0
    is_committed: bool = False
    is_lost: bool = False


@dataclass(slots=True, eq=False)
class Share:
    """What a record tells one receiver: the sequences ``first`` to ``last``."""

    record: Record
    receiver: Receiver
    first: int
    last: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class Receiver:
    """A durable receiver.

    Attributes
    ----------
    number : int
        Never given to another receiver.
    acked : int
        The last sequence that was acknowledged.
    head, kept, next : int
        The first sequence that is kept, the last one that is durable, and the next one to be given.
    dropped : int
        Notifications that were given up, ever.
    queue : deque of Share
    size_bytes : int
        Of what is durable in the queue.
    is_open : bool
        It is durable itself, and is told of publications.
    identity : bytes or None
        The connection that is told, and of that: `window` is how many notifications it may have
        unacknowledged, `pushed` the next sequence to be sent, `cursor` the place in the queue to look at for
        it, `is_blocked` that it had no room lately.
    """

    number: int
    owner: str
    name: str
    acked: int = 0
    head: int = 1
    kept: int = 0
    next: int = 1
    dropped: int = 0
    queue: deque[Share] = field(default_factory=deque)
    size_bytes: int = 0
    is_open: bool = False
    identity: bytes | None = None
    window: int = 0
    pushed: int = 1
    cursor: int = 0
    is_blocked: bool = False

    @property
    def waiting_count(self) -> int:
        """Durable notifications that are not acknowledged."""
        return self.kept - self.head + 1


class StoredReceiver(NamedTuple):
    """A receiver as it is stored."""

    number: int
    owner: str
    name: str
    acked: int
    head: int
    dropped: int


class Receivers:
    """All durable receivers, by number, by name, by owner and by connection."""

    def __init__(self) -> None:
        self._by_number: dict[int, Receiver] = {}
        self._by_name: dict[tuple[str, str], Receiver] = {}
        self._by_owner: dict[str, list[Receiver]] = {}
        self._by_identity: dict[bytes, list[Receiver]] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[Receiver]:
        """Yield all, in the order in which they were made."""
        return iter(self._by_number.values())

    def __contains__(self, receiver: Receiver) -> bool:
        """Tell whether a receiver is not forgotten."""
        return receiver.number in self._by_number

    def get(self, number: int) -> Receiver | None:
        """Return the receiver of a number."""
        return self._by_number.get(number)

    def find(self, owner: str, name: str) -> Receiver | None:
        """Return a receiver, open or not yet."""
        return self._by_name.get((owner, name))

    def of(self, owner: str) -> Sequence[Receiver]:
        """Return an owner's receivers."""
        return self._by_owner.get(owner, ())

    def connected(self) -> list[Receiver]:
        """Return the receivers that have a connection."""
        return [receiver for told in self._by_identity.values() for receiver in told]

    def enter(self, receiver: Receiver) -> None:
        """Add a receiver of a new number and a new name."""
        self._by_number[receiver.number] = receiver
        self._by_name[receiver.owner, receiver.name] = receiver
        self._by_owner.setdefault(receiver.owner, []).append(receiver)

    def remove(self, receiver: Receiver) -> None:
        """Take a receiver out."""
        self.disconnect(receiver, receiver.identity)
        del self._by_number[receiver.number], self._by_name[receiver.owner, receiver.name]
        others = self._by_owner[receiver.owner]
        others.remove(receiver)
        if not others:
            del self._by_owner[receiver.owner]

    def connect(self, receiver: Receiver, identity: bytes, window: int) -> bytes | None:
        """Let a connection have a receiver's notifications, all unacknowledged ones again.

        Returns the connection that had them until now, if that is another one.
        """
        before = receiver.identity
        self.disconnect(receiver, before)
        receiver.identity, receiver.window = identity, window
        receiver.pushed, receiver.cursor, receiver.is_blocked = receiver.head, 0, False
        self._by_identity.setdefault(identity, []).append(receiver)
        return None if before == identity else before

    def disconnect(self, receiver: Receiver, identity: bytes | None) -> None:
        """Stop telling a connection; one that is not told is no error."""
        if identity is None or receiver.identity != identity:
            return
        receiver.identity = None
        told = self._by_identity[identity]
        told.remove(receiver)
        if not told:
            del self._by_identity[identity]

    def gone(self, identity: bytes) -> None:
        """A connection has gone."""
        for receiver in list(self._by_identity.get(identity, ())):
            self.disconnect(receiver, identity)
