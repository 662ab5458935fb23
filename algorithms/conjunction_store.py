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
        # By owner; found out when a deletion first asks, since that is a list for each of millions.
        self._numbers: defaultdict[int, list[int]] | None = None

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
        self._numbers = None
        return Parts(conjunction, predicate)

    def insert(self, more: Conjunctions) -> tuple[I4, Parts]:
        """Add conjunctions; return their numbers and their predicates."""
        numbers = self._take(len(more.owner))
        sizes = np.diff(more.stops)
        self.owner[numbers], self.size[numbers] = more.owner, sizes
        if self._numbers is not None:
            for number, owner in zip(numbers.tolist(), more.owner.tolist(), strict=True):
                self._numbers[owner].append(number)
        predicate = self.predicates.add_all(more.attribute, more.comparison, more.constant)
        conjunction = np.repeat(numbers, sizes)
        self.parts.widen(self.bound)
        self.parts.push(conjunction, predicate)
        return numbers, Parts(conjunction, predicate)

    def numbers_of(self, owner: int) -> I4:
        """Return the numbers of an owner's conjunctions."""
        return np.array(self._by_owner().get(owner, []), np.int32)

    def delete(self, owner: int) -> tuple[I4, Parts]:
        """Remove the conjunctions of an owner; return what numbers and predicates they had.

        A predicate that none has any more is gone from the index.
        """
        numbers = np.array(self._by_owner().pop(owner, []), np.int32)
        return numbers, self._drop(numbers)

    def remove(self, numbers: I4) -> Parts:
        """Remove conjunctions, whose owners have no others; return what predicates they had."""
        self._numbers = None
        return self._drop(numbers)

    def _drop(self, numbers: I4) -> Parts:
        predicate = self.parts.of_all(numbers)
        conjunction = np.repeat(numbers, self.size[numbers])
        self.parts.remove(conjunction, predicate)
        self.predicates.remove_all(predicate)
        self.owner[numbers], self.size[numbers] = NOBODY, 0
        self._free += numbers.tolist()
        return Parts(conjunction, predicate)

    def _take(self, count: int) -> I4:
        """Return so many numbers, freed ones first."""
        freed = [self._free.pop() for _ in range(min(count, len(self._free)))]
        bound = self.bound + count - len(freed)
        if bound > len(self.owner):
            more = max(ROOM_LEAST, bound - len(self.owner), len(self.owner) // 2)
            self.owner = np.append(self.owner, np.full(more, NOBODY, np.int64))
            self.size = np.append(self.size, np.zeros(more, np.int32))
        numbers = np.append(np.array(freed, np.int32), np.arange(self.bound, bound, dtype=np.int32))
        self.bound = bound
        return numbers.astype(np.int32)

    def _by_owner(self) -> defaultdict[int, list[int]]:
        if self._numbers is None:
            self._numbers = defaultdict(list)
            for number, owner in enumerate(self.owner[: self.bound].tolist()):
                if owner != NOBODY:
                    self._numbers[owner].append(number)
        return self._numbers
