"""The client against a fake cluster: calls and answers."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_cluster import SILENT, FakeCluster, Frames, matches_frames

from pubsub_cluster.client import Client, Subscription
from pubsub_cluster.language.errors import (
    CallerError,
    DuplicateIdError,
    EventError,
    ExpressionError,
    LimitError,
    ProtocolError,
    PubSubError,
    UnknownIdError,
)
from pubsub_cluster.language.protocol import Message, Op, reply_frames
from pubsub_cluster.language.together import REQUESTS_SIZE_BYTES_MAX

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


def test_metadata_is_kept_unless_an_update_gives_it(cluster: FakeCluster, client: Client) -> None:
    client.subscribe("TRUE", id="a", metadata={"n": None})
    for given, sent in (({}, {}), ({"metadata": {"n": 1}},) * 2, ({"metadata": None},) * 2):
        client.update("a", "TRUE", **given)
        assert {name: cluster.subscriptions["a"][name] for name in sent} == sent
        assert given or "metadata" not in cluster.subscriptions["a"]
    for number in (math.nan, math.inf, -math.inf):
        for metadata in ({"a": number}, {"a": [{"b": (1.5, number)}], "c": None}):
            with pytest.raises(CallerError, match="a number that JSON does not have"):
                client.update("a", "TRUE", metadata=metadata)
            (refused,) = client.subscribe_many([{"expr": "TRUE", "metadata": metadata}])
            assert isinstance(refused, CallerError)
    assert set(cluster.subscriptions) == {"a"}


def test_one_id_is_no_list_of_ids(cluster: FakeCluster, client: Client) -> None:
    client.subscribe("TRUE", id="q1")
    for call in (client.unsubscribe_many, client.describe_many):
        with pytest.raises(CallerError, match=r"not one id; seen \"q1\"; .* Put it in a list"):
            call("q1")
    assert client.unsubscribe_many(iter(["q1"])) == [None]


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


def test_a_list_of_batches_is_sent_several_at_a_time(cluster: FakeCluster, client: Client) -> None:
    client.hello()
    del cluster.messages[:]
    found = list(client.publish_stream([[{"x": i}] for i in range(19)], in_flight=20))
    assert [len(matches) for matches in found] == [1] * 19
    assert cluster.messages == [4, 4, 4, 4, 3]  # a fifth of what is on its way
    assert [message.header["batch_id"].rsplit("-", 1)[1] for message in cluster.seen[-19:]] == [
        str(number) for number in range(1, 20)
    ]


@pytest.mark.parametrize("case", ["an iterator", "a cluster that does not say that it takes them", "large"])
def test_batches_that_are_sent_alone(cluster: FakeCluster, client: Client, case: str) -> None:
    cluster.requests_max = 0 if case.startswith("a cluster") else cluster.requests_max
    text = "n" * (REQUESTS_SIZE_BYTES_MAX if case == "large" else 1)
    made: Iterable[list[dict[str, str]]] = [[{"x": text}] for _ in range(4)]
    found = list(client.publish_stream(iter(made) if case == "an iterator" else made, in_flight=32))
    assert [len(matches) for matches in found] == [1] * 4
    assert set(cluster.messages) == {1}


def test_what_was_taken_from_a_list_is_sent_before_a_batch_that_cannot_be(
    cluster: FakeCluster, client: Client
) -> None:
    batches: list[Any] = [[{"x": 1}], [{"x": 2}], 7, [{"x": 3}]]
    with pytest.raises(EventError, match="no batch"):
        list(client.publish_stream(batches, in_flight=32))
    client.ping()
    assert cluster.ops() == ["publish", "publish", "ping"]


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
    monkeypatch.setattr("pubsub_cluster.client.watch.HEARTBEAT_S", 0.1)
    monkeypatch.setattr("pubsub_cluster.client.watch.SILENCE_TOLD_S", 0.2)
    monkeypatch.setattr("pubsub_cluster.client.session.UNLISTEN_S", 0.1)
    silences: list[str] = []
    fake = FakeCluster(tmp_path)
    with Client(endpoint=fake.endpoint, timeout_s=60.0) as client:
        with fake:
            client.hello()
            client._session.timeout_s = 0.3
            listener = client.listen("ann", timeout_s=0.9, on_silence=lambda: silences.append("silent"))
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


HALF = "\ud800"


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.publish([{}], batch_id=HALF),
        lambda client: client.publish([{}], batch_id=b"b"),
        lambda client: client.publish([{}], answer="all"),
        lambda client: client.publish([{}], at=2**64),
        lambda client: client.publish([{}], valid_until=math.nan),
        lambda client: client.publish(f'{{"x": "{HALF}"}}'),
        lambda client: client.publish({HALF: [1, 2]}),
        lambda client: client.subscribe("TRUE", retained=2**64),
        lambda client: client.subscribe("TRUE", valid_until=math.nan),
        lambda client: client.unsubscribe(HALF),
        lambda client: client.describe_many([HALF]),
        lambda client: client.listen("ann", durable=HALF),
        lambda client: client.forget("ann", HALF),
        lambda client: client.backup("/\udcff"),
        lambda client: client.tune_set("bm_max", 2**64),
    ],
)
def test_what_cannot_be_sent_is_an_error_of_ours(
    client: Client, cluster: FakeCluster, call: Callable[[Client], Any]
) -> None:
    with pytest.raises(CallerError):
        call(client)
    client.ping()
    assert cluster.ops() == ["ping"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_setting_is_finite_or_its_default(client: Client, cluster: FakeCluster, value: float) -> None:
    """JSON has no such number: what arrived would be null, which sets the default."""
    with pytest.raises(ProtocolError, match="not a finite number"):
        client.tune_set("bm_max", value)
