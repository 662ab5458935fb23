"""A new epoch: the catalogue's live rows in a segment of their own, written beside the coordinator.

Until the coordinator has made it the catalogue (`coordinator.epochs`) nobody reads it but the build of the
generation that comes with it.
"""

from __future__ import annotations

from typing import NamedTuple

from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_copy import Renumbered, copy_live_rows
from pubsub_cluster.shm.catalogue_store import NO_COUNTS, CatalogueStore
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.owner import Owner

MOVED_FAMILY = "moved"
ROOM_SHARE, ROOM_ITEMS = 4, 1 << 16
"""Room for numbers of what comes while the copy is made, as a part of those of what it holds, and beyond."""


class Epoch(NamedTuple):
    """A copy of the live rows.

    Attributes
    ----------
    reader : CatalogueReader
    counts : CatalogueCounts
    catalogue_segment, moved_segment : str
    """

    reader: CatalogueReader
    counts: CatalogueCounts
    catalogue_segment: str
    moved_segment: str


class Catalogues:
    """The catalogue segments that the tuner has mapped: the one in force, and a new epoch."""

    def __init__(self) -> None:
        self._readers: dict[str, CatalogueReader] = {}

    def of(self, name: str) -> CatalogueReader:
        """Return the catalogue in a segment, mapped at its first use; raises `SegmentError`."""
        if name not in self._readers:
            self._readers[name] = CatalogueReader.attach(name)
        return self._readers[name]

    def add(self, epoch: Epoch) -> None:
        """Keep a catalogue that was made here."""
        self._readers[epoch.catalogue_segment] = epoch.reader

    def drop(self, name: str) -> None:
        """Let go of a catalogue; one that is not mapped is no error."""
        self._readers.pop(name, None)


@fault_point("epoch.write")
def write_epoch(
    catalogue: CatalogueReader,
    counts: CatalogueCounts,
    moment: tuple[int, int],
    rows_max: int,
    epoch: int,
    owner: Owner,
) -> Epoch:
    """Copy what is live, and where everything went, into two new segments; complete when this returns.

    Parameters
    ----------
    catalogue : CatalogueReader
    counts : CatalogueCounts
    moment : tuple of int
        Version, and the time in microseconds since the epoch: what was over by then is left out.
    rows_max : int
        Room of the copy.
    epoch : int
        Number of the segments.
    owner : Owner

    Raises
    ------
    LimitError, SegmentError
        No room; nothing is left behind.
    """
    store = CatalogueStore.create(rows_max, owner, epoch)
    try:
        made, numbers = copy_live_rows(catalogue.columns, counts, moment[0], store, moment[1])
        # Ahead of the coordinator's next rows: here nobody waits for pages.
        CatalogueWriter(store, made).ensure_room(NO_COUNTS)
        moved = _write_numbers(numbers, epoch, owner)
    except BaseException:
        store.family.unlink()
        raise
    return Epoch(CatalogueReader.of_family(store.family), made, store.family.name, moved)


@fault_point("epoch.numbers")
def _write_numbers(numbers: Renumbered, epoch: int, owner: Owner) -> str:
    arrays = numbers._asdict()
    known = {name: len(array) for name, array in arrays.items()}
    lengths = {f"old_{name}": count + count // ROOM_SHARE + ROOM_ITEMS for name, count in known.items()}
    family = FamilySegment.create(MOVED_FAMILY, lengths, epoch, owner)
    family.column("known")[:] = list(known.values())
    for name, array in arrays.items():
        family.column(name)[: known[name]] = array
    family.close()
    return family.name
