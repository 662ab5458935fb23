"""Expected costs by subscription: what they add up to, and what makes one dear."""

from __future__ import annotations

import numpy as np
import pytest

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.language.batch import payload_from_dicts
from pubsub_cluster.language.decode import decode_payload
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS
from pubsub_cluster.tuner.prices import subscription_costs
from pubsub_cluster.tuner.statistics import EventSample

PROGRAM = " AND ".join(f'(t CONTAINS "{n}" OR u CONTAINS "{n}")' for n in range(10))


def costs(expressions: list[str], sample: EventSample | None = None, factor: float = 1.0) -> list[float]:
    writer = CatalogueWriter.in_memory(1_000)
    registry = Registry(writer, EMPTY_SCHEMA, DEFAULT_LIMITS)
    for number, expression in enumerate(expressions):
        registry.stage_subscribe({"id": str(number), "expr": expression})
        registry.apply(1)
    constants = DEFAULT_CONSTANTS._replace(
        **{name: factor * value for name, value in DEFAULT_CONSTANTS._asdict().items()}
    )
    reader = CatalogueReader.of(writer)
    return list(subscription_costs(reader, writer.counts(), registry.version, sample, constants))


def sample_of(events: list[dict[str, object]]) -> EventSample:
    payload = payload_from_dicts(events)
    sample = EventSample(16 * len(events))
    sample.add(decode_payload(payload.header, payload.buffers))
    return sample


def test_what_is_often_looked_at_is_dear() -> None:
    sample = sample_of([{"a": 1, "t": "0123456789"}] * 999 + [{"a": 2, "b": 5, "t": "x"}])
    often, seldom, two, never, program = costs(
        ["a = 1", "a = 2", "a = 1 OR a = 2", "a = 1 AND b = 7", PROGRAM], sample
    )
    assert often > 5 * seldom > 0  # in spite of the prior
    assert often <= two < 2 * (often + seldom)
    assert 0 < never < often
    assert costs([PROGRAM], sample_of([{"a": 1}] * 1_000))[0] < program / 10


def test_without_events_values_are_alike_and_time_scales() -> None:
    texts = ["a = 1", "a = 2", PROGRAM]
    found = costs(texts)
    assert found[0] == pytest.approx(found[1])
    assert np.allclose(costs(texts, factor=3.0), np.multiply(found, 3.0))
    assert costs([]) == [] and costs(["TRUE"])[0] > 0


def test_many_clauses_share_tables() -> None:
    texts = [f"a = {n % 20} AND b > {n}" for n in range(600)]
    found = costs(texts, sample_of([{"a": n % 20, "b": 300} for n in range(200)]))
    assert len(found) == 600 and min(found) > 0


def test_a_constant_that_a_small_sample_missed_is_not_next_to_impossible() -> None:
    """Of 35 values that are alike, 256 events may well miss one: it is rare, no more."""
    expressions = [f"a = {value}" for value in range(35)]
    rng = np.random.default_rng(1)
    found = costs(expressions, sample_of([{"a": int(rng.integers(0, 34))} for _ in range(256)]))
    assert found[34] == min(found)
    assert found[34] > max(found) / 100
