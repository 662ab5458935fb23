"""The product under measurement, at its three levels.

Kernel: labels in, layout rows out. Engine: a decoded batch of columns in, catalogue rows out, encoding
included. Cluster: see `benchmarks.cluster_level`. Every layout is what the production tuner chose and the
production builder built. Every timed pass compares its number of matches per event with the expected one.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.benchmarks.workloads.rules import I8, Events, Rules
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.layout import LayoutView
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.workers.engine import MatchEngine

SAMPLE_EVENTS = 2_048
SAMPLE_BATCH = 128
GENERATION = 1
MATCHES_MAX = 1 << 30


class Loaded(NamedTuple):
    """A catalogue in private memory with the layout that the tuner built of it.

    Attributes
    ----------
    catalogue : CatalogueReader
    layout : LayoutView
    engine : MatchEngine
        Has the layout attached as `GENERATION`.
    counts : CatalogueCounts
    load_s, build_s : float
        Seconds of appending the columns and of building.
    """

    catalogue: CatalogueReader
    layout: LayoutView
    engine: MatchEngine
    counts: Any
    load_s: float
    build_s: float

    @property
    def index_bytes(self) -> int:
        """Bytes of the layout."""
        return self.layout.size_bytes


def load(rules: Rules, sample_events: Events | None, **build_options: Any) -> Loaded:
    """Append the rules, build a layout with a sample of events, attach it.

    Parameters
    ----------
    rules : Rules
    sample_events : Events, optional
        What the tuner sees; never the events that are timed.
    **build_options
        Passed to `build_layout`.
    """
    begin = time.perf_counter()
    writer = CatalogueWriter.in_memory(max(rules.size, 1))
    writer.append_columns(rules.columns())
    load_s = time.perf_counter() - begin
    catalogue, counts = CatalogueReader.of(writer), writer.counts()
    sample = EventSample()
    if sample_events is not None:
        for first in range(0, min(sample_events.size, SAMPLE_EVENTS), SAMPLE_BATCH):
            sample.add(sample_events.slice(first, first + SAMPLE_BATCH).raw())
    begin = time.perf_counter()
    layout = build_layout(catalogue, counts, 1, sample, GENERATION, **build_options)
    build_s = time.perf_counter() - begin
    engine = MatchEngine(catalogue, EMPTY_SCHEMA, Limits(matches_per_batch_max=MATCHES_MAX))
    engine.warm_up()
    engine.attach_layout(GENERATION, layout)
    return Loaded(catalogue, layout, engine, counts, load_s, build_s)


class KernelRun:
    """Labels in, layout rows out; encoding is not timed.

    Parameters
    ----------
    loaded : Loaded
    batches : list of Events
    prefetch : bool
        Whether the kernel asks for memory ahead.
    """

    def __init__(self, loaded: Loaded, batches: list[Events], prefetch: bool = True) -> None:
        self._base = loaded.engine._generations[GENERATION].base
        self._prefetch = prefetch
        self.batches = [self._base.encode(events.raw()) for events in batches]

    def without_prefetch(self) -> KernelRun:
        """Return the same run with prefetch off."""
        twin = KernelRun.__new__(KernelRun)
        twin.__dict__ = {**self.__dict__, "_prefetch": False}
        return twin

    def run(self) -> I8:
        """Match all batches; return the matches of each event."""
        found = [self._base.match(batch, MATCHES_MAX, self._prefetch)[0] for batch in self.batches]
        return np.concatenate([np.diff(start) for start in found])


class EngineRun:
    """Decoded batches in, catalogue rows out."""

    def __init__(self, loaded: Loaded, batches: list[Events]) -> None:
        self._loaded = loaded
        self._batches = [events.raw() for events in batches]

    def run(self) -> I8:
        """Match all batches; return the matches of each event."""
        engine, counts = self._loaded.engine, self._loaded.counts
        found = [engine.match(raw, GENERATION, counts).event_offsets for raw in self._batches]
        return np.concatenate([np.diff(offsets) for offsets in found])
