"""The client against a fake cluster: calls and answers, and what it does when the cluster does not behave."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_cluster import SILENT, FakeCluster, Frames

from pubsub_cluster.client import Client, Pending, Subscription, session
from pubsub_cluster.language.errors import (
    BusyError,
    CallerError,
    DuplicateIdError,
    EventError,
    ExpressionError,
    LimitError,
    ProtocolError,
    PubSubError,
    ReplyTimeoutError,
    UnknownIdError,
)
from pubsub_cluster.language.protocol import Message, Op, error_frames, reply_frames


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client ask after a tenth of a second instead of two seconds."""
    monkeypatch.setattr(session, "SILENCE_S", 0.1)
    monkeypatch.setattr(session, "HEARTBEAT_S", 0.1)


@pytest.fixture
def cluster(tmp_data_dir: Path) -> Iterator[FakeCluster]:
    with FakeCluster(tmp_data_dir) as fake:
        yield fake


@pytest.fixture
def client(tmp_data_dir: Path) -> Iterator[Client]:
    with Client(tmp_data_dir, timeout_s=5.0) as made:
        yield made


def matches_frames(message: Message, handles: list[list[int]], **extra: Any) -> Frames:
    """The answer to a batch with these handles for each of its events."""
    offsets = np.cumsum([0] + [len(part) for part in handles]).astype(np.int64)
    flat = np.array([h for part in handles for h in part], np.uint64)
    fields = {
        "event_count": len(handles),
        "generation": 3,
        "version": 7,
        "match_count": len(flat),
        "refused": {},
    }
    return reply_frames(message.request, {**fields, **extra}, [offsets.tobytes(), flat.tobytes()])


# -- the catalogue ---------------------------------------------------------------------------------


def test_subscribe_update_unsubscribe(cluster: FakeCluster, client: Client) -> None:
    made = client.subscribe('origin = "JFK"', id="a", owner="me", valid_from=1)
    assert made == Subscription("a", 1, 1, False)
    assert cluster.subscriptions["a"]["owner"] == "me"
    assert "valid_until" not in cluster.subscriptions["a"], "what is not given is not sent"
    assert client.update("a", {"attr": "x", "op": "=", "value": 1}, valid_until=None).handle == 1
    assert cluster.subscriptions["a"]["valid_until"] is None
    assert "valid_from" not in cluster.subscriptions["a"]
    client.unsubscribe("a")
    with pytest.raises(UnknownIdError):
        client.unsubscribe("a")
    with pytest.raises(UnknownIdError):
        client.update("a", "TRUE")


def test_an_id_is_made_for_a_subscription_without_one(cluster: FakeCluster, client: Client) -> None:
    first, second = client.subscribe("TRUE"), client.subscribe("TRUE")
    assert first.id != second.id


def test_one_bad_item_leaves_the_others_good(cluster: FakeCluster, client: Client) -> None:
    client.subscribe("TRUE", id="taken")
    results = client.subscribe_many(
        [
            {"id": "a", "expr": "x > 1"},
            {"id": "b", "expr": {"attr": "x", "op": "=", "value": float("nan")}},
            {"id": "taken", "expr": "x > 1"},
            {"id": "c"},
            {"id": "d", "expr": "x > 1", "colour": "red"},
            {"id": "e", "expr": 7},
            {"id": "f", "expr": "\ud800"},
            "not an item",  # type: ignore[list-item]
            {"id": "g", "expr": "x" * (9 << 20)},
            {"id": "z", "expr": "x > 1"},
        ]
    )
    kinds = [type(r) for r in results]
    assert kinds[0] is kinds[-1] is Subscription
    assert kinds[2] is DuplicateIdError
    assert all(issubclass(kind, PubSubError) for kind in kinds[1:-1])
    assert [kinds[i] for i in (3, 4, 7, 8)] == [ProtocolError, ProtocolError, ProtocolError, LimitError]
    assert set(cluster.subscriptions) == {"taken", "a", "z"}


def test_infinity_travels_tagged(cluster: FakeCluster, client: Client) -> None:
    client.subscribe({"attr": "x", "op": "=", "value": float("inf")}, id="a")
    assert cluster.subscriptions["a"]["expr"]["value"] == {"$float": "Infinity"}


def test_many_subscriptions_are_split_and_stay_in_order(cluster: FakeCluster, client: Client) -> None:
    cluster.limits["subscriptions_per_request_max"] = 30
    progress: list[int] = []
    results = client.subscribe_many(({"id": str(i), "expr": "TRUE"} for i in range(100)), progress.append)
    assert [r.id for r in results if isinstance(r, Subscription)] == [str(i) for i in range(100)]
    assert [len(m.header["items"]) for m in cluster.seen if m.op == Op.SUBSCRIBE] == [30, 30, 30, 10]
    assert progress == [30, 60, 90, 100]
    assert client.unsubscribe_many(["5", "no such", "7"])[0::2] == [None, None]


def test_requests_are_split_by_size_too(cluster: FakeCluster, client: Client) -> None:
    cluster.limits["batch_size_bytes_max"] = 1_000
    client.subscribe_many([{"id": str(i), "expr": f'name = "{"n" * 400}"'} for i in range(8)])
    assert len([m for m in cluster.seen if m.op == Op.SUBSCRIBE]) == 4
    assert len(cluster.subscriptions) == 8


def test_a_reply_with_too_few_results_is_said(cluster: FakeCluster, client: Client) -> None:
    cluster.script = lambda _, m: (
        reply_frames(m.request, {"results": [], "version": 1}) if m.op == Op.SUBSCRIBE else None
    )
    with pytest.raises(ProtocolError, match="one result per item"):
        client.subscribe("TRUE")


# -- events ----------------------------------------------------------------------------------------


def test_matches_come_as_offsets_and_handles(cluster: FakeCluster, client: Client) -> None:
    refused = {"1": EventError("NaN", event_index=1).to_dict()}
    cluster.script = lambda _, m: (
        matches_frames(m, [[4, 9], [], [2**64 - 1]], refused=refused) if m.op == Op.PUBLISH else None
    )
    matches = client.publish([{"x": 1}, {"x": float("nan")}, {"x": 3}])
    assert len(matches) == 3 and matches.match_count == 3
    assert matches[0].tolist() == [4, 9]
    assert [part.tolist() for part in matches] == [[4, 9], [], [2**64 - 1]]
    assert matches[-1].dtype == np.uint64
    assert matches.counts is not None and matches.counts.tolist() == [2, 0, 1]
    assert isinstance(matches.refused[1], EventError)
    assert (matches.generation, matches.version) == (3, 7)
    with pytest.raises(IndexError):
        matches[3]
    with pytest.raises(ValueError, match="ids=True"):
        matches.ids_of(0)


def test_ids_come_when_asked_for(cluster: FakeCluster, client: Client) -> None:
    def script(_: FakeCluster, message: Message) -> Frames | None:
        if message.op != Op.PUBLISH:
            return None
        assert message.header["ids"] is True
        frames = matches_frames(message, [[1], [1, 2]])
        return [*frames, np.array([0, 1, 2, 4], np.int64).tobytes(), "aaé".encode()]

    cluster.script = script
    matches = client.publish([{}, {}], ids=True)
    assert matches.ids_of(0) == ["a"] and matches.ids_of(1) == ["a", "é"]
    with pytest.raises(CallerError, match="handles"):
        client.publish([{}], ids=True, answer="counts")


def test_counts_only_and_nothing_at_all(cluster: FakeCluster, client: Client) -> None:
    counted = client.publish([{"x": 1}] * 3, answer="counts")
    assert counted.counts is not None and counted.counts.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="without handles"):
        counted[0]
    silent = client.publish([{"x": 1}], answer="none")
    assert silent.counts is None and len(silent) == 1


@pytest.mark.parametrize(
    "batch",
    [
        [{"x": 1}, {"x": 2}],
        {"x": np.array([1, 2])},
        {"x": [1, 2]},
        b'{"x": 1}\n{"x": 2}\n',
        '[{"x": 1}, {"x": 2}]',
    ],
)
def test_every_form_of_a_batch(cluster: FakeCluster, client: Client, batch: Any) -> None:
    assert len(client.publish(batch)) == 2
    assert cluster.seen[-1].header["batch"]["event_count"] == 2


def test_what_is_no_batch_is_refused_here(cluster: FakeCluster, client: Client) -> None:
    with pytest.raises(CallerError, match="no batch"):
        client.publish(7)  # type: ignore[arg-type]
    cluster.limits["events_per_batch_max"] = 2
    with Client(endpoint=cluster.endpoint) as other, pytest.raises(LimitError, match="too many events"):
        other.publish([{}, {}, {}])
    cluster.limits["batch_size_bytes_max"] = 100
    with Client(endpoint=cluster.endpoint) as other, pytest.raises(LimitError, match="Split the batch"):
        other.publish([{"x": "y" * 200}])
    assert cluster.ops() == []


def test_an_event_that_cannot_be_encoded_is_refused_with_its_index(
    cluster: FakeCluster, client: Client
) -> None:
    matches = client.publish([{"x": 1}, {"x": object()}, {"x": 2**64}])
    assert set(matches.refused) == {1, 2}


@pytest.mark.parametrize(
    "buffers",
    [
        [],
        [np.zeros(2, np.int64).tobytes()],
        [b"1234567", b""],
        [np.array([0, 5], np.int64).tobytes(), b""],
        [np.array([1, 0], np.int64).tobytes(), b""],
        [np.zeros(2, np.int64).tobytes(), b"12345678"],
    ],
)
def test_buffers_that_lie_are_refused(cluster: FakeCluster, client: Client, buffers: list[bytes]) -> None:
    fields = {"event_count": 1, "generation": 1, "version": 1, "match_count": 0, "refused": {}}
    cluster.script = lambda _, m: reply_frames(m.request, fields, buffers) if m.op == Op.PUBLISH else None
    with pytest.raises(ProtocolError):
        client.publish([{}])


def test_a_stream_keeps_batches_in_flight_and_order(cluster: FakeCluster, client: Client) -> None:
    """Replies come two by two, the later one first."""
    held: list[Message] = []

    def script(fake: FakeCluster, message: Message) -> Frames | None:
        if message.op != Op.PUBLISH:
            return None
        held.append(message)
        if len(held) % 2:
            return SILENT
        early = held[-2]
        fake.later(matches_frames(early, [[int(early.header["batch_id"].rsplit("-", 1)[1])]]))
        return matches_frames(message, [[int(message.header["batch_id"].rsplit("-", 1)[1])]])

    cluster.script = script
    handles = [int(m[0][0]) for m in client.publish_stream([[{"x": i}] for i in range(10)], in_flight=4)]
    assert handles == sorted(handles) and len(set(handles)) == 10


def test_a_stream_takes_batches_only_as_it_needs_them(cluster: FakeCluster, client: Client) -> None:
    taken: list[int] = []

    def batches() -> Iterator[list[dict[str, int]]]:
        for i in range(100):
            taken.append(i)
            yield [{"x": i}]

    stream = client.publish_stream(batches(), in_flight=3)
    next(stream)
    assert len(taken) == 3
    stream.close()  # type: ignore[attr-defined]
    client.ping()


# -- time, loss, restarts --------------------------------------------------------------------------


def test_no_socket_file_is_said_at_once_and_what_to_do(tmp_data_dir: Path) -> None:
    start_s = time.monotonic()
    with Client(tmp_data_dir, timeout_s=30.0) as client, pytest.raises(ReplyTimeoutError) as caught:
        client.ping()
    assert time.monotonic() - start_s < 10.0
    assert "pubsub-cluster status" in str(caught.value)
    assert str(tmp_data_dir) in caught.value.fields["endpoint"]


def test_silence_ends_with_the_time_limit(cluster: FakeCluster) -> None:
    cluster.script = lambda _, m: SILENT if m.op != Op.HELLO else None
    with Client(endpoint=cluster.endpoint, timeout_s=0.5) as client:
        with pytest.raises(ReplyTimeoutError, match="`status`"):
            client.status()
        cluster.script = None
        client.status()


def test_a_lost_request_is_sent_again_with_its_ids(cluster: FakeCluster, client: Client) -> None:
    def script(_: FakeCluster, message: Message) -> Frames | None:
        return SILENT if message.op == Op.PUBLISH and cluster.ops().count(Op.PUBLISH) == 1 else None

    cluster.script = script
    assert len(client.publish([{"x": 1}])) == 1
    first, second = (m for m in cluster.seen if m.op == Op.PUBLISH)
    assert first.request == second.request
    assert first.header == second.header
    assert [bytes(b) for b in first.buffers] == [bytes(b) for b in second.buffers]


def test_a_silent_cluster_gets_a_new_connection(cluster: FakeCluster, client: Client) -> None:
    client.ping()
    silent_until_s = time.monotonic() + 0.5
    cluster.script = lambda _, m: SILENT if time.monotonic() < silent_until_s else None
    assert client.subscribe("TRUE", id="a").id == "a"
    assert client._session.connection.reconnect_count > 0


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
        asking.join(10.0)
        assert [s.id for s in answer] == ["a"]
        assert second.ops()[0] == "subscribe"


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
        asking.join(10.0)
    if given:
        assert isinstance(outcome[0], DuplicateIdError)
        assert "before the restart" in str(outcome[0])
    else:
        assert isinstance(outcome[0], Subscription) and outcome[0].handle == 1
    assert len(second.subscriptions) == 1


# -- listening -------------------------------------------------------------------------------------


def push(fake: FakeCluster, sequence: int, *event_idxs: int, dropped: int = 0) -> None:
    events = [{"event_index": i, "handles": [i + 1], "ids": [f"s{i}"], "event": {"x": i}} for i in event_idxs]
    fake.push("me", publisher="p", batch_id="b", sequence=sequence, dropped=dropped, events=events)


def test_notifications_come_one_event_at_a_time(cluster: FakeCluster, client: Client) -> None:
    with client.listen("me", timeout_s=5.0) as listener:
        push(cluster, 0, 3, 5)
        push(cluster, 4, 0, dropped=3)
        got = [next(listener) for _ in range(3)]
    assert [(n.event_index, n.handles, n.event) for n in got[:2]] == [
        (3, (4,), {"x": 3}),
        (5, (6,), {"x": 5}),
    ]
    assert [(n.sequence, n.dropped) for n in got] == [(0, 0), (0, 0), (4, 3)]
    assert (got[0].owner, got[0].publisher, got[0].batch_id) == ("me", "p", "b")
    assert cluster.ops() == ["listen", "unlisten"]


def test_a_listener_ends_when_its_time_is_up(cluster: FakeCluster, client: Client) -> None:
    assert list(client.listen("me", timeout_s=0.2)) == []


def test_notifications_that_arrive_during_other_calls_are_kept(cluster: FakeCluster, client: Client) -> None:
    listener = client.listen("me", timeout_s=5.0)
    push(cluster, 0, 1)
    for _ in range(20):
        client.ping()
    assert next(listener).event_index == 1


def test_infinities_in_events_come_back(cluster: FakeCluster, client: Client) -> None:
    listener = client.listen("me", timeout_s=5.0)
    events = [
        {"event_index": 0, "handles": [1], "ids": ["s"], "event": {"x": [{"$float": "-inf"}], "y": {"z": 1}}}
    ]
    cluster.push("me", publisher="p", batch_id="b", sequence=0, dropped=0, events=events)
    assert next(listener).event == {"x": [float("-inf")], "y": {"z": 1}}


def test_what_finds_no_room_is_counted(cluster: FakeCluster, client: Client) -> None:
    listener = client.listen("me", timeout_s=5.0)
    listener._queued_max = 2
    push(cluster, 0, 0, 1, 2, 3, 4)
    assert next(listener).event_index == 0
    assert next(listener).event_index == 1
    push(cluster, 1, 9)
    last = next(listener)
    assert (last.event_index, last.dropped) == (9, 3)


def test_a_listener_survives_a_restart_of_the_cluster(tmp_data_dir: Path, client: Client) -> None:
    with FakeCluster(tmp_data_dir, "first") as first:
        listener = client.listen("me", timeout_s=10.0)
        push(first, 0, 1)
        assert next(listener).event_index == 1
    with FakeCluster(tmp_data_dir, "second") as second:
        got: list[int] = []
        hearing = threading.Thread(target=lambda: got.append(next(listener).event_index))
        hearing.start()
        while Op.LISTEN not in second.ops():
            time.sleep(0.005)
        push(second, 0, 2)
        hearing.join(10.0)
        assert got == [2]


def test_a_listener_of_a_dead_cluster_does_not_wait_for_ever(tmp_data_dir: Path) -> None:
    with Client(tmp_data_dir, timeout_s=0.5) as client:
        with FakeCluster(tmp_data_dir):
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


# -- publishing without waiting --------------------------------------------------------------------


def test_answers_come_as_they_come(cluster: FakeCluster, client: Client) -> None:
    """The later publication is answered first; each tells its own."""
    held: list[Message] = []

    def script(fake: FakeCluster, message: Message) -> Frames | None:
        if message.op != Op.PUBLISH:
            return None
        held.append(message)
        if len(held) < 2:
            return SILENT
        fake.later(matches_frames(held[0], [[1]]))
        return matches_frames(message, [[2]])

    cluster.script = script
    told: list[Pending] = []
    first = client.publish_soon([{"x": 1}], on_answer=told.append)
    assert not first.done and first.answered_at_s is None
    before_s = time.monotonic()
    second = client.publish_soon([{"x": 2}], on_answer=told.append)
    while len(told) < 2:
        assert client.receive(5.0) > 0
    assert told == [second, first]
    assert first.answered_at_s is not None and second.answered_at_s is not None
    assert before_s <= second.answered_at_s <= first.answered_at_s <= time.monotonic()
    assert [one.result()[0].tolist() for one in (first, second)] == [[1], [2]]
    assert first.result() is first.result()
    assert client.receive() == 0


def test_other_calls_take_answers_in_too(cluster: FakeCluster, client: Client) -> None:
    told: list[Pending] = []
    sent = [client.publish_soon([{"x": i}], on_answer=told.append) for i in range(20)]
    client.ping()  # its answer is the last
    assert told == sent and all(one.done for one in sent)
    unwatched = client.publish_soon([{"x": 1}, {"x": object()}])
    assert set(unwatched.result().refused) == {1}


def test_an_answer_that_waits_in_the_socket_is_not_late(cluster: FakeCluster, client: Client) -> None:
    with Client(endpoint=cluster.endpoint, timeout_s=0.2) as hasty:
        pending = hasty.publish_soon([{"x": 1}])
        time.sleep(0.4)
        assert len(pending.result()) == 1


def test_one_refusal_is_one_publications_own(cluster: FakeCluster, client: Client) -> None:
    cluster.script = lambda _, m: (
        error_frames(m.request, LimitError("too many matches"))
        if m.op == Op.PUBLISH and m.header["batch_id"] == "bad"
        else None
    )
    sent = [client.publish_soon([{"x": 1}], batch_id=name) for name in ("a", "bad", "c")]
    assert len(sent[2].result()) == len(sent[0].result()) == 1
    for _ in range(2):
        with pytest.raises(LimitError, match="too many matches"):
            sent[1].result()
    with pytest.raises(CallerError):
        client.publish_soon(7)  # type: ignore[arg-type]


def test_a_publication_without_an_answer_runs_out_of_time(cluster: FakeCluster) -> None:
    cluster.script = lambda _, m: SILENT if m.op == Op.PUBLISH else None
    told: list[Pending] = []
    with Client(endpoint=cluster.endpoint, timeout_s=0.3) as client:
        pending = client.publish_soon([{"x": 1}], on_answer=told.append)
        assert client.receive(0.05) == 0
        assert client.receive(5.0) == 1
        assert told == [pending] and pending.answered_at_s is not None
        with pytest.raises(ReplyTimeoutError):
            pending.result()


def test_closing_ends_what_is_unanswered(cluster: FakeCluster, client: Client) -> None:
    cluster.script = lambda _, m: SILENT if m.op == Op.PUBLISH else None
    told: list[Pending] = []
    sent = [client.publish_soon([{"x": i}], on_answer=told.append) for i in range(3)]
    client.close()
    assert told == sent
    for pending in sent:
        with pytest.raises(PubSubError, match="closed"):
            pending.result()
    for call in (client.receive, lambda: client.publish_soon([{}])):
        with pytest.raises(PubSubError, match="closed"):
            call()


def test_unanswered_publications_are_sent_again_after_a_restart(tmp_data_dir: Path, client: Client) -> None:
    with FakeCluster(tmp_data_dir, "first", lambda _, m: SILENT if m.op == Op.PUBLISH else None) as first:
        sent = [client.publish_soon([{"x": i}]) for i in range(3)]
        while first.ops().count(Op.PUBLISH) < 3:
            time.sleep(0.005)
    with FakeCluster(tmp_data_dir, "second") as second:
        assert [len(pending.result()) for pending in sent] == [1, 1, 1]
        assert [m.request for m in second.seen if m.op == Op.PUBLISH] == [
            m.request for m in first.seen if m.op == Op.PUBLISH
        ]


def test_too_many_unanswered_publications_wait(
    cluster: FakeCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pubsub_cluster.client.client.PENDING_MAX", 4)
    sent = []
    for number in range(20):
        sent.append(client.publish_soon([{"x": number}]))
        assert sum(not pending.done for pending in sent) <= 4
    assert [len(pending.result()) for pending in sent] == [1] * 20


def test_whoever_is_told_may_publish_and_may_fail(cluster: FakeCluster, client: Client) -> None:
    answers: list[int] = []

    def next_one(pending: Pending) -> None:
        answers.append(len(pending.result()))
        if len(answers) < 5:
            client.publish_soon([{"x": len(answers)}], on_answer=next_one)
        if len(answers) == 2:
            client.publish([{"y": 1}])
        if len(answers) == 5:
            raise ValueError("enough")

    client.publish_soon([{"x": 0}], on_answer=next_one)
    with pytest.raises(ValueError, match="enough"):
        while True:
            client.receive(1.0)
    assert answers == [1] * 5
    client.ping()


# -- the rest --------------------------------------------------------------------------------------


def test_the_small_calls(cluster: FakeCluster, client: Client) -> None:
    client.ping()
    assert client.hello()["cluster_id"] == "c1"
    assert client.status() == {}
    assert client.tune_show() == {"action": "show"}
    assert client.tune_now() == {"action": "now"}
    client.stop_cluster()
    assert cluster.ops() == ["ping", "status", "tune", "tune", "stop"]


def test_expressions_of_every_form_are_carried(cluster: FakeCluster, client: Client) -> None:
    from pubsub_cluster.language.json_form import expression_from_json
    from pubsub_cluster.language.python_form import attr

    body = {"attr": "x", "op": ">", "value": 1}
    for number, expression in enumerate([body, expression_from_json(body), attr("x") > 1]):
        client.subscribe(expression, id=str(number))
        assert cluster.subscriptions[str(number)]["expr"] == body
    with pytest.raises((ExpressionError, TypeError)):
        client.subscribe(None)


def test_a_listener_may_wait_out_a_silence_and_closes_without_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pubsub_cluster.client.session.HEARTBEAT_S", 0.1)
    monkeypatch.setattr("pubsub_cluster.client.session.SILENCE_TOLD_S", 0.2)
    monkeypatch.setattr("pubsub_cluster.client.session.UNLISTEN_S", 0.1)
    silences: list[str] = []
    fake = FakeCluster(tmp_path)
    with Client(endpoint=fake.endpoint, timeout_s=0.5) as client:
        with fake:
            listener = client.listen("ann", timeout_s=1.2, on_silence=lambda: silences.append("silent"))
        with listener:
            assert list(listener) == []  # three times the client's time limit, and no error
        assert silences == ["silent"]
        assert listener.closed


def test_the_client_is_imported_without_the_machinery() -> None:
    """Neither numba nor pyspark nor shared memory: the client must be cheap to import."""
    code = "import sys, pubsub_cluster.client; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"numba", "pyspark", "multiprocessing.shared_memory", "re2", "pandas"}
    assert not any(name.startswith(("pubsub_cluster.shm", "pubsub_cluster.workers")) for name in loaded)
