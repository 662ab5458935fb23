"""Merge the shards' answers of one batch: what the publisher and the owners are told.

Shards answer catalogue rows as of their generation and delta. Here rows that the batch must not see
are dropped as pages come (removed at or before its version, appended after it, outside their validity
window), rows become handles, and each event's handles are ordered and told once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.catalogue_rows import is_inside_window, is_removed

HANDLE_BITS = 44  # with events_per_batch_max = 2**16 this leaves room in 64 bits for 2**44 handles


class ShardPage(NamedTuple):
    """One page of one shard: `counts[i]` rows for event ``first_event + i``, grouped in `rows`."""

    first_event: int
    counts: npt.NDArray[np.int32]
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


def visible_page(
    page: ShardPage, catalogue: CatalogueReader, counts: CatalogueCounts, version: int, now_us: int
) -> ShardPage:
    """Return the page without the rows that a batch of (counts, version, now_us) must not see."""
    if not len(page.rows):
        return page
    visible = _visible(page.rows, catalogue, counts, version, now_us)
    if visible.all():
        return page
    event = np.repeat(np.arange(len(page.counts)), page.counts)[visible]
    left = np.bincount(event, minlength=len(page.counts)).astype(np.int32)
    return ShardPage(page.first_event, left, page.rows[visible])


def _visible(
    rows: npt.NDArray[np.int32],
    catalogue: CatalogueReader,
    counts: CatalogueCounts,
    version: int,
    now_us: int,
) -> npt.NDArray[np.bool_]:
    visible: npt.NDArray[np.bool_] = rows < counts.rows
    visible &= ~is_removed(catalogue.columns, rows, version)
    if counts.windows:
        visible &= is_inside_window(catalogue.columns, counts.windows, rows, now_us)
    return visible


def merge_pages(
    pages: list[ShardPage], event_count: int, catalogue: CatalogueReader, refused: Collection[int] = ()
) -> Merged:
    """Merge all pages of all shards.

    Parameters
    ----------
    pages : list of ShardPage
        What `visible_page` leaves of them, in any order.
    event_count : int
    catalogue : CatalogueReader
    refused : collection of int
        Events that are refused: they match nothing, not even what holds for an empty event.
    """
    pages = [page for page in pages if len(page.rows)]
    if not pages:
        return Merged(np.zeros(event_count + 1, np.int64), np.empty(0, np.uint64), np.empty(0, np.int32))
    rows = np.concatenate([page.rows for page in pages])
    events = np.concatenate(
        [
            np.repeat(np.arange(page.first_event, page.first_event + len(page.counts)), page.counts)
            for page in pages
        ]
    )
    if refused:
        accepted = np.ones(event_count, np.bool_)
        accepted[list(refused)] = False
        kept = accepted[events]
        rows, events = rows[kept], events[kept]
    keys = (events.astype(np.uint64) << np.uint64(HANDLE_BITS)) | catalogue.columns.handle[rows]
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


def part_of(merged: Merged, first: int, stop: int) -> Merged:
    """Return the events [first, stop) of a merged batch, copied: a reply may outlive the others by far."""
    low, high = int(merged.offsets[first]), int(merged.offsets[stop])
    offsets = merged.offsets[first : stop + 1] - low
    return Merged(offsets, merged.handles[low:high].copy(), merged.rows[low:high])


def match_counts(merged: Merged) -> npt.NDArray[np.int64]:
    """Return the number of matches of each event."""
    return np.diff(merged.offsets)
