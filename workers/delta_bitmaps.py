"""Delta rows as bitmaps over blocks of events: for whatever keys cannot hold, and before there is a layout.

Rows are compiled in *parts*, each with code spaces of its own, built from nothing but its rows.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

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
from pubsub_cluster.workers.kernels._jit import Settled
from pubsub_cluster.workers.pairs import PairArrays, Pairs, Step
from pubsub_cluster.workers.text_bits import TextBits

_sort_by_slot = Settled(kernels.sort_by_slot)
_fill_bitmaps = Settled(kernels.fill_bitmaps)
_match_rows = Settled(kernels.match_rows)

BLOCK_EVENTS = 1_024
Block: TypeAlias = tuple[int, int, int]


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


class BitmapPart:
    """Some rows, compiled.

    Parameters
    ----------
    catalogue : CatalogueReader
    rows : int32[r]
        Catalogue rows, ascending.
    """

    def __init__(self, catalogue: CatalogueReader, rows: I4) -> None:
        self.rows = rows
        programs = compile_rows(catalogue, rows)
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

    def match(self, batch: EventBatch, row_stop: int, version: int, pairs: Pairs) -> None:
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
            block = (row_stop, stop_event - first_event, first_event)
            words = frozen(bitmap)

            def run(row: int, count: int, out: PairArrays, block: Block = block, words: U8 = words) -> Step:
                step: Step = _match_rows(programs, (row, *block, count), words, stack, out)
                return step

            pairs.fill(run, 0)
