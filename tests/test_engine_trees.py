"""Layouts with a tree against the naive matcher: random conjunctions of ranges, in the engine."""

from __future__ import annotations

import datetime
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch, rows_of_events

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.layout import LayoutArrays
from pubsub_cluster.tuner import trees
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.tuner.trees import TreeChoice
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.kernels.tables import PENDING_MAX

PARTITION_COUNT = 4
FORCED = TreeChoice(True)
SCHEMA = Schema.from_json(
    {
        "attributes": [
            {"name": "whole", "domain": "integer"},
            {"name": "real", "domain": "float"},
            {"name": "day", "domain": "timestamp"},
            {"name": "name", "domain": "string"},
        ]
    }
)
FIRST_DAY = datetime.date(2026, 1, 1)


def value_of(name: str, number: int) -> Any:
    """Return one of a few values of an attribute, in their order."""
    if name == "day":
        return (FIRST_DAY + datetime.timedelta(days=number)).isoformat() + "T00:00:00Z"
    return {"whole": number, "real": number / 2, "name": "abcdefghij"[number]}[name]


NAMES = st.sampled_from(("whole", "real", "day", "name"))
NUMBERS = st.integers(0, 9)


@st.composite
def ranges(draw: st.DrawFn) -> dict[str, Any]:
    """A range with one end or two, which may be equal or open, or an equality."""
    name, first, second = draw(NAMES), draw(NUMBERS), draw(NUMBERS)
    operator = draw(st.sampled_from(("<", "<=", ">", ">=", "=", "between", "between")))
    if operator != "between":
        return {"attr": name, "op": operator, "value": value_of(name, first)}
    lo, hi = sorted((first, second))
    return {"attr": name, "op": operator, "lo": value_of(name, lo), "hi": value_of(name, hi)}


CONJUNCTIONS = st.lists(ranges(), min_size=1, max_size=5).map(lambda found: {"and": found})
EVENTS = st.dictionaries(NAMES, st.lists(NUMBERS, min_size=1, max_size=3, unique=True)).map(
    lambda found: {name: [value_of(name, number) for number in many] for name, many in found.items()}
)


def build(catalogue: Case, version: int = 1, sample: EventSample | None = None) -> LayoutArrays:
    """Build generation 1 with the tree that is forced, whose nodes are small."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(trees, "BRANCH", 3)
        counts = catalogue.writer.counts()
        return build_layout(catalogue.reader, counts, version, sample, 1, PARTITION_COUNT, trees=FORCED)


@settings(max_examples=100)
@given(
    expressions=st.lists(CONJUNCTIONS, min_size=1, max_size=30),
    events=st.lists(EVENTS, min_size=1, max_size=6),
    draw=st.data(),
)
def test_conjunctions_of_ranges(
    expressions: list[dict[str, Any]], events: list[dict[str, Any]], draw: st.DataObject
) -> None:
    """What shards find, with rows in the delta, and after a fold without rows that were removed."""
    values = [flatten_event(event, SCHEMA, DEFAULT_LIMITS) for event in events]
    raw = raw_batch(values)
    parsed = [expression_from_json(expression) for expression in expressions]
    expected = [
        {row for row, expression in enumerate(parsed) if holds(expression, event, SCHEMA)} for event in values
    ]
    base_count = draw.draw(st.integers(0, len(expressions)), "rows in the layout")
    catalogue = Case(expressions[:base_count], SCHEMA)
    sample = EventSample()
    sample.add(raw)
    layout = build(catalogue, 1, draw.draw(st.sampled_from((None, sample)), "sample"))
    assert len(layout.tree_cost) == (base_count > 0) and not len(layout.table_mode)
    base_counts = catalogue.writer.counts()
    engine = MatchEngine(catalogue.reader, SCHEMA)
    catalogue.add(expressions[base_count:])
    counts = catalogue.writer.counts()
    shard_count = draw.draw(st.integers(1, 3), "shards")
    found: list[set[int]] = [set() for _ in values]
    for shard in range(shard_count):
        mine = np.array([p % shard_count == shard for p in range(PARTITION_COUNT)], np.uint8)
        engine.attach_layout(1, layout, base_counts, mine)
        for event, rows in enumerate(rows_of_events(engine.match(raw, 1, counts, shard, shard_count))):
            assert len(set(rows)) == len(rows), "one shard tells a row once"
            assert not found[event] & set(rows), "and no other one does"
            found[event] |= set(rows)
    assert found == expected
    removed = draw.draw(st.sets(st.integers(0, len(expressions) - 1)), "removed")
    for row in sorted(removed):
        catalogue.writer.remove(row, 2)
    engine.attach_layout(1, build(catalogue, 2))
    left = [sorted(rows - removed) for rows in expected]
    assert rows_of_events(engine.match(raw, 1, counts)) == left


def test_more_leaf_nodes_than_pending_places() -> None:
    """An event that opens all of them is matched piece by piece, slots once, and so is the next one."""
    count = 4 * PENDING_MAX
    between = [{"attr": "a", "op": "between", "lo": -n, "hi": n} for n in range(count)]
    boxes = [{"and": [one, {"attr": "b", "op": "<", "value": 5}]} for one in between]
    catalogue = Case([*boxes, {"not": {"attr": "b", "op": "=", "value": 9}}])
    layout = build(catalogue)
    assert np.count_nonzero(layout.tree_count == 0) > PENDING_MAX
    engine = MatchEngine(catalogue.reader)
    engine.attach_layout(1, layout)
    found = rows_of_events(
        engine.match(
            raw_batch([{"a": (0,), "b": (1,)}, {"a": (-9, 500), "b": (1,)}, {"a": (0,)}]), 1, layout.counts
        )
    )
    assert found == [[*range(count), count], [*range(9, count), count], [count]]


def test_only_conjunctions_of_ranges_are_in_the_tree() -> None:
    """Beside them sets, negations, text, programs and what has no literal go where they always did."""
    rng = random.Random(2)
    expressions: list[dict[str, Any]] = []
    for _ in range(100):
        lo = rng.randint(0, 80)
        box = {"attr": "a", "op": "between", "lo": lo, "hi": lo + 9}
        other = {"attr": "b", "op": "=", "value": rng.randint(0, 3)}
        expressions += [
            {"and": [box, other]},
            {"and": [box, {"attr": "b", "op": "in", "value": [1, 3]}]},
            {"and": [box, {"not": other}]},
            {"or": [box, other]},
            {"and": [{"attr": "t", "op": "contains", "value": "x"}, box]},
        ]
    catalogue = Case(expressions)
    counts = catalogue.writer.counts()
    choice = TreeChoice(True)
    layout = build_layout(catalogue.reader, counts, 1, None, 1, PARTITION_COUNT, trees=choice)
    assert choice.weighed.is_used and layout.tree_entries.tolist() == [100 + 2 * 100]
    engine = MatchEngine(catalogue.reader)
    engine.attach_layout(1, layout)
    events: list[dict[str, tuple[object, ...]]] = [
        {"a": (rng.randint(0, 90),), "b": (rng.randint(0, 4),), "t": (rng.choice(("xy", "y")),)}
        for _ in range(40)
    ]
    events += [{"a": (1, 50)}, {"b": (1, 2)}, {}]
    parsed = [expression_from_json(expression) for expression in expressions]
    expected = [
        [row for row, one in enumerate(parsed) if holds(one, event, catalogue.schema)] for event in events
    ]
    assert sum(map(len, expected)) > 1_000
    assert rows_of_events(engine.match(raw_batch(events), 1, counts)) == expected
