"""Merging shards' pages: order, repeats, handles for rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.coordinator.merge import ShardPage, match_counts, merge_pages
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter, NewRow

ALWAYS = NormalForm((), ((),))


def catalogue_of(handles: list[int]) -> CatalogueReader:
    writer = CatalogueWriter.in_memory(64)
    for handle in handles:
        writer.append_many([NewRow(handle, "i", None, ALWAYS)])
    return CatalogueReader.of(writer)


@st.composite
def merges(draw: st.DrawFn) -> Any:
    """Handles of rows, a number of events, and (event, row) of each shard as its pages are cut."""
    handles = draw(st.permutations(range(1, 9)))
    event_count = draw(st.integers(1, 4))
    pair = st.tuples(st.integers(0, event_count - 1), st.integers(0, len(handles) - 1))
    shards = draw(st.lists(st.sets(pair, max_size=12), min_size=1, max_size=3))
    cuts = draw(st.lists(st.integers(0, event_count), max_size=2))
    return handles, event_count, shards, sorted({0, *cuts, event_count})


@settings(max_examples=150)
@given(merges(), st.randoms(use_true_random=False))
def test_merge_equals_its_definition(case: Any, random: Any) -> None:
    handles, event_count, shards, cuts = case
    expected = [
        sorted({handles[row] for shard in shards for found, row in shard if found == event})
        for event in range(event_count)
    ]
    pages = []
    for shard in shards:
        found = [
            sorted((row for event, row in shard if event == mine), key=lambda row: handles[row])
            for mine in range(event_count)
        ]
        for first, stop in itertools.pairwise(cuts):
            rows = np.array([row for mine in found[first:stop] for row in mine], np.int32)
            offsets = np.cumsum([0, *map(len, found[first:stop])])
            pages.append(ShardPage(first, offsets, rows))
    random.shuffle(pages)
    merged = merge_pages(pages, event_count, catalogue_of(handles))
    got = [merged.handles[a:b].tolist() for a, b in zip(merged.offsets[:-1], merged.offsets[1:], strict=True)]
    assert got == expected
    assert match_counts(merged).tolist() == [len(mine) for mine in expected]
    assert [handles[row] for row in merged.rows.tolist()] == merged.handles.tolist()


def test_an_event_may_be_spread_over_pages() -> None:
    pages = [
        ShardPage(0, np.array([0, 1, 3]), np.array([1, 0, 2], np.int32)),
        ShardPage(1, np.array([0, 2, 2]), np.array([3, 4], np.int32)),
    ]
    merged = merge_pages(pages, 3, catalogue_of([10, 20, 30, 40, 50]))
    assert merged.offsets.tolist() == [0, 1, 5, 5]
    assert merged.handles.tolist() == [20, 10, 30, 40, 50]
