"""The durable change table: every acknowledged change of the catalogue, append-only, in SQLite.

One thread owns the connection (`commit_thread`). Changes are handed to it in groups. A group is one row of
the table, packed as MessagePack: the thread lets go of the interpreter once per statement and then waits for
it behind the coordinator's own work, so a row per change would cost a wait per change.

Nothing is acknowledged before the thread's report. Changes reach the table in version order; when a
commit fails, every group behind it fails too until the owner has rolled back and calls `resume`: what
those groups built on was never kept.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pubsub_cluster.coordinator.commit_thread import CommitThread
from pubsub_cluster.coordinator.marks import Marks
from pubsub_cluster.coordinator.sqlite_file import SqliteFile
from pubsub_cluster.coordinator.store_format import meta, prepare
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.shm.change_groups import (
    NO_CHANGES,
    SUBSCRIBE,
    UNSUBSCRIBE,
    UPDATE,
    Change,
    decode_changes,
    encode_changes,
)
from pubsub_cluster.shm.fault_points import fault_point

STORE_FILE = "catalogue.sqlite"
QUEUED_GROUPS_MAX = 1_024
log = logging.getLogger("pubsub_cluster.coordinator")
ADDED = {SUBSCRIBE: 1, UPDATE: 0, UNSUBSCRIBE: -1}  # subscriptions, by operation

_INSERT = "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)"
_LAST = "SELECT last_version FROM changes ORDER BY first_version DESC LIMIT 1"
_SELECT = "SELECT body, crc FROM changes WHERE last_version > ? ORDER BY first_version"
_SELECT_ONE = "SELECT body, crc FROM changes WHERE first_version <= ? ORDER BY first_version DESC LIMIT 1"


class Committed(NamedTuple):
    """The fate of one group: `error` is None when it is durable."""

    group_id: int
    error: StoreError | None


class Origin(NamedTuple):
    """Where a group of changes came from.

    Attributes
    ----------
    request : str or None
        The operation and the request's id; None where it is not kept.
    first_item : int
        The first item of the request that the group is about.
    refused : bytes or None
        As JSON, the errors of items that were refused by their index in the group's items; None without any.
    """

    request: str | None
    first_item: int
    refused: bytes | None


NO_ORIGIN = Origin(None, 0, None)


class _Group(NamedTuple):
    group_id: int
    first_version: int
    last_version: int
    body: bytes
    origin: Origin


class TableEnd(NamedTuple):
    """The last version of a table, and the largest handle among what compaction has taken out of it."""

    version: int
    handle: int


class ChangeStore:
    """The change table of one data directory.

    Parameters
    ----------
    data_dir : Path
    durability : str
        ``full`` (synchronous=FULL) or ``normal``.

    Raises
    ------
    StoreError
        When the file cannot be opened, is damaged, is of another format, or has lost acknowledged changes.

    Attributes
    ----------
    lineage : str
        Names this history of changes; a restored table has another one.
    end : TableEnd
        When it was opened.
    marks : Marks
    """

    def __init__(self, data_dir: Path, durability: str) -> None:
        self.path = data_dir / STORE_FILE
        self._durability = durability
        self._file = SqliteFile(self.path, durability, "change table")
        self._thread = CommitThread("changes", QUEUED_GROUPS_MAX, self._commit_all, self._disconnect)
        self._connection: sqlite3.Connection | None = None  # the thread's
        self._next_group_id = 1
        self._failure: StoreError | None = None  # set by the thread, cleared by `resume`
        with self._file.explained("opened"), contextlib.closing(self._connect()) as connection:
            prepare(connection)
            self.lineage = str(meta(connection, "lineage"))
            self.end = self._end(connection)
        self._file.opened()
        self.marks = Marks(data_dir)
        self._check_end()

    @property
    def wake_fd(self) -> int:
        """Readable when groups have been reported; -1 once closed."""
        return self._thread.wake_fd

    def replay(self, after: int = 0) -> Iterator[Change]:
        """Yield every durable change behind version `after`, in version order."""
        with self.reading() as connection:
            for body, crc in connection.execute(_SELECT, (after,)):
                changes = decode_changes(body, crc, self.path)
                yield from [change for change in changes if change.version > after]

    def expressions(self, versions: Iterable[int]) -> dict[int, bytes]:
        """Return the expressions of durable changes by their versions, each as it was given.

        A version without one is left out. Versions that are close together cost little more than one.

        Raises
        ------
        StoreError
            When the file cannot be read.
        """
        found: dict[int, bytes] = {}
        group: dict[int, bytes | None] = {}
        with self.reading() as connection:
            for version in sorted(versions):
                if version not in group:
                    body, crc = connection.execute(_SELECT_ONE, (version,)).fetchone() or (NO_CHANGES, None)
                    changes = decode_changes(body, crc, self.path)
                    group = {change.version: change.expression for change in changes}
                if (expression := group.get(version)) is not None:
                    found[version] = expression
        return found

    def stored_schema(self) -> str | None:
        """Return the schema, as JSON, under which the changes were made; None for a new directory."""
        with self.reading() as connection:
            return meta(connection, "schema")

    @fault_point("schema.write")
    def keep_schema(self, schema_json: str) -> None:
        """Remember the schema beside the changes."""
        with self._file.explained("written"), contextlib.closing(self._connect()) as connection, connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('schema', ?)", (schema_json,))

    def is_empty(self) -> bool:
        """Tell whether no change was ever made."""
        with self.reading() as connection:
            return self._end(connection).version == 0

    def start(self) -> None:
        """Start the committing thread."""
        self._thread.start()

    def commit(self, changes: list[Change], origin: Origin = NO_ORIGIN) -> int:
        """Queue a group of changes (at least one); return its number, which `poll` reports later.

        Raises
        ------
        StoreError
            When too many groups wait already.
        """
        group_id = self._next_group_id
        self._thread.put(
            _Group(group_id, changes[0].version, changes[-1].version, encode_changes(changes), origin)
        )
        self._next_group_id += 1
        return group_id

    def poll(self) -> list[Committed]:
        """Return the groups whose fate is known since the last call."""
        return self._thread.poll()

    def resume(self) -> None:
        """Try the disk again after a failure; call it when no group is outstanding."""
        self._failure = None

    def close(self) -> None:
        """Commit what is queued and end the thread; `poll` still gives the last reports."""
        self._thread.close()

    def _commit_all(self, groups: list[_Group]) -> list[Committed]:
        if self._failure is None and groups:
            try:
                with self._file.explained("written"):
                    self._file.check()
                    self._connection = self._connection or self._connect()
                    _write(self._connection, groups)
                self.marks.committed(groups[-1].last_version)
            except StoreError as error:
                self._failure = error
            except Exception as error:  # the thread must live: its groups fail, nothing waits for ever
                self._failure = StoreError("the change table could not be written", seen=repr(error))
        return self._reports(groups)

    @fault_point("store.report")
    def _reports(self, groups: list[_Group]) -> list[Committed]:
        return [Committed(group.group_id, self._failure) for group in groups]

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _connect(self) -> sqlite3.Connection:
        return self._file.connect()

    def _end(self, connection: sqlite3.Connection) -> TableEnd:
        (last,) = connection.execute(_LAST).fetchone() or (0,)
        version, handle = (int(meta(connection, key) or 0) for key in ("version", "handle"))
        return TableEnd(max(version, last), handle)

    def _check_end(self) -> None:
        """Raise `StoreError` when the table ends before what was acknowledged."""
        if self.end.version >= self.marks.version:
            return
        lost = StoreError(
            "the change table ends before the last change that was acknowledged",
            seen=f"version {self.end.version} ({self.path})",
            limit=f"version {self.marks.version}",
            remedy=f"Put back what was taken from {self.path}-wal, or restore a backup. To go on without the "
            f"changes that are missing, remove {self.marks.path}.",
        )
        if self._durability == "full":
            raise lost
        log.error("%s", lost)  # a loss of power may cost as much

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection to read from; raises `StoreError` when the file cannot be read, or is another."""
        self._file.check()  # SQLite would make one where there is none
        with self._file.explained("read"), contextlib.closing(self._connect()) as connection:
            yield connection


@fault_point("store.write")
def _write(connection: sqlite3.Connection, groups: list[_Group]) -> None:
    with connection:
        _insert(connection, groups)


@fault_point("store.insert")
def _insert(connection: sqlite3.Connection, groups: list[_Group]) -> None:
    rows = [(*group[1:4], zlib.crc32(group.body), *group.origin) for group in groups]
    connection.executemany(_INSERT, rows)
