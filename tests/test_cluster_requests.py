"""What clients may ask of a live cluster, and what bad input gets: an answer, and nobody else anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest
import zmq
from clusters import next_generation, wait_until

from pubsub_cluster import Client, Cluster, attr
from pubsub_cluster.language.errors import (
    DomainError,
    DuplicateIdError,
    EventError,
    LimitError,
    PubSubError,
    TextSyntaxError,
    UnknownIdError,
)
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.protocol import MAGIC

pytestmark = pytest.mark.cluster
LIMITS = Limits(matches_per_batch_max=3_000, events_per_batch_max=2_000, subscriptions_per_request_max=500)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Pages of 1,000 rows: many matches come in several pages, with continuations.
    with Cluster(shards=2, limits=LIMITS, result_slot_bytes=4_096) as found:
        yield found


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with cluster.client() as found:
        yield found


def counters(client: Client) -> dict[str, int]:
    found: dict[str, int] = client.status()["counters"]
    return found


def test_answers_in_every_form(client: Client) -> None:
    first = client.subscribe(attr("form") == "a", id="form-a")
    second = client.subscribe('form IN ("a", "b")', id="form-ab")
    events = [{"form": "a"}, {"form": "b"}, {"form": "c"}]
    for batch in (
        events,
        {"form": ["a", "b", "c"]},
        {"form": np.array(["a", "b", "c"])},
        b'{"form":"a"}\n{"form":"b"}\n{"form":"c"}\n',
        orjson.dumps(events),
    ):
        found = client.publish(batch, ids=True)
        assert [handles.tolist() for handles in found] == [[first.handle, second.handle], [second.handle], []]
        assert found.ids_of(0) == ["form-a", "form-ab"]
    counts = client.publish(events, answer="counts").counts
    assert counts is not None
    assert counts.tolist() == [2, 1, 0]
    assert client.publish(events, answer="none").match_count == 3


def test_many_matches_come_in_pages_and_complete(client: Client) -> None:
    ids = [f"page{i}" for i in range(1_400)]
    client.subscribe_many([{"id": name, "expr": {"attr": "page", "op": "=", "value": 1}} for name in ids])
    for _ in range(2):  # from the delta, then from a layout
        found = client.publish([{"page": 0}, {"page": 1}, {"page": 2}, {"page": 1}], ids=True)
        assert [len(handles) for handles in found] == [0, 1_400, 0, 1_400]
        assert found.ids_of(1) == ids
        next_generation(client)
    client.unsubscribe_many(ids)


def test_too_many_matches_are_refused_with_a_remedy_and_nothing_else_suffers(client: Client) -> None:
    client.subscribe_many([{"id": f"flood{i}", "expr": "flood = 1"} for i in range(400)])
    with pytest.raises(LimitError, match="too many matches") as caught:
        client.publish([{"flood": 1}] * 10)
    assert caught.value.remedy
    assert client.publish([{"flood": 1}] * 7).match_count == 2_800
    client.unsubscribe_many([f"flood{i}" for i in range(400)])


def test_one_bad_item_leaves_the_others_good(client: Client) -> None:
    found = client.subscribe_many(
        [
            {"id": "good-1", "expr": "mixed > 1"},
            {"id": "bad-1", "expr": "mixed >"},
            {"id": "good-1", "expr": "mixed > 2"},
            {"id": "bad-2", "expr": {"attr": "mixed", "op": "=", "value": None}},
            {"id": "bad-3", "expr": {"attr": "mixed", "op": "=", "value": {"$float": "NaN"}}},
            {"id": "bad-4", "expr": {"attr": "mixed", "op": "=", "value": {"$int": str(2**63)}}},
            {"id": "bad-5", "expr": {"attr": "mixed", "op": "matches", "value": "(a"}},
            {"id": "good-2", "expr": "mixed < 1"},
        ]
    )
    kinds = [type(result) for result in found]
    assert [kind for kind in kinds if not issubclass(kind, PubSubError)] == [kinds[0]] * 2
    assert kinds[1] is TextSyntaxError
    assert kinds[2] is DuplicateIdError
    assert [len(handles) for handles in client.publish([{"mixed": 5}, {"mixed": 0}])] == [1, 1]


def test_metadata_is_kept_and_told(client: Client) -> None:
    client.subscribe("m = 1", id="m-one", owner="ann", metadata={"title": "One", "tags": ["a.b"]})
    made = client.subscribe("m = 2", id="m-two")
    one, none, two = client.describe_many(["m-one", "m-none", "m-two"])
    assert isinstance(one, dict) and one["metadata"] == {"title": "One", "tags": ["a.b"]}
    assert one["owner"] == "ann" and isinstance(none, UnknownIdError)
    assert isinstance(two, dict) and two["metadata"] is None and two["handle"] == made.handle
    client.update_many([{"id": "m-two", "expr": "m = 3", "metadata": {"level": "high"}}])
    assert len(client.describe_many(["m-two"] * 2_500)) == 2_500
    refused = client.subscribe_many([{"expr": "m = 4", "metadata": {"x": "y" * 5_000}}])[0]
    assert isinstance(refused, LimitError)


def test_wide_integers_in_raw_messages_are_refused_not_rounded(cluster: Cluster) -> None:
    for literal in (b"123456789012345678901234567890", b"1e400", b"NaN"):
        item = b'{"id":"wide","expr":{"attr":"w","op":"=","value":' + literal + b"}}"
        header = (
            b'{"op":"subscribe","request":"' + os.urandom(4).hex().encode() + b'","items":[' + item + b"]}"
        )
        body = raw_request(cluster, [MAGIC, header])
        refused = body["op"] == "error" or not body["results"][0]["ok"]
        assert refused, body


def test_bad_events_are_refused_by_index(client: Client) -> None:
    client.subscribe("n >= 0", id="n")
    events: list[Any] = [
        {"n": 1},
        {"n": float("nan")},
        {"n": 2**63},
        {"": 1},
        {"n": "\ud800"},
        "no event",
        {"n": 2},
    ]
    found = client.publish(events)
    assert [len(handles) for handles in found] == [1, 0, 0, 0, 0, 0, 1]
    assert sorted(found.refused) == [1, 2, 3, 4, 5]
    assert all(isinstance(error, EventError | DomainError | LimitError) for error in found.refused.values())
    lines = b'{"n":1}\n{"n":}\n{"n":1e400}\n[1]\n{"n":3}\n'
    assert sorted(client.publish(lines).refused) == [1, 2, 3]


def test_too_much_is_refused_before_it_is_sent(client: Client) -> None:
    with pytest.raises(LimitError, match="too many events"):
        client.publish([{}] * 2_001)
    with pytest.raises(LimitError, match="bytes"):
        client.publish([{"x": "y" * 900_000} for _ in range(6)])


def test_unknown_ids_are_errors(client: Client) -> None:
    with pytest.raises(UnknownIdError):
        client.unsubscribe("nobody")
    with pytest.raises(UnknownIdError):
        client.update("nobody", "x = 1")


def test_the_same_batch_id_gets_the_same_reply(cluster: Cluster) -> None:
    with cluster.client(publisher="twice") as client:
        client.subscribe("again = 1", id="again-1")
        first = client.publish([{"again": 1}], batch_id="b1")
        client.subscribe("again = 1", id="again-2")
        assert client.publish([{"again": 1}], batch_id="b1").version == first.version
        assert len(client.publish([{"again": 1}], batch_id="b1")[0]) == 1
        assert len(client.publish([{"again": 1}], batch_id="b2")[0]) == 2


def test_owners_are_told_who_asked_to_listen(cluster: Cluster) -> None:
    with cluster.client() as listener, cluster.client(publisher="press") as publisher:
        mine = publisher.subscribe("news > 1", owner="mia")
        publisher.subscribe("news > 1", owner="noah")
        inbox = listener.listen("mia", timeout_s=60.0)
        publisher.publish([{"news": 1}, {"news": 2, "deep": {"er": [1, None, "x"]}}], batch_id="n1")
        publisher.publish({"news": np.array([5.5])}, batch_id="n2")
        one, two = next(inbox), next(inbox)
        assert (one.publisher, one.batch_id, one.event_index, list(one.handles)) == (
            "press",
            "n1",
            1,
            [mine.handle],
        )
        assert one.event["news"] == 2
        assert (two.batch_id, two.event_index, two.event) == ("n2", 0, {"news": 5.5})
        assert two.sequence > one.sequence


def test_who_listens_hears_nothing_of_others(cluster: Cluster) -> None:
    with cluster.client() as listener, cluster.client() as publisher:
        publisher.subscribe("quiet = 1", owner="mia-2")
        inbox = listener.listen("somebody else", timeout_s=0.5)
        assert len(publisher.publish([{"quiet": 1}])[0]) == 1
        assert list(inbox) == []
        publisher.ping()


def test_a_refused_event_matches_and_tells_nobody(cluster: Cluster) -> None:
    with cluster.client() as listener, cluster.client() as publisher:
        made = [
            publisher.subscribe(expression, id=f"hollow{i}", owner="echo")
            for i, expression in enumerate(("NOT hollow > 5", "NOT EXISTS hollow"))
        ]
        inbox = listener.listen("echo", timeout_s=60.0)
        for batch in (
            [{"hollow": float("nan")}, {"hollow": 2}, "nothing", {"": 1}],
            b'{"hollow":NaN}\n{"hollow":2}\n{"hollow":\n{"":1}\n',
        ):
            found = publisher.publish(batch, ids=True)
            assert sorted(found.refused) == [0, 2, 3]
            assert found.counts is not None
            assert found.counts.tolist() == [0, 1, 0, 0]
            assert found.ids_of(1) == ["hollow0"]
        notes = [next(inbox), next(inbox)]
        inbox.timeout_s = 0.3
        assert list(inbox) == []
        assert [(note.event_index, note.ids, note.event) for note in notes] == [
            (1, ("hollow0",), {"hollow": 2})
        ] * 2
        publisher.unsubscribe_many([subscription.id for subscription in made])


def raw_request(cluster: Cluster, frames: list[bytes]) -> dict[str, Any]:
    """Send frames as they are; return the header of the reply."""
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    try:
        socket.connect(cluster.started["endpoint"])
        socket.send_multipart(frames)
        assert socket.poll(60_000), "no answer"
        body: dict[str, Any] = orjson.loads(socket.recv_multipart()[1])
        return body
    finally:
        socket.close(0)
        context.term()


def publish_header(batch: Any, **more: Any) -> bytes:
    fields = {
        "op": "publish",
        "request": os.urandom(4).hex(),
        "publisher": "raw",
        "batch_id": os.urandom(4).hex(),
    }
    return orjson.dumps({**fields, "batch": batch, **more})


@pytest.mark.parametrize(
    "frames",
    [
        [b"hello"],
        [b"HTTP/1.1", b"GET /"],
        [MAGIC, b"not json"],
        [MAGIC, b"[]"],
        [MAGIC, b'{"op":"publish"}'],
        [MAGIC, b'{"op":"format disk","request":"r"}'],
        [MAGIC, b'{"op":"ping","request":"r","extra":1}'],
        [MAGIC, publish_header(7)],
        [MAGIC, publish_header({"format": "json", "event_count": 1})],
        [MAGIC, publish_header({"format": "json", "event_count": 10**12}), b"", b""],
        [MAGIC, publish_header({"format": "json", "event_count": 1}), np.array([0, 99]).tobytes(), b"{}"],
        [MAGIC, publish_header({"format": "json", "event_count": 2}), np.array([0, 2, 1]).tobytes(), b"{}"],
        [
            MAGIC,
            publish_header({"format": "columns", "event_count": 1, "columns": [{"name": "x"}]}),
            b"12345678",
        ],
        [
            MAGIC,
            publish_header({"format": "json", "event_count": 0}, answer="all"),
            np.array([0]).tobytes(),
            b"",
        ],
        [MAGIC, publish_header({"format": "json", "event_count": 0}, at=5), np.array([0]).tobytes(), b""],
        [MAGIC, b'{"op":"subscribe","request":"q","items":7}'],
        [MAGIC, b'{"op":"listen","request":"q","owner":""}'],
        [MAGIC, b'{"op":"tune","request":"q","action":"loudly"}'],
    ],
)
def test_what_is_not_our_protocol_is_refused_counted_and_survived(
    cluster: Cluster, frames: list[bytes]
) -> None:
    with cluster.client() as client:
        before = counters(client)["messages_refused"]
        body = raw_request(cluster, frames)
        assert body["op"] == "error", body
        assert body["error"]["condition"]
        told = body["error"]["code"] == "bad_message"  # a limit reached is an answer, not a broken message
        assert counters(client)["messages_refused"] == before + told
        client.ping()


def test_an_oversize_frame_disconnects_only_its_sender(cluster: Cluster) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.connect(cluster.started["endpoint"])
    socket.send_multipart([MAGIC, b"x" * (8 << 20)])
    assert not socket.poll(300)
    socket.close(0)
    context.term()
    with cluster.client() as client:
        client.ping()


def test_a_publisher_that_is_too_fast_is_told_to_wait(cluster: Cluster) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.connect(cluster.started["endpoint"])
    offsets = np.arange(0, 2_000, 2, dtype=np.int64)
    for _ in range(60):
        socket.send_multipart(
            [MAGIC, publish_header({"format": "json", "event_count": 999}), offsets.tobytes(), b"{}" * 999]
        )
    answers = []
    for _ in range(60):
        assert socket.poll(60_000), "a request without an answer"
        answers.append(orjson.loads(socket.recv_multipart()[1]))
    socket.close(0)
    context.term()
    codes = {answer.get("error", {}).get("code", "ok") for answer in answers}
    assert codes <= {"ok", "busy"}
    assert "ok" in codes
    for answer in answers:
        if answer["op"] == "error":
            assert answer["error"]["retry_after_s"] > 0
    with cluster.client() as client:
        wait_until(lambda: client.status()["chunks_free"] >= 7, "chunks are given back")
