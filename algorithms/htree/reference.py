"""What the kernels of HTREE's matchers must do, plainly: each rule as the paper words it."""

from __future__ import annotations

import itertools
import math
from typing import Any

from pubsub_cluster.algorithms.htree.tama_kernels import LEAVES


def ranges_of(rows: Any, row: int) -> list[tuple[int, Any, Any]]:
    """Return (attribute, lo, hi) of each range of a row."""
    stops, attribute, lo, hi = rows
    return [(int(attribute[at]), lo[at], hi[at]) for at in range(stops[row], stops[row + 1])]


def matching(rows: Any, alive: Any, values: Any) -> list[list[int]]:
    """Return the rows that each event matches: `range_kernels.scan` and both `match` kernels."""
    return [
        [
            row
            for row in range(len(alive))
            if alive[row] and all(lo <= event[number] <= hi for number, lo, hi in ranges_of(rows, row))
        ]
        for event in values
    ]


def position(value: float, low: float, high: float, knots: Any) -> float:
    """See `h_tree_kernels.position`."""
    if len(knots):
        return sum(1 for knot in knots if knot <= value) / len(knots)
    return (min(max(value, low), high) - low) / (high - low)


def nearest(centre: float, cells: int) -> int:
    """Return the cell whose centre, (j + 1)/c, is nearest; the lower of two (D-24)."""
    return min(range(cells - 1), key=lambda cell: (abs((cell + 1) / cells - centre), cell))


def cells_of_range(low: float, high: float, cells: int) -> set[int]:
    """Split a range into pieces no wider than 1/c; return their cells (D-25)."""
    pieces = max(1, math.ceil((high - low) * cells))
    width = (high - low) / pieces
    return {nearest(low + (piece + 0.5) * width, cells) for piece in range(pieces)}


def cells_of_value(at: float, cells: int) -> set[int]:
    """Return the cells that an event with this position is looked for in; -1: it has no value."""
    is_in = {cell for cell in range(cells - 1) if cell / cells <= at <= (cell + 2) / cells}
    return is_in | {cells - 1}


def buckets(digits: list[set[int]], cells: int) -> set[int]:
    """Return the numbers of buckets with these cells: digits in base c, first attribute highest."""
    found = set()
    for chosen in itertools.product(*digits):
        number = 0
        for cell in chosen:
            number = number * cells + cell
        found.add(number)
    return found


def leaf_of(value: float, low: float, high: float) -> int:
    """See `tama_kernels.leaf_of`."""
    share = (min(max(value, low), high) - low) / (high - low)
    return min(math.floor(share * LEAVES), LEAVES - 1)


def pieces(low: int, high: int, node: int = 1, first: int = 0, size: int = LEAVES) -> set[int]:
    """Return the fewest nodes that make up the cells low to high, top-down: `tama_kernels.pieces`."""
    if low <= first and first + size - 1 <= high:
        return {node}
    if high < first or low >= first + size:
        return set()
    half = size // 2
    return pieces(low, high, 2 * node, first, half) | pieces(low, high, 2 * node + 1, first + half, half)
