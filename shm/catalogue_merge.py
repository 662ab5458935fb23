"""Append packed catalogues to one: column by column, with every predicate and owner numbered once.

What parts of a catalogue say alike is stored once in the whole. Nothing is done per row in Python: a
predicate costs some microseconds for each packed catalogue that has it.
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.shm.catalogue_copy import read_rows, renumbered
from pubsub_cluster.shm.catalogue_draft import Draft, NumberedRows, Slices
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue, known_items
from pubsub_cluster.shm.catalogue_reader import CatalogueReader
from pubsub_cluster.shm.catalogue_rows import blocks_of
from pubsub_cluster.shm.catalogue_store import U8, CatalogueCounts
from pubsub_cluster.shm.catalogue_writer import CatalogueWriter


def append_packed(writer: CatalogueWriter, packed: PackedCatalogue, handles: U8 | None = None) -> int:
    """Append the rows of a packed catalogue, in their order; return the row of the first one.

    Parameters
    ----------
    writer : CatalogueWriter
    packed : PackedCatalogue
        In memory or in a mapped file.
    handles : uint64[rows], optional
        Instead of those that the rows have.

    Raises
    ------
    LimitError, SegmentError
        They do not fit; some of them may have been appended.
    """
    columns, counts = CatalogueReader.over(packed).columns, packed.counts
    literals, _, owners = known_items(columns, counts)
    predicates = list(literals)
    first_row = writer.counts().rows
    for block in blocks_of(counts.rows):
        rows = np.arange(block.start, block.stop, dtype=np.int32)
        read = read_rows(columns, counts.windows, rows).numbered
        if handles is not None:
            read = read._replace(handles=handles[block])

        def collect(draft: Draft, read: NumberedRows = read) -> tuple[Slices, CatalogueCounts]:
            literal_of = np.array(draft.number_predicates(predicates), np.int32)
            owner_of = np.array([draft.number_of_owner(name) for name in owners], np.int32)
            numbered = renumbered(read, writer.counts().rows, literal_of, owner_of)
            return draft.slices_of(numbered, writer.columns)

        writer.write(collect)
    return first_row
