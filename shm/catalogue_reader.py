"""Read the catalogue: its columns as they are, or one item at a time.

A reader looks at nothing beyond the `CatalogueCounts` of the message it works on. Pages beyond them may not
be there, and reading one would take memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pubsub_cluster.language.predicate import NormalForm, Predicate
from pubsub_cluster.shm.catalogue_codec import decode_predicate
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue
from pubsub_cluster.shm.catalogue_rows import id_ranges
from pubsub_cluster.shm.catalogue_store import FAMILY, I4, I8, CatalogueColumns, CatalogueCounts, view_columns
from pubsub_cluster.shm.catalogue_writer import CatalogueWriter
from pubsub_cluster.shm.family import FamilySegment


class CatalogueReader:
    """A read-only view of a catalogue; made by `attach`, `of` or `over`.

    Attributes
    ----------
    columns : CatalogueColumns
        Read-only columns over the full capacity.
    capacity : CatalogueCounts
    """

    def __init__(
        self, columns: CatalogueColumns, capacity: CatalogueCounts, family: FamilySegment | None = None
    ) -> None:
        self._family = family
        self.columns = columns
        self.capacity = capacity

    @classmethod
    def attach(cls, name: str) -> CatalogueReader:
        """Attach a shared catalogue by its segment's name; raises `SegmentError`."""
        return cls.of_family(FamilySegment.attach(FAMILY, name))

    @classmethod
    def of(cls, writer: CatalogueWriter) -> CatalogueReader:
        """Read the catalogue of a writer in this process."""
        return cls.of_family(writer.store.family)

    @classmethod
    def over(cls, packed: PackedCatalogue) -> CatalogueReader:
        """Read packed live rows where they lie, in memory or in a mapped file."""
        columns: dict[str, Any] = {name: column.view() for name, column in packed.columns.items()}
        columns["removed_version"] = np.zeros(packed.counts.rows, np.int64)
        for column in columns.values():
            column.flags.writeable = False
        return cls(CatalogueColumns(**columns), packed.counts)

    @classmethod
    def of_family(cls, family: FamilySegment) -> CatalogueReader:
        """Read a segment that is open already."""
        return cls(view_columns(family, writable=False), CatalogueCounts(**family.lengths), family)

    @property
    def name(self) -> str:
        """Name of the segment; empty where there is none."""
        return "" if self._family is None else self._family.name

    def predicate(self, predicate_idx: int) -> Predicate:
        """Return a predicate."""
        attribute = int(self.columns.predicate_attribute[predicate_idx])
        other = int(self.columns.predicate_other[predicate_idx])
        return decode_predicate(
            self.columns,
            predicate_idx,
            None if attribute < 0 else self.attribute_name(attribute),
            None if other < 0 else self.attribute_name(other),
        )

    def normal_form(self, row: int) -> NormalForm:
        """Return a row's expression; predicates are numbered anew, in order of first use."""
        columns = self.columns
        numbers: dict[int, int] = {}

        def renumbered(literal: int) -> int:
            return 2 * numbers.setdefault(literal >> 1, len(numbers)) + (literal & 1)

        first_clause, stop_clause = columns.clause_start[row : row + 2].tolist()
        bounds = columns.literal_start[first_clause >> 1 : (stop_clause >> 1) + 1].tolist()
        codes = [columns.literal[first:stop].tolist() for first, stop in pairwise(bounds)]
        if stop_clause & 1:
            program = tuple(code if code < 0 else renumbered(code) for code in codes[0])
            return NormalForm(self._predicates(numbers), None, program)
        clauses = [tuple(sorted(renumbered(code) for code in clause)) for clause in codes]
        return NormalForm(self._predicates(numbers), tuple(clauses))

    def attribute_name(self, attribute_idx: int) -> str:
        """Return an attribute's name."""
        columns = self.columns
        return self._text(
            columns.attribute_name_start[attribute_idx], columns.attribute_name_size[attribute_idx]
        )

    def owner_name(self, owner_idx: int) -> str:
        """Return an owner's name."""
        columns = self.columns
        return self._text(columns.owner_name_start[owner_idx], columns.owner_name_size[owner_idx])

    def subscription_id(self, row: int) -> str:
        """Return the text id of a row's subscription."""
        return self.id_bytes(row).decode()

    def id_bytes(self, row: int) -> bytes:
        """Return the UTF-8 of a row's text id."""
        first, stop = self.columns.id_start[row : row + 2].tolist()
        return self.columns.id_text[first:stop].tobytes()

    def subscription_ids(self, rows: I4) -> tuple[I8, bytes]:
        """Return the text ids of many rows at once.

        Parameters
        ----------
        rows : int32[m]

        Returns
        -------
        offsets : int64[m + 1]
        text : bytes
            UTF-8; the id of ``rows[i]`` is ``text[offsets[i]:offsets[i + 1]]``.
        """
        start, sizes = id_ranges(self.columns, rows)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        id_byte = np.repeat(start - offsets[:-1], sizes) + np.arange(offsets[-1])
        return offsets, self.columns.id_text[id_byte].tobytes()

    def close(self) -> None:
        """Let go of the segment; columns stay valid."""
        if self._family is not None:
            self._family.close()

    def _predicates(self, numbers: dict[int, int]) -> tuple[Predicate, ...]:
        return tuple(self.predicate(number) for number in numbers)

    def _text(self, start: np.int64, size: np.int32) -> str:
        return self.columns.heap[int(start) : int(start) + int(size)].tobytes().decode()
