"""Slices: how the labels of an attribute are cut so that ranges can be looked up by cell.

Slices are about equally probable under the statistics, which is H-Tree's conversion to a uniform
distribution (section 4), done on labels. Their number: H-Tree's tradeoff of filtration against space
(section 3.5, formula 8) between L = 4, below which cells hardly filter, and R, the finest cut for which the
ranges of the catalogue still fit cells. Space only counts where the caller bounds it: tables hold the
occupied cells alone, so without a bound the best number is R itself.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.configuration import Bools, Problem

SLICES_LEAST = 4
SLICE_COUNTS = (4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 192, 256)
RANGES_LOOKED_AT = 2_000
WORTH_CELLS_MAX = 0.8
"""Cells are of use when they let a range be looked at for less than this share of the events with a value."""


class Cells(NamedTuple):
    """The cell of every predicate under given slices.

    Attributes
    ----------
    cell : int32[P]
        -1: no range, or one that lies in no cell.
    probability : float64[P]
        That an event looks the cell up; 0 without a cell.
    """

    cell: I4
    probability: F8


def formula_8(alpha: float, beta: float, least: float, most: float, attribute_count: int) -> float:
    """Return H-Tree's best number of slices (HTREE, section 3.5, formula 8).

    Parameters
    ----------
    alpha, beta : float
        Weights of filtration and of space.
    least, most : float
        L and R, the bounds of the number of slices.
    attribute_count : int
        l, attributes of a table.
    """
    power = attribute_count
    gain = 3.0**power * alpha * (most**power - least**power)
    loss = beta * ((3.0 / least) ** power - (3.0 / most) ** power)
    return float((gain / loss) ** (1.0 / (2 * power)))


def choose_slices(
    problem: Problem, space_weight: float = 0.0, attribute_count: int = 3
) -> tuple[tuple[int, ...], ...]:
    """Choose the slices of every attribute; empty where cells are of no use.

    Parameters
    ----------
    problem : Problem
    space_weight : float
        beta of formula 8, from 0 (space is free) to below 1; alpha is the rest.
    attribute_count : int
        Attributes of a typical table.
    """
    wide = problem.predicate_is_range & ~problem.predicate_is_point & (problem.predicate_attribute >= 0)
    uses = _positive_uses(problem)
    found: list[tuple[int, ...]] = []
    for attribute, ranges in enumerate(_by_attribute(problem, wide & (uses > 0))):
        found.append(_slices_of(problem, attribute, ranges, uses, space_weight, attribute_count))
    return tuple(found)


def _positive_uses(problem: Problem) -> I8:
    positive = problem.literal[(problem.literal & 1) == 0] >> 1
    return np.bincount(positive, minlength=len(problem.predicate_attribute))


def _by_attribute(problem: Problem, chosen: Bools) -> list[I8]:
    """Return the chosen predicates of each attribute."""
    predicates = np.flatnonzero(chosen)
    attribute = problem.predicate_attribute[predicates]
    order = np.argsort(attribute, kind="stable")
    bounds = np.searchsorted(attribute[order], np.arange(problem.attribute_count + 1))
    return [predicates[order[a:b]] for a, b in itertools.pairwise(bounds.tolist())]


def _slices_of(
    problem: Problem, attribute: int, ranges: I8, uses: I8, space_weight: float, attribute_count: int
) -> tuple[int, ...]:
    """Try the numbers of slices on a sample of the attribute's ranges."""
    if not len(ranges):
        return ()
    step = -(-len(ranges) // RANGES_LOOKED_AT)
    ranges = ranges[::step]
    labels = problem.label_probability[slice(*problem.label_start[attribute : attribute + 2].tolist())]
    weight = uses[ranges] / uses[ranges].sum()
    lo, hi = problem.predicate_lo[ranges], problem.predicate_hi[ranges]
    best, best_share = (), WORTH_CELLS_MAX
    for count in SLICE_COUNTS:
        first = equal_slices(labels, count)
        if len(first) < count:
            break
        probability = _cell_probabilities(problem, attribute, first)
        present = max(float(problem.present[attribute]), 1e-9)
        cell = _cells_between(first, lo, hi, probability)
        share = np.where(cell >= 0, np.minimum(probability[np.maximum(cell, 0)] / present, 1.0), 1.0)
        if (expected := float(share @ weight)) < best_share:
            best, best_share = tuple(first.tolist()), expected
    if space_weight > 0.0 and len(best) > SLICES_LEAST:
        alpha = 1.0 - space_weight
        wanted = formula_8(alpha, space_weight, SLICES_LEAST, len(best), attribute_count)
        count = int(np.clip(round(wanted), SLICES_LEAST, len(best)))
        best = tuple(equal_slices(labels, count).tolist())
    return best


def equal_slices(label_probability: F8, count: int) -> I8:
    """Return the first labels of about equally probable slices; fewer where labels are few or heavy.

    Parameters
    ----------
    label_probability : float64[n]
        Of one attribute's labels.
    count : int
    """
    up_to = np.cumsum(label_probability)
    if not len(up_to):
        return np.zeros(1, np.int64)
    cuts = np.searchsorted(up_to, up_to[-1] * np.arange(1, count) / count, side="left") + 1
    cuts = cuts[cuts < len(up_to)]
    return np.unique(np.concatenate((np.zeros(1, np.int64), cuts)))


def _cell_probabilities(problem: Problem, attribute: int, first: I8) -> F8:
    """Return per cell (one fewer than slices) the probability that an event looks it up."""
    begin, stop = problem.label_start[attribute : attribute + 2].tolist()
    labels = problem.label_probability[begin:stop]
    per_slice = np.add.reduceat(labels, first) if len(labels) else np.zeros(len(first))
    return np.asarray(np.minimum(per_slice[:-1] + per_slice[1:], problem.present[attribute]))


def _cells_between(first: I8, lo: I4, hi: I4, probability: F8) -> I4:
    """Return the cell of each interval of labels: of two possible ones the less probable; -1: none."""
    cell_count = len(probability)
    at_lo = np.searchsorted(first, lo, side="right") - 1
    at_hi = np.searchsorted(first, hi, side="right") - 1
    left = np.clip(at_lo - 1, 0, cell_count - 1)
    right = np.clip(at_lo, 0, cell_count - 1)
    one_slice = np.where(probability[left] <= probability[right], left, right)
    cell = np.where(at_hi == at_lo, one_slice, at_lo)
    fits = (hi >= lo) & (lo > 0) & (at_hi - at_lo <= 1)
    return np.where(fits, cell, -1).astype(np.int32)


def find_cells(problem: Problem, slice_first_label: tuple[tuple[int, ...], ...]) -> Cells:
    """Return the cell of every predicate that can be looked up by one."""
    count = len(problem.predicate_attribute)
    cells, probabilities = np.full(count, -1, np.int32), np.zeros(count)
    can: Bools = problem.predicate_is_range & (problem.predicate_attribute >= 0)
    for attribute, mine in enumerate(_by_attribute(problem, can)):
        slices = slice_first_label[attribute] if attribute < len(slice_first_label) else ()
        if len(slices) < 2:
            continue
        first = np.array(slices, np.int64)
        probability = _cell_probabilities(problem, attribute, first)
        cell = _cells_between(first, problem.predicate_lo[mine], problem.predicate_hi[mine], probability)
        cells[mine] = cell
        probabilities[mine] = np.where(cell >= 0, np.maximum(probability[np.maximum(cell, 0)], 1e-9), 0.0)
    return Cells(cells, probabilities)
