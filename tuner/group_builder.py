"""Groups for delivery: who of those that are listened to wants to hear of the same events.

From the catalogue and the sampled events: a grid (`tuner.group_grid`), how likely an event is in each of its
cells, who is interested in each (`tuner.interest`), and groups of them (`tuner.groups`), for the coordinator
in a segment of its own (`shm.group_map`).

A sample of some thousand events leaves most cells of a grid empty that events will lie in all the same. So
beside the n sampled events stands the root of n, spread over the cells as if attributes were independent:
each cell that can be likely is grouped, and where the sample is large it decides.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import orjson

from pubsub_cluster.language.raw_batch import RawBatch
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import F8, I4
from pubsub_cluster.shm.group_map import UNICAST, GroupMap, write_group_map
from pubsub_cluster.shm.owner import Owner
from pubsub_cluster.tuner.grid import OUTSIDE, Grid
from pubsub_cluster.tuner.group_grid import choose_grid
from pubsub_cluster.tuner.groups import CATCH_ALL, FormedGroups, GroupOptions, Interests, form_groups
from pubsub_cluster.tuner.interest import owner_cells
from pubsub_cluster.tuner.messages import FormGroups
from pubsub_cluster.tuner.owner_shares import Chosen

EVENTS_MIN = 64
"""Sampled events without which no groups are formed."""
OWNERS_MIN = 2


class BuiltGroups(NamedTuple):
    """Groups of owners.

    Attributes
    ----------
    formed : FormedGroups
        Its owners are catalogue numbers, as text.
    owners : int32[k]
        Catalogue numbers, ascending: a bit of each group's members stands for each.
    """

    formed: FormedGroups
    owners: I4

    def members(self) -> list[I4]:
        """Return the catalogue numbers of each group's members, ascending."""
        words = np.ascontiguousarray(self.formed.members.astype("<u8", copy=False)).view(np.uint8)
        bits = np.unpackbits(words, axis=-1, bitorder="little")[:, : len(self.owners)].view(np.bool_)
        return [self.owners[is_in] for is_in in bits]


def build_groups(
    reader: CatalogueReader,
    counts: CatalogueCounts,
    version: int,
    owners: I4,
    sample: RawBatch,
    options: GroupOptions = GroupOptions(),  # noqa: B008
    seed: int = 1,
) -> BuiltGroups | None:
    """Form groups of owners; None where there is nothing to form them of.

    Parameters
    ----------
    reader : CatalogueReader
    counts : CatalogueCounts
    version : int
        Rows that are removed at it are left out.
    owners : int32[k]
        Catalogue numbers of those who are listened to.
    sample : RawBatch
        Events, none of them refused.
    options : GroupOptions
    seed : int
        Of the estimate that chooses the grid.
    """
    owners = np.unique(owners).astype(np.int32)
    if len(owners) < OWNERS_MIN or sample.event_count < EVENTS_MIN:
        return None
    grid = choose_grid(reader, counts, version, owners, sample, np.random.default_rng(seed))
    if grid is None:
        return None
    interests = _interests(reader, counts, version, owners, grid)
    weight, event_count = cell_weights(grid, sample)
    formed = form_groups(interests, grid, weight, event_count, options)
    return BuiltGroups(formed, owners) if len(formed.groups.size) else None


def form_group_map(
    reader: CatalogueReader, request: FormGroups, sample: RawBatch, segment_owner: Owner
) -> tuple[str, dict[str, Any]]:
    """Form the groups that are asked for; return their segment, complete, and what there is to say of them.

    The segment's name is empty where there is nothing to form groups of.

    Raises
    ------
    SegmentError
        No room.
    """
    begin_s = time.process_time()
    asked = np.array(request.owners, np.int32)
    counts, options = CatalogueCounts(*request.counts), GroupOptions(group_count=request.group_count)
    built = build_groups(reader, counts, request.version, asked, sample, options)
    summary = {"owners": len(asked), "sampled_events": sample.event_count}
    if built is None:
        return "", summary
    groups = built.formed.groups
    place = np.argsort(asked, kind="stable").astype(np.int32)
    members = [np.sort(place[np.searchsorted(asked[place], mine)]) for mine in built.members()]
    of_cell = np.where(groups.of_cell == CATCH_ALL, UNICAST, groups.of_cell + 1).astype(np.int32)
    grid_json = orjson.dumps(groups.grid.to_json())
    segment = write_group_map(GroupMap(grid_json, of_cell, members), request.number, segment_owner)
    return segment, {
        **summary,
        "groups": len(members),
        "grid": {one.attribute: one.cell_count for one in groups.grid.dimensions},
        "expected_receivers": round(groups.expected_receivers, 1),
        "expected_waste": round(groups.expected_waste, 1),
        "catch_all_probability": round(1.0 - float(groups.probability.sum()), 6),
        "form_cpu_ms": round(1e3 * (time.process_time() - begin_s)),
    }


def cell_weights(grid: Grid, sample: RawBatch) -> tuple[F8, float]:
    """Return how many events to expect in each cell, float64[cells], and of how many in all."""
    cell = grid.locate(sample)
    cell = cell[cell != OUTSIDE]
    times: F8 = np.bincount(cell, minlength=grid.cell_count).astype(np.float64)
    if not len(cell):
        return times, float(sample.event_count)
    independent = np.ones(1)
    for axis in range(len(grid.shape)):
        others = tuple(other for other in range(len(grid.shape)) if other != axis)
        share = times.reshape(grid.shape).sum(axis=others) / len(cell)
        independent = (independent[:, None] * share).reshape(-1)
    prior = np.sqrt(len(cell))
    return times + prior * independent, sample.event_count * (1.0 + float(prior) / len(cell))


def _interests(
    reader: CatalogueReader, counts: CatalogueCounts, version: int, owners: I4, grid: Grid
) -> Interests:
    cells = np.zeros((len(owners), grid.word_count), np.uint64)
    for block in owner_cells(reader, counts, grid, version, Chosen.of(owners, counts.owners)):
        cells[np.searchsorted(owners, block.owner)] = block.cells
    return Interests(tuple(map(str, owners.tolist())), cells)
