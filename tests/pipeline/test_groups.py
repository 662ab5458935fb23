"""Groups on Spark are the groups that are formed at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner
from folders import write_folder
from owned_catalogue import owned_catalogue

from pubsub_cluster.cli.main import cli
from pubsub_cluster.language.errors import CallerError, ClusterError, LimitError
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.catalogue import CatalogueReader
from pubsub_cluster.tuner.groups import GroupOptions, catalogue_interests, form_groups

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = GroupOptions(4, 30)


def test_groups_on_spark_are_those_at_hand(spark: SparkSession, tmp_path: Path) -> None:
    """From a layout of two parts; and interests from a table of rectangles."""
    from pubsub_cluster.pipeline.groups import find_groups, group_owners, rectangle_interests

    rng = np.random.default_rng(5)
    subscriptions: list[tuple[str, str]] = []
    for number in range(120):
        low = rng.normal(10, 4)
        text = f"price > {low:.2f} AND price <= {low + rng.exponential(3):.2f}"
        kind = f" AND kind = '{rng.choice(list('abc'))}'" if number % 3 else ""
        subscriptions.append((f"owner{number % 30:02d}", text + kind))
    items = [{"owner": owner, "expr": text} for owner, text in subscriptions]
    layout = write_folder(tmp_path, items, parts=2)
    rows = [(float(rng.normal(10, 4)), str(rng.choice(list("abcd")))) for _ in range(400)]
    events = spark.createDataFrame(rows, "price double, kind string").repartition(2).persist()

    told: list[str] = []
    found = find_groups(events, layout, ["price", "kind"], OPTIONS, cells=6, tasks=3, tell=told.append)
    members = {(row.group, row.owner) for row in found.members.collect()}
    found.release()
    grid, weights = found.groups.grid, found.events
    writer = owned_catalogue(subscriptions)
    interests = catalogue_interests(CatalogueReader.of(writer), writer.counts(), grid)
    local = form_groups(interests, grid, weights.weight, 400, OPTIONS)
    assert (found.owner_count, weights.event_count, weights.refused) == (30, 400, 0)
    assert found.groups.to_json() == local.groups.to_json()
    assert members == {(n, owner) for n in range(4) for owner in local.members_of(n)}
    assert len(told) == 4

    sides = [(f"owner{n % 5}", n / 2, n / 2 + 3, None, None) for n in range(20)]
    kind = "owner string, price_lo double, price_hi double, kind_lo double, kind_hi double"
    rectangles = rectangle_interests(spark.createDataFrame(sides, kind), grid)
    with pytest.raises(LimitError, match="too large for the driver"):
        group_owners(rectangles, grid, weights, OPTIONS, driver_bytes_max=0)
    writer = owned_catalogue((owner, f"price > {lo} AND price <= {hi}") for owner, lo, hi, *_ in sides)
    interests = catalogue_interests(CatalogueReader.of(writer), writer.counts(), grid)
    assert {row.owner: bytes(row.cells) for row in rectangles.collect()} == {
        owner: cells.tobytes() for owner, cells in zip(interests.owners, interests.cells, strict=True)
    }
    with pytest.raises(CallerError, match="no column 'volume'"):
        find_groups(events, layout, ["volume"], OPTIONS)
    events.unpersist()


def test_the_command_writes_groups_and_tells_what_it_left_out(spark: SparkSession, tmp_path: Path) -> None:
    """A damaged file, one with another type, one without a column, and events that the schema refuses."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = {"name": "kind", "domain": "enumerated", "values": ["a", "b"]}
    schema = Schema.from_json({"attributes": [kind]})
    subscriptions: list[tuple[str, str]] = [
        ("ann", "n > 2 AND kind = 'a'"),
        ("ann", "n <= 1"),
        ("bob", "n > 3"),
    ]
    items = [{"owner": owner, "expr": text} for owner, text in subscriptions]
    write_folder(tmp_path / "layout", items, schema)
    events = tmp_path / "events"
    events.mkdir()
    pq.write_table(pa.table({"n": [1, 2, 3, 4, 4], "kind": ["a", "b", "a", "a", "x"]}), events / "1.parquet")
    pq.write_table(pa.table({"n": ["1"], "kind": ["a"]}), events / "2.parquet")
    pq.write_table(pa.table({"n": [1, 2]}), events / "3.parquet")
    (events / "4.parquet").write_bytes(b"PAR1 and no more")
    output = tmp_path / "groups"
    paths = {"--layout": tmp_path / "layout", "--events": events, "--output": output}
    arguments = [str(part) for pair in paths.items() for part in pair]
    arguments += ["--attributes", "n,kind", "--groups", "2", "--json"]
    result = CliRunner().invoke(cli, ["pipeline", "groups", *arguments])
    assert result.exit_code == 1, result.stderr
    body = json.loads(result.stdout)
    assert (body["owners"], body["events"], body["refused_events"]) == (2, 4, 1)
    rejected = [(Path(one["file"]).name, one["rows"], one["reason"]) for one in body["rejected_files"]]
    assert [one[:2] for one in rejected] == [("2.parquet", 1), ("3.parquet", 2), ("4.parquet", None)]
    assert "column n is string, in the first file int64" in rejected[0][2]
    assert "no column kind" in rejected[1][2] and "cannot be read" in rejected[2][2]
    assert "Rejected: 1 event that the catalogue's schema refuses" in result.stderr
    assert [group["size"] for group in body["groups"]] == [1, 2]
    assert body["catch_all_probability"] == 0.25, "of the second event, which interests nobody"
    members = pq.read_table(output / "members").to_pylist()
    assert sorted((row["group"], row["owner"]) for row in members) == [(0, "ann"), (1, "ann"), (1, "bob")]
    kept = json.loads((output / "groups.json").read_text())
    assert kept["of_cell"] == body["of_cell"] and kept["attributes"] == ["n", "kind"]


def test_what_a_worker_raised_is_told() -> None:
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    from pyspark.errors import PythonException

    from pubsub_cluster.pipeline.group_files import job_errors

    raised = "pubsub_cluster.language.errors.StoreError: the part is damaged"
    told = pytest.raises(ClusterError, match=r"a job on Spark failed; seen .*StoreError: the part is damaged")
    with told, job_errors():
        raise PythonException(message=f"An exception\nTraceback:\n  File 'x'\n{raised}\n\n")
