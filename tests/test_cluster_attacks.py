"""Each of these once brought a cluster down, or cost somebody else's batch. Names say what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import zmq
from clusters import wait_until
from test_cluster_requests import publish_header, raw_request

from pubsub_cluster import Cluster
from pubsub_cluster.coordinator.delivery.desk import DeliveryDesk
from pubsub_cluster.coordinator.delivery.listeners import LISTENERS_MAX
from pubsub_cluster.language.errors import LimitError, PubSubError, StartError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.protocol import MAGIC

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(shards=2, limits=Limits(matches_per_batch_max=20_000), result_slot_bytes=4_096) as found:
        yield found


DEEP = b"[" * 300 + b"]" * 300


@pytest.mark.parametrize(
    "frames",
    [
        [MAGIC, b'{"op":"ping","request":' + DEEP + b"}"],
        [MAGIC, b'{"request":"r","op":' + DEEP + b"}"],
        [MAGIC, publish_header({"format": "json", "event_count": 0})[:-1] + b',"at":' + DEEP + b"}"],
        [
            MAGIC,
            publish_header({"format": "json", "event_count": 0}, answer=[]),
            np.array([0]).tobytes(),
            b"",
        ],
        [MAGIC, b'{"op":"ping","request":"' + b"r" * 10_000 + b'"}'],
    ],
)
def test_a_small_frame_that_killed_the_coordinator(cluster: Cluster, frames: list[bytes]) -> None:
    assert raw_request(cluster, frames)["op"] == "error"
    with cluster.client() as client:
        client.ping()


def test_a_deep_constant_is_one_items_error(cluster: Cluster) -> None:
    item = b'{"id":"deep","expr":{"attr":"x","op":"=","value":' + DEEP + b"}}"
    body = raw_request(cluster, [MAGIC, b'{"op":"subscribe","request":"deep","items":[' + item + b"]}"])
    assert body["op"] == "error" or not body["results"][0]["ok"]


@pytest.mark.parametrize("value", [b"100000000000000000000", b"[" * 260 + b"]" * 260])
def test_metadata_that_no_answer_can_carry_are_one_items_error(cluster: Cluster, value: bytes) -> None:
    item = b'{"id":"rich","expr":"x = 1","metadata":{"n":' + value + b"}}"
    body = raw_request(cluster, [MAGIC, b'{"op":"subscribe","request":"rich","items":[' + item + b"]}"])
    assert body["results"][0]["error"]["condition"] == "metadata cannot be told again as JSON"
    with cluster.client() as client:
        assert isinstance(client.describe_many(["rich"])[0], PubSubError)


@pytest.mark.parametrize(
    "asked", [b'"owner","names":[18446744073709551616]', b'"owner","names":[["x"]]', b'"group","names":["1"]']
)
def test_counters_of_what_has_no_name_are_refused(cluster: Cluster, asked: bytes) -> None:
    body = raw_request(cluster, [MAGIC, b'{"op":"stats","request":"odd","kind":' + asked + b"}"])
    assert body["error"]["code"] == "bad_message"


def test_the_deepest_allowed_expression_is_taken(cluster: Cluster) -> None:
    expression: Any = {"attr": "x", "op": "=", "value": "deepest"}
    for _ in range(128):
        expression = {"and": [expression]}
    with cluster.client() as client:
        made = client.subscribe(expression)
        assert client.publish([{"x": "deepest"}])[0].tolist() == [made.handle]
        client.unsubscribe(made.id)


def test_a_stray_message_on_the_workers_socket_is_ignored(cluster: Cluster) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.connect(f"ipc://{cluster.data_dir}/workers.sock")
    for frames in ([b"a", b"b"], [b""], [b"x" * 100], [b"1"] * 9):
        socket.send_multipart(frames)
    socket.close(10_000)
    context.term()  # when they have gone
    with cluster.client() as client:
        client.ping()


def test_one_request_id_with_two_ops_is_two_requests(cluster: Cluster) -> None:
    item = {"id": "twice-1", "expr": "x = 1"}
    one = raw_request(cluster, [MAGIC, orjson.dumps({"op": "subscribe", "request": "rr", "items": [item]})])
    two = raw_request(
        cluster, [MAGIC, orjson.dumps({"op": "unsubscribe", "request": "rr", "ids": ["twice-1"]})]
    )
    assert one["results"][0]["ok"]
    assert two["results"][0] == {"ok": True, "id": "twice-1", "handle": one["results"][0]["handle"]}


def test_rows_that_are_dead_do_not_count_as_matches(cluster: Cluster) -> None:
    with cluster.client() as client:
        client.subscribe("dead = 1", id="dead")
        for _ in range(60):
            client.update("dead", "dead = 1")
        assert client.publish({"dead": np.ones(1_000, np.int64)}).match_count == 1_000
        client.unsubscribe("dead")


def test_a_worker_does_not_keep_answers_that_nobody_reads(cluster: Cluster) -> None:
    with cluster.client() as client:
        client.subscribe_many([{"id": f"leak{i}", "expr": "leak = 1"} for i in range(100)])
        sizes = []
        for _ in range(12):
            with pytest.raises(LimitError):
                client.publish({"leak": np.ones(30_000, np.int64)})
            pids = [worker["pid"] for worker in client.status()["workers"]]
            sizes.append(max(_resident_bytes(pid) for pid in pids))
        client.unsubscribe_many([f"leak{i}" for i in range(100)])
        assert sizes[-1] - sizes[3] < 30 << 20, sizes


def test_comparing_thousands_of_values_takes_bounded_memory(cluster: Cluster) -> None:
    with cluster.client() as client:
        made = client.subscribe("many_a < many_b")
        many = list(range(1_000, 2_000))
        events = [{"many_a": many, "many_b": many}, {"many_a": many, "many_b": [1]}] * 20
        assert [len(found) for found in client.publish(events)] == [1, 0] * 20
        client.unsubscribe(made.id)


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_what_the_catalogue_cannot_hold_is_refused_before_it_is_durable(tmp_data_dir: Path) -> None:
    limits = Limits(subscriptions_max=300)
    terms = [
        {"and": [{"attr": f"a{i}", "op": "=", "value": i}, {"attr": "b", "op": "=", "value": 0}]}
        for i in range(6_000)
    ]
    with Cluster(tmp_data_dir, limits=limits) as cluster, cluster.client() as client:
        refused = []
        for number in range(60):
            try:
                client.subscribe({"or": terms}, id=f"big{number}")
            except PubSubError as error:
                refused.append(error)
                break
        assert refused, "the limit was never reached: this test would prove nothing"
        assert isinstance(refused[0], LimitError)
        assert len(client.publish([{"a5": 5, "b": 0}])[0]) == number
    with Cluster(tmp_data_dir, limits=limits) as cluster, cluster.client() as client:
        assert len(client.publish([{"a5": 5, "b": 0}])[0]) == number


def test_listeners_that_are_gone_make_room() -> None:
    gone: set[bytes] = set()

    def send(identity: bytes, _frames: Any) -> bool:
        if identity in gone:
            raise ConnectionError
        return True

    desk = DeliveryDesk(send)
    for number in range(LISTENERS_MAX):
        desk.listen(b"one", f"owner-{number}")
    desk.listen(b"one", "owner-7")  # again is no error, also at the limit
    with pytest.raises(LimitError):
        desk.listen(b"two", "owner")
    gone.add(b"one")
    desk.listen(b"two", "owner")
    assert desk.listeners.count == 1
    gone.add(b"two")
    desk.tick(1e9)
    assert desk.listeners.count == 0


def test_a_cluster_outlives_the_thread_that_started_it() -> None:
    cluster = Cluster()
    thread = threading.Thread(target=cluster.start)
    thread.start()
    thread.join(60.0)
    try:
        time.sleep(0.5)
        with cluster.client() as client:
            client.ping()
    finally:
        cluster.stop()


def test_a_cluster_ends_with_the_process_that_started_it(tmp_data_dir: Path) -> None:
    code = (
        "import os, sys, signal\n"
        "from pubsub_cluster import Cluster\n"
        f"cluster = Cluster({str(tmp_data_dir)!r}).start()\n"
        "print(cluster.started['pid'], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    pid = int(run.stdout)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the coordinator stops")


def test_the_successor_of_a_dead_worker_that_is_stopped_is_replaced_too(tmp_data_dir: Path) -> None:
    patience = {"task_timeout_s": 1.0, "worker_silence_s": 2.0}
    with Cluster(tmp_data_dir, **patience) as cluster, cluster.client() as client:
        client.subscribe("x = 1")
        os.kill(client.status()["workers"][0]["pid"], signal.SIGSTOP)
        # Idle and silent: found without a task, too.
        wait_until(lambda: client.status()["counters"]["worker_restarts"] >= 1, "it is replaced")
        assert len(client.publish([{"x": 1}])[0]) == 1


def test_a_data_directory_that_cannot_be_used_is_explained(tmp_data_dir: Path) -> None:
    (tmp_data_dir / "owner.lock").mkdir()
    with pytest.raises(StartError, match="data directory cannot be used"):
        Cluster(tmp_data_dir).start()


def test_a_store_that_vanishes_is_noticed(tmp_data_dir: Path) -> None:
    with Cluster(tmp_data_dir) as cluster, cluster.client() as client:
        client.subscribe("x = 1")
        (tmp_data_dir / "catalogue.sqlite").rename(tmp_data_dir / "elsewhere.sqlite")
        with pytest.raises(PubSubError, match="removed or replaced"):
            client.subscribe("x = 2")
        (tmp_data_dir / "elsewhere.sqlite").rename(tmp_data_dir / "catalogue.sqlite")
        client.subscribe("x = 3")
        assert [len(found) for found in client.publish([{"x": 1}, {"x": 2}, {"x": 3}])] == [1, 0, 1]
