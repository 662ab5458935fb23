"""Requests that are sent again to the next life: what was durable is answered, the rest carried out."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import orjson
import pytest

from pubsub_cluster.coordinator import changes, origins
from pubsub_cluster.coordinator.changes import ChangeDesk
from pubsub_cluster.coordinator.origins import Recalled
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import Op
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueWriter

NOT = {"not": {"attr": "b", "op": "=", "value": 1}}
REQUESTS: list[tuple[str, Op, list[Any]]] = [
    ("made", Op.SUBSCRIBE, [{"expr": f"x = {n}"} for n in range(5)]),
    ("bad", Op.SUBSCRIBE, [{"expr": "x = ="}, {"id": "a", "expr": "x = 1 OR y = 2"}, {"expr": 7}]),
    (
        "more",
        Op.SUBSCRIBE,
        [{"id": "b", "expr": NOT}, {"id": "c", "expr": "x = 9"}, {"id": "a", "expr": "x"}],
    ),
    (
        "new",
        Op.UPDATE,
        [{"id": "a", "expr": "y = 3"}, {"id": "none", "expr": "y = 3"}, {"id": "c", "expr": "z = 1"}],
    ),
    ("gone", Op.UNSUBSCRIBE, ["b", "nobody", "c"]),
    ("b again", Op.SUBSCRIBE, [{"id": "b", "expr": "w = 4"}]),
]


class Life:
    """A registry, its table and its desk, until it ends."""

    def __init__(self, folder: Path) -> None:
        self.store = ChangeStore(folder, "normal")
        self.registry = Registry(CatalogueWriter.in_memory(1_000), EMPTY_SCHEMA, DEFAULT_LIMITS)
        self.registry.replay(self.store.replay)
        self.answers: dict[str, list[dict[str, Any]]] = {}
        recalled = Recalled(self.store, self.registry.answer_of)
        self.desk = ChangeDesk(self.registry, self.store, self.answer, None, recalled)

    def answer(self, key: tuple[str, ...], fields: dict[str, Any]) -> None:
        self.answers[key[-1]] = orjson.loads(orjson.dumps(fields["results"]))

    def run(self, requests: list[tuple[str, Op, list[Any]]] = REQUESTS) -> Life:
        """Carry out all requests, one after the other; end."""
        for name, op, items in requests:
            self.desk.submit(b"c", ("change", op, name), op, items)
        while self.desk.busy:
            self.desk.work()
        self.store.start()
        self.store.close()
        self.desk.committed()
        return self

    def live(self) -> list[dict[str, Any]]:
        names = ["a", "b", "c", *(f"s{n}" for n in range(1, 30))]
        found = []
        for name in names:
            with contextlib.suppress(Exception):
                _, row, live = self.registry.live(name)
                found.append(
                    {"id": name, "row": self.registry.row_versions.version_of(row), **live._asdict()}
                )
        return found


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "SLICE_ITEMS_LEAST", 2)
    monkeypatch.setattr(changes, "SLICE_ITEMS_MOST", 2)


def cut(folder: Path, version: int) -> None:
    """Leave what was durable when the change of this version was the last one."""
    with contextlib.closing(sqlite3.connect(folder / "catalogue.sqlite")) as connection, connection:
        connection.execute("DELETE FROM changes WHERE first_version > ?", (version,))
    (folder / "marks").unlink()


def test_a_request_is_carried_out_once_over_two_lives(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = Life(tmp_path / "whole").run()
    assert whole.registry.version == 13 and len(whole.answers) == len(REQUESTS)
    for version in range(14):
        folder = tmp_path / f"cut{version}"
        folder.mkdir()
        Life(folder).run()
        cut(folder, version)
        again = Life(folder)
        durable = again.registry.version
        again.run()
        assert again.answers == whole.answers, version
        assert again.live() == whole.live()
        assert again.registry.version == whole.registry.version
        assert (durable == 13) is (version == 13)


@pytest.mark.parametrize("name", ["RECALLED_GROUPS_MAX", "RECALLED_SIZE_BYTES_MAX", "REQUEST_SIZE_BYTES_MAX"])
def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(origins, name, 1)
    Life(tmp_path).run()
    again = Life(tmp_path).run()
    assert (again.answers["b again"][0]["handle"] == 9) is (name != "REQUEST_SIZE_BYTES_MAX")
    assert again.answers["made"][0]["handle"] > 9, "made once more"


def test_what_follows_a_refused_slice_is_recognised_by_slices_of_another_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [("mixed", Op.SUBSCRIBE, [{"expr": "x ="}] * 2 + [{"expr": f"x = {n}"} for n in range(3)])]
    first = Life(tmp_path).run(requests)
    monkeypatch.setattr(changes, "SLICE_ITEMS_LEAST", 3)
    monkeypatch.setattr(changes, "SLICE_ITEMS_MOST", 3)
    again = Life(tmp_path).run(requests)
    assert again.answers == first.answers
    assert again.registry.version == first.registry.version == 3


def test_what_cannot_be_read_is_not_carried_out_again(tmp_path: Path) -> None:
    Life(tmp_path).run()
    again = Life(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "catalogue.sqlite")) as connection, connection:
        damage = "UPDATE changes SET body = x'90' WHERE request = 'subscribe made' AND first_item = 2"
        connection.execute(damage)
    again.run()
    assert [result["ok"] for result in again.answers["made"]] == [True, True, False, False, False]
    assert again.answers["made"][4]["error"]["code"] == "store_failed"
    assert again.registry.version == 13
