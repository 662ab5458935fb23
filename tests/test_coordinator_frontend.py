"""The clients' socket: what is received in one turn of the coordinator's loop."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import zmq
from clusters import wait_until

from pubsub_cluster.coordinator import frontend as module
from pubsub_cluster.coordinator.frontend import MESSAGES_PER_TURN, TURN_S, Frontend
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import Message, Op, PublishRequest, request_frames
from pubsub_cluster.language.together import REQUESTS, together


@pytest.mark.parametrize(("work_s", "expected"), [(0.0, 9), (TURN_S / 4, 4), (10.0, 1)])
def test_a_turn_is_over_when_the_work_has_taken_its_time_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work_s: float, expected: int
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    frontend = Frontend([f"ipc://{tmp_path}/s"], DEFAULT_LIMITS)
    context = zmq.Context()
    peer = context.socket(zmq.DEALER)
    try:
        peer.connect(f"ipc://{tmp_path}/s")
        assert expected <= 9 < MESSAGES_PER_TURN
        turns = []
        for number in range(9):
            peer.send(str(number).encode())
        wait_until(lambda: bool(frontend.socket.poll(0)), "the first message")
        while sum(turns) < 9:
            assert frontend.socket.poll(5_000)
            turn = 0
            for _ in frontend.receive():
                turn += 1
                now_s[0] += work_s
            turns.append(turn)
        assert max(turns) <= expected
        if work_s:
            assert len(turns) >= -(-9 // expected)
    finally:
        peer.close(linger=0)
        context.term()
        frontend.close()


def test_a_bad_request_among_others_costs_itself_an_answer() -> None:
    fields = {"batch": {"format": "json", "event_count": 0}, "batch_id": "b", "publisher": "p"}
    good = request_frames(Op.PUBLISH, "good", fields)
    bad = request_frames(Op.PUBLISH, "bad", {**fields, "unknown": 1})
    other = request_frames(Op.STATUS, "other", {})  # of which hundreds would hold all up
    frames = together(REQUESTS, [good, bad, other, good])
    first, refused, alone, last = module._requests_of(frames)
    assert isinstance(first, PublishRequest) and isinstance(last, PublishRequest) and first.request == "good"
    assert isinstance(refused, PubSubError) and refused.fields["request"] == "bad"
    assert isinstance(alone, PubSubError) and alone.fields["request"] == "other"
    assert isinstance(module._requests_of(other)[0], Message)
    (whole,) = module._requests_of([*frames[:2], b"", b""])
    assert isinstance(whole, PubSubError) and whole.fields["request"] == ""
