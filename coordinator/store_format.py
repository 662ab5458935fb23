"""The change table's tables, and how an older format becomes the present one."""

from __future__ import annotations

import sqlite3
import uuid

from pubsub_cluster.language.errors import StoreError

STORE_FORMAT = "3"
FORMAT_WITHOUT_CRC, FORMAT_WITHOUT_ORIGIN = "1", "2"
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    first_version INTEGER PRIMARY KEY,
    last_version INTEGER NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER,
    request TEXT,
    first_item INTEGER,
    refused BLOB
);
"""
INSERT_GROUP = "INSERT INTO changes (first_version, last_version, body, crc) VALUES (?, ?, ?, ?)"
_ADD = "ALTER TABLE changes ADD COLUMN "
_LATER_COLUMNS = {
    FORMAT_WITHOUT_CRC: ("crc INTEGER", "request TEXT", "first_item INTEGER", "refused BLOB"),
    FORMAT_WITHOUT_ORIGIN: ("request TEXT", "first_item INTEGER", "refused BLOB"),
}


def meta(connection: sqlite3.Connection, key: str) -> str | None:
    """Return one of the facts beside the changes."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else None


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables, or those of an older format present ones.

    Raises
    ------
    StoreError
        They are of another format.
    """
    connection.executescript(_TABLES)
    with connection:
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (STORE_FORMAT,))
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('lineage', ?)", (uuid.uuid4().hex,))
        later_columns = _LATER_COLUMNS.get(meta(connection, "format") or "", ())
        for column in later_columns:
            connection.execute(_ADD + column)
        if later_columns:
            connection.execute("UPDATE meta SET value = ? WHERE key = 'format'", (STORE_FORMAT,))
    found = meta(connection, "format")
    if found != STORE_FORMAT:
        raise StoreError(
            "the change table is of another format",
            seen=found,
            limit=STORE_FORMAT,
            remedy="Start the version of pubsub-cluster that wrote this data directory.",
        )
