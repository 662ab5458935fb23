"""RIABOV figure 4, with our data: what STOCK draws, in the shapes that the paper found in real trade."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.benchmarks.reproductions.fits import log_slope
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.workloads.stock import (
    ATTRIBUTES,
    KIND_SHARE,
    LENGTH_MAX,
    MIXTURES,
    NAME_CENTRE,
    NAME_DEVIATION,
    SIDES,
    Rectangles,
    Stock,
)

COUNT: dict[Scale, int] = {"small": 50_000, "paper": 1_000_000}
BINS = 60


def run(scale: Scale, note: Note) -> Outcome:
    """Draw subscriptions and publications; test them."""
    made = Stock(subscriptions=COUNT[scale], fraction_bits=12)
    found = made.rectangles()
    note(f"{COUNT[scale]:,} subscriptions and publications")
    quotes = Stock(modes=1).points(COUNT[scale])[:, 2]
    price = quotes / quotes.mean()
    places = np.sort(np.bincount(found.receiver, minlength=made.receivers))[::-1]
    length = (found.hi - found.lo)[:, 2]
    length = np.sort(length[np.isfinite(length)])[::-1]
    heights, edges = np.histogram(price, BINS, (0.0, 2.0))
    density = heights / len(price) / (edges[1] - edges[0])
    lines: list[dict[str, Any]] = [
        {"panel": "price / mean", "x": float(x), "y": float(y)}
        for x, y in zip((edges[:-1] + edges[1:]) / 2, density, strict=True)
    ]
    lines += [
        {"panel": "subscriptions of a node, by rank", "x": rank, "y": int(y)}
        for rank, y in enumerate(places, 1)
    ]
    ranks = np.unique(np.geomspace(1, len(length), 100).astype(np.int64))
    lines += [
        {"panel": "length of a two-sided quote, by rank", "x": int(rank), "y": float(length[rank - 1])}
        for rank in ranks
    ]
    deviation = float(price.std())
    middle = (length < LENGTH_MAX * 0.8) & (length > 5.0)
    slope = log_slope(length[middle], np.flatnonzero(middle) + 1)
    shapes = f"prices N(1, {deviation:.3f}), lengths fall as length^{slope:.2f} (Pareto, shape 1: -1)"
    verdicts = [
        _subscriptions(found),
        _publications(COUNT[scale]),
        Verdict("RIABOV-27", "not decided", shapes, "the data of the stock exchange are not available"),
    ]
    return Outcome(lines, verdicts, partial(_draw, lines, deviation))


def _is_near(is_true: Any, share: float) -> bool:
    error = math.sqrt(share * (1 - share) / len(is_true))
    return abs(float(np.mean(is_true)) - share) <= 4 * error


def _subscriptions(found: Rectangles) -> Verdict:
    kind = (found.lo[:, 0] + found.hi[:, 0]) / 2
    tests = [_is_near(kind == number, share) for number, share in enumerate(KIND_SHARE)]
    for block, centre in enumerate(NAME_CENTRE):
        middle = (found.lo[:, 1] + found.hi[:, 1])[found.block == block] / 2
        tests.append(abs(middle.mean() - centre) <= 4 * NAME_DEVIATION / math.sqrt(len(middle)))
    shares = []
    for name, side in SIDES.items():
        at = ATTRIBUTES.index(name)
        has_lo, has_hi = np.isfinite(found.lo[:, at]), np.isfinite(found.hi[:, at])
        two_sided = 1 - side.any - side.above - side.below
        tests += [
            _is_near(~has_lo & ~has_hi, side.any),
            _is_near(has_lo & ~has_hi, side.above),
            _is_near(~has_lo & has_hi, side.below),
            _is_near(has_lo & has_hi, two_sided),
        ]
        shares.append(f"{name} {float((has_lo & has_hi).mean()):.4f} of {two_sided:.2f}")
    return decided("RIABOV-25", all(tests), f"{len(tests)} tests; two-sided: " + ", ".join(shares))


def _publications(count: int) -> Verdict:
    tests = []
    for modes, mixtures in MIXTURES.items():
        points = Stock(modes=modes).points(count)
        for dimension, mixture in enumerate(mixtures):
            parts = list(zip(mixture.share, mixture.mean, mixture.deviation, strict=True))
            first = sum(share * mean for share, mean, _ in parts)
            second = sum(share * (mean**2 + s**2) for share, mean, s in parts)
            fourth = sum(share * (mean**4 + 6 * mean**2 * s**2 + 3 * s**4) for share, mean, s in parts)
            column = points[:, dimension]
            tests.append(abs(column.mean() - first) <= 4 * math.sqrt((second - first**2) / count))
            tests.append(abs((column**2).mean() - second) <= 4 * math.sqrt((fourth - second**2) / count))
    return decided("RIABOV-26", all(tests), f"{len(tests)} moments of {count:,} publications each")


def _draw(lines: list[dict[str, Any]], deviation: float, path: Path) -> None:
    pyplot, figure, axes = canvas(1, 3, "What STOCK draws (RIABOV figure 4, our data)")
    panels = list(dict.fromkeys(line["panel"] for line in lines))
    for one, panel in zip(axes.flat, panels, strict=True):
        mine = [(line["x"], line["y"]) for line in lines if line["panel"] == panel]
        one.plot(*zip(*mine, strict=True), marker=".", linestyle="none", label="drawn")
        one.set_title(panel, fontsize=10)
    x = np.linspace(0, 2, 200)
    normal = np.exp(-(((x - 1) / deviation) ** 2) / 2) / deviation / math.sqrt(2 * math.pi)
    axes[0, 0].plot(x, normal, label="normal")
    axes[0, 0].set(xlabel="price / mean price (1)", ylabel="density (1)")
    axes[0, 1].set(xlabel="rank of the node (number)", ylabel="subscriptions (number)")
    axes[0, 2].set(xlabel="rank (number)", ylabel="length (price units)")
    for one in (axes[0, 1], axes[0, 2]):
        one.set(xscale="log", yscale="log")
    axes[0, 0].legend(fontsize="small")
    save(pyplot, figure, path)
