"""Groups of owners for multicast, on their way from the tuner, who forms them, to the coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.owner import Owner

FAMILY = "group_map"
UNICAST = -1
"""Instead of a group: events in such a cell are told one by one."""


class GroupMap(NamedTuple):
    """Groups over the cells of a grid.

    Attributes
    ----------
    grid_json : bytes
        `tuner.grid.Grid` as JSON.
    of_cell : int32[cells]
        Group of each cell, numbered from 1; or `UNICAST`.
    members : sequence of int32[m]
        Of the groups 1, 2, ...: places among the owners that were asked for, ascending.
    """

    grid_json: bytes
    of_cell: npt.NDArray[np.int32]
    members: Sequence[npt.NDArray[np.int32]]


def write_group_map(groups: GroupMap, number: int, owner: Owner) -> str:
    """Write groups into a new segment, complete when this returns; return its name.

    Raises
    ------
    SegmentError
        No room; nothing is left behind.
    """
    start = np.cumsum([0, *map(len, groups.members)])
    lengths = {
        "grid_bytes": len(groups.grid_json),
        "cells": len(groups.of_cell),
        "groups": len(groups.members),
        "members": int(start[-1]),
    }
    family = FamilySegment.create(FAMILY, lengths, number, owner)
    family.column("grid_json")[:] = np.frombuffer(groups.grid_json, np.uint8)
    family.column("cell_group")[:] = groups.of_cell
    family.column("member_start")[:] = start
    family.column("member")[:] = np.concatenate([np.zeros(0, np.int32), *groups.members])
    family.close()
    return family.name


def read_group_map(name: str) -> GroupMap:
    """Return the groups in a segment, in memory of one's own.

    Raises
    ------
    SegmentError
        Missing, foreign, of another version or size.
    """
    family = FamilySegment.attach(FAMILY, name)
    start, member = family.column("member_start").tolist(), family.column("member")
    found = GroupMap(
        family.column("grid_json").tobytes(),
        family.column("cell_group").copy(),
        [member[first:stop].copy() for first, stop in pairwise(start)],
    )
    family.close()
    return found
