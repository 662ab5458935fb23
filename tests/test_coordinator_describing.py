"""What the cluster tells of its subscriptions: expressions as written, by id and page by page."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from pubsub_cluster.coordinator import describing
from pubsub_cluster.coordinator.describing import describe, list_page
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.row_versions import RowVersions
from pubsub_cluster.coordinator.store import STORE_FILE, ChangeStore
from pubsub_cluster.language.errors import ProtocolError, StoreError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import DESCRIBED_EXPRESSIONS_MAX
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueWriter


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
        found, cursor = [], {"after": None, "version": None}
        while True:
            page = plain(list_page(self.registry, self.store, **cursor))
            found.append([(item["id"], item["expr"]) for item in page["items"]])
            if page["next"] is None:
                return found
            cursor = {"after": page["next"], "version": page["version"]}


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


def test_pages_show_the_catalogue_as_of_one_version(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
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
    version = stage.version
    desk.keep(stage.stage_unsubscribe(min(live)), stage.stage_update({"id": max(live), "expr": "new = 1"}))
    desk.keep(stage.stage_subscribe({"id": "late", "expr": "new = 2"}))
    desk.flush()
    now = {name: text for name, text in live.items() if name != min(live)} | {
        max(live): "new = 1",
        "late": "new = 2",
    }
    for limits in ({}, {"LISTED_MAX": 7}, {"ROWS_PER_PAGE_MAX": 5}, {"LISTED_SIZE_BYTES_MAX": 40}):
        for name, value in limits.items():
            monkeypatch.setattr(describing, name, value)
        pages = desk.pages()
        listed = [item for page in pages for item in page]
        assert len(listed) == len(now) and dict(listed) == now
        assert (len(pages) > 1) is bool(limits)
        after, found = 0, {}
        while after is not None:
            page = plain(list_page(stage, desk.store, after, version))
            found |= {item["id"]: item["expr"] for item in page["items"]}
            after = page["next"]
        assert found == live
        monkeypatch.undo()
    for wrong in ({"after": -1}, {"after": 10_000}, {"after": "x"}, {"version": stage.version + 1}):
        with pytest.raises(ProtocolError):
            list_page(stage, desk.store, **{"after": 0, "version": 0, **wrong})


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
