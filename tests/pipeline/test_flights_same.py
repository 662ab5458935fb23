"""Flights and alerts: Spark by tables, by files and as a stream finds what a cluster finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from demo_flights import invented_flights
from layout_folders import build_folder

from pubsub_cluster import Cluster
from pubsub_cluster.cli.demo.alerts import draw_alerts
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.naive import NaiveMatcher

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

import orjson
from pyspark.sql import SparkSession

from pubsub_cluster.pipeline.match import match_events, match_files
from pubsub_cluster.pipeline.results import matches
from pubsub_cluster.pipeline.stream import match_stream

FLIGHTS, ALERTS, STREAM_WAIT_S = 240, 300, 60

Pairs = list[tuple[int, int]]


def pairs(result: Any) -> Pairs:
    return sorted((row["event_id"], row["handle"]) for row in matches(result).collect())


def pairs_of_cluster(data_dir: Path, layout: Path, batch: Any) -> Pairs:
    """Start a cluster from the folder and publish the flights to it."""
    with Cluster(data_dir, layout=layout, shards=1) as cluster, cluster.client(timeout_s=30) as client:
        found = client.publish(batch)
        return sorted((at, one) for at in range(len(found)) for one in found[at].tolist())


@pytest.mark.timeout(300)  # a session and a cluster, which may have to be compiled for
def test_every_way_to_match_flights_finds_the_same(
    spark: SparkSession, tmp_path: Path, tmp_data_dir: Path
) -> None:
    flights = invented_flights().select(np.arange(FLIGHTS))
    alerts = draw_alerts(flights, ALERTS, seed=1)
    schema, layout = flights.schema(), tmp_path / "layout"
    rows = [{"id": one.id, "owner": one.owner, "expr": orjson.dumps(one.expr).decode()} for one in alerts]
    build_folder(layout, rows, schema)
    handle_of = {one: handle for handle, one in enumerate(sorted(alert.id for alert in alerts), start=1)}
    naive = NaiveMatcher(schema)
    for alert in alerts:
        naive.subscribe(alert.id, expression_from_json(alert.expr))
    expected = sorted((at, handle_of[one]) for at in range(FLIGHTS) for one in naive.match(flights.event(at)))
    assert len(expected) > FLIGHTS // 4

    events = [{"event_id": at, **flights.event(at)} for at in range(FLIGHTS)]
    names = sorted({name for event in events for name in event})
    table = pa.table({name: pa.array([event.get(name) for event in events]) for name in names})
    (tmp_path / "events").mkdir()
    for number in range(3):
        part = table.slice(number * FLIGHTS // 3, FLIGHTS // 3)
        pq.write_table(part, tmp_path / "events" / f"{number}.parquet", row_group_size=50)
    frame = spark.read.parquet(str(tmp_path / "events"))
    assert pairs(match_events(frame, layout)) == expected
    assert pairs(match_files(spark, [str(tmp_path / "events")], layout)) == expected
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 2)
    query = match_stream(
        stream.parquet(str(tmp_path / "events")),
        layout,
        tmp_path / "out",
        tmp_path / "checkpoint",
        once=True,
    )
    assert query.awaitTermination(STREAM_WAIT_S)
    streamed = spark.read.parquet(str(tmp_path / "out")).where("outcome = 'match'").collect()
    assert sorted((row["event_id"], row["handle"]) for row in streamed) == expected
    assert pairs_of_cluster(tmp_data_dir, layout, flights.batch(slice(None))) == expected
