"""Streams on Spark: each micro-batch on one generation, and its result once, whatever is killed and when."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from folders import write_folder

from pubsub_cluster.cli.pipeline.command import pipeline
from pubsub_cluster.language.errors import CallerError, StoreError
from pubsub_cluster.pipeline.stream_records import (
    BatchRecord,
    FinishedBatches,
    batch_path,
    begin_batch,
    read_batch,
    write_batch,
)
from pubsub_cluster.shm.layout_folder import GENERATIONS_KEPT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WAIT_S = 120
OLD = [{"id": "low", "expr": "price < 5"}, {"id": "all", "expr": "price >= 0", "valid_until": 2_000_000}]
NEW = [{"id": "low", "expr": "price < 3"}, {"id": "odd", "expr": "kind = 'odd'"}]


# -- records, without Spark ------------------------------------------------------------------------


def test_a_batch_keeps_what_it_was_begun_with(tmp_path: Path) -> None:
    layout, checkpoint = tmp_path / "layout", tmp_path / "checkpoint"
    write_folder(layout, OLD)
    first, opened = begin_batch(checkpoint, 0, layout, 11)
    assert first == BatchRecord(0, str(layout), 1, 11) == read_batch(checkpoint, 0)
    write_folder(layout, NEW)
    assert begin_batch(checkpoint, 0, layout, 22) == (first, opened)
    second, opened = begin_batch(checkpoint, 1, layout, 22)
    assert (second.generation, opened.generation, second.at_us) == (2, 2, 22)


def test_a_generation_that_is_gone_is_not_replaced_by_another(tmp_path: Path) -> None:
    layout, checkpoint = tmp_path / "layout", tmp_path / "checkpoint"
    write_folder(layout, OLD)
    begin_batch(checkpoint, 4, layout, 11)
    for _ in range(GENERATIONS_KEPT):
        write_folder(layout, NEW)
    with pytest.raises(StoreError, match=r"begun with generation 1 .*remove .*batch-000000000004.json"):
        begin_batch(checkpoint, 4, layout, 11)
    write_folder(tmp_path / "other", NEW)
    with pytest.raises(StoreError, match="another layout folder"):
        begin_batch(checkpoint, 4, tmp_path / "other", 11)
    batch_path(checkpoint, 4).unlink()  # the remedy
    assert begin_batch(checkpoint, 4, layout, 11)[0].generation == 1 + GENERATIONS_KEPT


def test_damaged_records_are_told_and_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pubsub_cluster.pipeline import stream_records

    write_folder(tmp_path / "layout", OLD)
    for text in ("{", "{}", "[1]"):
        batch_path(tmp_path, 0).parent.mkdir(exist_ok=True)
        batch_path(tmp_path, 0).write_text(text)
        with pytest.raises(StoreError, match="micro-batch 0 cannot be read"):
            begin_batch(tmp_path, 0, tmp_path / "layout", 1)
    batch_path(tmp_path, 0).unlink()
    monkeypatch.setattr(stream_records, "RECORDS_KEPT", 2)
    for batch_id in range(5):
        begin_batch(tmp_path, batch_id, tmp_path / "layout", 1)
    assert [batch_id for batch_id in range(5) if read_batch(tmp_path, batch_id)] == [3, 4]


def test_finished_batches_are_told_once_and_replayed_ones_again(tmp_path: Path) -> None:
    def record(batch_id: int, finished: bool, seconds: float = 1.0) -> BatchRecord:
        return BatchRecord(batch_id, "layout", 1, 5, 4, 3, 0, seconds, finished)

    for finished in (False, True):
        follower = FinishedBatches(tmp_path)
        write_batch(tmp_path, record(0, finished))
        assert follower.take() == [record(0, True)] * finished
    write_batch(tmp_path, record(1, True))
    again, passed = FinishedBatches(tmp_path), FinishedBatches(tmp_path)
    assert again.take() == passed.take() == []
    write_batch(tmp_path, record(2, True))
    assert passed.take() == [record(2, True)]
    write_batch(tmp_path, record(1, True, 2.0))
    assert again.take() == [record(1, True, 2.0), record(2, True)]
    assert again.take() == passed.take() == []


# -- on Spark --------------------------------------------------------------------------------------


def write_events(folder: Path, first: int) -> None:
    """Write a file of four events, complete when a stream can see it."""
    events = [
        {"event_id": n, "price": n % 7, "kind": ("even", "odd")[n % 2]} for n in range(first, first + 4)
    ]
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(events), folder / ".part")
    (folder / ".part").rename(folder / f"{first:03d}.parquet")


def start(spark: SparkSession, place: Path, **options: Any) -> StreamingQuery:
    from pubsub_cluster.pipeline.stream import match_stream

    schema = "event_id long, price long, kind string"
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(place / "events"))
    paths = place / "layout", place / "output", place / "checkpoint"
    return match_stream(events, *paths, once=True, ids=True, at_us=1_000_000, **options)


def table(spark: SparkSession, place: Path) -> list[tuple[int, int, str]]:
    rows = spark.read.parquet(str(place / "output")).where("outcome = 'match'").collect()
    return sorted((row["batch_id"], row["event_id"], row["id"]) for row in rows)


def expected(batch_id: int, rules: str) -> list[tuple[int, int, str]]:
    found = []
    for n in range(4 * batch_id, 4 * batch_id + 4):
        if rules == "old":
            found += [(batch_id, n, "all")] + [(batch_id, n, "low")] * (n % 7 < 5)
        else:
            found += [(batch_id, n, "low")] * (n % 7 < 3) + [(batch_id, n, "odd")] * (n % 2)
    return sorted(found)


def test_a_stream_that_fails_before_its_commit_goes_on_as_if_it_had_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import StreamingQueryException

    from pubsub_cluster.pipeline import stream

    def write_or_fail(checkpoint: Path, record: BatchRecord) -> None:
        if record.batch_id == 1:
            raise OSError("killed, say")
        write_batch(checkpoint, record)

    write_folder(tmp_path / "layout", OLD, parts=2)
    write_events(tmp_path / "events", 0)
    write_events(tmp_path / "events", 4)
    monkeypatch.setattr(stream, "write_batch", write_or_fail)
    with pytest.raises(StreamingQueryException, match="killed, say"):
        start(spark, tmp_path).awaitTermination(WAIT_S)
    before = table(spark, tmp_path)
    assert before == expected(0, "old") + expected(1, "old")  # written, and batch 1 not committed
    assert sorted(path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")) == ["0"]
    monkeypatch.undo()
    write_folder(tmp_path / "layout", NEW)
    write_events(tmp_path / "events", 8)
    assert start(spark, tmp_path).awaitTermination(WAIT_S)
    assert table(spark, tmp_path) == before + expected(2, "new")
    records = [read_batch(tmp_path / "checkpoint", batch_id) for batch_id in range(3)]
    assert [record and record.generation for record in records] == [1, 1, 2]
    assert all(record is not None and record.finished and record.events == 4 for record in records)


def test_what_cannot_be_streamed_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    from pubsub_cluster.pipeline.stream import match_stream

    write_folder(tmp_path / "layout", OLD)
    write_events(tmp_path / "events", 0)
    with pytest.raises(CallerError, match="no stream"):
        match_stream(spark.range(1), tmp_path / "layout", tmp_path / "o", tmp_path / "c")
    shutil.rmtree(tmp_path / "layout")
    with pytest.raises(StoreError, match="no layout folder"):
        start(spark, tmp_path)
    assert not (tmp_path / "checkpoint").exists()


def test_the_command_says_what_each_micro_batch_came_to(spark: SparkSession, tmp_path: Path) -> None:
    write_folder(tmp_path / "layout", NEW)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.json").write_text(
        '{"event_id": "x", "price": 1}\n{"event_id": "y", "price": 9}\n'
    )
    (tmp_path / "events" / "b.json").write_text('{"event_id": "z", "kind": "odd"}\n{"pri\n')
    names = ("layout", "output", "checkpoint")
    arguments = [
        str(tmp_path / "events"),
        *(part for name in names for part in (f"--{name}", tmp_path / name)),
    ]
    arguments = ["stream", *map(str, arguments), "--once", "--json", "--files", "2"]
    done = CliRunner().invoke(pipeline, [*arguments, "--format", "json"])
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 1 and "Rejected: the events: 1 rows" in done.stderr, done.output
    assert [(one["batch_id"], one["events"], one["matches"], one["rejected_rows"]) for one in told] == [
        (0, 4, 2, 1)
    ]
    rows = spark.read.parquet(str(tmp_path / "output")).where("outcome = 'match'").collect()
    assert sorted((row["event_id"], row["handle"]) for row in rows) == [("x", 1), ("z", 2)]
    (tmp_path / "layout" / "current.json").write_text("{}")
    (tmp_path / "events" / "c.json").write_text('{"event_id": "w", "price": 1}\n')
    failed = CliRunner().invoke(pipeline, [*arguments, "--format", "json"])
    assert failed.exit_code == 1 and isinstance(failed.exception, StoreError)
    none = CliRunner().invoke(pipeline, arguments)
    assert isinstance(none.exception, CallerError) and "no Parquet files" in str(none.exception)


def test_a_file_that_cannot_be_read_is_told_and_the_stream_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_folder(tmp_path / "layout", NEW)
    events = tmp_path / "events"
    write_events(events, 0)
    (events / "torn.parquet").write_bytes(b"PAR1 and nothing else")
    pq.write_table(pa.table({"event_id": [1, 2]}), events / "lacks.parquet")
    names = ("layout", "output", "checkpoint")
    arguments = ["stream", str(events), "--once", "--ids", "--json"]
    arguments += [str(part) for name in names for part in (f"--{name}", tmp_path / name)]
    done = CliRunner().invoke(pipeline, arguments)
    (told,) = map(json.loads, done.stdout.splitlines())
    assert done.exit_code == 1 and (told["events"], told["matches"], told["rejected_rows"]) == (6, 5, 2)
    rejects = [(Path(one["file"]).name, one["rows"], one["reason"]) for one in told["rejects"]]
    assert rejects == [
        ("lacks.parquet", 2, "the file has no column price, kind"),
        ("torn.parquet", 0, "the file cannot be read as Parquet"),
    ]
    assert f"Rejected: {events / 'torn.parquet'}: 0 rows" in done.stderr
    write_events(events, 4)
    done = CliRunner().invoke(pipeline, arguments)
    (told,) = map(json.loads, done.stdout.splitlines())
    assert done.exit_code == 0 and told["batch_id"] == 1 and not told["rejects"]
    assert table(spark, tmp_path) == expected(0, "new") + expected(1, "new")


def test_a_replay_of_files_gives_the_same_also_of_torn_ones(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import StreamingQueryException

    from pubsub_cluster.pipeline import stream

    def fail_when_finished(checkpoint: Path, record: BatchRecord) -> None:
        if record.finished:
            raise OSError("killed, say")
        write_batch(checkpoint, record)

    def run() -> bool:
        arriving, of_files = stream.arriving_files(spark, tmp_path / "events")
        paths = (tmp_path / name for name in ("layout", "output", "checkpoint"))
        query = stream.match_stream(arriving, *paths, once=True, ids=True, **of_files)
        return bool(query.awaitTermination(WAIT_S))

    def written() -> list[Any]:
        rows = spark.read.parquet(str(tmp_path / "output")).drop("outcome").collect()
        return sorted(map(str, rows))

    write_folder(tmp_path / "layout", NEW)
    write_events(tmp_path / "events", 0)
    (tmp_path / "events" / "torn.parquet").write_bytes(b"PAR1 and nothing else")
    monkeypatch.setattr(stream, "write_batch", fail_when_finished)
    with pytest.raises(StreamingQueryException, match="killed, say"):
        run()
    before = written()
    assert len(before) == len(expected(0, "new")) + 1
    monkeypatch.undo()
    write_events(tmp_path / "events", 4)
    assert run()
    assert [row for row in written() if "batch_id=0" in row] == before
    assert table(spark, tmp_path) == expected(0, "new") + expected(1, "new")
