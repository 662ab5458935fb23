"""What one publication tells the owners that are listened to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pubsub_cluster.coordinator.delivery.listeners import NOBODY, Listeners
from pubsub_cluster.coordinator.merge import Merged
from pubsub_cluster.shm.catalogue import CatalogueReader


@dataclass(frozen=True, eq=False)
class Told:
    """Notifications: one entry per event and owner, events ascending, and numbers within an event.

    Attributes
    ----------
    event : int64[k]
        Index in the publication.
    number : int32[k]
        Of the owner (`Listeners`).
    sequence : uint64[k]
    offsets : int64[k + 1]
        Entry i has the matches ``offsets[i]`` to ``offsets[i + 1]``.
    handles : uint64[m]
        Ascending within an entry.
    rows : int32[m]
        Catalogue row of each match.
    """

    event: npt.NDArray[np.int64]
    number: npt.NDArray[np.int32]
    sequence: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    handles: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int32]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first entry of each event of which anybody is told: int64[e]."""
        is_first = np.ones(len(self.event), np.bool_)
        np.not_equal(self.event[1:], self.event[:-1], out=is_first[1:])
        return np.flatnonzero(is_first)

    @cached_property
    def events(self) -> npt.NDArray[np.int64]:
        """The events of which anybody is told, ascending: int64[e]."""
        return self.event[self.starts]

    def of_entries(self, of_events: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return for each entry what there is for its event: int32[k] of int32[e]."""
        return np.repeat(of_events, np.diff(self.starts, append=len(self.event)))

    def counts(self, is_one: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return how many entries of each of `events` are such, int64[e], of bool[k]."""
        found: npt.NDArray[np.int64] = np.add.reduceat(is_one, self.starts, dtype=np.int64)
        return found


def tell(merged: Merged, listeners: Listeners, catalogue: CatalogueReader, owner_count: int) -> Told | None:
    """Return what a publication's matches tell, and count it in the owners' sequences; None: nothing."""
    if not len(merged.rows):
        return None
    number = listeners.numbers(catalogue.columns.owner[merged.rows], catalogue, owner_count)
    chosen = np.flatnonzero(number != NOBODY)
    if not len(chosen):
        return None
    event = (
        np.searchsorted(merged.offsets, chosen, side="right") - 1
        if len(merged.offsets) > 2
        else np.zeros(len(chosen), np.int64)
    )
    number = number[chosen]
    order = np.argsort(event * (1 << 32) + number, kind="stable")  # so that handles stay ascending
    chosen, event, number = chosen[order], event[order], number[order]
    is_first = np.ones(len(chosen), np.bool_)
    is_first[1:] = (event[1:] != event[:-1]) | (number[1:] != number[:-1])
    first = np.flatnonzero(is_first)
    offsets = np.append(first, len(chosen)).astype(np.int64, copy=False)
    event, number = event[first], number[first]
    sequence = _counted(number, listeners.sequences)
    return Told(event, number, sequence, offsets, merged.handles[chosen], merged.rows[chosen])


def _counted(number: npt.NDArray[np.int32], sequences: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Give each entry the next sequence of its number, in order."""
    if np.all(number[1:] > number[:-1]):  # as of a single event
        alone = sequences[number]
        sequences[number] += np.uint64(1)
        return alone
    by_number = np.argsort(number, kind="stable")
    numbers, start, count = np.unique(number[by_number], return_index=True, return_counts=True)
    place = np.arange(len(number)) - np.repeat(start, count)
    sequence = np.empty(len(number), np.uint64)
    sequence[by_number] = np.repeat(sequences[numbers], count) + place.astype(np.uint64)
    sequences[numbers] += count.astype(np.uint64)
    return sequence
