"""The numbers of distinct predicates, whatever structure finds them (TOPSS section 3).

Equal predicates of several subscriptions have one number, which is freed with the last of them, and given
again before a new one: the predicate bit vector has no more places than there were predicates at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8

ROOM_LEAST = 64
U1 = npt.NDArray[np.uint8]


COLUMNS = (np.int32, np.int32, np.int32, np.int8, np.float64)


class Book(NamedTuple):
    """Predicates by number, as kernels take them.

    Attributes
    ----------
    state : int64[2]
        The numbers given so far, and how many of them are free.
    free : int32[room]
        A stack of free numbers.
    references : int32[room]
        How many subscriptions have the predicate; 0: the number is free.
    attribute : int32[room]
    comparison : int8[room]
    constant : float64[room]
    """

    state: I8
    free: I4
    references: I4
    attribute: I4
    comparison: npt.NDArray[np.int8]
    constant: F8


def new_book(room: int = ROOM_LEAST) -> Book:
    """Return one without predicates, with room for some."""
    columns: list[Any] = [np.zeros(room, one) for one in COLUMNS]
    return Book(np.zeros(2, np.int64), *columns)


class Predicates(ABC):
    """Distinct predicates: adding, removing, and which ones an event satisfies."""

    def __init__(self) -> None:
        self.book = new_book()

    @property
    def bound(self) -> int:
        """No number has been given that is not below."""
        return int(self.book.state[0])

    @property
    def count(self) -> int:
        """How many distinct predicates there are."""
        return int(self.book.state[0] - self.book.state[1])

    @property
    def book_bytes(self) -> int:
        """Bytes of the book, which matching does not read."""
        return sum(int(array.nbytes) for array in self.book)

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Bytes of what evaluation reads."""

    @abstractmethod
    def build(self, catalogue: Conjunctions) -> I4:
        """Take the predicates of a catalogue in place of all that were there; return the number of each."""

    @abstractmethod
    def add(self, more: Conjunctions) -> I4:
        """Return the number of each predicate; one that is not there gets a freed number, or a new one."""

    @abstractmethod
    def remove(self, numbers: I4) -> None:
        """Drop a reference to each; the last one frees the number."""

    @abstractmethod
    def evaluate(self, values: F8, bits: U1, counters: I8) -> None:
        """Set the bits of the predicates that events satisfy.

        Parameters
        ----------
        values : float64[rows, attributes]
            NaN: no value. There may be more attributes than predicates speak of, or fewer.
        bits : uint8[rows, ceil(bound / 8)]
            The predicate bit vectors: predicate p is bit ``p % 8`` of byte ``p // 8``. Zero before.
        counters : int64[1]
            Grows by the cells or nodes looked at.
        """

    def bits(self, values: F8, counters: I8 | None = None) -> U1:
        """Return the predicate bit vectors of events; see `evaluate`."""
        found = np.zeros((len(values), (self.bound + 7) // 8), np.uint8)
        self.evaluate(values, found, np.zeros(1, np.int64) if counters is None else counters)
        return found

    def _more_room(self) -> None:
        """Double the book."""
        wider: list[Any] = [np.append(array, np.zeros_like(array)) for array in self.book[1:]]
        self.book = Book(self.book.state, *wider)
