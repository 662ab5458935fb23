"""Many lists of numbers in one array; see `list_kernels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.htree.list_kernels import CLASSES, lay_out
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
            "the buckets are too long together",
            seen=f"{words} numbers",
            limit=POOL_MAX,
            remedy="Hold fewer subscriptions, or index attributes with narrower ranges.",
        )
    return words
