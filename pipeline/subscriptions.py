"""The job that prepares subscriptions: lines or rows in; judged, normalised and without repeats out.

A line is what `load` takes (`language.subscription_lines`); what may stand is judged as the cluster
judges it. Of several subscriptions with one id the first stays, in the order of files and lines, as it
would be loaded; with `replace` the last one, as ``load --replace`` leaves it. A line without an id gets the
name of its file and its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from pubsub_cluster.language.errors import CallerError, DuplicateIdError, ExpressionError, PubSubError
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.json_form import expression_from_json, expression_to_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.subscription import (
    DEFAULT_OWNER,
    ExpressionReader,
    encode_metadata,
    window_given,
)
from pubsub_cluster.language.subscription_lines import OPTIONAL_KEYS, read_item
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.language.timestamps import parse_instant
from pubsub_cluster.language.values import check_name
from pubsub_cluster.pipeline.places import absolute
from pubsub_cluster.pipeline.prepare import FILE, ROW
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

SUBSCRIPTIONS_FOLDER, REJECTS_FOLDER = "subscriptions", "rejects"
LINE_SHOWN_MAX = 4_096
PLACES = [(FILE, pa.string()), (ROW, pa.int64())]
PREPARED = [
    ("id", pa.string()), ("owner", pa.string()), ("expr", pa.string()), ("valid_from", pa.int64()),
    ("valid_until", pa.int64()), ("metadata", pa.string()),
]  # fmt: skip
REFUSED = [("line", pa.string()), ("error", pa.string()), ("code", pa.string())]
_ARROW = pa.schema([*PLACES, *PREPARED, *REFUSED])
_SPARK_TYPES = {pa.string(): "string", pa.int64(): "long"}
_SPARK = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in [*PLACES, *PREPARED, *REFUSED])
REJECTS = ("file", "row", "line", "error", "code")

# File, number, what is shown of it when it is refused, and what reads it.
_Given: TypeAlias = tuple[str | None, int | None, Any, Callable[[], dict[str, Any] | None]]


class PreparedSubscriptions(NamedTuple):
    """What became of lines or rows.

    Attributes
    ----------
    subscriptions, rejects : str
        Paths of the Parquet files.
    files, read, written, rejected : int
        Files, subscriptions read of them (blank lines are none), written and rejected.
    codes : dict of str to int
        How many were rejected, by the error's code.
    bad_files : tuple of BadFile
    """

    subscriptions: str
    rejects: str
    files: int
    read: int
    written: int
    rejected: int
    codes: dict[str, int]
    bad_files: tuple[BadFile, ...]


class SubscriptionPreparer:
    """Judges and normalises subscriptions under one schema and its limits.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    owner : str, optional
        Of those that name none.
    """

    def __init__(self, schema: Schema, limits: Limits = DEFAULT_LIMITS, owner: str | None = None) -> None:
        self._schema = schema
        self._limits = limits
        self._owner = owner
        self._expressions = ExpressionReader(schema, limits)

    def prepared(self, item: dict[str, Any], place: str) -> dict[str, Any]:
        """Return a subscription as a row of `PREPARED`.

        Parameters
        ----------
        item : dict
            As `read_item` gives it.
        place : str
            Its id, if it has none.

        Raises
        ------
        CallerError
            It cannot stand.
        """
        given = item.get("id")
        name = check_name(place if given is None else given, what="subscription id", limits=self._limits)
        owner = check_name(item.get("owner", DEFAULT_OWNER), what="owner", limits=self._limits)
        valid_from, valid_until = window_given(item.get("valid_from"), item.get("valid_until"))
        metadata = encode_metadata(item.get("metadata"), self._limits)
        body = expression_to_json(self._tree(item["expr"]))
        self._expressions.normalised(body)
        return {
            "id": name, "owner": owner, "expr": msgspec.json.encode(body).decode(), "valid_from": valid_from,
            "valid_until": valid_until, "metadata": None if metadata is None else metadata.decode(),
        }  # fmt: skip

    def _tree(self, given: Any) -> Expression:
        if isinstance(given, str):
            return parse_text(given, self._schema, self._limits)
        return expression_from_json(given, self._limits)

    def lines(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Prepare lines: columns ``line`` (bytes) and `PLACES`; blank lines are left out."""
        rows = (_given(batch, name) for name in ("line", FILE, ROW))
        return self._table(
            (file, number, line, partial(read_item, line or b"", self._owner))
            for line, file, number in zip(*rows, strict=True)
        )

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Prepare rows: columns ``expr``, what else there is of a subscription, and `PLACES`."""
        names = [name for name in ("expr", *OPTIONAL_KEYS) if name in batch.schema.names]
        columns = [_given(batch, name) for name in names]
        rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        return self._table(
            (file, number, row["expr"], partial(self._item, row))
            for row, file, number in zip(rows, _given(batch, FILE), _given(batch, ROW), strict=True)
        )

    def _item(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row of a table as a subscription."""
        if row["expr"] is None:
            raise ExpressionError("the expression is missing", remedy="Give it in the column `expr`.")
        item = read_item(row["expr"].encode(errors="surrogatepass"), None)
        if item is None or item.keys() != {"expr"}:
            raise ExpressionError("column `expr` holds no expression", seen=row["expr"])
        item |= {name: value for name, value in row.items() if name != "expr" and value is not None}
        for name in ("valid_from", "valid_until"):
            if isinstance(item.get(name), str):
                item[name] = parse_instant(f"`{name}`", item[name])
        if isinstance(item.get("metadata"), str):
            item["metadata"] = _metadata(item["metadata"])
        if self._owner is not None:
            item.setdefault("owner", self._owner)
        return item

    def _table(self, given: Iterable[_Given]) -> pa.RecordBatch:
        found: list[dict[str, Any]] = []
        for file, number, text, read in given:
            row: dict[str, Any] = {FILE: file, ROW: number}
            try:
                item = read()
                if item is None:
                    continue
                row |= self.prepared(item, f"{(file or 'row').rpartition('/')[2]}:{number}")
            except PubSubError as error:
                row |= {"line": _shown(text), "error": str(error), "code": error.code}
            found.append(row)
        return pa.RecordBatch.from_pylist(found, schema=_ARROW)


def preparer(
    schema: Schema, limits: Limits, owner: str | None, form: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what prepares the batches of a task, for `DataFrame.mapInArrow`; a task makes its own reader."""

    def prepare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = SubscriptionPreparer(schema, limits, owner)
        return map(mine.lines if form == "ndjson" else mine.rows, batches)

    return prepare


def without_repeats(prepared: DataFrame, replace: bool = False) -> DataFrame:
    """Refuse all but one of the subscriptions that have one id: the first, or with `replace` the last."""
    error = DuplicateIdError(
        f"a {'later' if replace else 'former'} line has this id", remedy="Only one of them stays."
    )
    order = [F.desc(FILE), F.desc(ROW)] if replace else [F.asc(FILE), F.asc(ROW)]
    # Those that are refused already have no id: each stays by itself, or they would all go to one task.
    alone = F.concat_ws(":", F.lit("refused"), FILE, ROW)
    by_id = Window.partitionBy(F.col("id").isNull(), F.coalesce("id", alone)).orderBy(*order)
    is_repeat = F.col("id").isNotNull() & (F.col("_nth") > 1)

    line = F.left("expr", F.lit(LINE_SHOWN_MAX))
    told = {"error": F.lit(str(error)), "code": F.lit(error.code), "line": line}
    columns = [
        F.when(is_repeat, told.get(name, F.lit(None))).otherwise(F.col(name)).alias(name)
        for name in prepared.columns
        if name not in (FILE, ROW)
    ]
    return prepared.withColumn("_nth", F.row_number().over(by_id)).select(FILE, ROW, *columns)


def read_subscriptions(spark: SparkSession, files: Sequence[str], form: str) -> DataFrame:
    """Return the lines of NDJSON files, or the rows of Parquet files, with file and number."""
    if form == "ndjson":
        lines = read_lines(spark, files)
        return numbered(lines, lines, FILE, ROW)
    table = read_tables(spark, files, "parquet")
    if "expr" not in table.columns:
        raise CallerError("the table has no column `expr`", seen=table.columns, remedy="Rename it.")
    known = [name for name in ("expr", *OPTIONAL_KEYS) if name in table.columns]
    return table.select(*known, FILE, ROW)


def prepare_subscriptions(
    spark: SparkSession,
    paths: Sequence[str],
    schema: Schema,
    output: str,
    *,
    form: str | None = None,
    owner: str | None = None,
    replace: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    overwrite: bool = False,
    on_stage: Callable[[str], None] = lambda _: None,
) -> PreparedSubscriptions:
    """Read files of subscriptions, write those that can stand and those that cannot.

    Parameters
    ----------
    spark : SparkSession
    paths : sequence of str
        Files, folders or patterns.
    schema : Schema
    output : str
        Folder; gets ``subscriptions`` and ``rejects``, both Parquet.
    form : str, optional
        ``ndjson`` (any lines that `load` takes) or ``parquet``; by default what the files' names say.
    owner : str, optional
        Of those that name none.
    replace : bool
        Of several with one id the last stays; the first by default.
    limits : Limits
    overwrite : bool
        Replace what an earlier run has written.
    on_stage : callable
        Hears what is being done.

    Raises
    ------
    CallerError
        No file, a column that is not there, or the output exists.
    """
    on_stage("listing files")
    files = files_of(spark, paths)
    form = form or format_of(files)
    output = absolute(output)
    subscriptions, rejects = f"{output}/{SUBSCRIPTIONS_FOLDER}", f"{output}/{REJECTS_FOLDER}"
    work = preparer(schema, limits, owner, form)
    mode = "overwrite" if overwrite else "error"

    def run(good: list[str]) -> tuple[DataFrame, dict[str, int]]:
        nonlocal mode
        on_stage("judging subscriptions")
        # Judged once and then written to two places.
        judged = read_subscriptions(spark, good, form).mapInArrow(work, _SPARK)
        told = without_repeats(judged, replace).persist()
        seen = Observation()
        rejected = F.count_if(F.col("error").isNotNull()).alias("rejected")
        standing = told.observe(seen, F.count(F.lit(1)).alias("read"), rejected).filter("error is null")
        how, mode = mode, "overwrite"
        try:
            write_parquet(standing.select([name for name, _ in PREPARED]), subscriptions, how)
        except Exception:
            told.unpersist()
            raise
        return told, {name: int(count) for name, count in seen.get.items()}

    (told, counts), bad = without_bad_files(files, run)
    on_stage("writing rejects")
    unreadable = rejects_of_files(spark, bad).select(
        "file", "row", F.lit(None).cast("string").alias("line"),
        F.concat_ws(": ", "reason", "value").alias("error"), F.lit("unreadable").alias("code"),
    )  # fmt: skip
    refused = told.filter("error is not null").select(
        F.col(FILE).alias("file"), F.col(ROW).alias("row"), "line", "error", "code"
    )
    write_parquet(refused.unionByName(unreadable), rejects, "overwrite")
    told.unpersist()
    codes = spark.read.parquet(rejects).groupBy("code").count().orderBy(F.desc("count"), "code").collect()
    return PreparedSubscriptions(
        subscriptions, rejects, len(files) - len(bad), counts["read"], counts["read"] - counts["rejected"],
        counts["rejected"], {row["code"]: row["count"] for row in codes}, tuple(bad),
    )  # fmt: skip


def _given(batch: pa.RecordBatch, name: str) -> list[Any]:
    """Return a column as Python values; instants as microseconds."""
    column = batch.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _metadata(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ExpressionError(f"metadata is not JSON: {error}", seen=text) from None


def _shown(text: Any) -> str | None:
    if isinstance(text, bytes):
        return text[:LINE_SHOWN_MAX].decode(errors="replace").rstrip("\r\n")
    return None if text is None else str(text)[:LINE_SHOWN_MAX]
