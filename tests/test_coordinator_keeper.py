"""What the keeper does beside a coordinator that goes on, and what it refuses to begin."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from kept_catalogue import change_at_random, contents, new_registry, replayed, table, task_for

from pubsub_cluster import verification
from pubsub_cluster.coordinator import keeper
from pubsub_cluster.coordinator.backup import prepare_restore, write_backup
from pubsub_cluster.coordinator.compaction import LiveChanges, live_changes
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.snapshots import RESTORE_FILE
from pubsub_cluster.coordinator.store import STORE_FILE, ChangeStore
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueWriter
from pubsub_cluster.shm.owner import current_owner

CHANGES = 1_500


@pytest.mark.parametrize("kind", ["snapshot", "verify"])
def test_the_keeper_goes_on_with_a_catalogue_that_is_left(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the table takes long, and the live rows may have moved when it is over."""
    writer = CatalogueWriter.create(current_owner("4d2a5c11"), Limits(subscriptions_max=1 << 14))
    registry, store = Registry(writer, EMPTY_SCHEMA, DEFAULT_LIMITS), ChangeStore(tmp_path, "normal")
    store.start()
    change_at_random(registry, store, CHANGES, 1)
    store.close()
    task = task_for(
        tmp_path, registry, tmp_path, kind=kind, catalogue=writer.name, counts=tuple(writer.counts())
    )
    expected = contents(registry)

    def moved(connection: sqlite3.Connection, path: Path, until: int) -> LiveChanges:
        writer.unlink()
        return live_changes(connection, path, until)

    monkeypatch.setattr(keeper if kind == "snapshot" else verification, "live_changes", moved)
    done = keeper.do(task) if kind == "snapshot" else verification.verify(task)
    writer.close()
    if kind == "snapshot":
        assert done["subscriptions"] == len(expected)
        assert contents(replayed(tmp_path, with_snapshot=True)) == expected
    else:
        assert done["in_catalogue"] == len(expected) and not done["differences"]


def test_a_backup_that_does_not_fit_into_shared_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the present catalogue takes is free by then."""
    registry, store = new_registry(), ChangeStore(tmp_path, "normal")
    store.start()
    change_at_random(registry, store, CHANGES, 1)
    store.close()
    path, present = tmp_path / "backup", tmp_path / "catalogue"
    with table(tmp_path) as connection:
        found = live_changes(connection, tmp_path / STORE_FILE, registry.version)
        write_backup(connection, task_for(tmp_path, registry, path), found)
    monkeypatch.setattr("pubsub_cluster.coordinator.backup.SHM_DIRECTORY", str(tmp_path))
    free_bytes: list[int | None] = [4_096]
    monkeypatch.setattr("pubsub_cluster.coordinator.backup.free_shared_bytes", lambda: free_bytes[0])
    with pytest.raises(StoreError, match="no room in /dev/shm"):
        prepare_restore(task_for(tmp_path, registry, path, catalogue=present.name))
    assert not (tmp_path / RESTORE_FILE).exists()
    free_bytes[0] = None
    assert prepare_restore(task_for(tmp_path, registry, path, catalogue=present.name)), "it has no bounds"
    free_bytes[0] = 4_096
    present.write_bytes(bytes(1 << 20))
    assert prepare_restore(task_for(tmp_path, registry, path, catalogue=present.name))["subscriptions"]
