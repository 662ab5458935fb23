"""Merging shards' pages: removals, validity, order, repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.coordinator.merge import ShardPage, match_counts, merge_pages, visible_page
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter, NewRow

ALWAYS = NormalForm((), ((),))


@st.composite
def merges(draw: st.DrawFn) -> Any:
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(1, 5),  # handle
                st.integers(0, 4),  # removed, 0 live
                st.integers(0, 3),  # valid from
                st.integers(1, 4),  # length of the window
            ),
            min_size=1,
            max_size=8,
        )
    )
    event_count = draw(st.integers(1, 4))
    found = draw(
        st.lists(st.tuples(st.integers(0, event_count - 1), st.integers(0, len(rows) - 1)), max_size=20)
    )
    as_of = draw(st.integers(0, len(rows))), draw(st.integers(0, 4)), draw(st.integers(0, 6))
    return rows, event_count, found, *as_of


@settings(max_examples=150)
@given(merges(), st.randoms(use_true_random=False))
def test_merge_equals_its_definition(case: Any, random: Any) -> None:
    rows, event_count, found, row_count, version, now_us = case
    writer = CatalogueWriter.in_memory(64)
    as_of = writer.counts()
    for number, (handle, removed, start, length) in enumerate(rows, 1):
        row = writer.append_many([NewRow(handle, "i", None, ALWAYS, start, start + length)])
        if removed:
            writer.remove(row, removed)
        if number == row_count:
            as_of = writer.counts()
    expected: list[list[int]] = [[] for _ in range(event_count)]
    for event_idx, row in found:
        handle, removed, start, length = rows[row]
        visible = row < row_count and (removed == 0 or removed > version)
        if visible and start <= now_us < start + length and handle not in expected[event_idx]:
            expected[event_idx].append(handle)
    pages = []
    for shard_pairs in np.array_split(np.arange(len(found)), 3):
        pairs = sorted((found[i] for i in shard_pairs.tolist()), key=lambda pair: pair[0])
        counts = np.bincount([event for event, _ in pairs], minlength=event_count).astype(np.int32)
        pages.append(ShardPage(0, counts, np.array([row for _, row in pairs], np.int32)))
    random.shuffle(pages)
    catalogue = CatalogueReader.of(writer)
    pages = [visible_page(page, catalogue, as_of, version, now_us) for page in pages]
    merged = merge_pages(pages, event_count, catalogue)
    got = [merged.handles[a:b].tolist() for a, b in zip(merged.offsets[:-1], merged.offsets[1:], strict=True)]
    assert got == [sorted(handles) for handles in expected]
    assert match_counts(merged).tolist() == [len(handles) for handles in expected]
    assert [rows[row][0] for row in merged.rows.tolist()] == merged.handles.tolist()


def test_no_pages_is_no_matches() -> None:
    merged = merge_pages([], 3, CatalogueReader.of(CatalogueWriter.in_memory(64)))
    assert merged.offsets.tolist() == [0, 0, 0, 0]
    assert len(merged.handles) == 0
