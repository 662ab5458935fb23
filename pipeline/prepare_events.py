"""The job that prepares events: raw files in, events and rejects as Parquet out, everything counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.pipeline.lines import LineReader, reader_of_lines
from pubsub_cluster.pipeline.places import absolute
from pubsub_cluster.pipeline.prepare import (
    BLOCK,
    EVENT_ID,
    REJECTED,
    good_events,
    left_out,
    map_columns,
    rejected_values,
    validate,
)
from pubsub_cluster.pipeline.raw import (
    BadFile,
    files_of,
    format_of,
    numbered,
    read_lines,
    read_tables,
    rejects_of_files,
    without_bad_files,
)
from pubsub_cluster.pipeline.write import write_parquet

EVENTS_FOLDER, REJECTS_FOLDER = "events", "rejects"
FORMATS = ("csv", "ndjson", "parquet")


class PreparedEvents(NamedTuple):
    """What became of raw files.

    Attributes
    ----------
    events, rejects : str
        Paths of the Parquet files.
    files, rows, written, rejected : int
        Files read, rows read of them, events written, and rows rejected.
    reasons : dict of str to int
        How many values (or records, or files) were rejected for what; a row may have several bad values.
    bad_files : tuple of BadFile
    left_out : list of str
        Columns that no attribute is declared for; of NDJSON they are not known.
    without_column : list of str
        Attributes that no column was found for.
    """

    events: str
    rejects: str
    files: int
    rows: int
    written: int
    rejected: int
    reasons: dict[str, int]
    bad_files: tuple[BadFile, ...]
    left_out: list[str]
    without_column: list[str]


class _Made(NamedTuple):
    """A job on its way: rows judged, the files that they come from, and columns that have no counterpart."""

    judged: DataFrame
    source: DataFrame
    unused: tuple[list[str], list[str]]


def prepare_events(
    spark: SparkSession,
    paths: Sequence[str],
    schema: Schema,
    output: str,
    *,
    form: str | None = None,
    mapping: Mapping[str, str] | None = None,
    id_column: str | None = None,
    options: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    overwrite: bool = False,
    on_stage: Callable[[str], None] = lambda _: None,
) -> PreparedEvents:
    """Read raw files, write events and rejects.

    Parameters
    ----------
    spark : SparkSession
    paths : sequence of str
        Files, folders or patterns.
    schema : Schema
    output : str
        Folder; gets ``events`` and ``rejects``, both Parquet.
    form : str, optional
        One of `FORMATS`; by default what the files' names say.
    mapping : mapping of str to str, optional
        Names of attributes by names of columns.
    id_column : str, optional
        The column that names events; it becomes `EVENT_ID`.
    options : mapping of str to str, optional
        Of Spark's reader.
    limits : Limits
    overwrite : bool
        Replace what an earlier run has written.
    on_stage : callable
        Hears what is being done.

    Raises
    ------
    CallerError
        No file, a column that is not there or is of a wrong type, or the output exists.
    """
    on_stage("listing files")
    files = files_of(spark, paths)
    form = form or format_of(files)
    renamed = dict(mapping or {}) | ({id_column: EVENT_ID} if id_column else {})
    output = absolute(output)
    events, rejects = f"{output}/{EVENTS_FOLDER}", f"{output}/{REJECTS_FOLDER}"
    mode = "overwrite" if overwrite else "error"

    def run(good: list[str]) -> tuple[_Made, dict[str, int]]:
        nonlocal mode
        on_stage("reading files" if mode != "again" else "reading files again, without a bad one")
        made = _made(spark, good, form, schema, renamed, options, limits)
        counts = _Counts(made.judged)
        how, mode = ("overwrite" if mode == "again" else mode), "again"
        write_parquet(good_events(counts.frame), events, how)
        return made, counts.get()

    (made, counts), bad = without_bad_files(files, run)
    on_stage("writing rejects")
    told = rejects_of_files(spark, bad)
    if counts["rejected"]:
        found = rejected_values(made.judged)
        found = numbered(found, made.source) if BLOCK in found.columns else found
        told = told.unionByName(found.select(told.columns))
    write_parquet(told, rejects, "overwrite")
    reasons = (
        spark.read.parquet(rejects).groupBy("reason").count().orderBy(F.desc("count"), "reason").collect()
    )
    return PreparedEvents(
        events, rejects, len(files) - len(bad), counts["rows"], counts["rows"] - counts["rejected"],
        counts["rejected"], {row["reason"]: row["count"] for row in reasons}, tuple(bad), *made.unused,
    )  # fmt: skip


def _made(
    spark: SparkSession,
    files: list[str],
    form: str,
    schema: Schema,
    renamed: dict[str, str],
    options: Mapping[str, str] | None,
    limits: Limits,
) -> _Made:
    if form == "ndjson":
        source = read_lines(spark, files)
        id_name = EVENT_ID if EVENT_ID in renamed.values() else None
        spark_schema = LineReader(schema, limits, renamed, id_name).spark_schema
        judged = source.mapInArrow(reader_of_lines(schema, limits, renamed, id_name), spark_schema)
        return _Made(judged, source, ([], []))
    source = read_tables(spark, files, form, options)
    mapped = source.transform(map_columns(renamed))
    judged = mapped.transform(validate(schema, limits, parse_text=form == "csv"))
    return _Made(judged, source, left_out(mapped, schema))


class _Counts:
    """Counts what goes through a table on its way to a file."""

    def __init__(self, judged: DataFrame) -> None:
        self._observed = Observation()
        rows, rejected = F.count(F.lit(1)).alias("rows"), F.count_if(REJECTED).alias("rejected")
        self.frame = judged.observe(self._observed, rows, rejected)

    def get(self) -> dict[str, int]:
        """Return the counts; once the table has been written."""
        found: dict[str, Any] = self._observed.get
        return {name: int(count) for name, count in found.items()}
