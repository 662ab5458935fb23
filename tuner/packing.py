"""From assigned clauses to the columns of a layout: the tables' areas, the slots' clusters, one blob.

Tables are packed one after the other, so that no more than one table's clauses are in the builder's hands at
a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.blob import TABLE_DIRECT, TABLE_INEXACT, TABLE_SAME_PREFIX
from pubsub_cluster.shm.code_space import F8, I4, I8, U1
from pubsub_cluster.tuner.access import Ways, slots_of
from pubsub_cluster.tuner.carry import Carried, among, merge
from pubsub_cluster.tuner.clusters import (
    CLUSTER_NS,
    ENTRY_NS,
    BlobWriter,
    Sections,
    pack_entries,
)
from pubsub_cluster.tuner.entries import Bools, Entries, shape_code
from pubsub_cluster.tuner.predicates import FLAG_COLUMN, INTERVAL_COLUMN, TEST_COLUMN, Predicates
from pubsub_cluster.tuner.source import Clauses
from pubsub_cluster.tuner.tables import (
    CellMap,
    Lookup,
    TableKeys,
    first_digits,
    is_direct,
    make_hash,
    multipliers,
    table_keys,
)

DIRECT_WORDS_MAX = (1 << 31) - 1


class ResidualOrder(NamedTuple):
    """The order of residuals within a clause: by sort of column, then most selective first.

    Attributes
    ----------
    rank : int64[2P]
        Of each literal.
    literal : int32[2P]
        Of each rank.
    column : int8[P]
    """

    rank: I8
    literal: I4
    column: npt.NDArray[np.int8]


class PackedTables(NamedTuple):
    """Columns of all tables, in order; as in `shm.layout.LayoutView`."""

    table_offset: I8
    table_area: I8
    table_size: I8
    table_places: I8
    table_mode: U1
    table_direct: I4
    table_hash: I8
    table_cost: F8
    table_entries: I8


def residual_order(predicates: Predicates, ways: Ways) -> ResidualOrder:
    """Rank all literals.

    Ranges go by the mean of their attribute, so that the clauses of a section have their attributes in the
    same order: then columns are uniform.
    """
    passes: F8 = np.empty(2 * len(ways.probability))
    passes[0::2], passes[1::2] = ways.probability, 1.0 - ways.probability
    is_range = (predicates.attribute >= 0) & (predicates.reference < 0) & (predicates.column != FLAG_COLUMN)
    ranges = np.flatnonzero(is_range)
    attribute = predicates.attribute[ranges]
    mean = np.bincount(attribute, passes[2 * ranges]) / np.maximum(np.bincount(attribute), 1)
    passes[2 * ranges] = mean[attribute]
    group = np.full(len(passes), -1, np.int32)
    group[2 * ranges] = attribute
    literal = np.lexsort((group, passes))
    rank = np.empty(len(literal), np.int64)
    rank[literal] = np.arange(len(literal))
    return ResidualOrder(rank, literal.astype(np.int32), predicates.column)


def make_residuals(
    clauses: Clauses, is_residual: Any, is_cell: Any, order: ResidualOrder
) -> tuple[I4, I8, I8]:
    """Return residual literals in order, the first of each clause, and each clause's shape.

    Parameters
    ----------
    clauses : Clauses
    is_residual, is_cell : bool[]
        Of each literal: whether it is left to check; whether its clause was found through its cell, so that
        it is likely to hold and comes last (None: no clause was).
    order : ResidualOrder
    """
    count = len(clauses.start) - 1
    left = np.flatnonzero(is_residual)
    literal, owner = clauses.literal[left], clauses.owner[left]
    total = np.bincount(owner, minlength=count)
    assert (FLAG_COLUMN, INTERVAL_COLUMN, TEST_COLUMN) == (0, 1, 2)
    column = order.column[literal >> 1]
    numbers = [total]
    if column.any():
        numbers = [np.bincount(owner[column == sort], minlength=count) for sort in (0, 1, 2)]
    bits = max(len(order.literal) - 1, 1).bit_length()
    word = owner.astype(np.int64)
    word <<= 2
    word |= column
    word <<= 1
    if is_cell is not None:
        word |= is_cell[left]
    word <<= bits
    word |= order.rank[literal]
    del left, literal, owner, column
    word.sort()
    word &= (1 << bits) - 1
    return order.literal[word], np.cumsum(total) - total, shape_code(*numbers, *[0] * (3 - len(numbers)))


class TablePacker:
    """Packs tables one by one into a blob.

    Parameters
    ----------
    predicates, ways, lookup, cells, order
        What is known of predicates.
    partition_count : int
    blob : BlobWriter
    row_once : bool[R]
        Rows of one clause.

    Attributes
    ----------
    blob : BlobWriter
    partition_cost : float64[P]
        Of the tables so far.
    """

    def __init__(
        self,
        predicates: Predicates,
        ways: Ways,
        lookup: Lookup,
        cells: CellMap,
        order: ResidualOrder,
        partition_count: int,
        blob: BlobWriter,
        row_once: Bools,
    ) -> None:
        self._known = (predicates, lookup, cells, ways)
        self._row_once = row_once
        self._order = order
        self.blob = blob
        self._rows: list[tuple[int, int, int, int, float, int]] = []
        self._direct: list[I4] = []
        self._hash: list[I8] = []
        self._direct_size = self._hash_size = 0
        self._multipliers: list[int] = []
        self._offsets: list[int] = []
        self._prefix: list[int] | None = None
        self._entry_count_max = 0
        self.partition_cost = np.zeros(partition_count)

    def add(
        self, clauses: Clauses, row: I4, codes: list[int], radix: list[int], carried: Carried | None = None
    ) -> I4:
        """Pack the next table; return the rows of its entries, repeats included.

        Parameters
        ----------
        clauses : Clauses
        row : int32[m]
            Of each clause.
        codes, radix : list of int
            Part codes, and digits of each part.
        carried : Carried, optional
            What is not packed anew; then `clauses` are those that are.
        """
        first = first_digits(codes, self._known[0])
        multiplier, is_exact = multipliers(radix, first)
        self._offsets.append(sum(a * b for a, b in zip(first, multiplier, strict=True)))
        same = TABLE_SAME_PREFIX if codes[:-1] == self._prefix else 0
        self._prefix = codes[:-1]
        self._multipliers += multiplier
        keys = table_keys(clauses, codes, multiplier, *self._known)
        key_count = np.bincount(keys.clause, minlength=len(row)) if len(keys.clause) > len(row) else None
        if carried is not None:
            keys = keys.pick(among(keys.key, carried.key))
        entries = self._entries(clauses, row, keys, key_count, codes, is_exact)
        probability = keys.probability
        del clauses, row, keys  # the largest arrays are not needed while the blob is written
        target = entries.target
        sections, chance = pack_beside(entries, probability, self._known[0], True, self.blob, carried)
        del entries, probability
        if carried is not None:
            target = np.concatenate((target, carried.target))
        self._entry_count_max = self.entry_count_max(sections)
        new = np.ones(len(sections.key), bool)
        new[1:] = sections.key[1:] != sections.key[:-1]
        key, position = sections.key[new], sections.start[new]
        cost = self._spread_cost(sections, chance)
        fits = len(position) == 0 or int(position[-1]) < DIRECT_WORDS_MAX
        if is_exact and fits and is_direct(radix, len(key)):
            size = int(np.prod(radix))
            direct = np.full(size, form.NO_POSITION, np.int32)
            direct[key] = position
            self._direct.append(direct)
            self._rows.append((self._direct_size, size, size, TABLE_DIRECT | same, cost, len(target)))
            self._direct_size += size
        else:
            entry, capacity = make_hash(key, position)
            mode = same | (0 if is_exact else TABLE_INEXACT)
            self._hash.append(entry)
            self._rows.append((self._hash_size, capacity, len(entry) // 2, mode, cost, len(target)))
            self._hash_size += len(entry) // 2
        return target

    def finish(self) -> PackedTables:
        """Return the columns."""
        area, size, places, mode, cost, count = zip(*self._rows, strict=True) if self._rows else ((),) * 6
        return PackedTables(
            np.array(self._offsets, np.int64),
            np.array(area, np.int64),
            np.array(size, np.int64),
            np.array(places, np.int64),
            np.array(mode, np.uint8),
            np.concatenate([np.zeros(0, np.int32), *self._direct]),
            np.concatenate([np.zeros(0, np.int64), *self._hash]),
            np.array(cost, np.float64),
            np.array(count, np.int64),
        )

    @property
    def entry_count(self) -> int:
        """Entries of all tables."""
        return sum(row[-1] for row in self._rows)

    def multipliers(self) -> I8:
        """Return the multipliers of all parts."""
        return np.array(self._multipliers, np.int64)

    def entry_count_max(self, sections: Sections) -> int:
        """Return the entries of the largest section, of tables and of `sections`."""
        return max(self._entry_count_max, int(sections.entry_count.max(initial=0)))

    def _entries(
        self,
        clauses: Clauses,
        row: I4,
        keys: TableKeys,
        key_count: I8 | None,
        codes: list[int],
        is_exact: bool,
    ) -> Entries:
        is_residual = np.ones(len(clauses.literal), bool)
        is_cell = None  # most tables have none
        for part, code in enumerate(codes):
            if code & 1:
                is_cell = np.zeros(len(clauses.literal), bool) if is_cell is None else is_cell
                is_cell[keys.looked_up[part]] = True
            else:
                is_residual[keys.looked_up[part]] = False
        residual, start, shape = make_residuals(clauses, is_residual, is_cell, self._order)
        once = self._row_once[row]
        if key_count is not None:
            once = once & (key_count == 1)
        if len(keys.clause) != len(row) or key_count is not None:
            once, row = once[keys.clause], row[keys.clause]
            start, shape = start[keys.clause], shape[keys.clause]
        digits = None if is_exact else np.stack(keys.digits, axis=1)
        cells = sum(code & 1 for code in codes)
        return Entries(keys.key, row, start, shape, residual, once, digits, cells)

    def _spread_cost(self, sections: Sections, probability: F8) -> float:
        """Add a table's expected cost to its partitions; return all of it."""
        count = len(self.partition_cost)
        partition = form.partition_of(len(self._rows), form.mix_key(sections.key), count)
        expected = probability * (CLUSTER_NS + ENTRY_NS * sections.entry_count)
        cost = np.bincount(partition, expected, minlength=count)
        self.partition_cost += cost
        return float(cost.sum())


def pack_beside(
    entries: Entries,
    probability: F8,
    predicates: Predicates,
    is_chained: bool,
    blob: BlobWriter,
    carried: Carried | None,
) -> tuple[Sections, F8]:
    """Pack entries, beside what stays where there is such; as `pack_entries`.

    Parameters
    ----------
    entries : Entries
    probability : float64[e]
        That an event has the key of each.
    predicates, is_chained, blob
        As of `pack_entries`.
    carried : Carried or None

    Returns
    -------
    sections : Sections
    probability : float64[s]
        Of each section's key.
    """
    if carried is None:
        sections = pack_entries(entries, predicates, is_chained, blob)
        return sections, probability[sections.entry]
    apart = BlobWriter(4 * len(entries.key) + 1024)
    fresh = pack_entries(entries, predicates, is_chained, apart, carried.has_fronts)
    return merge(fresh, probability[fresh.entry], apart.words, carried, blob)


def slot_entries(
    clauses: Clauses,
    row: I4,
    ways: Ways,
    order: ResidualOrder,
    programs: list[tuple[list[int], int]],
    row_once: Bools,
) -> Entries:
    """Return the entries of clauses that hang off slots, and of programs.

    Parameters
    ----------
    clauses : Clauses
    row : int32[m]
    ways : Ways
    order : ResidualOrder
    programs : list of (slots, program)
    row_once : bool[R]
        Rows of one clause.
    """
    access, slot, slot_count = slots_of(clauses.start, clauses.literal, ways)
    has_access = access >= 0
    is_residual = np.ones(len(clauses.literal), bool)
    is_residual[access[has_access]] = ~ways.is_implied[clauses.literal[access[has_access]] >> 1]
    residual, start, shape = make_residuals(clauses, is_residual, None, order)
    program_slot = np.array([slot for slots, _ in programs for slot in slots], np.int64)
    target = np.array([~program for slots, program in programs for _ in slots], np.int32)
    zeros = np.zeros(len(target), np.int64)
    return Entries(
        np.concatenate((slot, program_slot)),
        np.concatenate((np.repeat(row, slot_count), target)).astype(np.int32),
        np.concatenate((np.repeat(start, slot_count), zeros)),
        np.concatenate((np.repeat(shape, slot_count), zeros)),
        residual,
        np.concatenate((np.repeat(row_once[row] & (slot_count == 1), slot_count), zeros > 0)),
    )
