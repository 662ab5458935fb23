"""What the cluster tells of its subscriptions: expressions as written, by id and page by page."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.client.blocking import each
from pubsub_cluster.client.catalogue import CatalogueCalls
from pubsub_cluster.coordinator import describing, handle_order, row_versions, store
from pubsub_cluster.coordinator.describing import describe, list_page
from pubsub_cluster.coordinator.handle_order import HandleOrder
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.row_versions import RowVersions
from pubsub_cluster.coordinator.store import STORE_FILE, ChangeStore
from pubsub_cluster.language.errors import ProtocolError, StoreError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import DESCRIBED_EXPRESSIONS_MAX, Op
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueWriter
from pubsub_cluster.shm.catalogue_copy import copy_live_rows
from pubsub_cluster.shm.catalogue_move import Copy
from pubsub_cluster.shm.catalogue_store import CatalogueStore
from pubsub_cluster.shm.change_groups import SUBSCRIBE, Change


def plain(value: Any) -> Any:
    """Return an answer as it arrives."""
    return orjson.loads(orjson.dumps(value))


class Desk:
    """A registry whose changes are durable at once."""

    def __init__(self, folder: Path) -> None:
        self.registry = Registry(CatalogueWriter.in_memory(1_000), EMPTY_SCHEMA, DEFAULT_LIMITS)
        self.store = ChangeStore(folder, "normal")

    def keep(self, *staged: Any) -> None:
        """Commit staged changes as one group."""
        self.store.commit([change for change, _ in staged])
        self.registry.apply(len(staged))

    def flush(self) -> None:
        """Wait until everything is on the disk; nothing can be changed afterwards."""
        self.store.start()
        self.store.close()

    def pages(self) -> list[list[tuple[str, Any]]]:
        """Return ids and expressions of all pages."""
        found, after = [], None
        while True:
            page = plain(list_page(self.registry, self.store, after))
            found.append([(item["id"], item["expr"]) for item in page["items"]])
            if (after := page["next"]) is None:
                return found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.store.close()


def test_an_expression_is_told_as_it_was_written(desk: Desk) -> None:
    stage = desk.registry
    tree = {"attr": "b", "op": "=", "value": 1}
    desk.keep(
        stage.stage_subscribe({"id": "a", "expr": "x  =  1"}),
        stage.stage_subscribe({"id": "b", "expr": tree}),
    )
    desk.keep(stage.stage_unsubscribe("b"), stage.stage_update({"id": "a", "expr": "y > 2"}))
    desk.keep(stage.stage_subscribe({"id": "b", "expr": tree}))
    desk.flush()
    told = plain(describe(desk.registry, desk.store, ["a", "none", "b"], True))
    assert [each.get("expr") for each in told] == ["y > 2", None, tree]
    assert told[1]["error"]["code"] == "unknown_id"
    again = Registry(CatalogueWriter.in_memory(1_000), EMPTY_SCHEMA, DEFAULT_LIMITS)
    again.replay(desk.store.replay)
    assert plain(describe(again, desk.store, ["a"], True))[0]["expr"] == "y > 2"
    with pytest.raises(ProtocolError, match="too many ids"):
        describe(desk.registry, desk.store, ["a"] * (DESCRIBED_EXPRESSIONS_MAX + 1), True)


def test_pages_show_the_live_subscriptions_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, source, live = desk.registry, random.Random(1), dict[str, str]()
    for number in range(200):
        if live and source.random() < 0.3:
            desk.keep(stage.stage_unsubscribe(name := source.choice(sorted(live))))
            del live[name]
        elif live and source.random() < 0.3:
            name = source.choice(sorted(live))
            desk.keep(stage.stage_update({"id": name, "expr": f"u = {number}"}))
            live[name] = f"u = {number}"
        else:
            desk.keep(stage.stage_subscribe({"id": f"n{number}", "expr": f"x = {number}"}))
            live[f"n{number}"] = f"x = {number}"
    desk.flush()
    for limits in (
        {},
        {"LISTED_MAX": 7},
        {"ROWS_PER_PAGE_MAX": 5},
        {"FOLLOWED_ROWS_MAX": 50},
        {"LISTED_SIZE_BYTES_MAX": 40},
    ):
        for name, value in limits.items():
            monkeypatch.setattr(handle_order if name == "FOLLOWED_ROWS_MAX" else describing, name, value)
        stage.by_handle = HandleOrder()
        pages = desk.pages()
        listed = [item for page in pages for item in page]
        assert len(listed) == len(live) and dict(listed) == live
        assert (len(pages) > 1) is bool(limits)
        monkeypatch.undo()
    for wrong in (-1, "x", True, 1 << 63):
        with pytest.raises(ProtocolError):
            list_page(stage, desk.store, wrong)


class Written:
    """What a change table tells: expressions by version; what is compacted is not among them."""

    def __init__(self) -> None:
        self.by_version: dict[int, bytes] = {}

    def expressions(self, versions: list[int]) -> dict[int, bytes]:
        return {version: self.by_version[version] for version in versions if version in self.by_version}


class LivingCatalogue:
    """A catalogue that changes, moves, is compacted and starts again between the pages of a listing."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.written = Written()
        self.registry = self.empty()
        self.live: dict[str, tuple[int, int]] = {}  # id: handle, version
        self.history: dict[int, set[str]] = {}  # by handle: its expressions while a listing goes on
        for number in range(30):
            self.subscribe(f"first{number}")
        self.disturbed = 0

    @staticmethod
    def empty() -> Registry:
        return Registry(CatalogueWriter.in_memory(1_000), EMPTY_SCHEMA, DEFAULT_LIMITS)

    def keep(self, change: Change) -> None:
        self.registry.apply(1)
        if change.expression is None:
            del self.live[change.subscription_id]
            return
        self.written.by_version[change.version] = change.expression
        self.live[change.subscription_id] = change.handle, change.version
        self.history.setdefault(change.handle, set()).add(orjson.loads(change.expression))

    def subscribe(self, name: str) -> None:
        self.keep(self.registry.stage_subscribe({"id": name, "expr": f"x = {self.source.random()}"})[0])

    def move(self) -> None:
        old, store = self.registry.catalogue, CatalogueStore.private(1_000)
        made = copy_live_rows(old.columns, old.counts(), self.registry.version, store)
        self.registry.finish_move(self.registry.begin_move(Copy(store, *made, self.registry.version)))

    def compact(self) -> None:
        kept = {version for _, version in self.live.values()}
        self.written.by_version = {v: text for v, text in self.written.by_version.items() if v in kept}

    def restart(self) -> None:
        before, self.registry = self.registry, self.empty()
        changes = [
            Change(version, SUBSCRIBE, handle, name, "default", self.written.by_version[version], None, None)
            for name, (handle, version) in sorted(self.live.items(), key=lambda each: each[1][1])
        ]
        self.registry.replay(lambda: iter(changes))
        self.registry.start_at(before.version, before.next_handle)

    def live_on(self) -> None:
        """Change something; now and then what rows there are."""
        for _ in range(self.source.randrange(4)):
            name = self.source.choice(sorted(self.live))
            match self.source.randrange(3):
                case 0:
                    text = f"y = {self.source.random()}"
                    self.keep(self.registry.stage_update({"id": name, "expr": text})[0])
                case 1:
                    self.keep(self.registry.stage_unsubscribe(name)[0])
                    self.subscribe(f"later{self.registry.version}")
                case _:
                    self.subscribe(f"new{self.registry.version}")
        if self.source.random() < 0.1:
            self.disturbed += 1
            self.source.choice((self.move, self.compact, self.restart))()

    async def ask(self, op: Op, cursor: dict[str, Any]) -> Any:
        """Answer a client's request for a page."""
        assert op is Op.LIST
        self.live_on()
        store: Any = self.written
        page = list_page(self.registry, store, cursor.get("after"))
        self.live_on()
        return SimpleNamespace(header=plain(page))


def test_a_listing_has_everything_that_lives_through_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LISTED_MAX", 5), ("ROWS_PER_PAGE_MAX", 12)):
        monkeypatch.setattr(describing, name, value)
    monkeypatch.setattr(handle_order, "FOLLOWED_ROWS_MAX", 60)
    disturbed = 0
    for seed in range(60):
        catalogue = LivingCatalogue(seed)
        before = {handle for handle, _ in catalogue.live.values()}
        catalogue.history = {
            handle: {orjson.loads(catalogue.written.by_version[version])}
            for handle, version in catalogue.live.values()
        }
        session: Any = catalogue
        listed = list(each(CatalogueCalls(session).every()))
        handles = [one.handle for one in listed]
        assert len(set(handles)) == len(handles)
        assert before & {handle for handle, _ in catalogue.live.values()} <= set(handles)
        for one in listed:
            assert one.expression in catalogue.history[one.handle]
        disturbed += catalogue.disturbed
    assert disturbed > 60


def test_subscriptions_that_were_made_together_are_read_at_once(desk: Desk) -> None:
    desk.keep(*(desk.registry.stage_subscribe({"id": f"s{i}", "expr": f"x = {i}"}) for i in range(20)))
    desk.flush()
    with mock.patch.object(store, "decode_changes", wraps=store.decode_changes) as decoded:
        told = plain(describe(desk.registry, desk.store, [f"s{i}" for i in range(20)], True))
    assert [one["expr"] for one in told] == [f"x = {i}" for i in range(20)]
    assert decoded.call_count == 1


def test_a_damaged_record_hides_no_others(desk: Desk, tmp_path: Path) -> None:
    for name in "abc":
        desk.keep(desk.registry.stage_subscribe({"id": name, "expr": f"x = '{name}'"}))
    desk.flush()
    with contextlib.closing(sqlite3.connect(tmp_path / STORE_FILE)) as connection, connection:
        connection.execute("UPDATE changes SET body = x'00' WHERE first_version = 2")
    told = plain(describe(desk.registry, desk.store, ["a", "b", "none", "c"], True))
    assert [one.get("expr") for one in told] == ["x = 'a'", None, None, "x = 'c'"]
    assert [told[at]["error"]["code"] for at in (1, 2)] == [StoreError.code, "unknown_id"]


def test_a_table_that_is_gone_is_said(desk: Desk, tmp_path: Path) -> None:
    desk.keep(desk.registry.stage_subscribe({"id": "a", "expr": "x = 1"}))
    desk.flush()
    (tmp_path / STORE_FILE).unlink()
    assert describe(desk.registry, desk.store, ["a"], True)[0]["error"]["code"] == StoreError.code
    assert not (tmp_path / STORE_FILE).exists()


def test_versions_of_rows_take_memory_where_they_drift_apart() -> None:
    versions, wanted, source, version = RowVersions(), [], random.Random(2), 0
    for row in range(1_000):
        version += 1 if source.random() < 0.9 else 5
        versions.add(row, version)
        wanted.append(version)
    assert [versions.version_of(row) for row in range(1_000)] == wanted
    assert len(versions._distance) < 200
    together = RowVersions()
    for first in range(0, 1_000, 8):
        together.add_many(first, wanted[first : first + 8])
    assert together._distance == versions._distance and together._first_row == versions._first_row


@given(st.lists(st.sampled_from(["add", "jump", "move", "settle", "look"]), max_size=60), st.randoms())
def test_versions_follow_their_rows_a_slice_at_a_time(steps: list[str], source: random.Random) -> None:
    """Rows move, some are gone, others are added before the last move is carried out."""
    versions, wanted, version = RowVersions(), list[int](), 0
    with mock.patch.object(row_versions, "SLICE_ROWS", 3):
        for step in steps:
            match step:
                case "add" | "jump":
                    version += 1 if step == "add" else 5
                    versions.add(len(wanted), version)
                    wanted.append(version)
                case "move":
                    kept = [row for row in range(len(wanted)) if source.random() < 0.8]
                    source.shuffle(kept)
                    new_row = np.full(len(wanted), -1, np.int32)
                    new_row[kept] = np.arange(len(kept))
                    versions.move(new_row)
                    wanted = [wanted[row] for row in kept]
                case "settle":
                    versions.settle_some()
                case "look":
                    assert [versions.version_of(row) for row in range(len(wanted))] == wanted
        while versions.settle_some():
            pass
        assert [versions.version_of(row) for row in range(len(wanted))] == wanted
