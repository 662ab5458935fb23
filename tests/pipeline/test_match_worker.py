"""Matching in a worker, without Spark: the naive matcher's answers, whatever form events and parts have."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from folders import write_folder
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import Case, cases
from vectors import Result, load_vectors, run_vector

from pubsub_cluster.language.batch import Payload
from pubsub_cluster.language.errors import LimitError, StoreError
from pubsub_cluster.language.json_form import expression_from_json, expression_to_json
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.pipeline import engine as engines
from pubsub_cluster.pipeline import match_worker
from pubsub_cluster.pipeline.engine import PartsEngine, Selection
from pubsub_cluster.pipeline.events import column_payload, json_payload
from pubsub_cluster.pipeline.match_worker import Answer, FileEvents, match_slices
from pubsub_cluster.pipeline.plan import (
    TASK_BYTES_MAX,
    TASK_BYTES_MIN,
    FileSlice,
    choose_plan,
    deal_files,
)
from pubsub_cluster.shm.layout_folder import open_folder

PLAIN = Answer(0, True, True)
TYPES = {"event_id": pa.int64(), "price": pa.int64(), "symbol": pa.string()}
SUBSCRIPTIONS = (
    {"id": "dear", "owner": "ann", "expr": "price > 100"},
    {"id": "abc", "owner": "bob", "expr": "symbol = 'ABC'"},
    {"id": "none", "owner": "ann", "expr": "NOT symbol exists"},
)


def json_events(events: Sequence[Any]) -> Payload:
    """Return events as JSON, which has no infinity."""
    return json_payload(pa.array(list(map(json.dumps, events)), pa.string()))


def has_json(event: Any) -> bool:
    """Say whether an event can be written as JSON, be it a bad one."""
    return "Infinity" not in json.dumps(event)


class FolderAdapter:
    """A folder, written anew when something changed before a batch, as the vector runner's `Matcher`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._wanted: dict[str, dict[str, Any]] = {}
        self._engine: PartsEngine | None = None  # of what is wanted
        self._checked = NaiveMatcher()  # refuses what a cluster would refuse

    def subscribe(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        self._checked.subscribe(subscription_id, expression_from_json(expr), valid_from, valid_until)
        self._wanted[subscription_id] = {"expr": expr, "valid_from": valid_from, "valid_until": valid_until}
        self._engine = None

    def update(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        self._checked.update(subscription_id, expression_from_json(expr), valid_from, valid_until)
        window = {"valid_from": valid_from, "valid_until": valid_until}
        self._wanted[subscription_id] |= {
            "expr": expr,
            **{name: value for name, value in window.items() if value is not None},
        }
        self._engine = None

    def unsubscribe(self, subscription_id: str) -> None:
        self._checked.unsubscribe(subscription_id)
        del self._wanted[subscription_id]
        self._engine = None

    def publish(self, events: Sequence[Any], at: int | None) -> list[Result]:
        if self._engine is None:
            made = [{"id": name, **body, "owner": "me"} for name, body in self._wanted.items()]
            self._engine = PartsEngine(write_folder(self._root, made, parts=2), (0, 1))
        engine = self._engine
        at_us = 0 if at is None else at
        if all(map(has_json, events)):
            found = engine.match(json_events(events), at_us)
        else:
            columns = {name: np.array([event[name] for event in events]) for name in events[0]}
            found = engine.match(column_payload(columns, len(events)), at_us)
        ids = engine.texts(found, "id").to_pylist()
        results: list[Result] = [[] for _ in events]
        for event, one in zip(found.event.tolist(), ids, strict=True):
            mine = results[event]
            assert isinstance(mine, list)
            mine.append(one)
        for event, error in found.refused.items():
            results[event] = error
        return results


@pytest.mark.parametrize("vector", load_vectors(), ids=lambda vector: vector["id"])
def test_vector(vector: dict[str, Any], tmp_path: Path) -> None:
    run_vector(vector, FolderAdapter(tmp_path))


@settings(max_examples=20)
@given(case=cases())
def test_any_case_in_parts_is_as_naive(case: Case) -> None:
    assume(all(map(has_json, case.events)))
    naive = NaiveMatcher(case.schema)
    made = []
    for number, expression in enumerate(case.expressions):
        naive.subscribe(f"s{number}", expression)
        made.append({"id": f"s{number}", "owner": "me", "expr": expression_to_json(expression)})
    with TemporaryDirectory(prefix="psc-") as folder:
        engine = PartsEngine(write_folder(Path(folder), made, case.schema, parts=3), (0, 1, 2))
    found = engine.match(json_events(case.events), 0)
    ids = engine.texts(found, "id").to_pylist()
    assert engine.texts(found, "owner").to_pylist() == ["me"] * len(ids)
    assert found.handle.tolist() == [1 + int(name[1:]) for name in ids]
    pairs = sorted(zip(found.event.tolist(), ids, strict=True))
    assert pairs == sorted((at, name) for at, event in enumerate(case.events) for name in naive.match(event))


def test_a_call_that_finds_too_much_is_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [{"id": f"s{number}", "owner": "me", "expr": "a > 0"} for number in range(8)]
    generation = write_folder(tmp_path, made)
    few = Limits(matches_per_batch_max=20)
    monkeypatch.setattr(engines, "LIMITS", few)
    columns = {"a": np.array([1, 0, 1, 1, 0, 1, 1])}
    found = PartsEngine(generation, (0,)).match(column_payload(columns, 7), 0)
    assert found.event.tolist() == np.repeat([0, 2, 3, 5, 6], 8).tolist()
    monkeypatch.setattr(engines, "LIMITS", Limits(matches_per_batch_max=7))
    with pytest.raises(LimitError):  # a single event has more: nothing is left out in silence
        PartsEngine(generation, (0,)).match(column_payload(columns, 7), 0)


def run_slices(
    folder: Path, units: Sequence[tuple[int, list[FileSlice]]], event_id: str | None = "event_id"
) -> list[dict[str, Any]]:
    """Return the rows that the task of some slices gives."""
    generation = open_folder(folder)
    selection = Selection(str(folder), generation.generation, 0, tuple(range(len(generation.parts))))
    numbers = iter([pa.record_batch({"id": pa.array(range(len(units)))})])
    types = dict(TYPES) if event_id else {name: kind for name, kind in TYPES.items() if name != "event_id"}
    batches = match_slices(numbers, units, [selection], FileEvents(types, event_id), PLAIN)
    return [row for batch in batches for row in batch.to_pylist()]


def write_events(path: Path, rows: int = 10, **columns: Any) -> None:
    given = {"event_id": list(range(rows)), "price": [60 + 10 * at for at in range(rows)]}
    given["symbol"] = [("ABC", None)[at % 2] for at in range(rows)]
    pq.write_table(pa.table({**given, **columns}), path, row_group_size=3)


def expected_rows(numbers: Sequence[int]) -> list[tuple[int, str]]:
    found = [(at, "dear") for at in range(10) if 60 + 10 * at > 100]
    found += [(at, ("abc", "none")[at % 2]) for at in range(10)]
    return sorted((numbers[at], name) for at, name in found)


@pytest.mark.parametrize(("encoded", "called"), [(16, 16), (2, 16), (3, 2)])
def test_the_slices_of_a_file_are_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoded: int, called: int
) -> None:
    monkeypatch.setattr(match_worker, "EVENTS_ENCODED_MAX", encoded)
    monkeypatch.setattr(match_worker, "EVENTS_PER_CALL_MAX", called)
    write_folder(tmp_path / "layout", SUBSCRIPTIONS, parts=2)
    write_events(tmp_path / "a.parquet")
    path = str(tmp_path / "a.parquet")
    units = [(0, [FileSlice(path, 0, 3 * number, 3 * number + 3, 9)]) for number in range(3)]
    rows = run_slices(tmp_path / "layout", units)
    assert sorted((row["event_id"], row["id"]) for row in rows) == expected_rows(range(10))
    owners = {(row["id"], row["owner"], row["handle"]) for row in rows}
    assert owners == {("dear", "ann", 1), ("abc", "bob", 2), ("none", "ann", 3)}
    numbered = run_slices(tmp_path / "layout", [(0, [FileSlice(path, 2, n, n + 1, 2)]) for n in (1, 0)], None)
    assert sorted((row["event_id"], row["id"]) for row in numbered) == expected_rows(
        range(2 << 40, (2 << 40) + 10)
    )


def test_what_is_wrong_with_a_file_costs_that_file_alone(tmp_path: Path) -> None:
    write_folder(tmp_path / "layout", SUBSCRIPTIONS)
    write_events(tmp_path / "good.parquet")
    (tmp_path / "torn.parquet").write_bytes((tmp_path / "good.parquet").read_bytes()[:-50])
    pq.write_table(pa.table({"event_id": [1, 2], "symbol": ["ABC", "ABC"]}), tmp_path / "lacks.parquet")
    write_events(tmp_path / "other.parquet", price=[str(at) for at in range(10)])
    damaged = bytearray((tmp_path / "good.parquet").read_bytes())
    damaged[4:60] = bytes(56)
    (tmp_path / "damaged.parquet").write_bytes(damaged)
    names = ("good", "torn", "lacks", "other", "damaged", "absent")
    slices = [
        FileSlice(str(tmp_path / f"{name}.parquet"), at, number, number + 1, 2)
        for at, name in enumerate(names)
        for number in range(2)
    ]
    rows = run_slices(tmp_path / "layout", [(0, slices)])
    told = {}
    for row in rows:
        if row["reject"] is not None:
            one = json.loads(row["reject"])
            told[Path(one["file"]).stem] = (one["rows"], one["reason"])
    assert set(told) == {"torn", "lacks", "other", "damaged", "absent"}
    assert told["torn"] == (0, "the file cannot be read as Parquet")
    assert told["lacks"] == (2, "the file has no column price")
    assert told["other"] == (10, "the column price is string, in the first file int64")
    assert told["damaged"] == (3, "a row group cannot be read")
    whole = [(row["event_id"], row["id"]) for row in rows if row["reject"] is None]
    assert sorted(whole) == sorted(
        expected_rows(range(10)) + [pair for pair in expected_rows(range(10)) if pair[0] >= 3]
    )


def test_events_that_break_the_schema_are_counted_by_reason(tmp_path: Path) -> None:
    from pubsub_cluster import Attribute, Schema

    schema = Schema((Attribute("price", "integer"), Attribute("symbol", "enumerated", ("ABC", "XYZ"))))
    write_folder(tmp_path / "layout", SUBSCRIPTIONS[:2], schema)
    write_events(tmp_path / "a.parquet", symbol=["ABC", "??", None, "ABC", "!!", *["XYZ"] * 5])
    rows = run_slices(tmp_path / "layout", [(0, [FileSlice(str(tmp_path / "a.parquet"), 0, 0, 1, 1)])])
    told = [json.loads(row["reject"]) for row in rows if row["reject"] is not None]
    assert [(one["rows"], one["first"]) for one in told] == [(2, "1")]
    matched = {row["event_id"] for row in rows if row["reject"] is None and row["id"] == "dear"}
    assert matched == {5, 6, 7, 8, 9}


@given(
    sizes=st.lists(st.integers(0, 3 * TASK_BYTES_MAX), min_size=1, max_size=9),
    cores=st.integers(1, 9),
    tasks=st.none() | st.integers(1, 30),
)
def test_tasks_get_the_same_share_and_files_are_dealt_whole(
    sizes: list[int], cores: int, tasks: int | None
) -> None:
    files = {f"{number:02}": size for number, size in enumerate(sizes)}
    dealt = deal_files(files, cores, tasks)
    shares = [sum(one.stop - one.start for one in task) for task in dealt]
    assert max(shares) - min(shares) <= 1
    if tasks is None:
        assert len(dealt) % cores == 0 or len(dealt) < cores
        assert max(shares) <= TASK_BYTES_MAX and (len(dealt) == 1 or min(shares) * 2 >= TASK_BYTES_MIN)
    else:
        assert len(dealt) == min(tasks, sum(shares))
    parts: dict[str, list[tuple[int, int]]] = {}
    for one in (one for task in dealt for one in task):
        parts.setdefault(one.path, []).append((one.start, one.stop))
        assert files[one.path] == one.size or one.size == 1
        assert list(files)[one.file_idx] == one.path
    assert list(parts) == list(files)
    for path, mine in parts.items():
        assert mine[0][0] == 0 and mine[-1][1] == max(files[path], 1)
        assert all(this[1] == following[0] for this, following in itertools.pairwise(mine))


def test_the_plan_bundles_parts_that_fit(tmp_path: Path) -> None:
    generation = write_folder(tmp_path, SUBSCRIPTIONS, parts=3)
    sizes = [part.size_bytes for part in generation.parts]
    assert choose_plan(generation, sum(sizes)).bundles == ((0, 1, 2),)
    plan = choose_plan(generation, sizes[0] + sizes[1])
    assert plan.bundles == ((0, 1), (2,)) and "each event is read 2 times" in plan.explain()
    with pytest.raises(LimitError, match="part of the layout"):
        choose_plan(generation, 100)


def test_a_layout_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        engines.engine_of(Selection(str(tmp_path), 7, 0, (0,)))
