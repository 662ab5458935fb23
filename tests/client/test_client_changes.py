"""Items of a change on their way out: all at once, or one by one with the same bytes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from pubsub_cluster.client.changes import encode_item, encode_items
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.expression import Atom, Operator
from pubsub_cluster.language.protocol import SUBSCRIBE_ITEM_FIELDS

EXPR = {"attr": "a", "op": "=", "value": 1}
SIZE_BYTES_MAX = 1_000
USUAL: list[dict[str, Any]] = [
    {"expr": EXPR},
    {"id": "a", "expr": "a = 1", "owner": "o", "valid_from": 1, "metadata": {"n": [1.5, True]}},
    {"id": "a", "expr": orjson.Fragment(b'{"attr": "a", "op": "=", "value": 1}')},
]
UNUSUAL: list[Any] = [
    {"id": "a"},
    {"expr": EXPR, "more": 1},
    {"expr": {"attr": "a", "op": "=", "value": float("nan")}},
    {"expr": EXPR, "valid_from": None},
    {"expr": EXPR, "owner": object()},
    {"expr": Atom("a", Operator.EQ, 1)},
    {"expr": {"attr": "a", "op": "=", "value": "x" * SIZE_BYTES_MAX}},
    [],
]


def test_items_together_are_the_items() -> None:
    together = encode_items(USUAL, SUBSCRIBE_ITEM_FIELDS, SIZE_BYTES_MAX)
    each = [encode_item(item, SUBSCRIBE_ITEM_FIELDS, SIZE_BYTES_MAX) for item in USUAL]
    assert together == b"[" + b",".join(each) + b"]"


@pytest.mark.parametrize("item", UNUSUAL)
def test_an_unusual_item_has_them_all_taken_one_by_one(item: Any) -> None:
    assert encode_items([*USUAL, item], SUBSCRIBE_ITEM_FIELDS, SIZE_BYTES_MAX) is None
    try:
        encode_item(item, SUBSCRIBE_ITEM_FIELDS, SIZE_BYTES_MAX)
    except PubSubError as error:
        assert error.condition
