"""Which attributes divide the event space into cells for groups, and into how many: chosen by cost.

A grid costs what it cannot tell apart: an event is as if sent to all who are interested in its *cell*, so a
grid is as good as the mean of #l(g) over events is small. (With a group for each cell that is the number of
receipts; the ones who are interested in the event itself are the same for all grids, so the rest is waste.)
It is estimated on some sampled events and all clauses of some owners, and lowered step by step: each step
divides one attribute further, or begins to divide by one, the one that lowers the mean most per doubling of
the cells. It ends when the cells are as many as can be grouped, or nothing is gained any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.raw_batch import RawBatch
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import I4, I8
from pubsub_cluster.tuner.event_rows import pick_events
from pubsub_cluster.tuner.grid import OUTSIDE, Bools, Dimension, Grid, dimension_of_sample, make_grid
from pubsub_cluster.tuner.interest import Literals
from pubsub_cluster.tuner.owner_shares import Chosen
from pubsub_cluster.tuner.source import BLOCK_CLAUSES, Source, collect_source, gather

STEPS = (2, 4, 8, 16, 32, 64)
"""Cells of an attribute, for each kind of its values."""
OCCUPIED_CELLS_MAX = 4_096
"""Cells that may have events: products of those that each attribute's events lie in."""
ATTRIBUTES_MAX = 8
"""That are tried: those that most literals are about."""
ESTIMATE_EVENTS = 256
ESTIMATE_CLAUSES = 1 << 14
GAIN_MIN = 0.002
"""Of the mean, per doubling of the cells."""


class _Step(NamedTuple):
    """An attribute divided so far."""

    dimension: Dimension
    occupied: int
    side: Bools


def choose_grid(
    reader: CatalogueReader,
    counts: CatalogueCounts,
    version: int,
    owners: I4,
    sample: RawBatch,
    random: np.random.Generator,
) -> Grid | None:
    """Return the grid for the interests of some owners; None where no attribute tells them apart.

    Parameters
    ----------
    reader : CatalogueReader
    counts : CatalogueCounts
    version : int
        Rows that are removed at it are left out.
    owners : int32[k]
        Catalogue numbers.
    sample : RawBatch
        Events, none of them refused.
    random : numpy.random.Generator
        Picks the events and owners of the estimate.
    """
    estimate = _Estimate(reader, counts, version, random.permutation(owners), sample, random)
    steps: dict[str, _Step] = {}
    now = estimate.members({})
    while now:
        best: tuple[float, str, _Step, float] | None = None
        for name, step in estimate.next_steps(steps):
            growth = step.occupied / (steps[name].occupied if name in steps else 1)
            if math.prod(one.occupied for one in steps.values()) * growth > OCCUPIED_CELLS_MAX:
                continue
            members = estimate.members({**steps, name: step})
            gain = (now - members) / math.log2(growth)
            if gain > GAIN_MIN * now and (best is None or gain > best[0]):
                best = gain, name, step, members
        if best is None:
            break
        _, name, steps[name], now = best
    return make_grid([step.dimension for step in steps.values()]) if steps else None


class _Estimate:
    """Some clauses against some events.

    Attributes
    ----------
    names : list of str
        Attributes that literals of these clauses are about, and sampled events have: most literals first.
    """

    def __init__(
        self,
        reader: CatalogueReader,
        counts: CatalogueCounts,
        version: int,
        owners: I4,
        sample: RawBatch,
        random: np.random.Generator,
    ) -> None:
        self._reader, self._counts, self._sample = reader, counts, sample
        source = collect_source(reader.columns, counts, version)
        clause, owner = _clauses_of(source, owners, counts.owners)
        # Sorted by owner; where each one's begin.
        self._clauses = gather(source, clause)
        self._start = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))[: len(owner)]
        self._clause_count = len(clause)
        picked = random.permutation(sample.event_count)[:ESTIMATE_EVENTS]
        self._events = pick_events(sample, np.sort(picked))
        self._used = np.zeros(counts.predicates, np.bool_)
        predicate = self._clauses.literal >> 1
        self._used[predicate] = True
        times = np.bincount(reader.columns.predicate_attribute[predicate], minlength=counts.attributes)
        common = np.argsort(-times[: counts.attributes], kind="stable")[:ATTRIBUTES_MAX]
        names = [reader.attribute_name(number) for number in common.tolist() if times[number]]
        self.names = [name for name in names if name in sample.attributes]
        self._tried: dict[tuple[str, int], _Step] = {}

    def next_steps(self, steps: dict[str, _Step]) -> Iterator[tuple[str, _Step]]:
        """Yield for each attribute all steps that divide its events further.

        Not only the next one: where intervals are wide, halves tell nobody apart that eighths do.
        """
        for name in self.names:
            occupied = steps[name].occupied if name in steps else 1
            for cells in STEPS:
                step = self._step(name, cells)
                if step.occupied > occupied:
                    occupied = step.occupied
                    yield name, step

    def members(self, steps: dict[str, _Step]) -> float:
        """Return how many owners are interested in an event's cell, on average."""
        if not len(self._start) or not self._events.event_count:
            return 0.0
        if not steps:
            return float(len(self._start))
        holds = np.logical_and.reduce([step.side for step in steps.values()])
        return float(np.logical_or.reduceat(holds, self._start, axis=0).sum(axis=0).mean())

    def _step(self, name: str, cells: int) -> _Step:
        if (name, cells) not in self._tried:
            dimension = dimension_of_sample([self._sample], name, cells)
            everywhere = dimension.locate(self._sample.attributes.get(name), self._sample.event_count)
            occupied = len(np.unique(everywhere[everywhere != OUTSIDE]))
            cell = dimension.locate(self._events.attributes.get(name), self._events.event_count)
            found = Literals(self._reader, self._counts, dimension, self._used).of_clauses(self._clauses)
            side = found[:, np.maximum(cell, 0)]
            side[:, cell == OUTSIDE] = True  # it may be told to anybody
            self._tried[name, cells] = _Step(dimension, max(occupied, 1), side)
        return self._tried[name, cells]


def _clauses_of(source: Source, owners: I4, owner_count: int) -> tuple[I8, I4]:
    """Return all clauses of as many owners as have `ESTIMATE_CLAUSES`, in their order, and whose they are.

    One owner's are cut off where they are too many alone.
    """
    chosen = Chosen.of(owners, owner_count)
    clauses, whose = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for first in range(0, source.clause_count, BLOCK_CLAUSES):
        clause = np.arange(first, min(first + BLOCK_CLAUSES, source.clause_count))
        owner = source.columns.owner[source.row_catalogue[source.rows_of(clause)]]
        is_chosen = chosen.has(owner)
        clauses.append(clause[is_chosen])
        whose.append(owner[is_chosen])
    clause, owner = np.concatenate(clauses), np.concatenate(whose)
    place = np.full(owner_count, -1, np.int64)
    place[owners] = np.arange(len(owners))
    size = np.bincount(place[owner], minlength=len(owners))
    taken = max(int(np.searchsorted(np.cumsum(size), ESTIMATE_CLAUSES, "right")), 1)
    kept = np.flatnonzero(place[owner] < taken)
    kept = kept[np.argsort(place[owner[kept]], kind="stable")][:ESTIMATE_CLAUSES]
    return clause[kept], owner[kept]
