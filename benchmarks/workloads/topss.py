"""T-SMALL, T-MEDIUM, T-BIG, T-MIX and T4: the workloads of TOPSS (section 5.1; the paper's W0 to W4).

Names follow the paper: n_t attributes, n_P predicates per subscription, each on another attribute; operators
(the paper's four), values and n_P are uniform; events have every attribute. T-MIX is "a unified mixture" of
the first three: attribute a has the domain of T-SMALL, T-MEDIUM or T-BIG by a modulo 3, which is our reading.

Subscriptions and events are what the matchers' cores read: `algorithms.conjunctions.Conjunctions` and rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.benchmarks.workloads import draw

OPERATORS = np.array([Comparison.LT, Comparison.GT, Comparison.EQ, Comparison.NE], np.int8)
SMALL, MEDIUM, BIG = (1, 250), (250, 10_000), (10_000, 100_000)
ROWS_PER_STEP = 1 << 18


@dataclass(frozen=True)
class Topss:
    """Conjunctions of up to `most` predicates.

    Attributes
    ----------
    name : str
    domains : tuple of (int, int)
        Bounds l and u; attribute a has domain a modulo their number.
    attributes : int
        n_t.
    most : int
        n_P is uniform from 1 to it.
    seed : int
    """

    name: str
    domains: tuple[tuple[int, int], ...]
    attributes: int = 120
    most: int = 20
    seed: int = 1

    @property
    def bounds(self) -> npt.NDArray[np.int64]:
        """int64[attributes, 2]: l and u."""
        return np.array([self.domains[at % len(self.domains)] for at in range(self.attributes)], np.int64)

    @property
    def possible(self) -> int:
        """How many distinct predicates there are."""
        bounds = self.bounds
        return int((bounds[:, 1] - bounds[:, 0] + 1).sum()) * len(OPERATORS)

    def conjunctions(self, count: int, first: int = 0) -> Conjunctions:
        """Draw subscriptions [first, first + count); their owners are their numbers."""
        starts = range(first, first + count, ROWS_PER_STEP)
        parts = [self._part(start, min(ROWS_PER_STEP, first + count - start)) for start in starts]
        stops = np.zeros(count + 1, np.int64)
        np.cumsum(np.concatenate([part[0] for part in parts]), out=stops[1:])
        columns = (np.concatenate([part[at] for part in parts]) for at in (1, 2, 3))
        return Conjunctions(np.arange(first, first + count), stops, *columns)

    def _part(self, first: int, count: int) -> tuple[Any, ...]:
        """Return sizes, and attribute, comparison and constant of all predicates."""
        sizes = draw.below(draw.words(self.seed, 1, first, count, 1), self.most)[:, 0].astype(np.int64) + 1
        is_used = np.arange(self.most) < sizes[:, None]
        attribute = draw.distinct(draw.words(self.seed, 2, first, count, self.attributes), self.most)[is_used]
        which = draw.below(draw.words(self.seed, 3, first, count, self.most), len(OPERATORS))[is_used]
        word = draw.words(self.seed, 4, first, count, self.most)[is_used]
        return sizes, attribute, OPERATORS[which], self._values(word, attribute)

    def distinct(self, count: int) -> Conjunctions:
        """Return the first distinct predicates of the subscriptions, each alone; fewer if there are no more.

        Their owners are their numbers in order of arrival.
        """
        wanted, subscriptions = min(count, self.possible), max(256, count // self.most)
        while True:
            drawn = self.conjunctions(subscriptions)
            operator = drawn.comparison.astype(np.int64)
            key = (drawn.constant.astype(np.int64) * len(Comparison) + operator) * self.attributes
            _, arrival = np.unique(key + drawn.attribute, return_index=True)
            if len(arrival) >= wanted:
                break
            subscriptions *= 2
        at = np.sort(arrival)[:wanted]
        columns = drawn.attribute[at], drawn.comparison[at], drawn.constant[at]
        return Conjunctions(np.arange(wanted), np.arange(wanted + 1), *columns)

    def events(self, count: int, first: int = 0) -> F8:
        """Draw events [first, first + count): float64[count, attributes]."""
        word = draw.words(self.seed, 5, first, count, self.attributes)
        return self._values(word, np.arange(self.attributes, dtype=np.int32))

    def _values(self, word: draw.U8, attribute: npt.NDArray[np.int32]) -> F8:
        low, high = self.bounds[attribute].T
        found: F8 = (low + draw.below(word, high - low + 1)).astype(np.float64)
        return found


T_SMALL, T_MEDIUM, T_BIG = (
    Topss(name, (domain,)) for name, domain in (("T-SMALL", SMALL), ("T-MEDIUM", MEDIUM), ("T-BIG", BIG))
)
T_MIX = Topss("T-MIX", (SMALL, MEDIUM, BIG))
T4 = Topss("T4", ((1, 10),), attributes=10, most=5)
