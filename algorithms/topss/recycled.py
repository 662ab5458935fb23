"""Numbers that are given again: subscription ids, and whose they are (TOPSS section 3).

"IDs belonging to predicates that are deleted are re-cycled. They are re-assigned before new IDs are
created." Numbers of predicates are kept by the kernels that store them (`predicate_book`); those of
subscriptions here.
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.interface import I8

ROOM_LEAST = 64


class SubscriptionIds:
    """Dense numbers of conjunctions, and their owners.

    Attributes
    ----------
    bound : int
        No number has been given that is not below.
    owner : int64[room]
        By number; what a free number has means nothing.
    """

    def __init__(self) -> None:
        self.bound = 0
        self.owner: I8 = np.zeros(0, np.int64)
        self._free: list[int] = []
        self._of: dict[int, list[int]] | None = {}

    @property
    def count(self) -> int:
        """How many numbers are in use."""
        return self.bound - len(self._free)

    def bound_with(self, count: int) -> int:
        """Return what `bound` would be with so many more."""
        return max(self.bound, self.count + count)

    def build(self, owner: I8) -> None:
        """Give each conjunction its place as its number, in place of all that were there."""
        self.bound, self.owner, self._free = len(owner), owner.copy(), []
        self._of = None  # made when it is needed first: catalogues of millions often never change

    def add(self, owner: int, count: int) -> I8:
        """Return numbers for the conjunctions of a new owner: free ones first."""
        again = [self._free.pop() for _ in range(min(count, len(self._free)))]
        numbers = [*again, *range(self.bound, self.bound + count - len(again))]
        self.bound += count - len(again)
        if self.bound > len(self.owner):
            room = max(ROOM_LEAST, len(self.owner), self.bound - len(self.owner))
            self.owner = np.append(self.owner, np.zeros(room, np.int64))
        self.owner[numbers] = owner
        if self._of is not None:
            self._of[owner] = numbers
        return np.array(numbers, np.int64)

    def remove(self, owner: int) -> list[int]:
        """Free the numbers of an owner and return them; there may be none."""
        if self._of is None:
            self._of = {}
            for number, one in enumerate(self.owner[: self.bound].tolist()):
                self._of.setdefault(one, []).append(number)
        numbers = self._of.pop(owner, [])
        self._free += numbers
        return numbers
