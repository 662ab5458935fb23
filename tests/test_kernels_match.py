"""The match kernel against `workers.kernels.reference`, on layouts of random subscriptions; and its rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch
from strategies import cases

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.shm.layout import empty_layout, frozen
from pubsub_cluster.tuner import trees as trees_module
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.trees import TreeChoice
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.kernels import check, delta, encode, match, reference_match
from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW

TEST = frozen(np.array([0, 2, 6, -1, 0, 2, 6, 0, 0, 2, 6, 1], np.int32))
SET_START, SET_LABEL = frozen(np.array([0, 2], np.int32)), frozen(np.array([2, 5], np.int32))


@given(label=st.integers(0, 8), predicate=st.integers(0, 2))
def test_label_passes(label: int, predicate: int) -> None:
    """Interval, set and except."""
    expected = 2 <= label <= 6 and (True, label in (2, 5), label not in (2, 5))[predicate]
    plain = getattr(check.label_passes, "py_func", check.label_passes)
    for run in (reference_match.label_passes, plain):
        assert bool(run(label, TEST, 4 * predicate, SET_START, SET_LABEL)) == expected


def engine_parts(case: Any, has_tree: bool) -> tuple[Any, Any, Any]:
    """Return tables, encoded events and scratch of a layout over a case's expressions."""
    catalogue = Case(case.expressions, case.schema)
    engine = MatchEngine(catalogue.reader, case.schema)
    trees = TreeChoice(has_tree)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(trees_module, "BRANCH", 2)
        layout = build_layout(catalogue.reader, catalogue.writer.counts(), 1, None, 1, 3, trees=trees)
    engine.attach_layout(1, layout)
    base = engine._generations[1].base
    values = [flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events]
    return base._tables, base.encode(raw_batch(values)).tables, base._scratch


@settings(max_examples=60)
@given(
    case=cases(),
    mine=st.lists(st.integers(0, 1), min_size=3, max_size=3),
    room=st.integers(0, 6),
    has_tree=st.booleans(),
)
def test_match_events(case: Any, mine: list[int], room: int, has_tree: bool) -> None:
    """Same rows, same answers on overflow; scratch is clean afterwards."""
    tables, events, scratch = engine_parts(case, has_tree)
    tables = tables._replace(partition_mine=frozen(np.array(mine, np.uint8)))
    event_count = len(events.entry_start) - 1
    results = []
    for run in (reference_match, match):
        event, stamp, found, steps = 0, 1, [], []
        while event < event_count:
            out, start = np.full(room + 8 * len(steps), -1, np.int32), np.zeros(event_count + 1, np.int64)
            status, stop = run.match_events(
                tables, events, scratch, (event, stamp, True, all(mine)), out, start
            )
            assert status == OK or (status == OVERFLOW and stop < event_count)
            found += [sorted(out[start[e] : start[e + 1]].tolist()) for e in range(event, stop)]
            steps.append((status, stop))
            event, stamp = stop, stamp + event_count
        results.append((found, steps))
    assert results[0] == results[1]
    assert not scratch.facts.label_of.any()
    assert not scratch.facts.flag[0::2].any() and scratch.facts.flag[1::2].all()


def signature_counts() -> list[int]:
    """Return how many versions of each kernel are compiled."""
    kernels = [
        k for module in (encode, match, delta) for k in vars(module).values() if hasattr(k, "signatures")
    ]
    return [len(kernel.signatures) for kernel in kernels]


@settings(max_examples=10)
@given(case=cases())
def test_warm_up_compiles_everything(case: Any) -> None:
    """After `warm_up`, no batch compiles anything, whatever its arrays look like."""
    catalogue = Case(case.expressions, case.schema)
    engine = MatchEngine(catalogue.reader, case.schema)
    engine.warm_up()
    before = signature_counts()
    layout = build_layout(catalogue.reader, catalogue.writer.counts(), 1, None, 1, 3)
    engine.attach_layout(1, layout)
    raw = raw_batch([flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events])
    for generation in (0, 1):
        engine.match(raw, generation, catalogue.writer.counts())
    assert signature_counts() == before


def test_empty_layout_has_no_matches() -> None:
    """Generation 0 of an empty catalogue answers with nothing."""
    catalogue = Case([])
    engine = MatchEngine(catalogue.reader)
    engine.attach_layout(3, empty_layout(3))
    result = engine.match(raw_batch([{"a": (1,)}, {}]), 3, catalogue.writer.counts())
    assert result.event_offsets.tolist() == [0, 0, 0]
