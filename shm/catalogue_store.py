"""Room of the catalogue: its columns, how many of each there may be, and pages reserved step by step.

The segment is sparse: its virtual size follows from `Limits.subscriptions_max` and the ratios below, its real
size from what has been appended. Pools (all but the rows) are sized generously, since virtual size is free.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.shm.column_plan import length_in
from pubsub_cluster.shm.columns import FAMILIES
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.segment import Owner

FAMILY = "catalogue"
RESERVE_STEP_FIRST = 1 << 13  # items; 64 KiB of an int64 column
RESERVE_STEP_MAX = 1 << 17  # items; 1 MiB of an int64 column
FIRST_EPOCH = 1
ROWS_PER_SUBSCRIPTION = 2  # dead rows stay until they are a third of all, and while the rest is copied
ROWS_AHEAD = 4096  # rows beyond those of subscriptions: for changes on their way
# A literal, 2 * predicate + negated, and a clause are an int32; where ids and literals start is a uint32.
ITEMS_MAX = {"predicates": 1 << 30, "clauses": (1 << 31) - 1, "id_bytes": (1 << 32) - 1, "literals": 1 << 31}

I1: TypeAlias = npt.NDArray[np.int8]
I4: TypeAlias = npt.NDArray[np.int32]
I8: TypeAlias = npt.NDArray[np.int64]
U1: TypeAlias = npt.NDArray[np.uint8]
U4: TypeAlias = npt.NDArray[np.uint32]
U8: TypeAlias = npt.NDArray[np.uint64]
F8: TypeAlias = npt.NDArray[np.float64]


class CatalogueCounts(NamedTuple):
    """How many items of each pool there are: what a reader may look at. Travels in messages.

    The names are the length symbols of the family ``catalogue``, in its order.
    """

    rows: int
    windows: int
    id_bytes: int
    clauses: int
    literals: int
    predicates: int
    constants: int
    heap: int
    attributes: int
    owners: int


NO_COUNTS = CatalogueCounts(*[0] * len(CatalogueCounts._fields))

CAPACITY_PER_ROW = CatalogueCounts(
    rows=1,
    windows=1,
    id_bytes=64,
    clauses=4,
    literals=32,
    predicates=4,
    constants=8,
    heap=128,
    attributes=1,
    owners=1,
)
CAPACITY_LEAST = CatalogueCounts(
    rows=1,
    windows=1,
    id_bytes=1 << 24,
    clauses=1 << 14,
    literals=1 << 20,
    predicates=1 << 20,
    constants=1 << 20,
    heap=1 << 26,
    attributes=1 << 16,
    owners=1 << 10,
)


class CatalogueColumns(NamedTuple):
    """Columns over the full capacity; units and meanings are in `shm.columns`, family ``catalogue``."""

    handle: U8
    owner: I4
    id_start: U4
    clause_start: U4
    removed_version: I8
    window_row: I4
    window_from: I8
    window_until: I8
    id_text: U1
    literal_start: U4
    literal: I4
    predicate_kind: I1
    predicate_attribute: I4
    predicate_other: I4
    predicate_value_kind: I1
    predicate_flags: U1
    predicate_operator: I1
    predicate_lo_whole: I8
    predicate_lo_part: F8
    predicate_hi_whole: I8
    predicate_hi_part: F8
    predicate_constant_start: I8
    predicate_constant_count: I4
    constant_kind: I1
    constant_whole: I8
    constant_part: F8
    constant_size: I4
    heap: U1
    attribute_name_start: I8
    attribute_name_size: I4
    owner_name_start: I8
    owner_name_size: I4


_SYMBOLS: dict[str, str] = {column.name: column.length_symbol for column in FAMILIES[FAMILY]}
assert CatalogueColumns._fields == tuple(_SYMBOLS), "CatalogueColumns and the table of columns differ"


def capacity_for(rows_max: int) -> CatalogueCounts:
    """Return the room of every pool for `rows_max` rows."""
    room = (
        max(rows_max * per_row, least)
        for per_row, least in zip(CAPACITY_PER_ROW, CAPACITY_LEAST, strict=True)
    )
    capacity = CatalogueCounts(*room)._asdict()
    if rows_max > np.iinfo(np.int32).max:
        raise LimitError(
            "rows of the catalogue are numbered by int32", seen=rows_max, limit_name="subscriptions_max"
        )
    return CatalogueCounts(
        **{name: min(items, ITEMS_MAX.get(name, items)) for name, items in capacity.items()}
    )


def rows_for(subscriptions_max: int) -> int:
    """Return the rows of a catalogue that may hold so many live subscriptions, and the dead among them."""
    return min(ROWS_PER_SUBSCRIPTION * subscriptions_max + ROWS_AHEAD, int(np.iinfo(np.int32).max))


def view_columns(family: FamilySegment, *, writable: bool) -> CatalogueColumns:
    """Return all columns of a catalogue segment; read-only ones unless `writable`."""
    arrays: list[Any] = []
    for name in CatalogueColumns._fields:
        array = family.column(name)[:]
        array.flags.writeable = writable
        arrays.append(array)
    return CatalogueColumns(*arrays)


class CatalogueStore:
    """The writer's side of the room: capacity, and pages reserved so far.

    Parameters
    ----------
    family : FamilySegment
        Shared (sparse) or private segment of the family ``catalogue``, writable.
    reserved : CatalogueCounts
        Items whose pages are reserved already.
    """

    def __init__(self, family: FamilySegment, reserved: CatalogueCounts = NO_COUNTS) -> None:
        self.family = family
        self.columns = view_columns(family, writable=True)
        self.capacity = CatalogueCounts(**family.lengths)
        self._reserved = reserved._asdict()

    @classmethod
    def create(cls, rows_max: int, owner: Owner, generation: int) -> CatalogueStore:
        """Make a shared one."""
        lengths = capacity_for(rows_max)._asdict()
        return cls(FamilySegment.create(FAMILY, lengths, generation, owner, reserve=False))

    @classmethod
    def attach(cls, name: str, counts: CatalogueCounts) -> CatalogueStore:
        """Take over a shared one that another process has filled for this one; raises `SegmentError`."""
        return cls(FamilySegment.attach(FAMILY, name, writable=True), counts)

    @classmethod
    def private(cls, rows_max: int) -> CatalogueStore:
        """Make one in private memory."""
        return cls(FamilySegment.private(FAMILY, capacity_for(rows_max)._asdict()))

    def make_room(self, counts: CatalogueCounts) -> None:
        """Make sure that items up to `counts` can be written.

        Raises
        ------
        LimitError
            A pool is too small.
        SegmentError
            No memory; says need and free.
        """
        for symbol, needed, capacity in zip(counts._fields, counts, self.capacity, strict=True):
            if needed > capacity:
                raise _full(symbol, needed, capacity)
        for symbol, needed in zip(counts._fields, counts, strict=True):
            if needed > self._reserved[symbol]:
                self._reserve(symbol, needed)

    def _reserve(self, symbol: str, needed: int) -> None:
        reserved = self._reserved[symbol]
        step = max(min(reserved, RESERVE_STEP_MAX), RESERVE_STEP_FIRST)
        end = max(needed, min(reserved + step, getattr(self.capacity, symbol)))
        for column_name, column_symbol in _SYMBOLS.items():
            if column_symbol.partition(" ")[0] == symbol:
                first, stop = (length_in(column_symbol, {symbol: items}) for items in (reserved, end))
                self.family.reserve_column(column_name, first if reserved else 0, stop)
        self._reserved[symbol] = end


def _full(symbol: str, needed: int, capacity: int) -> LimitError:
    return LimitError(
        f"the catalogue is full: {symbol}",
        seen=needed,
        limit=capacity,
        remedy="Unsubscribe what is not needed, or restart the cluster with a larger subscriptions_max",
        limit_name="subscriptions_max",
    )
