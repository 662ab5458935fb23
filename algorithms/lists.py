"""Many lists of numbers in one array; see `list_kernels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.list_kernels import CLASSES, lay_out, push_all, remove_all
from pubsub_cluster.language.errors import CallerError

POOL_MAX = np.iinfo(np.int32).max
POOL_LEAST = 1 << 10


class Lists:
    """Lists, empty at first.

    Parameters
    ----------
    count : int
    """

    def __init__(self, count: int) -> None:
        self.heads = np.zeros((count, 2), np.int32)
        self.pool = np.zeros(POOL_LEAST, np.int32)
        self._state = np.zeros(1 + CLASSES, np.int64)
        self._state[0] = 1

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """As kernels take them."""
        return self.heads, self.pool, self._state

    def build(self, which: Any, numbers: Any) -> None:
        """Take number i into list ``which[i]``, for all i, in place of all that was there."""
        self.heads[:, 0], self.heads[:, 1] = 0, np.bincount(which, minlength=len(self.heads))
        self._state[:] = 0
        self.lay_out()
        push_all(self.arrays, which, numbers, 0)

    def push(self, which: Any, numbers: Any) -> None:
        """Append number i to list ``which[i]``, for all i; there are lists as far as any of them."""
        self.widen(int(which.max(initial=-1)) + 1)
        begin = 0
        while (begin := int(push_all(self.arrays, which, numbers, begin))) < len(which):
            self.grow()

    def remove(self, which: Any, numbers: Any) -> int:
        """Take number i, which is there once, out of list ``which[i]``; return how many were compared."""
        return int(remove_all(self.arrays, which, numbers))

    def of(self, which: int) -> Any:
        """Return the numbers of a list, int32[size]."""
        start, size = self.heads[which].tolist()
        return self.pool[start : start + size]

    def of_all(self, which: Any) -> Any:
        """Return the numbers of several lists, one list after the other."""
        start, size = self.heads[which, 0].astype(np.int64), self.heads[which, 1].astype(np.int64)
        before = np.cumsum(size) - size
        return self.pool[np.repeat(start - before, size) + np.arange(size.sum())]

    def lay_out(self) -> None:
        """Give each list, empty yet, room for as many numbers as its head says."""
        needed = int(lay_out(self.heads, self.pool, False))
        self.pool = np.empty(_checked(needed), np.int32)
        self._state[0] = lay_out(self.heads, self.pool, True)

    def grow(self) -> None:
        """Make room; a kernel has found the pool full."""
        size = len(self.pool)
        wide = np.empty(min(POOL_MAX, _checked(size + POOL_LEAST) + size), np.int32)
        wide[:size] = self.pool
        self.pool = wide

    def widen(self, count: int) -> None:
        """Have at least so many lists."""
        if count > len(self.heads):
            more = np.zeros((count - len(self.heads), 2), np.int32)
            self.heads = np.concatenate((self.heads, more))

    @property
    def bytes(self) -> int:
        """Bytes of heads and of what is used of the pool."""
        return int(self.heads.nbytes) + 4 * int(self._state[0])


def _checked(words: int) -> int:
    if words > POOL_MAX:
        raise CallerError(
            "lists are too long together",
            seen=f"{words} numbers",
            limit=POOL_MAX,
            remedy="Hold fewer subscriptions.",
        )
    return words
