"""Distinct predicates, each stored once under a number: first phase of the matchers that evaluate predicates.

Source: LESUB, fair predicate algorithm ("each predicate is stored just once"); RR-4089 section 2.1; TOPSS
section 3 (freed numbers are given again before new ones). Cost: a search of ``log2`` steps per attribute of
the event and comparison in use, and the output; an insertion shifts the predicates of its slot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.predicate_kernels import COMPARISONS, forget, intern, known_until, satisfied_by

ARENA_LEAST = 64


class PredicateIndex:
    """Predicates by number, and the numbers of those that an event satisfies.

    A number below `bound` is a predicate's, or free. Each holds as many references as it was added.
    """

    def __init__(self) -> None:
        self.attribute: I4 = np.zeros(0, np.int32)
        self.comparison: npt.NDArray[np.int8] = np.zeros(0, np.int8)
        self.constant: F8 = np.zeros(0, np.float64)
        self.references: I8 = np.zeros(0, np.int64)
        self._slots: I8 = np.zeros((0, 3), np.int64)
        self._constants: F8 = np.zeros(ARENA_LEAST, np.float64)
        self._ids: I4 = np.zeros(ARENA_LEAST, np.int32)
        self._top: I8 = np.zeros(1, np.int64)
        self._free: list[int] = []
        self.bound = 0

    @property
    def count(self) -> int:
        """Number of distinct predicates."""
        return self.bound - len(self._free)

    @property
    def arrays(self) -> tuple[I8, F8, I4, I8]:
        """As kernels take them; new ones after an insertion."""
        return self._slots, self._constants, self._ids, self._top

    @property
    def bytes(self) -> int:
        """Bytes of what an evaluation reads."""
        return int(self._slots.nbytes) + 12 * int(self._slots[:, 1].sum())

    def build(self, catalogue: Conjunctions) -> I4:
        """Take the predicates of a catalogue in place of all that were there.

        Returns
        -------
        int32[p]
            The number of each of its predicates.
        """
        slot = catalogue.attribute.astype(np.int64) * COMPARISONS + catalogue.comparison
        order = np.lexsort((catalogue.constant, slot))
        slot, constant = slot[order], catalogue.constant[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (slot[1:] != slot[:-1]) | (constant[1:] != constant[:-1])
        number = np.empty(len(order), np.int32)
        number[order] = np.cumsum(is_first) - 1
        slot, constant = slot[is_first], constant[is_first]
        self.bound, self._free = len(slot), []
        self.attribute, self.comparison = (
            (slot // COMPARISONS).astype(np.int32),
            (slot % COMPARISONS).astype(np.int8),
        )
        self.constant, self.references = constant, np.bincount(number, minlength=self.bound)
        slots = np.zeros((COMPARISONS * (int(catalogue.attribute.max(initial=-1)) + 1), 3), np.int64)
        slots[:, 1] = slots[:, 2] = np.bincount(slot, minlength=len(slots))
        slots[:, 0] = np.cumsum(slots[:, 1]) - slots[:, 1]
        self._slots = slots
        self._constants = np.append(constant, np.zeros(ARENA_LEAST))
        self._ids = np.append(np.arange(self.bound, dtype=np.int32), np.zeros(ARENA_LEAST, np.int32))
        self._top = np.array([self.bound], np.int64)
        return number

    def add(self, attribute: int, comparison: int, constant: float) -> int:
        """Return the number of a predicate, a freed or new one if it is not there."""
        slot = COMPARISONS * attribute + comparison
        if slot >= len(self._slots):
            more = np.zeros((COMPARISONS * (attribute + 1) - len(self._slots), 3), np.int64)
            self._slots = np.concatenate((self._slots, more))
        wanted = self._free[-1] if self._free else self.bound
        number = int(intern(self.arrays, slot, constant, wanted))
        while number < 0:
            self._constants = np.append(self._constants, np.zeros(len(self._constants)))
            self._ids = np.append(self._ids, np.zeros(len(self._ids), np.int32))
            number = int(intern(self.arrays, slot, constant, wanted))
        if number == wanted:
            self._name(number, attribute, comparison, constant)
        self.references[number] += 1
        return number

    def add_all(self, attribute: I4, comparison: npt.NDArray[np.int8], constant: F8) -> I4:
        """As `add`, for many at once: int32[k]."""
        slot = attribute.astype(np.int64) * COMPARISONS + comparison
        number = np.empty(len(slot), np.int32)
        begin = 0
        while (begin := int(known_until(self.arrays, slot, constant, number, begin))) < len(slot):
            number[begin] = self.add(int(attribute[begin]), int(comparison[begin]), float(constant[begin]))
            self.references[number[begin]] -= 1  # counted with all others
            begin += 1
        np.add.at(self.references, number, 1)
        return number

    def _name(self, number: int, attribute: int, comparison: int, constant: float) -> None:
        """Note whose number it is, a new one."""
        if self._free:
            self._free.pop()
        else:
            self.bound += 1
        if self.bound > len(self.attribute):
            room = max(ARENA_LEAST, len(self.attribute))
            self.attribute = np.append(self.attribute, np.zeros(room, np.int32))
            self.comparison = np.append(self.comparison, np.zeros(room, np.int8))
            self.constant = np.append(self.constant, np.zeros(room))
            self.references = np.append(self.references, np.zeros(room, np.int64))
        self.attribute[number], self.comparison[number] = attribute, comparison
        self.constant[number], self.references[number] = constant, 0

    def remove(self, number: int) -> bool:
        """Drop a reference; return whether the predicate is gone with it."""
        self.references[number] -= 1
        if self.references[number]:
            return False
        self._forget(number)
        return True

    def remove_all(self, numbers: I4) -> None:
        """Drop references, as often as numbers are there."""
        np.subtract.at(self.references, numbers, 1)
        for number in np.unique(numbers[self.references[numbers] == 0]).tolist():
            self._forget(number)

    def _forget(self, number: int) -> None:
        slot = COMPARISONS * int(self.attribute[number]) + int(self.comparison[number])
        forget(self.arrays, slot, float(self.constant[number]))
        self._free.append(number)

    def satisfied(self, row: F8, counters: Any = None) -> I4:
        """Return the numbers of the predicates that an event satisfies; see `predicate_kernels.satisfied`."""
        found = np.empty(self.count, np.int32)
        counters = np.zeros(1, np.int64) if counters is None else counters
        return found[: satisfied_by(self.arrays, row, found, counters)]
