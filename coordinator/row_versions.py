"""Which change made a row of the catalogue: the way from a row back to what its owner wrote.

Rows and versions both grow, mostly side by side: after a bulk load row n has version n + 1. So only the rows
are kept at which the distance between the two changes, in two flat arrays.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import I4, I8


class RowVersions:
    """The versions of the changes that made rows; rows come in ascending order."""

    def __init__(self) -> None:
        self._first_row = array("q")
        self._distance = array("q")

        self._moved: tuple[I8, I8, I4] | None = None  # what the last `move` is about, not carried out yet

    def move(self, new_row: I4) -> None:
        """Give the rows other numbers; those that are added from now on are higher.

        Parameters
        ----------
        new_row : int32[rows]
            By row; negative where a row is gone.
        """
        self.settle()
        self._moved = (np.array(self._first_row, np.int64), np.array(self._distance, np.int64), new_row)
        self._first_row, self._distance = array("q"), array("q")

    def settle(self) -> None:
        """Carry out the last `move`: 30 ms for a million rows."""
        if self._moved is None:
            return
        (first_row, distance, new_row), self._moved = self._moved, None
        kept = np.flatnonzero(new_row >= 0)
        made = np.empty(len(kept), np.int64)
        made[new_row[kept]] = kept + distance[np.searchsorted(first_row, kept, side="right") - 1]
        made -= np.arange(len(kept))
        changes = np.flatnonzero(np.diff(made, prepend=-1))
        later = self._first_row, self._distance
        self._first_row = array("q", changes.astype(np.int64).tobytes()) + later[0]
        self._distance = array("q", made[changes].tobytes()) + later[1]

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
