"""Results of matching: matches and rejects in one table, told apart, and written in one pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pubsub_cluster.pipeline.places import absolute

REJECTS_TOLD_MAX = 1_000
REJECT_TYPE = T.StructType(
    [
        T.StructField("file", T.StringType()),
        T.StructField("rows", T.LongType()),
        T.StructField("first", T.StringType()),
        T.StructField("reason", T.StringType()),
        T.StructField("seen", T.StringType()),
    ]
)
"""``first`` names the first event concerned, by its id or its row in the file."""


def matches(result: DataFrame) -> DataFrame:
    """Return the matches of a result: ``event_id, handle[, id][, owner]``."""
    return result.where(_is_match()).drop("reject")


def rejects(result: DataFrame) -> DataFrame:
    """Return what could not be matched, a row per file and reason: ``file, rows, first, reason, seen``."""
    told = result.where(~_is_match())
    return told.select(F.from_json("reject", REJECT_TYPE).alias("told")).select("told.*")


def write_result(result: DataFrame, output: str | Path) -> dict[str, Any]:
    """Write a result as Parquet, matches and rejects apart, in one pass; what was there is replaced.

    Parameters
    ----------
    result : DataFrame
        Of `match_events` or `match_files`.
    output : path
        Matches go to ``outcome=match`` below it, rejects to ``outcome=reject``.

    Returns
    -------
    dict
        ``matches`` and ``rejected_rows`` (int), ``rejects`` (at most `REJECTS_TOLD_MAX` dictionaries).
    """
    output = absolute(output)
    seen = Observation()
    counted = result.observe(
        seen,
        F.count_if(_is_match()).alias("matches"),
        F.count_if(~_is_match()).alias("rejects"),
    )
    outcome = F.when(_is_match(), "match").otherwise("reject")
    writer = counted.withColumn("outcome", outcome).write.partitionBy("outcome").mode("overwrite")
    # Whatever the session says: a partition that this result has not is to go as well.
    writer.option("partitionOverwriteMode", "static").parquet(output)
    told: list[dict[str, Any]] = []
    if seen.get["rejects"]:
        written = result.sparkSession.read.schema(result.schema).parquet(f"{output}/outcome=reject")
        merged = rejects(written).groupBy("file", "reason")
        first = F.min(F.struct("first", "seen")).alias("one")  # of a whole file no event is the first
        rows = merged.agg(F.sum("rows").alias("rows"), first).select("file", "rows", "one.*", "reason")
        told = [row.asDict() for row in rows.orderBy("file", "reason").limit(REJECTS_TOLD_MAX).collect()]
    return {
        "matches": seen.get["matches"],
        "rejected_rows": sum(row["rows"] for row in told),
        "rejects": told,
    }


def _is_match() -> Column:
    return F.col("reject").isNull()
