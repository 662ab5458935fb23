"""LESUB: the load of Le Subscribe's experiments (Fabret, Llirbat, Pereira, Shasha; "experimental results").

An attribute of strings takes equalities only, one of numbers equalities and comparisons; each attribute has a
probability to be spoken of by a subscription, and one to be in an event; values are uniform. The text of the
paper has lost its figures, so the sizes below are ours: ten attributes, of which five are strings with 30
values, five numbers with 100, four predicates a subscription on average, eight attributes an event.

Subscriptions and events are what the matchers' cores read: `algorithms.conjunctions.Conjunctions` and rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubsub_cluster.algorithms.conjunctions import ABSENT, Comparison, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.benchmarks.workloads import draw


@dataclass(frozen=True)
class LeSubscribe:
    """Conjunctions with at most one predicate per attribute.

    Attributes
    ----------
    subscriptions : int
    seed : int
    strings, numbers : int
        Attributes of each sort; strings come first.
    string_values, number_values : int
        Sizes of their domains.
    predicate_probability : float
        That a subscription speaks of an attribute. One that would speak of none speaks of one.
    equality_probability : float
        That a predicate on a number is an equality; else it is ``<`` or ``>``.
    event_probability : float
        That an event has an attribute.
    """

    subscriptions: int = 100_000
    seed: int = 1
    strings: int = 5
    numbers: int = 5
    string_values: int = 30
    number_values: int = 100
    predicate_probability: float = 0.4
    equality_probability: float = 0.5
    event_probability: float = 0.8

    @property
    def attributes(self) -> int:
        """Number of attributes."""
        return self.strings + self.numbers

    def conjunctions(self) -> Conjunctions:
        """Draw the subscriptions; their owners are their numbers."""
        count, width = self.subscriptions, self.attributes
        word = draw.words(self.seed, 1, 0, count, width)
        is_used = draw.uniform(word) < self.predicate_probability
        is_used[np.arange(count), word.argmin(axis=1)] = True
        kind = draw.uniform(draw.words(self.seed, 2, 0, count, width))
        comparison = np.full((count, width), Comparison.EQ, np.int8)
        equal = self.equality_probability
        numeric = np.arange(width) >= self.strings
        comparison[(kind >= equal) & numeric] = Comparison.LT
        comparison[(kind >= (1 + equal) / 2) & numeric] = Comparison.GT
        constant = self._values(draw.words(self.seed, 3, 0, count, width))
        stops = np.zeros(count + 1, np.int64)
        np.cumsum(is_used.sum(axis=1), out=stops[1:])
        attribute = np.broadcast_to(np.arange(width, dtype=np.int32), (count, width))
        return Conjunctions(
            np.arange(count, dtype=np.int64),
            stops,
            attribute[is_used],
            comparison[is_used],
            constant[is_used],
        )

    def events(self, count: int, first: int = 0) -> F8:
        """Draw events [first, first + count): float64[count, attributes], `ABSENT` where one has no value."""
        values = self._values(draw.words(self.seed, 4, first, count, self.attributes))
        is_there = draw.uniform(draw.words(self.seed, 5, first, count, self.attributes))
        return np.where(is_there < self.event_probability, values, ABSENT)

    def _values(self, word: draw.U8) -> F8:
        sizes = np.repeat([self.string_values, self.number_values], [self.strings, self.numbers])
        return draw.below(word, sizes).astype(np.float64)
