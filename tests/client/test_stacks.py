"""Stacks against a session that answers what it is asked: how many batches are on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pubsub_cluster.client.blocking import run
from pubsub_cluster.client.publishing import Batch, Publication
from pubsub_cluster.client.stacks import PARTS_IN_FLIGHT, STACK_VALUES_MAX, Ways, publish_list
from pubsub_cluster.language.protocol import Answer, Message

EVENTS = 3


class Session:
    """Counts the batches that were sent and are not answered."""

    def __init__(self) -> None:
        self.unanswered = self.most = self.requests = self.held = 0
        self.connection = SimpleNamespace(forget=lambda _: None)

    async def send(self, _: Any, fields: Mapping[str, Any], buffers: Any, hold: bool = False) -> int:
        self.requests += 1
        self.held += hold
        self.unanswered += fields["batches"]
        self.most = max(self.most, self.unanswered)
        return int(fields["batches"])

    def release(self) -> None:
        self.held = 0

    async def wait(self, batches: int) -> Message:
        assert not self.held, "it would be waited for in vain"
        self.unanswered -= batches
        counts = np.ones(EVENTS * batches, np.int64)
        header = {"event_count": len(counts), "match_count": len(counts), "generation": 1, "version": 1}
        return Message("reply", "", header, [counts.tobytes()])


def publication(batches: Sequence[Batch]) -> Publication:
    return Publication({"batches": len(batches)}, [], Answer.COUNTS, False, {})


@pytest.mark.parametrize("is_stacked", [True, False])
@pytest.mark.parametrize(("in_flight", "count"), [(8, 5), (16, 40), (64, 200), (65, 9)])
def test_no_more_are_on_their_way_than_may_be(in_flight: int, count: int, is_stacked: bool) -> None:
    async def alone(batch: Batch) -> Publication:
        return publication([batch])

    async def stacked(batches: Sequence[Batch]) -> Publication | None:
        return publication(batches) if is_stacked else None

    async def publish() -> list[int]:
        batches = [{"x": np.zeros(EVENTS, np.int64)}] * count
        ways = Ways(alone, stacked, None)  # type: ignore[arg-type]
        return [one.match_count async for one in publish_list(session, batches, in_flight, ways)]  # type: ignore[arg-type]

    session = Session()
    assert run(publish()) == [EVENTS] * count
    at_once = in_flight // PARTS_IN_FLIGHT
    assert min(count, in_flight - at_once) <= session.most <= in_flight
    assert session.requests == (-(-count // at_once) if is_stacked else count)
    assert session.unanswered == 0 and EVENTS * count < STACK_VALUES_MAX
