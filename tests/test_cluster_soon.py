"""`Client.publish_soon` with a live cluster: answers as they come, one by one and several in a message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import stopped, wait_until

from pubsub_cluster import Cluster, Pending
from pubsub_cluster.client import session
from pubsub_cluster.language.errors import LimitError, PubSubError, ReplyTimeoutError
from pubsub_cluster.language.limits import Limits

pytestmark = pytest.mark.cluster
EVENTS = 24
MATCHES_MAX = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("soon")
    folder.chmod(0o700)
    with Cluster(folder, limits=Limits(matches_per_batch_max=MATCHES_MAX)) as found, found.client() as client:
        client.subscribe_many([{"id": f"n{i}", "expr": f"x = {i}"} for i in range(EVENTS)])
        client.subscribe_many([{"id": f"m{i}", "expr": "y = 1"} for i in range(MATCHES_MAX - 10)])
        yield found


def accepted(cluster: Cluster) -> int:
    with cluster.client() as client:
        return int(client.status()["counters"]["batches_accepted"])


@pytest.mark.parametrize("ids", [True, False])
def test_each_has_its_own_answer(cluster: Cluster, ids: bool) -> None:
    told: list[Pending] = []
    with cluster.client() as client:
        handles = [client.publish([{"x": i}])[0].tolist() for i in range(EVENTS)]
        before = accepted(cluster)
        with stopped(cluster):  # so that they travel as one group, and their answers in one message
            sent = [client.publish_soon([{"x": i}], ids=ids, on_answer=told.append) for i in range(EVENTS)]
            wait_until(lambda: accepted(cluster) - before == EVENTS, "they are accepted")
            assert client.receive() == 0 and not told
        while len(told) < EVENTS:
            assert client.receive(60.0)
        assert sorted(map(id, told)) == sorted(map(id, sent))
        assert [pending.result()[0].tolist() for pending in sent] == handles
        if ids:
            assert [pending.result().ids_of(0) for pending in sent] == [[f"n{i}"] for i in range(EVENTS)]
        counted = [client.publish_soon([{"x": i}], answer="counts") for i in range(EVENTS)]
        assert [pending.result().match_count for pending in counted] == [1] * EVENTS


def test_a_refusal_is_one_publications_own(cluster: Cluster) -> None:
    with cluster.client() as client:
        with stopped(cluster):
            batches = [[{"x": i}] for i in range(EVENTS)]
            batches[3] = [{"y": 1}] * 3
            sent = [client.publish_soon(batch) for batch in batches]
            broken = client.publish_soon(b'{"x": 3}\n{"x": ')
        for number, pending in enumerate(sent):
            if number == 3:
                with pytest.raises(LimitError, match="too many"):
                    pending.result()
            else:
                assert pending.result().match_count == 1
        matches = broken.result()
        assert sorted(matches.refused) == [1] and matches.match_count == 1


def test_time_runs_out_and_a_late_answer_does_no_harm(cluster: Cluster) -> None:
    with cluster.client() as client:
        client.hello()
        client._session.timeout_s = 0.5
        with stopped(cluster):
            sent = [client.publish_soon([{"x": i}]) for i in range(4)]
            for pending in sent:
                with pytest.raises(ReplyTimeoutError):
                    pending.result()
        with cluster.client() as patient:
            assert patient.publish([{"x": 5}]).match_count == 1
        wait_until(lambda: client.receive(0.05) == 0, "the late answers are in")
        with cluster.client() as after:
            assert after.publish_soon([{"x": 6}]).result().match_count == 1


def test_closing_ends_what_is_on_its_way(cluster: Cluster) -> None:
    told: list[Pending] = []
    with stopped(cluster):
        with cluster.client() as client:
            sent = [client.publish_soon([{"x": i}], on_answer=told.append) for i in range(4)]
        assert told == sent
        for pending in sent:
            with pytest.raises(PubSubError, match="closed"):
                pending.result()
    with cluster.client() as client:
        assert client.publish([{"x": 1}]).match_count == 1


def test_what_is_on_its_way_survives_a_restart(tmp_data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SILENCE_S", 0.2)
    with Cluster(tmp_data_dir) as cluster, cluster.client() as client:
        client.subscribe_many([{"id": f"n{i}", "expr": f"x = {i}"} for i in range(EVENTS)])
        with stopped(cluster):
            sent = [client.publish_soon([{"x": i}], ids=True) for i in range(EVENTS)]
            cluster.kill()
        cluster.start()
        assert [pending.result().ids_of(0) for pending in sent] == [[f"n{i}"] for i in range(EVENTS)]
