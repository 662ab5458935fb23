"""Counting over a byte matrix, the paper's "regular" matching (TOPSS section 5.1.2).

Idea: a byte per predicate and subscription, 1 where they belong together; the rows of all satisfied
predicates are added up. Cost: an addition per satisfied predicate and subscription; n * m bytes. Limit:
`association.BYTES_MAX`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.topss.association import Matrix
from pubsub_cluster.algorithms.topss.counting_kernels import count_bytes, set_bytes
from pubsub_cluster.algorithms.topss.predicate_book import U1


class ByteMatrix(Matrix):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(np.uint8, 1)

    @property
    def associated(self) -> npt.NDArray[np.bool_]:
        """See `Matrix`."""
        found: npt.NDArray[np.bool_] = self._matrix != 0
        return found

    def put(self, numbers: I4, stops: I8, columns: I8) -> None:
        """See `Association`."""
        set_bytes(self._matrix, numbers, stops, columns)

    def take(self, column: int) -> I4:
        """See `Association`."""
        numbers = np.flatnonzero(self._matrix[:, column]).astype(np.int32)
        self._matrix[:, column] = 0
        return numbers

    def _count(self, bits: U1, work: Any, count: int, found: I4, begin: int, stops: I8, counters: I8) -> int:
        return int(count_bytes(bits, self._matrix, work, count, found, begin, stops, counters))
