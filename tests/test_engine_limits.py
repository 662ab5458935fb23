"""The edges of the engine: output that grows, the limit of matches, generations, blocks of events."""

from __future__ import annotations

import numpy as np
import pytest
from matching_cases import Case, raw_batch, rows_of_events

from pubsub_cluster.language.errors import ClusterError, LimitError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.workers.delta_bitmaps import BLOCK_EVENTS
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.layout_index import ROWS_MIN
from pubsub_cluster.workers.pairs import PAIRS_MIN

SUBSCRIPTIONS = [{"and": []}, {"not": {"attr": "a", "op": ">", "value": 3}}, {"attr": "a", "op": "exists"}]
EVENT_COUNT = 2 * BLOCK_EVENTS + 1


def engine_of(catalogue: Case, limits: Limits) -> MatchEngine:
    """Return an engine with the whole catalogue as generation 1."""
    engine = MatchEngine(catalogue.reader, EMPTY_SCHEMA, limits)
    engine.attach_layout(1, build_layout(catalogue.reader, catalogue.writer.counts(), 1, None, 1))
    return engine


@pytest.mark.parametrize("generation", [0, 1])
def test_output_grows_over_blocks_of_events(generation: int) -> None:
    """More matches than the first buffers hold, in more events than one block."""
    catalogue = Case(SUBSCRIPTIONS * 10)
    engine = engine_of(catalogue, Limits())
    raw = raw_batch([{"a": (event % 5,)} for event in range(EVENT_COUNT)])
    rows = rows_of_events(engine.match(raw, generation, catalogue.writer.counts()))
    assert sum(map(len, rows)) > 2 * max(PAIRS_MIN, ROWS_MIN)
    for event, found in enumerate(rows):
        assert found == [row for row in range(30) if row % 3 != 1 or event % 5 <= 3]


@pytest.mark.parametrize("generation", [0, 1])
def test_too_many_matches(generation: int) -> None:
    """One match over the limit is an error that names it; exactly the limit is not."""
    catalogue = Case(SUBSCRIPTIONS[:1] * 10)
    raw = raw_batch([{}] * 1_000)
    counts = catalogue.writer.counts()
    assert (
        len(engine_of(catalogue, Limits(matches_per_batch_max=10_000)).match(raw, generation, counts).rows)
        == 10_000
    )
    with pytest.raises(LimitError) as caught:
        engine_of(catalogue, Limits(matches_per_batch_max=9_999)).match(raw, generation, counts)
    assert caught.value.fields["limit_name"] == "matches_per_batch_max"


def test_engine_is_clean_after_an_error() -> None:
    """A batch over the limit leaves nothing behind for the next one."""
    catalogue = Case(SUBSCRIPTIONS)
    engine = engine_of(catalogue, Limits(matches_per_batch_max=50))
    with pytest.raises(LimitError):
        engine.match(raw_batch([{"a": (1,)}] * 6_000), 1, catalogue.writer.counts())
    assert rows_of_events(engine.match(raw_batch([{}]), 1, catalogue.writer.counts())) == [[0, 1]]


def test_generations_and_empty_batches() -> None:
    """An unknown or dropped generation is an error; an empty batch is not."""
    catalogue = Case(SUBSCRIPTIONS)
    engine = engine_of(catalogue, Limits())
    counts = catalogue.writer.counts()
    assert engine.match(raw_batch([]), 1, counts).event_offsets.tolist() == [0]
    assert engine.match(raw_batch([]), 0, counts).event_offsets.tolist() == [0]
    engine.drop_layout(1)
    engine.drop_layout(1)
    with pytest.raises(ClusterError, match="generation"):
        engine.match(raw_batch([{}]), 1, counts)
    assert len(engine.match(raw_batch([{}]), 0, counts).rows) == 2
    engine.drop_layout(0)
    with pytest.raises(ClusterError, match="generation"):
        engine.match(raw_batch([{}]), 0, counts)


def test_inputs_of_any_memory_layout() -> None:
    """Strided and unaligned columns are copied, not compiled for."""
    catalogue = Case([{"attr": "a", "op": "=", "value": 7}])
    raw = raw_batch([{"a": (event,)} for event in range(20)])
    numbers = raw.attributes["a"].numbers
    assert numbers is not None
    packed = np.zeros(1 + 8 * 20, np.uint8)
    packed[1:] = numbers.whole.view(np.uint8)
    odd = numbers._replace(event=np.repeat(numbers.event, 2)[::2], whole=packed[1:].view(np.int64))
    raw = raw._replace(attributes={"a": raw.attributes["a"]._replace(numbers=odd)})
    found = rows_of_events(engine_of(catalogue, Limits()).match(raw, 1, catalogue.writer.counts()))
    assert [event for event, rows in enumerate(found) if rows] == [7]
