"""Which change made a row of the catalogue: the way from a row back to what its owner wrote.

Rows and versions both grow, mostly side by side: after a bulk load row n has version n + 1. So only the rows
are kept at which the distance between the two changes, in two flat arrays.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right


class RowVersions:
    """The versions of the changes that made rows; rows come in ascending order."""

    def __init__(self) -> None:
        self._first_row = array("q")
        self._distance = array("q")

    def add(self, row: int, version: int) -> None:
        """Take a row that is higher than all before it."""
        distance = version - row
        if not self._distance or self._distance[-1] != distance:
            self._first_row.append(row)
            self._distance.append(distance)

    def version_of(self, row: int) -> int:
        """Return the version that made a row which was added."""
        return row + self._distance[bisect_right(self._first_row, row) - 1]
