"""Which predicates belong to which subscriptions, and counting the hits (TOPSS section 3.3; D-14)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.topss.counting_kernels import WORD_BITS
from pubsub_cluster.algorithms.topss.predicate_book import ROOM_LEAST, U1
from pubsub_cluster.language.errors import CallerError

BYTES_MAX = 1 << 30
FOUND_LEAST = 1 << 12


class Association(ABC):
    """An association table.

    Attributes
    ----------
    room : int
        How many subscriptions it has places for; a multiple of 64.
    """

    room: int

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Bytes of what counting reads."""

    @property
    def deletion_bytes(self) -> int:
        """Bytes of what only deletion reads."""
        return 0

    @abstractmethod
    def build(self, predicates: int, subscriptions: int) -> None:
        """Become empty, with room for so many.

        Raises
        ------
        CallerError
            They would be too large; nothing has changed then.
        """

    @abstractmethod
    def reserve(self, predicates: int, subscriptions: int) -> None:
        """Have room for so many; raises as `build`."""

    @abstractmethod
    def put(self, numbers: I4, stops: I8, columns: I8) -> None:
        """Associate the subscriptions int64[n] with their predicates numbers[stops[i]:stops[i + 1]]."""

    @abstractmethod
    def take(self, column: int) -> I4:
        """Clear a subscription; return the predicates that it had."""

    @abstractmethod
    def _count(self, bits: U1, work: Any, count: int, found: I4, begin: int, stops: I8, counters: I8) -> int:
        """Call the kernel."""

    def count(self, bits: U1, work: Any, count: int, counters: I8 | None = None) -> tuple[I8, I4]:
        """Return the subscriptions whose predicates are all satisfied.

        Parameters
        ----------
        bits : uint8[rows, ...]
            Predicate bit vectors.
        work, count, counters
            See `counting_kernels`.

        Returns
        -------
        stops : int64[rows + 1]
        found : int32[...]
            Those of event e are ``found[stops[e]:stops[e + 1]]``.
        """
        counters = np.zeros(3, np.int64) if counters is None else counters
        stops = np.zeros(len(bits) + 1, np.int64)
        found = np.empty(max(FOUND_LEAST, 2 * count), np.int32)
        row = self._count(bits, work, count, found, 0, stops, counters)
        while row < len(bits):
            found = np.append(found, np.empty_like(found))
            row = self._count(bits, work, count, found, row, stops, counters)
        return stops, found


class Matrix(Association):
    """A row per predicate, a column per subscription; adding and deleting one touches its column only.

    Parameters
    ----------
    dtype : type
    per_cell : int
        How many subscriptions a cell tells of.
    """

    def __init__(self, dtype: type, per_cell: int) -> None:
        self._dtype, self._per_cell = dtype, per_cell
        self.room = 0
        self._matrix: Any = np.zeros((0, 0), dtype)

    @property
    def bytes(self) -> int:
        """See `Association`."""
        return int(self._matrix.nbytes)

    @property
    @abstractmethod
    def associated(self) -> npt.NDArray[np.bool_]:
        """bool[predicates, room]: what belongs together, a copy."""

    def build(self, predicates: int, subscriptions: int) -> None:
        """See `Association`."""
        self._matrix = self._new(predicates, padded(subscriptions))
        self.room = padded(subscriptions)

    def reserve(self, predicates: int, subscriptions: int) -> None:
        """See `Association`; rooms are doubled, as far as the limit allows."""
        rows, room = len(self._matrix), self.room
        if predicates <= rows and subscriptions <= room:
            return
        wider = padded(max(subscriptions, 2 * room, ROOM_LEAST)) if subscriptions > room else room
        longer = max(predicates, 2 * rows, ROOM_LEAST) if predicates > rows else rows
        if self._bytes_of(longer, wider) > BYTES_MAX:
            longer, wider = max(rows, predicates), max(room, padded(subscriptions))
        matrix = self._new(longer, wider)
        matrix[:rows, : self._matrix.shape[1]] = self._matrix
        self._matrix, self.room = matrix, wider

    def _bytes_of(self, rows: int, room: int) -> int:
        return rows * room // self._per_cell * np.dtype(self._dtype).itemsize

    def _new(self, rows: int, room: int) -> Any:
        if self._bytes_of(rows, room) > BYTES_MAX:
            raise CallerError(
                "the association matrix would be too large",
                seen=f"{rows:,} predicates of {room:,} subscriptions: {self._bytes_of(rows, room):,} bytes",
                limit=BYTES_MAX,
                remedy="Choose lists, which grow with the predicates of each subscription only.",
            )
        return np.zeros((rows, room // self._per_cell), self._dtype)


def padded(subscriptions: int) -> int:
    """Return a number of subscriptions, rounded up to whole words."""
    return -(-subscriptions // WORD_BITS) * WORD_BITS
