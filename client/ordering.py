"""Puts an owner's notifications in order, and counts those that are lost.

The cluster numbers them (`sequence`); they may come by several ways, so that one overtakes another. A gap is
waited out for a while, then what lies in it is lost, and counted with the next notification. What has been
given already, or given up, is discarded. Pure: no sockets, no clock.
"""

from __future__ import annotations

import heapq
from typing import Any

from pubsub_cluster.client.notifications import Notification

HELD_MAX = 10_000
"""Notifications that wait for earlier ones; with more, the gap is given up."""


class Ordering:
    """The order of the notifications of one owner.

    Attributes
    ----------
    wait_s : float
        How long a gap may stay open: 0 while all come by one way, which never changes their order.
    repeated_count : int
        Discarded notifications.
    """

    def __init__(self, wait_s: float = 0.0) -> None:
        self.wait_s = wait_s
        self.repeated_count = 0
        self._source: Any = None
        self._next: int | None = None
        self._lost = 0
        self._held: dict[int, tuple[Notification, float]] = {}  # with the time of arrival
        self._order: list[int] = []  # a heap of the same sequences

    def begin(self, source: Any, sequence: int) -> list[Notification]:
        """The cluster has begun to tell, from a sequence on; return what was held before that.

        Parameters
        ----------
        source : object
            Who counts: the same as before only if what lies between was missed.
        sequence : int
            Of the next notification.
        """
        same = source == self._source
        ready = self._give_up_to(sequence if same else None)
        if not same:
            self._source, self._next = source, sequence
        elif self._next is not None and sequence > self._next:
            self._lost += sequence - self._next
            self._next = sequence
        return ready

    def passes(self, sequence: int) -> bool:
        """Return whether it is a notification's turn and nothing is missing; count it as given if so.

        Nearly always it is; `take` is for all others.
        """
        if sequence != self._next or self._held or self._lost:
            return False
        self._next = sequence + 1
        return True

    def take(self, notification: Notification, now_s: float) -> list[Notification]:
        """Take one that has arrived; return those whose turn it is."""
        sequence = notification.sequence
        if self._next is None:
            self._next = sequence
        if sequence < self._next or sequence in self._held:
            self.repeated_count += 1
            return []
        if sequence == self._next and not self._held:
            self._next += 1
            return [self._with_loss(notification)]
        self._held[sequence] = notification, now_s
        heapq.heappush(self._order, sequence)
        return self.tick(now_s)

    def tick(self, now_s: float) -> list[Notification]:
        """Let time pass; return those whose turn it is, or whose predecessors are given up."""
        ready: list[Notification] = []
        while self._order:
            first = self._order[0]
            is_over = now_s >= self._held[first][1] + self.wait_s or len(self._order) > HELD_MAX
            if first != self._next and not is_over:
                break
            ready.append(self._release())
        return ready

    @property
    def has_gap(self) -> bool:
        """True while something waits for an earlier notification."""
        return bool(self._order)

    @property
    def wake_at_s(self) -> float | None:
        """When to call `tick`, if nothing comes before; None: nothing is held."""
        return self._held[self._order[0]][1] + self.wait_s if self._order else None

    def _give_up_to(self, sequence: int | None) -> list[Notification]:
        ready: list[Notification] = []
        while self._order and (sequence is None or self._order[0] < sequence):
            ready.append(self._release())
        return ready

    def _release(self) -> Notification:
        """Return the first that is held; what lies before it is lost."""
        sequence = heapq.heappop(self._order)
        assert self._next is not None
        self._lost += sequence - self._next
        self._next = sequence + 1
        return self._with_loss(self._held.pop(sequence)[0])

    def _with_loss(self, notification: Notification) -> Notification:
        lost, self._lost = self._lost, 0
        return notification._replace(dropped=notification.dropped + lost) if lost else notification
