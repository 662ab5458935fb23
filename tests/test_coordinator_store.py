"""The durable change table: group commit, replay, failure without a gap."""

from __future__ import annotations

import contextlib
import select
import sqlite3
from pathlib import Path

import msgspec
import pytest

from pubsub_cluster.coordinator.marks import MARKS_FILE
from pubsub_cluster.coordinator.store import STORE_FILE, ChangeStore, Committed
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.shm.change_groups import SUBSCRIBE, Change


def change(version: int) -> Change:
    return Change(version, SUBSCRIBE, version, f"s{version}", "me", b'{"and":[]}', None, 5)


def wait_for(store: ChangeStore, count: int) -> list[Committed]:
    found: list[Committed] = []
    while len(found) < count:
        readable, _, _ = select.select([store.wake_fd], [], [], 10.0)
        assert readable, "no report in time"
        found += store.poll()
    return found


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_what_is_committed_is_replayed_in_order(tmp_path: Path, durability: str) -> None:
    store = ChangeStore(tmp_path, durability)
    store.start()
    groups = [store.commit([change(1), change(2)]), store.commit([change(3)])]
    assert wait_for(store, 2) == [Committed(group_id, None) for group_id in groups]
    store.close()
    again = ChangeStore(tmp_path, durability)
    assert list(again.replay()) == [change(1), change(2), change(3)]
    again.close()


def test_tables_from_before_metadata_are_read(tmp_path: Path) -> None:
    ChangeStore(tmp_path, "full").close()
    with contextlib.closing(sqlite3.connect(tmp_path / STORE_FILE)) as connection, connection:
        old = msgspec.msgpack.encode([tuple(change(1))[:8]])
        connection.execute("INSERT INTO changes (first_version, last_version, body) VALUES (1, 1, ?)", (old,))
    store = ChangeStore(tmp_path, "full")
    assert list(store.replay()) == [change(1)]
    store.close()


def test_closing_commits_what_is_queued(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path, "full")
    store.start()
    for version in range(1, 101):
        store.commit([change(version)])
    store.close()
    again = ChangeStore(tmp_path, "full")
    assert [found.version for found in again.replay()] == list(range(1, 101))
    again.close()


def test_after_a_failure_everything_behind_fails_until_resumed(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path, "full")
    store.start()
    store.commit([change(1)])
    wait_for(store, 1)
    # The same version again violates the primary key: a stand-in for a disk that refuses.
    store.commit([change(1)])
    (report,) = wait_for(store, 1)
    assert isinstance(report.error, StoreError)
    assert report.error.remedy is not None
    store.commit([change(2)])
    (behind,) = wait_for(store, 1)
    assert behind.error is not None, "a change behind a failed one must not be kept"
    store.resume()
    store.commit([change(2)])
    (good,) = wait_for(store, 1)
    assert good.error is None
    store.close()
    again = ChangeStore(tmp_path, "full")
    assert [found.version for found in again.replay()] == [1, 2]
    again.close()


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path, "full")
    store.start()
    store.commit([change(1)])
    wait_for(store, 1)
    store.close()
    limited = ChangeStore(tmp_path, "full")
    pages = sqlite3.connect(tmp_path / STORE_FILE).execute("PRAGMA page_count").fetchone()[0]
    connect = limited._connect

    def connect_to_small_disk() -> sqlite3.Connection:
        connection = connect()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    limited._connect = connect_to_small_disk  # type: ignore[method-assign]
    limited.start()
    limited.commit([change(version)._replace(expression=b"x" * 4_000) for version in range(2, 50)])
    (report,) = wait_for(limited, 1)
    assert report.error is not None
    assert "full" in str(report.error)
    limited.close()
    again = ChangeStore(tmp_path, "full")
    assert [found.version for found in again.replay()] == [1]
    again.close()


def test_a_damaged_file_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / STORE_FILE).write_bytes(b"this is no database at all" * 100)
    with pytest.raises(StoreError, match="could not be opened"):
        ChangeStore(tmp_path, "full")


def test_another_format_is_refused(tmp_path: Path) -> None:
    ChangeStore(tmp_path, "full").close()
    with sqlite3.connect(tmp_path / STORE_FILE) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    connection.close()
    with pytest.raises(StoreError, match="another format"):
        ChangeStore(tmp_path, "full")


def test_a_table_of_the_format_before_is_taken_over(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / STORE_FILE)) as connection, connection:
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
        connection.execute(
            "CREATE TABLE changes (first_version INTEGER PRIMARY KEY, last_version INTEGER NOT NULL,"
            " body BLOB NOT NULL)"
        )
        connection.execute("INSERT INTO meta VALUES ('format', '1')")
        connection.execute("INSERT INTO changes VALUES (1, 1, ?)", (msgspec.msgpack.encode([change(1)]),))
    store = ChangeStore(tmp_path, "full")
    store.start()
    store.commit([change(2)])
    wait_for(store, 1)
    store.close()
    again = ChangeStore(tmp_path, "full")
    assert list(again.replay()) == [change(1), change(2)]
    assert list(again.replay(after=1)) == [change(2)]
    again.close()


def written(tmp_path: Path, count: int) -> None:
    store = ChangeStore(tmp_path, "full")
    store.start()
    for version in range(1, count + 1):
        store.commit([change(version)._replace(expression=b"x" * 2_000)])
    wait_for(store, count)
    store.close()


def test_a_table_that_has_lost_its_end_is_refused_until_the_loss_is_accepted(tmp_path: Path) -> None:
    written(tmp_path, 5)
    with contextlib.closing(sqlite3.connect(tmp_path / STORE_FILE)) as connection, connection:
        connection.execute("DELETE FROM changes WHERE first_version > 3")
    with pytest.raises(StoreError, match="ends before the last change that was acknowledged") as caught:
        ChangeStore(tmp_path, "full")
    assert "version 5" in str(caught.value)
    (tmp_path / MARKS_FILE).unlink()
    store = ChangeStore(tmp_path, "full")
    assert store.end.version == 3
    store.close()


@pytest.mark.parametrize("where", [0.3, 0.6, 0.9])
def test_a_table_that_is_cut_short_or_damaged_is_refused(tmp_path: Path, where: float) -> None:
    written(tmp_path, 50)
    path = tmp_path / STORE_FILE
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * where)])
    with pytest.raises(StoreError, match=r"malformed|cannot be read|ends before"):
        list(ChangeStore(tmp_path, "full").replay())
    at = int(len(whole) * where)
    path.write_bytes(whole[:at] + bytes(64) + whole[at + 64 :])
    with pytest.raises(StoreError, match=r"malformed|cannot be read|ends before"):
        list(ChangeStore(tmp_path, "full").replay())
