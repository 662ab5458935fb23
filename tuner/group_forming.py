"""Cells into groups that waste little: Forgy k-means, pairwise grouping, spanning tree (RIABOV A.2, A.3).

The expected waste EW of a group is the expected number of its members who get a message of it in vain. With
the corrected recursion of D-21 (the printed one lets its first term vanish while EW is 0) it is

    EW(G) = sum over cells c of p(c) * #(l(G) \\ l(c)) / p(G) = (p(G) * #l(G) - sum of p(c) * #l(c)) / p(G),

so a group is known by p(G), its *reach* r(G) = sum of p(c) * #l(c), and #l(G). "The amount of increase in the
expected number of wasted messages" when a cell joins a group, the paper's distance, can be read in two ways:

    mean    EW(G + c) - EW(G), as D-21 has it: of a message of the group; it may be negative
    total   p(G + c) * EW(G + c) - p(G) * EW(G): of all messages; never negative

With `total`, and groups renewed by each move, Forgy k-means cannot but come to rest, in a local optimum of
the total waste, which is what the paper says of it. With `mean`, or groups renewed once per pass (D-20), it
may run in circles, and wastes more on the paper's own workload. Which optimum it comes to depends on where it
starts: from the heaviest cells, as in the paper, which want much the same, it ends worse than pairwise
grouping, and from pairwise grouping of the heaviest cells better (ADR 20). So these are the default, and the
others are there to compare. Where p are counts of events all sums are exact, each quotient is rounded once,
and the result depends on nothing but the input. Ties go to a cell's own group, then to the lowest number.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import F8, I4, I8, U8

PASSES_MAX = 100
"""Of Forgy k-means; the paper limits them too and does not say to how many (RIABOV-21)."""

FOUNDING_CELLS = 1_000
"""That pairwise grouping starts Forgy k-means from, at least: its time grows with their square."""
BLOCK_CELLS = 64

Measure: TypeAlias = Literal["total", "mean"]
Start: TypeAlias = Literal["pairs", "heaviest", "growing"]
Renewal: TypeAlias = Literal["move", "pass"]
MEASURES: tuple[Measure, ...] = ("total", "mean")
METHODS = ("forgy", "pairwise", "spanning-tree")


class Formed(NamedTuple):
    """Cells in groups.

    Attributes
    ----------
    group : int32[T]
        Of each cell; each group has some.
    passes : int
        Over all cells, the first assignment not counted; 0 where the method makes none.
    is_stable : bool
        Whether the last pass moved nothing.
    """

    group: I4
    passes: int = 0
    is_stable: bool = True


def form(method: str, weight: F8, bits: U8, group_count: int, measure: Measure = "total") -> Formed:
    """Form groups of cells by one of `METHODS`.

    Parameters
    ----------
    method : str
    weight : float64[T]
        p(c), positive.
    bits : uint64[T, words]
        l(c): bitmaps over owners.
    group_count : int
        The most groups.
    measure : {"total", "mean"}
    """
    if method == "pairwise":
        return pairwise(weight, bits, group_count, measure)
    if method == "spanning-tree":
        return spanning_tree(weight, bits, group_count, measure)
    return forgy(weight, bits, group_count, measure)


def expected_waste(weight: F8, reach: F8, size: I8) -> F8:
    """Return EW of groups by p, reach and number of members (D-21); 0 of an empty one."""
    waste: F8 = (weight * size - reach) / np.where(weight > 0, weight, 1.0)
    return waste


def _waste(measure: Measure, weight: F8, reach: F8, size: I8) -> F8:
    """Return what a distance is the difference of."""
    return expected_waste(weight, reach, size) if measure == "mean" else weight * size - reach


def _count(sets: U8) -> I8:
    counts: I8 = np.bitwise_count(sets).sum(axis=-1, dtype=np.int64)
    return counts


def forgy(
    weight: F8,
    bits: U8,
    group_count: int,
    measure: Measure = "total",
    renewal: Renewal = "move",
    start: Start = "pairs",
    passes_max: int = PASSES_MAX,
) -> Formed:
    """Form groups by Forgy k-means (RIABOV A.2; D-20).

    Some cells found the groups, all others join the closest of these. In a pass over all cells each leaves
    its group, unless it is the last one there, and joins the closest.

    Parameters
    ----------
    weight, bits, group_count, measure
        As for `form`; the heaviest cells first.
    renewal : {"move", "pass"}
        When groups are taken anew: at each move, so that a cell's own is judged without it; or when a pass is
        over, so that all are judged as they were before it, a cell's own with it.
    start : {"pairs", "heaviest", "growing"}
        What founds the groups: pairwise grouping of the first cells, twice as many as groups and
        `FOUNDING_CELLS` at least; or, as in the paper, each of the first cells one. The others then join them
        as they were founded, or, ``growing``, one after the other, each the groups that those before it made.
    passes_max : int
    """
    if group_count >= len(weight):
        return Formed(np.arange(len(weight), dtype=np.int32))
    founded = np.arange(group_count, dtype=np.int32)
    if start == "pairs":
        first = slice(max(FOUNDING_CELLS, 2 * group_count))
        founded = pairwise(weight[first], bits[first], group_count, measure).group
    books = _Books(weight, bits, founded, measure, start == "growing")
    for passes in range(1, passes_max + 1):
        left = np.bincount(books.group, minlength=group_count)
        closest = books.closest_of(np.arange(len(weight))) if renewal == "pass" else None
        moves: list[tuple[int, int]] = []
        for cell in range(len(weight)):
            own = int(books.group[cell])
            if left[own] == 1:
                continue
            new = books.closest(cell) if closest is None else int(closest[cell])
            if new == own:
                continue
            left[own] -= 1
            left[new] += 1
            moves.append((cell, new))
            if renewal == "move":
                books.renew([(cell, new)])
        if renewal == "pass":
            books.renew(moves)
        if not moves:
            return Formed(books.group, passes)
    return Formed(books.group, passes_max, False)


class _Books:
    """Groups of Forgy k-means: their cells, members, p and reach.

    Parameters
    ----------
    weight, bits, measure
        As for `form`.
    founded : int32[k]
        The groups of the first cells, each of which has some; the others join the closest.
    is_growing : bool
        Whether each of the others is in its group when the next one looks for the closest.
    """

    def __init__(self, weight: F8, bits: U8, founded: I4, measure: Measure, is_growing: bool) -> None:
        self._weight, self._bits, self._measure = weight, bits, measure
        self._reach = weight * _count(bits)
        count = int(founded.max()) + 1
        self._members = group_members(bits[: len(founded)], founded)
        self._size = _count(self._members)
        self._group_weight: F8 = np.bincount(founded, weight[: len(founded)], count).astype(np.float64)
        self._group_reach: F8 = np.bincount(founded, self._reach[: len(founded)], count).astype(np.float64)
        self.group = np.full(len(weight), -1, np.int32)
        self.group[: len(founded)] = founded
        others = np.arange(len(founded), len(weight))
        for cells in others[:, None] if is_growing else others[None]:
            self.renew(list(zip(cells.tolist(), self.closest_of(cells).tolist(), strict=True)))

    def closest_of(self, cells: I8) -> I8:
        """Return the closest group of each of some cells, all groups as they are: a cell's own with it."""
        found = np.empty(len(cells), np.int64)
        for first in range(0, len(cells), BLOCK_CELLS):
            block = cells[first : first + BLOCK_CELLS]
            distances = self._distances(block)
            own = self.group[block]
            stays = (own >= 0) & (distances[np.arange(len(block)), own] <= distances.min(axis=1))
            found[first : first + len(block)] = np.where(stays, own, np.argmin(distances, axis=1))
        return found

    def _distances(self, cells: I8) -> F8:
        """Return the distances of cells from all groups as they are: float64[cells, n]."""
        joint = _count(self._members | self._bits[cells][:, None])
        return self._increase(cells[:, None], joint, self._size, self._group_weight, self._group_reach)

    def _increase(self, cells: I8, joint: I8, size: I8, weight: F8, reach: F8) -> F8:
        """Return the increase of waste as cells join groups, which then have so many members."""
        after = _waste(self._measure, weight + self._weight[cells], reach + self._reach[cells], joint)
        found: F8 = after - _waste(self._measure, weight, reach, size)
        return found

    def closest(self, cell: int) -> int:
        """Return the closest group of a cell, its own judged without it."""
        own = int(self.group[cell])
        others = np.flatnonzero(self.group == own)
        members = np.bitwise_or.reduce(self._bits[others[others != cell]], axis=0)
        one = np.array([cell])
        distances = self._distances(one)[0]
        distances[own] = self._increase(
            one,
            _count(members | self._bits[one]),
            _count(members),
            self._group_weight[own : own + 1] - self._weight[cell],
            self._group_reach[own : own + 1] - self._reach[cell],
        )[0]
        best = int(np.argmin(distances))
        return best if distances[best] < distances[own] else own

    def renew(self, moves: list[tuple[int, int]]) -> None:
        """Move cells, and take the groups that they leave and join anew."""
        touched = {int(self.group[cell]) for cell, _ in moves} | {new for _, new in moves}
        for cell, new in moves:
            self.group[cell] = new
        for number in touched - {-1}:
            cells = np.flatnonzero(self.group == number)
            self._members[number] = np.bitwise_or.reduce(self._bits[cells], axis=0)
            self._size[number] = _count(self._members[number])
            self._group_weight[number] = self._weight[cells].sum()
            self._group_reach[number] = self._reach[cells].sum()


def _pair_distances(measure: Measure, number: int, weight: F8, reach: F8, bits: U8, size: I8) -> F8:
    """Return the distances of one group from all, itself included.

    The paper has no distance of two groups. With `total` it is the increase of all waste; with `mean` it is
    EW(both) less the larger EW, which is the paper's where one is a cell.
    """
    waste = _waste(measure, weight, reach, size)
    before = np.maximum(waste, waste[number]) if measure == "mean" else waste + waste[number]
    union = size[number] + size - _count(bits & bits[number])
    found: F8 = _waste(measure, weight + weight[number], reach + reach[number], union) - before
    return found


def pairwise(weight: F8, bits: U8, group_count: int, measure: Measure = "total") -> Formed:
    """Form groups by pairwise grouping (RIABOV A.3; D-22): join the closest two until few enough are left.

    A joined pair takes the place of its first. Parameters are those of `form`.
    """
    pairs = _Pairs(weight, bits, measure)
    for _ in range(len(weight) - group_count):
        pairs.join()
    return Formed(_numbered(pairs.first_of))


class _Pairs:
    """Groups, each under the number of its first cell, and to each the closest of a higher number."""

    def __init__(self, weight: F8, bits: U8, measure: Measure) -> None:
        self._measure = measure
        self._bits, self._weight = bits.copy(), weight.copy()
        self._size = _count(bits)
        self._reach = weight * self._size
        self._is_there = np.ones(len(weight), np.bool_)
        self.first_of = np.arange(len(weight), dtype=np.int32)
        self._partner = np.full(len(weight), -1, np.int64)
        self._distance = np.full(len(weight), np.inf)
        for number in range(len(weight)):
            self._look_up(number, self._distances(number))

    def _distances(self, number: int) -> F8:
        """Return the distances of one group from all; infinite from itself and from what is not there."""
        found = _pair_distances(self._measure, number, self._weight, self._reach, self._bits, self._size)
        found[~self._is_there] = np.inf
        found[number] = np.inf
        return found

    def _look_up(self, number: int, distances: F8) -> None:
        later = distances[number + 1 :]
        at = int(np.argmin(later)) if len(later) else 0
        is_any = len(later) > 0 and later[at] < np.inf
        self._partner[number] = number + 1 + at if is_any else -1
        self._distance[number] = later[at] if is_any else np.inf

    def join(self) -> None:
        """Join the closest two."""
        first = int(np.argmin(self._distance))
        second = int(self._partner[first])
        self._bits[first] |= self._bits[second]
        self._size[first] = _count(self._bits[first])
        self._weight[first] += self._weight[second]
        self._reach[first] += self._reach[second]
        self._is_there[second] = False
        self._distance[second] = np.inf
        self.first_of[self.first_of == second] = first
        distances = self._distances(first)
        self._look_up(first, distances)
        lost = self._is_there & ((self._partner == first) | (self._partner == second))
        lost[first] = False
        is_tie = (distances == self._distance) & (first < self._partner)
        closer = self._is_there & ~lost & ((distances < self._distance) | is_tie)
        closer[first:] = False
        self._partner[closer], self._distance[closer] = first, distances[closer]
        for number in np.flatnonzero(lost).tolist():
            self._look_up(number, self._distances(number))


def spanning_tree(weight: F8, bits: U8, group_count: int, measure: Measure = "total") -> Formed:
    """Form groups by a minimum spanning tree (RIABOV A.3; D-22); parameters are those of `form`.

    All distances are taken once; edges come by increasing distance until `group_count` components are left.
    Edges of one distance come in the order of their cells, so the tree is unique, and Prim's algorithm finds
    it, in memory that grows with the cells and not with their pairs; its last edges are those that never
    come.
    """
    count = len(weight)
    size = _count(bits)
    reach = weight * size
    best, parent = np.full(count, np.inf), np.full(count, -1)
    is_out = np.ones(count, np.bool_)
    edges: list[tuple[float, int, int]] = []
    newest = 0
    for _ in range(count - 1):
        is_out[newest] = False
        distance = _pair_distances(measure, newest, weight, reach, bits, size)
        is_closer = (distance < best) | ((distance == best) & _is_before(newest, parent))
        best[is_closer], parent[is_closer] = distance[is_closer], newest
        out = np.flatnonzero(is_out)
        near = out[best[out] == best[out].min()]
        edge = min((min(one, int(parent[one])), max(one, int(parent[one])), one) for one in near.tolist())
        newest = edge[2]
        edges.append((float(best[newest]), edge[0], edge[1]))
    first_of = np.arange(count, dtype=np.int32)
    for _, one, other in sorted(edges)[: max(count - group_count, 0)]:
        low, high = sorted((int(first_of[one]), int(first_of[other])))
        first_of[first_of == high] = low
    return Formed(_numbered(first_of))


def _is_before(cell: int, parent: I8) -> npt.NDArray[np.bool_]:
    """Return where the edge to `cell` comes before that of the same distance to `parent`.

    For an end e: (min(e, cell), max(e, cell)) < (min(e, parent), max(e, parent)) exactly where cell < parent.
    """
    found: npt.NDArray[np.bool_] = cell < parent
    return found


def _numbered(first_of: I4) -> I4:
    """Return groups numbered in the order of their first cells."""
    found: I4 = np.unique(first_of, return_inverse=True)[1].astype(np.int32)
    return found


def group_members(bits: U8, group: I4) -> U8:
    """Return the members of groups, the unions of their cells': uint64[n, words]."""
    found = np.zeros((int(group.max(initial=-1)) + 1, bits.shape[1]), np.uint64)
    for one, number in zip(bits, group.tolist(), strict=True):
        found[number] |= one
    return found
