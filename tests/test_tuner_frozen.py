"""Frozen tables stay: through change, new labels, new epochs, large catalogues, and with cells."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from test_tuner_live import CONSTANTS, SIZE, WORKLOAD, Changing, sample_of

from pubsub_cluster.benchmarks.workloads.rules import Domain, Events, interval_rules, matching
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_copy import copy_live_rows
from pubsub_cluster.shm.catalogue_store import CatalogueStore
from pubsub_cluster.tuner import live as live_module
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.live import LiveTables
from pubsub_cluster.tuner.messages import FrozenTable
from pubsub_cluster.tuner.report import describe_tables
from pubsub_cluster.workers.engine import MatchEngine


def tables_of(layout: Any, catalogue: CatalogueReader) -> set[FrozenTable]:
    """The tables of a layout as the coordinator freezes them; attributes in the order of their names."""
    found = set()
    for table in describe_tables(layout, catalogue.attribute_name):
        parts = sorted(zip(table["attributes"], table["slices"], strict=True))
        found.add(FrozenTable(tuple(name for name, _ in parts), tuple(count for _, count in parts)))
    return found


def test_frozen_tables_stay_while_everything_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    changing, live = Changing(2 * SIZE), LiveTables()
    sample = sample_of(WORKLOAD.events(400, False))

    def build() -> Any:
        counts, version = changing.writer.counts(), changing.version
        return build_layout(
            changing.catalogue, counts, version, sample, 1, configuration=live.configure, constants=CONSTANTS
        )

    tables = tables_of(build(), changing.catalogue)
    assert tables
    live.frozen = tuple(tables)
    monkeypatch.setattr(live_module, "CLAUSES_MAX", SIZE // 2)  # as more than two million
    changing.change(2 * SIZE // 3)
    layout = build()
    assert tables_of(layout, changing.catalogue) == tables
    assert live.reason == "" and live.decisions == []
    changing.check(layout, WORKLOAD.events(3, False))
    changing.change(SIZE // 3)
    live.frozen = None
    layout = build()
    assert live.reason == "many clauses" and tables_of(layout, changing.catalogue) != tables
    changing.check(layout, WORKLOAD.events(3, False))


def test_after_a_thaw_what_came_and_went_meanwhile_is_followed() -> None:
    changing, live = Changing(SIZE), LiveTables()
    sample = sample_of(WORKLOAD.events(400, False))
    for turn in range(6):
        if turn:
            changing.change(SIZE // 10)
        live.frozen = () if turn in (2, 3) else None
        counts, version = changing.writer.counts(), changing.version
        layout = build_layout(
            changing.catalogue, counts, version, sample, 1, configuration=live.configure, constants=CONSTANTS
        )
        assert bool(live.reason) == (turn == 0)
        assert (len(layout.table_mode) == 0) == (turn in (2, 3))
        changing.check(layout, WORKLOAD.events(3, False, first=turn))
    assert live._dynamic is not None and len(live._dynamic.clustering.numbers) == SIZE


def test_frozen_tables_outlive_an_epoch_and_rest_while_their_attributes_are_gone() -> None:
    writer = CatalogueWriter.in_memory(4 * SIZE)
    domains = tuple(Domain(name) for name in ("gone", "b", "a"))
    random = np.random.default_rng(5)
    rows = []
    for attributes in ((0, 1), (1, 2)):  # first those that go
        attribute = np.tile(np.array(attributes, np.int32), SIZE)
        value = random.integers(1, 30, 2 * SIZE).astype(np.int32)
        start = np.arange(0, 2 * SIZE + 1, 2, dtype=np.int64)
        rows.append(interval_rules(domains, attribute, value, value, start))
        writer.append_columns(rows[-1].columns())
    frozen = (
        FrozenTable(("a", "b"), (0, 0)),
        FrozenTable(("a", "gone"), (0, 0)),
    )  # no greedy chooses the second
    live = LiveTables()
    live.frozen = frozen
    old = CatalogueReader.of(writer)
    layout = build_layout(old, writer.counts(), 1, None, 1, configuration=live.configure)
    assert tables_of(layout, old) == set(frozen)

    for row in range(SIZE):
        writer.remove(row, 2)
    store = CatalogueStore.private(4 * SIZE)
    counts, _ = copy_live_rows(old.columns, writer.counts(), 2, store, 0)
    new = CatalogueReader.of_family(store.family)
    assert new.attribute_name(0) != old.attribute_name(0), "the epoch must number attributes anew"
    live = LiveTables()  # as the tuner begins anew with an epoch
    live.frozen = frozen
    layout = build_layout(new, counts, 2, None, 2, configuration=live.configure)
    assert tables_of(layout, new) == {frozen[0]}
    engine = MatchEngine(new, EMPTY_SCHEMA)
    engine.attach_layout(1, layout)
    value = random.integers(1, 30, (40, 3)).astype(np.int32)
    found = engine.match(Events(domains, value).raw(), 1, counts)
    expected = [matching(rows[1], row).tolist() for row in value]
    assert [sorted(found.rows[a:b].tolist()) for a, b in pairwise(found.event_offsets)] == expected
    assert any(expected)


def test_frozen_cells_keep_their_slices_while_labels_come_and_go() -> None:
    domains = tuple(Domain(name) for name in "abc")
    random = np.random.default_rng(7)
    writer = CatalogueWriter.in_memory(4 * SIZE)
    catalogue = CatalogueReader.of(writer)
    frozen = (FrozenTable(("a", "b"), (12, 12)), FrozenTable(("b", "c"), (12, 0)))
    live = LiveTables()
    live.frozen = frozen
    for turn, most in enumerate((400, 4_000), 1):  # the second time with other constants
        lo = random.integers(1, most, 3 * SIZE).astype(np.int32)
        hi = lo + random.integers(0, most // 20, 3 * SIZE).astype(np.int32)
        lo[2::3] = hi[2::3] = lo[2::3] % 20 + 1
        attribute = np.tile(np.arange(3, dtype=np.int32), SIZE)
        rules = interval_rules(domains, attribute, lo, hi, np.arange(0, 3 * SIZE + 1, 3, dtype=np.int64))
        if turn == 2:
            for row in range(SIZE):
                writer.remove(row, 2)
        writer.append_columns(rules.columns())
        layout = build_layout(catalogue, writer.counts(), turn, None, turn, configuration=live.configure)
        assert tables_of(layout, catalogue) == set(frozen)
        assert layout.table_entries.sum() > SIZE // 2
        engine = MatchEngine(catalogue, EMPTY_SCHEMA)
        engine.attach_layout(1, layout)
        value = random.integers(1, most, (60, 3)).astype(np.int32)
        value[:, 2] = value[:, 2] % 20 + 1
        found = engine.match(Events(domains, value).raw(), 1, writer.counts())
        expected = [(matching(rules, row) + (turn - 1) * SIZE).tolist() for row in value]
        assert [sorted(found.rows[a:b].tolist()) for a, b in pairwise(found.event_offsets)] == expected
        assert any(expected)
