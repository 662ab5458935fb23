"""Layout folders built by Spark: however rows are dealt to tasks, the same catalogue and the same answers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from test_build_files import answers

from pubsub_cluster.cli.pipeline.command import pipeline
from pubsub_cluster.language.errors import CallerError, StoreError
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.shm.change_groups import Change
from pubsub_cluster.shm.layout_folder import LayoutGeneration, map_changes, map_part, open_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 60
EVENTS = [{"a": (n % 7,), "b": (n,)} for n in range(20)]


def expression(number: int) -> str:
    return f"a = {number % 7} AND b > {number % 11}"


def subscriptions(spark: SparkSession, numbers: list[int], bad: int = 0) -> DataFrame:
    rows: list[tuple[Any, ...]] = [(f"s{n:03d}", expression(n), "me" if n % 2 else None) for n in numbers]
    rows += [(f"s{n:03d}", "a = ", "me") for n in range(900, 900 + bad)]
    return spark.createDataFrame(rows, "id string, expr string, owner string")


def found_in(made: LayoutGeneration) -> list[list[int]]:
    """Return the handles that all parts give for each event."""
    found: list[list[int]] = [[] for _ in EVENTS]
    for path in made.paths:
        for mine, more in zip(found, answers(map_part(path), EVENTS, EMPTY_SCHEMA), strict=True):
            mine += more
    return [sorted(handles) for handles in found]


def changes_in(made: LayoutGeneration) -> list[Change]:
    mapped = [map_changes(made.folder / one.file) for one in made.changes]
    return [change for one in mapped for _, group in one.groups for change in group]


def test_layouts_are_the_same_however_rows_are_dealt(spark: SparkSession, tmp_path: Path) -> None:
    from pubsub_cluster.pipeline.build import build

    numbers = list(range(ROWS))
    events = spark.createDataFrame(
        [(n % 7, n, f"e{n}") for n in range(100)], "a long, b long, event_id string"
    )
    one = build(subscriptions(spark, numbers, bad=3).coalesce(1), tmp_path / "one", events=events)
    three = build(subscriptions(spark, numbers[::-1]).repartition(3), tmp_path / "three", parts=3)
    assert (len(one.parts), len(three.parts)) == (1, 3)
    assert one.subscriptions == three.subscriptions == ROWS
    assert one.facts["refused"] == {"bad_text": 3} and three.facts["refused"] == {}
    assert (one.facts["sampled_events"], three.facts["sampled_events"]) == (100, 0)
    expected = [
        [n + 1 for n in numbers if holds(parse_text(expression(n)), event, EMPTY_SCHEMA)] for event in EVENTS
    ]
    assert found_in(one) == found_in(three) == expected
    assert open_folder(tmp_path / "three") == three
    for made in (one, three):
        assert [(c.version, c.handle, c.subscription_id) for c in changes_in(made)] == [
            (n + 1, n + 1, f"s{n:03d}") for n in numbers
        ]
    refused = spark.read.parquet(str(one.folder / "refused")).collect()
    assert sorted((row["id"], row["code"]) for row in refused) == [
        (f"s{n}", "bad_text") for n in range(900, 903)
    ]
    assert sorted(path.name for path in one.folder.iterdir()) == sorted(
        ["manifest.json", "refused", *(part.file for part in one.parts), *(part.file for part in one.changes)]
    )


def test_what_cannot_be_built_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pubsub_cluster.pipeline import build as module

    with pytest.raises(CallerError, match="lack columns"):
        module.build(spark.range(3), tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        module.build(subscriptions(spark, [1]), tmp_path / "file")
    monkeypatch.setattr(module, "WORK_DIR", "work/of/nobody")
    with pytest.raises(OSError):
        module.build(subscriptions(spark, [1]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_torn_file_is_named_and_nothing_is_built(spark: SparkSession, tmp_path: Path) -> None:
    """The footer is torn, or a page: Spark finds the one when the file is opened, the other in a task."""
    path, table = tmp_path / "torn.parquet", pa.table({"id": ["a" * 99], "expr": ["x = 1"]})
    pq.write_table(table, path)
    whole = path.read_bytes()
    for torn in (whole[:-9], whole[:4] + bytes(60) + whole[64:]):
        path.write_bytes(torn)
        arguments = ["build", str(path), "--output", str(tmp_path / "layout")]
        failed = CliRunner().invoke(pipeline, arguments).exception
        assert isinstance(failed, CallerError) and str(path) in str(failed.seen), failed
        assert "pipeline prepare" in failed.remedy
    assert not list((tmp_path / "layout").glob("*"))


def test_a_killed_worker_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each stage a task writes a file, and its worker dies before that is told."""
    from pubsub_cluster.pipeline import build as module

    marks, told = tmp_path, module._told

    def killed_once(said: Iterator[dict[str, Any]], number: int | None = None) -> Iterator[pa.RecordBatch]:
        stage = marks / f"killed-{'fragments' if number is None else 'parts'}"
        for batch in told(said, number):
            if not stage.exists():
                stage.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    monkeypatch.setattr(module, "_told", killed_once)
    made = module.build(subscriptions(spark, list(range(9)), bad=2), tmp_path / "layout")
    assert len(list(marks.glob("killed-*"))) == 2
    assert found_in(made) == [
        [k + 1 for k in range(9) if k % 7 == n % 7 and n > k % 11] for n in range(len(EVENTS))
    ]
    assert [change.subscription_id for change in changes_in(made)] == [f"s{n:03d}" for n in range(9)]
    names = ["manifest.json", "refused", *(one.file for one in (*made.parts, *made.changes))]
    assert sorted(path.name for path in made.folder.iterdir()) == sorted(names)
    assert sum(one.num_rows for one in [pq.read_table(made.folder / "refused")]) == 2


def test_handles_that_are_given_stay(spark: SparkSession, tmp_path: Path) -> None:
    from pubsub_cluster.pipeline.build import build

    rows = [("a", "x = 1", 9), ("b", "x = 1", 4), ("c", "x = 1", 9)]
    made = build(spark.createDataFrame(rows, "id string, expr string, handle long"), tmp_path)
    assert made.facts["refused"] == {"bad_expression": 1} and made.facts["next_handle"] == 10
    assert map_part(made.paths[0]).catalogue.columns.handle.tolist() == [4, 9]


def test_lines_are_what_load_takes() -> None:
    from pubsub_cluster.pipeline.subscription_rows import is_of_lines, row_of_line, rows_of_lines

    assert row_of_line(
        b'{"id": "x", "expr": {"attr": "a", "op": "=", "value": 1}, "metadata": {"n": 1}}'
    ) == {
        "id": "x",
        "owner": None,
        "expr": '{"attr":"a","op":"=","value":1}',
        "valid_from": None,
        "valid_until": None,
        "metadata": '{"n":1}',
        "file": None,
    }
    named = [row_of_line(b"a = 1")["id"], row_of_line(b" a = 1\n")["id"], row_of_line(b"a = 2")["id"]]
    assert named[0] == named[1] != named[2] and row_of_line(b"a = 1")["expr"] == '"a = 1"'
    for line in (b"[1]", b'{"expr": 1, "id": 3}', b'{"expr": "a", "valid_from": true}', b"\xff", b'{"x'):
        row = row_of_line(line, "f")
        assert row["code"] and row["error"] and row["file"] == "f" and "id" not in row
    batch = pa.record_batch({"line": [b"a = 1", b" ", b"["], "file": ["f", "f", "f"]})
    assert rows_of_lines(batch)["code"].to_pylist() == [None, "bad_expression"]
    assert is_of_lines("x.ndjson") and is_of_lines("s3://b/x.json.gz") and not is_of_lines("x/y.parquet")


def test_the_command_builds_from_lines_and_tables(spark: SparkSession, tmp_path: Path) -> None:
    lines = tmp_path / "some.ndjson"
    lines.write_text('{"id": "one", "expr": "a = 1"}\na = \n\n{"id": "two", "expr": "a = 2"}\n')
    pq.write_table(pa.table({"id": ["three"], "expr": ["a = 3"], "owner": ["me"]}), tmp_path / "more.parquet")
    arguments = ["pipeline", "build", str(lines), str(tmp_path / "more.parquet"), "--owner", "ann"]
    arguments += ["--output", str(tmp_path / "layout"), "--json"]
    done = CliRunner().invoke(pipeline, arguments[1:])
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    assert (told["subscriptions"], told["refused"], told["generation"]) == (3, {"bad_text": 1}, 1)
    made = open_folder(tmp_path / "layout")
    changes = [
        c for one in made.changes for _, group in map_changes(made.folder / one.file).groups for c in group
    ]
    assert [(c.subscription_id, c.owner) for c in changes] == [
        ("one", "ann"),
        ("three", "me"),
        ("two", "ann"),
    ]
    (refused,) = pq.read_table(made.folder / "refused").to_pylist()
    assert refused["expr"] == '"a ="' and refused["file"].endswith("some.ndjson")
    missing = CliRunner().invoke(
        pipeline, ["build", str(tmp_path / "none.parquet"), "--output", str(tmp_path)]
    )
    assert isinstance(missing.exception, CallerError)
    lines.rename(tmp_path / "some.lines")
    taken = CliRunner().invoke(
        pipeline, ["build", str(tmp_path / "some.lines"), "--output", str(tmp_path / "other")]
    )
    assert isinstance(taken.exception, CallerError) and ".ndjson, .jsonl, .json, .txt" in str(taken.exception)
