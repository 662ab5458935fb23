"""What a stream knows of its micro-batches beyond Spark's checkpoint: which generation, and what time.

    CHECKPOINT/pubsub_cluster/batch-000000000007.json

Spark's checkpoint says which events a micro-batch has; a replay of it after a kill has the same. For the same
matches it needs the same catalogue and the same time of acceptance as well: they are written down, durably,
before anything is matched. When the result is written the record says what came of it, for whoever watches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import orjson

from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.shm.layout_folder import LayoutGeneration, open_folder, write_json

RECORDS_DIR = "pubsub_cluster"
REJECTS_RECORDED_MAX = 20
RECORDS_KEPT = 1_000
"""Only the newest is ever needed again: it is the one that can be replayed."""


class BatchRecord(NamedTuple):
    """A micro-batch.

    Attributes
    ----------
    batch_id : int
        Spark's.
    layout : str
        The layout folder.
    generation : int
        Of that folder.
    at_us : int
        Time of acceptance of its events, microseconds since the epoch.
    events, matches, rejected_rows : int
        0 while it is not finished.
    seconds : float
        That it took.
    finished : bool
        Its result is written. Spark's own commit follows: it may yet be replayed, with the same result.
    rejects : tuple of dict
        What could not be matched, by file and reason (`pipeline.results`); the first of it.
    """

    batch_id: int
    layout: str
    generation: int
    at_us: int
    events: int = 0
    matches: int = 0
    rejected_rows: int = 0
    seconds: float = 0.0
    finished: bool = False
    rejects: tuple[dict[str, Any], ...] = ()


def begin_batch(
    checkpoint: Path, batch_id: int, layout: Path, at_us: int
) -> tuple[BatchRecord, LayoutGeneration]:
    """Return what a micro-batch is to be matched with: as recorded, or else what is in force, now recorded.

    Parameters
    ----------
    checkpoint : Path
    batch_id : int
    layout : Path
        The layout folder.
    at_us : int
        Time of acceptance of a batch that is new.

    Raises
    ------
    StoreError
        There is no layout, or no longer the one that the batch was begun with; or the record is damaged.
    """
    record = read_batch(checkpoint, batch_id)
    if record is None:
        generation = open_folder(layout)
        record = BatchRecord(batch_id, str(layout), generation.generation, at_us)
        write_batch(checkpoint, record)
        batch_path(checkpoint, batch_id - RECORDS_KEPT).unlink(missing_ok=True)
        return record, generation
    if record.layout != str(layout):
        raise StoreError(
            f"micro-batch {batch_id} was begun with another layout folder",
            seen=str(layout),
            limit=record.layout,
            remedy="Give that folder for as long as this checkpoint is used; another one needs a new "
            "checkpoint and a new output.",
        )
    try:
        return record, open_folder(layout, record.generation)
    except StoreError as error:
        raise StoreError(
            f"micro-batch {batch_id} was begun with generation {record.generation} of the layout, which "
            "cannot be used any more; with another one its result could differ from what was seen of it",
            seen=error.seen,
            remedy="Bring that generation's folder back. Or accept a result of the generation in force for "
            f"this micro-batch: remove {batch_path(checkpoint, batch_id)}, and start the stream again.",
        ) from None


class FinishedBatches:
    """Tells of micro-batches as their results are written.

    Parameters
    ----------
    checkpoint : Path
        What has finished before this is made is not told of, unless it is replayed.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        names = [path.stem for path in (checkpoint / RECORDS_DIR).glob("batch-*.json")]
        self._next = max((int(name.rpartition("-")[2]) for name in names), default=0)
        self._known = read_batch(checkpoint, self._next)

    def take(self) -> list[BatchRecord]:
        """Return what has finished since the last time."""
        found: list[BatchRecord] = []
        while (record := read_batch(self._checkpoint, self._next)) is not None:
            if record != self._known:
                if not record.finished:
                    break
                found.append(record)
            elif read_batch(self._checkpoint, self._next + 1) is None:
                break  # not replayed, or not yet
            self._next, self._known = self._next + 1, None
        return found


def write_batch(checkpoint: Path, record: BatchRecord) -> None:
    """Write a record; durable when this returns."""
    path = batch_path(checkpoint, record.batch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record._asdict())


def read_batch(checkpoint: Path, batch_id: int) -> BatchRecord | None:
    """Return the record of a micro-batch; None when it was never begun.

    Raises
    ------
    StoreError
        It is damaged.
    """
    path = batch_path(checkpoint, batch_id)
    try:
        record = BatchRecord(**orjson.loads(path.read_bytes()))
        return record._replace(rejects=tuple(record.rejects))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(
            f"the record of micro-batch {batch_id} cannot be read",
            seen=f"{path}: {error}",
            remedy="Remove it: the micro-batch is then matched with the generation in force.",
        ) from None


def batch_path(checkpoint: Path, batch_id: int) -> Path:
    """Return where the record of a micro-batch is."""
    return checkpoint / RECORDS_DIR / f"batch-{batch_id:012d}.json"
