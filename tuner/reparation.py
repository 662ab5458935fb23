"""Reparation power: what a table that is not there could take from the clusters to be repaired.

RR-4089, section 4: RP(H, C') is the number of subscriptions s in clusters c of C' with nu(p_c) >= nu(p_s^H).
The candidates PH are the sets of ways of the subscriptions in C' (GA(c)): all of them for subscriptions of
few atoms, the small ones for others. The sums are kept up as subscriptions and clusters come and go.

Beside RP stand how many of them would really move (strictly better: of two equal tables nobody moves), the
sum of what they are checked with now, nu(p_c), and of what they would save, nu(p_c) - nu(p_s^H).

With many subscriptions the sums are those of a sample, times its step: every subscription has dozens of
candidates, and a table that pays has thousands of subscriptions, so a sample of a hundred thousand knows it.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np

from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.clustering import BETTER, Clustering
from pubsub_cluster.tuner.configuration import SCHEMA_ATTRIBUTES_MAX
from pubsub_cluster.tuner.interning import mixed

SUBSETS_MAX = 64
BLOCK = 1 << 17
COUNTED_MAX = 1 << 17
"""Subscriptions of which about so many are counted, where there are twice as many or more."""

_SAMPLE_SALT = 7


@lru_cache
def subsets(width: int) -> tuple[tuple[int, ...], ...]:
    """Return the sets of columns that are candidates: sizes from one on while there are few, pairs always.

    Parameters
    ----------
    width : int
        Atoms of a subscription.
    """
    found: list[tuple[int, ...]] = []
    for size in range(1, min(width, SCHEMA_ATTRIBUTES_MAX) + 1):
        more = list(itertools.combinations(range(width), size))
        if size > 2 and len(found) + len(more) > SUBSETS_MAX:
            break
        found += more
    return tuple(found)


class Reparation:
    """The sums of all candidate tables, by schema.

    Parameters
    ----------
    clustering : Clustering

    Attributes
    ----------
    power : int64[S]
        RP.
    mover_count : int64[S]
    checked : float64[S]
        Sum of nu(p_c) over those that would move.
    saved : float64[S]
        Sum of nu(p_c) - nu(p_s^H) over those.
    """

    def __init__(self, clustering: Clustering) -> None:
        self._clustering = clustering
        self._row: I8 = np.zeros(0, np.int64)
        self._schema_of: dict[int, I4] = {}
        self.clear()

    def clear(self) -> None:
        """Start from no clusters, and with the step that suits the subscriptions there are when some come."""
        self._step = 0
        self.power: I8 = np.zeros(0, np.int64)
        self.mover_count: I8 = np.zeros(0, np.int64)
        self.checked: F8 = np.zeros(0)
        self.saved: F8 = np.zeros(0)

    def is_outgrown(self) -> bool:
        """Say whether there are so many more subscriptions by now that fewer of them would do."""
        return 0 < 2 * self._step <= int(self._clustering.cluster_count.sum()) // COUNTED_MAX

    def add(self, numbers: I8, sign: int = 1) -> None:
        """Count subscriptions as they lie now, or with ``sign = -1`` no more.

        Parameters
        ----------
        numbers : int64[m]
        sign : int
        """
        if not self._step:
            self._step = max(int(self._clustering.cluster_count.sum()) // COUNTED_MAX, 1)
        if self._step > 1:  # by number, so that those that are taken out are those that were counted
            numbers = numbers[mixed(numbers, _SAMPLE_SALT) % np.uint64(self._step) == 0]
        for first in range(0, len(numbers), BLOCK):
            self._add_block(numbers[first : first + BLOCK], sign * self._step)

    def _add_block(self, numbers: I8, weight: int) -> None:
        books = self._clustering
        atom = books.atom[numbers]
        width = np.count_nonzero(atom >= 0, axis=1)
        now = books.nu_of(numbers)
        for each in np.unique(width[width > 0]).tolist():
            mine = np.flatnonzero(width == each)
            schema = self._schemas(books.pattern[numbers[mine]], each)
            factor = books.atom_nu[atom[mine, :each]]
            before = now[mine]
            for number, columns in enumerate(subsets(each)):
                nu = factor[:, columns].prod(axis=1)
                could = nu <= before / BETTER
                np.add.at(self.power, schema[could, number], weight)
                moves = nu < before * BETTER
                to, was = schema[moves, number], before[moves]
                np.add.at(self.mover_count, to, weight)
                np.add.at(self.checked, to, weight * was)
                np.add.at(self.saved, to, weight * (was - nu[moves]))

    def _schemas(self, pattern: I4, width: int) -> I4:
        """Return the schema of every candidate of some subscriptions with equally many atoms."""
        books, sets = self._clustering, subsets(width)
        if len(books.pattern_way) > len(self._row):
            self._row = np.append(self._row, np.full(len(books.pattern_way) - len(self._row), -1))
        known = self._schema_of.get(width, np.zeros((0, len(sets)), np.int32))
        new = np.unique(pattern[self._row[pattern] < 0])
        if len(new):
            ways = books.pattern_way[new]
            added = np.stack([books.schemas(ways[:, columns]) for columns in sets], axis=1)
            self._row[new] = len(known) + np.arange(len(new))
            self._schema_of[width] = known = np.concatenate((known, added))
        missing = len(books.schema_count) - len(self.power)
        if missing > 0:
            self.power = np.append(self.power, np.zeros(missing, np.int64))
            self.mover_count = np.append(self.mover_count, np.zeros(missing, np.int64))
            self.checked = np.append(self.checked, np.zeros(missing))
            self.saved = np.append(self.saved, np.zeros(missing))
        return np.asarray(known[self._row[pattern]])
