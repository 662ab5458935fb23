"""Staging, applying, rolling back and replaying changes of the catalogue."""

from __future__ import annotations

import pytest

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.store import Change
from pubsub_cluster.language.errors import (
    DuplicateIdError,
    ExpressionError,
    PubSubError,
    TextSyntaxError,
    UnknownIdError,
    WindowError,
)
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter

EXPR = {"attr": "x", "op": "=", "value": 1}


def new_registry() -> Registry:
    return Registry(CatalogueWriter.in_memory(1_000), EMPTY_SCHEMA, DEFAULT_LIMITS)


def test_a_staged_change_is_invisible_until_it_is_applied() -> None:
    registry = new_registry()
    _, answer = registry.stage_subscribe({"id": "a", "expr": EXPR})
    assert answer == {"ok": True, "id": "a", "handle": 1, "clauses": 1, "never": False}
    assert (registry.catalogue.counts().rows, registry.version) == (0, 0)
    registry.apply(1)
    assert (registry.catalogue.counts().rows, registry.version, registry.live_count) == (1, 1, 1)


def test_later_requests_are_judged_as_if_staged_ones_were_in_force() -> None:
    registry = new_registry()
    registry.stage_subscribe({"id": "a", "expr": EXPR})
    with pytest.raises(DuplicateIdError):
        registry.stage_subscribe({"id": "a", "expr": EXPR})
    registry.stage_unsubscribe("a")
    with pytest.raises(UnknownIdError):
        registry.stage_unsubscribe("a")
    registry.stage_subscribe({"id": "a", "expr": EXPR})
    registry.apply(3)
    reader = CatalogueReader.of(registry.catalogue)
    assert reader.columns.removed_version[:2].tolist() == [2, 0]
    assert reader.columns.handle[:2].tolist() == [1, 2]


def test_update_keeps_handle_and_window_and_replaces_the_row() -> None:
    registry = new_registry()
    registry.stage_subscribe({"id": "a", "expr": EXPR, "owner": "me", "valid_from": 3, "valid_until": 9})
    registry.apply(1)
    registry.stage_update({"id": "a", "expr": "y > 5", "valid_until": 12})
    registry.apply(1)
    columns = CatalogueReader.of(registry.catalogue).columns
    assert columns.handle[:2].tolist() == [1, 1]
    assert columns.removed_version[:2].tolist() == [2, 0]
    assert (columns.valid_from[1], columns.valid_until[1]) == (3, 12)
    assert columns.owner[0] == columns.owner[1]


def test_rollback_forgets_and_never_gives_a_handle_twice() -> None:
    registry = new_registry()
    registry.stage_subscribe({"id": "a", "expr": EXPR})
    registry.apply(1)
    registry.stage_unsubscribe("a")
    registry.stage_subscribe({"id": "b", "expr": EXPR})
    registry.rollback()
    with pytest.raises(DuplicateIdError):
        registry.stage_subscribe({"id": "a", "expr": EXPR})
    change, answer = registry.stage_subscribe({"id": "b", "expr": EXPR})
    assert change.version == 2
    assert answer["handle"] == 3
    registry.apply(1)
    assert registry.live_count == 2


def test_assigned_ids_do_not_collide_with_given_ones() -> None:
    registry = new_registry()
    registry.stage_subscribe({"id": "s2", "expr": EXPR})
    _, answer = registry.stage_subscribe({"expr": EXPR})
    assert answer["id"] not in ("", "s2")


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ("x", ExpressionError),
        ({"id": "a"}, ExpressionError),
        ({"id": "a", "expr": EXPR, "colour": 1}, ExpressionError),
        ({"id": "", "expr": EXPR}, PubSubError),
        ({"id": 7, "expr": EXPR}, PubSubError),
        ({"id": "a", "expr": "x ="}, TextSyntaxError),
        ({"id": "a", "expr": {"attr": "x", "op": "~", "value": 1}}, ExpressionError),
        ({"id": "a", "expr": EXPR, "valid_from": 5, "valid_until": 5}, WindowError),
        ({"id": "a", "expr": EXPR, "valid_from": "now"}, WindowError),
        ({"id": "a", "expr": EXPR, "valid_until": 2**63}, WindowError),
    ],
)
def test_a_bad_item_changes_nothing(item: object, error: type[PubSubError]) -> None:
    registry = new_registry()
    with pytest.raises(error):
        registry.stage_subscribe(item)
    _, answer = registry.stage_subscribe({"id": "a", "expr": EXPR})
    assert answer["handle"] == 1


def test_replay_gives_the_same_catalogue() -> None:
    registry = new_registry()
    changes: list[Change] = []
    for stage, item in (
        (registry.stage_subscribe, {"id": "a", "expr": EXPR, "owner": "me"}),
        (registry.stage_subscribe, {"id": "b", "expr": 'x = "é" OR NOT y > 2', "valid_until": 7}),
        (registry.stage_update, {"id": "a", "expr": "z <= 4"}),
        (registry.stage_unsubscribe, "b"),
        (registry.stage_subscribe, {"id": "b", "expr": EXPR}),
    ):
        changes.append(stage(item)[0])
        registry.apply(1)
    again = new_registry()
    again.replay(changes, group_size=2)
    one, two = CatalogueReader.of(registry.catalogue), CatalogueReader.of(again.catalogue)
    assert again.version == registry.version
    rows = registry.catalogue.counts().rows
    assert again.catalogue.counts() == registry.catalogue.counts()
    for name in ("handle", "added_version", "removed_version", "valid_from", "valid_until"):
        assert getattr(one.columns, name)[:rows].tolist() == getattr(two.columns, name)[:rows].tolist()
    assert [one.normal_form(row) for row in range(rows)] == [two.normal_form(row) for row in range(rows)]
    _, answer = again.stage_subscribe({"expr": EXPR})
    assert answer["handle"] == 4
