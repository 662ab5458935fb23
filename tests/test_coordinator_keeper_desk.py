"""The keeper's desk: tasks that are refused, begun, begun anew when their process died, and told."""

from __future__ import annotations

import io
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pubsub_cluster.coordinator.keeping import ATTEMPTS_MAX, Job, KeeperDesk
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.schema import EMPTY_SCHEMA


def desk_at_work() -> KeeperDesk:
    """A desk whose keeper needs no process: `dies` ends it."""
    return KeeperDesk(SimpleNamespace(), EMPTY_SCHEMA, {})  # type: ignore[arg-type]


def dies(desk: KeeperDesk) -> None:
    """The keeper takes the first task and is killed at it."""
    job = desk._waiting.popleft()
    job.attempts += 1
    desk._running = job
    desk._process = SimpleNamespace(stdout=io.BytesIO(), returncode=-9)  # type: ignore[assignment]
    desk._finish(1.0)


def test_a_task_whose_keeper_died_is_begun_anew_a_few_times() -> None:
    desk = desk_at_work()
    job = desk.submit("backup", "r1", "/a/file")
    for _ in range(ATTEMPTS_MAX - 1):
        dies(desk)
        assert job.state == "waiting" and list(desk._waiting) == [job]
    dies(desk)
    assert job.state == "failed" and job.error is not None and "died" in job.error["condition"]
    assert not desk._waiting


@pytest.mark.parametrize("what", ["table", "processes"])
def test_a_task_that_cannot_be_begun_fails_alone(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a table that was taken away nor a machine without room for a keeper ends the coordinator."""
    store = ChangeStore(tmp_path, "full")
    desk = desk_at_work()
    if what == "table":
        store.path.unlink()
        monkeypatch.setattr(desk, "_task", lambda job: store.stored_schema())
    else:
        monkeypatch.setattr(desk, "_task", lambda job: {})
        monkeypatch.setattr(subprocess, "Popen", no_more_processes)
    job = desk.submit("backup", "r1", "/a/file")
    desk.tick(1.0)
    store.close()
    assert job.state == "failed" and job.error is not None
    assert ("removed or replaced" if what == "table" else "could not be started") in job.error["condition"]
    assert not store.path.exists() or what == "processes"
    assert desk._process is None and not desk._waiting


def test_a_snapshot_rests_after_the_last_one_unless_the_catalogue_has_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    registry = SimpleNamespace(version=0, live_count=0)
    coordinator: Any = SimpleNamespace(registry=registry, config=SimpleNamespace(snapshot_after=10))
    desk = KeeperDesk(coordinator, EMPTY_SCHEMA, {})

    def is_due(now_s: float, version: int, live_count: int) -> bool:
        registry.version, registry.live_count = version, live_count
        return desk._snapshot_is_due(now_s)

    assert is_due(0.0, 100, 100), "many changes, and more go on"
    snapshot = Job(0, "snapshot")
    snapshot.seconds = 3.0
    desk._done(snapshot, {"version": 100, "subscriptions": 100}, now_s=3.0)
    assert not is_due(4.0, 110, 110), "few changes, and more go on"
    assert not is_due(5.0, 300, 199), "it rests for ten times as long as it took"
    assert is_due(5.0, 301, 200), "a start would have to take half of them from their changes"
    assert not is_due(32.9, 302, 199) and is_due(33.1, 303, 199)
    snapshot.seconds = 1.0
    desk._done(snapshot, {"version": 303, "subscriptions": 0}, now_s=34.0)
    assert not is_due(35.0, 900, 0) and not is_due(36.0, 1_500, 99), "many changes, of which little stays"
    desk._done(snapshot, {"version": 1_500, "subscriptions": 600}, now_s=37.0)
    assert not is_due(38.0, 1_798, 898) and is_due(38.0, 1_799, 899), "a third of a large one is more"
    desk._failed(Job(0, "snapshot"), {"condition": "no room", "code": "store_failed"}, now_s=40.0)
    assert not is_due(41.0, 9_000, 8_000), "the next one would fail too"


def no_more_processes(*_: Any, **__: Any) -> None:
    raise BlockingIOError(11, "Resource temporarily unavailable")


def test_what_cannot_be_a_path_or_a_number_is_refused() -> None:
    desk = desk_at_work()
    for path in (None, 5, "relative", "/a\0b"):
        with pytest.raises(ProtocolError, match="path"):
            desk.submit("backup", "r1", path)
    job = desk.submit("verify", "r2")
    for number in (True, "1", [job.number], {}, None, job.number + 1):
        with pytest.raises(ProtocolError, match="no such job"):
            desk.job(number)


def test_what_was_asked_for_before_a_restore_is_done_after_it() -> None:
    jobs: dict[int, Job] = {}
    before = KeeperDesk(SimpleNamespace(), EMPTY_SCHEMA, jobs)  # type: ignore[arg-type]
    job = before.submit("backup", "r1", "/a/file")
    after = KeeperDesk(SimpleNamespace(), EMPTY_SCHEMA, jobs)  # type: ignore[arg-type]
    assert list(after._waiting) == [job]


def test_a_job_of_a_life_before_is_not_taken_for_one_of_this() -> None:
    before, after = desk_at_work(), desk_at_work()
    mine = before.submit("backup", "r1", "/a/file")
    after.submit("backup", "r2", "/another/file")
    with pytest.raises(ProtocolError, match="no such job"):
        after.job(mine.number)
