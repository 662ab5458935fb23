"""STOCK: what brokers' clients want to hear of the stock market (Riabov et al., section 5).

A subscription is a rectangle over (bst, name, quote, volume), open below and closed above, of a receiver at a
node of a network of three blocks. An event is a point, drawn from a mixture of 1, 4 or 9 normals. The tables
of the paper are `SIDES`, `BLOCK_SHARE`, `NAME_CENTRE` and `MIXTURES`. What it leaves open, and what we take:

- B, S and T are the numbers 0, 1, 2 for the geometry, texts for the product. A publication's first
  dimension, N(1, 1), is the nearest of the three.
- Zipf-like: weight 1/rank. The lengths of name intervals are 1 to `NAME_LENGTHS`.
- The Pareto distribution (c, alpha) has scale c and shape alpha; with alpha = 1 it has no mean, so lengths
  end at `LENGTH_MAX`.
- The two numbers of a normal are mean and deviation, of subscriptions as of publications.
- For nine modes the text speaks of dimensions three and four and says too that the fourth is unchanged: two
  and three are meant.
- Values have `fraction_bits` bits after the point (4: shares of 1999 are quoted in sixteenths), so that equal
  predicates exist and are stored once.

The paper has 1,000 subscriptions at 600 nodes. Any number of subscriptions and receivers has the same
distributions; `narrowing` divides all lengths, so that an event matches few of a million.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.benchmarks.workloads import draw
from pubsub_cluster.benchmarks.workloads.rules import I4, TOP, Domain, Events, Rules, interval_rules

F8 = npt.NDArray[np.float64]

ATTRIBUTES = ("bst", "name", "quote", "volume")
KINDS = ("B", "S", "T")
KIND_SHARE = (0.4, 0.4, 0.2)
BLOCK_SHARE = (0.4, 0.3, 0.3)
STUBS_PER_BLOCK = 10
"""Five transit nodes of two stubs each, on average."""
NODES = 600
NAME_CENTRE, NAME_DEVIATION, NAME_LENGTHS = (3.0, 10.0, 17.0), 4.0, 20
LENGTH_MAX = 40.0
ORIGIN = -64.0
"""Below every value: normals of 53-bit uniform words end at 8.6 deviations."""
STEP = 1 << 18


class Side(NamedTuple):
    """The parameters of quote or volume: a row of the paper's table.

    Attributes
    ----------
    any, above, below : float
        q_0, q_1, q_2: probabilities of no predicate, of ``> n`` and of ``<= n``.
    above_n, below_n, centre : (float, float)
        Mean and deviation.
    length : (float, float)
        Scale and shape of a Pareto distribution.
    """

    any: float
    above: float
    below: float
    above_n: tuple[float, float] = (9.0, 1.0)
    below_n: tuple[float, float] = (9.0, 1.0)
    centre: tuple[float, float] = (9.0, 2.0)
    length: tuple[float, float] = (4.0, 1.0)


SIDES = {"quote": Side(0.15, 0.1, 0.1), "volume": Side(0.35, 0.1, 0.1)}


class Normals(NamedTuple):
    """A mixture of normals in one dimension."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    share: tuple[float, ...] = (1.0,)


_KIND, _VOLUME = Normals((1.0,), (1.0,)), Normals((9.0,), (6.0,))
_THIRDS = (0.3, 0.4, 0.3)
MIXTURES = {
    1: (_KIND, Normals((10.0,), (6.0,)), Normals((9.0,), (2.0,)), _VOLUME),
    4: (
        _KIND,
        Normals((12.0, 6.0), (3.0, 2.0), (0.5, 0.5)),
        Normals((4.0, 16.0), (2.0, 2.0), (0.5, 0.5)),
        _VOLUME,
    ),
    9: (
        _KIND,
        Normals((4.0, 11.0, 18.0), (3.0, 3.0, 3.0), _THIRDS),
        Normals((4.0, 9.0, 16.0), (3.0, 3.0, 3.0), _THIRDS),
        _VOLUME,
    ),
}
"""By the number of modes: the dimensions, each drawn for itself."""


class Rectangles(NamedTuple):
    """Subscriptions as rectangles ``lo < x <= hi`` of numbers; infinite: no end.

    Attributes
    ----------
    lo, hi : float64[n, 4]
    receiver : int32[n]
        Whose they are.
    block : int32[n]
        Block of the network that the receiver is in.
    """

    lo: F8
    hi: F8
    receiver: I4
    block: I4


@dataclass(frozen=True)
class Stock:
    """See the module.

    Attributes
    ----------
    name : str
    subscriptions : int
    seed : int
    receivers : int
        Numbered from 0; block after block, stub after stub.
    modes : {1, 4, 9}
        Of the publications.
    narrowing : float
        What lengths of intervals are divided by; more than 1 needs more bits.
    fraction_bits : int
        At most 16.
    """

    name: str = "STOCK"
    subscriptions: int = 1_000
    seed: int = 1
    receivers: int = NODES
    modes: int = 9
    narrowing: float = 1.0
    fraction_bits: int = 4

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The attributes."""
        scale = 1.0 / (1 << self.fraction_bits)
        return (
            Domain("bst", texts=KINDS),
            *(Domain(name, scale, origin=ORIGIN) for name in ATTRIBUTES[1:]),
        )

    @property
    def stubs(self) -> npt.NDArray[np.int64]:
        """First receiver of each stub, and their number: int64[blocks, stubs of a block + 1]."""
        blocks = min(len(BLOCK_SHARE), self.receivers)
        each = min(STUBS_PER_BLOCK, self.receivers // blocks)
        bounds = np.arange(blocks * each + 1) * self.receivers // (blocks * each)
        return np.stack([bounds[block * each : (block + 1) * each + 1] for block in range(blocks)])

    def receiver_of(self) -> I4:
        """Return the receiver of each subscription: int32[n]."""
        return self._placed(0, self.subscriptions)[0]

    def rectangles(self, first: int = 0, stop: int | None = None) -> Rectangles:
        """Draw the subscriptions [first, stop) as rectangles; ends are multiples of the smallest step."""
        stop = self.subscriptions if stop is None else stop
        rows = stop - first
        receiver, block = self._placed(first, rows)
        lo, hi = np.full((rows, 4), -np.inf), np.full((rows, 4), np.inf)
        kind = _pick(KIND_SHARE, self._uniform(3, first, rows, 1)[:, 0])
        lo[:, 0], hi[:, 0] = kind - 0.5, kind + 0.5
        word = self._uniform(4, first, rows, 1)[:, 0]
        centre = np.asarray(NAME_CENTRE)[block] + NAME_DEVIATION * self._normal(5, first, rows)
        length = 1.0 + np.asarray(_pick(_zipf(NAME_LENGTHS), word), np.float64)
        self._interval(lo[:, 1], hi[:, 1], centre, length)
        for dimension, name in enumerate(ATTRIBUTES[2:], 2):
            self._side(SIDES[name], 4 * dimension, first, lo[:, dimension], hi[:, dimension])
        return Rectangles(lo, hi, receiver, block)

    def rules(self) -> Rules:
        """Draw the subscriptions."""
        parts = [
            self._literals(first, min(first + STEP, self.subscriptions))
            for first in range(0, self.subscriptions, STEP)
        ]
        attribute, lo, hi, count = (np.concatenate(column) for column in zip(*parts, strict=True))
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(count, dtype=np.int64)))
        return interval_rules(self.domains, attribute, lo, hi, start)

    def points(self, count: int, first: int = 0) -> F8:
        """Draw publications [first, first + count) as the paper has them: float64[count, 4]."""
        found = np.empty((count, len(ATTRIBUTES)))
        for dimension, mixture in enumerate(MIXTURES[self.modes]):
            mode = _pick(mixture.share, self._uniform(40 + dimension, first, count, 1)[:, 0])
            deviation = np.asarray(mixture.deviation)[mode]
            normal = self._normal(50 + dimension, first, count)
            found[:, dimension] = np.asarray(mixture.mean)[mode] + deviation * normal
        return found

    def events(self, count: int, first: int = 0) -> Events:
        """Draw events [first, first + count)."""
        points = self.points(count, first)
        value = self._steps(points)
        value[:, 0] = nearest_kind(points[:, 0])
        return Events(self.domains, value)

    def numbers(self, events: Events) -> F8:
        """Return events as points of the space that `rectangles` lie in: float64[n, 4]."""
        found = ORIGIN + events.value / (1 << self.fraction_bits)
        found[:, 0] = events.value[:, 0]
        return found

    def _placed(self, first: int, rows: int) -> tuple[I4, I4]:
        """Return receivers and blocks: Zipf between the stubs of a block, and within each stub."""
        stubs = self.stubs
        word = self._uniform(1, first, rows, 3)
        block = _pick(BLOCK_SHARE[: len(stubs)], word[:, 0])
        stub = _pick(_zipf(stubs.shape[1] - 1), word[:, 1])
        begin, size = stubs[block, stub], stubs[block, stub + 1] - stubs[block, stub]
        # Stubs differ by at most one node, so that there are one or two sizes.
        place = np.zeros(rows, np.int64)
        for each in np.unique(size).tolist():
            place[size == each] = _pick(_zipf(each), word[size == each, 2])
        return (begin + place).astype(np.int32), block.astype(np.int32)

    def _side(self, side: Side, stream: int, first: int, lo: F8, hi: F8) -> None:
        """Draw the intervals of one of quote and volume into `lo` and `hi`."""
        rows = len(lo)
        rest = 1.0 - side.any - side.above - side.below
        form = _pick((side.any, side.above, side.below, rest), self._uniform(stream, first, rows, 1)[:, 0])
        normal = self._normal(stream + 1, first, rows)
        above, below, both = form == 1, form == 2, form == 3
        lo[above] = self._rounded(side.above_n[0] + side.above_n[1] * normal[above])
        hi[below] = self._rounded(side.below_n[0] + side.below_n[1] * normal[below])
        scale, shape = side.length
        word = self._uniform(stream + 2, first, rows, 1)[:, 0]
        length = np.asarray(np.minimum(scale * (1.0 - word) ** (-1.0 / shape), LENGTH_MAX), np.float64)
        within_lo, within_hi = np.empty(rows), np.empty(rows)
        self._interval(within_lo, within_hi, side.centre[0] + side.centre[1] * normal, length)
        lo[both], hi[both] = within_lo[both], within_hi[both]

    def _interval(self, lo: F8, hi: F8, centre: F8, length: F8) -> None:
        """Write intervals, none of them empty."""
        lo[:] = self._rounded(centre - length / self.narrowing / 2)
        least = 1.0 / (1 << self.fraction_bits)
        hi[:] = np.maximum(self._rounded(centre + length / self.narrowing / 2), lo + least)

    def _rounded(self, number: F8) -> F8:
        return np.round(number * (1 << self.fraction_bits)) / (1 << self.fraction_bits)

    def _steps(self, number: F8) -> I4:
        """Return numbers as steps above the origin, as `Rules` and `Events` have them."""
        steps = np.round((number - ORIGIN) * (1 << self.fraction_bits))
        return np.clip(steps, 0, TOP - 1).astype(np.int32)

    def _literals(self, first: int, stop: int) -> tuple[I4, I4, I4, I4]:
        """Return attribute, low and high end (both closed) of the literals, and how many each one has."""
        found = self.rectangles(first, stop)
        has = np.isfinite(found.lo) | np.isfinite(found.hi)
        lo = np.where(np.isfinite(found.lo), self._steps(found.lo) + 1, 0)
        hi = np.where(np.isfinite(found.hi), self._steps(found.hi), TOP)
        lo[:, 0] = hi[:, 0] = np.round((found.lo[:, 0] + found.hi[:, 0]) / 2)
        attribute = np.nonzero(has)[1]
        return (
            attribute.astype(np.int32),
            lo[has].astype(np.int32),
            hi[has].astype(np.int32),
            has.sum(axis=1).astype(np.int32),
        )

    def _uniform(self, stream: int, first: int, rows: int, columns: int) -> F8:
        return draw.uniform(draw.words(self.seed, stream, first, rows, columns))

    def _normal(self, stream: int, first: int, rows: int) -> F8:
        """Return standard normals (Box and Muller)."""
        word = self._uniform(stream, first, rows, 2)
        return np.sqrt(-2.0 * np.log1p(-word[:, 0])) * np.cos(2.0 * np.pi * word[:, 1])


def nearest_kind(number: F8) -> I4:
    """Return which of B, S, T a publication's first dimension is."""
    return np.clip(np.ceil(number - 0.5), 0, len(KINDS) - 1).astype(np.int32)


def _zipf(count: int) -> tuple[float, ...]:
    """Return the shares of ranks 1 to `count`: as 1/rank."""
    weight = 1.0 / np.arange(1, count + 1)
    return tuple((weight / weight.sum()).tolist())


def _pick(share: tuple[float, ...], word: F8) -> npt.NDArray[np.int64]:
    """Return a place of each uniform word in the cumulated shares."""
    cumulated = np.cumsum(share) / sum(share)
    return np.searchsorted(cumulated[:-1], word, side="right")


def stock(subscriptions: int = 1_000, seed: int = 1, receivers: int = NODES, modes: int = 9) -> Stock:
    """Return STOCK."""
    return Stock(subscriptions=subscriptions, seed=seed, receivers=receivers, modes=modes)
