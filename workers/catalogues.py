"""The catalogue segments that a worker has mapped: one per epoch, for as long as a generation needs it."""

from __future__ import annotations

from dataclasses import dataclass

from pubsub_cluster.shm.catalogue import CatalogueReader
from pubsub_cluster.workers.engine import EMPTY_GENERATION
from pubsub_cluster.workers.visible import Visibility


@dataclass(slots=True)
class Catalogue:
    """A mapped catalogue."""

    name: str
    reader: CatalogueReader
    visibility: Visibility


class Catalogues:
    """Catalogues by generation.

    Parameters
    ----------
    name : str
        Segment of the empty generation's.
    """

    def __init__(self, name: str) -> None:
        self._of = {EMPTY_GENERATION: self._map(name)}

    def attach(self, generation: int, name: str) -> CatalogueReader:
        """Map a generation's catalogue unless it is mapped already.

        Raises
        ------
        SegmentError
            It is missing, or not one of ours.
        """
        known = (catalogue for catalogue in self._of.values() if catalogue.name == name)
        self._of[generation] = next(known, None) or self._map(name)
        return self._of[generation].reader

    def drop(self, generation: int) -> None:
        """A generation is gone, and its catalogue with the last one over it; an unknown one is no error."""
        self._of.pop(generation, None)

    def of(self, generation: int) -> Catalogue:
        """Return the catalogue of an attached generation."""
        return self._of[generation]

    def alone_of(self, generation: int) -> Catalogue | None:
        """Return the catalogue of a generation unless it is unknown, or another one is over the same."""
        mine = self._of.get(generation)
        is_shared = any(other is mine for number, other in self._of.items() if number != generation)
        return None if is_shared else mine

    @staticmethod
    def _map(name: str) -> Catalogue:
        reader = CatalogueReader.attach(name)
        return Catalogue(name, reader, Visibility(reader))
