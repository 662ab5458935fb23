"""What a batch may see of its matches: the last step of matching, after layout and delta."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.catalogue_rows import event_handle_keys
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.engine import MatchResult
from pubsub_cluster.workers.kernels import visible as kernels
from pubsub_cluster.workers.kernels._jit import Settled

_NO_EVENTS = frozen(np.zeros(0, np.int64))
_keep_visible = Settled(kernels.keep_visible)


class Visibility:
    """Tells what is removed, or outside its validity.

    Parameters
    ----------
    catalogue : CatalogueReader
    """

    def __init__(self, catalogue: CatalogueReader) -> None:
        columns = catalogue.columns
        self._lives = frozen(columns.handle), frozen(columns.removed_version)
        self._windows = frozen(columns.window_row), frozen(columns.window_from), frozen(columns.window_until)

    def keep(
        self,
        result: MatchResult,
        counts: CatalogueCounts,
        version: int,
        now_us: int,
        refused: Collection[int] = (),
    ) -> MatchResult:
        """Return what a batch may see of its matches, by handle.

        Parameters
        ----------
        result : MatchResult
            Of `MatchEngine.match_batch`; used up.
        counts : CatalogueCounts
        version, now_us : int
            The batch's moment: rows removed at this version or before, and those with a validity window that
            this time is not in, are not for it.
        refused : collection of int
            Events that are refused: they match nothing, not even what holds for an empty event.
        """
        offsets, rows, delta_us = result
        if len(rows):
            moment = (counts.rows, counts.windows, version, now_us)
            events = frozen(np.array(sorted(refused), np.int64)) if refused else _NO_EVENTS
            unordered = _keep_visible(rows, offsets, moment, self._lives, self._windows, events)
            rows = rows[: offsets[-1]]
            if unordered:
                rows = rows[np.argsort(event_handle_keys(offsets, self._lives[0][rows]))]
        return MatchResult(offsets, rows, delta_us)

    def warm_up(self) -> None:
        """Compile or load the kernel."""
        rows, offsets = np.zeros(0, np.int32), np.zeros(1, np.int64)
        _keep_visible(rows, offsets, (0, 0, 0, 0), self._lives, self._windows, _NO_EVENTS)
