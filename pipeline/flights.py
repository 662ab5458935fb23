"""The worked example: a year of flights from New York, five raw tables to one table of events.

Flights are joined with airlines, airports (twice), planes and the weather of the hour, and judged like any
other raw table. The events are those that the demonstration makes by itself (`cli.demo.flights`), and
`event_id` grows along the file of flights.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from pubsub_cluster.pipeline.flight_tables import JOINS, data_folder, flights_schema
from pubsub_cluster.pipeline.places import absolute
from pubsub_cluster.pipeline.prepare import (
    BLOCK,
    EVENT_ID,
    INDEX,
    REJECTED,
    good_events,
    rejected_values,
    validate,
)
from pubsub_cluster.pipeline.prepare_events import EVENTS_FOLDER, REJECTS_FOLDER, PreparedEvents
from pubsub_cluster.pipeline.raw import numbered, read_tables, rejects_of_files
from pubsub_cluster.pipeline.write import write_parquet

MISSING = "NA"


def joined_flights(flights: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Return flights with what the other tables know, columns named as attributes.

    Parameters
    ----------
    flights : DataFrame
        As text, with the places of their rows.
    tables : dict of str to DataFrame
        ``airlines``, ``airports``, ``planes`` and ``weather``, likewise. Of several rows with one key the
        first counts.
    """
    found = flights
    for prefix, name, keys, columns in JOINS:
        found = _joined(found, tables[name], prefix, keys, list(columns))
    return found


def _joined(
    flights: DataFrame, table: DataFrame, prefix: str, keys: dict[str, str], columns: list[str]
) -> DataFrame:
    key = [F.col(theirs).alias(f"_key_{ours}") for ours, theirs in keys.items()]
    row = F.struct(*columns)
    first = table.groupBy(*key).agg(F.min_by(row, F.struct(BLOCK, INDEX)).alias("_row_of"))
    on = [flights[ours] == F.col(f"_key_{ours}") for ours in keys]
    more = [F.col(f"_row_of.{name}").alias(prefix + name) for name in columns]
    # The flights' own columns of the same names give way: `year` and `hour` of the weather are not asked for.
    kept = [flights[name] for name in flights.columns]
    return flights.join(F.broadcast(first), on, "left").select(*kept, *more)


def prepare_flights(
    spark: SparkSession,
    output: str,
    *,
    folder: Path | None = None,
    overwrite: bool = False,
    on_stage: Callable[[str], None] = lambda _: None,
) -> PreparedEvents:
    """Write the flights as events, and what is rejected of them.

    Parameters
    ----------
    spark : SparkSession
    output : str
        Folder; gets ``events`` and ``rejects``.
    folder : Path, optional
        Of the CSV files; by default inside the installed package. Every executor has to reach it.
    overwrite : bool
        Replace what an earlier run has written.
    on_stage : callable
        Hears what is being done.

    Raises
    ------
    CallerError
        The data are not there, or the output exists.
    """
    folder = (data_folder() if folder is None else folder).absolute()
    schema = flights_schema()
    output = absolute(output)
    events, rejects = f"{output}/{EVENTS_FOLDER}", f"{output}/{REJECTS_FOLDER}"
    with tempfile.TemporaryDirectory(prefix="pubsub-cluster-flights-") as scratch:
        on_stage("reading tables")
        options = {"nullValue": MISSING}
        source = read_tables(spark, [str(_unpacked(folder, Path(scratch)))], "csv", options)
        names = sorted({name for _, name, _, _ in JOINS})
        tables = {name: read_tables(spark, [str(folder / f"{name}.csv")], "csv", options) for name in names}
        named = joined_flights(source, tables).withColumn(EVENT_ID, F.col(INDEX))
        judged = named.transform(validate(schema, parse_text=True))
        seen = Observation()
        rejected = F.count_if(REJECTED).alias("rejected")
        counted = judged.observe(seen, F.count(F.lit(1)).alias("rows"), rejected)
        on_stage("joining and judging flights")
        write_parquet(good_events(counted), events, "overwrite" if overwrite else "error")
        counts = seen.get
        on_stage("writing rejects")
        told = rejects_of_files(spark, ())
        if counts["rejected"]:
            told = told.unionByName(numbered(rejected_values(judged), source))
        write_parquet(told, rejects, "overwrite")
    reasons = spark.read.parquet(rejects).groupBy("reason").count().orderBy(F.desc("count")).collect()
    return PreparedEvents(
        events, rejects, 1 + len(names), counts["rows"], counts["rows"] - counts["rejected"],
        counts["rejected"], {row["reason"]: row["count"] for row in reasons}, (), [], [],
    )  # fmt: skip


def _unpacked(folder: Path, scratch: Path) -> Path:
    """Return the file of flights, out of its archive: Spark reads no zip."""
    archive = folder / "flights.csv.zip"
    if not archive.is_file():
        return folder / "flights.csv"
    target = scratch / "flights.csv"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as packed, target.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    return target
