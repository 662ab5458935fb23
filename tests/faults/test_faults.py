"""Processes of a live cluster are killed under load, and every answer is checked; briefly, or for long."""

from __future__ import annotations

import os

import pytest
from killer import COORDINATOR, TUNER, WORKER
from run import run

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(400)
@pytest.mark.slow
def test_a_few_kills_break_no_promise() -> None:
    outcome = run(
        seed=1,
        kills={WORKER: 2, TUNER: 1, COORDINATOR: 1},
        publishers=1,
        churners=1,
        with_resizes=False,
        with_restores=False,
    )
    assert not outcome.breaches, outcome.line()
    assert outcome.kills.total() >= 4
    assert outcome.counts["batches answered"] > 10
    assert outcome.counts["changes acknowledged"] > 100
    assert outcome.counts["notifications judged"] > 0


@pytest.mark.slow
@pytest.mark.skipif("FAULT_MINUTES" not in os.environ, reason="takes as many minutes as FAULT_MINUTES says")
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("shards", "replicas"), [(2, 1), (1, 2)])
def test_kills_for_minutes(shards: int, replicas: int) -> None:
    minutes = float(os.environ["FAULT_MINUTES"])
    outcome = run(seed=shards, seconds=60.0 * minutes, shards=shards, replicas=replicas)
    assert not outcome.breaches, outcome.line()
