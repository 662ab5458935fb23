"""Tables kept from generation to generation: layouts of a catalogue that changes answer as brute force."""

from __future__ import annotations

import itertools
import math
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matching_cases import raw_batch

from pubsub_cluster.benchmarks.workloads.drift import Drift
from pubsub_cluster.benchmarks.workloads.rules import Events, matching
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import NO_COUNTS, CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.layout import LayoutArrays
from pubsub_cluster.tuner import live as live_module
from pubsub_cluster.tuner import process
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.dynamic import CREATED, REMOVED, Decision, DynamicClustering
from pubsub_cluster.tuner.live import LiveTables, _Atoms, _without_news, told
from pubsub_cluster.tuner.messages import BuildFailed, Fold, Measured
from pubsub_cluster.tuner.reparation import Reparation
from pubsub_cluster.tuner.report import describe_tables
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.workers.engine import MatchEngine

SIZE, STEP = 3_000, 600
CONSTANTS = CostConstants(entry_ns=20.0)
"""Checks are dear, so that a few thousand subscriptions are worth tables."""

MEASURED = {"is_done": lambda: True, "result": lambda: DEFAULT_CONSTANTS}
WORKLOAD = Drift("small", SIZE, seed=3, fixed=1, drawn_from=16, new_values=35)


class Changing:
    """A catalogue whose oldest subscriptions go as new ones come."""

    def __init__(self, inserted_max: int) -> None:
        self.writer = CatalogueWriter.in_memory(2 * (SIZE + inserted_max))
        self.writer.append_columns(WORKLOAD.rules(0).columns())
        self.inserted, self.version = 0, 1
        self.catalogue = CatalogueReader.of(self.writer)

    def change(self, count: int) -> None:
        """Insert and remove so many."""
        self.version += 1
        for row in range(self.inserted, self.inserted + count):
            self.writer.remove(row, self.version)
        self.inserted += count
        rules = WORKLOAD.rules(self.inserted)
        last = rules._replace(start=rules.start[SIZE - count :] - rules.start[SIZE - count])
        last = last._replace(literal=rules.literal[rules.start[SIZE - count] :])
        self.writer.append_columns(last.columns())

    def check(self, layout, events: Events) -> None:  # type: ignore[no-untyped-def]
        """Compare a layout's answers with brute force."""
        engine = MatchEngine(self.catalogue, EMPTY_SCHEMA)
        engine.attach_layout(1, layout)
        found = engine.match(events.raw(), 1, self.writer.counts())
        rules = WORKLOAD.rules(self.inserted)
        for event in range(events.size):
            rows = found.rows[found.event_offsets[event] : found.event_offsets[event + 1]]
            expected = matching(rules, events.value[event]) + self.inserted
            assert sorted(rows.tolist()) == expected.tolist()


def sample_of(*batches: Events) -> EventSample:
    sample = EventSample()
    for events in batches:
        sample.add(events.raw())
    return sample


def check_moved(layout: LayoutArrays, decision: Decision) -> None:
    """Look for those who moved to a new table in the layout's table of the same attributes."""
    schemas = [
        tuple(layout.attribute_catalogue[layout.part_code[first:stop] >> 1].tolist())
        for first, stop in itertools.pairwise(layout.table_part.tolist())
    ]
    table = schemas.index(tuple(way >> 1 for way in decision.ways))
    assert layout.table_entries[table] > len(decision.moved) / 2


def check_sums(dynamic: DynamicClustering) -> None:
    """Compare sums that have been kept up for long with new ones: nobody leaves otherwise than he came."""
    kept, fresh = dynamic._reparation, Reparation(dynamic.clustering)
    fresh.add(dynamic.clustering.members(dynamic.to_repair))
    size = max(len(kept.power), len(fresh.power))
    for name in ("power", "mover_count", "checked", "saved"):
        columns = (getattr(sums, name) for sums in (kept, fresh))
        first, second = (np.append(column, np.zeros(size - len(column))) for column in columns)
        assert first == pytest.approx(second, abs=1e-9), name


@pytest.mark.parametrize("takes_over", [False, True])
def test_tables_follow_what_changes_and_every_layout_answers_right(takes_over: bool) -> None:
    changing, live = Changing(3 * SIZE), LiveTables()
    sample = sample_of(WORKLOAD.events(400, False))
    kinds, first = [], 0
    for turn in range(2 * SIZE // STEP + 2):
        if turn:
            changing.change(STEP)
        layout = build_layout(
            changing.catalogue,
            changing.writer.counts(),
            changing.version,
            sample,
            1,
            configuration=live.configure,
            constants=CONSTANTS,
            last=live.last if takes_over else None,
        )
        live.last.settle(layout)
        assert bool(live.reason) == (turn == 0)
        first = first or len(layout.table_mode)
        kinds += [decision.kind for decision in live.decisions]
        for decision in live.decisions:
            record = told(decision, changing.catalogue.attribute_name)
            assert all(name.startswith("a") for name in record["attributes"]) and record["moved"] >= 0
            if decision.kind == CREATED and decision is live.decisions[-1]:
                check_moved(layout, decision)
        books = live._dynamic.clustering if live._dynamic else None
        if live._dynamic is not None:
            check_sums(live._dynamic)
        assert (books is None) == (turn == 0) and (books is None or len(books.numbers) == SIZE)
        events = WORKLOAD.events(3, False, first=turn).value
        events[0, :] = WORKLOAD.predicates(changing.inserted, changing.inserted + 1)[1][0, 0]
        changing.check(layout, Events(WORKLOAD.domains, events))
    assert first > 0 and CREATED in kinds and REMOVED in kinds
    assert books is not None
    attributes = {way >> 1 for table in books.tables for way in books.ways(table)}
    names = {changing.catalogue.attribute_name(attribute) for attribute in attributes}
    assert names <= {f"a{number}" for number in range(16, 32)}, "the tables of the beginning are gone"


def atoms_with(nu: list[float], present: list[float], used: list[bool] | None = None) -> _Atoms:
    """Return atoms of which those with a probability of 0 are none."""
    chance = np.array(nu)
    way = np.where(chance > 0.0, np.arange(len(nu)) * 2, -1).astype(np.int32)
    is_used = np.array(used or [True] * len(present))
    return _Atoms(chance > 0.0, way, np.where(chance > 0.0, chance, 1.0), is_used, np.array(present))


def test_what_chance_explains_is_no_news() -> None:
    before = atoms_with([0.1, 0.2, 0.0], [0.9, 0.5])
    near = atoms_with([0.11, 0.19, 0.3, 0.4], [0.91, 0.5, 0.7])
    known = _without_news(before, near, 1_000)
    assert known is not None and known.nu.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert known.present.tolist() == [0.9, 0.5, 0.7]
    assert _without_news(before, near, 1_000_000) is None, "so many events know better"
    assert _without_news(before, atoms_with([0.1, 0.2, 0.0], [0.5, 0.5]), 1_000) is None


def test_atoms_that_nobody_has_any_more_stay_known() -> None:
    before = atoms_with([0.1, 0.2], [0.9, 0.5])
    gone = atoms_with([0.1, 0.0], [0.9, 1.0], [True, False])
    known = _without_news(before, gone, 1_000)
    assert known is not None and known.nu.tolist() == [0.1, 0.2] and known.way.tolist() == [0, 2]
    assert known.present.tolist() == [0.9, 0.5]
    again = _without_news(known, atoms_with([0.1, 0.9], [0.9, 0.5]), 1_000)
    assert again is None, "it comes back with another probability"


def test_the_greedy_chooses_anew_where_most_is_new() -> None:
    changing, live = Changing(2 * SIZE), LiveTables()
    sample = sample_of(WORKLOAD.events(400, False))

    def build() -> None:
        layout = build_layout(
            changing.catalogue, changing.writer.counts(), changing.version, sample, 1,
            configuration=live.configure, constants=CONSTANTS, last=live.last,
        )  # fmt: skip
        live.last.settle(layout)

    build()
    assert live.reason == "no tables to start from"
    changing.change(SIZE // 10)
    build()
    assert live.reason == "" and live.last.taken_over > 0.5
    changing.change(2 * SIZE // 3)
    build()
    assert live.reason == "most clauses are new" and live.decisions == []
    assert live.last.taken_over == 0.0, "everybody is dealt anew"


class Builds:
    """Layouts of a catalogue that changes, one after the other, of live tables."""

    def __init__(self, live: LiveTables) -> None:
        self.live, self.changing = live, Changing(2 * SIZE)
        self.sample = sample_of(WORKLOAD.events(400, False))

    def next(self) -> set[tuple[str, ...]]:
        """Build the next layout; return its tables by the names of their attributes."""
        changing, live = self.changing, self.live
        layout = build_layout(
            changing.catalogue, changing.writer.counts(), changing.version, self.sample, 1,
            configuration=live.configure, constants=CONSTANTS, last=live.last,
        )  # fmt: skip
        live.last.settle(layout)
        changing.check(layout, WORKLOAD.events(3, False))
        found = describe_tables(layout, changing.catalogue.attribute_name)
        return {tuple(sorted(table["attributes"])) for table in found}


def test_tables_that_nothing_is_followed_from_stay_until_much_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with cells, or with more than two million clauses."""
    monkeypatch.setattr(live_module, "CLAUSES_MAX", SIZE // 2)
    builds = Builds(LiveTables())
    live = builds.live
    tables = builds.next()
    assert live.reason == "no tables to start from" and tables
    for _ in range(2):
        builds.changing.change(SIZE // 25)
        assert builds.next() == tables and live.reason == "" and live._dynamic is None
        assert live.last.taken_over > 0.5
    builds.changing.change(SIZE // 25)
    builds.next()
    assert live.reason == "many clauses are new", "together they are"
    builds.next()
    assert live.reason == ""
    builds.sample = sample_of(Events(WORKLOAD.domains, np.ones((400, len(WORKLOAD.domains)), np.int32)))
    builds.next()
    assert live.reason == "events have changed"
    builds.sample = sample_of(*(WORKLOAD.events(400, False, first=first) for first in range(0, 4_000, 400)))
    builds.next()
    assert live.reason == "the sample of events is much better"


def test_tables_outlive_an_epoch() -> None:
    """It numbers everything anew; the names of the tables' attributes are the same."""
    before = Builds(LiveTables())
    before.next()
    before.changing.change(SIZE // 25)
    tables = before.next()
    assert before.live._dynamic is not None and before.live.choice is not None
    after = Builds(LiveTables(before.live.choice))
    assert after.next() == tables and after.live.reason == "" and after.live._dynamic is None
    after.changing.change(SIZE // 25)
    after.next()
    assert after.live.reason == "" and after.live._dynamic is not None
    clause_count = before.changing.writer.counts().clauses
    same = Builds(before.live.after_epoch(clause_count))
    assert same.next() == tables and same.live.reason == ""
    other = Builds(before.live.after_epoch(clause_count + SIZE))
    other.next()
    assert other.live.reason == "most clauses are new", "an epoch has as many, but they are others"
    late = Builds(LiveTables(before.live.choice))
    late.sample = sample_of(*(WORKLOAD.events(400, False, first=first) for first in range(0, 4_000, 400)))
    late.next()
    assert late.live.reason == "the sample of events is much better"


def test_an_empty_catalogue_has_no_tables() -> None:
    writer, live = CatalogueWriter.in_memory(10), LiveTables()
    reader = CatalogueReader.of(writer)
    sample = EventSample()
    sample.add(raw_batch([{"a": (1,)}]))
    layout = build_layout(reader, writer.counts(), 1, sample, 1, configuration=live.configure)
    assert len(layout.table_mode) == 0 and np.all(layout.partition_cost == 0)


def test_a_build_that_failed_leaves_nothing_half_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the midst of following change must not come again with every generation."""
    loop = process.TunerLoop("inproc://nobody")
    said: list[Any] = []
    monkeypatch.setattr(loop, "_say", said.append)

    def failing(*_: Any, **__: Any) -> None:
        raise IndexError("half of it was done")

    monkeypatch.setattr(process, "build_layout", failing)
    monkeypatch.setattr(loop, "_source", lambda *_: (None, NO_COUNTS))
    before = LiveTables()
    parts = {"live": before, "events": None, "setup": SimpleNamespace(partition_count=1)}
    for name, part in parts.items():
        monkeypatch.setattr(loop, f"_{name}", part, raising=False)  # what `TunerSetup` would make
    loop._fold(Fold(3, tuple(NO_COUNTS), 1, "catalogue"))
    loop._context.destroy(linger=0)
    (told_of,) = said
    assert isinstance(told_of, BuildFailed) and "half of it was done" in str(told_of.error)
    assert loop._live is not before


def test_nothing_is_taken_over_from_a_segment_that_was_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    changing = Changing(SIZE)
    loop = process.TunerLoop("inproc://nobody")
    for name, part in {"live": LiveTables(), "catalogues": SimpleNamespace(drop=lambda _: None)}.items():
        monkeypatch.setattr(loop, f"_{name}", part, raising=False)
    last = loop._live.last
    counts = changing.writer.counts()
    last.settle(build_layout(changing.catalogue, counts, 1, None, 1, last=last))
    loop._last_segment = "the last"
    loop._held.drop("another")
    loop._let_go(math.inf)
    assert last.base is not None
    loop._held.drop("the last")
    loop._let_go(math.inf)
    assert last.base is None
    loop._context.destroy(linger=0)


def test_constants_are_measured_by_no_gentle_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that such a thread starts has its low priority, and the kernel ends it with the thread."""
    loop = process.TunerLoop("inproc://nobody")
    threads: list[int] = []

    class Measuring:
        def __init__(self) -> None:
            threads.append(threading.get_ident())

        def is_done(self, _wait_s: float) -> bool:
            return True

        def result(self) -> CostConstants:
            return DEFAULT_CONSTANTS

    monkeypatch.setattr(process, "Measurement", Measuring)
    monkeypatch.setattr(loop, "_say", lambda _: None)
    monkeypatch.setattr(loop, "_fold", lambda _: threads.append(threading.get_ident()))
    counts = NO_COUNTS._replace(clauses=process.MEASURED_FROM_CLAUSES)
    loop._take(Fold(3, tuple(counts), 1, "catalogue", can_wait=True))
    loop._context.destroy(linger=0)
    assert loop._constants == DEFAULT_CONSTANTS
    assert threads[0] == threading.get_ident() != threads[1]


def test_constants_are_measured_once_there_are_subscriptions_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = process.TunerLoop("inproc://nobody")
    told_of: list[Any] = []
    monkeypatch.setattr(process, "Measurement", lambda: SimpleNamespace(**MEASURED))
    monkeypatch.setattr(loop, "_say", told_of.append)
    monkeypatch.setattr(loop, "_fold", lambda _: None)
    loop._measure_at_s = 0.0
    for clauses, is_measured in (
        (process.MEASURE_FROM_CLAUSES - 1, False),
        (process.MEASURE_FROM_CLAUSES, True),
        (1, True),
    ):
        loop._take(Fold(3, tuple(NO_COUNTS._replace(clauses=clauses)), 1, "catalogue"))
        for _ in range(2):  # begun and, the next time, done
            loop._measure()
        assert (loop._constants is not None) == is_measured
    loop._context.destroy(linger=0)
    assert told_of == [Measured(DEFAULT_CONSTANTS._asdict())]
