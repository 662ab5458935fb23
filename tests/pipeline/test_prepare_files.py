"""Files to Parquet with Spark: what is bad is named with its place, and costs nothing but itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema((Attribute("n", DomainKind.INTEGER), Attribute("name", DomainKind.STRING)))


def rows_of(folder: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return found


def by_place(rejects: str) -> list[tuple[Any, ...]]:
    return sorted(
        ((Path(row["file"]).name, row["row"], row["column"], row["value"]) for row in rows_of(rejects)),
        key=str,
    )


def test_csv_with_everything_that_can_be_wrong(spark: SparkSession, tmp_path: Path) -> None:
    from pubsub_cluster.pipeline.prepare_events import prepare_events

    raw = tmp_path / "raw"
    raw.mkdir()
    lines = [f"{i},x{i}" for i in range(40)]
    lines[20], lines[33] = "many,x20", "33"
    (raw / "a.csv").write_text("n,name\n\n" + "\n".join(lines) + '\n41,"a ""quoted"", one"\n,\n')
    (raw / "b.csv").write_text("name,n\ny,1\n")
    (raw / "c.csv.gz").write_bytes(gzip.compress(b"n,name\n" + b"5,z\n" * 100_000)[:150])
    (raw / "d.csv").write_text("n,name\n77,seven\n")
    size = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "64")
    try:
        found = prepare_events(spark, [str(raw)], SCHEMA, str(tmp_path / "out"), on_stage=lambda _: None)
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(size))
    assert (found.files, found.rows, found.written, found.rejected) == (2, 43, 41, 2)
    assert {Path(bad.file).name for bad in found.bad_files} == {"b.csv", "c.csv.gz"}
    assert any("CSV header" in bad.cause for bad in found.bad_files)
    assert by_place(found.rejects)[:2] == [("a.csv", 21, "n", "many"), ("a.csv", 34, None, "33")]
    assert [place[:3] for place in by_place(found.rejects)[2:]] == [
        ("b.csv", None, None),
        ("c.csv.gz", None, None),
    ]
    assert sum(found.reasons.values()) == 4
    events = rows_of(found.events)
    assert {(row["n"], row["name"]) for row in events if row["n"] in (41, 77, None)} == {
        (41, 'a "quoted", one'), (77, "seven"), (None, None),
    }  # fmt: skip
    with pytest.raises(CallerError, match="the output exists"):
        prepare_events(spark, [str(raw / "d.csv")], SCHEMA, str(tmp_path / "out"))


def test_parquet_files_that_are_damaged_or_of_another_type(spark: SparkSession, tmp_path: Path) -> None:
    from pubsub_cluster.pipeline.prepare_events import prepare_events

    raw = tmp_path / "raw"
    raw.mkdir()
    pq.write_table(pa.table({"number": [1.0, 2.5, 3.0], "name": ["a", "b", "c"]}), raw / "a.parquet")
    pq.write_table(pa.table({"number": [4.0]}), raw / "b.parquet")
    (raw / "c.parquet").write_bytes(b"no parquet at all" * 10)
    found = prepare_events(
        spark, [str(raw)], SCHEMA, str(tmp_path / "out"), mapping={"number": "n"}, id_column="name"
    )
    assert [Path(bad.file).name for bad in found.bad_files] == ["c.parquet"]
    assert (found.rows, found.written, found.rejected) == (4, 3, 1)
    assert by_place(found.rejects)[0] == ("a.parquet", 2, "n", "2.5")
    assert sorted((row["event_id"], row["n"]) for row in rows_of(found.events) if row["event_id"]) == [
        ("a", 1), ("c", 3),
    ]  # fmt: skip
    assert found.without_column == ["name"]
    (raw / "c.parquet").unlink()
    pq.write_table(pa.table({"number": ["x"]}), raw / "c.parquet")
    with pytest.raises(CallerError, match="several types"):
        prepare_events(spark, [str(raw)], SCHEMA, str(tmp_path / "other"), mapping={"number": "n"})
    with pytest.raises(CallerError, match="none of the files can be read"):
        (raw / "c.parquet").write_bytes(b"nothing")
        prepare_events(spark, [str(raw / "c.parquet")], SCHEMA, str(tmp_path / "other"))
    with pytest.raises(CallerError, match="cannot be found"):
        prepare_events(spark, [str(raw / "nowhere")], SCHEMA, str(tmp_path / "other"))


def test_lines_of_json_are_numbered_over_blocks(spark: SparkSession, tmp_path: Path) -> None:
    from pubsub_cluster.pipeline.prepare_events import prepare_events

    lines = [json.dumps({"n": i, "name": f"x{i}"}) for i in range(30)]
    lines[3], lines[10], lines[25] = "", "{", '{"n": "25", "name": 5}'
    (tmp_path / "a.ndjson").write_text("\n".join(lines))
    size = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100")
    try:
        found = prepare_events(spark, [str(tmp_path / "a.ndjson")], SCHEMA, str(tmp_path / "out"))
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(size))
    assert (found.rows, found.written, found.rejected) == (29, 27, 2)
    assert [(row, column) for _, row, column, _ in by_place(found.rejects)] == [
        (11, None), (26, "n"), (26, "name"),
    ]  # fmt: skip


def test_subscriptions_lose_repeats_and_bad_lines_only(spark: SparkSession, tmp_path: Path) -> None:
    from pubsub_cluster.pipeline.subscriptions import prepare_subscriptions

    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.ndjson").write_text(
        '{"id": "x", "expr": "n = 1"}\nn = \n{"id": "y", "expr": "n = 2"}\n\nn = 3\n'
    )
    (raw / "b.ndjson").write_text('{"id": "x", "expr": "n = 4", "owner": "ann"}\n')
    (raw / "c.ndjson.gz").write_bytes(b"no archive")
    for replace, kept, place in ((False, "n = 1", ("b.ndjson", 1)), (True, "n = 4", ("a.ndjson", 1))):
        found = prepare_subscriptions(
            spark, [str(raw)], SCHEMA, str(tmp_path / "out"), replace=replace, overwrite=replace
        )
        assert (found.files, found.read, found.written, found.rejected) == (2, 5, 3, 2)
        assert found.codes == {"bad_text": 1, "duplicate_id": 1, "unreadable": 1}
        rows = {row["id"]: row for row in rows_of(found.subscriptions)}
        assert set(rows) == {"x", "y", "a.ndjson:5"}
        value = int(kept[-1])
        assert json.loads(rows["x"]["expr"]) == {"attr": "n", "op": "=", "value": value}
        told = {row["code"]: (Path(row["file"]).name, row["row"]) for row in rows_of(found.rejects)}
        assert told == {
            "bad_text": ("a.ndjson", 2),
            "duplicate_id": place,
            "unreadable": ("c.ndjson.gz", None),
        }


def test_commands_say_what_was_rejected_and_why(spark: SparkSession, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from pubsub_cluster.cli.main import cli

    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA.to_json()))
    raw = tmp_path / "raw.csv"
    raw.write_text("number,name,more\n1,a,x\nNA,b,y\nmany,c,z\n")
    command = ["pipeline", "prepare", "events", str(raw), "--schema", str(schema), "--map", "number=n"]
    command += ["--missing", "NA", "--output", str(tmp_path / "out")]
    said = CliRunner().invoke(cli, command)
    assert said.exit_code == 1, said.output
    assert "3 rows of 1 file: 2 events, 1 rejected" in said.stdout
    assert "1  attribute 'n' has domain integer and takes a whole number of 64 bits" in said.stdout
    assert "Left out, not declared: more" in said.stderr
    again = CliRunner().invoke(cli, [*command, "--json"])
    assert again.exit_code == 1
    assert json.loads(again.stdout)["error"]["condition"] == "the output exists"
    (tmp_path / "subs.ndjson").write_text("n = 1\nn = 'x'\n")
    command = ["pipeline", "prepare", "subscriptions", str(tmp_path / "subs.ndjson"), "--schema", str(schema)]
    made = CliRunner().invoke(cli, [*command, "--output", str(tmp_path / "out"), "--overwrite", "--json"])
    assert made.exit_code == 1, made.output
    body = json.loads(made.stdout)
    assert (body["read"], body["written"], body["codes"]) == (2, 1, {"bad_domain": 1})


def test_the_worked_example_is_the_demonstrations_own(spark: SparkSession, tmp_path: Path) -> None:
    from flight_extract import write_extract

    from pubsub_cluster.cli.demo.alerts import draw_alerts
    from pubsub_cluster.cli.demo.flights import flights_of_events, read_flights
    from pubsub_cluster.cli.demo.prepared import alerts_of_subscriptions
    from pubsub_cluster.cli.pipeline.prepare import write_alerts
    from pubsub_cluster.pipeline.flight_tables import flights_schema
    from pubsub_cluster.pipeline.flights import prepare_flights
    from pubsub_cluster.pipeline.subscriptions import prepare_subscriptions

    folder = write_extract(tmp_path / "extract")
    own = read_flights(folder)
    found = prepare_flights(spark, str(tmp_path / "out"), folder=folder)
    assert (found.rows, found.written, found.rejected) == (len(own), len(own), 0)
    made = flights_of_events(Path(found.events))
    assert [made.event(i) for i in range(len(own))] == [own.event(i) for i in range(len(own))]
    assert (list(made.numbers), list(made.texts)) == (list(own.numbers), list(own.texts))
    assert made.schema() == own.schema() == flights_schema()
    alerts = draw_alerts(own, 50, 3)
    write_alerts(tmp_path / "alerts.ndjson", draw_alerts(made, 50, 3))
    kept = prepare_subscriptions(
        spark, [str(tmp_path / "alerts.ndjson")], flights_schema(), str(tmp_path / "alerts")
    )
    assert alerts_of_subscriptions(Path(kept.subscriptions)) == alerts
