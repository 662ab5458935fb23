"""Subscriptions as rows: prepared tables, or lines of a file as ``load`` takes them.

A line that cannot be read becomes a row too, with its error, so that it is put aside like any other bad row.
A line without an id is named by a digest of its bytes: the same line has the same name wherever it stands,
so that two equal lines without ids are one subscription, and the second is put aside.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pubsub_cluster.language.errors import CallerError, PubSubError
from pubsub_cluster.language.subscription_lines import read_item
from pubsub_cluster.pipeline.fragments import COLUMNS
from pubsub_cluster.pipeline.places import absolute
from pubsub_cluster.pipeline.raw import LEAVE_OUT, bad_file

LINE_ENDINGS = (".ndjson", ".jsonl", ".json", ".txt")
COMPRESSED_ENDINGS = (".gz", ".bz2", ".zst")
SPARK_TYPES = {pa.string(): "string", pa.int64(): "long"}
LINE_COLUMNS = {name: kind for name, kind in COLUMNS.items() if name != "handle"}
DIGEST_BYTES = 12


def read_subscriptions(spark: SparkSession, paths: Sequence[str], owner: str | None = None) -> DataFrame:
    """Return the subscriptions of some files, with the name of the file that each is from.

    Parameters
    ----------
    spark : SparkSession
    paths : sequence of str
        Of lines where the name ends as `LINE_ENDINGS` (and may be compressed), else of Parquet.
    owner : str, optional
        Of those that name none.

    Raises
    ------
    CallerError
        There is no such file, or it cannot be read.
    """
    found: DataFrame | None = None
    for path in map(absolute, paths):
        try:
            rows = _lines(spark, path) if is_of_lines(path) else _table(spark, path)
            _ = rows.schema  # with Spark Connect nothing is looked at before it is asked for
        except (PySparkException, Py4JError) as error:
            bad = bad_file(error)
            raise CallerError(
                "the subscriptions cannot be read",
                seen=str(error).partition("\n")[0] if bad is None else f"{bad.file}: {bad.cause}",
                remedy=_remedy(path, bad is not None),
                path=path,
            ) from None
        found = rows if found is None else found.unionByName(rows, allowMissingColumns=True)
    if found is None:
        raise CallerError("no file of subscriptions is named", remedy="Name at least one.")
    if owner is None:
        return found
    known = F.col("owner") if "owner" in found.columns else F.lit(None)
    return found.withColumn("owner", F.coalesce(known, F.lit(owner)))


def _remedy(path: str, has_bad_file: bool) -> str:
    """Return what to do about a path that cannot be read; one of an unknown ending was taken for Parquet."""
    if not is_of_lines(path) and PurePath(path).suffix not in ("", ".parquet"):
        lines, compressed = (", ".join(endings) for endings in (LINE_ENDINGS, COMPRESSED_ENDINGS))
        return f"Files of lines end in {lines} (and maybe {compressed}); all others are read as Parquet."
    return LEAVE_OUT if has_bad_file else ""


def is_of_lines(path: str) -> bool:
    """Say whether a file has a subscription a line, by its name."""
    for ending in COMPRESSED_ENDINGS:
        path = path.removesuffix(ending)
    return path.endswith(LINE_ENDINGS)


def _table(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.parquet(path).withColumn("file", F.col("_metadata.file_path"))


def _lines(spark: SparkSession, path: str) -> DataFrame:
    lines = spark.read.text(path).select(F.encode("value", "utf-8"), F.col("_metadata.file_path"))

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(rows_of_lines, batches)

    types = [f"{name} {SPARK_TYPES[kind]}" for name, kind in LINE_COLUMNS.items()]
    return lines.mapInArrow(rows, ", ".join(types))


def rows_of_lines(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return lines (bytes, and the file of each) as rows of `LINE_COLUMNS`; empty ones are left out."""
    lines, files = batch.column(0).to_pylist(), batch.column(1).to_pylist()
    found = [row_of_line(line, file) for line, file in zip(lines, files, strict=True) if line.strip()]
    arrays = [pa.array([row.get(name) for row in found], kind) for name, kind in LINE_COLUMNS.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(LINE_COLUMNS))


def row_of_line(line: bytes, file: str | None = None) -> dict[str, Any]:
    """Return what a line says as a row, or the line with what is wrong with it."""
    try:
        item = read_item(line, None)
        assert item is not None
        return {**_row_of_item(item, line), "file": file}
    except PubSubError as error:
        text = line.decode(errors="replace")
        return {"expr": text, "file": file, "error": str(error), "code": error.code}


def _row_of_item(item: dict[str, Any], line: bytes) -> dict[str, Any]:
    for name in ("id", "owner"):
        if not isinstance(item.get(name), str | None):
            raise CallerError(f"`{name}` is no text", seen=item[name])
    for name in ("valid_from", "valid_until"):
        value = item.get(name)
        if value is not None and (type(value) is not int or not -(2**63) <= value < 2**63):
            raise CallerError(f"`{name}` is no 64-bit integer of microseconds", seen=value)
    expression, metadata = item["expr"], item.get("metadata")
    row = {name: item.get(name) for name in ("id", "owner", "valid_from", "valid_until")}
    row["expr"] = msgspec.json.encode(expression).decode()
    row["metadata"] = None if metadata is None else msgspec.json.encode(metadata).decode()
    if row["id"] is None:
        row["id"] = hashlib.blake2b(line.strip(), digest_size=DIGEST_BYTES).hexdigest()
    return row
