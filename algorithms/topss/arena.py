"""Many lists of ids in one array, which grow by being moved to its end."""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.topss.counting_kernels import repack

ROOM_LEAST = 1 << 10
SLACK = 4
"""An arena that is full is made so many times as long as the rooms of its lists."""


class Arena:
    """See the module.

    Attributes
    ----------
    slots : int64[lists, 3]
        Where each list begins, how many ids it has, and room for how many.
    ids : int32[...]
    top : int64[1]
        Where what has never been used begins.
    """

    def __init__(self, lists: int = 0) -> None:
        self.slots: I8 = np.zeros((lists, 3), np.int64)
        self.ids: I4 = np.empty(ROOM_LEAST, np.int32)
        self.top: I8 = np.zeros(1, np.int64)

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """As kernels take them."""
        return self.slots, self.ids, self.top

    @property
    def bytes(self) -> int:
        """Bytes of the slots and of the lists with their rooms."""
        return int(self.slots.nbytes) + self.ids.itemsize * int(self.slots[:, 2].sum())

    def reserve(self, lists: int) -> None:
        """Have slots for so many lists."""
        if lists > len(self.slots):
            more = max(lists - len(self.slots), len(self.slots))
            self.slots = np.append(self.slots, np.zeros((more, 3), np.int64), axis=0)

    def repack(self, wanted: int) -> None:
        """Close the gaps, and have room for lists of `wanted` ids at the end."""
        room = int(self.slots[:, 2].sum())
        packed = np.empty(max(ROOM_LEAST, SLACK * room, room + wanted), np.int32)
        self.top[0] = repack(self.arrays, packed)
        self.ids = packed

    def take(self, number: int) -> I4:
        """Empty a list; return the ids that it had."""
        first, size, _ = self.slots[number].tolist()
        self.slots[number, 1] = 0
        return self.ids[first : first + size].copy()
