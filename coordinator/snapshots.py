"""Packed snapshots of the catalogue: what a start reads instead of every change that was ever made.

A snapshot says of which table it is (its lineage), up to which version, and under which schema. The change
table still has every live subscription, so a snapshot that cannot be used costs time, never data: a clear
warning, and the next older one or the table takes its place.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pubsub_cluster.language.errors import PubSubError, StoreError
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.schema_rules import is_extension
from pubsub_cluster.shm.catalogue import CatalogueCounts
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue
from pubsub_cluster.shm.catalogue_store import I8, CatalogueColumns
from pubsub_cluster.shm.column_plan import layout_version
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.packed_file import PART_SUFFIX, PackedFile, PackedWriter, opened

RESTORE_FILE = "restore.packed"
SNAPSHOT_DIR = "snapshots"
SNAPSHOT_KIND = "snapshot"
SNAPSHOTS_KEPT = 2
SUFFIX = ".packed"
log = logging.getLogger("pubsub_cluster.coordinator")


class SnapshotFacts(NamedTuple):
    """What a snapshot says of itself.

    Attributes
    ----------
    lineage : str
        Of the change table that it belongs to.
    version : int
        The last change that is in it.
    next_handle : int
    schema : str
        JSON.
    """

    lineage: str
    version: int
    next_handle: int
    schema: str


class Snapshot(NamedTuple):
    """A snapshot that has been read and checked.

    Attributes
    ----------
    facts : SnapshotFacts
    catalogue : PackedCatalogue
    row_version : int64[rows]
        The change that made each row.
    metadata : dict of str to bytes
        By id, of subscriptions that have any.
    """

    facts: SnapshotFacts
    catalogue: PackedCatalogue
    row_version: I8
    metadata: dict[str, bytes]


def snapshot_path(data_dir: Path, version: int, lineage: str) -> Path:
    """Return where the snapshot of a version stands."""
    return data_dir / SNAPSHOT_DIR / f"{version:020d}-{lineage[:8]}{SUFFIX}"


@fault_point("snapshot.write")
def write_snapshot(
    data_dir: Path,
    facts: SnapshotFacts,
    catalogue: PackedCatalogue,
    row_version: I8,
    metadata: Mapping[str, bytes],
) -> int:
    """Write a snapshot, take away those that are older than the one before; return its size in bytes.

    Raises
    ------
    OSError
        The disk is full, say; the other snapshots are as they were.
    """
    folder = data_dir / SNAPSHOT_DIR
    folder.mkdir(mode=0o700, exist_ok=True)
    path = snapshot_path(data_dir, facts.version, facts.lineage)
    with PackedWriter(path, SNAPSHOT_KIND) as file:
        for name, column in catalogue.columns.items():
            file.add(name, column)
        file.add("row_version", row_version)
        file.add("metadata", np.frombuffer(msgspec.msgpack.encode(dict(metadata)), np.uint8))
        size_bytes = file.finish(
            {
                **facts._asdict(),
                "counts": list(catalogue.counts),
                "layout": layout_version("catalogue"),
            }
        )
    _take_away_old(data_dir, facts.lineage)
    return size_bytes


@fault_point("snapshot.prune")
def _take_away_old(data_dir: Path, lineage: str) -> None:
    mine = [path for path in _paths(data_dir) if path.name.endswith(f"-{lineage[:8]}{SUFFIX}")]
    for path in mine[SNAPSHOTS_KEPT:]:
        path.unlink(missing_ok=True)


def _paths(data_dir: Path) -> list[Path]:
    """Return the snapshots, the newest first."""
    return sorted((data_dir / SNAPSHOT_DIR).glob(f"*{SUFFIX}"), reverse=True)


def oldest_version(data_dir: Path, lineage: str) -> int | None:
    """Return the version of the oldest snapshot of a table: what came after it has to stay in the table."""
    mine = [path for path in _paths(data_dir) if path.name.endswith(f"-{lineage[:8]}{SUFFIX}")]
    return int(mine[-1].name.partition("-")[0]) if mine else None


@fault_point("snapshot.foreign")
def remove_foreign(data_dir: Path, lineage: str) -> None:
    """Take away what was half written or restored, and snapshots of another lineage: their table is gone."""
    for path in data_dir.glob(f"{RESTORE_FILE}*"):
        path.unlink(missing_ok=True)
    for path in (data_dir / SNAPSHOT_DIR).glob("*"):
        if path.name.endswith(PART_SUFFIX) or not path.name.endswith(f"-{lineage[:8]}{SUFFIX}"):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def newest_snapshot(data_dir: Path, lineage: str, schema: str, end: int) -> Iterator[Snapshot | None]:
    """Give the newest snapshot that can be used, None when there is none; valid within the context.

    Parameters
    ----------
    lineage, schema : str
        Of the change table.
    end : int
        Its last version.
    """
    for path in _paths(data_dir):
        try:
            with opened(path, SNAPSHOT_KIND) as file:
                found = _read(file)
                _check(file, found, lineage, schema, end)
        except PubSubError as error:
            log.warning("the start goes on without a snapshot: %s", error)
            continue
        yield found
        return
    yield None


@fault_point("snapshot.read")
def _read(file: PackedFile) -> Snapshot:
    facts = file.facts
    if facts["layout"] != layout_version("catalogue"):
        raise StoreError(
            "the snapshot is of another version of pubsub-cluster",
            seen=facts["layout"],
            limit=layout_version("catalogue"),
            path=str(file.path),
        )
    names = [name for name in CatalogueColumns._fields if name != "removed_version"]
    catalogue = PackedCatalogue(
        CatalogueCounts(*facts["counts"]), {name: file.column(name) for name in names}
    )
    metadata = msgspec.msgpack.decode(file.column("metadata").tobytes(), type=dict[str, bytes])
    return Snapshot(
        SnapshotFacts(facts["lineage"], facts["version"], facts["next_handle"], facts["schema"]),
        catalogue,
        file.column("row_version"),
        metadata,
    )


def _check(file: PackedFile, found: Snapshot, lineage: str, schema: str, end: int) -> None:
    made_under, now = msgspec.json.decode(found.facts.schema), msgspec.json.decode(schema)
    for what, seen, expected, fits in (
        ("the change table", found.facts.lineage, lineage, found.facts.lineage == lineage),
        ("the schema", made_under, now, made_under == now or _extends(now, made_under)),
    ):
        if not fits:
            raise StoreError(f"the snapshot does not belong to {what}", seen=seen, limit=expected)
    if found.facts.version > end:
        raise StoreError(
            "the snapshot is ahead of the change table",
            seen=found.facts.version,
            limit=end,
            path=str(file.path),
        )


def _extends(schema: Any, made_under: Any) -> bool:
    """Whether rows mean under a schema what they meant under the one that they were made under."""
    if schema is None or made_under is None:
        return False
    return is_extension(Schema.from_json(schema), Schema.from_json(made_under))
