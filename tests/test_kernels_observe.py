"""Counting what matching takes, against the places that the plain reference finds."""

from __future__ import annotations

from typing import Any

import numpy as np
from configurations import configurations
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch
from strategies import cases

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.trees import TreeChoice
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.kernels import reference_match
from pubsub_cluster.workers.kernels.observe import CANDIDATES, PLACES, PROBES


@settings(max_examples=40)
@given(case=cases(), data=st.data())
def test_counts_are_those_of_the_places_that_the_reference_finds(case: Any, data: st.DataObject) -> None:
    """Clusters met and candidates agree, of tables, slots and tree; a table's cluster takes a probe."""
    catalogue = Case(case.expressions, case.schema)
    counts = catalogue.writer.counts()
    natural = build_layout(catalogue.reader, counts, 1, None, 1, 3)
    configuration = data.draw(configurations(natural))
    trees = TreeChoice(data.draw(st.sampled_from((False, True))))
    layout = build_layout(catalogue.reader, counts, 1, None, 1, 3, configuration, trees=trees)
    engine = MatchEngine(catalogue.reader, case.schema)
    engine.attach_layout(1, layout)
    base = engine._generations[1].base
    values = [flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events]
    encoded = base.encode(raw_batch(values))
    seen = base.observe(encoded, len(values))
    assert seen.event_count == len(values)
    places, candidates = reference_match.observe_events(base._tables, encoded.tables)
    for sums, kind in ((places, PLACES), (candidates, CANDIDATES)):
        assert [int(seen.work[:-2, kind].sum()), *seen.work[-2:, kind].tolist()] == sums
    assert (seen.work[:-2, PROBES] >= seen.work[:-2, PLACES]).all()
    assert len(seen.work) == len(layout.table_mode) + 2
    again = base.observe(encoded, len(values))
    assert np.array_equal(again.work, seen.work), "scratch was not left clean"
