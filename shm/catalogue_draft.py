"""What is about to be appended to the catalogue: numbered, measured, and forgotten when it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.predicate import NormalForm, Predicate
from pubsub_cluster.language.vocabulary import UNNUMBERED, Conjunction, Vocabulary
from pubsub_cluster.shm.catalogue_bulk import RowColumns, numbered_literals
from pubsub_cluster.shm.catalogue_codec import Heap, encode_predicates
from pubsub_cluster.shm.catalogue_store import CatalogueColumns, CatalogueCounts

Slices: TypeAlias = list[tuple[npt.NDArray[Any], int, npt.NDArray[Any]]]


class NumberedRows(NamedTuple):
    """Rows with everything numbered, ready to be written column by column."""

    handles: Any
    owners: Any
    window_rows: Any
    window_from: Any
    window_until: Any
    id_sizes: Any
    id_bytes: bytes
    clause_counts: Any
    literal_counts: Any
    literals: Any
    program_rows: Any


class NewRow(NamedTuple):
    """A subscription to append.

    Attributes
    ----------
    handle : int
    subscription_id : str
    owner : str or None
        None: nobody is told (row owner -1).
    form : NormalForm or Conjunction
    valid_from, valid_until : int or None
        Microseconds since the epoch, first moment inside and first moment outside; None is unbounded.
    """

    handle: int
    subscription_id: str
    owner: str | None
    form: NormalForm | Conjunction
    valid_from: int | None = None
    valid_until: int | None = None


class NewRows(NamedTuple):
    """Subscriptions to append, at least one, field by field of `NewRow`."""

    handles: Sequence[int]
    subscription_ids: Sequence[str]
    owners: Sequence[str | None]
    forms: Sequence[NormalForm | Conjunction]
    valid_from: Sequence[int | None]
    valid_until: Sequence[int | None]


def room_for(new_row: NewRow) -> CatalogueCounts:
    """Return what a row needs at most, when nothing of it is known to the catalogue yet."""
    form = new_row.form
    if isinstance(form, Conjunction):
        form = form.normal_form()
    constants = attributes = 0
    heap = len((new_row.owner or "").encode())
    for predicate in form.predicates:
        values = [value for _, value in predicate.constants]
        values += [value for value in (predicate.lo, predicate.hi) if value is not None]
        constants += len(values)
        heap += sum(len(value) for value in values if isinstance(value, bytes))
        for name in (predicate.attribute, predicate.other):
            if name is not None:
                attributes += 1
                heap += len(name.encode())
    clauses = (form.program,) if form.clauses is None else form.clauses
    return CatalogueCounts(
        1,
        int(new_row.valid_from is not None or new_row.valid_until is not None),
        len(new_row.subscription_id.encode()),
        len(clauses),
        sum(map(len, clauses)),
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
        self._vocabularies: list[Vocabulary] = []  # that were told numbers of new predicates
        self.new_predicates: list[Predicate] = []
        self._new_attributes: list[tuple[str, int, int]] = []  # name, heap start, size
        self._new_owners: list[tuple[str, int, int]] = []

    def forget(self) -> None:
        """Take back all that has been interned."""
        for vocabulary in self._vocabularies:
            vocabulary.forget_literals()
        for predicate in self.new_predicates:
            del self._literals[predicate]
        for name, _, _ in self._new_attributes:
            del self._attributes[name]
        for name, _, _ in self._new_owners:
            del self._owners[name]

    def collect(self, rows: NewRows, columns: CatalogueColumns) -> tuple[Slices, CatalogueCounts]:
        """Return the slices to write, as (column, first item, values), and the counts afterwards."""
        handles, ids, owners, forms, valid_from, valid_until = rows
        windows = [
            idx
            for idx, window in enumerate(zip(valid_from, valid_until, strict=True))
            if window != (None, None)
        ]
        number_of = {name: self.number_of_owner(name) for name in dict.fromkeys(owners)}
        owner_idx = [number_of[name] for name in owners]
        id_bytes = [text.encode() for text in ids]
        numbered = NumberedRows(
            handles,
            owner_idx,
            [self._counts.rows + idx for idx in windows],
            [INT64_MIN if valid_from[idx] is None else valid_from[idx] for idx in windows],
            [INT64_MAX if valid_until[idx] is None else valid_until[idx] for idx in windows],
            [len(text) for text in id_bytes],
            b"".join(id_bytes),
            *self._number_forms(forms),
        )
        return self.slices_of(numbered, columns)

    def collect_columns(self, rows: RowColumns, columns: CatalogueColumns) -> tuple[Slices, CatalogueCounts]:
        """The same for rows that are columns already."""
        row_count = len(rows.handles)
        positive = self.number_predicates(rows.predicates)
        numbered = NumberedRows(
            rows.handles,
            np.full(row_count, self.number_of_owner(rows.owner), np.int32),
            (),
            (),
            (),
            rows.id_sizes,
            rows.id_text.tobytes(),
            rows.clause_counts,
            rows.literal_counts,
            numbered_literals(rows.literals, np.array(positive, np.int64)),
            (),
        )
        return self.slices_of(numbered, columns)

    def slices_of(self, rows: NumberedRows, columns: CatalogueColumns) -> tuple[Slices, CatalogueCounts]:
        """The same for rows that are numbered already, what they are numbered by included."""
        counts = self._counts
        predicate_values, constant_count = encode_predicates(
            self.new_predicates, self._number_of_attribute, counts.constants, self._heap
        )
        slices: Slices = []

        def put(name: str, start: int, values: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[Any]:
            column: npt.NDArray[Any] = getattr(columns, name)
            array = np.asarray(values, column.dtype)
            slices.append((column, start, array))
            return array

        def ends(pool_start: int, sizes: Any) -> npt.NDArray[np.int64]:
            found: npt.NDArray[np.int64] = pool_start + np.cumsum(np.asarray(sizes, np.int64))
            return found

        first = counts.rows
        put("handle", first, rows.handles)
        put("owner", first, rows.owners)
        put("window_row", counts.windows, rows.window_rows)
        put("window_from", counts.windows, rows.window_from)
        put("window_until", counts.windows, rows.window_until)
        # What starts at item 0 was written as zeros; every row and clause writes where the next one starts.
        put("id_start", first + 1, ends(counts.id_bytes, rows.id_sizes))
        clause_start = 2 * ends(counts.clauses, rows.clause_counts)
        clause_start[np.asarray(rows.program_rows, np.int64)] += 1
        put("clause_start", first + 1, clause_start)
        put("literal_start", counts.clauses + 1, ends(counts.literals, rows.literal_counts))
        put("literal", counts.literals, rows.literals)
        put("id_text", counts.id_bytes, np.frombuffer(rows.id_bytes, np.uint8))
        starts = {"predicate": counts.predicates, "constant": counts.constants}
        for name, values in predicate_values.items():
            put(name, starts[name.partition("_")[0]], values)
        for kind, start, new in (
            ("attribute", counts.attributes, self._new_attributes),
            ("owner", counts.owners, self._new_owners),
        ):
            put(f"{kind}_name_start", start, [heap_start for _, heap_start, _ in new])
            put(f"{kind}_name_size", start, [size for _, _, size in new])
        heap = b"".join(self._heap.pieces)
        put("heap", counts.heap, np.frombuffer(heap, np.uint8))
        return slices, CatalogueCounts(
            first + len(rows.handles),
            counts.windows + len(rows.window_rows),
            counts.id_bytes + len(rows.id_bytes),
            counts.clauses + len(rows.literal_counts),
            counts.literals + len(rows.literals),
            counts.predicates + len(self.new_predicates),
            constant_count,
            counts.heap + len(heap),
            counts.attributes + len(self._new_attributes),
            counts.owners + len(self._new_owners),
        )

    def _number_forms(
        self, forms: Sequence[NormalForm | Conjunction]
    ) -> tuple[list[int], list[int], list[int], list[int]]:
        """Return clauses per row, literals per clause, literals, rows with a program; numbered for good."""
        literals = self._known_literals(forms)
        if literals is not None:
            counts = [len(form.numbers) for form in forms if isinstance(form, Conjunction)]
            return [1] * len(forms), counts, literals, []
        clause_counts: list[int] = []
        literal_counts: list[int] = []
        literals = []
        program_rows: list[int] = []
        for form in forms:
            if isinstance(form, Conjunction):
                clause_counts.append(1)
                literal_counts.append(len(form.numbers))
                literals += self._number_conjunction(form)
                continue
            predicates, clauses, codes = form
            positive = self.number_predicates(predicates)
            if clauses is None:
                program_rows.append(len(clause_counts))
                clause_counts.append(1)
                literal_counts.append(len(codes))
                literals.extend([code if code < 0 else positive[code >> 1] + (code & 1) for code in codes])
                continue
            clause_counts.append(len(clauses))
            for clause in clauses:
                literal_counts.append(len(clause))
                literals.extend([positive[code >> 1] + (code & 1) for code in clause])
        return clause_counts, literal_counts, literals, program_rows

    def _known_literals(self, forms: Sequence[NormalForm | Conjunction]) -> list[int] | None:
        """Return the literals if the forms are conjunctions of predicates that all have numbers."""
        vocabulary: Vocabulary | None = None
        literals: list[int] = []
        known: list[int] = []
        for form in forms:
            if not isinstance(form, Conjunction):
                return None
            if form.vocabulary is not vocabulary:
                vocabulary = form.vocabulary
                known = vocabulary.literals(self._literals)
            literals += [known[number] for number in form.numbers]
        return None if UNNUMBERED in literals else literals

    def _number_conjunction(self, form: Conjunction) -> list[int]:
        """Return the positive literal of each predicate, and let its vocabulary have them."""
        vocabulary = form.vocabulary
        known = vocabulary.literals(self._literals)
        mine = [known[number] for number in form.numbers]
        if UNNUMBERED not in mine:
            return mine
        if vocabulary not in self._vocabularies:
            self._vocabularies.append(vocabulary)
        literals = self.number_predicates([vocabulary.predicates[number] for number in form.numbers])
        for number, literal in zip(form.numbers, literals, strict=True):
            known[number] = literal
        return literals

    def number_predicates(self, predicates: Sequence[Predicate]) -> list[int]:
        """Return the positive literal of each predicate."""
        known = self._literals
        fresh = 2 * (self._counts.predicates + len(self.new_predicates))
        positive = []
        for predicate in predicates:
            literal = known.setdefault(predicate, fresh)
            if literal == fresh:
                self.new_predicates.append(predicate)
                fresh += 2
            positive.append(literal)
        return positive

    def number_of_owner(self, name: str | None) -> int:
        """Return the number of an owner; -1 for nobody."""
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
