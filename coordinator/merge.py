"""Merge the shards' answers of one batch: what the publisher and the owners are told.

Each shard answers with the catalogue rows that the batch may see, by handle (`workers.visible`). What one
shard answers in one page is the answer, but for its rows being told as handles; of several pages each event's
handles are put in order and told once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.protocol import Buffer
from pubsub_cluster.shm.catalogue import CatalogueReader
from pubsub_cluster.shm.catalogue_rows import HANDLE_BITS, event_handle_keys

COPIED_SIZE_BYTES_MAX = 1 << 12
_ONE_EVENT = struct.Struct("<2q")  # offsets


class ShardPage(NamedTuple):
    """A page of a shard: event ``first_event + i`` has ``rows[offsets[i]:offsets[i + 1]]``, by handle."""

    first_event: int
    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]


class Merged(NamedTuple):
    """Matches of a batch in CSR form.

    Attributes
    ----------
    offsets : int64[event_count + 1]
    handles : uint64[match_count]
        Ordered within each event, without repeats.
    rows : int32[match_count]
        Catalogue row of each match.
    """

    offsets: npt.NDArray[np.int64]
    handles: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int32]


def merge_pages(pages: Sequence[ShardPage], event_count: int, catalogue: CatalogueReader) -> Merged:
    """Merge all pages of all shards, in any order."""
    if len(pages) == 1 and len(pages[0].offsets) == event_count + 1:
        _, offsets, rows = pages[0]
        return Merged(offsets, catalogue.columns.handle[rows], rows)
    rows = np.concatenate([page.rows for page in pages])
    handles = catalogue.columns.handle
    keys = np.concatenate(
        [event_handle_keys(page.offsets, handles[page.rows], page.first_event) for page in pages]
    )
    order = np.argsort(keys)
    keys = keys[order]
    if len(keys) > 1:
        fresh = np.empty(len(keys), np.bool_)
        fresh[0] = True
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        if not fresh.all():
            order, keys = order[fresh], keys[fresh]
    matches = np.bincount((keys >> np.uint64(HANDLE_BITS)).astype(np.int64), minlength=event_count)
    offsets = np.zeros(event_count + 1, np.int64)
    np.cumsum(matches, out=offsets[1:])
    return Merged(offsets, keys & np.uint64((1 << HANDLE_BITS) - 1), rows[order])


class Parts:
    """A merged batch, by the publications of its group.

    Parameters
    ----------
    merged : Merged
    first : list of int
        First event of each publication, and the number of events.

    Attributes
    ----------
    low : list of int
        First match of each publication, and the number of matches.
    """

    def __init__(self, merged: Merged, first: list[int]) -> None:
        self.first = first
        alone = len(first) == 2
        self.low: list[int] = [0, len(merged.handles)] if alone else merged.offsets[first].tolist()
        self._merged = merged

    def csr(self, number: int) -> list[Buffer]:
        """Return offsets and handles of a publication, as bytes that hold on to no other's."""
        offsets, handles, _ = self._merged
        if len(self.first) == 2:
            return [as_bytes(offsets), as_bytes(handles)]
        low, high = self.low[number : number + 2]
        mine = handles[low:high].tobytes()
        if self.first[number + 1] - self.first[number] == 1:  # no arrays for the few bytes of one event
            return [_ONE_EVENT.pack(0, high - low), mine]
        return [(offsets[self.first[number] : self.first[number + 1] + 1] - low).tobytes(), mine]

    def part(self, number: int) -> Merged:
        """Return the matches of a publication; copied where there are others, which it may outlive by far."""
        if len(self.first) == 2:
            return self._merged
        offsets, handles, rows = self._merged
        low, high = self.low[number : number + 2]
        mine = offsets[self.first[number] : self.first[number + 1] + 1] - low
        return Merged(mine, handles[low:high].copy(), rows[low:high])


def match_counts(merged: Merged) -> npt.NDArray[np.int64]:
    """Return the number of matches of each event."""
    return np.diff(merged.offsets)


def as_bytes(array: npt.NDArray[Any]) -> Buffer:
    """Return the bytes of an array: copied where they are few, as a view where they are many."""
    return array.tobytes() if array.nbytes <= COPIED_SIZE_BYTES_MAX else array.view(np.uint8).data
