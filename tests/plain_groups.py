"""The clustering of RIABOV A.2 and A.3 straight from its words, over sets and fractions: slow and plain.

A cell is (p, l): the number of its events and the set of its subscribers. A distance is the difference of two
expected wastes, each rounded once, as a machine that decides has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

PlainCell: TypeAlias = tuple[int, frozenset[int]]


def members(group: Sequence[PlainCell]) -> frozenset[int]:
    return frozenset().union(*(interested for _, interested in group))


def waste_by_definition(group: Sequence[PlainCell]) -> Fraction:
    """The expected number of members who get an event of the group in vain."""
    everybody = members(group)
    wasted = sum(p * len(everybody - interested) for p, interested in group)
    return Fraction(wasted, sum(p for p, _ in group))


def waste_by_recursion(group: Sequence[PlainCell], as_printed: bool = False) -> Fraction:
    """EW as cells join one after the other: D-21 corrected, or as the paper prints it."""
    waste, weight, known = Fraction(0), group[0][0], group[0][1]
    for p, interested in group[1:]:
        new, missing = len(interested - known), len(known - interested)
        old = waste * (1 + new) if as_printed else waste + new
        waste = (weight * old + p * missing) / (weight + p)
        weight, known = weight + p, known | interested
    return waste


def waste(group: Sequence[PlainCell], measure: str) -> float:
    """What is wasted: of a message of the group, or of all messages (times the number of events)."""
    mean = waste_by_definition(group) if group else Fraction(0)
    return float(mean if measure == "mean" else mean * sum(p for p, _ in group))


def distance(one: Sequence[PlainCell], other: Sequence[PlainCell], measure: str) -> float:
    """The increase of waste when two join; that of a cell is 0."""
    each = waste(one, measure), waste(other, measure)
    return waste([*one, *other], measure) - (max(each) if measure == "mean" else sum(each))


def plain_forgy(
    cells: Sequence[PlainCell],
    count: int,
    measure: str,
    renewal: str,
    founded: Sequence[int],
    passes_max: int = 100,
    is_growing: bool = False,
) -> tuple[list[int], int, bool]:
    """Return the group of each cell, the number of passes, and whether they came to rest.

    `founded` are the groups of the first cells; when the others join these they grow at once, or afterwards.
    """
    if count >= len(cells):
        return list(range(len(cells))), 0, True

    def closest(cell: int, group: Sequence[int], own_has_it: bool) -> int:
        def key(number: int) -> tuple[float, bool, int]:
            rest = [
                cells[each]
                for each in range(len(cells))
                if group[each] == number and (own_has_it or each != cell)
            ]
            return distance(rest, [cells[cell]], measure), number != group[cell], number

        return min(range(count), key=key)

    first = [*founded, *[-1] * (len(cells) - len(founded))]
    group = list(first)
    for cell in range(len(founded), len(cells)):
        group[cell] = closest(cell, group if is_growing else first, True)
    for passes in range(1, passes_max + 1):
        before = list(group)
        for cell in range(len(cells)):
            if group.count(group[cell]) == 1:
                continue
            group[cell] = closest(cell, group, False) if renewal == "move" else closest(cell, before, True)
        if group == before:
            return group, passes, True
    return group, passes_max, False


def plain_pairwise(cells: Sequence[PlainCell], count: int, measure: str) -> list[int]:
    groups = [[cell] for cell in range(len(cells))]

    def key(pair: tuple[int, int]) -> tuple[float, int, int]:
        one, other = ([cells[cell] for cell in groups[number]] for number in pair)
        return distance(one, other, measure), *pair

    while len(groups) > count:
        one, other = min(combinations(range(len(groups)), 2), key=key)
        groups[one] += groups.pop(other)
    return _numbers(groups)


def plain_spanning_tree(cells: Sequence[PlainCell], count: int, measure: str) -> list[int]:
    edges = sorted(
        (distance([cells[one]], [cells[other]], measure), one, other)
        for one, other in combinations(range(len(cells)), 2)
    )
    groups = [[cell] for cell in range(len(cells))]
    for _, one, other in edges:
        if len(groups) <= count:
            break
        left, right = (next(group for group in groups if cell in group) for cell in (one, other))
        if left is not right:
            left += right
            groups.remove(right)
    return _numbers(groups)


def _numbers(groups: Sequence[Sequence[int]]) -> list[int]:
    """Group of each cell, groups numbered by their first cells."""
    order = sorted(groups, key=min)
    found = {cell: number for number, group in enumerate(order) for cell in group}
    return [found[cell] for cell in sorted(found)]
