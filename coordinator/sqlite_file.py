"""An SQLite file of the data directory: how it is opened, and what is said when it fails."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pubsub_cluster.language.errors import StoreError

BUSY_TIMEOUT_S = 5.0
WAL_SIZE_BYTES_KEPT = 64 << 20  # readers may hold it up, and let it grow


class SqliteFile:
    """A file that one thread writes, and others may read.

    Parameters
    ----------
    path : Path
    durability : str
        ``full`` (synchronous=FULL) or ``normal``.
    what : str
        Its name in errors.
    """

    def __init__(self, path: Path, durability: str, what: str) -> None:
        self.path = path
        self._durability = durability
        self._what = what
        self._inode = -1

    def opened(self) -> None:
        """Remember which file this is, once it is there."""
        self._inode = os.stat(self.path).st_ino

    def connect(self) -> sqlite3.Connection:
        """Return a connection of the calling thread."""
        connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._durability.upper()}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_SIZE_BYTES_KEPT}")
        return connection

    def check(self) -> None:
        """Refuse to write into a file that no restart would find again; raises `StoreError`."""
        try:
            found = os.stat(self.path).st_ino
        except OSError:
            found = -1
        if found != self._inode:
            raise StoreError(
                f"the {self._what} was removed or replaced while the cluster runs",
                seen=str(self.path),
                remedy="Nothing of this was acknowledged. Put the file back, or restart the cluster.",
            )

    @contextlib.contextmanager
    def explained(self, verb: str) -> Iterator[None]:
        """Turn SQLite's errors into `StoreError`."""
        try:
            yield
        except sqlite3.Error as error:
            remedy = "Nothing of this was acknowledged. Free disk space or restore the file; try again."
            if verb == "opened":
                remedy = "Free disk space, or restore the file; what is durable in it was not touched."
            raise StoreError(
                f"the {self._what} could not be {verb}",
                seen=f"{error} ({self.path})",
                remedy=remedy,
            ) from error
