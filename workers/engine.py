"""The in-process engine: what a worker, a benchmark or a one-shot command runs to match one batch.

A batch is bound to (generation, catalogue counts): rows that the generation holds are matched by the layout's
kernel on the partitions of this shard, later rows below the counts by the delta. Answers are catalogue rows,
among them such as were removed or are outside their validity, which `workers.visible` drops. A row whose
parts lie in several shards may come from each: whoever merges drops repeats.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.errors import ClusterError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.payload import Buffer
from pubsub_cluster.language.raw_batch import RawBatch
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import I4, I8, U1
from pubsub_cluster.shm.layout import LayoutView, empty_layout, frozen
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.delta import DeltaIndex
from pubsub_cluster.workers.delta_keyed import KeyedRows, can_be_keyed
from pubsub_cluster.workers.dense import ColumnReader
from pubsub_cluster.workers.flat_batch import EntryRoom
from pubsub_cluster.workers.kernels import delta as delta_kernels
from pubsub_cluster.workers.kernels._jit import Settled, compile_together
from pubsub_cluster.workers.layout_index import LayoutIndex, Observation
from pubsub_cluster.workers.names import NameTable
from pubsub_cluster.workers.pairs import too_many_matches
from pubsub_cluster.workers.warm_up import one_event, warm_up_encoder

EMPTY_GENERATION = 0

_NONE = frozen(np.zeros(0, np.int32))
_merge_pairs = Settled(delta_kernels.merge_pairs)


class MatchResult(NamedTuple):
    """Matches of a batch.

    Attributes
    ----------
    event_offsets : int64[n+1]
    rows : int32[event_offsets[n]]
        Catalogue rows, event by event, in no particular order.
    delta_us : int
        Time that the delta took, microseconds.
    """

    event_offsets: I8
    rows: I4
    delta_us: int = 0


class _Generation(NamedTuple):
    base: LayoutIndex
    delta: DeltaIndex
    base_rows: int


class MatchEngine:
    """Matches batches against attached layouts and the catalogue's newer rows; one thread at a time.

    Parameters
    ----------
    catalogue : CatalogueReader
    schema : Schema
        Of the events that `read` reads. One with event types may be replaced, as `schema`, by an extension of
        it: such events are decoded without the tables that are made here.
    limits : Limits
    """

    def __init__(
        self, catalogue: CatalogueReader, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.schema = schema
        self._catalogue = catalogue
        self._limits = limits
        self._names = NameTable(schema, limits)
        self._column_reader = ColumnReader(schema, limits)
        self._room = EntryRoom()
        self._generations: dict[int, _Generation] = {}
        self._attach(EMPTY_GENERATION, empty_layout(), 0, None)

    def attach_layout(
        self,
        generation: int,
        layout: LayoutView,
        base_counts: CatalogueCounts | None = None,
        partition_mine: U1 | None = None,
        catalogue: CatalogueReader | None = None,
    ) -> None:
        """Make a layout known; generation 0, the empty one, is from the start.

        Parameters
        ----------
        generation, layout : int, LayoutView
        base_counts : CatalogueCounts, optional
            What the layout covers; its own statement by default.
        partition_mine : uint8[P], optional
            1 for each partition to match; all by default.
        catalogue : CatalogueReader, optional
            Whose rows; the last one by default.
        """
        self._catalogue = catalogue or self._catalogue
        self._attach(generation, layout, (base_counts or layout.counts).rows, partition_mine)

    def layout(self, generation: int) -> LayoutView | None:
        """Return an attached layout; None for an unknown generation."""
        known = self._generations.get(generation)
        return None if known is None else known.base.layout

    def drop_layout(self, generation: int) -> None:
        """Forget a layout; an unknown generation is no error."""
        self._generations.pop(generation, None)

    def prepare(
        self,
        generation: int,
        counts: CatalogueCounts,
        shard_idx: int,
        shard_count: int,
        version: int,
        rows_max: int,
    ) -> bool:
        """Take some rows into the delta of a generation, ahead of the first batch that needs them.

        Parameters
        ----------
        generation : int
        counts : CatalogueCounts
        shard_idx, shard_count, version : int
            As for `match_batch`.
        rows_max : int
            The most rows to look at.

        Returns
        -------
        bool
            Whether all rows of `counts` are there.
        """
        delta = self._generations[generation].delta
        return delta.extend(counts.rows, (shard_idx, shard_count), version, rows_max)

    def read(self, header: Mapping[str, Any], buffers: Sequence[Buffer]) -> EventBatch:
        """Return the events of a checked payload, for `match_batch`; the next call may end its use."""
        names, reader, room = self._names, self._column_reader, self._room
        return EventBatch(header, buffers, names, self.schema, self._limits, reader, room)

    def match(
        self,
        raw: RawBatch,
        generation: int,
        counts: CatalogueCounts,
        shard_idx: int = 0,
        shard_count: int = 1,
        version: int = 0,
    ) -> MatchResult:
        """Match a decoded batch; see `match_batch`."""
        batch = EventBatch.of_raw(raw, self._names)
        return self.match_batch(batch, generation, counts, shard_idx, shard_count, version)

    def match_batch(
        self,
        batch: EventBatch,
        generation: int,
        counts: CatalogueCounts,
        shard_idx: int = 0,
        shard_count: int = 1,
        version: int = 0,
    ) -> MatchResult:
        """Match a batch.

        Parameters
        ----------
        batch : EventBatch
            The last one of `read`, or a decoded one.
        generation : int
            An attached layout; 0 is the empty one.
        counts : CatalogueCounts
            Bounds of the catalogue as of the batch; rows from ``counts.rows`` on are not looked at.
        shard_idx, shard_count : int
            This engine's part of the delta; its part of the layout is `partition_mine` of `attach_layout`.
        version : int
            Delta rows removed at this version or before are left out; others may be in the answer.

        Raises
        ------
        ClusterError
            The generation is not attached.
        LimitError
            More matches than ``limits.matches_per_batch_max``.
        """
        known = self._generations.get(generation)
        if known is None:
            raise ClusterError(
                "no layout of this generation is attached", seen=generation, limit=sorted(self._generations)
            )
        base, delta, base_rows = known
        limit = self._limits.matches_per_batch_max
        encoded = None
        found = np.zeros(batch.event_count + 1, np.int64), _NONE
        if len(base.row_catalogue):
            if counts.rows > base_rows:  # newer rows are matched against all labels at once
                encoded = base.encode(batch)
                found = base.match(encoded, limit)
            else:
                found = base.match_batch(batch, limit)
        started_ns = time.perf_counter_ns()
        pairs = (_NONE, _NONE)
        if counts.rows > base_rows:
            pairs = delta.match(batch, encoded, counts.rows, shard_idx, shard_count, version)
        delta_us = (time.perf_counter_ns() - started_ns) // 1_000
        total = len(found[1]) + len(pairs[0])
        if total > limit:
            raise too_many_matches(total, limit)
        return self._merge(found, base.row_catalogue, pairs, delta_us)

    def observe(self, batch: EventBatch, generation: int, event_count: int) -> Observation:
        """Count what matching the first events of a batch takes in an attached layout.

        Parameters
        ----------
        batch : EventBatch
            As for `match_batch`.
        generation : int
        event_count : int
            Events to look at, at most.
        """
        base = self._generations[generation].base
        return base.observe(base.encode(batch), event_count)

    def lookups(self, generation: int) -> list[tuple[str, str, int, str, int]]:
        """Return how values find their labels in an attached layout: see `messages.AttributeLookup`."""
        return self._generations[generation].base.lookups()

    def warm_up(self) -> None:
        """Compile or load every kernel that `match` will call."""
        batch = EventBatch.of_raw(one_event(), self._names)
        base = LayoutIndex(self._catalogue, empty_layout(), np.ones(1, np.uint8))

        def match() -> None:
            base.match(base.encode(batch), 1)

        def match_delta() -> None:
            keyed = KeyedRows(self._catalogue, base.layout, base.lookup)
            DeltaIndex(self._catalogue, 0, self._limits, keyed).warm_up(batch, base.encode(batch))
            one_pair = frozen(np.zeros(1, np.int32))
            self._merge((np.zeros(2, np.int64), _NONE), base.row_catalogue, (one_pair, one_pair), 0)

        def observe() -> None:
            base.observe(base.encode(batch), 1)

        compile_together(
            {"match": match, "encode": warm_up_encoder, "delta": match_delta, "observe": observe}
        )

    def _attach(self, generation: int, layout: LayoutView, base_rows: int, partition_mine: U1 | None) -> None:
        mine = np.ones(len(layout.partition_cost), np.uint8) if partition_mine is None else partition_mine
        base = LayoutIndex(self._catalogue, layout, mine)
        keyed = KeyedRows(self._catalogue, layout, base.lookup) if can_be_keyed(layout) else None
        delta = DeltaIndex(self._catalogue, base_rows, self._limits, keyed)
        self._generations[generation] = _Generation(base, delta, base_rows)

    @staticmethod
    def _merge(found: tuple[I8, I4], row_catalogue: I4, pairs: tuple[I4, I4], delta_us: int) -> MatchResult:
        if not len(pairs[0]):
            return MatchResult(found[0], row_catalogue.take(found[1]), delta_us)
        offsets = np.zeros(len(found[0]), np.int64)
        rows = np.empty(len(found[1]) + len(pairs[0]), np.int32)
        _merge_pairs((frozen(found[0]), frozen(found[1])), row_catalogue, pairs, offsets, rows)
        return MatchResult(offsets, rows, delta_us)
