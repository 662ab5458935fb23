"""What is about to be appended to the catalogue: numbered, measured, and forgotten when it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.predicate import NormalForm, Predicate
from pubsub_cluster.shm.catalogue_bulk import RowColumns, numbered_literals
from pubsub_cluster.shm.catalogue_codec import Heap, encode_predicates
from pubsub_cluster.shm.catalogue_store import CatalogueColumns, CatalogueCounts

Slices: TypeAlias = list[tuple[npt.NDArray[Any], int, npt.NDArray[Any]]]


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


class Draft:
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

    def collect(self, rows: list[NewRow], columns: CatalogueColumns) -> tuple[Slices, CatalogueCounts]:
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

    def collect_columns(self, rows: RowColumns, columns: CatalogueColumns) -> tuple[Slices, CatalogueCounts]:
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

    def _slices(self, rows: _Numbered, columns: CatalogueColumns) -> tuple[Slices, CatalogueCounts]:
        counts = self._counts
        predicate_values, constant_count = encode_predicates(
            self._new_predicates, self._number_of_attribute, counts.constants, self._heap
        )
        row_count = len(rows.handles)
        slices: Slices = []

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
