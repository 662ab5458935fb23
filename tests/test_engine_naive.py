"""The engine against the naive matcher: layout, delta, both, on any deal of partitions and shards."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch, rows_of_events
from strategies import cases

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.workers.engine import MatchEngine

PARTITION_COUNT = 4
NO_CLAUSES = Limits(clauses_max=0)


def check(case: object, draw: st.DataObject, limits: Limits) -> None:
    """Split the catalogue and the events at random; compare every way of matching with the naive matcher."""
    schema: Schema = case.schema  # type: ignore[attr-defined]
    expressions: list[Expression] = case.expressions  # type: ignore[attr-defined]
    values = [flatten_event(event, schema, DEFAULT_LIMITS) for event in case.events]  # type: ignore[attr-defined]
    raw = raw_batch(values)
    expected = [
        [row for row, expression in enumerate(expressions) if holds(expression, event, schema)]
        for event in values
    ]

    base_count = draw.draw(st.integers(0, len(expressions)), "rows in the layout")
    catalogue = Case(expressions[:base_count], schema, limits)
    engine = MatchEngine(catalogue.reader, schema)
    base_counts = catalogue.writer.counts()
    sample = EventSample()
    if draw.draw(st.booleans(), "with a sample"):
        sample.add(raw)
    layout = build_layout(catalogue.reader, base_counts, 1, sample, 1, PARTITION_COUNT)
    shard_count = draw.draw(st.integers(1, 3), "shards")
    deal = [draw.draw(st.integers(0, shard_count - 1)) for _ in range(PARTITION_COUNT)]
    found: list[set[int]] = [set() for _ in values]
    total = 0
    for step in sorted(draw.draw(st.lists(st.integers(base_count, len(expressions)), max_size=2), "growth")):
        catalogue.add(expressions[catalogue.writer.counts().rows : step])
        engine.match(raw, 0, catalogue.writer.counts(), 0, shard_count)
    catalogue.add(expressions[catalogue.writer.counts().rows :])
    for shard_idx in range(shard_count):
        mine = bytes(shard == shard_idx for shard in deal)
        engine.attach_layout(1, layout, base_counts, np.frombuffer(mine, np.uint8))
        result = engine.match(raw, 1, catalogue.writer.counts(), shard_idx, shard_count)
        for event, rows in enumerate(rows_of_events(result)):
            assert len(set(rows)) == len(rows), "one shard tells a row once"
            found[event] |= set(rows)
            total += len(rows)
    assert [sorted(rows) for rows in found] == expected
    assert total >= sum(map(len, expected))
    assert rows_of_events(engine.match(raw, 0, catalogue.writer.counts())) == expected, "delta alone"
    engine.attach_layout(1, layout, base_counts)
    only_base = [[row for row in rows if row < base_count] for rows in expected]
    assert rows_of_events(engine.match(raw, 1, base_counts)) == only_base, "layout alone"


@settings(max_examples=100)
@given(case=cases(), draw=st.data())
def test_engine_agrees_with_the_naive_matcher(case: object, draw: st.DataObject) -> None:
    """Rows stored as clauses."""
    check(case, draw, DEFAULT_LIMITS)


@settings(max_examples=60)
@given(case=cases(), draw=st.data())
def test_programs_agree_with_the_naive_matcher(case: object, draw: st.DataObject) -> None:
    """The same rows, all stored as Boolean programs."""
    check(case, draw, NO_CLAUSES)
