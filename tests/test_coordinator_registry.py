"""Staging, applying, rolling back and replaying changes of the catalogue."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import msgspec
import orjson
import pytest

from pubsub_cluster.coordinator import registry as registry_module
from pubsub_cluster.coordinator.describing import describe
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.language.change_items import parse_change
from pubsub_cluster.language.errors import (
    DuplicateIdError,
    ExpressionError,
    LimitError,
    PubSubError,
    StartError,
    TextSyntaxError,
    UnknownIdError,
    WindowError,
)
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import MAGIC, Op
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import NO_COUNTS, CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_rows import window_of
from pubsub_cluster.shm.catalogue_store import _SYMBOLS
from pubsub_cluster.shm.change_groups import Change
from pubsub_cluster.shm.column_plan import length_in

ITEMS: list[Any] = [
    {
        "id": "a",
        "expr": {"and": [{"attr": "x", "op": "=", "value": 1}, {"attr": "y", "op": "<", "value": 2}]},
    },
    {"expr": {"and": [{"attr": "x", "op": "=", "value": 1}, {"attr": "z", "op": "in", "value": ["u", "v"]}]}},
    {"id": "a", "expr": {"attr": "x", "op": "=", "value": 1}},
    {"id": "b", "expr": {"attr": "x", "op": "=", "value": 1}, "owner": "me", "metadata": {"n": 1}},
    {"id": "c", "expr": {"attr": "y", "op": "<", "value": 2}, "valid_from": 3, "valid_until": 9},
    {"id": "d", "expr": {"attr": "y", "op": "<", "value": 2}, "valid_from": 9, "valid_until": 3},
    {"id": "e", "expr": {"attr": "y", "op": "<", "value": 2}, "valid_from": 1.0},
    {"id": "f", "expr": {"attr": "y", "op": "<", "value": 2}, "metadata": [1]},
    {"id": "g", "expr": {"attr": "y", "op": "<", "value": 2}, "owner": ""},
    {"id": "h", "expr": {"attr": "y", "op": "<", "value": 2}, "owner": None},
    {"id": "", "expr": {"attr": "y", "op": "<", "value": 2}},
    {"id": 7, "expr": {"attr": "y", "op": "<", "value": 2}},
    {"id": "i" * 2_000, "expr": {"attr": "y", "op": "<", "value": 2}},
    {"id": "\u00e9", "expr": {"attr": "y", "op": "<", "value": 2}},
    {"id": "j", "expr": {"attr": "y", "op": "<", "value": 2}, "owner": "\u00e9"},
    {
        "id": "k",
        "expr": {"or": [{"attr": "x", "op": "=", "value": 1}, {"attr": "w", "op": "=", "value": "t"}]},
    },
    {"id": "l", "expr": "x = 1 AND y < 2"},
    {"id": "m", "expr": {"and": [{"attr": "x", "op": "?", "value": 1}]}},
    {"id": "n", "expr": 5},
    {"id": "s2", "expr": {"attr": "x", "op": "=", "value": 1}},
    {"expr": {"attr": "x", "op": "=", "value": 3}},
]
EXPR = {"attr": "x", "op": "=", "value": 1}


def as_received(op: Op, items: list[Any]) -> list[Any]:
    """Return items as the coordinator has them when they came in a request of the usual shape."""
    found = parse_change([MAGIC, msgspec.json.encode({"op": op.value, "request": "r", "items": items})])
    assert found is not None
    return list(found.header["items"])


def told(staged: list[tuple[Change, Any] | Exception]) -> list[Any]:
    """Return what staging gave, with the expressions read."""
    found: list[Any] = []
    for one in staged:
        if isinstance(one, PubSubError):
            found.append(one.to_dict())
        else:
            assert isinstance(one, tuple)
            change, answer = one
            found.append((change._replace(expression=json.loads(change.expression or b"null")), answer))
    return found


def content(registry: Registry) -> list[Any]:
    """Return all columns of the catalogue, each as far as it is filled."""
    columns, counts = CatalogueReader.of(registry.catalogue).columns, registry.catalogue.counts()
    lengths = counts._asdict()
    named = zip(columns._fields, columns, strict=True)
    return [
        counts,
        *((name, column[: length_in(_SYMBOLS[name], lengths)].tolist()) for name, column in named),
    ]


def test_items_as_they_are_received_give_what_items_alone_give() -> None:
    """The short way of the commonest items, against the definition."""
    one, many = new_registry(), new_registry()
    expected = told([staged_alone(one, item) for item in ITEMS])
    assert told(many.stage_many(Op.SUBSCRIBE, as_received(Op.SUBSCRIBE, ITEMS))) == expected
    changes = sum(isinstance(entry, tuple) for entry in expected)
    assert 8 < changes < len(ITEMS)
    one.apply(changes)
    many.apply(changes)
    assert content(many) == content(one)
    assert many._staging.room == NO_COUNTS
    updates = [{**item, "id": "a"} for item in ITEMS]
    expected = told([staged_alone(one, item, "update") for item in updates])
    assert told(many.stage_many(Op.UPDATE, as_received(Op.UPDATE, updates))) == expected
    changes = sum(isinstance(entry, tuple) for entry in expected)
    one.apply(changes)
    many.apply(changes)
    assert content(many) == content(one)


def staged_alone(registry: Registry, item: Any, op: str = "subscribe") -> tuple[Change, Any] | Exception:
    try:
        return registry.stage_update(item) if op == "update" else registry.stage_subscribe(item)
    except PubSubError as error:
        return error


def test_refused_items_leave_no_room_behind() -> None:
    registry = new_registry()
    items = as_received(Op.SUBSCRIBE, [{"id": "a", "expr": EXPR}])
    for _ in range(2):
        registry.stage_many(Op.SUBSCRIBE, items)
        registry.rollback()
    registry.stage_many(Op.SUBSCRIBE, items)
    (refused,) = registry.stage_many(Op.SUBSCRIBE, items)
    assert isinstance(refused, DuplicateIdError)
    registry.apply(1)
    assert registry._staging.room == NO_COUNTS


def test_items_that_do_not_fit_together_are_judged_one_by_one() -> None:
    registry = Registry(CatalogueWriter.in_memory(200), EMPTY_SCHEMA, DEFAULT_LIMITS)
    items = as_received(Op.SUBSCRIBE, [{"expr": EXPR, "id": str(number)} for number in range(210)])
    staged = registry.stage_many(Op.SUBSCRIBE, items)
    assert [isinstance(one, tuple) for one in staged] == [True] * 200 + [False] * 10
    assert {type(one) for one in staged[200:]} == {LimitError}
    registry.apply(200)
    assert registry.live_count == 200


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
    counts, columns = registry.catalogue.counts(), CatalogueReader.of(registry.catalogue).columns
    assert columns.handle[:2].tolist() == [1, 1]
    assert columns.removed_version[:2].tolist() == [2, 0]
    assert [window_of(columns, counts.windows, row) for row in range(2)] == [(3, 9), (3, 12)]
    assert columns.owner[0] == columns.owner[1]


def test_metadata_has_no_number_that_json_does_not_have() -> None:
    registry = new_registry()
    for number in (float("nan"), float("inf")):
        with pytest.raises(ExpressionError, match="a number that JSON does not have"):
            registry.stage_subscribe({"id": "a", "expr": EXPR, "metadata": {"a": {"b": [number]}}})
    registry.stage_subscribe({"id": "a", "expr": EXPR, "metadata": {"a": None, "b": "null"}})


def described(registry: Registry, subscription_id: str) -> dict[str, Any]:
    told: dict[str, Any] = orjson.loads(
        orjson.dumps(describe(registry, cast(ChangeStore, None), [subscription_id]))
    )[0]
    return told


def test_metadata_of_before_are_told_as_they_are_stored() -> None:
    """They were taken before anybody asked whether they can be written once more."""
    registry = new_registry()
    stored = b'{"n":100000000000000000000,"deep":' + b"[" * 260 + b"]" * 260 + b"}"
    made = registry.stage_subscribe({"id": "a", "expr": EXPR})[0]
    registry = new_registry()
    registry.replay(lambda: [made._replace(metadata=stored)])
    assert described(registry, "a")["metadata"]["n"] == 1e20


def test_metadata_follows_a_subscription() -> None:
    registry = new_registry()
    changes = [
        registry.stage_subscribe({"id": "a", "expr": EXPR, "metadata": {"title": "T", "tags": ["x"]}})[0]
    ]
    changes.append(registry.stage_update({"id": "a", "expr": "y > 5"})[0])
    changes.append(registry.stage_subscribe({"id": "b", "expr": EXPR})[0])
    assert described(registry, "a")["error"]["code"] == "unknown_id"
    registry.apply(3)
    assert described(registry, "a") == {
        "ok": True, "id": "a", "handle": 1, "owner": "default", "valid_from": None, "valid_until": None,
        "metadata": {"title": "T", "tags": ["x"]},
    }  # fmt: skip
    assert described(registry, "b")["metadata"] is None
    again = new_registry()
    again.replay(lambda: iter(changes))
    assert described(again, "a") == described(registry, "a")
    registry.stage_update({"id": "a", "expr": EXPR, "metadata": None})
    registry.stage_update({"id": "b", "expr": EXPR, "metadata": {"n": 1}})
    registry.rollback()
    assert described(registry, "a")["metadata"] is not None and described(registry, "b")["metadata"] is None
    registry.stage_update({"id": "a", "expr": EXPR, "metadata": None})
    registry.stage_unsubscribe("b")
    registry.stage_subscribe({"id": "b", "expr": EXPR})
    registry.apply(3)
    assert described(registry, "a")["metadata"] is None and described(registry, "b")["metadata"] is None
    registry.stage_subscribe({"id": "c", "expr": EXPR, "metadata": {"n": 2}})
    registry.stage_subscribe({"id": "d", "expr": EXPR})
    registry.apply(2)
    assert described(registry, "c")["metadata"] == {"n": 2} and described(registry, "d")["metadata"] is None


@pytest.mark.parametrize(
    ("metadata", "error"),
    [("text", ExpressionError), ([1], ExpressionError), ({"a": "x" * 5_000}, LimitError)],
)
def test_bad_metadata_is_refused(metadata: object, error: type[PubSubError]) -> None:
    registry = new_registry()
    with pytest.raises(error, match="metadata"):
        registry.stage_subscribe({"id": "a", "expr": EXPR, "metadata": metadata})


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


@pytest.mark.parametrize("group", [1, 2, 3, 10_000])
def test_replay_takes_over_what_is_live_and_nothing_else(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "REPLAY_GROUP", group)
    registry = new_registry()
    changes: list[Change] = []
    for stage, item in (
        (registry.stage_subscribe, {"id": "a", "expr": EXPR, "owner": "me"}),
        (registry.stage_subscribe, {"id": "b", "expr": 'x = "é" OR NOT y > 2', "valid_until": 7}),
        (registry.stage_update, {"id": "a", "expr": "z <= 4"}),
        (registry.stage_unsubscribe, "b"),
        (registry.stage_subscribe, {"id": "b", "expr": EXPR}),
        (registry.stage_subscribe, {"id": "c", "expr": EXPR}),
        (registry.stage_unsubscribe, "c"),
    ):
        changes.append(stage(item)[0])
        registry.apply(1)
    again = new_registry()
    again.replay(lambda: changes)
    assert (again.version, again.live_count) == (registry.version, 2)
    reader = CatalogueReader.of(again.catalogue)
    assert again.catalogue.counts().rows == 2, "dead rows are reclaimed"
    assert reader.columns.handle[:2].tolist() == [1, 3]
    assert [reader.subscription_id(row) for row in range(2)] == ["a", "b"]
    assert reader.owner_name(int(reader.columns.owner[0])) == "me"
    assert reader.normal_form(0).predicates[0].attribute == "z"
    _, answer = again.stage_subscribe({"expr": EXPR})
    assert answer["handle"] == 5, "a handle is never given twice, not even that of a removed subscription"


def test_a_stored_subscription_that_does_not_fit_is_named() -> None:
    registry = new_registry()
    change, _ = registry.stage_subscribe({"id": "wide", "expr": {"or": [EXPR] * 30}})
    small = Registry(
        CatalogueWriter.in_memory(100), EMPTY_SCHEMA, replace(DEFAULT_LIMITS, nodes_per_subscription_max=5)
    )
    with pytest.raises(StartError, match="wide"):
        small.replay(lambda: [change])


def test_a_full_catalogue_says_so_at_its_limit_and_not_before() -> None:
    registry = Registry(CatalogueWriter.in_memory(200), EMPTY_SCHEMA, DEFAULT_LIMITS)
    registry.stage_subscribe({"expr": EXPR})
    for _ in range(199):  # one change is always staged
        registry.stage_subscribe({"expr": EXPR})
        registry.apply(1)
    with pytest.raises(LimitError, match="full"):
        registry.stage_subscribe({"expr": EXPR})
    registry.apply(1)
    assert registry.catalogue.counts().rows == 200
    assert not registry._staging._overlay
