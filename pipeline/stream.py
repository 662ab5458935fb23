"""Matching a stream of events on Spark: a result per micro-batch, each exactly once.

A micro-batch is matched on one generation of the layout folder, the one in force when it began, and its
result goes to ``OUTPUT/batch_id=N``, in the place of what may be there. So a micro-batch that is replayed
after a kill gives the same files (`pipeline.stream_records` has what it takes), and the table has every match
once, whenever the stream was killed. ``spark.read.parquet(OUTPUT)`` reads it: the columns of `match_events`,
and ``batch_id`` and ``outcome`` (``match`` or ``reject``) from the folders. While a stream runs, a reader may
see a part of the newest micro-batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.pipeline.columns import ID_COLUMN
from pubsub_cluster.pipeline.match import match_events, match_found
from pubsub_cluster.pipeline.match_worker import JSON_COLUMN
from pubsub_cluster.pipeline.parquet_files import find_files
from pubsub_cluster.pipeline.places import absolute
from pubsub_cluster.pipeline.results import write_result
from pubsub_cluster.pipeline.stream_files import arrived_files, stream_files
from pubsub_cluster.pipeline.stream_records import REJECTS_RECORDED_MAX, begin_batch, write_batch
from pubsub_cluster.shm.layout_folder import open_folder

QueryFailed = StreamingQueryException
"""What `StreamingQuery.awaitTermination` raises when the stream has ended with an error."""

EVERY_DEFAULT = "1 second"
log = logging.getLogger("pubsub_cluster.pipeline")


def match_stream(
    events: DataFrame,
    layout: str | Path,
    output: str | Path,
    checkpoint: str | Path,
    *,
    every: str = EVERY_DEFAULT,
    once: bool = False,
    files: pa.Schema | None = None,
    **options: Any,
) -> StreamingQuery:
    """Start to match a stream of events.

    Parameters
    ----------
    events : DataFrame
        Streaming; columns as for `match_events`. Its source must give a micro-batch's events again after a
        restart, as files and Kafka do.
    layout : path
        A folder of ``pipeline build``, under this path on every host. Each micro-batch takes the generation
        that is in force when it begins.
    output : path
        Folder for the table.
    checkpoint : path
        Folder of Spark's checkpoint, in the driver's file system. It belongs to this output and this layout.
    every : str
        Time from one micro-batch to the next, as Spark reads it.
    once : bool
        End when what is there now is matched.
    files : pyarrow.Schema, optional
        The rows of `events` are Parquet files, of which this is the schema (`arriving_files`).
    **options : object
        Of `match_events`; with `at_us` all events are accepted at that time, else those of a micro-batch when
        it begins.

    Returns
    -------
    StreamingQuery
        Running. It ends with an error when the layout cannot be used; started again it goes on from there.

    Raises
    ------
    CallerError
        `events` is no stream, or as `match_events` says of its columns.
    StoreError
        The layout cannot be used.
    """
    if not events.isStreaming:
        raise CallerError(
            "the events are no stream",
            remedy="Read them with spark.readStream, or use `match` for a table.",
        )
    layout, checkpoint = Path(layout).absolute(), Path(checkpoint).absolute()
    generation = open_folder(layout)
    if files is None:  # for the errors: now, not in the first micro-batch
        match_events(events, generation, **options)
    else:
        match_found(events.sparkSession, {}, files, generation, **options)
    work = batch_matcher(layout, absolute(output), checkpoint, files, options)
    writer = events.writeStream.foreachBatch(work)
    writer = writer.option("checkpointLocation", str(checkpoint))
    trigger = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)
    return trigger.start()


def arriving_files(
    session: SparkSession,
    folder: str | Path,
    *,
    kind: str = "parquet",
    event_id: str = ID_COLUMN,
    files_max: int | None = None,
) -> tuple[DataFrame, dict[str, Any]]:
    """Return the events in files that arrive in a folder, as a stream for `match_stream`.

    Parameters
    ----------
    session : SparkSession
    folder : path
        Files have to appear in it complete: written elsewhere on the same file system and renamed, say.
        Every host reaches it by this path.
    kind : {"parquet", "json"}
        Parquet with a column per attribute, those of the first file that is there; or a JSON object per line.
        A file of Parquet that cannot be read, or has other columns, is told among the rejects, once.
    event_id : str
        The column or member that names events.
    files_max : int, optional
        Of a micro-batch; all that are there by default.

    Returns
    -------
    events : DataFrame
    options : dict
        What `match_stream` needs to know of it.

    Raises
    ------
    CallerError
        No file is there that tells the columns of Parquet.
    """
    folder = absolute(folder)
    if kind == "parquet":
        schema = find_files([folder]).schema()
        return stream_files(session, folder, files_max), {"event_id": event_id, "files": schema}
    reader = session.readStream.option("ignoreMissingFiles", "true")
    if files_max is not None:
        reader = reader.option("maxFilesPerTrigger", files_max)
    lines = reader.text(folder)
    named = F.get_json_object("value", f"$['{event_id}']").alias(event_id)
    text = F.col("value").alias(JSON_COLUMN)
    return lines.select(named, text), {"event_id": event_id, "json": JSON_COLUMN}


def batch_matcher(
    layout: Path, output: str, checkpoint: Path, files: pa.Schema | None, options: dict[str, Any]
) -> Callable[[DataFrame, int], None]:
    """Return what is done with each micro-batch; parameters as for `match_stream`."""

    def match_batch(events: DataFrame, batch_id: int) -> None:
        begin_s = time.perf_counter()
        at_us = options.get("at_us")
        now_us = time.time_ns() // 1_000
        record, generation = begin_batch(checkpoint, batch_id, layout, now_us if at_us is None else at_us)
        given = {**options, "at_us": record.at_us}
        place = f"{output}/batch_id={batch_id}"
        if files is None:
            seen = Observation()
            counted = events.observe(seen, F.count(F.lit(1)).alias("events"))
            summary = write_result(match_events(counted, generation, **given), place)
            event_count = seen.get["events"]
        else:
            sizes, event_count = arrived_files(events)
            summary = write_result(match_found(events.sparkSession, sizes, files, generation, **given), place)
        rejects = tuple(summary["rejects"][:REJECTS_RECORDED_MAX])
        for told in rejects:
            log.warning("micro-batch %d, rejected: %s", batch_id, told)
        record = record._replace(
            events=event_count,
            matches=summary["matches"],
            rejected_rows=summary["rejected_rows"],
            rejects=rejects,
            seconds=round(time.perf_counter() - begin_s, 3),
            finished=True,
        )
        write_batch(checkpoint, record)

    return match_batch
