"""HT-*: all workloads of Qian et al., H-Tree, section 5, as columns of ranges (`algorithms.htree.ranges`).

One draw serves all figures: k of m attributes per subscription, chosen evenly or by Zipf's law, each with a
range of width w whose centre is even, normal or Pareto; or with both ends drawn (random widths). Values have
14 bits, in int16: 5 million subscriptions of 25 ranges take 750 MB, and every value is held exactly. The even
draw is that of `workloads.htree`. An event has all attributes, even values; one in `planted_every` takes the
middles of some subscription's ranges and matches at least that one.

"Mean 0.5 and scale 2" of Pareto are read as x_m = 0.5 and alpha = 2; a quarter lies above 1 and counts as 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.htree.ranges import Ranges, equal_sized
from pubsub_cluster.benchmarks.workloads import draw
from pubsub_cluster.benchmarks.workloads.htree import PLANTED_EVERY, RESOLUTION, STEP

I2 = npt.NDArray[np.int16]
F8 = npt.NDArray[np.float64]
NORMAL_MEAN, NORMAL_VARIANCE = 0.5, 0.02
PARETO_LEAST, PARETO_ALPHA = 0.5, 2.0


def even_share(value: float) -> float:
    """Return F of the even distribution."""
    return min(max(value, 0.0), 1.0)


def normal_share(value: float) -> float:
    """Return F of the normal distribution (HTREE (1))."""
    return 0.5 * (1.0 + math.erf((value - NORMAL_MEAN) / math.sqrt(2.0 * NORMAL_VARIANCE)))


def pareto_share(value: float) -> float:
    """Return F of the Pareto distribution (HTREE (3))."""
    return 1.0 - (PARETO_LEAST / value) ** PARETO_ALPHA if value >= PARETO_LEAST else 0.0


SHARES: dict[str, Callable[[float], float]] = {
    "uniform": even_share,
    "normal": normal_share,
    "pareto": pareto_share,
}


def share_below(distribution: str) -> F8:
    """Return F at the upper edge of each value: float64[RESOLUTION]."""
    share = SHARES[distribution]
    return np.array([share((code + 1) / RESOLUTION) for code in range(RESOLUTION)])


@dataclass(frozen=True)
class RangeWorkload:
    """Subscriptions of k ranges, and events.

    Attributes
    ----------
    subscriptions : int
    attributes : int
        m.
    constrained : int
        k.
    width : float
        w, of a domain of 1.
    zipf : float
        a: attribute number i is chosen with weight (i + 1)^-a; 0: evenly.
    values : {"uniform", "normal", "pareto"}
        Of centres.
    is_random_width : bool
        Both ends are drawn evenly; `width` and `values` say nothing then.
    seed : int
    """

    subscriptions: int
    attributes: int = 50
    constrained: int = 20
    width: float = 0.1
    zipf: float = 0.0
    values: str = "uniform"
    is_random_width: bool = False
    seed: int = 1

    def ranges(self) -> Ranges:
        """Draw all subscriptions: int16 columns."""
        shape = self.subscriptions, self.constrained
        attribute, lo, hi = (np.empty(shape, np.int16) for _ in range(3))
        for first in range(0, self.subscriptions, STEP):
            stop = min(first + STEP, self.subscriptions)
            attribute[first:stop], lo[first:stop], hi[first:stop] = self._sides(first, stop)
        return equal_sized(attribute, lo, hi)

    def events(self, count: int, planted_every: int = PLANTED_EVERY) -> I2:
        """Draw events: int16[count, attributes]."""
        found = draw.below(draw.words(self.seed, 3, 0, count, self.attributes), RESOLUTION).astype(np.int16)
        for event in range(0, count, planted_every):
            row = event * 7_919 % self.subscriptions
            attribute, lo, hi = self._sides(row, row + 1)
            found[event, attribute[0]] = (lo[0].astype(np.int32) + hi[0]) // 2
        return found

    def popularity(self) -> F8:
        """Return the share of the subscriptions that have a range on each attribute, by a sample."""
        attribute = self._attributes(0, min(self.subscriptions, 1 << 14))
        return np.bincount(attribute.reshape(-1), minlength=self.attributes) / len(attribute)

    def _attributes(self, first: int, stop: int) -> Any:
        word = draw.words(self.seed, 1, first, stop - first, self.attributes)
        if not self.zipf:
            return draw.distinct(word, self.constrained)
        # The k smallest of exponential waiting times, whose rates are the weights: without replacement.
        waiting = -np.log1p(-draw.uniform(word)) * np.arange(1, self.attributes + 1) ** self.zipf
        return np.sort(np.argpartition(waiting, self.constrained - 1, axis=1)[:, : self.constrained], axis=1)

    def _sides(self, first: int, stop: int) -> tuple[Any, Any, Any]:
        """Return attributes and ends of the ranges of subscriptions [first, stop)."""
        attribute = self._attributes(first, stop)
        word = draw.words(self.seed, 2, first, stop - first, self.constrained)
        width = round(self.width * RESOLUTION)
        if self.is_random_width:
            one = draw.below(word, RESOLUTION)
            other = draw.below(draw.words(self.seed, 4, first, stop - first, self.constrained), RESOLUTION)
            return attribute, np.minimum(one, other), np.maximum(one, other)
        if self.values == "uniform":
            even = draw.below(word, RESOLUTION - width)
            return attribute, even, even + width
        lo = np.searchsorted(share_below(self.values), draw.uniform(word)) - width // 2
        hi = lo + width
        return attribute, np.maximum(lo, 0), np.minimum(hi, RESOLUTION - 1)
