"""A layout made ready for the kernel: its encoder, the tables that the kernel reads, its memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.raw_batch import RawBatch
from pubsub_cluster.shm.blob import TABLE_DIRECT, TABLE_INEXACT, code_shifts
from pubsub_cluster.shm.catalogue import CatalogueReader
from pubsub_cluster.shm.code_space import I4, I8, U1
from pubsub_cluster.shm.layout import LayoutView, frozen
from pubsub_cluster.shm.memory import untouched_zeros
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.encoder import EncodedBatch, Encoder
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import match as match_kernels
from pubsub_cluster.workers.kernels import observe as observe_kernels
from pubsub_cluster.workers.kernels._jit import OK, Settled
from pubsub_cluster.workers.kernels.front import fronts_for
from pubsub_cluster.workers.kernels.lookup import Lookup
from pubsub_cluster.workers.kernels.tables import (
    CURSOR_AND_EVENTS,
    NO_DIGIT,
    PENDING_MAX,
    TABLE_GROUPS,
    Digits,
    Facts,
    Kept,
    MatchTables,
    Places,
    Probes,
    Scratch,
    Walk,
    blobs_of,
)
from pubsub_cluster.workers.pairs import too_many_matches
from pubsub_cluster.workers.text_bits import TextBits

ROWS_MIN = 4_096
ENTRIES_MIN = 256
OPTIONS_PER_ENTRY = 3
"""A value has one digit by label and two by cell."""

_match_events = Settled(match_kernels.match_events)


class Observation(NamedTuple):
    """What matching some events takes.

    Attributes
    ----------
    event_count : int
    work : int64[T + 2, 3]
        Keys probed, clusters met and candidates in them, of each table, of the slots, and of the tree, whose
        keys are inner nodes that are opened.
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
        label_shift=frozen(code_shifts(np.diff(layout.label_start))),
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
        walk=walk_for(layout),
        kept=Kept(np.zeros(len(mark) + 1, np.int32), mark, mark.view(np.int64)),
        fronts=fronts_for(attribute_count, layout.cluster_entries_max),
        row_stamp=untouched_zeros(len(layout.row_catalogue), np.int64),
        program_stamp=untouched_zeros(len(layout.program_row), np.int64),
    )


def walk_for(layout: LayoutView) -> Walk:
    """Return memory for the way of one event through the tree."""
    nodes = len(layout.tree_first)
    dimensions = len(layout.tree_lo) // max(nodes, 1)
    return Walk(
        np.zeros(dimensions, np.int32),
        np.zeros(dimensions, np.int32),
        np.zeros(nodes + 1, np.int32),
        np.zeros(layout.tree_count.max(initial=0), np.uint8),
    )


class LayoutIndex:
    """A layout that batches can be matched against; one thread at a time.

    Parameters
    ----------
    catalogue : CatalogueReader
    layout : LayoutView
    partition_mine : uint8[P]
        1 for each partition to match.
    """

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

    @property
    def lookup(self) -> Lookup:
        """How the encoder finds labels."""
        return self._encoder.lookup

    def encode(self, batch: EventBatch | RawBatch) -> EncodedBatch:
        """Encode a batch against the layout's code spaces."""
        if isinstance(batch, EventBatch):
            return self._encoder.encode_batch(batch)
        return self._encoder.encode(batch)

    def match(self, encoded: EncodedBatch, rows_max: int, prefetch: bool = True) -> tuple[I8, I4]:
        """Return (start int64[n+1], layout row int32[]); the rows are valid until the next call."""
        start = np.zeros(encoded.event_count + 1, np.int64)
        self._match_into(start, encoded, rows_max, prefetch)
        return start, self._out[: start[-1]]

    def match_batch(self, batch: EventBatch, rows_max: int) -> tuple[I8, I4]:
        """Encode and match a batch; as `match`."""
        start = np.zeros(batch.event_count + 1, np.int64)
        first = 0
        for encoded in self._encoder.encode_in_tiles(batch):
            stop = first + encoded.event_count
            self._match_into(start[first : stop + 1], encoded, rows_max)
            first = stop
        return start, self._out[: start[-1]]

    def _match_into(self, start: I8, encoded: EncodedBatch, rows_max: int, prefetch: bool = True) -> None:
        """Write where the rows of each event end, and the rows behind those of ``start[0]``."""
        events = encoded.tables
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
                if start[-1] > rows_max:
                    raise too_many_matches(int(start[-1]), rows_max)
                return
            if len(self._out) > rows_max:
                raise too_many_matches(len(self._out), rows_max)
            self._out = np.concatenate((self._out, np.empty_like(self._out)))

    def observe(self, encoded: EncodedBatch, event_count: int) -> Observation:
        """Count what matching the first events takes."""
        self._make_room(encoded)
        work = np.zeros((len(self.layout.table_mode) + 2, observe_kernels.KINDS), np.int64)
        stop = min(event_count, encoded.event_count)
        events = encoded.tables
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
        if encoded.columns is not None:
            entries_max = len(encoded.columns)
        else:
            start = encoded.entry_start
            entries_max = int((start[1:] - start[:-1]).max(initial=0))  # `np.diff` takes longer than that
        if entries_max > self._entries_max:
            self._entries_max = 2 * entries_max
            options = np.zeros(OPTIONS_PER_ENTRY * self._entries_max, np.int32)
            digits = self._scratch.digits._replace(option_digit=options)
            raised = np.zeros(2 * self._entries_max, np.int32)
            self._scratch = self._scratch._replace(digits=digits, raised=raised)
