"""The product under measurement, at its three levels.

Kernel: labels in, layout rows out. Engine: a payload of columns or JSON in, catalogue rows out, encoding
included. Cluster: see `benchmarks.cluster_level`. Every layout is what the production tuner chose and the
production builder built. Every timed pass compares its number of matches per event with the expected one.
"""

from __future__ import annotations

import multiprocessing
import time
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pubsub_cluster.benchmarks.measure import PeakMemory, Run
from pubsub_cluster.benchmarks.workloads.rules import I8, Events, Rules
from pubsub_cluster.language.batch import check_payload, payload_from_columns, payload_from_json
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_store import CAPACITY_PER_ROW
from pubsub_cluster.shm.layout import LayoutView
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.layout_index import Observation

SAMPLE_EVENTS = 2_048
SAMPLE_BATCH = 128
GENERATION = 1
MATCHES_MAX = 1 << 30
WIDE = Limits(
    matches_per_batch_max=MATCHES_MAX, attributes_per_event_max=1 << 16, batch_size_bytes_max=1 << 30
)
"""Limits that no workload meets."""


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
    build_peak_bytes : int or None
        The most memory that building took, the layout among it; the catalogue was there before.
    """

    catalogue: CatalogueReader
    layout: LayoutView
    engine: MatchEngine
    counts: Any
    load_s: float
    build_s: float
    build_peak_bytes: int | None = None

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
    writer = CatalogueWriter.in_memory(_rows_for(rules))
    writer.append_columns(rules.columns())
    load_s = time.perf_counter() - begin
    catalogue, counts = CatalogueReader.of(writer), writer.counts()
    sample = EventSample()
    if sample_events is not None:
        for first in range(0, min(sample_events.size, SAMPLE_EVENTS), SAMPLE_BATCH):
            sample.add(sample_events.slice(first, first + SAMPLE_BATCH).raw())
    with PeakMemory() as memory:
        begin = time.perf_counter()
        layout = build_layout(catalogue, counts, 1, sample, GENERATION, **build_options)
        build_s = time.perf_counter() - begin
    engine = MatchEngine(
        catalogue,
        EMPTY_SCHEMA,
        WIDE,
    )
    engine.warm_up()
    engine.attach_layout(GENERATION, layout)
    return Loaded(catalogue, layout, engine, counts, load_s, build_s, memory.taken_bytes)


def _rows_for(rules: Rules) -> int:
    """Return the capacity in rows that has room for the literals and clauses too."""
    literals = len(rules.literal) // CAPACITY_PER_ROW.literals
    clauses = (len(rules.start) - 1) // CAPACITY_PER_ROW.clauses
    return max(rules.size, literals + 1, clauses + 1)


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

    def observe(self) -> Observation:
        """Return what the first batch takes."""
        return self._base.observe(self.batches[0], self.batches[0].event_count)

    def run(self) -> I8:
        """Match all batches; return the matches of each event."""
        found = [self._base.match(batch, MATCHES_MAX, self._prefetch)[0] for batch in self.batches]
        return np.concatenate([np.diff(start) for start in found])


class PayloadRun:
    """Payloads as a publisher sends them in, catalogue rows out: columns or JSON, encoding included.

    Parameters
    ----------
    loaded : Loaded
    batches : list of Events
    form : str
        ``columns`` (integers, floats, UTF-8 texts) or ``json`` (one object per line).
    """

    def __init__(self, loaded: Loaded, batches: list[Events], form: str) -> None:
        self._loaded = loaded
        self._payloads: list[tuple[Any, Any]] = []
        for events in batches:
            made = payload_from_columns(events.columns())
            if form == "json":
                made = payload_from_json(b"\n".join(map(msgspec.json.encode, events.dictionaries())))
            check_payload(made.header, made.buffers, WIDE)
            self._payloads.append((made.header, [memoryview(buffer) for buffer in made.buffers]))

    def run(self) -> I8:
        """Match all batches; return the matches of each event."""
        engine, counts = self._loaded.engine, self._loaded.counts
        found = []
        for header, buffers in self._payloads:
            batch = engine.read(header, buffers)
            found.append(np.diff(engine.match_batch(batch, GENERATION, counts).event_offsets))
        return np.concatenate(found)


class KernelsAtOnce:
    """Kernels that match the same batches at the same time: one in this process, each other in a fork of it.

    A cluster of so many workers is compared with them: cores share caches and memory, so that two kernels do
    not match twice as many events as one.

    Parameters
    ----------
    kernel : Run
    count : int
    repeats : int
        Of all batches, in each run.
    """

    def __init__(self, kernel: Run, count: int, repeats: int) -> None:
        self._kernel = kernel
        self._repeats = repeats
        forking = multiprocessing.get_context("fork")
        self._pipes = []
        self._processes = []
        for _ in range(count - 1):
            mine, other = forking.Pipe()
            self._processes.append(
                forking.Process(target=_run_when_asked, args=(kernel, repeats, other), daemon=True)
            )
            self._pipes.append(mine)
            self._processes[-1].start()

    def run(self) -> I8:
        """Match all batches in every process; return the matches of each event, one process after another."""
        for pipe in self._pipes:
            pipe.send(None)
        mine = _repeated(self._kernel, self._repeats)
        return np.concatenate([mine, *(pipe.recv() for pipe in self._pipes)])

    def close(self) -> None:
        """End the other processes."""
        for process in self._processes:
            process.terminate()
            process.join()


def _repeated(kernel: Run, repeats: int) -> I8:
    return np.concatenate([kernel.run() for _ in range(repeats)])


def _run_when_asked(kernel: Run, repeats: int, pipe: Any) -> None:
    while True:
        pipe.recv()
        pipe.send(_repeated(kernel, repeats))
