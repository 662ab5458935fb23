"""What was sent to owners and groups since the coordinator started.

An owner that is listened to has a number (`Listeners`), and its counters stand at that place of a few
columns, so that one message to a group of a thousand owners is counted by a few array operations. When a
number goes to another owner, the counters of the one before are kept by its name, for those that were
listened to last.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

OWNERS_KEPT_MAX = 10_000
"""Owners whose counters are kept though nobody listens for them."""
COLUMNS = ("notifications", "dropped", "bytes_sent", "receipts", "wasted_receipts")


class Sent(NamedTuple):
    """Counters of an owner.

    Attributes
    ----------
    notifications, dropped : int
        Sent to it, and lost because there was no room; each listener counts.
    bytes_sent : int
        Of messages to it alone.
    receipts, wasted_receipts : int
        Messages to its groups that it got, and those of them that had nothing for it.
    """

    notifications: int
    dropped: int
    bytes_sent: int
    receipts: int
    wasted_receipts: int


class GroupSent:
    """Counters of one group of the generation in force."""

    __slots__ = ("bytes_sent", "notifications", "receipts", "records", "wasted_receipts")

    def __init__(self) -> None:
        self.records = self.notifications = self.bytes_sent = self.receipts = self.wasted_receipts = 0

    def told(self) -> dict[str, int]:
        """Return the counters by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class SentCounters:
    """Counters of what is sent."""

    def __init__(self) -> None:
        self._columns = np.zeros((len(COLUMNS), 64), np.int64)
        self._owner_of: list[str | None] = []
        self._number_of: dict[str, int] = {}
        self._kept: OrderedDict[str, npt.NDArray[np.int64]] = OrderedDict()
        self._groups: dict[int, GroupSent] = {}
        self._generation = 0

    def begin(self, number: int, owner: str) -> None:
        """An owner has a number from now on, which may have been another one's."""
        while number >= len(self._owner_of):
            self._owner_of.append(None)
        if number >= self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
        before = self._owner_of[number]
        if before == owner:
            return
        if before is not None:
            del self._number_of[before]
            self._kept[before] = self._columns[:, number].copy()
            if len(self._kept) > OWNERS_KEPT_MAX:
                self._kept.popitem(last=False)
        elsewhere = self._number_of.pop(owner, None)
        if elsewhere is not None:
            self._owner_of[elsewhere] = None
            self._kept[owner] = self._columns[:, elsewhere].copy()
        self._owner_of[number] = owner
        self._number_of[owner] = number
        self._columns[:, number] = self._kept.pop(owner, 0)

    def unicast(self, number: int, notifications: int, size_bytes: int) -> None:
        """A message went to an owner's listener."""
        column = self._columns[:, number]
        column[0] += notifications
        column[2] += size_bytes

    def dropped(self, number: int, notifications: int) -> None:
        """A listener had no room."""
        self._columns[1, number] += notifications

    def group(
        self, group: int, members: npt.NDArray[np.int32], told: npt.NDArray[np.int32], size_bytes: int
    ) -> None:
        """A record went to a group.

        Parameters
        ----------
        group : int
        members : int32[n]
            Numbers of the owners that get it, each once.
        told : int32[k]
            Those of them for which it has something, each once.
        size_bytes : int
        """
        self._columns[0, told] += 1
        self._columns[3, members] += 1
        if len(told) < len(members):
            self._columns[4, members] += 1
            self._columns[4, told] -= 1
        sent = self._groups.setdefault(group, GroupSent())
        sent.records += 1
        sent.notifications += len(told)
        sent.bytes_sent += size_bytes
        sent.receipts += len(members)
        sent.wasted_receipts += len(members) - len(told)

    def of_generation(self, generation: int) -> None:
        """Count the groups of a generation: others than before from the start, while owners go on."""
        if generation != self._generation:
            self._generation = generation
            self._groups.clear()

    def of(self, owner: str) -> Sent:
        """Return an owner's counters; all are 0 where nobody has listened for it."""
        number = self._number_of.get(owner)
        if number is not None:
            return Sent(*self._columns[:, number].tolist())
        kept = self._kept.get(owner)
        return Sent(0, 0, 0, 0, 0) if kept is None else Sent(*kept.tolist())

    def most(self, count: int) -> list[str]:
        """Return the owners to whom most notifications were sent, at most `count`, the first one first."""
        sent = {owner: int(self._columns[0, number]) for owner, number in self._number_of.items()}
        sent |= {owner: int(column[0]) for owner, column in self._kept.items()}
        return sorted(sent, key=lambda owner: (-sent[owner], owner))[:count]

    def groups(self) -> dict[int, dict[str, Any]]:
        """Return the counters of each group that was sent anything, by number."""
        return {group: sent.told() for group, sent in sorted(self._groups.items())}
