"""What the coordinator makes of a request, without its sockets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pubsub_cluster.coordinator.answers import Reply
from pubsub_cluster.coordinator.runtime import Coordinator
from pubsub_cluster.language.protocol import Message, parse_message


@pytest.mark.parametrize("value", [1 << 70, object()])
def test_an_answer_that_json_cannot_carry_is_a_defects_answer(value: Any) -> None:
    """It once ended the coordinator, and all that it knew was in the change table: for ever."""
    sent: list[Any] = []
    coordinator: Any = SimpleNamespace(
        _handle=lambda *_: Reply({"items": [value]}),
        frontend=SimpleNamespace(send=lambda identity, frames: sent.append((identity, frames))),
    )
    Coordinator._on_client(coordinator, b"me", Message("stats", "r", {}, []), 0.0)
    [(identity, frames)] = sent
    told = parse_message(frames)
    assert (identity, told.op, told.request) == (b"me", "error", "r")
    assert told.header["error"]["code"] == "cluster_error"
