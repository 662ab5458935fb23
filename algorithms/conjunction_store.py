"""Conjunctions by number: who owns each, of how many predicates it is made, and of which.

Numbers that deletions have freed are given again before new ones (TOPSS section 3).
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4, Conjunctions
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lists import Lists
from pubsub_cluster.algorithms.predicate_index import PredicateIndex

NOBODY = -1
"""Owner of a number that is free."""
ROOM_LEAST = 64


class Parts(NamedTuple):
    """What predicates some conjunctions have, pair by pair.

    Attributes
    ----------
    conjunction : int32[k]
    predicate : int32[k]
    """

    conjunction: I4
    predicate: I4


class ConjunctionStore:
    """Conjunctions of the predicates of an index.

    Attributes
    ----------
    owner : int64[room]
        `NOBODY` where a number is free, and from `bound` on.
    size : int32[room]
        Number of predicates.
    predicates : PredicateIndex
    parts : Lists
        The predicates of each conjunction.
    bound : int
        All numbers in use are below.
    """

    def __init__(self) -> None:
        self.owner: I8 = np.zeros(0, np.int64)
        self.size: I4 = np.zeros(0, np.int32)
        self.predicates = PredicateIndex()
        self.parts = Lists(0)
        self.bound = 0
        self._free: list[int] = []
        self._numbers: defaultdict[int, list[int]] | None = defaultdict(list)

    @property
    def count(self) -> int:
        """Number of conjunctions."""
        return self.bound - len(self._free)

    def build(self, catalogue: Conjunctions) -> Parts:
        """Take a catalogue in place of all that was there; conjunctions are numbered in its order."""
        self.bound, self._free = len(catalogue.owner), []
        self.owner, self.size = catalogue.owner.copy(), np.diff(catalogue.stops).astype(np.int32)
        self.predicates = PredicateIndex()
        predicate = self.predicates.build(catalogue)
        conjunction = np.repeat(np.arange(self.bound, dtype=np.int32), self.size)
        self.parts = Lists(self.bound)
        self.parts.build(conjunction, predicate)
        self._numbers = None  # found out when a deletion first asks
        return Parts(conjunction, predicate)

    def insert(self, more: Conjunctions) -> tuple[I4, Parts]:
        """Add conjunctions; return their numbers and their predicates."""
        by_owner = self._by_owner()
        numbers = np.array([self._number() for _ in more.owner], np.int32)
        self.owner[numbers], self.size[numbers] = more.owner, np.diff(more.stops)
        for number, owner in zip(numbers.tolist(), more.owner.tolist(), strict=True):
            by_owner[owner].append(number)
        columns = zip(more.attribute.tolist(), more.comparison.tolist(), more.constant.tolist(), strict=True)
        predicate = np.array([self.predicates.add(*one) for one in columns], np.int32)
        conjunction = np.repeat(numbers, np.diff(more.stops))
        self.parts.widen(self.bound)
        self.parts.push(conjunction, predicate)
        return numbers, Parts(conjunction, predicate)

    def delete(self, owner: int) -> tuple[I4, Parts]:
        """Remove the conjunctions of an owner; return what numbers and predicates they had.

        A predicate that none has any more is gone from the index.
        """
        numbers = np.array(self._by_owner().pop(owner, []), np.int32)
        lists = [self.parts.of(number).copy() for number in numbers.tolist()]
        predicate = np.concatenate([np.zeros(0, np.int32), *lists])
        conjunction = np.repeat(numbers, [len(one) for one in lists]).astype(np.int32)
        self.parts.remove(conjunction, predicate)
        for one in predicate.tolist():
            self.predicates.remove(one)
        self.owner[numbers], self.size[numbers] = NOBODY, 0
        self._free += numbers.tolist()
        return numbers, Parts(conjunction, predicate)

    def _number(self) -> int:
        if self._free:
            return self._free.pop()
        if self.bound == len(self.owner):
            room = max(ROOM_LEAST, self.bound)
            self.owner = np.append(self.owner, np.full(room, NOBODY, np.int64))
            self.size = np.append(self.size, np.zeros(room, np.int32))
        self.bound += 1
        return self.bound - 1

    def _by_owner(self) -> defaultdict[int, list[int]]:
        if self._numbers is None:
            self._numbers = defaultdict(list)
            for number, owner in enumerate(self.owner[: self.bound].tolist()):
                self._numbers[owner].append(number)
        return self._numbers
