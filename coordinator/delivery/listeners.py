"""Owners who are listened to, and the connections that listen for them.

Such an owner has a number, for as long as anybody listens, and its notifications are counted by it: the
*sequence* tells a receiver of any loss, by whatever way its notifications come. A number is given again to
another owner, but late: records (`language.records`) name owners by it, and a connection that is lost may
hear them for a while yet. It goes on counting: no two notifications of one life have the same number and
sequence.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.shm.catalogue import CatalogueReader

LISTENERS_MAX = 10_000
NUMBERS_LEAST = 1 << 16
"""So many numbers are given before one is given again, and then that which has been free for longest."""
NOBODY = -1
"""The number of an owner that nobody listens for."""
_UNKNOWN = -2
_NUMBERS_AT_FIRST = 64


@dataclass(slots=True)
class Listener:
    """One connection that listens for one owner.

    Attributes
    ----------
    dropped : int
        Notifications that found no room since the last one that did.
    """

    identity: bytes
    owner: str
    dropped: int = 0


@dataclass(slots=True)
class Heard:
    """An owner that is listened to.

    Attributes
    ----------
    number : int
        Which it is among those that are listened to.
    listeners : dict of bytes to Listener
        By identity of the connection.
    """

    owner: str
    number: int
    listeners: dict[bytes, Listener] = field(default_factory=dict)


class Listeners:
    """All listeners.

    Attributes
    ----------
    count : int
        Pairs of a connection and an owner.
    sequences : uint64[numbers]
        Of each number's next notification.
    listener_counts : int32[numbers]
        Connections that listen.
    is_kept : bool[numbers]
        Whether the owner has durable receivers: then it is told whether or not anybody listens.
    """

    def __init__(self) -> None:
        self._by_owner: dict[str, Heard] = {}
        self._by_number: list[Heard | None] = []
        self._free_numbers: deque[int] = deque()
        self.count = 0
        self.sequences = np.zeros(_NUMBERS_AT_FIRST, np.uint64)
        self.listener_counts = np.zeros(_NUMBERS_AT_FIRST, np.int32)
        self.is_kept = np.zeros(_NUMBERS_AT_FIRST, np.bool_)
        # Of each owner of the catalogue, as far as it was asked for; owners have other numbers in each epoch.
        self._number_of_owner = np.full(0, _UNKNOWN, np.int32)
        self._numbered_in: Callable[[], CatalogueReader | None] = lambda: None

    def __iter__(self) -> Iterator[Listener]:
        """Yield all listeners, as they are now."""
        yield from [one for heard in self._by_owner.values() for one in heard.listeners.values()]

    @property
    def is_full(self) -> bool:
        """True when nobody can be added."""
        return self.count >= LISTENERS_MAX

    def heard(self, number: int) -> Heard:
        """Return the owner that has a number now."""
        found = self._by_number[number]
        assert found is not None
        return found

    def add(self, identity: bytes, owner: str) -> Heard:
        """Let a connection listen for `owner`; again is no error.

        Raises
        ------
        LimitError
            There are too many listeners.
        """
        heard = self._by_owner.get(owner)
        if heard is not None and identity in heard.listeners:
            return heard
        if self.is_full:
            raise LimitError(
                "too many listeners",
                seen=self.count,
                limit=LISTENERS_MAX,
                remedy="Listen for several owners from one process, or close idle listeners.",
                limit_name="LISTENERS_MAX",
            )
        heard = heard or self._enter(owner)
        heard.listeners[identity] = Listener(identity, owner)
        self.listener_counts[heard.number] += 1
        self.count += 1
        return heard

    def remove(self, identity: bytes, owner: str) -> int:
        """Stop telling a connection; return the owner's number, `NOBODY` when it did not listen."""
        heard = self._by_owner.get(owner)
        if heard is None or heard.listeners.pop(identity, None) is None:
            return NOBODY
        self.listener_counts[heard.number] -= 1
        self.count -= 1
        self._leave(heard)
        return heard.number

    def keep(self, owner: str, on: bool) -> int:
        """Tell an owner that has durable receivers, or no longer for their sake; return its number."""
        heard = self._by_owner.get(owner) or self._enter(owner)
        self.is_kept[heard.number] = on
        self._leave(heard)
        return heard.number

    def number_of(self, owner: str) -> int:
        """Return the number of an owner that is told."""
        return self._by_owner[owner].number

    def _enter(self, owner: str) -> Heard:
        heard = self._by_owner[owner] = Heard(owner, self._free_number())
        self._by_number[heard.number] = heard
        self._number_of_owner.fill(_UNKNOWN)
        return heard

    def _leave(self, heard: Heard) -> None:
        if not heard.listeners and not self.is_kept[heard.number]:
            del self._by_owner[heard.owner]
            self._by_number[heard.number] = None
            self._free_numbers.append(heard.number)
            self._number_of_owner.fill(_UNKNOWN)

    def numbers(
        self, owner_idx: npt.NDArray[np.int32], catalogue: CatalogueReader, owner_count: int
    ) -> npt.NDArray[np.int32]:
        """Return the numbers of owners of a catalogue, `NOBODY` where nobody listens.

        Parameters
        ----------
        owner_idx : int32[n]
            Below `owner_count`.
        catalogue : CatalogueReader
        owner_count : int
        """
        known = self._number_of_owner
        if catalogue is not self._numbered_in() or len(known) < owner_count:
            # Twice what is needed: where owners come one by one, the others are not looked up each time.
            known = self._number_of_owner = np.full(2 * owner_count, _UNKNOWN, np.int32)
            self._numbered_in = weakref.ref(catalogue)
        numbers = known[owner_idx]
        if (numbers == _UNKNOWN).any():
            for idx in np.unique(owner_idx[numbers == _UNKNOWN]).tolist():
                heard = self._by_owner.get(catalogue.owner_name(idx))
                known[idx] = NOBODY if heard is None else heard.number
            numbers = known[owner_idx]
        return numbers

    def uncount(self, number: npt.NDArray[np.int32]) -> None:
        """Take back the last notification of each number; a number may stand there several times."""
        np.subtract.at(self.sequences, number, np.uint64(1))

    def _free_number(self) -> int:
        number = len(self._by_number)
        if self._free_numbers and number >= NUMBERS_LEAST:
            return self._free_numbers.popleft()
        self._by_number.append(None)
        if number == len(self.sequences):
            self.sequences = np.concatenate([self.sequences, np.zeros_like(self.sequences)])
            self.listener_counts = np.concatenate([self.listener_counts, np.zeros_like(self.listener_counts)])
            self.is_kept = np.concatenate([self.is_kept, np.zeros_like(self.is_kept)])
        return number
