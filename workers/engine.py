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
from pubsub_cluster.shm.blob import TABLE_DIRECT, TABLE_INEXACT, front_shifts
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import I4, I8, U1
from pubsub_cluster.shm.layout import LayoutView, empty_layout, frozen
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.delta import DeltaIndex, too_many_matches
from pubsub_cluster.workers.dense import ColumnReader
from pubsub_cluster.workers.encoder import EncodedBatch, Encoder
from pubsub_cluster.workers.flat_batch import EntryRoom
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import delta as delta_kernels
from pubsub_cluster.workers.kernels import match as match_kernels
from pubsub_cluster.workers.kernels import observe as observe_kernels
from pubsub_cluster.workers.kernels._jit import OK, Settled
from pubsub_cluster.workers.kernels.front import fronts_for
from pubsub_cluster.workers.kernels.tables import (
    CURSOR_AND_EVENTS,
    NO_DIGIT,
    PENDING_MAX,
    TABLE_GROUPS,
    Digits,
    EventTables,
    Facts,
    Kept,
    MatchTables,
    Places,
    Probes,
    Scratch,
    blobs_of,
)
from pubsub_cluster.workers.names import NameTable
from pubsub_cluster.workers.text_bits import TextBits
from pubsub_cluster.workers.warm_up import one_event, warm_up_in_turn

EMPTY_GENERATION = 0
ROWS_MIN = 4_096
ENTRIES_MIN = 256
OPTIONS_PER_ENTRY = 3
"""A value has one digit by label and two by cell."""

_NONE = frozen(np.zeros(0, np.int32))
_match_events = Settled(match_kernels.match_events)
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


class Observation(NamedTuple):
    """What matching some events takes.

    Attributes
    ----------
    event_count : int
    work : int64[T + 1, 3]
        Keys probed, clusters met and candidates in them, of each table, then of the slots.
    """

    event_count: int
    work: I8


def match_tables(layout: LayoutView, partition_mine: U1) -> MatchTables:
    """Return what the kernel reads of a layout."""
    groups = {
        name: group(*(frozen(getattr(layout, column)) for column in group._fields))
        for name, group in TABLE_GROUPS.items()
    }
    return MatchTables(
        **groups,
        attribute_table=frozen(layout.attribute_table),
        table_attribute=frozen(np.flatnonzero(np.diff(layout.attribute_table)).astype(np.int32)),
        part_codes=frozen(np.unique(layout.part_code)),
        blobs=blobs_of(frozen(layout.cluster_blob)),
        row_many=frozen(layout.row_many),
        many_max=int(layout.row_many.max(initial=0)),
        has_labels=4 * layout.flag_count < len(layout.predicate_test),
        has_fronts=layout.has_fronts,
        label_shift=frozen(front_shifts(np.diff(layout.label_start))),
        is_exact=not (layout.table_mode & TABLE_INEXACT).any(),
        partition_mine=kernel_input(partition_mine, np.uint8),
    )


def match_scratch(layout: LayoutView) -> Scratch:
    """Return clean memory for one kernel thread."""
    attribute_count = len(layout.attribute_catalogue)
    flag = np.zeros(2 * layout.flag_count, np.uint8)
    flag[1::2] = 1
    mark = np.zeros(layout.cluster_entries_max // 8 * 8 + 8, np.uint8)
    pending = [np.zeros(PENDING_MAX, np.int64) for _ in range(6)]
    return Scratch(
        facts=Facts(np.zeros(attribute_count, np.int32), np.zeros(2 * attribute_count, np.int64), flag),
        flag_pair=flag.view(np.uint16),
        digits=Digits(
            np.full(2 * attribute_count, NO_DIGIT, np.int32),
            np.zeros(2 * attribute_count, np.int32),
            np.zeros(2 * attribute_count, np.int32),
            np.zeros(OPTIONS_PER_ENTRY * ENTRIES_MIN, np.int32),
        ),
        cursor=np.zeros(CURSOR_AND_EVENTS, np.int64),
        raised=np.zeros(2 * ENTRIES_MIN, np.int32),
        key=np.zeros(PENDING_MAX, np.int64),
        probes=Probes(pending[0], pending[1], pending[2], np.zeros(PENDING_MAX, np.int32), pending[3]),
        places=Places(*pending[4:]),
        kept=Kept(np.zeros(len(mark) + 1, np.int32), mark, mark.view(np.int64)),
        fronts=fronts_for(attribute_count, layout.cluster_entries_max),
        row_stamp=np.zeros(len(layout.row_catalogue), np.int64),
        program_stamp=np.zeros(len(layout.program_row), np.int64),
    )


class _Base:
    """A layout made ready for the kernel: its encoder, the tables and the scratch memory."""

    def __init__(self, catalogue: CatalogueReader, layout: LayoutView, partition_mine: U1) -> None:
        self.layout = layout
        self.row_catalogue = frozen(layout.row_catalogue)
        bits = TextBits([catalogue.predicate(int(i)) for i in layout.bit_catalogue])
        names = [catalogue.attribute_name(int(i)) for i in layout.attribute_catalogue]
        self._encoder = Encoder(layout.spaces, names, bits, layout.predicate_test)
        self._tables = match_tables(layout, partition_mine)
        direct = np.flatnonzero(layout.table_mode & TABLE_DIRECT)
        direct = direct[np.argsort(layout.table_area[direct], kind="stable")]
        self._direct = frozen(layout.table_area[direct]), frozen(direct.astype(np.int32))
        self._all_mine = bool(partition_mine.all())
        self._scratch = match_scratch(layout)
        self._entries_max = ENTRIES_MIN
        self._stamp = 1
        self._out = np.empty(ROWS_MIN, np.int32)

    def encode(self, batch: EventBatch | RawBatch) -> EncodedBatch:
        """Encode a batch against the layout's code spaces."""
        if isinstance(batch, EventBatch):
            return self._encoder.encode_batch(batch)
        return self._encoder.encode(batch)

    def match(self, encoded: EncodedBatch, rows_max: int, prefetch: bool = True) -> tuple[I8, I4]:
        """Return (start int64[n+1], layout row int32[]); the rows are valid until the next call."""
        start = np.zeros(encoded.event_count + 1, np.int64)
        events = EventTables(*encoded[1:])
        self._make_room(encoded)
        event = 0
        while True:
            status, event = _match_events(
                self._tables,
                events,
                self._scratch,
                (event, self._stamp, prefetch, self._all_mine),
                self._out,
                start,
            )
            self._stamp += encoded.event_count
            if status == OK:
                found = int(start[-1])
                if found > rows_max:
                    raise too_many_matches(found, rows_max)
                return start, self._out[:found]
            if len(self._out) > rows_max:
                raise too_many_matches(len(self._out), rows_max)
            self._out = np.concatenate((self._out, np.empty_like(self._out)))

    def observe(self, encoded: EncodedBatch, event_count: int) -> Observation:
        """Count what matching the first events takes."""
        self._make_room(encoded)
        work = np.zeros((len(self.layout.table_mode) + 1, observe_kernels.KINDS), np.int64)
        stop = min(event_count, encoded.event_count)
        events = EventTables(*encoded[1:])
        observe_kernels.observe_events(
            self._tables, events, self._scratch, stop, self._all_mine, self._direct, work
        )
        return Observation(stop, work)

    def lookups(self) -> list[tuple[str, str, int, str, int]]:
        """Return how the values of each attribute are looked up, for reports."""
        return self._encoder.lookups()

    def _make_room(self, encoded: EncodedBatch) -> None:
        """Make sure that the options of the widest event fit."""
        if len(encoded.entry_label) <= self._entries_max:
            return
        start = encoded.entry_start
        entries_max = int((start[1:] - start[:-1]).max(initial=0))  # `np.diff` takes longer than that
        if entries_max > self._entries_max:
            self._entries_max = 2 * entries_max
            options = np.zeros(OPTIONS_PER_ENTRY * self._entries_max, np.int32)
            digits = self._scratch.digits._replace(option_digit=options)
            raised = np.zeros(2 * self._entries_max, np.int32)
            self._scratch = self._scratch._replace(digits=digits, raised=raised)


class _Generation(NamedTuple):
    base: _Base
    delta: DeltaIndex
    base_rows: int


class MatchEngine:
    """Matches batches against attached layouts and the catalogue's newer rows; one thread at a time.

    Parameters
    ----------
    catalogue : CatalogueReader
    schema : Schema
        Of the events that `read` reads.
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
    ) -> None:
        """Make a layout known; generation 0, the empty one, always is.

        Parameters
        ----------
        generation : int
        layout : LayoutView
        base_counts : CatalogueCounts, optional
            What the layout covers; its own statement by default.
        partition_mine : uint8[P], optional
            1 for each partition to match; all by default.
        """
        self._attach(generation, layout, (base_counts or layout.counts).rows, partition_mine)

    def drop_layout(self, generation: int) -> None:
        """Forget a layout; an unknown generation is no error."""
        if generation != EMPTY_GENERATION:
            self._generations.pop(generation, None)

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
        if len(base.row_catalogue):
            found = base.match(base.encode(batch), limit)
        else:
            found = np.zeros(batch.event_count + 1, np.int64), _NONE
        started_ns = time.perf_counter_ns()
        pairs = (_NONE, _NONE)
        if counts.rows > base_rows:
            pairs = delta.match(batch, counts.rows, shard_idx, shard_count, version)
        delta_us = (time.perf_counter_ns() - started_ns) // 1_000
        total = len(found[1]) + len(pairs[0])
        if total > limit:
            raise too_many_matches(total, limit)
        return self._merge(found, base.row_catalogue, pairs, batch.event_count, delta_us)

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

    def warm_up(self, turn: int = 0) -> None:
        """Compile or load every kernel that `match` will call; `turn` is as in `warm_up_in_turn`."""
        warm_up_in_turn(turn, self._warm_up_matching)

    def _warm_up_matching(self) -> None:
        batch = EventBatch.of_raw(one_event(), self._names)
        base = _Base(self._catalogue, empty_layout(), np.ones(1, np.uint8))
        encoded = base.encode(batch)
        base.observe(encoded, 1)
        base.match(encoded, 1)
        DeltaIndex(self._catalogue, 0, self._limits).warm_up(batch)
        no_matches = np.zeros(3, np.int64), _NONE  # of two events: one alone needs no kernel
        self._merge(no_matches, base.row_catalogue, (_NONE, _NONE), 2, 0)

    def _attach(self, generation: int, layout: LayoutView, base_rows: int, partition_mine: U1 | None) -> None:
        mine = np.ones(len(layout.partition_cost), np.uint8) if partition_mine is None else partition_mine
        base = _Base(self._catalogue, layout, mine)
        delta = DeltaIndex(self._catalogue, base_rows, self._limits)
        self._generations[generation] = _Generation(base, delta, base_rows)

    @staticmethod
    def _merge(
        found: tuple[I8, I4], row_catalogue: I4, pairs: tuple[I4, I4], event_count: int, delta_us: int
    ) -> MatchResult:
        if event_count == 1 and not len(pairs[0]):  # what follows would take longer than matching it
            return MatchResult(found[0], row_catalogue.take(found[1]), delta_us)
        offsets = np.zeros(event_count + 1, np.int64)
        rows = np.empty(len(found[1]) + len(pairs[0]), np.int32)
        _merge_pairs((frozen(found[0]), frozen(found[1])), row_catalogue, pairs, offsets, rows)
        return MatchResult(offsets, rows, delta_us)
