"""A cluster with too little shared memory; run by test_environment.py in a mount namespace of its own.

Prints a word for each thing that went as it must.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pubsub_cluster import Client, Cluster
from pubsub_cluster.language.errors import PubSubError, StartError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.shm.owner import sweep_dead

SHM = Path("/dev/shm")
MOST = 9_000


def fill(name: str, leave_bytes: int) -> Path:
    """Take all of the shared memory but so much."""
    path = SHM / name
    found = os.statvfs(SHM)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(4_096, found.f_bavail * found.f_frsize - leave_bytes))
    return path


def subscribe(client: Client, first: int, count: int) -> list[bool]:
    """Subscribe to x = i for some i; return which were refused."""
    items = [{"id": f"n{i}", "expr": f'x = {i} AND item != "{i:0200}"'} for i in range(first, first + count)]
    return [isinstance(found, PubSubError) for found in client.subscribe_many(items)]


def matched(client: Client, count: int) -> set[int]:
    """Return the numbers of the subscriptions that match."""
    found = client.publish([{"x": i, "item": "tea"} for i in range(count)], ids=True)
    return {int(name[1:]) for name in found.ids or []}


def main() -> None:
    """Go through it."""
    data_dir = Path(sys.argv[1]) / "data"
    cluster = Cluster(data_dir, limits=Limits(batch_size_bytes_max=1 << 20), result_slot_bytes=1 << 16)
    with cluster, cluster.client(timeout_s=200.0) as client:
        assert not any(subscribe(client, 0, 100))
        client.tune_now()
        _until(lambda: client.status()["generation"] > 0)
        print("started")
        filler = fill("filler", 128 << 10)
        good = set(range(100))
        for first in range(100, MOST, 500):  # some pages are reserved ahead
            refused = subscribe(client, first, 500)
            good |= {first + i for i, r in enumerate(refused) if not r}
            if any(refused):
                break
        else:
            raise AssertionError("nothing was refused")
        print("refused")
        assert matched(client, MOST) == good
        print("matched")
        leftover = fill("leftover", 0)
        generation = client.status()["generation"]
        client.tune_now()
        _until(lambda: "error" in (client.tune_show()["history"] or [{}])[-1])
        assert client.status()["generation"] == generation
        assert matched(client, MOST) == good
        print("unbuilt")
        filler.unlink()
        leftover.unlink()
        assert not any(subscribe(client, MOST, 100))
        good |= set(range(MOST, MOST + 100))
        _until(lambda: client.status()["generation"] > generation)
        assert matched(client, MOST + 100) == good
        print("recovered")
        children = [pid for pid in _flat(cluster.pids().values()) if pid]
        cluster.kill()
        # What it held is free once its children are gone too; a start would sweep it, and have room.
        _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
        sweep_dead()
        filler = fill("filler", 1 << 20)
        with suppress(StartError):
            cluster.start()
            raise AssertionError("a cluster started without shared memory")
        filler.unlink()
        cluster.start()
        assert matched(client, MOST + 100) == good
        print("restarted")


def _flat(pids: Iterable[int | list[int | None] | None]) -> list[int | None]:
    return [pid for found in pids for pid in (found if isinstance(found, list) else [found])]


def _until(condition: object, timeout_s: float = 120.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline_s, "not in time"
        time.sleep(0.05)


if __name__ == "__main__":
    main()
