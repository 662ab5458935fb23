"""The two databases behind the matchers in SQL: SQLite, which keeps rows, and DuckDB, which keeps columns.

DuckDB takes the place of the paper's Kdb, "a main memory database [that] stores columns of database tables in
a C array". Both live in this process's memory, and use one thread.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.language.errors import CallerError


class Database(Protocol):
    """What the matchers in SQL need of a database."""

    parameter: str
    """What comes before a parameter's number."""
    key: str
    """The type of a column of keys."""

    def execute(self, statement: str, parameters: Sequence[float] = ()) -> None:
        """Carry out a statement."""

    def index(self, table: str, column: str) -> None:
        """Make the rows of a table that have a value quick to find, if scanning them is not."""

    def load(self, table: str, columns: Mapping[str, Any]) -> None:
        """Append rows to a table, given in columns."""

    def numbers(self, query: str, parameters: Sequence[float] = ()) -> I8:
        """Return the only column, of integers, that a query gives."""

    @property
    def bytes(self) -> int:
        """Bytes of all tables and indexes."""


class Sqlite:
    """See the module."""

    parameter = "?"
    key = "INTEGER PRIMARY KEY"

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    def execute(self, statement: str, parameters: Sequence[float] = ()) -> None:
        """See `Database`."""
        self._connection.execute(statement, parameters)

    def index(self, table: str, column: str) -> None:
        """See `Database`."""
        self.execute(f"CREATE INDEX {table}_{column} ON {table} ({column})")

    def load(self, table: str, columns: Mapping[str, Any]) -> None:
        """See `Database`."""
        places = ", ".join("?" * len(columns))
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        self.execute("BEGIN")
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)
        self.execute("COMMIT")

    def numbers(self, query: str, parameters: Sequence[float] = ()) -> I8:
        """See `Database`."""
        rows = self._connection.execute(query, parameters)
        return np.fromiter((row[0] for row in rows), np.int64)

    @property
    def bytes(self) -> int:
        """See `Database`."""
        pages, free, size = (
            int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size


class DuckDb:
    """See the module.

    Raises
    ------
    CallerError
        DuckDB is not installed.
    """

    parameter = "$"
    key = "INTEGER NOT NULL"

    def __init__(self) -> None:
        try:
            duckdb = importlib.import_module("duckdb")
        except ModuleNotFoundError as missing:
            raise CallerError(
                "DuckDB is not installed",
                seen=str(missing),
                remedy="pip install 'pubsub-cluster[sql]', or choose a matcher on SQLite.",
            ) from missing
        self._connection: Any = duckdb.connect(":memory:", config={"threads": 1})
        self._connection.execute("SET enable_progress_bar = false")  # it would be drawn on a terminal

    def execute(self, statement: str, parameters: Sequence[float] = ()) -> None:
        """See `Database`."""
        self._connection.execute(statement, list(parameters))

    def index(self, table: str, column: str) -> None:
        """See `Database`; columns are scanned."""

    def load(self, table: str, columns: Mapping[str, Any]) -> None:
        """See `Database`."""
        self._connection.register("loaded", dict(columns))
        names = ", ".join(columns)
        self.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM loaded")
        self._connection.unregister("loaded")

    def numbers(self, query: str, parameters: Sequence[float] = ()) -> I8:
        """See `Database`."""
        columns = self._connection.execute(query, list(parameters)).fetchnumpy()
        return np.asarray(next(iter(columns.values())), np.int64)

    @property
    def bytes(self) -> int:
        """See `Database`."""
        return int(self.numbers("SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory()")[0])
