"""A cluster as Spark's sink and source: rows become events, notifications become rows, repeats are known."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pubsub_cluster.cluster import Cluster
from pubsub_cluster.language.errors import CallerError, ClusterError, EventError, LimitError
from pubsub_cluster.language.schema import Schema

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pubsub_cluster.client.listener import NOTIFICATIONS_QUEUED_MAX
from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.pipeline import source_reader
from pubsub_cluster.pipeline.source import FORMAT, ClusterSource, register
from pubsub_cluster.pipeline.source_reader import NotificationReader
from pubsub_cluster.pipeline.source_writer import ClusterWriter, WriteOptions, publish_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S = 60
SCHEMA = Schema.from_json({"attributes": [{"name": "price", "domain": "integer"}]})


# -- without Spark ---------------------------------------------------------------------------------


class FakeClient:
    """Takes batches of at most four events, and refuses those with a price of 13; answers come later."""

    def __init__(self, late: bool) -> None:
        self.late = late
        self.taken: dict[str, list[int]] = {}

    def publish_soon(self, batch: pa.RecordBatch, *, answer: str, batch_id: str) -> FakeClient.Answer:
        assert answer == "none"
        if not self.late:
            self._check(batch)
        return FakeClient.Answer(self, batch, batch_id)

    def _check(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows > 4 or 99 in batch.column("price").to_pylist():
            raise LimitError("too much")

    class Answer:
        """An answer, when it is asked for."""

        def __init__(self, client: FakeClient, batch: pa.RecordBatch, batch_id: str) -> None:
            self.client, self.batch, self.batch_id = client, batch, batch_id
            self.match_count = batch.num_rows
            prices = batch.column("price").to_pylist()
            self.refused = {at: EventError("odd") for at, price in enumerate(prices) if price == 13}

        def result(self) -> FakeClient.Answer:
            self.client._check(self.batch)
            self.client.taken[self.batch_id] = self.batch.column("price").to_pylist()
            return self


def batches(prices: list[int], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(prices), size):
        yield pa.RecordBatch.from_pydict({"price": prices[start : start + size]})


@pytest.mark.parametrize("late", [False, True])
def test_each_row_is_published_once_and_refused_ones_are_named(late: bool) -> None:
    prices = [*range(30), 99, 7, 7, 7, 7, 7, 7, 7, 7]
    client = FakeClient(late)
    done = publish_rows(client, batches(prices, 11), WriteOptions({}, event_id="price"), "0")
    taken = sorted(price for piece in client.taken.values() for price in piece)
    assert taken == sorted(price for price in prices if price != 99)
    assert (done.events, done.refused) == (len(prices), 2)
    assert sorted(name.split(":")[0] for name in done.named) == ["13", "99"]
    assert len(client.taken) > 9


def test_a_repeat_has_the_same_ids_and_other_rows_have_others() -> None:
    first, again, other, moved = (FakeClient(False) for _ in range(4))
    for client, prices, prefix in (
        (first, [1, 2, 1, 2], "0"),
        (again, [1, 2, 1, 2], "0"),
        (other, [1, 2, 2, 1], "0"),
        (moved, [1, 2, 1, 2], "1"),
    ):
        publish_rows(client, batches(prices, 2), WriteOptions({}), prefix)
    assert len(first.taken) == 2  # the same content twice is no repeat
    assert list(first.taken) == list(again.taken)
    assert len(set(first.taken) & set(other.taken)) == 1
    assert not set(first.taken) & set(moved.taken)
    writer = ClusterWriter(WriteOptions({}))
    assert pickle.loads(pickle.dumps(writer)).job == writer.job != ClusterWriter(WriteOptions({})).job


def test_what_is_asked_wrongly_is_refused() -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType([StructField("price", LongType())])
    with pytest.raises(CallerError, match="taken back"):
        ClusterSource({}).writer(schema, overwrite=True)
    with pytest.raises(CallerError, match="no such column"):
        ClusterSource({"json": "body"}).writer(schema, overwrite=False)
    with pytest.raises(CallerError, match="`refused` is not known"):
        ClusterSource({"refused": "no"}).writer(schema, overwrite=False)
    with pytest.raises(CallerError, match="no number of seconds"):
        ClusterSource({"timeout": "soon"}).writer(schema, overwrite=False)
    with pytest.raises(CallerError, match="whose notifications"):
        ClusterSource({}).simpleStreamReader(schema)


def test_losses_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reader = NotificationReader("ann", {"data_dir": str(tmp_path), "timeout_s": 1.0})
    assert list(reader.readBetweenOffsets({"taken": 0}, {"taken": 0})) == []
    assert [row[-1] for row in reader.readBetweenOffsets({"taken": 3}, {"taken": 7})] == [4]
    with pytest.raises(ClusterError):
        reader.initialOffset()  # there is no cluster
    monkeypatch.setattr(source_reader.Listening, "_listen", lambda self, *_: self._begun.set())
    queue = source_reader.Listening("ann", {})
    for number in range(NOTIFICATIONS_QUEUED_MAX + 5):
        queue._queued.put(Notification("ann", "p", "b", number, (1,), ("x",), {}, number, 0))
    assert len(queue.take(NOTIFICATIONS_QUEUED_MAX)) == NOTIFICATIONS_QUEUED_MAX
    queue._queued.put(Notification("ann", "p", "b", 0, (1,), ("x",), {}, 0, 2))
    assert [one.dropped for one in queue.take(10)] == [7]


# -- with Spark and a cluster ----------------------------------------------------------------------


def wait_until(condition: Any) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come to pass in time"
        time.sleep(0.05)


def test_events_go_in_and_an_owners_notifications_come_out(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    events = [(n, n % 7, None if n % 3 else "tea") for n in range(20)]
    frame = spark.createDataFrame(events, "event_id long, price long, item string").repartition(2, "event_id")
    with Cluster(schema=SCHEMA) as cluster, cluster.client() as client:
        client.subscribe("price < 3", id="cheap", owner="ann")
        client.subscribe("item = 'tea'", id="tea", owner="ann")
        client.subscribe("price >= 0", id="all", owner="bob")
        options = {"dataDir": str(cluster.data_dir), "eventIdColumn": "event_id"}
        told = spark.readStream.format(FORMAT).options(**options).option("owner", "ann").load()
        table = told.writeStream.format("memory").queryName("told").outputMode("append")
        query = table.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            wait_until(lambda: client.status()["listeners"] == 1)
            frame.write.format(FORMAT).options(**options).mode("append").save()
            expected = sorted(
                (n, sorted(["cheap"] * (price < 3) + ["tea"] * (item == "tea")))
                for n, price, item in events
                if price < 3 or item == "tea"
            )
            wait_until(lambda: spark.table("told").count() >= len(expected) or query.exception())
            assert query.exception() is None
            rows = spark.table("told").collect()
        finally:
            query.stop()
        assert sorted((json.loads(row["event"])["event_id"], sorted(row["ids"])) for row in rows) == expected
        assert {(row["owner"], row["dropped"]) for row in rows} == {("ann", 0)}

        texts = [(100, '{"price": 10}'), (101, '{"price": "ten"}')]
        bad = spark.createDataFrame(texts, "event_id long, body string").coalesce(1)
        options["json"] = "body"
        with pytest.raises(Exception, match=r"1 of 2 events were refused.*101"):
            bad.write.format(FORMAT).options(**options).mode("append").save()
        bad.write.format(FORMAT).options(**options, refused="ignore").mode("append").save()
        counters = client.status()["counters"]
        assert (counters["events_matched"], counters["events_refused"]) == (22, 2)


def test_a_micro_batch_that_is_replayed_is_not_matched_again(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    schema = "event_id long, price long"
    spark.createDataFrame([(n, n) for n in range(6)], schema).write.parquet(str(tmp_path / "events"))
    with Cluster() as cluster, cluster.client() as client, client.listen("bob", timeout_s=WAIT_S) as notified:
        client.subscribe("price >= 3", id="s", owner="bob")
        for _ in range(2):
            events = spark.readStream.schema(schema).parquet(str(tmp_path / "events"))
            sink = events.writeStream.format(FORMAT).option("dataDir", str(cluster.data_dir))
            sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
            assert sink.start().awaitTermination(WAIT_S)
            (tmp_path / "checkpoint" / "commits" / "0").unlink()  # killed before the commit, as it were
            (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
        told = [next(notified) for _ in range(3)]
        notified.timeout_s = 0.2
        assert sorted(one.event["event_id"] for one in [*told, *notified]) == [3, 4, 5]
        assert client.status()["counters"]["events_matched"] == 6
