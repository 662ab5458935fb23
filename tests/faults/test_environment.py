"""Faults of the environment: a full disk, full shared memory, a truncated store, a clock that steps.

Each is a clear error, nothing acknowledged is lost, and the cluster goes on when the cause is gone. Small
file systems need the right to mount; where that is missing these tests are skipped.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pubsub_cluster import Client, Cluster
from pubsub_cluster.cli.main import cli
from pubsub_cluster.coordinator.clock import Clock
from pubsub_cluster.coordinator.marks import MARKS_FILE, Marks
from pubsub_cluster.coordinator.store import STORE_FILE, ChangeStore
from pubsub_cluster.language.errors import CallerError, PubSubError, StartError, StoreError
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.change_groups import SUBSCRIBE, Change

ROOT = Path(__file__).parent.parent.parent
DISK_SIZE_BYTES = 3 << 20
HERE = Path(__file__).parent


@pytest.fixture
def small_disk(tmp_data_dir: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    disk = tmp_data_dir / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_SIZE_BYTES},mode=0700", "tmpfs"]
    done = subprocess.run(["mount", *options, str(disk)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Take all that is free on a disk; return the file that does."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4_096))
        except OSError:
            return filler


def items(first: int, count: int) -> list[dict[str, str]]:
    """Return subscriptions that take some room: item i matches x = i."""
    return [
        {"id": f"n{i}", "expr": f'x = {i} AND item != "{"u" * 400}"'} for i in range(first, first + count)
    ]


def matched(client: Client, count: int) -> set[int]:
    """Return the numbers of the subscriptions that match."""
    found = client.publish([{"x": i, "item": "tea"} for i in range(count)], ids=True)
    return {int(name[1:]) for name in found.ids or []}


@pytest.mark.cluster
@pytest.mark.timeout(500)
def test_a_full_disk_refuses_changes_and_nothing_else(small_disk: Path) -> None:
    with Cluster(small_disk / "data") as cluster, cluster.client(timeout_s=200.0) as client:
        assert not any(isinstance(r, PubSubError) for r in client.subscribe_many(items(0, 100)))
        filler = fill(small_disk)
        refused = client.subscribe_many(items(100, 4_000))
        assert all(isinstance(r, PubSubError) for r in refused[-1_000:]), "the disk is full"
        good = {100 + i for i, r in enumerate(refused) if not isinstance(r, PubSubError)} | set(range(100))
        for error in refused:
            if isinstance(error, PubSubError):
                assert isinstance(error, StoreError) and "full" in str(error) and error.remedy
        with pytest.raises(StoreError):
            client.update("n1", f'x = 1 AND item != "{"v" * 60_000}"')
        assert matched(client, 4_100) == good, "what was refused is not seen, what was acknowledged is"
        filler.unlink()
        assert not isinstance(client.subscribe_many(items(5_000, 1))[0], PubSubError)
        good.add(5_000)
        cluster.kill()
        cluster.start()
        assert matched(client, 5_001) == good
        cluster.kill()
        filler = fill(small_disk)
        try:
            cluster.start()  # reading what is there takes no room: it may work, or be refused
        except (StartError, StoreError) as error:
            assert error.remedy
        filler.unlink()
        if cluster._process is None:
            cluster.start()
        assert matched(client, 5_001) == good


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_a_full_disk_refuses_batches_for_durable_receivers_and_no_others(small_disk: Path) -> None:
    event = {"x": 1, "text": "y" * 60_000}
    with Cluster(small_disk / "data") as cluster, cluster.client() as client:
        client.subscribe("x = 1", owner="ann")
        client.listen("ann", durable="a").close()
        filler = fill(small_disk)
        good: list[str] = []
        with pytest.raises(StoreError, match="full"):
            for number in range(100):
                client.publish([event], batch_id=f"b{number}")
                good.append(f"b{number}")
        refused = f"b{len(good)}"
        assert client.publish([{**event, "x": 2}]).match_count == 0, "nobody is told, and nothing waits"
        filler.unlink()
        assert client.publish([event], batch_id=refused).match_count == 1
        cluster.kill()
        cluster.start()
        with client.listen("ann", durable="a", timeout_s=60.0) as inbox:
            heard = [next(inbox) for _ in [*good, refused]]
            inbox.timeout_s = 0.3
            told = [(notification.batch_id, notification.dropped) for notification in [*heard, *inbox]]
        assert told == [(batch_id, 0) for batch_id in [*good, refused]]


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_a_full_disk_refuses_an_extension_of_the_schema_as_a_whole(small_disk: Path) -> None:
    """Who sends it is told; nobody reads by a schema that a restart would not find; it can be sent again."""
    values = [f"{number:05d}{'v' * 95}" for number in range(500)]  # kept anew with each extension
    given = Schema.from_json(
        {
            "domains": [{"name": "wide", "domain": "enumerated", "values": values}],
            "attributes": [{"name": "x", "domain": "float"}],
            "types": [{"name": "item", "attributes": [{"name": "x"}]}],
        }
    )
    data = small_disk / "data"
    with Cluster(data, schema=given) as cluster, cluster.client() as client:
        client.subscribe("x = 1", id="one")
        filler = fill(small_disk)
        with pytest.raises(StoreError, match="could not be written") as refused:
            for number in range(100):
                before = client.schema_show()
                client.schema_add_attribute(f"y{number}", "float")
        new = f"y{number}"
        assert "full" in str(refused.value.seen) and refused.value.remedy
        command = ["schema", "add-attribute", new, "--domain", "float", "--data", str(data)]
        told = CliRunner().invoke(cli, command)
        assert told.exit_code != 0 and "full" in told.output and "Free disk space" in told.output

        def is_as_before() -> None:
            assert client.schema_show() == before
            with pytest.raises(CallerError, match=f"'{new}' is not declared"):
                client.subscribe(f"{new} = 1")
            told = client.publish([{"event_type": "item", "x": 1}, {"event_type": "item", "x": 1, new: 1}])
            assert [len(found) for found in told] == [1, 0] and list(told.refused) == [1]

        is_as_before()
        filler.unlink()
        cluster.kill()
        cluster.start()
        is_as_before()
        client.schema_add_attribute(new, "float")
        client.schema_extend_type("item", new)
        client.subscribe(f"{new} = 1")
        assert client.publish([{"event_type": "item", "x": 1, new: 1}]).match_count == 2


@pytest.mark.cluster
@pytest.mark.timeout(500)
def test_full_shared_memory_refuses_what_does_not_fit(tmp_data_dir: Path) -> None:
    script = f"mount -t tmpfs -o size=96m tmpfs /dev/shm && exec {sys.executable} {HERE}/small_shm.py"
    command = ["unshare", "--mount", "sh", "-c", f"{script} {tmp_data_dir}"]
    allowed = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], capture_output=True, check=False
    )
    if allowed.returncode != 0:
        pytest.skip("cannot mount here")
    done = subprocess.run(command, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["started", "refused", "matched", "unbuilt", "recovered", "restarted"]


def test_a_truncated_store_is_said_or_complete(tmp_path: Path) -> None:
    """Wherever the file ends, either every change is read or the error says that they are not."""
    store = ChangeStore(tmp_path, "full")
    store.start()
    for version in range(1, 301):
        store.commit([Change(version, SUBSCRIBE, version, f"s{version}", "me", b'"x = 1"' * 30, None, None)])
    store.close()
    path = tmp_path / STORE_FILE
    whole = path.read_bytes()
    for keep in (*range(0, len(whole), len(whole) // 7), len(whole) - 1, len(whole) - 4_096):
        path.write_bytes(whole[:keep])
        found: list[int] = []
        try:
            again = ChangeStore(tmp_path, "full")
        except StoreError as error:
            assert error.remedy
            continue
        try:
            found = [change.version for change in again.replay()]
        except StoreError as error:
            assert error.remedy
            continue
        finally:
            again.close()
        assert found == list(range(1, 301)), f"{keep} of {len(whole)} bytes: {len(found)} changes"


def test_a_clock_that_steps_back_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    now_us = 1_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now_us * 1_000)
    clock = Clock(injected=False)
    assert clock.at(None) == 1_000_000
    now_us -= 500_000
    assert clock.at(None) == 1_000_000, "what has expired stays so"
    now_us += 2_000_000
    assert clock.at(None) == 2_500_000


def test_a_restart_goes_on_from_the_clock_that_was_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now_us = 5_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now_us * 1_000)
    assert Clock(injected=False, marks=Marks(tmp_path)).at(None) == 5_000_000
    now_us = 1_000_000
    assert Clock(injected=False, marks=Marks(tmp_path)).at(None) == 5_000_000, "what has expired stays so"
    assert "clock is 4.0 s behind" in caplog.text
    (tmp_path / MARKS_FILE).unlink()
    assert Clock(injected=False, marks=Marks(tmp_path)).at(None) == 1_000_000


def test_nothing_but_validity_looks_at_the_wall_clock() -> None:
    """Every wait and time limit is by the monotonic clock, so a step of the other one moves none of them."""
    users = []
    for folder in ("coordinator", "client", "workers", "tuner", "shm"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and node.attr in ("time", "time_ns", "now", "utcnow"):
                    users.append(f"{path.relative_to(ROOT)}: {ast.unparse(node)}")
    # The others tell operators since when is counted, and when statistics were imported.
    modules = ("clock", "runtime", "statistics_file")
    assert users == [f"coordinator/{module}.py: time.time_ns" for module in modules]
