"""The desk of changes: turns of connections, groups on their way to the disk, and what comes of refusals."""

from __future__ import annotations

from typing import Any

import pytest
from test_coordinator_registry import EXPR, content, new_registry

from pubsub_cluster.coordinator import changes
from pubsub_cluster.coordinator.changes import (
    REQUESTS_PER_CONNECTION_MAX,
    SLICE_ITEMS_LEAST,
    SLICE_ITEMS_MOST,
    SLICE_S,
    ChangeDesk,
)
from pubsub_cluster.coordinator.store import Committed
from pubsub_cluster.language.errors import BusyError, DuplicateIdError, StoreError
from pubsub_cluster.language.protocol import Op
from pubsub_cluster.shm.change_groups import Change


class StoppedStore:
    """A store that says when, and how, each group ended."""

    def __init__(self) -> None:
        self.groups = 0
        self.reports: list[Committed] = []

    def commit(self, _changes: list[Change], _origin: Any) -> int:
        self.groups += 1
        return self.groups

    def poll(self) -> list[Committed]:
        found, self.reports = self.reports, []
        return found

    def resume(self) -> None:
        pass


@pytest.mark.parametrize("kept", [True, False])
def test_a_refusal_shares_the_fate_of_the_change_that_it_stands_on(kept: bool) -> None:
    store, answers = StoppedStore(), {}
    desk = ChangeDesk(new_registry(), store, lambda key, fields: answers.update({key: fields["results"]}))
    for number in (1, 2):
        desk.submit(f"c{number}".encode(), (str(number),), Op.SUBSCRIBE, [{"id": "same", "expr": EXPR}])
        desk.work()
    assert answers == {}, "told before it was true"
    store.reports = [Committed(1, None if kept else StoreError("the disk is full"))]
    assert desk.committed() is kept
    codes = [answers[(str(number),)][0].get("error", {}).get("code", "ok") for number in (1, 2)]
    assert codes == (["ok", "duplicate_id"] if kept else ["store_failed", "store_failed"])
    assert desk.idle


def test_connections_take_turns_and_are_bounded() -> None:
    store = StoppedStore()
    desk = ChangeDesk(new_registry(), store, lambda key, fields: None)
    items = [{"expr": EXPR}] * 300
    for number in range(REQUESTS_PER_CONNECTION_MAX):
        desk.submit(b"bulk", ("bulk", str(number)), Op.SUBSCRIBE, items)
    with pytest.raises(BusyError):
        desk.submit(b"bulk", ("bulk", "more"), Op.SUBSCRIBE, items)
    desk.submit(b"single", ("single",), Op.SUBSCRIBE, [{"expr": EXPR, "id": "mine"}])
    desk.work()
    desk.work()
    with pytest.raises(DuplicateIdError):
        desk._registry.stage_subscribe({"expr": EXPR, "id": "mine"})


def test_groups_that_are_durable_at_once_come_into_force_in_their_order() -> None:
    together, one_by_one = desk_with_changes(), desk_with_changes()
    store: Any = together._store
    single: Any = one_by_one._store
    assert together.committed()
    for report in single.poll():
        single.reports = [report]
        one_by_one.committed()
    assert together.idle and one_by_one.idle and store.reports == []
    assert content(together._registry) == content(one_by_one._registry)
    assert together._registry.version == one_by_one._registry.version == 8
    assert [together._registry._live.find(name) for name in "ab"] == [3, -1]


def test_what_is_reported_at_once_comes_into_force_in_goes() -> None:
    """Of groups of 2, 1, 1, 1, 2 and 1 changes; one that is too large alone comes alone."""
    for most, versions in ((3, [3, 5, 8]), (1, [2, 3, 4, 5, 7, 8]), (9, [8])):
        desk = desk_with_changes()
        seen = []
        while not seen or desk.reported:
            assert desk.committed(most)
            seen.append(desk._registry.version)
        assert seen == versions
        assert desk.idle and not desk.committed(most)


def desk_with_changes() -> ChangeDesk:
    """Return a desk whose groups are all durable and not in force yet."""
    store = StoppedStore()
    desk = ChangeDesk(new_registry(), store, lambda key, fields: None)
    requests: list[tuple[Op, list[Any]]] = [
        (Op.SUBSCRIBE, [{"id": "a", "expr": EXPR}, {"id": "b", "expr": EXPR}]),
        (Op.UPDATE, [{"id": "b", "expr": {"attr": "x", "op": "=", "value": 2}}]),
        (Op.UNSUBSCRIBE, ["a"]),
        (Op.UNSUBSCRIBE, ["b"]),
        (Op.SUBSCRIBE, [{"id": "a", "expr": EXPR}, {"id": "c", "expr": EXPR}]),
        (Op.UNSUBSCRIBE, ["c"]),
    ]
    for number, (op, items) in enumerate(requests):
        desk.submit(b"one", (str(number),), op, items)
        desk.work()
    store.reports = [Committed(number + 1, None) for number in range(len(requests))]
    return desk


def test_slices_fit_the_time_that_they_take() -> None:
    desk = ChangeDesk(new_registry(), StoppedStore(), lambda key, fields: None)
    sizes = []
    for took_s in (0.0, 0.0, SLICE_S, 2 * SLICE_S, *[0.0] * 9, *[1.0] * 9):
        desk._fit_slices(Op.UNSUBSCRIBE, took_s)
        sizes.append(desk._slice_items[Op.UNSUBSCRIBE])
    assert sizes[:4] == [384, 576, 576, 288]
    assert (sizes[12], sizes[-1]) == (SLICE_ITEMS_MOST, SLICE_ITEMS_LEAST)
    assert desk._slice_items[Op.SUBSCRIBE] == SLICE_ITEMS_LEAST, "how fast removals are says nothing of these"


@pytest.mark.parametrize("kept", [True, False])
def test_what_waits_for_the_disk_is_bounded(monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    """However large slices have become."""
    monkeypatch.setattr(changes, "CHANGES_OUTSTANDING_MAX", 5)
    store = StoppedStore()
    desk = ChangeDesk(new_registry(), store, lambda key, fields: None)
    for number in range(9):
        desk.submit(b"one", (str(number),), Op.SUBSCRIBE, [{"expr": EXPR}, {"expr": EXPR}])
    for groups in (3, 6, 9):
        while desk.busy:
            desk.work()
        assert store.groups == groups
        error = None if kept else StoreError("the disk is full")
        store.reports = [Committed(group, error) for group in range(groups - 2, groups + 1)]
        assert desk.committed() is kept
    assert desk.idle and desk._change_count == 0
