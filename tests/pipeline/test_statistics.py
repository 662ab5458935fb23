"""Statistics: what a job finds is what one process finds; what cannot be read is named, the rest is right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from pubsub_cluster.cli.main import cli
from pubsub_cluster.cli.pipeline.command import pipeline
from pubsub_cluster.cli.pipeline.statistics import page
from pubsub_cluster.language.batch import decode_payload, event_values, payload_from_columns
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema
from pubsub_cluster.tuner.frequencies import EventCounter, Frequencies
from pubsub_cluster.tuner.frequencies_file import read_frequencies
from pubsub_cluster.tuner.messages import STATISTICS_FILE

pa = pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")
pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
import pyarrow.parquet as pq  # noqa: E402

from pubsub_cluster.pipeline import statistics  # noqa: E402
from pubsub_cluster.pipeline.columns import Packed  # noqa: E402
from pubsub_cluster.pipeline.parquet_files import find_files  # noqa: E402
from pubsub_cluster.pipeline.plan import deal_files  # noqa: E402
from pubsub_cluster.pipeline.rejects import Rejects  # noqa: E402
from pubsub_cluster.pipeline.statistics import (  # noqa: E402
    Statistics,
    count_batches,
    count_events,
    count_files,
    count_slices,
    merge_parts,
    summarise,
    write_statistics,
)
from pubsub_cluster.tuner.frequencies_file import from_bytes  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema((Attribute("side", DomainKind.ENUMERATED, ("buy", "sell"), ordered=True),))


def trades(first: int, count: int) -> pa.Table:
    """Events with all kinds of columns; one in ten sells what nobody declared."""
    number = np.arange(first, first + count)
    return pa.table(
        {
            "event_id": number,
            "price": pa.array(number % 7, pa.int32(), mask=number % 3 == 0),
            "weight": number % 5 / 4,
            "symbol": pa.array([None if n % 4 == 0 else f"S{n % 11}" for n in number.tolist()]),
            "is_open": number % 2 == 0,
            "side": ["stolen" if n % 10 == 9 else ("buy", "sell")[n % 2] for n in number.tolist()],
            "serial": number * 1_000_003,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three good files, a damaged one, one of another shape, and what is no Parquet file."""
    root = tmp_path_factory.mktemp("events")
    for number in range(3):
        pq.write_table(trades(400 * number, 400), root / f"{number}.parquet", row_group_size=150)
    damaged = root / "damaged.parquet"
    pq.write_table(trades(5_000, 300), damaged, row_group_size=100, compression="none")
    body = bytearray(damaged.read_bytes())
    column = pq.ParquetFile(damaged).metadata.row_group(1).column(1)
    at = column.dictionary_page_offset or column.data_page_offset
    body[at : at + 16] = b"\xff" * 16
    damaged.write_bytes(body)
    pq.write_table(trades(6_000, 20).drop_columns(["price"]), root / "narrow.parquet")
    (root / "text.parquet").write_text("no Parquet")
    return root


def one_process(tables: Sequence[tuple[str, int, pa.Table]], schema: Schema = SCHEMA) -> Frequencies:
    """Count tables as the local tuner's process would, all columns but the id."""
    counter = EventCounter()
    for source, first_row, table in tables:
        payload = payload_from_columns(table.drop_columns(["event_id"]))
        counter.add(decode_payload(payload.header, payload.buffers, schema), source, first_row)
    return counter.frequencies()


def expected_of(folder: Path) -> Frequencies:
    tables = [(str(folder / f"{number}.parquet"), 0, trades(400 * number, 400)) for number in range(3)]
    damaged = str(folder / "damaged.parquet")
    return one_process([*tables, (damaged, 0, trades(5_000, 100)), (damaged, 200, trades(5_200, 100))])


def plain(found: Frequencies) -> Any:
    attributes = {
        name: (mine.totals, [column.tolist() for column in mine.numbers], mine.texts, mine.is_exact)
        for name, mine in found.attributes.items()
    }
    priority, events = found.sample
    sampled = [event_values(events, number) for number in range(events.event_count)]
    return found.event_count, attributes, priority.tolist(), sampled


def check_folder(found: Statistics, folder: Path) -> None:
    expected = expected_of(folder)
    assert plain(found.frequencies) == plain(expected)
    assert expected.event_count == 1_400 - 140 and "event_id" not in expected.attributes
    assert expected.attributes["side"].totals.numbers == expected.event_count  # ranks
    told = {(Path(line["file"]).name, line["reason"]): line for line in found.rejects}
    assert told["text.parquet", "the file cannot be read as Parquet"]["rows"] == 0
    assert told["narrow.parquet", "the file has no column price"]["rows"] == 20
    group = told["damaged.parquet", "a row group cannot be read"]
    assert (group["rows"], group["first"]) == (100, "row 100")
    stolen = [line for (name, _), line in told.items() if name == "0.parquet"]
    assert [(line["rows"], line["first"], line["seen"]) for line in stolen] == [(40, "row 9", "stolen")]
    assert len(told) == 7


def test_slices_of_files_are_counted_as_one_process_counts(folder: Path) -> None:
    """However the files are dealt to tasks; what cannot be read costs itself alone."""
    files = find_files([str(folder)])
    expected = {name: files.schema().field(name).type for name in files.schema().names if name != "event_id"}
    for cores in (1, 1_000):
        dealt = [one for mine in deal_files(files.sizes, cores) for one in mine]
        tasks = [
            [one._replace(start=number, stop=number + 1, size=2)] for one in dealt for number in range(2)
        ]
        parts = [
            next(count_slices(iter([numbers(task)]), tasks, expected, SCHEMA)) for task in range(len(tasks))
        ]
        (row,) = next(merge_parts(iter(parts))).to_pylist()
        rejects = Rejects()
        rejects.add_lines(row["rejects"])
        check_folder(Statistics(from_bytes(row["frequencies"]), rejects.told()), folder)


def numbers(task: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": [task]})


def test_batches_of_any_size_are_counted_alike() -> None:
    """As they come from a DataFrame: attributes of one type in one array."""
    where = Packed({"long": ("a", "b")}, ("c",))
    pairs = pa.array([[n % 3, None if n % 2 else n % 5] for n in range(100)], pa.list_(pa.int64()))
    columns = {
        "event_id": pa.array([0] * 100),
        "long": pairs,
        "_own0": pa.array([[n % 4, 7] for n in range(100)]),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    found = []
    for size in (1, 7, 100):
        batches = [batch.slice(first, size) for first in range(0, 100, size)]
        (row,) = next(count_batches(iter(batches), where, Schema())).to_pylist()
        found.append(plain(from_bytes(row["frequencies"])))
    assert found[0] == found[1] == found[2] and found[0][0] == 100
    totals = {name: mine[0] for name, mine in found[0][1].items()}
    assert (totals["a"].numbers, totals["b"].numbers, totals["c"].numbers) == (100, 50, 200)


def test_events_of_a_type_that_cannot_be_carried_are_told(tmp_path: Path) -> None:
    path = tmp_path / "binary.parquet"
    pq.write_table(pa.table({"a": [b"\xff", b"x"]}), path)
    files = find_files([str(path)])
    tasks = deal_files(files.sizes, 1)
    (row,) = next(count_slices(iter([numbers(0)]), tasks, {"a": pa.binary()}, Schema())).to_pylist()
    assert from_bytes(row["frequencies"]).event_count == 0 and len(row["rejects"]) == 1


def test_the_summary_says_what_is_exact_and_how_far_off_the_rest_is(tmp_path: Path) -> None:
    many = [(str(part), 0, trades(10_000 * part, 10_000)) for part in range(2)]
    frequencies = one_process(many, Schema())
    lines = {line["attribute"]: line for line in summarise(frequencies)}
    price, serial = lines["price"], lines["serial"]
    assert price["exact"] and price["error"] == 0.0 and price["distinct"] == 7
    assert price["present"] == pytest.approx(2 / 3, abs=1e-3) and price["kinds"] == {"number": 13_333}
    assert price["top"][0][1] == pytest.approx(2 / 21, abs=1e-3)
    assert not serial["exact"] and abs(serial["distinct"] - 20_000) < 2_500
    assert serial["error"] == pytest.approx(0.5 / 8_192**0.5)
    path = write_statistics(tmp_path / "new", Statistics(frequencies, []), Schema(), ["a", "b"])
    stored = read_frequencies(path)
    assert plain(stored.frequencies) == plain(frequencies)
    assert stored.schema == Schema().to_json() and stored.about["source_count"] == 2


def test_a_job_over_files_finds_what_one_process_finds(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_folder(count_files(spark, [str(folder)], SCHEMA), folder)
    monkeypatch.setattr(
        statistics, "deal_files", lambda sizes, *_: [deal_files({one: 0}, 1)[0] for one in sizes]
    )
    monkeypatch.setattr(statistics, "PARTS_MERGED", 3)  # the driver gets what two tasks have merged
    check_folder(count_files(spark, [str(folder)], SCHEMA), folder)


def test_a_job_over_a_dataframe_finds_the_same_counts(spark: SparkSession) -> None:
    table = trades(0, 500)
    events = spark.createDataFrame(table).repartition(2)
    for given in (events, events.drop("event_id")):
        found = count_events(given, SCHEMA)
        mine, theirs = plain(found.frequencies), plain(one_process([("", 0, table)]))
        assert mine[:2] == theirs[:2]
        assert by_text(mine[3]) == by_text(theirs[3])  # all are sampled, in another order
        assert [line["rows"] for line in found.rejects] == [50]


def by_text(events: list[Any]) -> list[str]:
    return sorted(repr(sorted(event.items())) for event in events)


def test_the_command_writes_what_the_tuner_takes_and_tells_the_rest(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = tmp_path / "schema.json"
    declared.write_bytes(orjson.dumps(SCHEMA.to_json()))
    output = tmp_path / "statistics"
    command = ["pipeline", "statistics", str(folder), "--output", str(output), "--schema", str(declared)]
    assert "statistics" in pipeline.commands
    done = CliRunner().invoke(cli, [*command, "--json"])
    assert done.exit_code == 1  # some could not be counted
    told = orjson.loads(done.stdout)
    lines = {line["attribute"]: line for line in told["attributes"]}
    assert {value for value, _ in lines["side"]["top"]} == {"buy", "sell"} and lines["side"]["exact"]
    assert plain(read_frequencies(output / STATISTICS_FILE).frequencies) == plain(expected_of(folder))
    assert "narrow.parquet: 20 rows: the file has no column price" in done.stderr
    monkeypatch.setenv("COLUMNS", "200")
    text = page(told["attributes"])
    assert "'S5' 6.59 %" in text and "exact" in text and "0.25 22.2 %" in text
