"""Statistics of events on Spark: every task counts what it reads, and the parts are merged.

What is counted is defined in `tuner.frequencies`. Parquet files are read by the tasks themselves; a
DataFrame's attributes travel as arrays. A part is some megabytes, mostly the sampled events; where there are
many, they are merged by tasks before the driver gets the few that are left.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pubsub_cluster.language.batch import check_payload, decode_payload
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.pipeline.columns import ID_COLUMN, Packed, pack_columns, unpack_columns
from pubsub_cluster.pipeline.events import column_payload
from pubsub_cluster.pipeline.parquet_files import find_files
from pubsub_cluster.pipeline.plan import FileSlice, deal_files
from pubsub_cluster.pipeline.rejects import Rejects
from pubsub_cluster.pipeline.slices import read_slice
from pubsub_cluster.tuner.frequencies import NO_FREQUENCIES, EventCounter, Frequencies, merge
from pubsub_cluster.tuner.frequencies_file import StoredFrequencies, from_bytes, to_bytes, write_frequencies
from pubsub_cluster.tuner.messages import STATISTICS_FILE
from pubsub_cluster.tuner.value_counts import most_frequent

EVENTS_PER_BATCH = 1 << 16
"""Of so many, columns stay in a processor's cache while they are counted."""

PARTS_MERGED = 16
"""Parts that one task, or the driver, merges at a time."""

TOP_VALUES = 5
SOURCES_TOLD_MAX = 100
_LIMITS = Limits(events_per_batch_max=EVENTS_PER_BATCH, batch_size_bytes_max=1 << 40)
_PART = T.StructType(
    [T.StructField("frequencies", T.BinaryType()), T.StructField("rejects", T.ArrayType(T.StringType()))]
)
_ARROW_PART = pa.schema([("frequencies", pa.binary()), ("rejects", pa.list_(pa.string()))])


class Statistics(NamedTuple):
    """What a job has found.

    Attributes
    ----------
    frequencies : Frequencies
    rejects : list of dict
        What could not be counted, by file and reason: ``file, rows, first, reason, seen``.
    """

    frequencies: Frequencies
    rejects: list[dict[str, Any]]


def count_files(
    session: SparkSession,
    paths: Sequence[str],
    schema: Schema = EMPTY_SCHEMA,
    *,
    event_id: str = ID_COLUMN,
    tasks: int | None = None,
) -> Statistics:
    """Count the events in Parquet files; the driver gets the result, which is small.

    Parameters
    ----------
    session : SparkSession
    paths : sequence of str
        Files and folders, under these paths on every host; also URLs that pyarrow knows.
    schema : Schema
        The cluster's.
    event_id : str
        A column that names events, where there is one; it is no attribute.
    tasks : int, optional
        About so many; by size by default.

    Raises
    ------
    CallerError
        There are no files, or none can be read.
    """
    files = find_files(paths)
    found = files.schema()
    expected = {name: found.field(name).type for name in found.names if name != event_id}
    cores = int(session.conf.get("spark.sql.shuffle.partitions", "2") or 2)
    dealt = deal_files(files.sizes, cores, tasks)
    work = partial(count_slices, tasks=dealt, expected=expected, schema=schema)
    numbers = session.range(0, len(dealt), 1, len(dealt))
    return _merged(numbers.mapInArrow(work, _PART), len(dealt))


def count_events(
    events: DataFrame, schema: Schema = EMPTY_SCHEMA, *, event_id: str = ID_COLUMN
) -> Statistics:
    """Count the events of a DataFrame, a column per attribute; as `count_files`."""
    named = events if event_id in events.columns else events.withColumn(event_id, F.lit(0))
    packed, where = pack_columns(named, events.columns, event_id)
    work = partial(count_batches, where=where, schema=schema)
    return _merged(packed.mapInArrow(work, _PART), None)


def count_slices(
    numbers: Iterator[pa.RecordBatch],
    tasks: Sequence[Sequence[FileSlice]],
    expected: Mapping[str, pa.DataType],
    schema: Schema,
) -> Iterator[pa.RecordBatch]:
    """Count slices of files; the work of a task of `count_files`."""
    part = _Part(schema)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for one in tasks[number]:
                for first_row, table in read_slice(one, expected, part.rejects):
                    for piece in table.combine_chunks().to_batches(max_chunksize=EVENTS_PER_BATCH):
                        columns = dict(zip(piece.schema.names, piece.columns, strict=True))
                        part.add(columns, piece.num_rows, one.path, first_row, one.path)
                        first_row += piece.num_rows
    yield part.row()


def count_batches(
    batches: Iterator[pa.RecordBatch], where: Packed, schema: Schema
) -> Iterator[pa.RecordBatch]:
    """Count batches of packed columns (`pipeline.columns`); the work of a task of `count_events`."""
    context = TaskContext.get()
    source = f"partition {context.partitionId() if context else 0}"
    part, first_row = _Part(schema), 0
    for batch in _gathered(batches):
        part.add(unpack_columns(batch, where), batch.num_rows, source, first_row)
        first_row += batch.num_rows
    yield part.row()


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the same rows in batches of a good size: Spark's are of 10,000 rows, or whatever was asked for."""
    held: list[pa.RecordBatch] = []
    for batch in itertools.chain(batches, [None]):
        if held and (batch is None or sum(one.num_rows for one in held) >= EVENTS_PER_BATCH):
            whole = pa.Table.from_batches(held).combine_chunks()
            yield from whole.to_batches(max_chunksize=EVENTS_PER_BATCH)
            held = []
        if batch is not None:
            held.append(batch)


class _Part:
    """What one task has counted so far."""

    def __init__(self, schema: Schema) -> None:
        self.rejects = Rejects()
        self._counter = EventCounter()
        self._schema = schema

    def add(
        self,
        columns: Mapping[str, Any],
        count: int,
        source: str,
        first_row: int,
        file: str | None = None,
    ) -> None:
        try:
            payload = column_payload(columns, count)
            check_payload(payload.header, payload.buffers, _LIMITS)
            raw = decode_payload(payload.header, payload.buffers, self._schema, _LIMITS)
        except PubSubError as error:
            self.rejects.add(file, error.condition, count, f"row {first_row}", error.seen)
            return
        rows = [f"row {first_row + at}" for at in range(count)] if raw.refused else []
        self.rejects.add_events(file, raw.refused, rows)
        self._counter.add(raw, source, first_row)

    def row(self) -> pa.RecordBatch:
        return _row(self._counter.frequencies(), self.rejects)


def merge_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the results of tasks into one row."""
    merged = _merged_rows(row for batch in batches for row in batch.to_pylist())
    yield _row(*merged)


def _row(frequencies: Frequencies, rejects: Rejects) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"frequencies": to_bytes(frequencies), "rejects": rejects.lines()}], _ARROW_PART
    )


def _merged(parts: DataFrame, part_count: int | None) -> Statistics:
    """Run a job, and merge the results of its tasks; a number that is not known may be large."""
    if part_count is None or part_count > PARTS_MERGED:
        parts = parts.repartition(PARTS_MERGED if part_count is None else -(-part_count // PARTS_MERGED))
        parts = parts.mapInArrow(merge_parts, _PART)
    frequencies, rejects = _merged_rows(row.asDict() for row in parts.collect())
    return Statistics(
        frequencies, sorted(rejects.told(), key=lambda told: (str(told["file"]), told["reason"]))
    )


def _merged_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[Frequencies, Rejects]:
    """Merge rows one by one: each is some megabytes."""
    frequencies, rejects = NO_FREQUENCIES, Rejects()
    for row in rows:
        frequencies = merge([frequencies, from_bytes(bytes(row["frequencies"]))])
        rejects.add_lines(row["rejects"])
    return frequencies, rejects


def write_statistics(folder: Path, found: Statistics, schema: Schema, sources: Sequence[str]) -> Path:
    """Write what ``tune import-statistics`` takes; return the file's path.

    Raises
    ------
    OSError
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STATISTICS_FILE
    about = {
        "sources": list(sources)[:SOURCES_TOLD_MAX],
        "source_count": len(sources),
        "made_us": time.time_ns() // 1_000,
    }
    write_frequencies(path, StoredFrequencies(found.frequencies, schema.to_json(), about))
    return path


def summarise(frequencies: Frequencies) -> list[dict[str, Any]]:
    """Return a line for each attribute, in the order of names.

    ``attribute, present`` (share of events), ``kinds`` (values by kind), ``distinct`` and ``exact`` (else it
    is an estimate), ``error`` (largest standard error of a share that is estimated), ``top``: pairs of a
    value, in its canonical form, and its share of all events.
    """
    lines = []
    for name, mine in sorted(frequencies.attributes.items()):
        values, counted = frequencies.values(name)
        totals = mine.totals
        kinds = {"boolean": totals.false + totals.true, "number": totals.numbers, "text": totals.texts}
        lines.append(
            {
                "attribute": name,
                "present": totals.present / max(frequencies.event_count, 1),
                "kinds": {kind: count for kind, count in kinds.items() if count},
                "distinct": mine.distinct_count(frequencies.limits),
                "exact": mine.is_exact,
                "error": frequencies.error(name),
                "top": [
                    [value, times / max(counted, 1)] for value, times in most_frequent(values, TOP_VALUES)
                ],
            }
        )
    return lines
