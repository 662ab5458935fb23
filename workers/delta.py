"""The delta: catalogue rows that a generation does not hold yet.

Rows whose clauses each have an equality, on constants that the generation's layout knows, are found by key
(`workers.delta_keyed`); all others, and all before there is a layout, are bitmaps over blocks of events
(`workers.delta_bitmaps`). New bitmap rows make a new part, which swallows the parts before it that are not
much larger: so a row is compiled a logarithmic number of times and there are few parts. Either half may hold
rows that a batch must not see yet: the batch's row count cuts. Only this shard's rows
(``row % shard_count == shard_idx``) are compiled.
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.language.limits import Limits
from pubsub_cluster.shm.catalogue import CatalogueReader
from pubsub_cluster.shm.code_space import I4
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.delta_bitmaps import BitmapPart
from pubsub_cluster.workers.delta_keyed import KeyedRows
from pubsub_cluster.workers.encoder import EncodedBatch
from pubsub_cluster.workers.pairs import PairArrays, Pairs

SWALLOW_FACTOR = 2
PRUNE_INTERVAL = 64
"""Batches between two looks for rows by key that are removed."""
PRUNE_CLAUSES_MIN = 1_024


class DeltaIndex:
    """The rows from `base_rows` on.

    Parameters
    ----------
    catalogue : CatalogueReader
    base_rows : int
        First row that the generation does not hold.
    limits : Limits
    keyed : KeyedRows, optional
        For what can be found by key in the labels of the generation; without, all rows are bitmaps.
    """

    def __init__(
        self, catalogue: CatalogueReader, base_rows: int, limits: Limits, keyed: KeyedRows | None = None
    ) -> None:
        self._catalogue = catalogue
        self._limits = limits
        self._base_rows = base_rows
        self._stop = base_rows
        self._shard = (0, 1)
        self._keyed = keyed
        self._parts: list[BitmapPart] = []
        self._prune_in = PRUNE_INTERVAL

    def match(
        self,
        batch: EventBatch,
        encoded: EncodedBatch | None,
        row_stop: int,
        shard_idx: int,
        shard_count: int,
        version: int = 0,
    ) -> PairArrays:
        """Match the rows [base_rows, row_stop) of one shard that are not removed at `version`.

        Parameters
        ----------
        batch : EventBatch
        encoded : EncodedBatch or None
            The same events in the labels of the generation; needed with `keyed`.
        row_stop, shard_idx, shard_count, version : int

        Returns
        -------
        event, row : int32[m], read-only
            Pairs in no particular order, without repeats.

        Raises
        ------
        LimitError
            More pairs than ``limits.matches_per_batch_max``.
        """
        self.extend(row_stop, (shard_idx, shard_count), version)
        pairs = Pairs(self._limits)
        if self._keyed is not None and self._keyed.clause_count:
            assert encoded is not None
            self._prune(version)
            self._keyed.match(encoded, row_stop, version, pairs)
        for part in self._parts:
            if part.rows[0] < row_stop:
                part.match(batch, row_stop, version, pairs)
        return pairs.arrays()

    def extend(
        self, row_stop: int, shard: tuple[int, int], version: int, rows_max: int | None = None
    ) -> bool:
        """Take in the rows below `row_stop` that are not there yet, `rows_max` of them at most.

        Parameters
        ----------
        row_stop : int
        shard : tuple of (int, int)
            Shard and shard count; other ones than before begin anew.
        version : int
            Of the batch that is matched next, or the last one that was: rows removed then may be left out.
        rows_max : int, optional

        Returns
        -------
        bool
            Whether all are there.
        """
        is_older = self._keyed is not None and version < self._keyed.pruned_version
        if shard != self._shard or is_older:  # a task of a dead worker may be older than what was matched
            self._parts, self._stop, self._shard = [], self._base_rows, shard
            if self._keyed is not None:
                self._keyed.clear()
        if row_stop <= self._stop:
            return True
        stop = row_stop if rows_max is None else min(row_stop, self._stop + rows_max)
        if self._keyed is None:
            rows = np.arange(self._stop, stop, dtype=np.int32)
            left = rows[rows % shard[1] == shard[0]]
        else:
            left = self._keyed.add(self._stop, stop, shard, version)
        if len(left):
            self._add_part(left)
        self._stop = stop
        if self._keyed is not None and self._keyed.review():
            self._rebuild_keyed(version)
        return stop == row_stop

    def warm_up(self, batch: EventBatch, encoded: EncodedBatch) -> None:
        """Run every kernel of the delta once, on no rows."""
        pairs = Pairs(self._limits)
        BitmapPart(self._catalogue, np.zeros(0, np.int32)).match(batch, 0, 0, pairs)
        if self._keyed is not None:
            self._keyed.add(0, 0, (0, 1), 0)
            self._keyed.warm_up(encoded, pairs)

    def _prune(self, version: int) -> None:
        """Drop removed rows once they are not a few: each update of an id leaves one behind."""
        assert self._keyed is not None
        self._prune_in -= 1
        if self._prune_in > 0:
            return
        self._prune_in = PRUNE_INTERVAL
        if self._keyed.clause_count >= PRUNE_CLAUSES_MIN and self._keyed.prune(version):
            self._rebuild_keyed(version)

    def _rebuild_keyed(self, version: int) -> None:
        assert self._keyed is not None
        self._keyed.clear()
        self._keyed.add(self._base_rows, self._stop, self._shard, version)  # what is left has its part

    def _add_part(self, rows: I4) -> None:
        while self._parts:
            last = self._parts[-1]
            if len(last.rows) >= SWALLOW_FACTOR * len(rows):
                break
            rows = np.concatenate((self._parts.pop().rows, rows))
        self._parts.append(BitmapPart(self._catalogue, rows))
