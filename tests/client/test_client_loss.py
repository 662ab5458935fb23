"""The client when the cluster is silent, busy, restarted or gone; and its listeners."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import SILENT, FakeCluster, Frames

from pubsub_cluster.client import AsyncClient, Client, Subscription
from pubsub_cluster.language.errors import (
    BusyError,
    CallerError,
    DuplicateIdError,
    ProtocolError,
    PubSubError,
    ReplyTimeoutError,
)
from pubsub_cluster.language.protocol import Message, Op, error_frames, reply_frames

# -- time, loss, restarts --------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
def test_no_socket_file_is_said_at_once_and_what_to_do(tmp_data_dir: Path) -> None:
    start_s = time.monotonic()
    with Client(tmp_data_dir, timeout_s=90.0) as client, pytest.raises(ReplyTimeoutError) as caught:
        client.ping()
    assert time.monotonic() - start_s < 60.0
    assert "pubsub-cluster status" in str(caught.value)
    assert str(tmp_data_dir) in caught.value.fields["endpoint"] == caught.value.seen


def test_silence_ends_with_the_time_limit(cluster: FakeCluster, client: Client) -> None:
    client.hello()
    cluster.script = lambda _, m: SILENT if m.op != Op.HELLO else None
    patience_s, client._session.timeout_s = client._session.timeout_s, 0.3
    with pytest.raises(ReplyTimeoutError, match="`status`"):
        client.status()
    cluster.script, client._session.timeout_s = None, patience_s
    client.status()


@pytest.mark.usefixtures("impatient")
def test_a_lost_request_is_sent_again_with_its_ids(cluster: FakeCluster, client: Client) -> None:
    def script(_: FakeCluster, message: Message) -> Frames | None:
        return SILENT if message.op == Op.PUBLISH and cluster.ops().count(Op.PUBLISH) == 1 else None

    cluster.script = script
    assert len(client.publish([{"x": 1}])) == 1
    first, *again = (m for m in cluster.seen if m.op == Op.PUBLISH)
    assert again
    for other in again:
        assert first.request == other.request
        assert first.header == other.header
        assert [bytes(b) for b in first.buffers] == [bytes(b) for b in other.buffers]


@pytest.mark.usefixtures("impatient")
def test_a_silent_cluster_gets_a_new_connection(cluster: FakeCluster, client: Client) -> None:
    client.ping()
    connection = client._session.connection
    cluster.script = lambda _, m: SILENT if connection.reconnect_count == 0 else None
    assert client.subscribe("TRUE", id="a").id == "a"
    assert connection.reconnect_count > 0


def test_busy_is_waited_for(cluster: FakeCluster, client: Client) -> None:
    def script(_: FakeCluster, message: Message) -> Frames | None:
        if message.op == Op.PUBLISH and cluster.ops().count(Op.PUBLISH) < 3:
            return error_frames(message.request, BusyError("no free chunk", retry_after_s=0.01))
        return None

    cluster.script = script
    assert len(client.publish([{}])) == 1
    assert cluster.ops() == ["publish"] * 3


def test_busy_for_longer_than_the_time_limit_is_raised(cluster: FakeCluster, client: Client) -> None:
    cluster.script = lambda _, m: (
        error_frames(m.request, BusyError("full", retry_after_s=60)) if m.op == Op.PUBLISH else None
    )
    with pytest.raises(BusyError):
        client.publish([{}])


@pytest.mark.usefixtures("impatient")
def test_a_restarted_cluster_gets_the_pending_request(tmp_data_dir: Path, client: Client) -> None:
    first = FakeCluster(tmp_data_dir, "first", lambda _, m: SILENT if m.op == Op.SUBSCRIBE else None)
    with first:
        client.ping()
        answer: list[Subscription] = []
        asking = threading.Thread(target=lambda: answer.append(client.subscribe("TRUE", id="a")))
        asking.start()
        while Op.SUBSCRIBE not in first.ops():
            time.sleep(0.005)
    with FakeCluster(tmp_data_dir, "second") as second:
        asking.join(60.0)
        assert [s.id for s in answer] == ["a"]
        assert second.ops()[0] == "subscribe"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("given", [True, False])
def test_a_change_that_a_restart_has_already_seen(tmp_data_dir: Path, client: Client, given: bool) -> None:
    """The first life makes the subscription durable and dies before it says so."""
    durable: dict[str, Any] = {}

    def carry_out_in_silence(fake: FakeCluster, message: Message) -> Frames | None:
        if message.op != Op.SUBSCRIBE:
            return None
        fake.behave(Op.SUBSCRIBE, message)
        durable.update(fake.subscriptions)
        return SILENT

    outcome: list[Subscription | PubSubError] = []
    item = {"expr": "TRUE", **({"id": "mine"} if given else {})}
    with FakeCluster(tmp_data_dir, "first", carry_out_in_silence):
        client.ping()
        asking = threading.Thread(target=lambda: outcome.extend(client.subscribe_many([item])))
        asking.start()
        while not durable:
            time.sleep(0.005)
    second = FakeCluster(tmp_data_dir, "second")
    second.subscriptions = dict(durable)
    with second:
        asking.join(60.0)
    if given:
        assert isinstance(outcome[0], DuplicateIdError)
        assert "before the restart" in str(outcome[0])
    else:
        assert isinstance(outcome[0], Subscription) and outcome[0].handle == 1
    assert len(second.subscriptions) == 1


# -- listening -------------------------------------------------------------------------------------


def push(fake: FakeCluster, sequence: int, *event_idxs: int, dropped: int = 0) -> None:
    events = [
        {
            "event_index": i,
            "sequence": sequence + nth,
            "handles": [i + 1],
            "ids": [f"s{i}"],
            "event": {"x": i},
        }
        for nth, i in enumerate(event_idxs)
    ]
    fake.push("me", publisher="p", batch_id="b", dropped=dropped, events=events)


def test_notifications_come_one_event_at_a_time(cluster: FakeCluster, client: Client) -> None:
    with client.listen("me", timeout_s=60.0) as listener:
        push(cluster, 0, 3, 5)
        push(cluster, 5, 0, dropped=3)
        got = [next(listener) for _ in range(3)]
    assert [(n.event_index, n.handles, n.event) for n in got[:2]] == [
        (3, (4,), {"x": 3}),
        (5, (6,), {"x": 5}),
    ]
    assert [(n.sequence, n.dropped) for n in got] == [(0, 0), (1, 0), (5, 3)]
    assert (got[0].owner, got[0].publisher, got[0].batch_id) == ("me", "p", "b")
    assert cluster.ops() == ["listen", "unlisten"]


def test_a_listener_ends_when_its_time_is_up(cluster: FakeCluster, client: Client) -> None:
    assert list(client.listen("me", timeout_s=0.2)) == []


def test_notifications_that_arrive_during_other_calls_are_kept(cluster: FakeCluster, client: Client) -> None:
    listener = client.listen("me", timeout_s=60.0)
    push(cluster, 0, 1)
    for _ in range(20):
        client.ping()
    assert next(listener).event_index == 1


@pytest.mark.parametrize("owner", ["", "\ud800", None])
def test_who_has_no_name_cannot_be_listened_for(
    cluster: FakeCluster, client: Client, tmp_data_dir: Path, owner: Any
) -> None:
    with pytest.raises(CallerError, match="the owner is"):
        client.listen(owner)

    async def listen() -> None:
        async with AsyncClient(tmp_data_dir) as other:
            await other.listen(owner)

    with pytest.raises(CallerError, match="the owner is"):
        asyncio.run(listen())
    assert cluster.ops() == []


def test_infinities_in_events_come_back(cluster: FakeCluster, client: Client) -> None:
    listener = client.listen("me", timeout_s=60.0)
    events = [
        {
            "event_index": 0,
            "sequence": 0,
            "handles": [1],
            "ids": ["s"],
            "event": {"x": [{"$float": "-inf"}], "y": {"z": 1}},
        }
    ]
    cluster.push("me", publisher="p", batch_id="b", dropped=0, events=events)
    assert next(listener).event == {"x": [float("-inf")], "y": {"z": 1}}


def test_what_finds_no_room_is_counted(cluster: FakeCluster, client: Client) -> None:
    listener = client.listen("me", timeout_s=60.0)
    listener._queue.queued_max = 2
    push(cluster, 0, 0, 1, 2, 3, 4)
    assert next(listener).event_index == 0
    assert next(listener).event_index == 1
    push(cluster, 5, 9)
    last = next(listener)
    assert (last.event_index, last.dropped) == (9, 3)


@pytest.mark.usefixtures("impatient")
def test_a_listener_survives_a_restart_of_the_cluster(tmp_data_dir: Path, client: Client) -> None:
    with FakeCluster(tmp_data_dir, "first") as first:
        listener = client.listen("me", timeout_s=60.0)
        push(first, 0, 1)
        assert next(listener).event_index == 1
    with FakeCluster(tmp_data_dir, "second") as second:
        got: list[int] = []
        hearing = threading.Thread(target=lambda: got.append(next(listener).event_index))
        hearing.start()
        while Op.LISTEN not in second.ops():
            time.sleep(0.005)
        while not got:  # it may have got another connection meanwhile
            push(second, 0, 2)
            hearing.join(0.2)
        assert got == [2]


@pytest.mark.usefixtures("impatient")
def test_a_listener_of_a_dead_cluster_does_not_wait_for_ever(tmp_data_dir: Path, client: Client) -> None:
    with FakeCluster(tmp_data_dir):
        client.hello()
        client._session.timeout_s = 0.5
        listener = client.listen("me")
    with pytest.raises(ReplyTimeoutError, match="listening"):
        next(listener)


def test_closing_the_client_ends_its_listeners(cluster: FakeCluster, client: Client) -> None:
    listener = client.listen("me")
    client.close()
    assert list(listener) == []
    with pytest.raises(PubSubError, match="closed"):
        client.ping()


def test_another_version_of_the_protocol_is_said(cluster: FakeCluster, client: Client) -> None:
    cluster.script = lambda _, m: reply_frames(m.request, {"version": 2}) if m.op == Op.HELLO else None
    for _ in range(2):
        with pytest.raises(ProtocolError, match="another version"):
            client.ping()
