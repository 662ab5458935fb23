"""Tasks of the keeper that a client waits for, and clusters that die meanwhile."""

from __future__ import annotations

import pytest
from fake_cluster import SILENT, FakeCluster, Frames

from pubsub_cluster.client import Client
from pubsub_cluster.language.errors import ClusterError, ProtocolError, ReplyTimeoutError
from pubsub_cluster.language.protocol import Message, Op, error_frames, reply_frames


@pytest.mark.parametrize("call", ["backup", "restore", "verify"])
def test_a_task_of_a_cluster_that_was_restarted_may_have_been_done(
    cluster: FakeCluster, client: Client, call: str
) -> None:
    def script(_: FakeCluster, message: Message) -> Frames | None:
        if message.op == Op.JOB:
            return error_frames(message.request, ProtocolError("no such job"))
        return reply_frames(message.request, {"job": 7}) if message.op == call else None

    cluster.script = script
    with pytest.raises(ClusterError, match=f"restarted during the {call}"):
        client.verify() if call == "verify" else getattr(client, call)("/a/file")


@pytest.mark.parametrize(("call", "is_patient"), [("backup", False), ("restore", True)])
def test_a_cluster_that_is_gone_during_a_task_is_not_waited_for_long(
    cluster: FakeCluster, call: str, is_patient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restored catalogue is taken over for some seconds, without an answer."""
    monkeypatch.setattr("pubsub_cluster.client.operating.AWAY_S_MAX", 0.5)

    def script(_: FakeCluster, message: Message) -> Frames | None:
        return SILENT if message.op == Op.JOB else reply_frames(message.request, {"job": 7})

    with Client(endpoint=cluster.endpoint, timeout_s=60.0) as client:
        client.hello()
        cluster.script = lambda fake, message: None if message.op == Op.HELLO else script(fake, message)
        client._session.timeout_s = 0.2
        with pytest.raises(ReplyTimeoutError):
            getattr(client, call)("/a/file")
    asked = cluster.ops().count(Op.JOB)
    assert (asked > 2) == is_patient, "asked again and again, or once and perhaps again"
