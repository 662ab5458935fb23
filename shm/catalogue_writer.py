"""Append subscriptions to the catalogue.

There is one writer, the coordinator. Everything is appended behind what any reader has been told of, column
by column; only then do the counts grow, here in the writer's memory, and a message may carry them. A crash at
any instant leaves nothing that a reader looks at: counts are never in the segment. The one word that changes
in place is a row's ``removed_version``.

Equal predicates, attributes and owners are stored once. An append that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import add, gt
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import LimitError, SegmentError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.predicate import NormalForm, Predicate
from pubsub_cluster.shm.catalogue_bulk import RowColumns, numbered_literals
from pubsub_cluster.shm.catalogue_codec import Heap, encode_predicates
from pubsub_cluster.shm.catalogue_store import (
    NO_COUNTS,
    ROWS_AHEAD,
    CatalogueColumns,
    CatalogueCounts,
    CatalogueStore,
)
from pubsub_cluster.shm.segment import Owner

ROOM_AHEAD_SHARE = 16
ROOM_AHEAD_ITEMS = 4_096

_Slices: TypeAlias = list[tuple[npt.NDArray[Any], int, npt.NDArray[Any]]]


class _Numbered(NamedTuple):
    """Rows with everything numbered, ready to be written column by column."""

    handles: Any
    owners: Any
    versions: Any
    valid_from: Any
    valid_until: Any
    id_sizes: Any
    id_bytes: bytes
    clause_counts: Any
    literal_counts: Any
    literals: Any
    program_sizes: Any
    program: Any


class NewRow(NamedTuple):
    """A subscription to append.

    Attributes
    ----------
    handle : int
    subscription_id : str
    owner : str or None
        None: nobody is told (row owner -1).
    version : int
        First version that sees the row.
    form : NormalForm
    valid_from, valid_until : int or None
        Microseconds since the epoch, first moment inside and first moment outside; None is unbounded.
    """

    handle: int
    subscription_id: str
    owner: str | None
    version: int
    form: NormalForm
    valid_from: int | None = None
    valid_until: int | None = None


def room_for(new_row: NewRow) -> CatalogueCounts:
    """Return what a row needs at most, when nothing of it is known to the catalogue yet."""
    form = new_row.form
    constants = attributes = 0
    heap = len(new_row.subscription_id.encode()) + len((new_row.owner or "").encode())
    for predicate in form.predicates:
        values = [value for _, value in predicate.constants]
        values += [value for value in (predicate.lo, predicate.hi) if value is not None]
        constants += len(values)
        heap += sum(len(value) for value in values if isinstance(value, bytes))
        for name in (predicate.attribute, predicate.other):
            if name is not None:
                attributes += 1
                heap += len(name.encode())
    clauses = form.clauses or ()
    return CatalogueCounts(
        1,
        len(clauses),
        sum(map(len, clauses)),
        len(form.program),
        len(form.predicates),
        constants,
        heap,
        attributes,
        1,
    )


class CatalogueWriter:
    """The one writer of a catalogue; made by `create` or `in_memory`.

    Attributes
    ----------
    columns : CatalogueColumns
        Writable columns over the full capacity.
    """

    def __init__(self, store: CatalogueStore) -> None:
        self._store = store
        self.columns: CatalogueColumns = store.columns
        self._counts = NO_COUNTS
        self._ensured = NO_COUNTS
        self._rows_with_room = 0
        self._is_tight = False
        self._literals: dict[Predicate, int] = {}  # positive literal, 2 * predicate
        self._attributes: dict[str, int] = {}
        self._owners: dict[str, int] = {}

    @classmethod
    def create(cls, owner: Owner, limits: Limits = DEFAULT_LIMITS, generation: int = 1) -> CatalogueWriter:
        """Make an empty catalogue in a sparse shared segment for ``limits.subscriptions_max`` rows."""
        return cls(CatalogueStore.create(limits.subscriptions_max, owner, generation))

    @classmethod
    def in_memory(cls, capacity: int = 1 << 20) -> CatalogueWriter:
        """Make an empty catalogue of `capacity` rows in private memory; untouched room costs nothing."""
        return cls(CatalogueStore.private(capacity))

    @property
    def store(self) -> CatalogueStore:
        """The room; `CatalogueReader.of` reads it."""
        return self._store

    @property
    def name(self) -> str:
        """Name of the segment, for `CatalogueReader.attach`."""
        return self._store.family.name

    @property
    def capacity(self) -> CatalogueCounts:
        """The most items of each pool."""
        return self._store.capacity

    def counts(self) -> CatalogueCounts:
        """Return what has been appended so far."""
        return self._counts

    def check_room(self, row_count: int = 1) -> None:
        """Raise unless `row_count` more rows of the usual kind can be appended; reserves memory for them.

        Raises
        ------
        LimitError
            Not that many rows left, or less than 1/16 of some other pool.
        SegmentError
            No shared memory left.
        """
        if self._is_tight:
            self._store.check_tight(self._counts)
        rows = self._counts.rows + row_count
        if rows > self._rows_with_room:
            self._store.make_room_ahead(self._counts, row_count)
            ahead = min(max(row_count, ROWS_AHEAD), self.capacity.rows - self._counts.rows)
            self._store.make_room_ahead(self._counts, ahead)
            self._rows_with_room = self._counts.rows + ahead

    def ensure_room(self, needed: CatalogueCounts) -> None:
        """Reserve room for `needed` more items of each pool, so that a later append cannot fail.

        Raises
        ------
        LimitError
            A pool is too small.
        SegmentError
            No shared memory left.
        """
        wanted = CatalogueCounts(*map(add, self._counts, needed))
        if any(map(gt, wanted, self._ensured)):
            ahead = CatalogueCounts(
                *(
                    max(have, want, min(most, want + want // ROOM_AHEAD_SHARE + ROOM_AHEAD_ITEMS))
                    for want, have, most in zip(wanted, self._ensured, self.capacity, strict=True)
                )
            )
            try:
                self._store.make_room(ahead)
            except (LimitError, SegmentError):
                ahead = CatalogueCounts(*map(max, self._ensured, wanted))
                self._store.make_room(ahead)
            self._ensured = ahead

    def append(
        self,
        handle: int,
        subscription_id: str,
        owner: str | None,
        version: int,
        form: NormalForm,
        valid_from: int | None = None,
        valid_until: int | None = None,
    ) -> int:
        """Append one subscription and return its row; see `append_many`."""
        return self.append_many(
            [NewRow(handle, subscription_id, owner, version, form, valid_from, valid_until)]
        )

    def append_many(self, new_rows: Iterable[NewRow]) -> int:
        """Append subscriptions; return the row of the first one (they follow each other).

        Raises
        ------
        LimitError
            The catalogue is full; nothing has changed.
        SegmentError
            No memory; nothing has changed.
        """
        rows = list(new_rows)
        return self._write(lambda draft: draft.collect(rows, self.columns))

    def append_columns(self, rows: RowColumns) -> int:
        """Append subscriptions given as columns; return the row of the first one.

        Raises
        ------
        ValueError
            The columns do not fit each other; nothing has changed.
        LimitError, SegmentError
            As `append_many`.
        """
        rows.check()
        return self._write(lambda draft: draft.collect_columns(rows, self.columns))

    def _write(self, collect: Callable[[_Draft], tuple[_Slices, CatalogueCounts]]) -> int:
        draft = _Draft(self._counts, self._literals, self._attributes, self._owners)
        try:
            slices, counts = collect(draft)
            self._store.make_room(counts)
        except BaseException:
            draft.forget()
            raise
        for column, start, values in slices:
            column[start : start + len(values)] = values
        first_row = self._counts.rows
        self._counts = counts
        self._is_tight = self._store.is_tight(counts)
        return first_row

    def remove(self, row: int, version: int) -> None:
        """Say that `version` is the first one that does not see `row`; a row is removed once."""
        if not 0 <= row < self._counts.rows or version <= 0 or self.columns.removed_version[row]:
            raise ValueError(f"row {row} of {self._counts.rows} cannot be removed at version {version}")
        self.columns.removed_version[row] = version

    def close(self) -> None:
        """Let go of the segment."""
        self._store.family.close()

    def unlink(self) -> None:
        """Remove the segment's name."""
        self._store.family.unlink()


class _Draft:
    """One append on its way: what is new is collected here, and can be forgotten."""

    def __init__(
        self,
        counts: CatalogueCounts,
        literals: dict[Predicate, int],
        attributes: dict[str, int],
        owners: dict[str, int],
    ) -> None:
        self._counts = counts
        self._literals = literals
        self._attributes = attributes
        self._owners = owners
        self._heap = Heap(counts.heap)
        self._new_predicates: list[Predicate] = []
        self._new_attributes: list[tuple[str, int, int]] = []  # name, heap start, size
        self._new_owners: list[tuple[str, int, int]] = []

    def forget(self) -> None:
        """Take back all that has been interned."""
        for predicate in self._new_predicates:
            del self._literals[predicate]
        for name, _, _ in self._new_attributes:
            del self._attributes[name]
        for name, _, _ in self._new_owners:
            del self._owners[name]

    def collect(self, rows: list[NewRow], columns: CatalogueColumns) -> tuple[_Slices, CatalogueCounts]:
        """Return the slices to write, as (column, first item, values), and the counts afterwards."""
        if not rows:
            return [], self._counts
        handles, ids, owners, versions, forms, valid_from, valid_until = zip(*rows, strict=True)
        owner_idx = [self._number_of_owner(name) for name in owners]
        id_bytes = [text.encode() for text in ids]
        numbered = _Numbered(
            handles,
            owner_idx,
            versions,
            [INT64_MIN if us is None else us for us in valid_from],
            [INT64_MAX if us is None else us for us in valid_until],
            [len(text) for text in id_bytes],
            b"".join(id_bytes),
            *self._number_forms(forms),
        )
        return self._slices(numbered, columns)

    def collect_columns(self, rows: RowColumns, columns: CatalogueColumns) -> tuple[_Slices, CatalogueCounts]:
        """The same for rows that are columns already."""
        row_count = len(rows.handles)
        positive = self._number_predicates(rows.predicates)
        none = np.zeros(row_count, np.int32)
        numbered = _Numbered(
            rows.handles,
            none + self._number_of_owner(rows.owner),
            np.full(row_count, rows.version),
            np.full(row_count, INT64_MIN),
            np.full(row_count, INT64_MAX),
            rows.id_sizes,
            rows.id_text.tobytes(),
            rows.clause_counts,
            rows.literal_counts,
            numbered_literals(rows.literals, np.array(positive, np.int64)),
            none,
            (),
        )
        return self._slices(numbered, columns)

    def _slices(self, rows: _Numbered, columns: CatalogueColumns) -> tuple[_Slices, CatalogueCounts]:
        counts = self._counts
        predicate_values, constant_count = encode_predicates(
            self._new_predicates, self._number_of_attribute, counts.constants, self._heap
        )
        row_count = len(rows.handles)
        slices: _Slices = []

        def put(name: str, start: int, values: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[Any]:
            column: npt.NDArray[Any] = getattr(columns, name)
            array = np.asarray(values, column.dtype)
            slices.append((column, start, array))
            return array

        def put_sized(start_name: str, size_name: str, start: int, pool_start: int, sizes: Any) -> None:
            size = put(size_name, start, sizes).astype(np.int64)
            put(start_name, start, pool_start + np.cumsum(size) - size)

        first = counts.rows
        put("handle", first, rows.handles)
        put("owner", first, rows.owners)
        put("added_version", first, rows.versions)
        put("valid_from", first, rows.valid_from)
        put("valid_until", first, rows.valid_until)
        put_sized("id_start", "id_size", first, self._heap.end, rows.id_sizes)
        put_sized("clause_start", "clause_count", first, counts.clauses, rows.clause_counts)
        put_sized("program_start", "program_size", first, counts.program, rows.program_sizes)
        put("clause_row", counts.clauses, np.repeat(np.arange(first, first + row_count), rows.clause_counts))
        put_sized(
            "clause_literal_start",
            "clause_literal_count",
            counts.clauses,
            counts.literals,
            rows.literal_counts,
        )
        put("literal", counts.literals, rows.literals)
        put("program", counts.program, rows.program)
        starts = {"predicate": counts.predicates, "constant": counts.constants}
        for name, values in predicate_values.items():
            put(name, starts[name.partition("_")[0]], values)
        for kind, start, new in (
            ("attribute", counts.attributes, self._new_attributes),
            ("owner", counts.owners, self._new_owners),
        ):
            put(f"{kind}_name_start", start, [heap_start for _, heap_start, _ in new])
            put(f"{kind}_name_size", start, [size for _, _, size in new])
        heap = b"".join(chain(self._heap.pieces, (rows.id_bytes,)))
        put("heap", counts.heap, np.frombuffer(heap, np.uint8))
        return slices, CatalogueCounts(
            first + row_count,
            counts.clauses + len(rows.literal_counts),
            counts.literals + len(rows.literals),
            counts.program + len(rows.program),
            counts.predicates + len(self._new_predicates),
            constant_count,
            counts.heap + len(heap),
            counts.attributes + len(self._new_attributes),
            counts.owners + len(self._new_owners),
        )

    def _number_forms(
        self, forms: Sequence[NormalForm]
    ) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
        """Return clauses per row, literals per clause, literals, codes per row, codes; numbered for good."""
        clause_counts: list[int] = []
        literal_counts: list[int] = []
        literals: list[int] = []
        program_sizes: list[int] = []
        program: list[int] = []
        known = self._literals
        fresh = 2 * (self._counts.predicates + len(self._new_predicates))
        for predicates, clauses, codes in forms:
            positive = []
            for predicate in predicates:
                literal = known.setdefault(predicate, fresh)
                if literal == fresh:
                    self._new_predicates.append(predicate)
                    fresh += 2
                positive.append(literal)
            if clauses is None:
                clause_counts.append(0)
                program_sizes.append(len(codes))
                program.extend([code if code < 0 else positive[code >> 1] + (code & 1) for code in codes])
                continue
            clause_counts.append(len(clauses))
            program_sizes.append(0)
            for clause in clauses:
                literal_counts.append(len(clause))
                literals.extend([positive[code >> 1] + (code & 1) for code in clause])
        return clause_counts, literal_counts, literals, program_sizes, program

    def _number_predicates(self, predicates: Sequence[Predicate]) -> list[int]:
        """Return the positive literal of each predicate."""
        known = self._literals
        fresh = 2 * (self._counts.predicates + len(self._new_predicates))
        positive = []
        for predicate in predicates:
            literal = known.setdefault(predicate, fresh)
            if literal == fresh:
                self._new_predicates.append(predicate)
                fresh += 2
            positive.append(literal)
        return positive

    def _number_of_owner(self, name: str | None) -> int:
        return -1 if name is None else self._intern_name(name, self._owners, self._new_owners)

    def _number_of_attribute(self, name: str) -> int:
        return self._intern_name(name, self._attributes, self._new_attributes)

    def _intern_name(self, name: str, known: dict[str, int], new: list[tuple[str, int, int]]) -> int:
        found = known.get(name)
        if found is None:
            text = name.encode()
            found = known[name] = len(known)
            new.append((name, self._heap.add(text), len(text)))
        return found
