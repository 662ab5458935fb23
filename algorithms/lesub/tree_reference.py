"""The searches of `tree_kernels` and `hanson_kernels` once more, with the same signatures, plainly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import truth


def holds(value: Any, comparison: Any, constant: Any) -> bool:
    """See `tree_kernels.holds`."""
    return not math.isnan(constant) and bool(truth(np.array([value]), int(comparison), constant)[0])


def descend(values: Any, levels: Any, tree: Any, leaf_of: Any, work: Any) -> None:
    """See `tree_kernels.descend`; `work` is left alone."""
    other, stops, bound, child = tree
    for event, row in enumerate(values):
        node = 0
        for attribute in levels.tolist():
            if node >= 0:
                edges = range(stops[node], stops[node + 1])
                taken = [edge for edge in edges if bound[edge] <= row[attribute]]
                node = child[taken[-1]] if taken else other[node]
        leaf_of[event] = node


def walk(
    values: Any,
    bits: Any,
    positions: Any,
    tests: Any,
    edges: Any,
    stack: Any,
    begin: int,
    stops: Any,
    found: Any,
    work: Any,
) -> int:
    """See `tree_kernels.walk`."""
    first_test, first_place, next_place = positions
    attribute, comparison, constant, next_test, below = tests
    used = np.flatnonzero(edges[0] >= 0)
    table = {
        (int(edges[0][at]), float(edges[1][at : at + 1].view(np.float64)[0])): edges[2][at] for at in used
    }

    def chain(first: int, following: Any) -> list[int]:
        return [first, *chain(following[first], following)] if first >= 0 else []

    def visit(row: Any, position: int, counts: list[int]) -> list[int]:
        mine = chain(first_place[position], next_place)
        children = []
        for test in chain(first_test[position], next_test):
            counts[0] += 1
            value = float(row[attribute[test]])
            if comparison[test] == 2:
                children += [table[test, value]] if (test, value) in table else []
            elif holds(value, comparison[test], constant[test]):
                children.append(below[test])
        counts[0] += bool(mine)
        counts[1] += bool(mine)
        counts[2] += not mine and not children
        return mine + [place for child in children for place in visit(row, child, counts)]

    for event in range(begin, len(values)):
        counts = [0, 0, 0]
        places = visit(values[event], 0, counts)
        if not _put(places, event, stops, found):
            return event
        work[event] = counts
    return len(values)


def query(
    values: Any,
    kinds: Any,
    operations: Any,
    rows: Any,
    need: Any,
    count: Any,
    begin: int,
    stops: Any,
    found: Any,
    work: Any,
) -> int:
    """See `tree_kernels.query`."""
    first, following, attribute, comparison, other, first_row = operations
    next_row, place_of, constant = rows
    for event in range(begin, len(values)):
        row, read, evaluated, satisfied = values[event], 0, 0, []
        operation = first[kinds[event]] if kinds[event] >= 0 else -1
        while operation >= 0:
            read += 1
            value, to = row[attribute[operation]], other[operation]
            at = first_row[operation]
            while at >= 0 and not math.isnan(value):
                evaluated += 1
                if holds(value, comparison[operation], row[to] if to >= 0 else constant[at]):
                    satisfied.append(place_of[at])
                at = next_row[at]
            operation = following[operation]
        times = np.bincount(np.array(satisfied, np.int64), minlength=len(need))
        places = np.flatnonzero((times == need) & (need > 0)).tolist()
        if not _put(places, event, stops, found):
            return event
        work[event] = read, evaluated, len(satisfied)
    return len(values)


def search(
    values: Any, trees: Any, forest: Any, store: Any, begin: int, stops: Any, found: Any, work: Any
) -> int:
    """See `hanson_kernels.search`; of `work`, only the candidates."""
    first, ends, attribute, comparison, constant = store
    for event in range(begin, len(values)):
        row, places, candidates = values[event], [], 0
        for tree, root in zip(*trees, strict=True):
            for place in stabbed(float(row[tree]), int(root), forest):
                candidates += 1
                rest = range(first[place], ends[place + 1])
                if all(holds(row[attribute[one]], comparison[one], constant[one]) for one in rest):
                    places.append(place)
        if not _put(places, event, stops, found):
            return event
        work[event] = work[event, 0], candidates, work[event, 2]
    return len(values)


def stabbed(value: float, root: int, forest: Any) -> list[int]:
    """Return the intervals that are marked on a value's path."""
    keys, links, _, marks = forest[:4]
    if math.isnan(value) or root < 0:
        return []
    side = 2 if value == keys[root] else int(value > keys[root])
    mine, mark = [], links[root, 2 + side]
    while mark >= 0:
        mine.append(int(marks[mark, 0]))
        mark = marks[mark, 2]
    return mine + (stabbed(value, int(links[root, side]), forest) if side < 2 else [])


def gough_nodes(intervals: Any, place_count: int) -> int:
    """Return the number of nodes of Gough and Smith's tree over `intervals.Intervals`, by recursion."""
    attributes = np.unique(intervals.attribute).tolist()

    def count(places: frozenset[int], level: int) -> int:
        if level == len(attributes) or not places:
            return int(bool(places))
        mine = [
            (int(place), float(lo), float(hi))
            for place, attribute, lo, hi in zip(*intervals, strict=True)
            if attribute == attributes[level] and place in places
        ]
        free = places - {place for place, _, _ in mine}
        # Ranges begin where intervals start, and at the doubles after their ends; after inf there is none.
        ends = sorted({(lo, 0) for _, lo, _ in mine} | {_after(hi) for _, _, hi in mine})
        total = 1 + count(free, level + 1)
        for at in ends[:-1]:
            taken = frozenset(place for place, lo, hi in mine if (lo, 0) <= at < _after(hi))
            total += count(free | taken, level + 1) if taken else 0
        return total

    return max(1, count(frozenset(range(place_count)), 0))


def _after(end: float) -> tuple[float, int]:
    return (math.inf, 1) if end == math.inf else (math.nextafter(end, math.inf), 0)


def _put(places: list[int], event: int, stops: Any, found: Any) -> bool:
    """Write what an event has found; return whether there was room."""
    end = stops[event] + len(places)
    if end > len(found):
        return False
    found[stops[event] : end] = places
    stops[event + 1] = end
    return True
