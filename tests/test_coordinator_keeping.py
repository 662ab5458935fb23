"""Snapshots, compaction, backups: whatever is killed or damaged, the same subscriptions come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kept_catalogue import (
    SCHEMA,
    change_at_random,
    contents,
    new_registry,
    replayed,
    snapshot_of,
    table,
    task_for,
)

from pubsub_cluster.coordinator import compaction
from pubsub_cluster.coordinator.backup import exchange, prepare_restore, write_backup
from pubsub_cluster.coordinator.compaction import compact, live_changes
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.snapshots import (
    RESTORE_FILE,
    SNAPSHOT_DIR,
    SnapshotFacts,
    newest_snapshot,
    oldest_version,
    remove_foreign,
    write_snapshot,
)
from pubsub_cluster.coordinator.store import STORE_FILE, ChangeStore
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.schema_rules import extended
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.shm.catalogue import CatalogueWriter
from pubsub_cluster.shm.catalogue_packed import pack_catalogue
from pubsub_cluster.shm.packed_file import PACKED_FORMAT, PackedWriter, opened
from pubsub_cluster.verification import _values

FIRST, LATER = 1_500, 500  # changes before the snapshot and after it


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, Registry]:
    """A table with a snapshot in the middle of its history, and what it should give."""
    registry, store = new_registry(), ChangeStore(tmp_path, "normal")
    store.start()
    change_at_random(registry, store, FIRST, 1)
    store.close()
    snapshot_of(registry, store, tmp_path)
    store = ChangeStore(tmp_path, "normal")
    store.start()
    change_at_random(registry, store, LATER, 2)
    store.close()
    return tmp_path, registry


def test_a_snapshot_and_the_changes_after_it_are_the_whole_table(history: tuple[Path, Registry]) -> None:
    data_dir, registry = history
    expected = contents(registry)
    for with_snapshot in (False, True):
        again = replayed(data_dir, with_snapshot)
        assert contents(again) == expected
        assert (again.version, again.next_handle) == (registry.version, registry.next_handle)
        assert again.live_count == len(expected)


def test_compaction_leaves_what_is_live_and_both_numbers(
    history: tuple[Path, Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir, registry = history
    monkeypatch.setattr(compaction, "DEAD_LEAST", LATER // 2)
    until = oldest_version(data_dir, ChangeStore(data_dir, "full").lineage)
    assert until == FIRST
    with table(data_dir) as connection:
        found = live_changes(connection, data_dir / STORE_FILE, until)
        dropped = compact(connection, data_dir / STORE_FILE, found)
        left = live_changes(connection, data_dir / STORE_FILE, registry.version)
    assert left.total == FIRST + LATER - dropped == len(found.live) + LATER
    for with_snapshot in (True, False):
        again = replayed(data_dir, with_snapshot)
        assert contents(again) == contents(registry)
        assert (again.version, again.next_handle) == (registry.version, registry.next_handle)
    for path in (data_dir / SNAPSHOT_DIR).iterdir():
        path.unlink()
    with table(data_dir) as connection:
        assert compact(connection, data_dir / STORE_FILE, left) == left.total - registry.live_count
    again = replayed(data_dir)
    assert contents(again) == contents(registry)
    assert (again.version, again.next_handle) == (registry.version, registry.next_handle)


KILLED = """
import sqlite3, sys
from pathlib import Path
from pubsub_cluster.coordinator import compaction
compaction.GROUP_CHANGES, compaction.DEAD_LEAST, compaction.DEAD_SHARE_LEAST = 100, 1, 0
path = Path(sys.argv[1])
connection = sqlite3.connect(path)
found = compaction.live_changes(connection, path, 1 << 40)
compaction.compact(connection, path, found)
"""


@pytest.mark.parametrize(
    "instant", ["before.compaction.replace", "after.compaction.replace", "after.compaction.write"]
)
def test_compaction_may_be_killed_at_any_instant(
    history: tuple[Path, Registry], tmp_path: Path, instant: str
) -> None:
    data_dir, registry = history
    totals = []
    for _ in range(3):  # each gets a little further than the one before
        killed_at(instant, tmp_path / "points", KILLED, str(data_dir / STORE_FILE))
        again = replayed(data_dir)
        assert contents(again) == contents(registry)
        assert (again.version, again.next_handle) == (registry.version, registry.next_handle)
        with table(data_dir) as connection:
            totals.append(live_changes(connection, data_dir / STORE_FILE, registry.version).total)
    if instant == "after.compaction.write":
        assert totals == sorted(totals, reverse=True) and totals[-1] < totals[0]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) // 2], "cut short"),
        (lambda data: data[:10], "no file of this kind|cut short"),
        (lambda data: data[:400] + bytes(64) + data[464:], "is damaged"),
        (lambda data: b"another " + data[8:], "no file of this kind"),
        (lambda data: data[:8] + bytes([PACKED_FORMAT + 1]) + data[9:], "another format"),
    ],
)
def test_a_damaged_snapshot_is_said_and_passed_over(
    history: tuple[Path, Registry], caplog: pytest.LogCaptureFixture, damage: Any, said: str
) -> None:
    data_dir, _ = history
    (path,) = (data_dir / SNAPSHOT_DIR).glob("*.packed")
    path.write_bytes(damage(path.read_bytes()))
    lineage = ChangeStore(data_dir, "full").lineage
    with newest_snapshot(data_dir, lineage, SCHEMA, 1 << 40) as found:
        assert found is None
    assert any(word in caplog.text for word in said.split("|"))


def test_a_snapshot_of_another_table_is_passed_over(history: tuple[Path, Registry]) -> None:
    data_dir, registry = history
    lineage = ChangeStore(data_dir, "full").lineage
    for arguments in (
        ("f" * 32, SCHEMA, 1 << 40),
        (lineage, '{"a":1}', 1 << 40),
        (lineage, SCHEMA, FIRST - 1),
    ):
        with newest_snapshot(data_dir, *arguments) as found:
            assert found is None, arguments
    with newest_snapshot(data_dir, lineage, SCHEMA, registry.version) as found:
        assert found is not None


def test_a_snapshot_of_before_the_schema_was_extended_is_taken(tmp_path: Path) -> None:
    before = Schema.from_json({"types": []})
    after = extended(before, "add_type", {"name": "t"})
    texts = [msgspec.json.encode(schema.to_json()).decode() for schema in (before, after)]
    registry = Registry(CatalogueWriter.in_memory(1 << 10), before, DEFAULT_LIMITS)
    for made_under, now, is_taken in (
        (texts[0], texts[1], True),
        (texts[1], texts[0], False),
        (texts[0], SCHEMA, False),
        (SCHEMA, texts[0], False),
    ):
        data_dir = tmp_path / str(len(list(tmp_path.iterdir())))
        data_dir.mkdir()
        facts = SnapshotFacts("e" * 32, 0, 1, made_under)
        packed = pack_catalogue(registry.catalogue.columns, registry.catalogue.counts(), 0)
        write_snapshot(data_dir, facts, packed, packed.columns["handle"].astype("i8"), {})
        with newest_snapshot(data_dir, "e" * 32, now, 0) as found:
            assert (found is not None) is is_taken


def test_a_packed_file_replaces_another_only_when_it_is_complete(tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "file"
    with PackedWriter(path, "test") as file:
        file.add("a", np.arange(10))
        file.finish({"n": 1})
    with pytest.raises(RuntimeError), PackedWriter(path, "test") as file:
        file.add("a", np.arange(20))
        raise RuntimeError
    with opened(path, "test") as found:
        assert found.facts == {"n": 1} and found.column("a").tolist() == list(range(10))
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    with pytest.raises(StoreError, match="another kind"), opened(path, "backup"):
        pass


def test_a_backup_restores_the_subscriptions_of_its_version(
    history: tuple[Path, Registry], tmp_path: Path
) -> None:
    data_dir, registry = history
    path = tmp_path / "backup"
    task = task_for(data_dir, registry, path)
    with table(data_dir) as connection:
        found = live_changes(connection, data_dir / STORE_FILE, registry.version)
        told = write_backup(connection, task, found)
    expected, version = contents(registry), registry.version
    assert told["subscriptions"] == len(expected)
    store = ChangeStore(data_dir, "full")
    store.start()
    change_at_random(registry, store, 500, 3)
    store.close()
    assert contents(registry) != expected

    prepared = prepare_restore(task_for(data_dir, registry, path))
    assert contents(replayed(data_dir)) == contents(registry), "nothing is changed before the exchange"
    exchange(data_dir, prepared["lineage"], registry.version, registry.next_handle)
    for with_snapshot in (False, True):
        again = replayed(data_dir, with_snapshot)
        assert contents(again) == expected
        assert again.version == registry.version + 1 > version
        assert again.next_handle == registry.next_handle


def test_a_backup_takes_the_place_of_another_and_of_nothing_else(
    history: tuple[Path, Registry], tmp_path: Path
) -> None:
    data_dir, registry = history
    pipe, good, empty = tmp_path / "pipe", tmp_path / "good", tmp_path / "empty"
    os.mkfifo(pipe)
    empty.touch()

    def back_up(path: Path) -> None:
        with table(data_dir) as connection:
            found = live_changes(connection, data_dir / STORE_FILE, registry.version)
            write_backup(connection, task_for(data_dir, registry, path), found)

    stored = (data_dir / STORE_FILE).read_bytes()
    for path in (pipe, data_dir / STORE_FILE):
        with pytest.raises(StoreError, match="nothing else"):
            back_up(path)
    assert pipe.is_fifo() and (data_dir / STORE_FILE).read_bytes() == stored
    for path in (good, good, empty):
        back_up(path)
        prepare_restore(task_for(data_dir, registry, path))
    with pytest.raises(StoreError, match="no regular file"):
        prepare_restore(task_for(data_dir, registry, pipe))  # which nobody writes to, ever


def test_a_backup_that_cannot_be_restored_changes_nothing(
    history: tuple[Path, Registry], tmp_path: Path
) -> None:
    data_dir, registry = history
    path = tmp_path / "backup"
    task = task_for(data_dir, registry, path)
    with table(data_dir) as connection:
        write_backup(connection, task, live_changes(connection, data_dir / STORE_FILE, registry.version))
    before = sorted(entry.name for entry in data_dir.rglob("*"))
    whole = path.read_bytes()
    for data, said in (
        (whole[:-100], "cut short"),
        (whole[:200] + b"?" + whole[201:], "damaged"),
        (b"{}", "no file of this kind"),
    ):
        path.write_bytes(data)
        with pytest.raises(StoreError, match=said):
            prepare_restore(task_for(data_dir, registry, path))
    path.write_bytes(whole)
    with pytest.raises(StoreError, match="another schema"):
        other = '{"attributes": [{"name": "x", "domain": "float"}]}'
        prepare_restore(task_for(data_dir, registry, path, given_schema=other))
    with pytest.raises(StoreError, match="no such file"):
        prepare_restore(task_for(data_dir, registry, tmp_path / "nowhere"))
    assert sorted(entry.name for entry in data_dir.rglob("*")) == before
    assert contents(replayed(data_dir)) == contents(registry)


SNAPSHOT_KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from kept_catalogue import replayed, snapshot_of
from pubsub_cluster.coordinator.store import ChangeStore
data_dir = Path(sys.argv[1])
snapshot_of(replayed(data_dir), ChangeStore(data_dir, "full"), data_dir)
"""
RESTORE_KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from kept_catalogue import replayed, task_for
from pubsub_cluster.coordinator.backup import exchange, prepare_restore
data_dir = Path(sys.argv[1])
registry = replayed(data_dir)
prepared = prepare_restore(task_for(data_dir, registry, Path(sys.argv[3])))
exchange(data_dir, prepared["lineage"], registry.version, registry.next_handle)
"""


def killed_at(instant: str, points: Path, script: str, *arguments: str) -> None:
    """Run a script in a process of its own, which dies at a named instant."""
    points.mkdir(exist_ok=True)
    (points / instant).touch()
    environment = {**os.environ, "PUBSUB_CLUSTER_FAULT_POINTS": str(points)}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=environment, timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL, instant


def restarted(data_dir: Path) -> Registry:
    """What a start makes of a directory: leftovers go, then the newest snapshot that there is, or none."""
    store = ChangeStore(data_dir, "full")
    remove_foreign(data_dir, store.lineage)
    store.close()
    return replayed(data_dir, with_snapshot=oldest_version(data_dir, store.lineage) is not None)


@pytest.mark.parametrize("instant", ["before.packed.finish", "before.packed.rename", "after.packed.rename"])
def test_a_snapshot_may_be_killed_at_any_instant(
    history: tuple[Path, Registry], tmp_path: Path, instant: str
) -> None:
    data_dir, registry = history
    killed_at(instant, tmp_path / "points", SNAPSHOT_KILLED, str(data_dir), str(Path(__file__).parent))
    again = restarted(data_dir)
    assert contents(again) == contents(registry)
    assert not list((data_dir / SNAPSHOT_DIR).glob("*.part"))


@pytest.mark.parametrize("instant", ["before.restore.write", "after.restore.write", "after.restore.exchange"])
def test_a_restore_may_be_killed_at_any_instant(
    history: tuple[Path, Registry], tmp_path: Path, instant: str
) -> None:
    data_dir, registry = history
    path = tmp_path / "backup"
    with table(data_dir) as connection:
        found = live_changes(connection, data_dir / STORE_FILE, registry.version)
        write_backup(connection, task_for(data_dir, registry, path), found)
    backed_up = contents(registry)
    store = ChangeStore(data_dir, "full")
    store.start()
    change_at_random(registry, store, 500, 3)
    store.close()
    here = str(Path(__file__).parent)
    killed_at(instant, tmp_path / "points", RESTORE_KILLED, str(data_dir), here, str(path))
    again = restarted(data_dir)
    assert contents(again) == (backed_up if instant == "after.restore.exchange" else contents(registry))
    assert again.next_handle == registry.next_handle
    assert not (data_dir / RESTORE_FILE).exists()


def test_verification_makes_events_that_fulfil_comparisons() -> None:
    expression = parse_text(
        "a > 5 AND b < 2.5 AND c >= 3 AND NOT d <= 4 AND e = 'x' AND f BETWEEN 1 AND 2 OR g IN ()"
    )
    assert dict(_values(expression)) == {"a": 6, "b": 1.5, "c": 3, "d": 4, "e": "x", "f": 1}
