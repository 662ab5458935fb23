"""All vectors through a session: every batch of every vector in one catalogue and one table of events.

A batch's subscriptions and events have its number in their names, and answers across batches are left out.
Events that JSON cannot say (an infinity) go through the function that tasks call: `test_match_worker.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from layout_folders import Row, build_folder
from test_match_worker import has_json
from vectors import NaiveAdapter, Result, load_vectors, run_vector

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pubsub_cluster.pipeline.match import match_events
from pubsub_cluster.pipeline.stream import match_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
STREAM_WAIT_S = 60
COLUMNS = "event_id string, body string"


class Table:
    """What all batches are made of: subscriptions, events by time of acceptance, right answers by event."""

    def __init__(self) -> None:
        self.batches = 0
        self.rows: list[Row] = []
        self.events: dict[int | None, list[tuple[str, str]]] = {}
        self.expected: dict[str, Result] = {}

    def check(self, found: Iterable[Any]) -> None:
        """Compare the rows of all results."""
        ids: dict[str, list[str]] = {name: [] for name in self.expected}
        refused = 0
        for row in found:
            if row["reject"] is not None:
                refused += json.loads(row["reject"])["rows"]
                continue
            batch, _, name = row["id"].partition("|")
            if row["event_id"].startswith(f"{batch}|"):
                ids[row["event_id"]].append(name)
        for name, result in self.expected.items():
            expected = [] if isinstance(result, Exception) else sorted(result)
            assert sorted(ids[name]) == expected, name
        assert refused == sum(isinstance(one, Exception) for one in self.expected.values()) > 0


class Batches(NaiveAdapter):
    """Answers as the naive matcher, and takes down each batch with the subscriptions that it met."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table
        self._live: dict[str, dict[str, Any]] = {}

    def subscribe(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        super().subscribe(subscription_id, expr, valid_from, valid_until)
        self._live[subscription_id] = {"expr": expr, "valid_from": valid_from, "valid_until": valid_until}

    def update(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        super().update(subscription_id, expr, valid_from, valid_until)
        window = {"valid_from": valid_from, "valid_until": valid_until}
        given = {name: value for name, value in window.items() if value is not None}
        self._live[subscription_id] |= {"expr": expr, **given}

    def unsubscribe(self, subscription_id: str) -> None:
        super().unsubscribe(subscription_id)
        del self._live[subscription_id]

    def publish(self, events: Sequence[Any], at: int | None) -> list[Result]:
        results = super().publish(events, at)
        table = self._table
        table.batches += 1
        windows = [one[end] for one in self._live.values() for end in ("valid_from", "valid_until")]
        moment = at if any(end is not None for end in windows) else None  # else any will do
        for name, body in self._live.items():
            table.rows.append({**body, "id": f"{table.batches}|{name}", "expr": json.dumps(body["expr"])})
        for position, (event, result) in enumerate(zip(events, results, strict=True)):
            if has_json(event):
                name = f"{table.batches}|{position}"
                table.events.setdefault(moment, []).append((name, json.dumps(event)))
                table.expected[name] = result
        return results


@pytest.fixture(scope="module")
def table() -> Table:
    made = Table()
    for vector in load_vectors():
        run_vector(vector, Batches(made))
    assert len(made.rows) > 100
    return made


@pytest.fixture(scope="module")
def layout(table: Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("vectors") / "layout"
    made = build_folder(root, table.rows, parts=2, size=100)
    assert len(made.parts) == 2 and made.subscriptions == len(table.rows)
    return root


def moment_us(at: int | None) -> int:
    return time.time_ns() // 1_000 if at is None else at


def test_all_vectors_in_tables(spark: SparkSession, table: Table, layout: Path) -> None:
    found: list[Any] = []
    for at, events in table.events.items():
        frame = spark.createDataFrame(events, COLUMNS).coalesce(2)
        result = match_events(frame, layout, json="body", ids=True, at_us=moment_us(at))
        found += result.collect()
    table.check(found)


def test_all_vectors_in_streams(spark: SparkSession, table: Table, layout: Path, tmp_path: Path) -> None:
    """A stream has one time of acceptance here, so there is one for each."""
    found: list[Any] = []
    for at, events in table.events.items():
        place = tmp_path / str(at)
        (place / "events").mkdir(parents=True)
        names, bodies = zip(*events, strict=True)
        pq.write_table(pa.table({"event_id": names, "body": bodies}), place / "events" / "a.parquet")
        query = match_stream(
            spark.readStream.schema(COLUMNS).parquet(str(place / "events")),
            layout, place / "out", place / "checkpoint",
            once=True, json="body", ids=True, at_us=moment_us(at),
        )  # fmt: skip
        assert query.awaitTermination(STREAM_WAIT_S)
        found += spark.read.parquet(str(place / "out")).collect()
    table.check(found)
