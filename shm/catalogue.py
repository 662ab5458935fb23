"""The catalogue: every subscription, as columns in one sparse segment (or in private memory).

    rows -> clauses -> literals -> predicates -> constants -> heap;  predicates -> attributes -> heap
    windows -> rows -> id text;  rows -> owners -> heap

Everything is appended, in this order: pages reserved, columns written, counts grown in the writer, counts
told in a message (`shm.catalogue_writer`). A batch is bound to the counts and the version of one moment; a
reader never looks beyond them (`shm.catalogue_reader`). Only ``removed_version`` changes in place, from 0 to
the version that removes the row, so a comparison with an older version gives the same answer at any time.
"""

from __future__ import annotations

from pubsub_cluster.shm.catalogue_codec import (
    FLAG_HAS_HI,
    FLAG_HAS_LO,
    FLAG_HI_OPEN,
    FLAG_IGNORE_CASE,
    FLAG_LO_OPEN,
    TEXT_OPERATOR_NAMES,
)
from pubsub_cluster.shm.catalogue_draft import NewRow, NewRows, room_for
from pubsub_cluster.shm.catalogue_reader import CatalogueReader
from pubsub_cluster.shm.catalogue_store import NO_COUNTS, CatalogueColumns, CatalogueCounts, capacity_for
from pubsub_cluster.shm.catalogue_writer import CatalogueWriter

__all__ = [
    "FLAG_HAS_HI",
    "FLAG_HAS_LO",
    "FLAG_HI_OPEN",
    "FLAG_IGNORE_CASE",
    "FLAG_LO_OPEN",
    "NO_COUNTS",
    "TEXT_OPERATOR_NAMES",
    "CatalogueColumns",
    "CatalogueCounts",
    "CatalogueReader",
    "CatalogueWriter",
    "NewRow",
    "NewRows",
    "capacity_for",
    "room_for",
]
