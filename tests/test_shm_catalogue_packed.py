"""Packing the catalogue: what is live stays as it was, what is not leaves nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from test_shm_catalogue import exists, forms, meaning, row

from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.shm.catalogue import NO_COUNTS, CatalogueReader, CatalogueWriter, NewRow
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue, known_items, pack_catalogue
from pubsub_cluster.shm.catalogue_rows import window_of
from pubsub_cluster.shm.id_index import SLOTS, IdIndex


def facts(writer: CatalogueWriter, number: int) -> tuple[object, ...]:
    columns, reader = writer.columns, CatalogueReader.of(writer)
    owner = int(columns.owner[number])
    return (
        int(columns.handle[number]),
        reader.subscription_id(number),
        None if owner < 0 else reader.owner_name(owner),
        window_of(columns, writer.counts().windows, number),
        meaning(reader.normal_form(number)),
    )


def again(packed: PackedCatalogue) -> CatalogueWriter:
    writer = CatalogueWriter.in_memory(1 << 10)
    writer.take_over(packed)
    return writer


@settings(max_examples=60)
@given(st.lists(forms(), max_size=8), st.data())
def test_live_rows_come_back_by_handle_and_nothing_else(found: list[NormalForm], data: st.DataObject) -> None:
    handles = data.draw(st.permutations(range(1, len(found) + 1)))
    dead = data.draw(st.sets(st.integers(0, max(len(found) - 1, 0)))) if found else set()
    writer = CatalogueWriter.in_memory(1 << 10)
    writer.append_many(
        NewRow(
            handle, f"é{handle}", ["x", None, "y"][handle % 3], form, *[(None, None), (3, None)][handle % 2]
        )
        for handle, form in zip(handles, found, strict=True)
    )
    for number in dead:
        writer.remove(number, 5)
    live = sorted(set(range(len(found))) - dead, key=lambda number: handles[number])
    before = [facts(writer, number) for number in live]
    packed = pack_catalogue(writer.columns, writer.counts(), 5)
    copy = again(packed)
    assert [facts(copy, number) for number in range(copy.counts().rows)] == before
    unpruned = pack_catalogue(writer.columns, writer.counts(), 4)
    assert unpruned.counts.rows == len(found), "rows that an older version sees stay"

    fresh = CatalogueWriter.in_memory(1 << 10)
    reader = CatalogueReader.of(writer)
    given_forms = [reader.normal_form(n) for n in range(len(found))]
    fresh.append_many(
        NewRow(handles[n], reader.subscription_id(n), facts(writer, n)[2], given_forms[n], _given(writer, n))
        for n in live
    )
    assert set(known_items(fresh.columns, fresh.counts())[0]) == set(
        known_items(copy.columns, copy.counts())[0]
    )
    # Both ends of a range of texts may share a constant, or not.
    shared = {"constants": 0, "heap": 0}
    assert copy.counts()._replace(**shared) == fresh.counts()._replace(**shared), "as a fresh load holds them"
    assert copy.counts().constants <= fresh.counts().constants and copy.counts().heap <= fresh.counts().heap
    copy.append(99, "later", "x", reader.normal_form(live[0]) if live else exists("a"))
    if live:
        assert copy.counts().predicates == packed.counts.predicates, "known predicates are stored once"


def _given(writer: CatalogueWriter, number: int) -> int | None:
    window = window_of(writer.columns, writer.counts().windows, number)
    return None if window is None else window[0]


def test_an_empty_catalogue_packs_to_nothing() -> None:
    writer = CatalogueWriter.in_memory(64)
    assert pack_catalogue(writer.columns, writer.counts(), 0).counts == NO_COUNTS
    writer.append_many([row(1, exists("a"))])
    writer.remove(0, 2)
    assert pack_catalogue(writer.columns, writer.counts(), 2).counts == NO_COUNTS


def test_ids_of_a_packed_catalogue_are_entered_at_once() -> None:
    texts = [f"id{number}" for number in range(5_000)]
    index = IdIndex(lambda number: texts[number].encode())
    index.fill(texts)
    assert [index.find(text) for text in texts] == list(range(5_000))
    assert index.find("id5000") == -1 and len(index) == 5_000
    assert index.size_bytes < 24 * 5_000 + 8 * SLOTS * 1_024
    texts.append("later")
    index.add("later", 5_000)
    assert index.find("later") == 5_000 and index.remove("id17") == 17
    assert index.find("id17") == -1 and np.all([index.find(text) >= 0 for text in texts[18:]])
