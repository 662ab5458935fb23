"""Publishing rows from Spark's tasks, so that a task that is repeated does not match its events again.

A batch's id is made of the job, the partition, the row it begins with and its content. A task that is tried
again publishes the same ids, and the cluster answers from what it remembers: the last 4,096 answers of its
coordinator's life (`docs/protocol.md`, sending again). So events are matched at least once, and once where

- the repeated task gets the same rows in the same order. Where it does not (a shuffle may change it), its
  batches have other content and other ids: no event is lost for that, and some are matched again;
- the coordinator was not restarted meanwhile, and has not answered 4,096 other batches since.

Owners can recognise a repeat by an id that events carry themselves. For a stream the job is the query and the
micro-batch, both of which are the same again after a restart from the checkpoint.

Events that break the cluster's schema are refused one by one, and the others matched. A table's job fails at
its end when there was any, with everything else published; with ``refused=ignore`` it does not. A stream
cannot get past a failed micro-batch, so it says so in the driver's log only.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pubsub_cluster.client import Client
from pubsub_cluster.language.errors import EventError, LimitError, PubSubError
from pubsub_cluster.pipeline.events import json_payload

log = logging.getLogger("pubsub_cluster.pipeline")

REFUSED = ("raise", "ignore")
ROWS_PER_BATCH = 1_000
"""A multiple of them costs the cluster as much per event."""

IN_FLIGHT = 8
REFUSED_NAMED_MAX = 10


class WriteOptions(NamedTuple):
    """How rows are published.

    Attributes
    ----------
    client : dict
        Arguments of `Client`.
    json : str or None
        The column with events as JSON; None: a column per attribute.
    event_id : str or None
        The column that names events.
    refused : str
        One of `REFUSED`.
    send_event_id : bool
        Whether that column is an attribute of the events too.
    """

    client: dict[str, Any]
    json: str | None = None
    event_id: str | None = None
    refused: str = REFUSED[0]
    send_event_id: bool = True


@dataclass
class Published(WriterCommitMessage):
    """What became of a task's rows.

    Attributes
    ----------
    events, matches, refused : int
    named : list of str
        The first refused events, with their errors.
    """

    events: int = 0
    matches: int = 0
    refused: int = 0
    named: list[str] = field(default_factory=list)

    def refuse(self, name: str, error: PubSubError) -> None:
        """Count a refused event."""
        self.refused += 1
        if len(self.named) < REFUSED_NAMED_MAX:
            self.named.append(f"{name}: {error}")


class Publisher(Protocol):
    """What `publish_rows` needs of a `Client`."""

    def publish_soon(self, batch: Any, *, answer: Any, batch_id: str) -> Any:
        """Publish a batch, as `Client.publish_soon`."""


class ClusterWriter(DataSourceArrowWriter):
    """Publishes a table; the same object, pickled, is at work in every task of the job."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish a task's rows."""
        return _published(self.options, self.job, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Fail when events were refused, unless they are ignored."""
        told = _told(messages)
        if told is not None and self.options.refused == "raise":
            raise told


class StreamClusterWriter(DataSourceStreamArrowWriter):
    """Publishes micro-batches."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish a task's rows."""
        query, batch = (_property(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
        job = f"{query}-{batch}" if query and batch else self.job
        return _published(self.options, job, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Say what was refused."""
        told = _told(messages)
        if told is not None and self.options.refused == "raise":
            log.warning("micro-batch %d: %s", batchId, told)


def publish_rows(
    client: Publisher, batches: Iterable[pa.RecordBatch], options: WriteOptions, prefix: str
) -> Published:
    """Publish record batches.

    Parameters
    ----------
    client : Publisher
    batches : iterable of pyarrow.RecordBatch
    options : WriteOptions
    prefix : str
        Of batch ids: names the job and the partition.

    Raises
    ------
    PubSubError
        A batch as a whole cannot be published for another reason than its size.
    """
    done = Published()
    waiting: deque[tuple[int, pa.RecordBatch, Any]] = deque()

    def finish() -> None:
        first, piece, pending = waiting.popleft()
        try:
            matches = pending.result()
        except LimitError as error:
            split(first, piece, error)
            return
        done.events += piece.num_rows
        done.matches += matches.match_count
        for at, why in sorted(matches.refused.items()):
            done.refuse(_name_of(piece, at, first, options.event_id), why)

    def send(first: int, piece: pa.RecordBatch) -> None:
        content = hashlib.blake2b(piece.serialize(), digest_size=12).hexdigest()
        try:
            batch_id = f"{prefix}-{first}-{content}"
            pending = client.publish_soon(_batch_of(piece, options), answer="none", batch_id=batch_id)
        except LimitError as error:
            split(first, piece, error)
        else:
            waiting.append((first, piece, pending))

    def split(first: int, piece: pa.RecordBatch, error: LimitError) -> None:
        half = piece.num_rows // 2
        if half:
            send(first, piece.slice(0, half))
            send(first + half, piece.slice(half))
        else:
            done.events += 1
            done.refuse(_name_of(piece, 0, first, options.event_id), error)

    row = 0
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_PER_BATCH):
            piece = batch.slice(start, ROWS_PER_BATCH)
            send(row, piece)
            row += piece.num_rows
            while len(waiting) >= IN_FLIGHT:
                finish()
    while waiting:
        finish()
    return done


def _published(options: WriteOptions, job: str, batches: Iterable[pa.RecordBatch]) -> Published:
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    with Client(**options.client, publisher=f"spark-{job}") as client:
        return publish_rows(client, batches, options, str(partition))


def _batch_of(piece: pa.RecordBatch, options: WriteOptions) -> Any:
    if options.json is not None:
        return json_payload(piece.column(options.json).cast(pa.string()))
    if options.event_id is not None and not options.send_event_id:
        return piece.drop_columns([options.event_id])
    return piece


def _name_of(piece: pa.RecordBatch, at: int, first: int, event_id: str | None) -> str:
    return f"row {first + at}" if event_id is None else str(piece.column(event_id)[at].as_py())


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def _told(messages: Iterable[WriterCommitMessage | None]) -> EventError | None:
    """Return the error that tells of all refused events; None when there are none."""
    published = [message for message in messages if isinstance(message, Published)]
    refused = sum(message.refused for message in published)
    if not refused:
        return None
    count = sum(message.events for message in published)
    return EventError(
        f"{refused:,} of {count:,} events were refused; the others were published",
        seen=[named for message in published for named in message.named][:REFUSED_NAMED_MAX],
        remedy='Correct them and publish these alone, or ignore them: .option("refused", "ignore").',
    )
