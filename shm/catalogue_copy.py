"""Copy a catalogue's live rows into an empty one: with them goes what they use, and nothing else.

The copy holds what a `CatalogueWriter` would hold after a fresh load of the same subscriptions in the order
of their handles: predicates, constants, attributes and owners that no live row uses stay behind, the others
keep their order. Everything is copied column by column, a block of rows at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.limits import INT64_MIN
from pubsub_cluster.language.predicate import ValueKind
from pubsub_cluster.shm.catalogue_codec import FLAG_HAS_HI, FLAG_HAS_LO
from pubsub_cluster.shm.catalogue_draft import Draft, NumberedRows
from pubsub_cluster.shm.catalogue_rows import blocks_of, clause_ranges, id_ranges, literal_ranges, live_rows
from pubsub_cluster.shm.catalogue_store import (
    I4,
    I8,
    NO_COUNTS,
    U1,
    CatalogueColumns,
    CatalogueCounts,
    CatalogueStore,
)
from pubsub_cluster.shm.code_space import expand_slices

GONE = -1


class Renumbered(NamedTuple):
    """New numbers by old ones; `GONE` for what stayed behind.

    Attributes
    ----------
    rows : int32[old rows]
    predicates : int32[old predicates]
    attributes : int32[old attributes]
    owners : int32[old owners]
    """

    rows: I4
    predicates: I4
    attributes: I4
    owners: I4


class RowsRead(NamedTuple):
    """Rows of a catalogue with everything numbered as it is there.

    Attributes
    ----------
    numbered : NumberedRows
        ``window_rows`` are positions in the rows that were asked for.
    predicates : int32[]
        Those that the rows use, ascending.
    """

    numbered: NumberedRows
    predicates: I4


def read_rows(columns: CatalogueColumns, window_count: int, rows: I4, now_us: int = INT64_MIN) -> RowsRead:
    """Read rows, in any order.

    Parameters
    ----------
    columns : CatalogueColumns
    window_count : int
    rows : int32[n]
    now_us : int
        A row whose validity ended by then keeps its id, its handle and its window, and loses its expression:
        no later batch can match it.
    """
    at, window_from, window_until = _windows(columns, window_count, rows)
    first, count, is_program = clause_ranges(columns, rows)
    over = at[window_until <= now_us]
    count[over], is_program[over] = 0, False
    literal_first, literal_size = literal_ranges(columns, expand_slices(first, count))
    literals = columns.literal[expand_slices(literal_first, literal_size)]
    id_first, id_sizes = id_ranges(columns, rows)
    numbered = NumberedRows(
        columns.handle[rows],
        columns.owner[rows],
        at,
        window_from,
        window_until,
        id_sizes,
        columns.id_text[expand_slices(id_first, id_sizes)].tobytes(),
        count,
        literal_size,
        literals,
        np.flatnonzero(is_program),
    )
    return RowsRead(numbered, np.unique(literals[literals >= 0] >> 1))


def renumbered(read: NumberedRows, first_row: int, literal_of: I4, owner_of: I4) -> NumberedRows:
    """Return rows with the numbers of another catalogue, where `first_row` is the first of them."""
    known = np.maximum(read.literals, 0)
    changed = literal_of[known >> 1] + (known & 1) if len(literal_of) else known
    owners = np.where(read.owners >= 0, owner_of[read.owners], -1) if len(owner_of) else read.owners
    return read._replace(
        owners=owners,
        window_rows=first_row + read.window_rows,
        literals=np.where(read.literals >= 0, changed, read.literals),
    )


def copy_live_rows(
    columns: CatalogueColumns,
    counts: CatalogueCounts,
    version: int,
    store: CatalogueStore,
    now_us: int = INT64_MIN,
) -> tuple[CatalogueCounts, Renumbered]:
    """Copy the rows that are not removed at `version`, by handle, into an empty catalogue.

    Parameters
    ----------
    columns : CatalogueColumns
    counts : CatalogueCounts
        What there is; later rows are not looked at.
    version : int
    store : CatalogueStore
        Empty; written to.
    now_us : int
        See `read_rows`.

    Returns
    -------
    counts : CatalogueCounts
        Of the copy.
    numbers : Renumbered

    Raises
    ------
    LimitError, SegmentError
        The copy does not fit into `store`.
    """
    rows = live_rows(columns, counts.rows, version)
    blocks = [rows[block] for block in blocks_of(len(rows))]
    used = np.zeros(counts.predicates, np.bool_)
    owned = np.zeros(counts.owners + 1, np.bool_)  # the last one stands for nobody
    for block in blocks:
        read = read_rows(columns, counts.windows, block, now_us)
        used[read.predicates] = True
        owned[read.numbered.owners] = True
    predicates, owners = np.flatnonzero(used), np.flatnonzero(owned[:-1])
    named = [columns.predicate_attribute[predicates], columns.predicate_other[predicates]]
    attributes = np.unique(np.concatenate(named))
    attributes = attributes[attributes >= 0]
    numbers = Renumbered(
        _numbers(rows, counts.rows),
        _numbers(predicates, counts.predicates),
        _numbers(attributes, counts.attributes),
        _numbers(owners, counts.owners),
    )
    made = _copy_names(columns, store, attributes, owners)
    made = _copy_predicates(columns, store, made, predicates, numbers.attributes)
    for block in blocks:
        taken = read_rows(columns, counts.windows, block, now_us).numbered
        taken = renumbered(taken, made.rows, 2 * numbers.predicates, numbers.owners)
        slices, after = Draft(made, {}, {}, {}).slices_of(taken, store.columns)
        store.make_room(after)
        for column, start, values in slices:
            column[start : start + len(values)] = values
        made = after
    return made, numbers


def _windows(columns: CatalogueColumns, window_count: int, rows: I4) -> tuple[I8, I8, I8]:
    """Return which of the rows have a validity window, by position, and the windows."""
    known = columns.window_row[:window_count]
    place = np.searchsorted(known, rows)
    place[place == window_count] = 0
    at = np.flatnonzero(known[place] == rows) if window_count else np.zeros(0, np.int64)
    place = place[at]
    return at, columns.window_from[place], columns.window_until[place]


def _numbers(kept: npt.NDArray[np.int64] | I4, count: int) -> I4:
    numbers = np.full(count, GONE, np.int32)
    numbers[kept] = np.arange(len(kept), dtype=np.int32)
    return numbers


def _copy_names(
    columns: CatalogueColumns, store: CatalogueStore, attributes: I4, owners: I8
) -> CatalogueCounts:
    """Copy the names of attributes and owners; return the counts afterwards."""
    heap: list[U1] = []
    heap_size = 0
    made = NO_COUNTS._replace(attributes=len(attributes), owners=len(owners))
    store.make_room(made)
    for kind, kept in (("attribute", attributes), ("owner", owners)):
        sizes = getattr(columns, f"{kind}_name_size")[kept]
        text = columns.heap[expand_slices(getattr(columns, f"{kind}_name_start")[kept], sizes)]
        getattr(store.columns, f"{kind}_name_start")[: len(kept)] = heap_size + np.cumsum(sizes) - sizes
        getattr(store.columns, f"{kind}_name_size")[: len(kept)] = sizes
        heap.append(text)
        heap_size += len(text)
    made = made._replace(heap=heap_size)
    store.make_room(made)
    store.columns.heap[:heap_size] = np.concatenate(heap)
    return made


def _copy_predicates(
    columns: CatalogueColumns, store: CatalogueStore, made: CatalogueCounts, kept: I8, attribute_of: I4
) -> CatalogueCounts:
    """Copy predicates and their constants; return the counts afterwards."""
    flags, is_text = columns.predicate_flags[kept], columns.predicate_value_kind[kept] == ValueKind.TEXT
    ends = {}
    uses = [expand_slices(columns.predicate_constant_start[kept], columns.predicate_constant_count[kept])]
    for name, flag in (("predicate_lo_whole", FLAG_HAS_LO), ("predicate_hi_whole", FLAG_HAS_HI)):
        ends[name] = np.flatnonzero(is_text & ((flags & flag) != 0))  # these are numbers of constants
        uses.append(getattr(columns, name)[kept[ends[name]]])
    constants = np.unique(np.concatenate(uses))
    is_long = columns.constant_kind[constants] == ValueKind.TEXT
    sizes = columns.constant_size[constants[is_long]]
    text_start = columns.constant_whole[constants[is_long]]
    after = made._replace(
        predicates=len(kept), constants=len(constants), heap=made.heap + int(sizes.sum(dtype=np.int64))
    )
    store.make_room(after)
    for name in CatalogueColumns._fields:
        pool = name.partition("_")[0]
        picked = {"predicate": kept, "constant": constants}.get(pool)
        if picked is not None:
            getattr(store.columns, name)[: len(picked)] = getattr(columns, name)[picked]
    for block in blocks_of(len(sizes)):
        start = made.heap + int(sizes[: block.start].sum(dtype=np.int64))
        text = columns.heap[expand_slices(text_start[block], sizes[block])]
        store.columns.heap[start : start + len(text)] = text
    new = store.columns
    new.constant_whole[: len(constants)][is_long] = made.heap + np.cumsum(sizes, dtype=np.int64) - sizes
    for name, places in ends.items():
        end: I8 = getattr(new, name)[: len(kept)]
        end[places] = np.searchsorted(constants, end[places])
    members = new.predicate_constant_start[: len(kept)]
    members[:] = np.searchsorted(constants, members)
    if len(attribute_of):
        for named in (new.predicate_attribute[: len(kept)], new.predicate_other[: len(kept)]):
            named[:] = np.where(named >= 0, attribute_of[named], named)
    return after
