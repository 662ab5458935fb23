"""Counting over lists (TOPSS section 3.3).

Idea: each predicate has a list of the subscriptions that it belongs to, a growable array. Cost: an addition
per association of a satisfied predicate; an id of 4 bytes per association. To delete, the predicates of each
subscription must be known: a second structure of the same size. A list that is full is moved to a longer
place: by a constant amount, as in the paper, which copies the square of its length, or to twice its room.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.topss.arena import Arena
from pubsub_cluster.algorithms.topss.association import Association, padded
from pubsub_cluster.algorithms.topss.counting_kernels import append_all, count_lists, remove_from
from pubsub_cluster.algorithms.topss.predicate_book import U1


class GrowableLists(Association):
    """See the module.

    Parameters
    ----------
    step : int
        By how many ids a list grows; 0: to twice its room.

    Attributes
    ----------
    moved : int64[1]
        Ids copied since lists were full.
    """

    def __init__(self, step: int = 0) -> None:
        self._step = step
        self.build(0, 0)

    @property
    def bytes(self) -> int:
        """See `Association`."""
        return self._lists.bytes

    @property
    def deletion_bytes(self) -> int:
        """See `Association`."""
        return self._predicates.bytes

    @property
    def slots_bytes(self) -> int:
        """Bytes of where the lists are, without the lists."""
        return int(self._lists.slots.nbytes)

    @property
    def lengths(self) -> I8:
        """How many ids each list has."""
        return self._lists.slots[:, 1]

    def build(self, predicates: int, subscriptions: int) -> None:
        """See `Association`; limited by memory only."""
        self.room = padded(subscriptions)
        self.moved: I8 = np.zeros(1, np.int64)
        self._lists, self._predicates = Arena(predicates), Arena(self.room)

    def reserve(self, predicates: int, subscriptions: int) -> None:
        """See `Association`."""
        self._lists.reserve(predicates)
        if subscriptions > self.room:
            self.room = padded(max(subscriptions, 2 * self.room))
            self._predicates.reserve(self.room)

    def put(self, numbers: I4, stops: I8, columns: I8) -> None:
        """See `Association`."""
        done = 0
        while True:
            lists = self._lists.arrays
            done = append_all(lists, numbers, stops, columns, done, self._step, self.moved)
            if done == len(numbers):
                break
            room = int(self._lists.slots[numbers[done], 2])
            self._lists.repack(max(2 * room, room + self._step, 4))
        self._remember(numbers, stops, columns)

    def _remember(self, numbers: I4, stops: I8, columns: I8) -> None:
        """Note which predicates subscriptions have."""
        reverse = self._predicates
        if int(reverse.top[0]) + len(numbers) > len(reverse.ids):
            reverse.repack(len(numbers))
        top = int(reverse.top[0])
        reverse.ids[top : top + len(numbers)] = numbers
        sizes = np.diff(stops)
        reverse.slots[columns] = np.stack((stops[:-1] + top, sizes, sizes), axis=1)
        reverse.top[0] += len(numbers)

    def take(self, column: int) -> I4:
        """See `Association`; touches the lists of its predicates."""
        numbers = self._predicates.take(column)
        remove_from(self._lists.arrays, numbers, column)
        return numbers

    def _count(self, bits: U1, work: Any, count: int, found: I4, begin: int, stops: I8, counters: I8) -> int:
        lists = self._lists.slots, self._lists.ids
        return int(count_lists(bits, lists, work, count, found, begin, stops, counters))
