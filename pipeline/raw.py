"""Raw files as tables that know where their rows come from, and what becomes of files that cannot be read.

Spark stops a job at a file that it cannot read, and its only other way is to leave out, without a word, what
it could not read. Here the job is stopped, the file that the error names is put aside with the reason, and
the job is done again without it: a bad file costs another run, its good rows are not used either, and all
other files are read in full.

What is known of a row's place depends on the format. Of Parquet, Spark knows the row. Of text it knows the
file, the *block* (a large file is read in several) and the order within; rows are numbered from that by
counting the rows of the blocks before (`numbered`). NDJSON: the line, from 1. CSV: the record, from 1,
without the header and without blank lines. Of a DataFrame that was not read here nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.pipeline.places import absolute
from pubsub_cluster.pipeline.prepare import BLOCK, CORRUPT, FILE, INDEX, REJECTS, ROW

SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson",
    ".parquet": "parquet",
}  # fmt: skip
PACKED = (".gz", ".bz2", ".zst", ".zstd", ".snappy", ".lz4")
OTHER_HEADER = "CSV header does not conform"
UNREADABLE = "the file cannot be read"
LEAVE_OUT = "Take it away or repair it. `pipeline prepare` leaves out what cannot be read, and tells of it."
CAUSE_SHOWN_MAX = 1_024
_FAILED = re.compile(r"\[FAILED_READ_FILE[.A-Z_]*\] Encountered error while reading file (\S+?)\.(?=\s)")
_CAUSED = re.compile(r"^Caused by: (?:[\w$]+\.)*[\w$]+: ((?:(?!\n\tat ).|\n(?!\tat ))*)", re.M)

R = TypeVar("R")


class BadFile(NamedTuple):
    """A file that cannot be read.

    Attributes
    ----------
    file : str
        Path, as `plain_path` writes it.
    cause : str
        What Spark says.
    """

    file: str
    cause: str


def plain_path(text: str) -> str:
    """Return a path as people write it: that of a local file without its scheme."""
    return unquote(re.sub(r"^file:/+", "/", text))


def files_of(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Return the files at some paths (files, folders, patterns), in order.

    Raises
    ------
    CallerError
        There is nothing at a path.
    """
    try:
        listed = spark.read.text([absolute(path) for path in paths])
        found = sorted({plain_path(file) for file in listed.inputFiles()})
    except AnalysisException as error:
        raise CallerError("the files cannot be found", seen=list(paths), limit=_first_line(error)) from None
    if not found:
        raise CallerError("there is no file", seen=list(paths))
    return found


def format_of(files: Sequence[str]) -> str:
    """Return ``csv``, ``ndjson`` or ``parquet``, by the files' names.

    Raises
    ------
    CallerError
        The names do not say, or say different things.
    """
    kinds = {_kind(file) for file in files}
    if len(kinds) == 1 and (kind := kinds.pop()):
        return kind
    raise CallerError(
        "the names of the files do not say one format",
        seen=list(files)[:3],
        limit=sorted(SUFFIXES),
        remedy="Say it: --format csv, ndjson or parquet.",
    )


def _kind(file: str) -> str:
    name = file.rpartition("/")[2].lower()
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return SUFFIXES.get(name[name.rfind(".") :], "")


def read_tables(
    spark: SparkSession, files: Sequence[str], form: str, options: Mapping[str, str] | None = None
) -> DataFrame:
    """Return CSV or Parquet files as a table with the places of its rows.

    Parameters
    ----------
    spark : SparkSession
    files : sequence of str
    form : str
        ``csv`` or ``parquet``.
    options : mapping of str to str, optional
        Of Spark's reader: ``sep``, ``nullValue``, ``encoding``...
    """
    if form == "parquet":
        table = merged_parquet(spark, files, options)
        return table.select("*", _file(), (F.col("_metadata.row_index") + 1).alias(ROW))
    # A quote within quotes is doubled (RFC 4180); Spark's own default is a backslash.
    reader = spark.read.options(**({"escape": '"'} | dict(options or {})))
    reader = reader.options(header=True, columnNameOfCorruptRecord=CORRUPT)
    # Of files with several headers Spark takes one and reads all by position, unless it is told to look.
    reader = reader.options(enforceSchema=False, columnPruning=False)
    names = reader.csv(list(files)).schema
    return _placed(reader.schema(names.add(CORRUPT, "string")).csv(list(files)))


def merged_parquet(
    spark: SparkSession, files: Sequence[str], options: Mapping[str, str] | None = None
) -> DataFrame:
    """Return Parquet files as a table with the columns of all of them.

    Raises
    ------
    CallerError
        A column is of several types, none of which holds the others.
    """
    try:
        merged = spark.read.options(**(options or {})).option("mergeSchema", True).parquet(*files)
        _ = merged.schema  # with Spark Connect nothing is looked at before it is asked for
        return merged
    except Exception as error:
        if "[CANNOT_MERGE_SCHEMAS]" not in str(error):
            raise
        schemas = re.findall(r'"(STRUCT<.*>)"', str(error))
        raise CallerError(
            "the files have a column of several types",
            seen=[schema[:CAUSE_SHOWN_MAX] for schema in schemas],
            remedy="Prepare them apart, or cast it before.",
        ) from None


def read_lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Return the lines of files, as bytes (column ``line``), with their places."""
    lines = _placed(spark.read.option("lineSep", "\n").text(list(files)))
    return lines.select(F.col("value").cast("binary").alias("line"), FILE, BLOCK, INDEX)


def _placed(table: DataFrame) -> DataFrame:
    block = F.col("_metadata.file_block_start").alias(BLOCK)
    return table.select("*", _file(), block, F.monotonically_increasing_id().alias(INDEX))


def _file() -> Column:
    """Where a row is from, as `plain_path` writes it."""
    return F.regexp_replace("_metadata.file_path", "^file:/+", "/").alias(FILE)


def numbered(found: DataFrame, source: DataFrame, file: str = "file", row: str = "row") -> DataFrame:
    """Number rows of text files: reads `source` once more, to count the rows of every block.

    Parameters
    ----------
    found : DataFrame
        Rows with `file`, `BLOCK` and `INDEX`.
    source : DataFrame
        Where they come from, all rows with their places, as `read_tables` or `read_lines` give it.
    file, row : str
        Names of columns of `found`; `row` is set.

    Returns
    -------
    DataFrame
        `found` without `BLOCK` and `INDEX`.
    """
    counts = source.groupBy(F.col(FILE).alias("_in"), F.col(BLOCK).alias("_at")).agg(
        F.min(INDEX).alias("_first"), F.count(F.lit(1)).alias("_rows")
    )
    earlier = Window.partitionBy("_in").orderBy("_at").rowsBetween(Window.unboundedPreceding, -1)
    blocks = counts.withColumn("_before", F.coalesce(F.sum("_rows").over(earlier), F.lit(0)))
    joined = found.join(
        F.broadcast(blocks), (F.col(file) == F.col("_in")) & (F.col(BLOCK) == F.col("_at")), "left"
    )
    number = F.col(INDEX) - F.col("_first") + F.col("_before") + 1
    return joined.withColumn(row, number).drop("_in", "_at", "_first", "_rows", "_before", BLOCK, INDEX)


def without_bad_files(files: Sequence[str], run: Callable[[list[str]], R]) -> tuple[R, list[BadFile]]:
    """Do a job with files; those that turn out to be unreadable are left out, and it is done again.

    Raises
    ------
    CallerError
        No file can be read.
    Exception
        Whatever `run` raises for other reasons.
    """
    good, bad = list(files), list[BadFile]()
    while good:
        try:
            return run(good), bad
        except Exception as error:
            found = bad_file(error)
            if found is None or found.file not in good:
                raise
        bad.append(found)
        if OTHER_HEADER not in found.cause:
            # The header that others were measured by may have been this file's: they are tried again.
            bad = [each for each in bad if OTHER_HEADER not in each.cause]
        left_out = {each.file for each in bad}
        good = [file for file in files if file not in left_out]
    raise CallerError(
        "none of the files can be read", seen=[file for file, _ in bad], limit=bad[0].cause if bad else None
    )


def bad_file(error: Exception) -> BadFile | None:
    """Return the file that an error of Spark is about, if it is about one."""
    text = str(error)
    found = _FAILED.search(text)
    if found is None:
        return None
    causes = [" ".join(cause.split()) for cause in _CAUSED.findall(text)]
    first = text[found.start() :].partition("\n\tat ")[0]
    cause = causes[-1] if causes else " ".join(first.split())
    return BadFile(plain_path(found[1]), cause[:CAUSE_SHOWN_MAX])


def rejects_of_files(spark: SparkSession, bad: Sequence[BadFile]) -> DataFrame:
    """Return a reject for each file that cannot be read; columns as in `REJECTS`."""
    return spark.createDataFrame([(file, None, None, UNREADABLE, cause) for file, cause in bad], REJECTS)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
