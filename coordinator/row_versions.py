"""Which change made a row of the catalogue: the way from a row back to what its owner wrote.

Rows and versions both grow, mostly side by side: after a bulk load row n has version n + 1. So only the rows
are kept at which the distance between the two changes, in two flat arrays.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import I4

SLICE_ROWS = 16_384  # about a millisecond


class RowVersions:
    """The versions of the changes that made rows; rows come in ascending order."""

    def __init__(self) -> None:
        self._first_row = array("q")
        self._distance = array("q")
        self._moving: Iterator[bool] | None = None  # carries out the last `move`, a slice at a time

    def move(self, new_row: I4) -> None:
        """Give the rows other numbers; those that are added from now on are higher.

        Parameters
        ----------
        new_row : int32[rows]
            By row; negative where a row is gone.
        """
        self.settle()
        self._moving = self._move(self._first_row, self._distance, new_row)
        self._first_row, self._distance = array("q"), array("q")

    def settle(self) -> None:
        """Carry out the last `move`."""
        while self.settle_some():
            pass

    def settle_some(self) -> bool:
        """Carry out a slice of the last `move`; False when nothing is left of it."""
        if self._moving is not None and not next(self._moving, False):
            self._moving = None
        return self._moving is not None

    def _move(self, first_row: array[int], distance: array[int], new_row: I4) -> Iterator[bool]:
        known_first, known_distance = np.frombuffer(first_row, np.int64), np.frombuffer(distance, np.int64)
        version = np.empty(len(new_row), np.int64)  # by new row, of which there are no more than old ones
        count = 0
        for first in range(0, len(new_row), SLICE_ROWS):
            moved = new_row[first : first + SLICE_ROWS]
            kept = np.flatnonzero(moved >= 0)
            old = kept + first
            version[moved[kept]] = old + known_distance[np.searchsorted(known_first, old, side="right") - 1]
            count += len(kept)
            yield True
        made_first, made_distance = array("q"), array("q")
        for first in range(0, count, SLICE_ROWS):
            row = np.arange(first, min(first + SLICE_ROWS, count))
            made = version[row] - row
            before = int(made_distance[-1]) if first else int(made[0]) - 1
            changes = np.flatnonzero(np.diff(made, prepend=before))
            made_first.frombytes(row[changes].tobytes())
            made_distance.frombytes(made[changes].tobytes())
            yield True
        made_first.extend(self._first_row)
        made_distance.extend(self._distance)
        self._first_row, self._distance = made_first, made_distance

    def add(self, row: int, version: int) -> None:
        """Take a row that is higher than all before it."""
        distance = version - row
        if not self._distance or self._distance[-1] != distance:
            self._first_row.append(row)
            self._distance.append(distance)

    def add_many(self, row: int, versions: Sequence[int]) -> None:
        """Take rows that follow each other, the first one higher than all before."""
        if versions[-1] - versions[0] == len(versions) - 1:  # so do the versions, which grow
            self.add(row, versions[0])
            return
        for offset, version in enumerate(versions):
            self.add(row + offset, version)

    def fill(self, versions: npt.NDArray[np.int64]) -> None:
        """Take rows 0, 1, 2, ...; only while there are none."""
        distance = versions - np.arange(len(versions))
        first = np.flatnonzero(np.diff(distance, prepend=distance[:1] - 1))
        self._first_row.frombytes(first.astype(np.int64).tobytes())
        self._distance.frombytes(distance[first].astype(np.int64).tobytes())

    def version_of(self, row: int) -> int:
        """Return the version that made a row which was added."""
        self.settle()
        return row + self._distance[bisect_right(self._first_row, row) - 1]
