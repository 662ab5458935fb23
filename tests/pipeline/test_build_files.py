"""Fragments, and what is made of them, without Spark: a merge holds what a cluster would hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import raw_batch, rows_of_events
from strategies import cases

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.json_form import expression_to_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_merge import append_packed
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue, pack_catalogue
from pubsub_cluster.shm.catalogue_rows import window_of
from pubsub_cluster.shm.change_groups import SUBSCRIBE, Change
from pubsub_cluster.shm.layout_folder import map_changes, map_part
from pubsub_cluster.workers.engine import MatchEngine

pa = pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")
from layout_folders import Row, batch_of, fragments_of, write_fragments  # noqa: E402

from pubsub_cluster.pipeline import fragments as of_fragments  # noqa: E402
from pubsub_cluster.pipeline.fragments import COLUMNS, FragmentWriter, Written, map_fragment  # noqa: E402
from pubsub_cluster.pipeline.parts import (  # noqa: E402
    Placed,
    make_changes,
    make_part,
    merge,
    pick_events,
    place,
    read_sample,
    write_sample,
)


def refused_in(folder: Path, written: Sequence[Written]) -> dict[str, str]:
    """Return codes by id."""
    import pyarrow.parquet as pq

    found: dict[str, str] = {}
    for one in written:
        if one.kind == "refused":
            table = pq.read_table(folder / one.file)
            found |= dict(zip(table["id"].to_pylist(), table["code"].to_pylist(), strict=True))
    return found


def loaded(rows: Sequence[Row], schema: Schema = EMPTY_SCHEMA) -> PackedCatalogue:
    """Return the catalogue of a cluster that was given rows in the order of their ids."""
    writer = CatalogueWriter.in_memory(1 << 10)
    registry = Registry(writer, schema, DEFAULT_LIMITS)
    for row in sorted(rows, key=lambda row: row["id"].encode()):
        item = {name: value for name, value in row.items() if value is not None}
        item["expr"] = msgspec.json.decode(row["expr"])
        if "metadata" in item:
            item["metadata"] = msgspec.json.decode(item["metadata"])
        registry.stage_subscribe(item)
        registry.apply(1)
    return pack_catalogue(CatalogueReader.of(writer).columns, writer.counts(), registry.version)


def meaning(packed: PackedCatalogue) -> list[tuple[Any, ...]]:
    """Return what a catalogue says, row by row, whatever numbers its predicates have."""
    reader = CatalogueReader.over(packed)
    return [
        (
            int(reader.columns.handle[row]),
            reader.subscription_id(row),
            reader.owner_name(int(reader.columns.owner[row])),
            window_of(reader.columns, packed.counts.windows, row),
            reader.normal_form(row),
        )
        for row in range(packed.counts.rows)
    ]


def answers(part: Any, values: Sequence[Any], schema: Schema) -> list[list[int]]:
    """Return the handles that a mapped part gives for each event."""
    engine = MatchEngine(part.catalogue, schema)
    engine.attach_layout(1, part.layout)
    found = rows_of_events(engine.match(raw_batch(values), 1, part.layout.counts))
    return [part.catalogue.columns.handle[rows].tolist() for rows in found]


def rows_of(found: Any) -> list[Row]:
    """Return the expressions of a case as rows; every third has a window, every other one metadata."""
    return [
        {
            "id": f"é{number % 7}-{number}",
            "owner": [None, "x", "y"][number % 3],
            "expr": msgspec.json.encode(expression_to_json(expression)).decode(),
            "valid_from": [None, None, 5][number % 3],
            "valid_until": [None, None, 9][number % 3],
            "metadata": ['{"n": 1}', None][number % 2],
        }
        for number, expression in enumerate(found.expressions)
    ]


@settings(max_examples=30)
@given(found=cases(max_expressions=9), size=st.integers(1, 4))
def test_fragments_merged_are_the_catalogue_of_a_cluster(
    found: Any, size: int, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("work")
    rows = rows_of(found)
    written = write_fragments(folder, rows, found.schema, size)
    placed = place(fragments_of(written), 1)[0]
    assert len(placed) == -(-len(rows) // size)
    merged = merge((map_fragment(folder / one.file), one.first) for one in placed)
    assert meaning(merged) == meaning(loaded(rows, found.schema))
    assert merged.counts == loaded(rows, found.schema).counts


@settings(max_examples=25)
@given(found=cases(max_expressions=9), part_count=st.integers(1, 3))
def test_parts_answer_as_the_naive_matcher(found: Any, part_count: int, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("work")
    rows = [{**row, "valid_from": None, "valid_until": None} for row in rows_of(found)]
    written = fragments_of(write_fragments(folder, rows, found.schema, 2))
    values = [flatten_event(event, found.schema, DEFAULT_LIMITS) for event in found.events]
    got: list[list[int]] = [[] for _ in values]
    for number, placed in enumerate(place(written, part_count)):
        path = folder / f"part-{number}.packed"
        facts, summary = make_part(folder, placed, path, len(rows))
        assert facts.subscriptions == summary["subscriptions"] == map_part(path).layout.counts.rows
        for mine, more in zip(got, answers(map_part(path), values, found.schema), strict=True):
            mine += more
    order = sorted(range(len(rows)), key=lambda n: rows[n]["id"].encode())
    numbered = list(enumerate(order, start=1))
    for event, handles in zip(values, got, strict=True):
        expected = [h for h, n in numbered if holds(found.expressions[n], event, found.schema)]
        assert sorted(handles) == expected


@settings(max_examples=30)
@given(found=cases(max_expressions=9), size=st.integers(1, 4))
def test_changes_say_what_was_given(found: Any, size: int, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("work")
    rows = rows_of(found)
    changes: list[Change] = []
    for one in place(fragments_of(write_fragments(folder, rows, found.schema, size)), 1)[0]:
        facts = make_changes(folder, one, folder / "changes.packed")
        mapped = map_changes(folder / "changes.packed")
        mine = [change for _, group in mapped.groups for change in group]
        assert facts.subscriptions == len(mine) and mapped.handle.tolist() == [c.handle for c in mine]
        assert mapped.metadata == {c.subscription_id: c.metadata for c in mine if c.metadata is not None}
        changes += mine
    by_id = sorted(rows, key=lambda row: row["id"].encode())
    assert [change._asdict() for change in changes] == [
        {
            "version": number,
            "operation": SUBSCRIBE,
            "handle": number,
            "subscription_id": row["id"],
            "owner": row["owner"] or "default",
            "expression": row["expr"].encode(),
            "valid_from": row["valid_from"],
            "valid_until": row["valid_until"],
            "metadata": row["metadata"] and row["metadata"].replace(" ", "").encode(),
        }
        for number, row in enumerate(by_id, start=1)
    ]


def row_of(name: str | None, expr: str | None = "a = 1", **more: Any) -> Row:
    return {"id": name, "expr": expr, **more}


def test_bad_rows_are_put_aside_and_the_others_stand(tmp_path: Path) -> None:
    bad = {
        "syntax": row_of("syntax", "a = "),
        "json": row_of("json", '{"attr":'),
        "none": row_of("none", None),
        "window": row_of("window", valid_from=5, valid_until=5),
        "metadata": row_of("metadata", metadata="[1]"),
        "owner": row_of("owner", owner=""),
        "long": row_of("n" * 2_000),
        "twice": row_of("good", "a = 2"),
        "no id": row_of(None),
    }
    good = [row_of("good"), row_of("text", "b > 2"), row_of("json too", '{"attr":"a","op":"=","value":1}')]
    written = write_fragments(tmp_path, [*good, *bad.values()])
    (fragment,) = fragments_of(written)
    (refused,) = [one for one in written if one.kind == "refused"]
    assert (fragment.rows, refused.rows) == (len(good), len(bad))
    assert sum(refused.codes.values()) == len(bad)
    codes = refused_in(tmp_path, written)
    assert codes["good"] == "duplicate_id" and codes["window"] == "bad_window"
    ids = [one[1] for one in meaning(map_fragment(tmp_path / fragment.file).catalogue)]
    assert ids == ["good", "json too", "text"]


def test_a_text_that_is_no_utf8_costs_its_row(tmp_path: Path) -> None:
    batch = batch_of([row_of("a"), row_of("b"), row_of("c")])
    names = pa.array([b"a", b"\xff", b"c"], pa.binary()).view(pa.string())
    writer = FragmentWriter(tmp_path, EMPTY_SCHEMA)
    broken = pa.RecordBatch.from_arrays([names, *batch.columns[1:]], names=list(COLUMNS))
    written = [*writer.add(broken), *writer.finish()]
    assert {one.kind: one.rows for one in written} == {"fragment": 2, "refused": 1}


def test_handles_may_be_given(tmp_path: Path) -> None:
    rows = [row_of("a", handle=30), row_of("b", handle=10), row_of("c", handle=20), row_of("d")]
    written = write_fragments(tmp_path, rows, size=2, has_handles=True)
    placed = place(fragments_of(written), 1)[0]
    merged = merge((map_fragment(tmp_path / one.file), one.first) for one in placed)
    assert [(one[0], one[1]) for one in meaning(merged)] == [(10, "b"), (20, "c"), (30, "a")]
    assert max(one.next_handle for one in written) == 31
    assert refused_in(tmp_path, written).keys() == {"d"}


def test_parts_are_about_equal_ranges_of_ids() -> None:
    written = [Written(str(n), "fragment", 10, {}, 100) for n in range(10)]
    for count in (1, 3, 10, 99):
        parts = place(written, count)
        assert [one for part in parts for one in part] == [Placed(str(n), 10 * n) for n in range(10)]
        assert len(parts) == min(count, 10) and max(map(len, parts)) <= min(map(len, parts)) + 1
    assert place([], 3) == [[]]


def test_a_catalogue_of_none_is_a_part_too(tmp_path: Path) -> None:
    facts, _ = make_part(tmp_path, [], tmp_path / "part.packed", 0)
    assert facts.subscriptions == 0
    assert answers(map_part(tmp_path / "part.packed"), [{"a": (1,)}], EMPTY_SCHEMA) == [[]]


def test_a_damaged_fragment_is_refused(tmp_path: Path) -> None:
    (one,) = write_fragments(tmp_path, [row_of("a")])
    data = bytearray((tmp_path / one.file).read_bytes())
    data[70] ^= 1
    (tmp_path / one.file).write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        make_part(tmp_path, [Placed(one.file, 0)], tmp_path / "part.packed", 1)


def test_large_fragments_are_closed_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_fragments, "FRAGMENT_SIZE_BYTES", 1)
    monkeypatch.setattr(of_fragments, "ROWS_AT_ONCE", 2)
    written = write_fragments(tmp_path, [row_of(f"s{n}", f"a = {n} AND b > {n}") for n in range(7)])
    assert len(written) > 2 and sum(one.rows for one in written) == 7


def test_packed_catalogues_are_appended_to_one_that_has_rows() -> None:
    whole = loaded([row_of(name, '{"attr":"a","op":"=","value":1}', owner=name) for name in "abc"])
    writer = CatalogueWriter.in_memory(16)
    writer.take_over(whole)
    assert append_packed(writer, whole, np.array([7, 8, 9], np.uint64)) == 3
    counts = writer.counts()
    assert (counts.rows, counts.predicates, counts.owners) == (6, 1, 3), "nothing is stored twice"
    again = pack_catalogue(CatalogueReader.of(writer).columns, counts, 0)
    assert [one[:3] for one in meaning(again)] == [
        (handle, name, name) for handle, name in zip((1, 2, 3, 7, 8, 9), "abcabc", strict=True)
    ]


def test_a_sample_of_events_is_a_random_one_and_read_again(tmp_path: Path) -> None:
    batches = [pa.record_batch({"a": list(range(first, first + 500))}) for first in range(0, 5_000, 500)]
    picked = pick_events(batches, 1, 100)
    values = picked["a"].to_pylist()
    assert len(set(values)) == 100 and 1_500 < np.mean(values) < 3_500
    assert pick_events([], 1) is None
    write_sample(tmp_path / "one", picked)
    write_sample(tmp_path / "other", pa.table({"b": ["x", None]}))
    sample = read_sample([tmp_path / "one", tmp_path / "other"], EMPTY_SCHEMA)
    assert sample is not None and sample.event_count == 102
    assert list(sample.texts("b").times) == [b"x"]
    assert read_sample([], EMPTY_SCHEMA) is None
