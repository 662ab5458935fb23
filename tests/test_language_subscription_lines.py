"""Lines of subscription files: every form, read alike by the short way and the long one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import orjson
import pytest

from pubsub_cluster.language import subscription_lines
from pubsub_cluster.language.errors import ExpressionError, WindowError

ATOM = {"attr": "a", "op": "=", "value": 1}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"expr": "a = 1", "id": "x", "owner": "o"}', {"expr": "a = 1", "id": "x", "owner": "o"}),
        (json.dumps(ATOM).encode(), {"expr": ATOM}),
        (b'"a = 1"\r\n', {"expr": "a = 1"}),
        (b'  a = "x" AND NOT b > 2 \n', {"expr": 'a = "x" AND NOT b > 2'}),
        (b'{"attr": "a", "op": "=", "value": 9007199254740993}', {"expr": {**ATOM, "value": 2**53 + 1}}),
        (b"\n", None),
    ],
)
def test_forms_of_a_line(line: bytes, expected: dict[str, Any] | None) -> None:
    item = subscription_lines.read_item(line, None)
    assert (item and plainly(item)) == expected


@pytest.mark.parametrize(
    "line",
    [
        {"expr": ATOM},
        {"id": "expr", "expr": ATOM, "owner": "o", "metadata": {"expr": None}},
        {"attr": "expr", "op": "=", "value": 1},
        {"expr": "a = 1", "valid_from": None, "valid_until": 5},
        {"and": [ATOM, ATOM]},
    ],
)
def test_lines_of_json_are_read_alike_whether_quickly_or_not(line: dict[str, Any]) -> None:
    data = json.dumps(line).encode()
    quick, other = subscription_lines._plain_item(data), subscription_lines._any_item(data)
    assert plainly(other) == other
    assert quick is None or plainly(quick) == other
    assert (quick is None) == (line.get("attr") == "expr")


@pytest.mark.parametrize(
    "line", [b'{"expr": 01}', b'{"expr": {}, "more": 1}', b'{"and": [}', b'{"a": "\xc3\xa9"}', b"a = 1"]
)
def test_other_lines_are_left_to_the_long_way(line: bytes) -> None:
    assert subscription_lines._plain_item(line) is None


def plainly(item: Any) -> Any:
    """Return an item with its expression decoded, as it will be received."""
    if isinstance(item["expr"], orjson.Fragment):
        return {**item, "expr": msgspec.json.decode(orjson.dumps(item["expr"]))}
    return item


def test_owner_is_for_lines_without_one() -> None:
    assert subscription_lines.read_item(b"a = 1", "ann") == {"expr": "a = 1", "owner": "ann"}
    named = subscription_lines.read_item(b'{"expr": "a = 1", "owner": "bob"}', "ann")
    assert plainly(named) == {"expr": "a = 1", "owner": "bob"}


@pytest.mark.parametrize(
    "line", [b'{"expr": ', b"[1]", b'"open', b"\xff = 1", b'{"expr": "a", "onwer": "x"}', b"{]"]
)
def test_bad_lines_are_errors(line: bytes) -> None:
    with pytest.raises(ExpressionError):
        subscription_lines.read_item(line, None)


def test_instants_of_a_line_may_be_rfc_3339() -> None:
    item = subscription_lines.read_item(
        b'{"expr": "a = 1", "valid_from": "1970-01-01T00:00:01Z", "valid_until": 2000000}', None
    )
    assert plainly(item) == {"expr": "a = 1", "valid_from": 1_000_000, "valid_until": 2_000_000}
    with pytest.raises(WindowError, match="`valid_from` is not an instant"):
        subscription_lines.read_item(b'{"expr": "a = 1", "valid_from": "tomorrow"}', None)
