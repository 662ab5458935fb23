"""STOCK: the tables of RIABOV section 5, within four standard errors; any size, any slice, the same bytes."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from pubsub_cluster.benchmarks.workloads import stock
from pubsub_cluster.benchmarks.workloads.rules import matching
from pubsub_cluster.benchmarks.workloads.stock import ATTRIBUTES, MIXTURES, SIDES, Stock

MANY = 40_000


def near(seen: float, share: float, count: int = MANY) -> bool:
    """Whether a frequency is within four standard errors of its probability."""
    return abs(seen - share) <= 4 * math.sqrt(share * (1 - share) / count)


def test_receivers_have_the_shares_of_their_blocks_and_ranks() -> None:
    """RIABOV-24: 40, 30 and 30 % by block; Zipf over the stubs of a block and over the nodes of a stub."""
    made = Stock(subscriptions=MANY)
    found = made.rectangles()
    assert made.stubs.shape == (3, 11) and made.stubs[-1, -1] == 600
    assert np.array_equal(np.diff(made.stubs), np.full((3, 10), 20))
    for block, share in enumerate((0.4, 0.3, 0.3)):
        assert near(float((found.block == block).mean()), share)
    assert np.array_equal(found.block, found.receiver // 200)
    stub, node = found.receiver % 200 // 20, found.receiver % 20
    for rank in range(10):
        assert near(float((stub == rank).mean()), 1 / (rank + 1) / sum(1 / k for k in range(1, 11)))
        assert near(float((node == rank).mean()), 1 / (rank + 1) / sum(1 / k for k in range(1, 21)))


@pytest.mark.parametrize("receivers", [1, 2, 3, 7, 30, 31, 1_000, 12_345])
def test_any_number_of_receivers(receivers: int) -> None:
    made = Stock(subscriptions=5_000, receivers=receivers)
    found = made.rectangles()
    assert int(found.receiver.min()) == 0 and int(found.receiver.max()) < receivers
    first, last = made.stubs[found.block, 0], made.stubs[found.block, -1]
    assert np.all((first <= found.receiver) & (found.receiver < last))
    assert np.array_equal(made.receiver_of(), found.receiver)
    if receivers <= 31:
        assert len(np.unique(found.receiver)) == receivers


def test_subscriptions_have_the_distributions_of_the_table() -> None:
    """RIABOV-25; two-sided intervals are what is left: 0.65 of quotes, 0.45 of volumes."""
    found = Stock(subscriptions=MANY, fraction_bits=12).rectangles()
    kind = (found.lo[:, 0] + found.hi[:, 0]) / 2
    for number, share in enumerate((0.4, 0.4, 0.2)):
        assert near(float((kind == number).mean()), share)
    for block, centre in enumerate((3, 10, 17)):
        middle = (found.lo[:, 1] + found.hi[:, 1])[found.block == block] / 2
        assert abs(middle.mean() - centre) <= 4 * 4 / math.sqrt(len(middle))
        assert abs(middle.std() - 4) <= 4 * 4 / math.sqrt(2 * len(middle))
    length = np.round(found.hi[:, 1] - found.lo[:, 1])
    for rank in range(1, 21):
        assert near(float((length == rank).mean()), 1 / rank / sum(1 / k for k in range(1, 21)))
    for dimension, two_sided in ((2, 0.65), (3, 0.45)):
        side = SIDES[ATTRIBUTES[dimension]]
        lo, hi = found.lo[:, dimension], found.hi[:, dimension]
        has_lo, has_hi = np.isfinite(lo), np.isfinite(hi)
        assert near(float((~has_lo & ~has_hi).mean()), side.any)
        assert near(float((has_lo & ~has_hi).mean()), 0.1) and near(float((~has_lo & has_hi).mean()), 0.1)
        assert near(float((has_lo & has_hi).mean()), two_sided)
        for one_sided, end in ((has_lo & ~has_hi, lo), (~has_lo & has_hi, hi)):
            assert abs(end[one_sided].mean() - 9) <= 4 / math.sqrt(one_sided.sum())
        both = has_lo & has_hi
        middle = (lo[both] + hi[both]) / 2
        assert abs(middle.mean() - 9) <= 4 * 2 / math.sqrt(both.sum())
        size = (hi - lo)[both]
        assert size.min() >= 4 - 2**-11 and size.max() <= stock.LENGTH_MAX + 2**-11
        for end in (8, 16, 32):  # Pareto of scale 4 and shape 1: longer than x with probability 4/x
            assert near(float((size > end).mean()), 4 / end, int(both.sum()))


@pytest.mark.parametrize("modes", sorted(MIXTURES))
def test_publications_have_the_moments_of_their_mixtures(modes: int) -> None:
    """RIABOV-26, mean and second moment of each dimension, and the share of each mode's half."""
    points = Stock(modes=modes).points(MANY)
    for dimension, mixture in enumerate(MIXTURES[modes]):
        column = points[:, dimension]
        parts = list(zip(mixture.share, mixture.mean, mixture.deviation, strict=True))
        assert sum(mixture.share) == pytest.approx(1)
        for power in (1, 2):
            expected = sum(share * raw_moment(mean, s, power) for share, mean, s in parts)
            square = sum(share * raw_moment(mean, s, 2 * power) for share, mean, s in parts)
            error = math.sqrt((square - expected**2) / MANY)
            assert abs((column**power).mean() - expected) <= 4 * error


def raw_moment(mean: float, s: float, power: int) -> float:
    """E[x^power] of a normal."""
    return {
        1: mean,
        2: mean**2 + s**2,
        4: mean**4 + 6 * mean**2 * s**2 + 3 * s**4,
    }[power]


@pytest.mark.parametrize("bits", [4, 10])
def test_rules_are_the_rectangles(bits: int) -> None:
    """Open below, closed above, on whatever points the events lie."""
    made = Stock(subscriptions=700, fraction_bits=bits, narrowing=1.0 if bits == 4 else 3.0)
    rules, events, found = made.rules(), made.events(300), made.rectangles()
    points = made.numbers(events)
    total = 0
    for point, row in zip(points, events.value, strict=True):
        inside = np.flatnonzero(((found.lo < point) & (point <= found.hi)).all(axis=1))
        assert matching(rules, row).tolist() == inside.tolist()
        total += len(inside)
    assert total > 300
    assert np.abs(points - made.points(300))[:, 1:].max() <= 2.0 ** -(bits + 1)


def test_slices_and_bytes() -> None:
    """The same everywhere, whatever the slice; more subscriptions do not change the first ones."""
    made = Stock(subscriptions=500)
    whole, part = made.rectangles(), Stock(subscriptions=1_000_000).rectangles(123, 456)
    for one, other in zip(whole, part, strict=True):
        assert np.array_equal(one[123:456], other)
    digest = hashlib.sha256(whole.lo.tobytes() + whole.hi.tobytes() + whole.receiver.tobytes())
    assert digest.hexdigest()[:12] == "a33f2c3a0cc2"


def test_trades_have_the_shapes_of_section_5_1() -> None:
    """RIABOV-27, of the generator: quotes are about normal, lengths of names fall as their rank."""
    quotes = Stock(modes=1).points(MANY)[:, 2]
    ranked = np.sort((quotes - quotes.mean()) / quotes.std())
    for quantile, normal in ((0.1587, -1.0), (0.5, 0.0), (0.8413, 1.0), (0.9772, 2.0)):
        assert abs(ranked[int(quantile * MANY)] - normal) < 0.04
    found = Stock(subscriptions=MANY).rectangles()
    counts = np.sort(np.unique(found.hi[:, 1] - found.lo[:, 1], return_counts=True)[1])[::-1][:10]
    slope = np.polyfit(np.log(np.arange(1, 11)), np.log(counts), 1)[0]
    assert -1.1 < slope < -0.9
