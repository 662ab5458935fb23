"""Listeners that are told by records, in a real cluster: the same is heard by every way, each thing once."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from pubsub_cluster import AsyncClient, Client, Cluster
from pubsub_cluster.client import Listener, Notification
from pubsub_cluster.coordinator.delivery.broadcast import MESSAGE_SIZE_BYTES_MAX, QUEUED_MESSAGES_MAX
from pubsub_cluster.coordinator.unread import PEER_SIZE_BYTES_MAX

OWNERS = 12
FEW = 6
"""Of whom a record pays all the same."""
TIMEOUT_S = 120.0
PORTS = range(20_000, 32_000)
HELD_FOR_RECORDS_BYTES = QUEUED_MESSAGES_MAX * MESSAGE_SIZE_BYTES_MAX


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(pin=False) as running, running.client() as client:
        made = client.subscribe_many(
            [{"expr": f"x >= {owner}", "owner": f"o{owner}", "id": f"s{owner}"} for owner in range(OWNERS)]
        )
        assert all(not isinstance(one, Exception) for one in made)
        yield running


def wait_until(condition: Callable[[], bool], listener: Listener) -> None:
    """Wait, as a listener that hears nothing, until something holds."""
    end_s = time.monotonic() + TIMEOUT_S
    listener.timeout_s = 0.05
    while not condition():
        assert time.monotonic() < end_s
        assert next(listener, None) is None
    listener.timeout_s = TIMEOUT_S


def joined(cluster: Cluster, count: int) -> Callable[[], bool]:
    """Return whether so many owners are told by records."""

    def all_have() -> bool:
        with cluster.client() as other:
            return int(other.status()["multicast"]["joined"]) == count

    return all_have


def take(listener: Listener, count: int) -> list[Notification]:
    return [next(listener) for _ in range(count)]


@pytest.mark.parametrize("way", ["auto", "pubsub", "unicast"])
def test_the_same_is_heard_by_every_way(cluster: Cluster, way: str) -> None:
    with (
        Client(cluster.data_dir, notified_by=way) as ears,
        cluster.client(publisher=f"press {way}") as press,
    ):
        listeners = [ears.listen(f"o{owner}", timeout_s=TIMEOUT_S) for owner in range(OWNERS)]
        before = press.status()["multicast"]["records"]
        if way != "unicast":
            wait_until(joined(cluster, OWNERS), listeners[0])
        for batch in range(3):
            press.publish([{"x": OWNERS, "name": "grüße"}, {"x": 0.5}, {"x": -1}], batch_id=f"b{batch}")
        for owner, listener in enumerate(listeners):
            events = [0, 1] if owner == 0 else [0]
            heard = take(listener, 3 * len(events))
            assert [(one.batch_id, one.event_index) for one in heard] == [
                (f"b{batch}", event) for batch in range(3) for event in events
            ]
            assert {one.ids for one in heard} == {(f"s{owner}",)} and {one.owner for one in heard} == {
                f"o{owner}"
            }
            assert heard[0].event == {"x": OWNERS, "name": "grüße"} and heard[0].publisher == f"press {way}"
            assert [one.sequence for one in heard] == list(
                range(heard[0].sequence, heard[0].sequence + len(heard))
            )
            assert not any(one.dropped for one in heard) and listener.queued_count == 0
            assert listener.ordering.repeated_count == 0
        records = press.status()["multicast"]["records"] - before
        assert records == (0 if way == "unicast" else 3)


@pytest.mark.parametrize("way", ["auto", "pubsub"])
def test_an_event_loop_takes_records(cluster: Cluster, way: str) -> None:
    async def hear() -> None:
        async with AsyncClient(cluster.data_dir, notified_by=way) as ears:
            heard: list[Notification] = []
            listeners = [
                await ears.listen(f"o{owner}", on_notification=heard.append) for owner in range(OWNERS)
            ]
            while (await ears.status())["multicast"]["joined"] < OWNERS:
                await asyncio.sleep(0.02)
            before = (await ears.status())["multicast"]["records"]
            for batch in range(3):
                await ears.publish([{"x": OWNERS}], batch_id=f"{way} {batch}")
            while len(heard) < 3 * OWNERS:
                await asyncio.sleep(0.02)
            assert (await ears.status())["multicast"]["records"] - before == 3
            assert {(one.owner, one.batch_id) for one in heard} == {
                (f"o{owner}", f"{way} {batch}") for owner in range(OWNERS) for batch in range(3)
            }
            for listener in listeners:
                assert listener.ordering.repeated_count == 0
                await listener.close()

    asyncio.run(asyncio.wait_for(hear(), TIMEOUT_S))


def test_who_joins_late_and_who_takes_no_records_hears_everything_once(cluster: Cluster) -> None:
    with (
        Client(cluster.data_dir) as ears,
        Client(cluster.data_dir, notified_by="unicast") as plain,
        cluster.client(publisher="late") as press,
    ):
        first = [ears.listen(f"o{owner}", timeout_s=TIMEOUT_S) for owner in range(OWNERS - 1)]
        other = plain.listen("o3", timeout_s=TIMEOUT_S)
        wait_until(joined(cluster, OWNERS - 1), first[0])
        late = ears.listen(f"o{OWNERS - 1}", timeout_s=TIMEOUT_S)
        sent = 0
        end_s = time.monotonic() + TIMEOUT_S
        while not joined(cluster, OWNERS)():
            press.publish([{"x": OWNERS}], batch_id=str(sent))
            ears.ping()
            sent += 1
            assert time.monotonic() < end_s
        press.publish([{"x": OWNERS}], batch_id=str(sent))
        for listener in (*first, late, other):
            heard = take(listener, sent + 1)
            assert [one.batch_id for one in heard] == [str(batch) for batch in range(sent + 1)]
            assert not any(one.dropped for one in heard) and listener.ordering.repeated_count == 0


def test_a_restart_is_survived(tmp_data_dir: Path) -> None:
    with Client(tmp_data_dir) as ears:
        with Cluster(tmp_data_dir, pin=False) as cluster, cluster.client() as press:
            for owner in range(FEW):
                press.subscribe("x > 0", owner=f"o{owner}", id=f"s{owner}")
            listeners = [ears.listen(f"o{owner}", timeout_s=TIMEOUT_S) for owner in range(FEW)]
            wait_until(joined(cluster, FEW), listeners[0])
            press.publish([{"x": 1}], batch_id="first")
            assert [take(one, 1)[0].batch_id for one in listeners] == ["first"] * FEW
        with Cluster(tmp_data_dir, pin=False) as cluster, cluster.client() as press:
            wait_until(joined(cluster, FEW), listeners[0])
            press.publish([{"x": 1}], batch_id="second")
            assert [take(one, 1)[0].batch_id for one in listeners] == ["second"] * FEW
            assert press.status()["multicast"]["records"] == 1


def test_a_client_by_tcp_takes_records_from_the_next_port(tmp_data_dir: Path) -> None:
    endpoint = f"tcp://127.0.0.1:{two_free_ports()}"
    with Cluster(tmp_data_dir, listen=endpoint, pin=False) as cluster, cluster.client() as press:
        for owner in range(FEW):
            press.subscribe("x > 0", owner=f"o{owner}", id=f"s{owner}")
        with Client(endpoint=endpoint, notified_by="pubsub") as ears:
            listeners = [ears.listen(f"o{owner}", timeout_s=TIMEOUT_S) for owner in range(FEW)]
            wait_until(joined(cluster, FEW), listeners[0])
            press.publish([{"x": 1}], batch_id="far")
            assert [take(one, 1)[0].batch_id for one in listeners] == ["far"] * FEW
            assert press.status()["multicast"]["records"] == 1


def two_free_ports() -> int:
    """Return a port that is free, and so is the next; of those that the kernel gives to nobody by itself."""
    for port in random.SystemRandom().sample(PORTS, 20):
        with socket.socket() as first, socket.socket() as second, suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port
    raise AssertionError("no two free ports")


def listen_and_count(data_dir: str, way: str, owner: str, pipe: Connection) -> None:
    """Say how much was heard, how much was lost, and which of the last events it was that came."""
    heard = lost = last = 0
    with Client(data_dir, notified_by=way) as ears, ears.listen(owner) as listener:
        pipe.send("ready")
        for told in listener:
            heard, lost = heard + 1, lost + told.dropped
            last = told.event.get("last", 0)
            if last:
                break
        pipe.send((heard, lost, last))


@pytest.mark.slow
def test_readers_that_are_stopped_cost_others_nothing_and_bounded_memory(tmp_data_dir: Path) -> None:
    """More is published than may be held back for both of them, by records and by pushes."""
    events, text = 2_000, "x" * 200_000
    context = multiprocessing.get_context("spawn")
    with Cluster(tmp_data_dir, pin=False) as cluster, cluster.client() as press:
        press.tune_set("multicast_threshold", 0.01)
        ways = {"awake": "auto", "by records": "pubsub", "by pushes": "unicast"}
        pipes, processes = {}, {}
        for owner, way in ways.items():
            press.subscribe("x = 1", owner=owner)
            pipes[owner], there = context.Pipe()
            arguments = (str(tmp_data_dir), way, owner, there)
            processes[owner] = context.Process(target=listen_and_count, args=arguments)
            processes[owner].start()
            assert pipes[owner].poll(TIMEOUT_S) and pipes[owner].recv() == "ready"
        try:
            while press.status()["multicast"]["joined"] < 2:
                time.sleep(0.01)
            coordinator = psutil.Process(int(press.status()["pid"]))
            for owner in ("by records", "by pushes"):
                psutil.Process(processes[owner].pid).suspend()
            before_bytes = coordinator.memory_full_info().uss
            for _ in range(events):
                press.publish([{"x": 1, "text": text}], answer="none")
            grown_bytes = coordinator.memory_full_info().uss - before_bytes
            assert (
                grown_bytes < HELD_FOR_RECORDS_BYTES + PEER_SIZE_BYTES_MAX + (64 << 20) < events * len(text)
            )
            for owner in ("by records", "by pushes"):
                psutil.Process(processes[owner].pid).resume()
            for last in itertools.count(1):  # until there is room for one of them
                press.publish([{"x": 1, "last": last}])
                if all([pipe.poll(0.1) for pipe in pipes.values()]):
                    break
                assert last < 600
            for owner, pipe in pipes.items():
                heard, lost, last = pipe.recv()
                assert heard + lost == events + last and (lost > 0) == (owner != "awake")
        finally:
            for process in processes.values():
                with suppress(psutil.Error):
                    psutil.Process(process.pid).resume()
                process.terminate()
                process.join(TIMEOUT_S)
