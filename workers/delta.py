"""The delta: catalogue rows that a generation does not hold yet, matched as bitmaps over blocks of events.

Rows are compiled in *parts*, each with code spaces of its own, built from nothing but its rows. New rows
make a new part, which swallows the parts before it that are not much larger: so a row is compiled a
logarithmic number of times and there are few parts. A part may hold rows that a batch must not see yet: the
batch's row count cuts. Only this shard's rows (``row % shard_count == shard_idx``) are compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.shm.catalogue import CatalogueReader
from pubsub_cluster.shm.catalogue_rows import clause_ranges, is_removed, literal_ranges
from pubsub_cluster.shm.code_space import (
    I4,
    I8,
    U8,
    LabelTests,
    build_code_spaces,
    expand_slices,
    gather_predicates,
)
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.encoder import Encoder
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import delta as kernels
from pubsub_cluster.workers.kernels._jit import OK, Settled
from pubsub_cluster.workers.text_bits import TextBits

_sort_by_slot = Settled(kernels.sort_by_slot)
_fill_bitmaps = Settled(kernels.fill_bitmaps)
_match_rows = Settled(kernels.match_rows)

BLOCK_EVENTS = 1_024
SWALLOW_FACTOR = 2
PAIRS_MIN = 16_384


class RowPrograms(NamedTuple):
    """Rows as postfix programs (`language.predicate.NormalForm`) over predicates of their own numbering.

    Predicate 0 is constant true; predicate i > 0 is `predicate_id[i - 1]` of the catalogue.
    """

    start: I8
    code: I4
    row: I4
    predicate_id: I4


def compile_rows(catalogue: CatalogueReader, rows: I4) -> RowPrograms:
    """Turn catalogue rows into programs; rows that can never hold are left out."""
    columns = catalogue.columns
    rows = rows[clause_ranges(columns, rows)[1] > 0]
    first_clause, clause_count, is_program = clause_ranges(columns, rows)
    program_first, program_length = literal_ranges(columns, first_clause[is_program])
    program_size = np.zeros(len(rows), np.int64)
    program_size[is_program] = program_length
    clause_count[is_program] = 0

    clause = expand_slices(first_clause, clause_count)
    literal_first, literal_count = literal_ranges(columns, clause)
    operand_count = np.maximum(literal_count, 1)
    clause_end = np.cumsum(operand_count + 1)
    clause_first = np.concatenate((np.zeros(1, np.int64), clause_end))[np.cumsum(clause_count) - clause_count]
    clause_size = np.concatenate((np.zeros(1, np.int64), clause_end))[np.cumsum(clause_count)] - clause_first

    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.where(is_program, program_size, clause_size + 1), out=start[1:])
    code = np.zeros(int(start[-1]), np.int32)
    clause_at = clause_end - operand_count - 1 + np.repeat(start[:-1] - clause_first, clause_count)
    literal_at = expand_slices(clause_at, literal_count)
    code[literal_at] = columns.literal[expand_slices(literal_first, literal_count)]
    program_at = expand_slices(start[:-1][is_program], program_length)
    code[program_at] = columns.literal[expand_slices(program_first, program_length)]
    from_catalogue = np.zeros(len(code), bool)
    from_catalogue[literal_at] = True
    from_catalogue[program_at] = code[program_at] >= 0

    predicate_id, local = np.unique(code[from_catalogue] >> 1, return_inverse=True)
    code[from_catalogue] = 2 * (local + 1) + (code[from_catalogue] & 1)
    code[clause_at + operand_count] = -2 * operand_count
    code[(start[1:] - 1)[~is_program]] = -2 * clause_count[~is_program] - 1
    return RowPrograms(start, code, rows.astype(np.int32), predicate_id.astype(np.int32))


def label_intervals(tests: LabelTests, label_start: I8) -> tuple[I4, I8, I8]:
    """Rewrite label tests as intervals of label slots: (predicate, first slot, last slot), ends closed."""
    test = tests.test.reshape(-1, 4).astype(np.int64)
    attribute, lo, hi, reference = test.T
    plain = np.flatnonzero((attribute >= 0) & (reference < 0))
    parts = [(plain, lo[plain], hi[plain])]

    has_set = np.flatnonzero(reference >= 0)
    is_except = (reference[has_set] & 1) == 1
    for owner, excluded in ((has_set[~is_except], False), (has_set[is_except], True)):
        sets = reference[owner] >> 1
        first = tests.set_start[sets].astype(np.int64)
        count = tests.set_start[sets + 1] - first
        member = tests.set_label[expand_slices(first, count)].astype(np.int64)
        if not excluded:
            parts.append((np.repeat(owner, count), member, member))
            continue
        gap_end = np.cumsum(count + 1)
        low = np.zeros(int(gap_end[-1]) if len(owner) else 0, np.int64)
        high = low.copy()
        opens = np.zeros(len(low), bool)
        opens[gap_end - count - 1] = True
        closes = np.zeros(len(low), bool)
        closes[gap_end - 1] = True
        low[opens], low[~opens] = lo[owner], member + 1
        high[closes], high[~closes] = hi[owner], member - 1
        parts.append((np.repeat(owner, count + 1), low, high))
    predicate, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
    base = label_start[attribute[predicate]]
    return predicate.astype(np.int32), base + low, base + high


class _Part:
    """Catalogue rows [first, stop) of one shard, compiled."""

    def __init__(
        self, catalogue: CatalogueReader, first: int, stop: int, shard_idx: int, shard_count: int
    ) -> None:
        self.first, self.stop = first, stop
        rows = np.arange(first, stop, dtype=np.int32)
        programs = compile_rows(catalogue, rows[rows % shard_count == shard_idx])
        predicates = gather_predicates(catalogue.columns, programs.predicate_id)
        spaces, tests = build_code_spaces(predicates)
        bits = TextBits([catalogue.predicate(int(i)) for i in programs.predicate_id[tests.bit_predicate]])
        names = [catalogue.attribute_name(int(i)) for i in predicates.attribute_id]
        self._encoder = Encoder(spaces, names, bits, tests.test)
        self._label_start = kernel_input(spaces.label_start, np.int64)
        predicate, low, high = label_intervals(tests, spaces.label_start)
        self._intervals = (kernel_input(predicate + 1, np.int32), frozen(low), frozen(high))
        self._bit_row = tests.bit_predicate + 1
        self._programs = (
            kernel_input(programs.start, np.int64),
            kernel_input(programs.code, np.int32),
            kernel_input(programs.row, np.int32),
        )
        self._columns = catalogue.columns
        self._alive: tuple[int, tuple[I8, I4, I4]] | None = None
        self._program_size_max = int(np.diff(programs.start).max(initial=1))
        self._predicate_count = len(programs.predicate_id) + 1

    def programs_at(self, version: int) -> tuple[I8, I4, I4]:
        """Return the programs of the rows that are not removed at `version`.

        One id that is updated all day leaves a dead row each time until the next generation; they must
        neither cost time nor count as matches.
        """
        dead = is_removed(self._columns, self._programs[2], version)
        dead_count = int(np.count_nonzero(dead))
        if not dead_count:
            return self._programs
        if self._alive is None or self._alive[0] != dead_count:
            start, code, row = self._programs
            kept = np.flatnonzero(~dead)
            size = np.diff(start)[kept]
            kept_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
            kept_code = code[expand_slices(start[kept], size)]
            alive = (
                kernel_input(kept_start, np.int64),
                kernel_input(kept_code, np.int32),
                kernel_input(row[kept], np.int32),
            )
            self._alive = (dead_count, alive)
        return self._alive[1]

    def match(self, batch: EventBatch, row_stop: int, version: int, pairs: _Pairs) -> None:
        """Add the matches of rows below `row_stop` that are not removed at `version` to `pairs`."""
        programs = self.programs_at(version)
        encoded = self._encoder.encode_batch(batch)
        entry_event = np.repeat(
            np.arange(batch.event_count, dtype=np.int32), np.diff(encoded.entry_start).astype(np.int64)
        )
        bit_event = np.repeat(np.arange(batch.event_count, dtype=np.int32), np.diff(encoded.bit_start))
        word_count = -(-min(batch.event_count, BLOCK_EVENTS) // 64)
        bitmap = np.zeros((self._predicate_count, word_count), np.uint64)
        stack = np.empty((self._program_size_max, word_count), np.uint64)
        for first_event in range(0, max(batch.event_count, 1), BLOCK_EVENTS):
            stop_event = min(first_event + BLOCK_EVENTS, batch.event_count)
            entry = slice(*encoded.entry_start[[first_event, stop_event]].tolist())
            slot_stop = np.zeros(int(self._label_start[-1]) + 1, np.int64)
            slot_event = np.empty(entry.stop - entry.start, np.int32)
            events = frozen(entry_event[entry] - np.int32(first_event))
            labels = (events, encoded.entry_attribute[entry], encoded.entry_label[entry])
            _sort_by_slot(labels, self._label_start, slot_stop, slot_event)
            bit = slice(*encoded.bit_start[[first_event, stop_event]].tolist())
            bits = (
                frozen(bit_event[bit] - np.int32(first_event)),
                frozen(self._bit_row[encoded.bit[bit]]),
            )
            bitmap.fill(0)
            bitmap[0] = kernels.ALL_ONES
            _fill_bitmaps(self._intervals, frozen(slot_stop), frozen(slot_event), bits, bitmap)
            pairs.collect(programs, (row_stop, stop_event - first_event, first_event), bitmap, stack)


class _Pairs:
    """(event, row) pairs found so far; grows up to the limit of a batch."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.matches_per_batch_max
        self._event = np.empty(PAIRS_MIN, np.int32)
        self._row = np.empty(PAIRS_MIN, np.int32)
        self._count = 0

    def collect(
        self, programs: tuple[I8, I4, I4], block: tuple[int, int, int], bitmap: U8, stack: U8
    ) -> None:
        """Run `kernels.match_rows` over one block, growing when it overflows."""
        row_stop, event_count, first_event = block
        row = 0
        bitmap = frozen(bitmap)
        while True:
            bounds = (row, row_stop, event_count, first_event, self._count)
            out = (self._event, self._row)
            status, row, self._count = _match_rows(programs, bounds, bitmap, stack, out)
            if self._count > self._limit:
                raise too_many_matches(self._count, self._limit)
            if status == OK:
                return
            self._event = np.concatenate((self._event, np.empty_like(self._event)))
            self._row = np.concatenate((self._row, np.empty_like(self._row)))

    def arrays(self) -> tuple[I4, I4]:
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


class DeltaIndex:
    """The rows from `base_rows` on.

    Parameters
    ----------
    catalogue : CatalogueReader
    base_rows : int
        First row that the generation does not hold.
    limits : Limits
    """

    def __init__(self, catalogue: CatalogueReader, base_rows: int, limits: Limits) -> None:
        self._catalogue = catalogue
        self._limits = limits
        self._base_rows = base_rows
        self._stop = base_rows
        self._shard = (0, 1)
        self._parts: list[_Part] = []

    def match(
        self, batch: EventBatch, row_stop: int, shard_idx: int, shard_count: int, version: int = 0
    ) -> tuple[I4, I4]:
        """Match the rows [base_rows, row_stop) of one shard that are not removed at `version`.

        Returns
        -------
        event, row : int32[m], read-only
            Pairs in no particular order, without repeats.

        Raises
        ------
        LimitError
            More pairs than ``limits.matches_per_batch_max``.
        """
        if (shard_idx, shard_count) != self._shard:
            self._parts, self._stop, self._shard = [], self._base_rows, (shard_idx, shard_count)
        if row_stop > self._stop:
            self._extend(row_stop)
        pairs = _Pairs(self._limits)
        for part in self._parts:
            if part.first < row_stop:
                part.match(batch, row_stop, version, pairs)
        return pairs.arrays()

    def warm_up(self, batch: EventBatch) -> None:
        """Run every kernel of the delta once, on no rows."""
        _Part(self._catalogue, 0, 0, 0, 1).match(batch, 0, 0, _Pairs(self._limits))

    def _extend(self, row_stop: int) -> None:
        first = self._stop
        while self._parts:
            last = self._parts[-1]
            if last.stop - last.first >= SWALLOW_FACTOR * (row_stop - first):
                break
            first = self._parts.pop().first
        self._parts.append(_Part(self._catalogue, first, row_stop, *self._shard))
        self._stop = row_stop
