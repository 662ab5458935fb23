"""Matching a batch row by row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8


def matched_rows(values: F8, room: int, match_row: Callable[[F8, I8], int]) -> tuple[I8, I8]:
    """Return (row, owner) of all matches of a batch; see `conjunctions.Core.match`.

    Parameters
    ----------
    values : float64[rows, dimensions]
    room : int
        The most matches that a row can have.
    match_row : callable
        ``match_row(event, found)`` writes the owners that match an event into int64[room]; returns how many.
    """
    found = np.empty(room, np.int64)
    rows, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for row, event in enumerate(values):
        count = match_row(event, found)
        rows.append(np.full(count, row, np.int64))
        owners.append(found[:count].copy())
    return np.concatenate(rows), np.concatenate(owners)
