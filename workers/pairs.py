"""Matches of a batch as (event, row) pairs, in arrays that grow up to the limit of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.shm.code_space import I4
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.kernels._jit import OK

PAIRS_MIN = 16_384
PairArrays: TypeAlias = tuple[I4, I4]
Step: TypeAlias = tuple[int, int, int]


class Pairs:
    """Pairs found so far.

    Parameters
    ----------
    limits : Limits
        ``matches_per_batch_max`` is the most pairs.
    """

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.matches_per_batch_max
        self._event = np.empty(PAIRS_MIN, np.int32)
        self._row = np.empty(PAIRS_MIN, np.int32)
        self._count = 0

    def fill(self, run: Callable[[int, int, PairArrays], Step], at: int) -> None:
        """Call a kernel until it is through, with more room whenever it asks for it.

        Parameters
        ----------
        run : callable
            Called with where to go on, how many pairs there are, and (event, row) to write more to; returns
            a status, where to go on, and how many pairs there are, or will be where it begins anew.
        at : int
            Where to begin.

        Raises
        ------
        LimitError
            Too many pairs.
        """
        while True:
            status, at, self._count = run(at, self._count, (self._event, self._row))
            if self._count > self._limit:
                raise too_many_matches(self._count, self._limit)
            if status == OK:
                return
            self.make_room(max(self._count, 2 * len(self._event)))

    def make_room(self, room: int) -> None:
        """Make room for so many pairs; those that are there stay."""
        more = max(room - len(self._event), 0)
        if more:
            self._event = np.concatenate((self._event, np.empty(more, np.int32)))
            self._row = np.concatenate((self._row, np.empty(more, np.int32)))

    def __len__(self) -> int:
        return self._count

    def arrays(self) -> PairArrays:
        """Return events and rows, read-only."""
        return frozen(self._event[: self._count]), frozen(self._row[: self._count])


def too_many_matches(seen: int, limit: int) -> LimitError:
    """Return the error of a batch with more matches than a batch may give."""
    return LimitError(
        "a batch matches too many subscriptions",
        seen=seen,
        limit=limit,
        remedy="Publish fewer events per batch, or raise the limit",
        limit_name="matches_per_batch_max",
    )
