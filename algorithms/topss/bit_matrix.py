"""Counting over a bit matrix (TOPSS section 3.3).

Idea: a bit per predicate and subscription; 64 subscriptions are looked at at once, and passed over where none
of them has the predicate. Cost: a word per satisfied predicate and 64 subscriptions, and an addition per
association; n * m / 8 bytes. Adding a subscription sets bits of its column, deleting clears the column, whose
bits tell which predicates it had: no second structure is needed. Limit: `association.BYTES_MAX`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.topss.association import Matrix
from pubsub_cluster.algorithms.topss.counting_kernels import WORD_BITS, count_bits, set_bits
from pubsub_cluster.algorithms.topss.predicate_book import U1


class BitMatrix(Matrix):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(np.uint64, WORD_BITS)

    @property
    def associated(self) -> npt.NDArray[np.bool_]:
        """See `Matrix`."""
        bits = np.unpackbits(self._matrix.view(np.uint8), axis=1, bitorder="little")
        found: npt.NDArray[np.bool_] = bits != 0
        return found

    def put(self, numbers: I4, stops: I8, columns: I8) -> None:
        """See `Association`."""
        set_bits(self._matrix, numbers, stops, columns)

    def take(self, column: int) -> I4:
        """See `Association`."""
        bit = np.uint64(1 << column % WORD_BITS)
        words = self._matrix[:, column // WORD_BITS]
        numbers = np.flatnonzero(words & bit).astype(np.int32)
        words &= ~bit
        return numbers

    def _count(self, bits: U1, work: Any, count: int, found: I4, begin: int, stops: I8, counters: I8) -> int:
        return int(count_bits(bits, self._matrix, work, count, found, begin, stops, counters))
