"""What a layout is built from: live rows and their clauses, gathered from the catalogue as they are needed.

The catalogue's literals are read in blocks of clauses and never copied as a whole: a builder of millions of
subscriptions may not need several times the memory of its result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.catalogue import CatalogueCounts
from pubsub_cluster.shm.catalogue_rows import clause_ranges, first_clauses, literal_ranges, live_rows
from pubsub_cluster.shm.code_space import I4, I8, expand_slices

BLOCK_CLAUSES = 1 << 17


class Source(NamedTuple):
    """Live rows, their clauses and programs.

    Attributes
    ----------
    columns : CatalogueColumns
    row_catalogue : int32[R]
        Catalogue row of each layout row; by handle.
    clause_catalogue, clause_row : int32[n] or None
        Catalogue clause and layout row of each clause; None where each row has one clause, as most have.
    program_row : int64[G]
    program_start : int64[G+1]
    program_code : int32[]
        Literals numbered by the catalogue.
    """

    columns: Any
    row_catalogue: I4
    clause_catalogue: I4 | None
    clause_row: I4 | None
    program_row: I8
    program_start: I8
    program_code: I4

    @property
    def clause_count(self) -> int:
        """Number of clauses."""
        return len(self.row_catalogue if self.clause_row is None else self.clause_row)

    def rows_of(self, picked: slice | I4 | I8) -> I4:
        """Return the layout rows of picked clauses."""
        if self.clause_row is not None:
            return self.clause_row[picked]
        if isinstance(picked, slice):
            return np.arange(*picked.indices(self.clause_count), dtype=np.int32)
        return picked.astype(np.int32, copy=False)

    def catalogue_clauses(self, picked: slice | I4 | I8) -> I4 | I8:
        """Return the catalogue's numbers of picked clauses."""
        if self.clause_catalogue is not None:
            return self.clause_catalogue[picked]
        return first_clauses(self.columns, self.row_catalogue[picked])


class Clauses(NamedTuple):
    """Literals of some clauses.

    Attributes
    ----------
    start : int64[m+1]
    literal : int32[]
    owner : int32[]
        Which of the m clauses each literal belongs to.
    """

    start: I8
    literal: I4
    owner: I4


def collect_source(columns: Any, counts: CatalogueCounts, version: int) -> Source:
    """List rows below ``counts.rows`` that are not removed at `version`, by handle, and what they have."""
    rows = live_rows(columns, counts.rows, version)
    blocks = [slice(first, first + BLOCK_CLAUSES) for first in range(0, len(rows), BLOCK_CLAUSES)]
    if all((_clauses(columns, rows[block])[1] == 1).all() for block in blocks):
        none = np.zeros(0, np.int64)
        return Source(columns, rows, None, None, none, np.zeros(1, np.int64), np.zeros(0, np.int32))
    clause_total = sum(int(_clauses(columns, rows[block])[1].sum()) for block in blocks)
    clause, clause_row = np.empty(clause_total, np.int32), np.empty(clause_total, np.int32)
    program_rows, programs = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    at = 0
    for block in blocks:
        mine = rows[block]
        first, count, is_program = _clauses(columns, mine)
        stop = at + int(count.sum())
        clause[at:stop] = expand_slices(first, count)
        clause_row[at:stop] = np.repeat(np.arange(block.start, block.start + len(mine)), count)
        program_rows.append(block.start + np.flatnonzero(is_program))
        programs.append(first[is_program])
        at = stop

    program_row = np.concatenate(program_rows)
    start, size = literal_ranges(columns, np.concatenate(programs))
    code = columns.literal[expand_slices(start, size)]
    program_start = np.zeros(len(program_row) + 1, np.int64)
    np.cumsum(size, out=program_start[1:])
    return Source(columns, rows, clause, clause_row, program_row, program_start, code)


def _clauses(columns: Any, rows: I4) -> tuple[I8, I8, npt.NDArray[np.bool_]]:
    """Return first clause and number of clauses of rows, none where a row is stored as a program."""
    first, count, is_program = clause_ranges(columns, rows)
    count[is_program] = 0
    return first, count, is_program


def literal_uses(source: Source, predicate_count: int) -> I8:
    """Return how many literals each catalogue predicate has in live rows, programs included."""
    uses = np.bincount(source.program_code[source.program_code >= 0] >> 1, minlength=predicate_count)
    for first in range(0, source.clause_count, BLOCK_CLAUSES):
        literal = gather(source, slice(first, first + BLOCK_CLAUSES)).literal
        uses += np.bincount(literal >> 1, minlength=predicate_count)
    return uses.astype(np.int64)


def gather(source: Source, picked: Any) -> Clauses:
    """Return the literals of picked clauses (a slice or an array), numbered by the catalogue."""
    clause = source.catalogue_clauses(picked)
    columns, count = source.columns, len(clause)
    if count and int(clause[-1]) - int(clause[0]) == count - 1 and bool((clause[1:] > clause[:-1]).all()):
        start = columns.literal_start[int(clause[0]) : int(clause[0]) + count + 1].astype(np.int64)
        literal = columns.literal[int(start[0]) : int(start[-1])]
        start -= start[0]
        size = np.diff(start)
    else:
        first, size = literal_ranges(columns, clause)
        start = np.zeros(count + 1, np.int64)
        np.cumsum(size, out=start[1:])
        literal = columns.literal[expand_slices(first, size)]
    return Clauses(start, literal, np.repeat(np.arange(count, dtype=np.int32), size))


def without(source: Source, clause: I8) -> Source:
    """Return a source without some of its clauses, ascending; its rows stay."""
    kept = np.ones(source.clause_count, bool)
    kept[clause] = False
    left = np.flatnonzero(kept)
    catalogue = source.catalogue_clauses(left).astype(np.int32)
    return source._replace(clause_catalogue=catalogue, clause_row=source.rows_of(left))


def renumbered(codes: I4, number: I4) -> I4:
    """Return literals (and connectives, which stay) with their predicates numbered by `number`."""
    if not len(number):
        return codes.astype(np.int32)
    known = np.maximum(codes, 0)
    changed = 2 * number[known >> 1] + (known & 1)
    return np.where(codes >= 0, changed, codes).astype(np.int32)
