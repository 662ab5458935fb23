"""The outbox on the disk: receivers, and records that they have not all acknowledged; SQLite.

One thread writes and reads (`coordinator.commit_thread`): what has queued up meanwhile is one transaction. A
record is one row with all of its receivers, for the same reason as a group of changes is one
(`coordinator.store`). Its shares stand in a column before its body, so that a start reads no bodies.

When a record cannot be written, those behind it fail too until `resume`: their sequences build upon it. What
is settled is tried again by whoever asked; reading goes on.

Pages that become free are used again; those beyond `FREE_PAGES_KEPT` are given back to the disk, so many at a
time (`Shrink`) that a record behind them waits for some milliseconds. SQLite does that in files that were
made for it; one that was not becomes such a file when it is opened and nothing is kept in it.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from pubsub_cluster.coordinator.commit_thread import CommitThread
from pubsub_cluster.coordinator.delivery.outbox import Settled, StoredShare
from pubsub_cluster.coordinator.delivery.outbox_records import (
    OpenRecord,
    StoredRecord,
    decode_shares,
    open_record,
)
from pubsub_cluster.coordinator.delivery.receivers import StoredReceiver
from pubsub_cluster.coordinator.sqlite_file import SqliteFile
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.shm.fault_points import fault_point

OUTBOX_FILE = "outbox.sqlite"
OUTBOX_FORMAT = "1"
QUEUED_JOBS_MAX = 8_192
FREE_PAGES_KEPT, PAGES_PER_SHRINK = 4_096, 256
"""Pages have 4 KiB."""
_INCREMENTAL = 2
log = logging.getLogger("pubsub_cluster.coordinator")
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS receivers (
    receiver INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    acked INTEGER NOT NULL,
    head INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    UNIQUE (owner, name)
);
CREATE TABLE IF NOT EXISTS records (
    record INTEGER PRIMARY KEY,
    publisher TEXT NOT NULL,
    batch_id TEXT NOT NULL,
    crc INTEGER NOT NULL,
    shares BLOB NOT NULL,
    body BLOB NOT NULL
);
"""
_KEEP = "INSERT INTO records (record, publisher, batch_id, crc, shares, body) VALUES (?, ?, ?, ?, ?, ?)"
_MAKE = "INSERT INTO receivers VALUES (?, ?, ?, ?, ?, ?)"
_MOVE = "UPDATE receivers SET acked = ?, head = ?, dropped = ? WHERE receiver = ?"
_REMOVE, _FINISH = "DELETE FROM receivers WHERE receiver = ?", "DELETE FROM records WHERE record = ?"
_LIST = "SELECT record, publisher, batch_id, length(body), shares FROM records ORDER BY record"
_READ = "SELECT publisher, batch_id, shares, body, crc FROM records WHERE record = ?"
_LAST = "SELECT seq FROM sqlite_sequence WHERE name = 'receivers'"


class Make(NamedTuple):
    """Store a new receiver."""

    receiver: StoredReceiver


class Remove(NamedTuple):
    """Forget a receiver."""

    receiver: int


class Read(NamedTuple):
    """Read records."""

    numbers: Sequence[int]


class Shrink(NamedTuple):
    """Give some free pages back."""


Job: TypeAlias = StoredRecord | Make | Remove | Settled | Read | Shrink


class Done(NamedTuple):
    """What became of a job: `error` is None when it is durable, or read.

    Attributes
    ----------
    found : dict of int to OpenRecord or None, or None
        Records that were read; None for one that is damaged or missing.
    """

    job: Job
    error: StoreError | None
    found: dict[int, OpenRecord | None] | None = None


class OutboxStore:
    """The outbox of one data directory.

    Parameters
    ----------
    data_dir : Path
    durability : str
        As of the change table: ``full`` or ``normal``.

    Attributes
    ----------
    free_pages : int
        Beyond those that are kept, after the last write.

    Raises
    ------
    StoreError
        The file cannot be opened, is damaged, or is of another format.
    """

    def __init__(self, data_dir: Path, durability: str) -> None:
        self.path = data_dir / OUTBOX_FILE
        self._file = SqliteFile(self.path, durability, "outbox of durable receivers")
        self._connection: sqlite3.Connection | None = None  # the thread's
        self._failure: StoreError | None = None  # set by the thread, cleared by `resume`
        self.free_pages = 0
        with self._file.explained("opened"), contextlib.closing(self._connect()) as connection:
            connection.executescript(_TABLES)
            with connection:
                connection.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (OUTBOX_FORMAT,))
            (found,) = connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
            if found != OUTBOX_FORMAT:
                raise StoreError(
                    "the outbox of durable receivers is of another format",
                    seen=found,
                    limit=OUTBOX_FORMAT,
                    remedy="Start the version of pubsub-cluster that wrote this data directory.",
                )
            _let_it_shrink(connection)
        self._file.opened()
        self._thread: CommitThread[Job, Done] = CommitThread(
            "records for durable receivers", QUEUED_JOBS_MAX, self._do, self._disconnect
        )

    @property
    def wake_fd(self) -> int:
        """Readable when jobs have been reported; -1 once closed."""
        return self._thread.wake_fd

    def receivers(self) -> tuple[list[StoredReceiver], int]:
        """Return all receivers and the largest number that one has ever had."""
        with self._file.explained("read"), contextlib.closing(self._connect()) as connection:
            rows = connection.execute("SELECT * FROM receivers ORDER BY receiver")
            found = [StoredReceiver(*row) for row in rows]
            (last,) = connection.execute(_LAST).fetchone() or (0,)
            return found, int(last)

    def records(self) -> Iterator[tuple[int, str, str, int, list[StoredShare]]]:
        """Yield what `Outbox.restore` takes over, the oldest record first."""
        with self._file.explained("read"), contextlib.closing(self._connect()) as connection:
            for number, publisher, batch_id, size_bytes, shares in connection.execute(_LIST):
                yield number, publisher, batch_id, size_bytes, self._shares(number, shares)

    def _shares(self, number: int, shares: bytes) -> list[StoredShare]:
        try:
            return decode_shares(shares)
        except msgspec.MsgspecError as error:
            raise StoreError(
                "the outbox of durable receivers is damaged",
                seen=f"record {number}: {error} ({self.path})",
                remedy="Move the file away: receivers and what was kept for them are lost with it.",
            ) from None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queue a job, which `poll` reports later; raises `StoreError` when too many wait already."""
        self._thread.put(job)

    def poll(self) -> list[Done]:
        """Return the jobs whose fate is known since the last call, in order."""
        return self._thread.poll()

    def resume(self) -> None:
        """Try the disk again after a failure; call it when no record is outstanding."""
        self._failure = None

    def close(self) -> None:
        """Do what is queued and end the thread; `poll` still gives the last reports."""
        self._thread.close()

    def _connect(self) -> sqlite3.Connection:
        return self._file.connect()

    def _do(self, jobs: list[Job]) -> list[Done]:
        writes = [job for job in jobs if not isinstance(job, Read | Shrink)]
        records = [job for job in writes if isinstance(job, StoredRecord)] if self._failure is None else []
        others = [job for job in writes if not isinstance(job, StoredRecord)]
        error: StoreError | None = None
        if records or others:
            try:
                with self._file.explained("written"):
                    self._file.check()
                    _write(self._own_connection(), records, others)
            except StoreError as refused:
                error = refused
            except Exception as defect:  # the thread must live: its jobs fail, nothing waits for ever
                error = StoreError("the outbox of durable receivers could not be written", seen=repr(defect))
        if records and error is not None:
            self._failure = error
        if error is None:
            self._look_at_pages(any(isinstance(job, Shrink) for job in jobs))
        return self._reports(jobs, error)

    def _look_at_pages(self, is_shrinking: bool) -> None:
        """Give free pages back, if that is asked for, and see how many are left; nothing depends on it."""
        try:
            connection = self._own_connection()
            if is_shrinking:  # as a script: `execute` takes the first step only, which is one page
                connection.executescript(f"PRAGMA incremental_vacuum({PAGES_PER_SHRINK})")
            self.free_pages = _free_pages(connection)
        except sqlite3.Error as failure:
            log.warning("the outbox of durable receivers does not shrink: %s", failure)
            self.free_pages = 0

    @fault_point("outbox.report")
    def _reports(self, jobs: list[Job], error: StoreError | None) -> list[Done]:
        found: list[Done] = []
        for job in jobs:
            if isinstance(job, Read):
                found.append(self._read(job))
            elif isinstance(job, StoredRecord):
                found.append(Done(job, self._failure))
            else:
                found.append(Done(job, error))
        return found

    def _read(self, job: Read) -> Done:
        found: dict[int, OpenRecord | None] = {}
        try:
            with self._file.explained("read"):
                for number in job.numbers:
                    row = self._own_connection().execute(_READ, (number,)).fetchone()
                    found[number] = None if row is None else _opened(row)
        except StoreError as error:
            return Done(job, error)
        return Done(job, None, found)

    def _own_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _opened(row: tuple[str, str, bytes, bytes, int]) -> OpenRecord | None:
    try:
        return open_record(*row)
    except StoreError:
        return None


@fault_point("outbox.write")
def _write(
    connection: sqlite3.Connection, records: list[StoredRecord], others: list[Make | Remove | Settled]
) -> None:
    with connection:
        rows = [(r.number, r.publisher, r.batch_id, r.crc, r.shares, r.body) for r in records]
        connection.executemany(_KEEP, rows)
        for job in others:
            match job:
                case Make(receiver):
                    connection.execute(_MAKE, receiver)
                case Remove(number):
                    connection.execute(_REMOVE, (number,))
                case Settled(receivers, finished):
                    moved = [(r.acked, r.head, r.dropped, r.number) for r in receivers]
                    connection.executemany(_MOVE, moved)
                    connection.executemany(_FINISH, [(number,) for number in finished])


def _free_pages(connection: sqlite3.Connection) -> int:
    """Return how many pages could be given back."""
    if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
        return 0
    return max(_pragma(connection, "freelist_count") - FREE_PAGES_KEPT, 0)


def _let_it_shrink(connection: sqlite3.Connection) -> None:
    """Make the file one that can give pages back; where records are kept in it, that would take too long."""
    is_empty = connection.execute("SELECT 1 FROM records LIMIT 1").fetchone() is None
    if is_empty and _pragma(connection, "auto_vacuum") != _INCREMENTAL:
        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        connection.execute("VACUUM")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
