"""Matching on Spark: the same answers by every way in, and what goes wrong is told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from folders import write_folder

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.language.text_form import parse_text

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pyspark.sql import SparkSession

from pubsub_cluster.pipeline.match import explain, match, match_events, match_files
from pubsub_cluster.pipeline.results import matches, rejects, write_result

SUBSCRIPTIONS = (
    {"id": "dear", "owner": "ann", "expr": "price >= 7.5"},
    {"id": "late", "owner": "bob", "expr": "when > 1000000 AND symbol = 'ABC'"},
    {"id": "none", "owner": "ann", "expr": "NOT symbol exists AND live = true"},
    {"id": "many", "owner": "bob", "expr": "count in (1, 3, 5) OR tags = 'x'"},
)
EVENTS: list[dict[str, Any]] = [
    {
        "event_id": at,
        "price": None if at % 4 == 0 else 5.0 + at,
        "when": at * 400_000,
        "symbol": ("ABC", "XYZ", None)[at % 3],
        "live": (True, False, None)[at % 3 - 2],
        "count": at,
        "tags": [None, [], ["x", "y"]][at % 3],
    }
    for at in range(12)
]


def naive_pairs() -> list[tuple[int, str]]:
    naive = NaiveMatcher()
    for one in SUBSCRIPTIONS:
        naive.subscribe(one["id"], parse_text(one["expr"]))
    found = []
    for event in EVENTS:
        known = {name: value for name, value in event.items() if value is not None and name != "event_id"}
        found += [(event["event_id"], name) for name in naive.match(known)]
    return sorted(found)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("match")
    write_folder(folder / "layout", SUBSCRIPTIONS, parts=2)
    (folder / "events").mkdir()
    table = pa.Table.from_pylist(EVENTS)
    pq.write_table(table.slice(0, 7), folder / "events" / "a.parquet", row_group_size=2)
    pq.write_table(table.slice(7), folder / "events" / "b.parquet")
    return folder


def pairs(result: Any) -> list[tuple[int, str]]:
    return sorted((row["event_id"], row["id"]) for row in matches(result).collect())


def test_every_way_in_gives_the_answers_of_the_naive_matcher(spark: SparkSession, place: Path) -> None:
    expected = naive_pairs()
    assert len(expected) > 12
    frame = spark.read.parquet(str(place / "events"))
    assert pairs(match_events(frame, place / "layout", ids=True)) == expected
    small = explain(place / "layout").layout_bytes * 2 // 3
    assert len(explain(place / "layout", small).bundles) == 2
    assert pairs(match_events(frame, place / "layout", ids=True, room_bytes=small)) == expected
    from_files = match_files(spark, [str(place / "events")], place / "layout", ids=True, room_bytes=small)
    assert pairs(from_files) == expected
    texts = [(event["event_id"], json.dumps({**event, "event_id": None})) for event in EVENTS]
    documents = spark.createDataFrame(texts, "event_id long, body string")
    assert pairs(match_events(documents, place / "layout", ids=True, json="body")) == expected
    rows = match(frame, place / "layout", owners=True).where("owner = 'ann'").collect()
    assert {row["handle"] for row in rows} == {1, 3}


def test_matches_and_rejects_are_written_apart(spark: SparkSession, place: Path, tmp_path: Path) -> None:
    (place / "events" / "c.parquet").write_bytes(b"PAR1 and nothing else")
    try:
        result = match_files(spark, [str(place / "events")], place / "layout", ids=True)
        summary = write_result(result, tmp_path / "out")
    finally:
        (place / "events" / "c.parquet").unlink()
    assert summary["matches"] == len(naive_pairs())
    assert [Path(told["file"]).name for told in summary["rejects"]] == ["c.parquet"]
    written = spark.read.schema(result.schema).parquet(str(tmp_path / "out" / "outcome=match"))
    assert pairs(written) == naive_pairs()
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        again = write_result(
            match_files(spark, [str(place / "events")], place / "layout", ids=True), tmp_path / "out"
        )
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert not again["rejects"] and not (tmp_path / "out" / "outcome=reject").exists()


def test_events_that_are_none_are_told(spark: SparkSession, place: Path) -> None:
    frame = spark.createDataFrame(
        [("x", "{"), ("y", '{"price": 9}'), ("z", None)], "event_id string, body string"
    )
    result = match_events(frame.coalesce(1), place / "layout", json="body").cache()
    assert [row["event_id"] for row in matches(result).collect()] == ["y"]
    told = rejects(result).collect()
    assert sorted((row["rows"], row["first"]) for row in told) == [(1, "x"), (1, "z")]
    result.unpersist()


def test_a_killed_worker_costs_nothing(spark: SparkSession, place: Path, tmp_path: Path) -> None:
    mark = str(tmp_path / "killed")

    def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    frame = spark.read.parquet(str(place / "events"))
    result = match_events(frame.mapInArrow(kill_once, frame.schema), place / "layout", ids=True)
    assert pairs(result) == naive_pairs() and os.path.exists(mark)


def test_what_cannot_be_matched_is_refused_at_once(spark: SparkSession, place: Path) -> None:
    frame = spark.read.parquet(str(place / "events"))
    with pytest.raises(CallerError, match="names events is missing"):
        match_events(frame.drop("event_id"), place / "layout")
    with pytest.raises(CallerError, match="no column of the events"):
        match_events(frame.select("event_id"), place / "layout")
    with pytest.raises(CallerError, match="cannot name events"):
        match_events(frame, place / "layout", event_id="price")
    with pytest.raises(CallerError, match="no Parquet files"):
        match_files(spark, [str(place / "nothing")], place / "layout")
