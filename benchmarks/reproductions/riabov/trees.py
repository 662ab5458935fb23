"""RIABOV section 3: what the S-tree promises of its shape, and how much of it a point query opens.

Queries are of STOCK with its intervals narrowed until about ten rectangles hold an event, whatever the
number of rectangles, so that output is the same and only the search grows; and of uniform boxes in 2 to 10
dimensions.
Beside it: the Hilbert-packed R-tree to which the paper compares. Answers are those of brute force.
"""

from __future__ import annotations

import itertools
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.interface import Matches
from pubsub_cluster.algorithms.registry import make_matcher
from pubsub_cluster.algorithms.riabov import hilbert_r_tree, s_tree
from pubsub_cluster.algorithms.riabov.packed_tree import Searcher, Tree, bounded
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
from pubsub_cluster.benchmarks.workloads.stock import Stock
from pubsub_cluster.language.expression import And, Atom, Operator, Or
from pubsub_cluster.language.raw_batch import AttributeEntries, NumberEntries, RawBatch
from pubsub_cluster.tuner import s_tree as packing

SIZES: dict[Scale, tuple[int, ...]] = {
    "small": (1_000, 10_000, 100_000),
    "paper": (1_000, 10_000, 100_000, 1_000_000),
}
DIMENSIONS = (2, 4, 6, 8, 10)
BRANCHES, SKEWS = (2, 10, 40), (0.1, 0.3, 0.5)
SHAPE_SIZE = 10_000
MATCHES = 10.0
QUERIES, CHECKED, PASSES = 1_000, 50, 3
FRACTION_BITS = 16
PACKERS = {"s-tree": s_tree.pack, "hilbert-r-tree": hilbert_r_tree.pack}


def stock_boxes(count: int, narrowing: float) -> tuple[Any, Any, Any]:
    """Return lo and hi, float64[4, count], closed below too by the next double, and points."""
    made = Stock(subscriptions=count, narrowing=narrowing, fraction_bits=FRACTION_BITS)
    found = made.rectangles()
    points = made.numbers(made.events(QUERIES))
    return np.nextafter(found.lo.T, np.inf), np.ascontiguousarray(found.hi.T), points


def narrowed_boxes(count: int) -> tuple[Any, Any, Any]:
    """Return STOCK's boxes, narrowed until an event has about `MATCHES`."""
    least, most = 1.0, float(1 << 14)
    for _ in range(12):
        narrowing = math.sqrt(least * most)
        lo, hi, points = stock_boxes(count, narrowing)
        if np.mean([_inside(lo, hi, point).sum() for point in points[:100]]) > MATCHES:
            least = narrowing
        else:
            most = narrowing
    return lo, hi, points


def uniform_boxes(count: int, dimensions: int) -> tuple[Any, Any, Any]:
    """Return uniform boxes of a side at which an event has `MATCHES` of them on average."""
    random = np.random.default_rng(dimensions)
    side = (MATCHES / count) ** (1 / dimensions)
    lo = random.uniform(-side / 2, 1 - side / 2, (dimensions, count))
    return lo, lo + side, random.uniform(0, 1, (QUERIES, dimensions))


def _inside(lo: Any, hi: Any, point: Any) -> Any:
    is_in = np.ones(lo.shape[1], np.bool_)
    for below, above, value in zip(lo, hi, point, strict=True):
        is_in &= (below <= value) & (value <= above)
    return is_in


def is_exact(tree: Tree, lo: Any, hi: Any, points: Any) -> bool:
    """Whether a tree finds what brute force finds, for some points and some corners of boxes."""
    corners = hi[:, np.linspace(0, hi.shape[1] - 1, CHECKED).astype(np.int64)].T
    corners = np.where(np.isfinite(corners), corners, 0.0)
    asked = np.ascontiguousarray(np.concatenate((points[:CHECKED], corners)))
    stops, places, _ = Searcher(tree).places(asked)
    return all(
        np.array_equal(
            np.sort(tree.order[places[stops[at] : stops[at + 1]]]), np.flatnonzero(_inside(lo, hi, p))
        )
        for at, p in enumerate(asked)
    )


def greatest_depth(tree: Tree) -> int:
    """Return how many nodes a way from the root to a leaf node has at most."""
    depth = np.ones(len(tree.first_child), np.int64)
    for node in np.flatnonzero(tree.is_leaf == 0).tolist():  # parents come first
        first = int(tree.first_child[node])
        depth[first : first + int(tree.child_count[node])] = depth[node] + 1
    return int(depth.max())


def queries(name: str, workload: str, lo: Any, hi: Any, points: Any) -> dict[str, Any]:
    """Pack and query; return a line of the CSV."""
    begin = time.perf_counter()
    tree = PACKERS[name](lo, hi)
    build_s = time.perf_counter() - begin
    searcher = Searcher(tree)
    points = np.ascontiguousarray(points)
    searcher.places(points[:1])
    times = []
    for _ in range(PASSES):
        begin = time.perf_counter()
        stops, _, visited = searcher.places(points)
        times.append((time.perf_counter() - begin) / len(points))
    return {
        "matcher": name,
        "workload": workload,
        "rectangles": lo.shape[1],
        "dimensions": lo.shape[0],
        "matches per event": float(stops[-1]) / len(points),
        "nodes": len(tree.first_child),
        "nodes visited per event": float(visited.mean()),
        "share of nodes visited": float(visited.mean()) / len(tree.first_child),
        "greatest depth": greatest_depth(tree),
        "us per event": 1e6 * min(times),
        "build s": build_s,
        "bytes per rectangle": tree.bytes / lo.shape[1],
        "equals brute force": is_exact(tree, lo, hi, points),
    }


def shapes(lo: Any, hi: Any) -> dict[str, bool]:
    """Return which promises of the packing hold at every node, for all M and p (RIABOV-02 to -05, -08)."""
    holds = dict.fromkeys(("RIABOV-02", "RIABOV-03", "RIABOV-04", "RIABOV-05", "RIABOV-08"), True)
    for branch in BRANCHES:
        for skew in SKEWS:
            binary = packing.binarise(lo, hi, branch, skew)
            inner = np.flatnonzero(binary.left != packing.NONE)
            count = binary.size[inner]
            least = np.minimum(binary.size[binary.left[inner]], binary.size[binary.right[inner]])
            is_none = np.ceil(skew * count - 1e-9) > np.floor((1 - skew) * count + 1e-9)
            fits = (least >= skew * count - 1e-9) | (is_none & (least == count // 2))
            holds["RIABOV-02"] &= bool(fits.all())
            places = [len(packing.candidate_places(int(one), branch, skew)) for one in count]
            expected = np.floor((1 - 2 * skew) * count / branch) + 1
            holds["RIABOV-05"] &= bool((np.abs(places - expected) <= 1).all())
            children = packing.compress(binary, branch)
            kept = [child for mine in children.values() for child in mine]
            leaves = set(np.flatnonzero(binary.left == packing.NONE).tolist())
            holds["RIABOV-08"] &= leaves == {child for child in kept if child not in children}
            for mine in children.values():
                holds["RIABOV-03"] &= len(mine) <= branch
                holds["RIABOV-04"] &= len(mine) == branch or all(child in leaves for child in mine)
    return holds


def breaks_a_promise(lo: Any, hi: Any) -> bool:
    """Whether the paper's bottom-up step leaves fewer than M children above the penultimate nodes."""
    children = packing.compress(packing.binarise(lo, hi, 10, 0.3), 10, bottom_up=True)
    return any(len(mine) < 10 and any(child in children for child in mine) for mine in children.values())


def depth_ratios(lo: Any, hi: Any) -> list[float]:
    """Return the greatest depth / log_M(N) for each p."""
    height = math.log(lo.shape[1], packing.BRANCH)
    return [greatest_depth(s_tree.pack(lo, hi, skew=skew)) / height for skew in SKEWS]


def disjunctions_are_right() -> bool:
    """Whether subscriptions of several ranges match whom the naive matcher says, each once (RIABOV-10)."""
    random = np.random.default_rng(10)
    catalogue = []
    for handle in range(300):
        ranges = [
            And((Atom("x", Operator.GT, int(low)), Atom("x", Operator.LE, int(low + width))))
            for low, width in random.integers(0, 50, (random.integers(1, 5), 2))
        ]
        catalogue.append((handle, Or(tuple(ranges))))
    event = np.arange(101, dtype=np.int32)
    numbers = NumberEntries(event, event.astype(np.int64), np.zeros(101))
    batch = RawBatch(101, {"x": AttributeEntries(numbers)}, {})
    answers: list[Matches] = []
    for name in ("s-tree", "naive"):
        matcher = make_matcher(name)
        matcher.build(catalogue)
        answers.append(matcher.match(batch))
    return all(np.array_equal(one, other) for one, other in zip(*answers, strict=True))


def run(scale: Scale, note: Note) -> Outcome:
    """Pack, look at the shapes, query."""
    lines = []
    for count in SIZES[scale]:
        workloads = {"STOCK": narrowed_boxes(count)}
        if count == SIZES[scale][-2]:
            workloads |= {f"uniform, N = {n}": uniform_boxes(count, n) for n in DIMENSIONS}
        for workload, boxes in workloads.items():
            lines += [queries(name, workload, *boxes) for name in PACKERS]
        note(f"{count:,} rectangles")
    lo, hi, _ = stock_boxes(SHAPE_SIZE, 1.0)
    finite = bounded(lo, hi)
    verdicts = [
        decided(
            "RIABOV-01",
            all(line["equals brute force"] for line in lines),
            f"{2 * CHECKED} points, of which {CHECKED} on faces, in each of {len(lines)} trees",
        ),
        *_shape_verdicts(shapes(*finite), breaks_a_promise(*finite)),
        _example(),
        _depth_verdict(depth_ratios(lo, hi)),
        _query_verdict(lines),
        decided("RIABOV-10", disjunctions_are_right(), "300 disjunctions of up to 4 ranges, 101 events"),
    ]
    return Outcome(lines, sorted(verdicts), partial(_draw, lines))


def _shape_verdicts(holds: dict[str, bool], is_broken: bool) -> list[Verdict]:
    ours = f"{SHAPE_SIZE:,} rectangles of STOCK, M = 2, 10, 40, p = 0.1, 0.3, 0.5"
    found = [decided(claim, is_held, ours) for claim, is_held in holds.items()]
    at = next(number for number, one in enumerate(found) if one.claim == "RIABOV-04")
    also = "with the bottom-up step an inner node has fewer" if is_broken else "with the bottom-up step too"
    found[at] = found[at]._replace(ours=f"{ours}; {also}")
    return found


def _example() -> Verdict:
    places = packing.candidate_places(8, 2, 0.25).tolist()
    return decided("RIABOV-06", places == [2, 4, 6], f"places {places}")


def _depth_verdict(ratios: list[float]) -> Verdict:
    ours = ", ".join(f"p = {skew}: {ratio:.2f}" for skew, ratio in zip(SKEWS, ratios, strict=True))
    return decided("RIABOV-07", all(a >= b for a, b in itertools.pairwise(ratios)), ours, "it grows")


def _query_verdict(lines: list[dict[str, Any]]) -> Verdict:
    stock = [line for line in lines if line["workload"] == "STOCK" and line["matcher"] == "s-tree"]
    sizes = [line["rectangles"] for line in stock]
    slope = log_slope(sizes, [line["us per event"] for line in stock])
    largest = stock[-1]
    ours = (
        f"{largest['share of nodes visited']:.3f} of the nodes at {sizes[-1]:,} with "
        f"{largest['matches per event']:.1f} matches; slope {slope:.2f}"
    )
    if sizes[-1] < 1_000_000:
        return Verdict("RIABOV-09", "not decided", ours, "the scale `paper` has 1,000,000 rectangles")
    return decided(
        "RIABOV-09",
        largest["share of nodes visited"] <= 0.2 and slope < 1.0,
        ours,
        "sides without ends, of which STOCK has many, make bounding boxes overlap",
    )


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 3, "Point queries with about ten matches an event (RIABOV section 3)")
    for name in PACKERS:
        mine = [line for line in lines if line["matcher"] == name]
        stock = [line for line in mine if line["workload"] == "STOCK"]
        sizes = [line["rectangles"] for line in stock]
        axes[0, 0].plot(sizes, [line["share of nodes visited"] for line in stock], marker="o", label=name)
        axes[0, 1].plot(sizes, [line["us per event"] for line in stock], marker="o", label=name)
        uniform = [line for line in mine if line["workload"] != "STOCK"]
        numbers = [line["dimensions"] for line in uniform]
        axes[0, 2].plot(numbers, [line["us per event"] for line in uniform], marker="o", label=name)
    for one, label in ((axes[0, 0], "share of nodes visited (1)"), (axes[0, 1], "time per event (µs)")):
        one.set(xlabel="rectangles of STOCK (number)", ylabel=label, xscale="log", yscale="log")
    axes[0, 2].set(xlabel="dimensions, uniform boxes (number)", ylabel="time per event (µs)", yscale="log")
    for one in axes.flat:
        one.legend(fontsize="small")
    save(pyplot, figure, path)
