"""A coordinator and a durable receiver are killed, and nothing is lost; briefly."""

from __future__ import annotations

import pytest
from durable import run

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(120)
def test_kills_lose_nothing_that_was_answered() -> None:
    outcome = run(
        seed=1,
        coordinators=1,
        receivers=1,
        publishers=1,
        pairs=[("ann", "one")],
        first_point="outbox.report",
        starts_killed=0.0,
    )
    assert not outcome.breaches, outcome.line()
    assert outcome.kills["coordinator"] >= 1 and outcome.kills["receiver"] == 1
    assert outcome.counts["notifications"] > 0 and outcome.counts["batches answered"] > 0
