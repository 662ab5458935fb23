"""Backups: every live subscription as it was made, in one file; and a change table from such a file.

A backup has the last change of each live subscription, so it does not depend on how the catalogue lies in
memory or which numbers it has. To restore one, the keeper checks all of it first (every byte, the schema,
that each expression is still understood and fits), and writes the snapshot from which the cluster will start;
then the coordinator exchanges the table's contents in one transaction (`exchange`) and starts anew from it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from pubsub_cluster.coordinator.compaction import LiveChanges, kept_groups
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.snapshots import RESTORE_FILE, SnapshotFacts, write_snapshot
from pubsub_cluster.coordinator.store import STORE_FILE
from pubsub_cluster.coordinator.store_format import INSERT_GROUP
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.schema_rules import is_extension
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_packed import pack_catalogue
from pubsub_cluster.shm.change_groups import Change, read_groups, write_groups
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.owner import SHM_DIRECTORY, free_shared_bytes
from pubsub_cluster.shm.packed_file import MAGIC, PackedFile, PackedWriter, opened

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.keeper import KeeperTask

BACKUP_KIND = "backup"


@fault_point("backup.write")
def write_backup(connection: sqlite3.Connection, task: KeeperTask, found: LiveChanges) -> dict[str, Any]:
    """Write the live changes up to ``task.version`` to ``task.path``; return what is in it.

    Raises
    ------
    StoreError
        The table is damaged, or a backup may not be there.
    OSError
        The file cannot be written; what had its name before is as it was.
    """
    path = Path(task.path)
    _check_place(path)
    facts = {
        "version": task.version,
        "next_handle": max(task.next_handle, found.next_handle),
        "schema": task.schema,
        "subscriptions": len(found.live),
        "clock_us": task.clock_us,
    }
    connection.execute("BEGIN")  # one state of the table, whatever others do to it meanwhile
    with PackedWriter(path, BACKUP_KIND) as file:
        write_groups(file, kept_groups(connection, task.store_path, found))
        size_bytes = file.finish(facts)
    return {**{name: facts[name] for name in ("version", "subscriptions")}, "size_bytes": size_bytes}


def _check_place(path: Path) -> None:
    """Refuse to take the place of anything but a file of this kind, or of an empty one."""
    if not path.exists():
        return
    head = b"none"
    if path.is_file():  # a device or a pipe is not even read
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    if head not in (b"", MAGIC):
        raise StoreError(
            "a backup takes the place of an earlier one, and of nothing else",
            seen=str(path),
            limit="a new name, or that of a backup",
            remedy="Nothing was changed. Give another path, or remove what is there.",
        )


@fault_point("restore.prepare")
def prepare_restore(task: KeeperTask) -> dict[str, Any]:
    """Check the backup at ``task.path`` in every respect; lay out what `exchange` needs.

    Raises
    ------
    StoreError, StartError
        It cannot be restored here; nothing was changed.
    """
    data_dir = Path(task.data_dir)
    with opened(Path(task.path), BACKUP_KIND) as file:
        file.check()
        schema_text = file.facts["schema"]
        if task.given_schema is not None and not is_extension(
            Schema.from_json(orjson.loads(schema_text)), Schema.from_json(orjson.loads(task.given_schema))
        ):
            raise StoreError(
                "the backup's subscriptions were made under another schema than the cluster was started with",
                seen=task.path,
                remedy="Start the cluster without a schema, or with that of the backup; nothing was changed.",
            )
        catalogue, registry = _taken_over(file, schema_text, Limits(**task.limits))
        lineage = uuid.uuid4().hex
        reader = CatalogueReader.of(catalogue)
        packed = pack_catalogue(reader.columns, catalogue.counts(), registry.version)
        _check_room(sum(column.nbytes for column in packed.columns.values()), task)
        metadata = {
            change.subscription_id: change.metadata
            for _, changes in read_groups(file)
            for change in changes
            if change.metadata is not None
        }
        rows = np.argsort(reader.columns.handle[: packed.counts.rows], kind="stable")
        row_version = np.array([registry.row_versions.version_of(row) for row in rows.tolist()], np.int64)
        next_handle = max(registry.next_handle, file.facts["next_handle"])
        _copy(file, data_dir / RESTORE_FILE, lineage)
    facts = SnapshotFacts(lineage, registry.version, next_handle, schema_text)
    write_snapshot(data_dir, facts, packed, row_version, metadata)
    return {"subscriptions": packed.counts.rows, "version": file.facts["version"], "lineage": lineage}


def _taken_over(file: PackedFile, schema_text: str, limits: Limits) -> tuple[CatalogueWriter, Registry]:
    schema = Schema.from_json(orjson.loads(schema_text))
    catalogue = CatalogueWriter.in_memory(limits.subscriptions_max)
    registry = Registry(catalogue, schema, limits)
    registry.replay(lambda: (change for _, changes in read_groups(file) for change in changes))
    if registry.live_count != file.facts["subscriptions"]:
        raise StoreError(
            "the backup does not hold what it says",
            seen=registry.live_count,
            limit=file.facts["subscriptions"],
            remedy="It is damaged; nothing was changed. Use another one.",
        )
    return catalogue, registry


def _check_room(needed_bytes: int, task: KeeperTask) -> None:
    """Refuse what shared memory has no room for, even when the present catalogue and layout are gone."""
    free_bytes = free_shared_bytes()
    if free_bytes is None:  # it has no bounds
        return
    for name in (task.catalogue, task.layout):
        with contextlib.suppress(FileNotFoundError):  # exchanged just now: what has its place is like it
            free_bytes += (Path(SHM_DIRECTORY) / name).stat().st_blocks * 512 if name else 0
    if needed_bytes > free_bytes:
        raise StoreError(
            "there is no room in /dev/shm for the subscriptions of the backup",
            seen=f"{needed_bytes} bytes needed",
            limit=f"{free_bytes} bytes free without the present subscriptions",
            remedy="Nothing was changed. Make /dev/shm larger (`mount -o remount,size=...`); try again.",
        )


@fault_point("restore.copy")
def _copy(file: PackedFile, path: Path, lineage: str) -> None:
    with PackedWriter(path, BACKUP_KIND) as copy:
        for name in file.names():
            copy.add(name, file.column(name))
        copy.finish({**file.facts, "lineage": lineage})


@fault_point("restore.exchange")
def exchange(data_dir: Path, lineage: str, version: int, next_handle: int) -> None:
    """Exchange the change table's contents for those of the prepared backup, in one transaction.

    Parameters
    ----------
    data_dir : Path
        Nobody else may write to its table.
    lineage : str
        Of the prepared backup.
    version, next_handle : int
        Those of the catalogue until now: neither is ever given twice.

    Raises
    ------
    StoreError
        It cannot be done; the table is as it was.
    """
    path = data_dir / RESTORE_FILE
    with opened(path, BACKUP_KIND) as file:
        if file.facts["lineage"] != lineage:
            raise StoreError("another backup was prepared meanwhile", remedy="Restore again.")
        meta = {
            "lineage": lineage,
            "schema": file.facts["schema"],
            "version": str(max(version, file.facts["version"]) + 1),
            "handle": str(max(next_handle, file.facts["next_handle"]) - 1),
        }
        replace_changes(data_dir, read_groups(file), meta)
    path.unlink(missing_ok=True)


def replace_changes(
    data_dir: Path, groups: Iterable[tuple[bytes, list[Change]]], meta: dict[str, str]
) -> None:
    """Replace the changes of a table, and some of the facts beside them, in one transaction.

    Raises
    ------
    StoreError
        It cannot be done; the table is as it was.
    """
    try:
        with contextlib.closing(sqlite3.connect(data_dir / STORE_FILE)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            with connection:
                _replace(connection, groups, meta)
    except sqlite3.Error as error:
        raise StoreError(
            "the changes could not be put into force",
            seen=str(error),
            remedy="Nothing was changed. Free some disk space; try again.",
        ) from error


@fault_point("restore.write")
def _replace(
    connection: sqlite3.Connection, groups: Iterable[tuple[bytes, list[Change]]], meta: dict[str, str]
) -> None:
    connection.execute("DELETE FROM changes")
    for body, changes in groups:
        connection.execute(INSERT_GROUP, (changes[0].version, changes[-1].version, body, zlib.crc32(body)))
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(meta.items()))
