"""Small publications of a live cluster that travel as one group: each is answered as if it were alone.

A worker that is stopped for a moment makes them wait for one another.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters import stopped, wait_until

from pubsub_cluster import Client, Cluster
from pubsub_cluster.client import session
from pubsub_cluster.client.blocking import run
from pubsub_cluster.client.calls import _matches
from pubsub_cluster.language.errors import LimitError, ProtocolError, PubSubError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.protocol import Op

pytestmark = pytest.mark.cluster
EVENTS = 24
MATCHES_MAX = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("groups")
    folder.chmod(0o700)
    limits = Limits(matches_per_batch_max=MATCHES_MAX)
    with Cluster(folder, limits=limits) as found, found.client() as client:
        client.subscribe_many([{"id": f"n{i}", "expr": f"x = {i}", "owner": "o"} for i in range(EVENTS)])
        client.subscribe_many([{"id": f"m{i}", "expr": "y = 1"} for i in range(MATCHES_MAX - 10)])
        yield found


def send(
    client: Client, batch: Any, ids: bool = False, at: int | None = None, name: str | None = None
) -> Any:
    publication = run(client._calls._publication(batch, "handles", ids, name, at))
    return run(client._session.send(Op.PUBLISH, publication.fields, publication.buffers)), publication


def answer(client: Client, sent: Any) -> Any:
    """Return the matches, or the error, of what was sent."""
    request, publication = sent
    try:
        return _matches(run(client._session.wait(request)), publication)
    except PubSubError as error:
        return error


def publish_while_stopped(
    cluster: Cluster, client: Client, batches: list[Any], then: Callable[[int], None] = lambda _: None
) -> list[Any]:
    """Publish batches that wait for one another; return the answer to each."""
    with stopped(cluster) as pid, cluster.client() as other:
        before = accepted(other)
        sent = [send(client, batch, ids=True) for batch in batches]
        wait_until(lambda: accepted(other) - before == len(batches), "they are accepted")
        then(pid)
    return [answer(client, one) for one in sent]


def accepted(client: Client) -> int:
    return int(client.status()["counters"]["batches_accepted"])


def tasks(client: Client) -> int:
    return int(client.status()["workers"][0]["tasks"])


def test_each_gets_its_own_matches_and_ids(cluster: Cluster) -> None:
    with cluster.client() as client:
        before = tasks(client)
        found = publish_while_stopped(cluster, client, [[{"x": i}] for i in range(EVENTS)])
        assert [matches.ids_of(0) for matches in found] == [[f"n{i}"] for i in range(EVENTS)]
        assert tasks(client) - before < EVENTS / 2, "they did not travel together"


def test_columns_travel_together_too(cluster: Cluster) -> None:
    with cluster.client() as client:
        before = tasks(client)
        numbers = range(EVENTS - 2)
        batches = [{"x": np.arange(i, i + 2), "z": np.ones(2), "w": np.zeros(2, np.int64)} for i in numbers]
        found = publish_while_stopped(cluster, client, batches)
        assert [matches.ids for matches in found] == [[f"n{i}", f"n{i + 1}"] for i in numbers]
        assert [matches.counts.tolist() for matches in found] == [[1, 1]] * len(numbers)
        assert tasks(client) - before < EVENTS / 2, "they did not travel together"


def test_more_bytes_than_a_chunk_holds_travel_in_several_groups(cluster: Cluster) -> None:
    """Each is small, all that wait together are not: nobody is refused for the others' sake."""
    with cluster.client() as client:
        batches = [[{"x": at % EVENTS, "text": "t" * 30_000}] for at in range(200)]
        found = publish_while_stopped(cluster, client, batches)
        assert [matches.ids_of(0) for matches in found] == [[f"n{at % EVENTS}"] for at in range(200)]


def test_columns_of_another_form_travel_apart(cluster: Cluster) -> None:
    with cluster.client() as client:
        batches: list[Any] = []
        for i in range(8):
            batches.append({"x": np.full(2, i), "y": np.zeros(2), "z": np.zeros(2)})
            batches.append({"y": np.zeros(2), "x": np.full(2, i), "z": np.zeros(2)})
            batches.append({"x": np.full(3, i), "y": np.zeros(3), "z": np.zeros(3)})
        found = publish_while_stopped(cluster, client, batches)
        for number, matches in enumerate(found):
            assert matches.ids == [f"n{number // 3}"] * len(matches)


def test_refused_events_have_the_index_of_their_own_batch(cluster: Cluster) -> None:
    with cluster.client() as client:
        batches: list[Any] = [b'{"x": 1}\n{"x": 2}', b'{"x": 3}\n{"x": ', b'17\n{"x": 4}', b'{"x": 5}']
        found = publish_while_stopped(cluster, client, batches * 4)
        for number, matches in enumerate(found):
            refused = {1: [1], 2: [0]}.get(number % 4, [])
            assert sorted(matches.refused) == refused
            assert [error.fields["event_index"] for error in matches.refused.values()] == refused
            assert matches.match_count == len(matches) - len(refused)


def test_too_many_matches_of_one_are_the_refusal_of_one(cluster: Cluster) -> None:
    with cluster.client() as client:
        batches = [[{"x": i, "y": i % 2}] for i in range(EVENTS)]
        batches[5] = [{"y": 1}] * 3
        found = publish_while_stopped(cluster, client, batches)
        assert isinstance(found[5], LimitError)
        del found[5]
        expected = [1 + (i % 2) * (MATCHES_MAX - 10) for i in range(EVENTS) if i != 5]
        assert [matches.match_count for matches in found] == expected


def test_a_worker_that_dies_with_a_group_costs_nobody_an_answer(cluster: Cluster) -> None:
    with cluster.client() as client:
        batches = [[{"x": i}] for i in range(EVENTS)]
        found = publish_while_stopped(cluster, client, batches, lambda pid: os.kill(pid, signal.SIGKILL))
        assert [matches.ids_of(0) for matches in found] == [[f"n{i}"] for i in range(EVENTS)]


def test_a_batch_sent_twice_in_a_group_is_matched_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SILENCE_S", 0.2)  # who was not answered asks again
    with cluster.client(publisher="twice") as client, cluster.client(publisher="twice") as other:
        answered = client.status()["counters"]["batches_answered"]
        with stopped(cluster):
            sent = [send(sender, [{"x": 3}], name="same") for sender in (client, other, client)]
        assert answer(client, sent[-1]).match_count == 1
        assert client.publish([{"x": 3}], batch_id="same").match_count == 1
        assert client.status()["counters"]["batches_answered"] - answered == 1


def test_owners_hear_of_each_batch(cluster: Cluster) -> None:
    with cluster.client() as client, cluster.client() as ear, ear.listen("o", timeout_s=60.0) as heard:
        publish_while_stopped(cluster, client, [[{"x": 99}, {"x": i}] for i in range(6)])
        told = [next(heard) for _ in range(6)]
        assert [(one.event_index, one.ids, one.event) for one in told] == [
            (1, (f"n{i}",), {"x": i}) for i in range(6)
        ]
        assert len({one.batch_id for one in told}) == 6


def test_times_are_not_mixed(tmp_data_dir: Path) -> None:
    with Cluster(tmp_data_dir, injected_clock=True) as cluster, cluster.client() as client:
        client.subscribe("x >= 0", id="early", valid_until=10)
        client.subscribe("x >= 0", id="late", valid_from=10)
        with stopped(cluster):
            sent = [send(client, [{"x": 1}], ids=True, at=at) for at in (1, 1, 1, 9, 9, 10, 10, 11, 11)]
        found = [answer(client, one) for one in sent]
        assert [matches.ids_of(0)[0] for matches in found] == ["early"] * 5 + ["late"] * 4


def test_columns_are_checked_though_their_like_was_good(cluster: Cluster) -> None:
    """Dense numbers of a known form are not looked at again; anything else is, each time."""
    with cluster.client() as client:
        numbers = {f"c{i}": np.arange(4) for i in range(3)} | {"x": np.arange(4)}
        texts = {"x": np.arange(4), "y": np.array(["a", "b", "c", "d"])}
        for _ in range(2):
            assert client.publish(numbers).counts.tolist() == [1, 1, 1, 1]
            assert client.publish(texts).counts.tolist() == [1, 1, 1, 1]
        for batch, spoil in ((numbers, b""), (texts, b"\xff" * 4)):
            publication = run(client._calls._publication(batch, "handles", False, None, None))
            sizes, frame = publication.fields["sizes"], publication.buffers[0]
            bad = frame[:-8] + spoil.ljust(8, b"\0") if spoil else frame[:-8]
            with pytest.raises(ProtocolError):
                run(client._session.ask(Op.PUBLISH, {**publication.fields, "sizes": sizes}, [bad]))
