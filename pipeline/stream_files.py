"""A stream of Parquet files, not of their rows: workers read them, and one that cannot be read is told.

Spark's own reader would end the stream at such a file. A row of this stream is a file; which files a
micro-batch has is in Spark's checkpoint, so a replay has the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pubsub_cluster.pipeline.parquet_files import FILE_ERRORS, SUFFIX, open_file

_FILE = "path string, modificationTime timestamp, length long, content binary"
_FOUND = pa.schema([("path", pa.string()), ("size", pa.int64()), ("events", pa.int64())])
_FOUND_TYPE = "path string, size long, events long"
_LOCAL = re.compile(r"file:/+")


def stream_files(session: SparkSession, folder: str, files_max: int | None = None) -> DataFrame:
    """Return the ``*.parquet`` that arrive in a folder and below it, as a stream; nothing of them is read.

    Parameters
    ----------
    session : SparkSession
    folder : str
    files_max : int, optional
        Of a micro-batch.
    """
    reader = session.readStream.format("binaryFile").schema(_FILE)
    reader = reader.option("pathGlobFilter", f"*{SUFFIX}").option("recursiveFileLookup", "true")
    reader = reader.option("ignoreMissingFiles", "true")
    if files_max is not None:
        reader = reader.option("maxFilesPerTrigger", files_max)
    return reader.load(folder).select("path", "length")


def arrived_files(files: DataFrame) -> tuple[dict[str, int], int]:
    """Return the files of a micro-batch, bytes by path, and how many events they say that they have."""
    found = files.mapInArrow(_count_events, _FOUND_TYPE).collect()
    return {row["path"]: row["size"] for row in found}, sum(row["events"] for row in found)


def _count_events(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        paths = [_LOCAL.sub("/", path, count=1) for path in batch.column("path").to_pylist()]
        counts = pa.array(map(_events_of, paths), pa.int64())
        yield pa.RecordBatch.from_arrays([pa.array(paths), batch.column("length"), counts], schema=_FOUND)


def _events_of(path: str) -> int:
    try:
        with open_file(path) as file:
            return int(file.metadata.num_rows)
    except FILE_ERRORS:
        return 0  # matching tells of it
