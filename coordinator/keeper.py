"""The keeper: a process of its own for each long piece of work on what is durable, at low priority.

Started by module name, through `shm.behind`. Its task comes as JSON on standard
input; one line of JSON goes to standard output: what was done, or the error. It reads the change table and
the catalogue's segment beside the coordinator, which goes on meanwhile, and writes snapshots, compacted
groups and backups. Killed at any instant it leaves nothing that anybody takes for complete.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import logging
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson

from pubsub_cluster.coordinator import backup
from pubsub_cluster.coordinator.compaction import LiveChanges, compact, groups, live_changes
from pubsub_cluster.coordinator.snapshots import SnapshotFacts, oldest_version, write_snapshot
from pubsub_cluster.coordinator.sqlite_file import BUSY_TIMEOUT_S
from pubsub_cluster.coordinator.statistics_file import copy_statistics
from pubsub_cluster.coordinator.store import STORE_FILE
from pubsub_cluster.language.errors import PubSubError, StoreError
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.catalogue_packed import pack_catalogue
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.lifeline import leave, tie_to_parent
from pubsub_cluster.shm.packed_file import PART_SUFFIX


class KeeperTask(msgspec.Struct, frozen=True):
    """What the keeper is to do, and the moment at which it is asked.

    Attributes
    ----------
    kind : str
        ``snapshot``, ``check``, ``backup``, ``restore``, ``statistics``; ``verify`` is for
        `pubsub_cluster.verification`.
    data_dir, path : str
        `path`: of the file of a backup, or of statistics.
    lineage, schema : str
        Of the change table.
    version : int
        The last change in force.
    next_handle : int
    catalogue, counts
        The catalogue's segment, and what it holds.
    layout : str or None
        Segment of the generation in force; `base_counts` says what it covers, `generation` its number.
    sample : int
        Subscriptions that `verify` compares one by one.
    given_schema : str or None
        The schema that the cluster was started with; None: whatever is stored.
    """

    kind: str
    data_dir: str
    lineage: str
    schema: str
    version: int
    next_handle: int
    catalogue: str
    counts: tuple[int, ...]
    limits: dict[str, int]
    path: str = ""
    layout: str | None = None
    base_counts: tuple[int, ...] = ()
    generation: int = 0
    sample: int = 0
    given_schema: str | None = None
    clock_us: int = 0

    @property
    def store_path(self) -> Path:
        """The change table."""
        return Path(self.data_dir) / STORE_FILE


@contextlib.contextmanager
def table(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the change table beside its owner; a failure is a `StoreError`."""
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)
        with contextlib.closing(connection):
            yield connection
    except sqlite3.Error as error:
        raise StoreError(
            "the change table cannot be read",
            seen=f"{error} ({path})",
            remedy="Restore a backup if it is damaged; `pubsub-cluster verify` says more.",
        ) from error


@fault_point("keeper.task")
def do(task: KeeperTask) -> dict[str, Any]:
    """Carry a task out; return what is to be told of it."""
    match task.kind:
        case "snapshot":
            return _snapshot(task)
        case "check":
            return _check(task)
        case "backup":
            with table(task.store_path) as connection:
                found = live_changes(connection, task.store_path, task.version)
                return backup.write_backup(connection, task, found)
        case "restore":
            return backup.prepare_restore(task)
        case "statistics":
            return copy_statistics(Path(task.path), Path(task.data_dir), task.schema)
    raise StoreError("the keeper does not know this task", seen=task.kind)


def _snapshot(task: KeeperTask) -> dict[str, Any]:
    """Compact the table, then pack the catalogue; the two must hold the same subscriptions.

    What came after the oldest snapshot stays in the table: a removal says nothing to whoever reads the
    table alone once its subscription is gone from there, but the snapshot may still have that.
    """
    path = task.store_path
    reader = CatalogueReader.attach(task.catalogue)  # first: rows may move while the table is read
    with table(path) as connection:
        found = live_changes(connection, path, task.version)
        until = oldest_version(Path(task.data_dir), task.lineage)
        dead = found if until is None else live_changes(connection, path, until)
        dropped = compact(connection, path, dead)
    packed = pack_catalogue(reader.columns, CatalogueCounts(*task.counts), task.version)
    _check_same(found, packed.columns["handle"], task.store_path)
    facts = SnapshotFacts(task.lineage, task.version, max(task.next_handle, found.next_handle), task.schema)
    size_bytes = write_snapshot(
        Path(task.data_dir), facts, packed, found.version_of(packed.columns["handle"]), found.metadata
    )
    return {
        "version": task.version,
        "subscriptions": packed.counts.rows,
        "size_bytes": size_bytes,
        "changes_dropped": dropped,
    }


def _check_same(found: LiveChanges, handles: Any, path: Path) -> None:
    mine = set(found.handles.tolist())
    theirs = set(handles.tolist())
    if mine != theirs:
        raise StoreError(
            "the change table and the catalogue do not hold the same subscriptions",
            seen={"only in the table": len(mine - theirs), "only in the catalogue": len(theirs - mine)},
            remedy="No snapshot is written. Run `pubsub-cluster verify`, and take a backup.",
            path=str(path),
        )


def _check(task: KeeperTask) -> dict[str, Any]:
    """Read everything that is stored."""
    with table(task.store_path) as connection:
        said = [row[0] for row in connection.execute("PRAGMA quick_check(8)")]
        if said != ["ok"]:
            raise StoreError(
                "the change table is damaged",
                seen="; ".join(said)[:500],
                remedy="The cluster goes on from what it holds in memory. Restore a backup.",
                path=str(task.store_path),
            )
        count = sum(len(changes) for _, changes in groups(connection, task.store_path, task.version))
    return {"changes": count}


def main(do: Callable[[KeeperTask], dict[str, Any]] = do, argv: list[str] | None = None) -> int:
    """Carry out the task on standard input."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.coordinator.keeper")
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args(argv)
    tie_to_parent(options.parent)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s keeper %(message)s")
    try:
        answer = do(msgspec.json.decode(sys.stdin.buffer.read(), type=KeeperTask))
        body = {"ok": True, "done": answer}
    except PubSubError as error:
        body = {"ok": False, "error": error.to_dict()}
    except OSError as error:
        is_place = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EROFS)
        wrapped = StoreError(
            "a file cannot be written",
            seen=f"{error.strerror} ({str(error.filename).removesuffix(PART_SUFFIX)})",
            remedy="Give a path that the cluster may write to, in a folder that is there."
            if is_place
            else "Free some disk space, or give another path.",
        )
        body = {"ok": False, "error": wrapped.to_dict()}
    _say(orjson.dumps(body) + b"\n")
    return 0


@fault_point("keeper.send")
def _say(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    leave(main())
