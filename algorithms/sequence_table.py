"""A hash table whose keys are sequences of words: each distinct one has a number, from 0 on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.sequence_kernels import add_all, enter_all

U8 = npt.NDArray[np.uint64]
SLOTS_LEAST = 16


class SequenceTable:
    """Keys by number; none is ever taken out."""

    def __init__(self) -> None:
        self._slots: I4 = np.full(SLOTS_LEAST, -1, np.int32)
        self._starts: I8 = np.zeros(SLOTS_LEAST // 2 + 1, np.int64)
        self._words: U8 = np.zeros(SLOTS_LEAST, np.uint64)
        self._count: I8 = np.zeros(1, np.int64)

    @property
    def count(self) -> int:
        """Number of keys."""
        return int(self._count[0])

    @property
    def arrays(self) -> tuple[I4, I8, U8, I8]:
        """As kernels take them; new ones after an addition."""
        return self._slots, self._starts, self._words, self._count

    @property
    def bytes(self) -> int:
        """Bytes of slots and of what is used for keys."""
        return int(self._slots.nbytes) + 8 * (self.count + 1) + 8 * int(self._starts[self.count])

    def add(self, words: Any, stops: I8) -> I4:
        """Return the numbers of keys ``words[stops[i]:stops[i + 1]]``, new ones where they are not there."""
        words = np.ascontiguousarray(words).view(np.uint64)
        numbers = np.empty(len(stops) - 1, np.int32)
        begin = 0
        while (begin := int(add_all(self.arrays, words, stops, numbers, begin))) < len(numbers):
            self._grow(int(stops[begin + 1] - stops[begin]))
        return numbers

    def key(self, number: int) -> U8:
        """Return a key, uint64[size]."""
        return self._words[self._starts[number] : self._starts[number + 1]]

    def _grow(self, size: int) -> None:
        """Have room for a key of so many words, and for twice as many keys."""
        count, used = self.count, int(self._starts[self.count])
        if 2 * (count + 1) > len(self._slots):
            self._slots = np.full(2 * len(self._slots), -1, np.int32)
            self._starts = np.append(
                self._starts, np.zeros(len(self._slots) // 2 + 1 - len(self._starts), np.int64)
            )
            enter_all(self.arrays)
        if used + size > len(self._words):
            self._words = np.append(self._words, np.zeros(len(self._words) + size, np.uint64))
