"""HT-n: ranges only (Qian et al., H-Tree, section 5): k of m attributes, each a range of width w.

The values of the paper are reals in [0, 1); ours have 14 bits (`RESOLUTION`), so that equal predicates
exist and are stored once; the selectivity of a range is the same. With k = 20 and w = 0.1 nothing ever
matches by chance (a check that never sees a match is weak), so one event in `PLANTED_EVERY` takes the
middles of some subscription's ranges and matches at least that one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubsub_cluster.benchmarks.workloads import draw
from pubsub_cluster.benchmarks.workloads.rules import I4, Domain, Events, Rules, interval_rules

RESOLUTION = 1 << 14
PLANTED_EVERY = 100
STEP = 1 << 18


@dataclass(frozen=True)
class HTree:
    """Conjunctions of ranges.

    Attributes
    ----------
    name : str
    subscriptions : int
    seed : int
    attributes : int
        m; events have all of them.
    constrained : int
        k.
    width : float
        w, of a domain of 1.
    """

    name: str = "HT-n"
    subscriptions: int = 1_000_000
    seed: int = 1
    attributes: int = 50
    constrained: int = 20
    width: float = 0.1

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The attributes."""
        return tuple(Domain(f"a{number}", 1.0 / RESOLUTION) for number in range(self.attributes))

    def rules(self) -> Rules:
        """Draw the subscriptions."""
        size, width = self.constrained, round(self.width * RESOLUTION)
        attribute = np.empty((self.subscriptions, size), np.int32)
        lo = np.empty((self.subscriptions, size), np.int32)
        for first in range(0, self.subscriptions, STEP):
            stop = min(first + STEP, self.subscriptions)
            attribute[first:stop], lo[first:stop] = self._ranges(first, stop)
        start = np.arange(0, size * self.subscriptions + 1, size, dtype=np.int64)
        flat_lo = lo.reshape(-1)
        return interval_rules(self.domains, attribute.reshape(-1), flat_lo, flat_lo + np.int32(width), start)

    def events(self, count: int, first: int = 0) -> Events:
        """Draw events [first, first + count)."""
        value = draw.below(draw.words(self.seed, 3, first, count, self.attributes), RESOLUTION)
        width = round(self.width * RESOLUTION)
        for event in range(-first % PLANTED_EVERY, count, PLANTED_EVERY):
            row = (first + event) * 7_919 % self.subscriptions
            attribute, lo = self._ranges(row, row + 1)
            value[event, attribute[0]] = lo[0] + width // 2
        return Events(self.domains, value)

    def _ranges(self, first: int, stop: int) -> tuple[I4, I4]:
        """Return attributes and low ends of the ranges of subscriptions [first, stop)."""
        word = draw.words(self.seed, 1, first, stop - first, self.attributes)
        room = RESOLUTION - round(self.width * RESOLUTION)
        lo = draw.below(draw.words(self.seed, 2, first, stop - first, self.constrained), room)
        return draw.distinct(word, self.constrained), lo


def ht_n(subscriptions: int = 1_000_000, seed: int = 1) -> HTree:
    """Return HT-n: m = 50, k = 20, w = 0.1."""
    return HTree(subscriptions=subscriptions, seed=seed)
