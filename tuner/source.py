"""What a layout is built from: live rows and their clauses, gathered from the catalogue as they are needed.

The catalogue's literals are read in blocks of clauses and never copied as a whole: a builder of millions of
subscriptions may not need several times the memory of its result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.shm.catalogue import CatalogueCounts
from pubsub_cluster.shm.code_space import I4, I8, expand_slices

BLOCK_CLAUSES = 1 << 17


class Source(NamedTuple):
    """Live rows, their clauses and programs.

    Attributes
    ----------
    columns : CatalogueColumns
    row_catalogue : int32[R]
        Catalogue row of each layout row; by handle.
    clause_catalogue : int32[n]
    clause_row : int32[n]
    program_row : int64[G]
    program_start : int64[G+1]
    program_code : int32[]
        Literals numbered by the catalogue.
    """

    columns: Any
    row_catalogue: I4
    clause_catalogue: I4
    clause_row: I4
    program_row: I8
    program_start: I8
    program_code: I4

    @property
    def clause_count(self) -> int:
        """Number of clauses."""
        return len(self.clause_catalogue)


class Clauses(NamedTuple):
    """Literals of some clauses.

    Attributes
    ----------
    start : int64[m+1]
    literal : int32[]
    owner : int64[]
        Which of the m clauses each literal belongs to.
    """

    start: I8
    literal: I4
    owner: I8


def collect_source(columns: Any, counts: CatalogueCounts, version: int) -> Source:
    """List rows below ``counts.rows`` that are not removed at `version`, by handle, and what they have."""
    removed = columns.removed_version[: counts.rows]
    rows = np.flatnonzero((removed == 0) | (removed > version)).astype(np.int32)
    handles = columns.handle[rows]
    if np.any(handles[1:] < handles[:-1]):
        rows = rows[np.argsort(handles, kind="stable")]
    del handles

    program_size = columns.program_size[rows]
    clause_count = np.where(program_size > 0, 0, columns.clause_count[rows])
    clause = expand_slices(columns.clause_start[rows], clause_count).astype(np.int32)
    clause_row = np.repeat(np.arange(len(rows), dtype=np.int32), clause_count)

    program_row = np.flatnonzero(program_size > 0)
    size = program_size[program_row].astype(np.int64)
    code = columns.program[expand_slices(columns.program_start[rows[program_row]], size)]
    program_start = np.zeros(len(program_row) + 1, np.int64)
    np.cumsum(size, out=program_start[1:])
    return Source(columns, rows, clause, clause_row, program_row, program_start, code)


def predicates_in_use(source: Source, predicate_count: int) -> I4:
    """Return the catalogue predicates that some live row has, ascending."""
    used = np.zeros(predicate_count, bool)
    for first in range(0, source.clause_count, BLOCK_CLAUSES):
        used[gather(source, slice(first, first + BLOCK_CLAUSES)).literal >> 1] = True
    used[source.program_code[source.program_code >= 0] >> 1] = True
    return np.flatnonzero(used).astype(np.int32)


def gather(source: Source, picked: Any) -> Clauses:
    """Return the literals of picked clauses (a slice or an array), numbered by the catalogue."""
    clause = source.clause_catalogue[picked]
    count = source.columns.clause_literal_count[clause]
    start = np.zeros(len(clause) + 1, np.int64)
    np.cumsum(count, out=start[1:])
    literal = source.columns.literal[expand_slices(source.columns.clause_literal_start[clause], count)]
    return Clauses(start, literal, np.repeat(np.arange(len(clause)), count))


def renumbered(codes: I4, number: I4) -> I4:
    """Return literals (and connectives, which stay) with their predicates numbered by `number`."""
    if not len(number):
        return codes.astype(np.int32)
    known = np.maximum(codes, 0)
    changed = 2 * number[known >> 1] + (known & 1)
    return np.where(codes >= 0, changed, codes).astype(np.int32)
