"""The client publishes without waiting: answers as they come."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fake_cluster import SILENT, FakeCluster, Frames, matches_frames

from pubsub_cluster.client import Client, Pending
from pubsub_cluster.language.errors import (
    CallerError,
    LimitError,
    PubSubError,
    ReplyTimeoutError,
)
from pubsub_cluster.language.protocol import Message, Op, error_frames


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
        assert client.receive(60.0) > 0
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
    client.hello()
    client._session.timeout_s = 0.1
    pending = client.publish_soon([{"x": 1}])
    while Op.PUBLISH not in cluster.ops():
        time.sleep(0.005)
    with Client(endpoint=cluster.endpoint) as other:
        other.ping()  # so that the answer before it is on its way
    time.sleep(0.3)
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


def test_a_publication_without_an_answer_runs_out_of_time(cluster: FakeCluster, client: Client) -> None:
    cluster.script = lambda _, m: SILENT if m.op == Op.PUBLISH else None
    told: list[Pending] = []
    client.hello()
    client._session.timeout_s = 0.3
    sent_s = time.monotonic()
    pending = client.publish_soon([{"x": 1}], on_answer=told.append)
    assert client.receive(60.0) == 1
    assert told == [pending]
    assert pending.answered_at_s is not None and pending.answered_at_s >= sent_s + 0.3
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


@pytest.mark.usefixtures("impatient")
def test_unanswered_publications_are_sent_again_after_a_restart(tmp_data_dir: Path, client: Client) -> None:
    with FakeCluster(tmp_data_dir, "first", lambda _, m: SILENT if m.op == Op.PUBLISH else None) as first:
        sent = [client.publish_soon([{"x": i}]) for i in range(3)]
        while first.ops().count(Op.PUBLISH) < 3:
            time.sleep(0.005)
    with FakeCluster(tmp_data_dir, "second") as second:
        assert [len(pending.result()) for pending in sent] == [1, 1, 1]
        ids = [
            list(dict.fromkeys(m.request for m in life.seen if m.op == Op.PUBLISH))
            for life in (first, second)
        ]
        assert ids[0] == ids[1] and len(ids[0]) == 3


def test_too_many_unanswered_publications_wait(
    cluster: FakeCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pubsub_cluster.client.calls.PENDING_MAX", 4)
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
            client.receive(60.0)
    assert answers == [1] * 5
    client.ping()
