"""Columns that are encoded and matched some events at a time, against their decoded values all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matching_cases import Case, rows_of_events

from pubsub_cluster.language.batch import decode_payload, payload_from_columns
from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.workers import encoder, layout_index
from pubsub_cluster.workers.engine import MatchEngine

SUBSCRIPTIONS = [
    "x = 1",
    "x = 1 and y > 2",
    "y between 3 and 5",
    "t contains 'b'",
    "x = 2 and t = 'ab'",
    "not x = 0",
]
EVENTS = 50


@pytest.fixture(params=[1, 7, 1 << 20], ids=["each event", "some", "all"])
def tile_labels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(encoder, "TILE_LABELS", request.param)
    monkeypatch.setattr(layout_index, "ROWS_MIN", 2)
    return int(request.param)


def engine_of(catalogue: Case, matches_max: int = 1 << 20) -> MatchEngine:
    """Return an engine with all subscriptions in generation 1."""
    engine = MatchEngine(catalogue.reader, EMPTY_SCHEMA, Limits(matches_per_batch_max=matches_max))
    engine.attach_layout(1, build_layout(catalogue.reader, catalogue.writer.counts(), 1, None, 1))
    return engine


def catalogue_of(texts: list[str]) -> Case:
    return Case([parse_text(text) for text in texts])


def columns(with_gaps: bool, with_texts: bool) -> dict[str, Any]:
    """Return columns of pseudo-random numbers, perhaps with texts, perhaps with gaps in one of them."""
    random = np.random.default_rng(1)
    found: dict[str, Any] = {name: random.integers(0, 6, EVENTS) for name in ("x", "other", "y")}
    if with_texts:
        found["t"] = [["a", "ab", "cb", ""][at] for at in random.integers(0, 4, EVENTS)]
    if with_gaps:
        found["y"] = [None if at % 3 else value for at, value in enumerate(found["y"].tolist())]
    return found


@pytest.mark.parametrize("with_gaps", [False, True])
@pytest.mark.parametrize("with_texts", [False, True])
def test_tiles_are_one_batch(tile_labels: int, with_gaps: bool, with_texts: bool) -> None:
    """Also where rows newer than the layout are matched, and where the output grows on the way."""
    catalogue = catalogue_of(SUBSCRIPTIONS)
    engine, older = engine_of(catalogue), catalogue.writer.counts()
    catalogue.add([parse_text("x = 3"), parse_text("t contains 'b' and y < 4")])
    payload = payload_from_columns(columns(with_gaps, with_texts))
    raw = decode_payload(payload.header, payload.buffers)
    for counts in (older, catalogue.writer.counts()):
        batch = engine.read(payload.header, payload.buffers)
        assert batch.dense is not None
        expected = rows_of_events(engine.match(raw, 1, counts))
        assert rows_of_events(engine.match_batch(batch, 1, counts)) == expected
        assert sum(map(len, expected)) > EVENTS


def test_too_many_matches_in_a_later_tile(tile_labels: int) -> None:
    """Matches of all tiles count; the next batch is not the worse for it."""
    catalogue = catalogue_of(["x >= 1"] * 4)
    payload = payload_from_columns({"x": np.arange(EVENTS) % 2, "y": np.zeros(EVENTS, np.int64)})
    exact, counts = 4 * EVENTS // 2, catalogue.writer.counts()
    for matches_max in (exact - 1, exact):
        engine = engine_of(catalogue, matches_max)
        batch = engine.read(payload.header, payload.buffers)
        if matches_max == exact:
            assert len(engine.match_batch(batch, 1, counts).rows) == exact
            continue
        with pytest.raises(LimitError, match="matches too many subscriptions"):
            engine.match_batch(batch, 1, counts)
        few = payload_from_columns({"x": np.ones(2, np.int64), "y": np.ones(2, np.int64)})
        found = engine.match_batch(engine.read(few.header, few.buffers), 1, counts)
        assert rows_of_events(found) == [[0, 1, 2, 3]] * 2


@pytest.mark.parametrize("with_gaps", [False, True])
def test_the_widest_event_has_room(with_gaps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the bounds checks of kernels would notice if it had not."""
    monkeypatch.setattr(layout_index, "ENTRIES_MIN", 1)
    catalogue = catalogue_of(SUBSCRIPTIONS)
    engine = engine_of(catalogue)
    payload = payload_from_columns(columns(with_gaps, with_texts=True))
    found = engine.match_batch(engine.read(payload.header, payload.buffers), 1, catalogue.writer.counts())
    raw = decode_payload(payload.header, payload.buffers)
    index = engine._generations[1].base
    assert len(index._scratch.raised) >= 3, "x, y and t"
    assert rows_of_events(found) == rows_of_events(engine.match(raw, 1, catalogue.writer.counts()))
