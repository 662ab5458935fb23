"""Workloads that an index may handle badly: each says what it is meant to hurt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubsub_cluster.benchmarks.workloads import draw
from pubsub_cluster.benchmarks.workloads.rules import MISSING, TOP, Domain, Events, Rules, interval_rules

SHAPES = {
    "giant-cluster": "all subscriptions share their only equality; a range of 1 % decides",
    "zero-matches": "W0 with events outside every constant",
    "all-match": "every subscription matches every event",
    "hot-value": "W0 with nine in ten of all values equal",
    "wide": "5,000 attributes, events with 30, three equalities each",
    "many-clauses": "disjunctions of 1,000 conjunctions",
}
WIDE_ATTRIBUTES, WIDE_PRESENT = 5_000, 30
GIANT_RANGE, GIANT_WIDTH = 10_000, 100
CLAUSES = 1_000


@dataclass(frozen=True)
class Adversarial:
    """One of `SHAPES`.

    Attributes
    ----------
    shape : str
    subscriptions : int
    seed : int
    """

    shape: str
    subscriptions: int
    seed: int = 1

    @property
    def name(self) -> str:
        """The shape."""
        return self.shape

    @property
    def attributes(self) -> int:
        """Number of attributes."""
        return {"wide": WIDE_ATTRIBUTES, "zero-matches": 32, "hot-value": 32}.get(self.shape, 4)

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The attributes."""
        return tuple(Domain(f"a{number}") for number in range(self.attributes))

    def rules(self) -> Rules:
        """Draw the subscriptions."""
        clauses_each = CLAUSES if self.shape == "many-clauses" else 1
        rows = self.subscriptions * clauses_each
        word = draw.words(self.seed, 1, 0, rows, 8)
        if self.shape == "wide":
            attribute = np.stack([draw.below(word[:, j], WIDE_ATTRIBUTES) for j in range(3)], axis=1)
            attribute = _apart(attribute, WIDE_ATTRIBUTES)
            lo = draw.below(word[:, 3:6], 10)
            return self._rules(attribute, lo, lo)
        if self.shape in ("zero-matches", "hot-value"):
            attribute = draw.distinct(draw.words(self.seed, 2, 0, rows, 30), 3) + 2
            attribute = np.concatenate((np.broadcast_to(np.arange(2), (rows, 2)), attribute), axis=1)
            lo = self._values(word[:, :5])
            return self._rules(attribute, lo, lo)
        attribute = np.broadcast_to(np.arange(2), (rows, 2))
        if self.shape == "all-match":
            lo = np.zeros((rows, 2), np.int32)
            hi = np.stack((np.full(rows, TOP), 100_000 + np.arange(rows) % 1_000), axis=1)
            return self._rules(attribute, lo, hi)
        low = draw.below(word[:, 0], GIANT_RANGE - GIANT_WIDTH)
        if self.shape == "giant-cluster":
            first = np.ones(rows, np.int32)
            return self._rules(
                attribute, np.stack((first, low), 1), np.stack((first, low + GIANT_WIDTH - 1), 1)
            )
        lo = np.stack((draw.below(word[:, 1], 200), draw.below(word[:, 2], 200)), axis=1)
        return self._rules(attribute, lo, lo)._replace(clauses_each=clauses_each)

    def events(self, count: int, first: int = 0) -> Events:
        """Draw events [first, first + count)."""
        if self.shape == "wide":
            value = np.full((count, WIDE_ATTRIBUTES), MISSING, np.int32)
            present = draw.distinct(draw.words(self.seed, 4, first, count, WIDE_ATTRIBUTES), WIDE_PRESENT)
            drawn = draw.below(draw.words(self.seed, 3, first, count, WIDE_PRESENT), 10)
            np.put_along_axis(value, present, drawn, axis=1)
            return Events(self.domains, value)
        word = draw.words(self.seed, 3, first, count, self.attributes)
        if self.shape == "zero-matches":
            return Events(self.domains, draw.below(word, 35) + np.int32(100))
        if self.shape == "hot-value":
            return Events(self.domains, self._values(word))
        if self.shape == "many-clauses":
            return Events(self.domains, draw.below(word, 200))
        value = draw.below(word, GIANT_RANGE)
        value[:, 0] = 1
        return Events(self.domains, value)

    def _rules(self, attribute: draw.I4, lo: draw.I4, hi: draw.I4) -> Rules:
        size = attribute.shape[1]
        start = np.arange(0, size * len(attribute) + 1, size, dtype=np.int64)
        flat = [np.ascontiguousarray(part, np.int32).reshape(-1) for part in (attribute, lo, hi)]
        return interval_rules(self.domains, flat[0], flat[1], flat[2], start)

    @staticmethod
    def _values(word: draw.U8) -> draw.I4:
        """Return 1 in nine of ten places, else 2 to 35."""
        return np.where(
            draw.below(word, 10) > 0, np.int32(1), draw.below(word << np.uint64(8), 34) + np.int32(2)
        )


def _apart(attribute: draw.I4, count: int) -> draw.I4:
    """Make the attributes of a row distinct by moving repeats on."""
    for column in range(1, attribute.shape[1]):
        for _ in range(column):
            same = (attribute[:, :column] == attribute[:, column : column + 1]).any(axis=1)
            attribute[same, column] = (attribute[same, column] + 1) % count
    return attribute
