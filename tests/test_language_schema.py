"""Declarations, and the canonical form of values under them."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.language.errors import CallerError, DomainError
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.predicate import ValueKind
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, DomainKind, Schema
from pubsub_cluster.language.timestamps import timestamp_us

INF, NAN = float("inf"), float("nan")
ATTRIBUTES = {
    "integer": Attribute("x", "integer"),
    "float": Attribute("x", "float"),
    "string": Attribute("x", "string"),
    "boolean": Attribute("x", "boolean"),
    "timestamp": Attribute("x", "timestamp"),
    "enumerated": Attribute("x", "enumerated", ("low", "mid", "high")),
    "hierarchical": Attribute("x", "hierarchical", ("f/d/table", "f/d", "q", "f/k", "f/d/chair")),
}


@pytest.mark.parametrize(
    ("domain", "value", "expected"),
    [
        ("integer", 5, 5),
        ("integer", 1.0, 1),
        ("integer", -(2.0**63), INT64_MIN),
        ("integer", INT64_MAX, INT64_MAX),
        ("float", 5, 5),
        ("float", 0.1, 0.1),
        ("float", INF, INF),
        ("string", "", ""),
        ("string", "1", "1"),
        ("boolean", True, True),
        ("timestamp", 5, 5),
        ("timestamp", "1970-01-01T00:00:01Z", 1_000_000),
        ("enumerated", "low", 0),
        ("enumerated", "high", 2),
        ("hierarchical", "f", 0),
        ("hierarchical", "f/d", 1),
        ("hierarchical", "f/d/table", 2),
        ("hierarchical", "f/d/chair", 3),
        ("hierarchical", "f/k", 4),
        ("hierarchical", "q", 5),
    ],
)
def test_canonical_values(domain: str, value: Any, expected: Any) -> None:
    found = ATTRIBUTES[domain].canonical_value(value)
    assert found == expected and type(found) is type(expected)
    assert ATTRIBUTES[domain].canonical_constant(value) == expected


@pytest.mark.parametrize(
    ("domain", "value"),
    [
        ("integer", True),
        ("integer", "1"),
        ("integer", None),
        ("integer", NAN),
        ("integer", 2**63),
        ("float", NAN),
        ("float", False),
        ("float", "1.0"),
        ("float", -(2**63) - 1),
        ("string", 1),
        ("string", b"x"),
        ("boolean", 1),
        ("boolean", "true"),
        ("timestamp", 1.0),
        ("timestamp", True),
        ("timestamp", "1970-01-01T00:00:00"),
        ("timestamp", 2**63),
        ("enumerated", "Low"),
        ("enumerated", 0),
        ("hierarchical", "f/"),
        ("hierarchical", "table"),
        ("hierarchical", 0),
        ("hierarchical", ""),
    ],
)
def test_values_outside_the_domain(domain: str, value: Any) -> None:
    for convert in (ATTRIBUTES[domain].canonical_value, ATTRIBUTES[domain].canonical_constant):
        with pytest.raises(DomainError) as refused:
            convert(value)
        assert refused.value.fields == {"attribute": "x", "domain": domain}
        assert refused.value.seen is value
        assert domain in str(refused.value) and "'x'" in str(refused.value)


@pytest.mark.parametrize("value", [1.5, INF, -INF, 2.0**63, 1e300])
def test_an_integer_may_be_compared_with_numbers_it_cannot_be(value: float) -> None:
    assert ATTRIBUTES["integer"].canonical_constant(value) == value
    with pytest.raises(DomainError):
        ATTRIBUTES["integer"].canonical_value(value)


def test_near_misses_are_named() -> None:
    with pytest.raises(DomainError, match="Did you mean 'f/d/table'"):
        ATTRIBUTES["hierarchical"].canonical_value("f/d/tabel")


def test_kinds_and_orders() -> None:
    kinds = {domain: attribute.value_kind for domain, attribute in ATTRIBUTES.items()}
    assert kinds.pop("string") is ValueKind.TEXT
    assert kinds.pop("boolean") is ValueKind.BOOLEAN
    assert set(kinds.values()) == {ValueKind.NUMBER}
    assert {d for d, a in ATTRIBUTES.items() if a.has_order} == {"integer", "float", "string", "timestamp"}
    assert Attribute("x", "enumerated", ("a", "b"), ordered=True).has_order
    counts = {domain: attribute.value_count for domain, attribute in ATTRIBUTES.items()}
    assert counts["enumerated"] == 3 and counts["hierarchical"] == 6 and counts["integer"] is None


# -- trees


def test_subtrees_are_intervals() -> None:
    tree = ATTRIBUTES["hierarchical"]
    assert tree.subtree("f") == (0, 4)
    assert tree.subtree("f/d") == (1, 3)
    assert tree.subtree("q") == (5, 5)
    with pytest.raises(DomainError, match="hierarchical"):
        tree.subtree("f/x")
    with pytest.raises(DomainError, match="no tree"):
        ATTRIBUTES["string"].subtree("f")


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join), min_size=1, max_size=12)
)
def test_subtree_is_the_node_and_its_descendants(paths: list[str]) -> None:
    tree = Attribute("x", "hierarchical", tuple(paths))
    nodes = {"/".join(path.split("/")[:size]) for path in paths for size in range(1, path.count("/") + 2)}
    number = {node: tree.canonical_value(node) for node in nodes}
    assert sorted(number.values()) == list(range(len(nodes)))
    for node in nodes:
        first, last = tree.subtree(node)
        inside = {other for other in nodes if first <= number[other] <= last}
        assert inside == {other for other in nodes if other == node or other.startswith(f"{node}/")}


def test_a_deep_tree_is_numbered() -> None:
    path = "/".join("a" * 5_000)
    assert Attribute("x", "hierarchical", (path,)).subtree("a") == (0, 4_999)


# -- timestamps


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01 00:00:00-00:00", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T18:30:00-05:30", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00.1234569Z", 123_456),
        ("1969-12-31T23:59:59.9999999Z", -1),
        ("1970-01-01T00:00:00." + "0" * 10_000 + "1Z", 0),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000),
        ("2017-01-01T00:59:60+01:00", 1_483_228_800_000_000),
        ("0000-02-29T00:00:00Z", -62_162_121_600_000_000),
        ("0000-12-31T23:59:59Z", -62_135_596_801_000_000),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
        ("9999-12-31T23:59:59-01:00", 253_402_304_399_000_000),
    ],
)
def test_timestamps(text: str, expected: int) -> None:
    assert timestamp_us(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1970-01-01",
        "1970-01-01T00:00Z",
        "1970-01-01T00:00:00",
        "1970-01-01T00:00:00,5Z",
        "1970-01-01T00:00:00.Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:60Z",
        "1970-01-01T00:00:61Z",
        "1970-13-01T00:00:00Z",
        "1970-02-29T00:00:00Z",
        "0001-00-01T00:00:00Z",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+01:60",
        "1970-01-01T00:00:00+0100",
        " 1970-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z\n",
        "١٩٧٠-01-01T00:00:00Z",
        "19700101T000000Z",
    ],
)
def test_texts_that_are_no_timestamp(text: str) -> None:
    assert timestamp_us(text) is None


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)), st.integers(-1439, 1439))
def test_timestamps_equal_datetime(local: datetime, offset_minutes: int) -> None:
    moment = local.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    expected_us = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert timestamp_us(moment.isoformat()) == expected_us


# -- declarations


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "", "domain": "integer"}, "without a name"),
        ({"name": 5, "domain": "integer"}, "without a name"),
        ({"name": "x", "domain": "int"}, "unknown domain"),
        ({"name": "x", "domain": None}, "no domain"),
        ({"name": "x", "domain": "enumerated"}, "needs a list"),
        ({"name": "x", "domain": "integer", "values": ("1",)}, "takes no list"),
        ({"name": "x", "domain": "enumerated", "values": ("a", "a")}, "twice"),
        ({"name": "x", "domain": "enumerated", "values": ("a", 1)}, "is not a string"),
        ({"name": "x", "domain": "integer", "ordered": True}, "ordered"),
        ({"name": "x", "domain": "hierarchical", "values": ("a//b",)}, "empty step"),
        ({"name": "x", "domain": "hierarchical", "values": ("/a",)}, "empty step"),
        ({"name": "x", "domain": "hierarchical", "values": ("",)}, "empty step"),
    ],
)
def test_impossible_declarations(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(CallerError, match=said):
        Attribute(**arguments)


def test_a_name_is_declared_once() -> None:
    with pytest.raises(CallerError, match="twice"):
        Schema((Attribute("x", "integer"), Attribute("x", "float")))


def test_looking_up() -> None:
    price = Attribute("price", DomainKind.FLOAT)
    schema = Schema((price,))
    assert schema.get("price") is price and schema.resolve("price") is price
    assert schema.get("other") is None and schema.resolve("other") is None
    assert schema.names == ("price",)
    assert schema.suggestion("prise") == "price" and schema.suggestion("zzz") is None
    assert not schema.has_unique and Schema((Attribute("x", "float", unique=True),)).has_unique
    with pytest.raises(DomainError, match="Did you mean 'price'"):
        Schema((price,), closed=True).resolve("prise")
    assert EMPTY_SCHEMA.names == ()


@given(strategies.schemas(), st.booleans())
def test_json_and_pickle_keep_a_schema(schema: Schema, closed: bool) -> None:
    schema = Schema(schema.attributes, closed)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    copy = pickle.loads(pickle.dumps(schema))
    assert copy == schema and hash(copy) == hash(schema) and copy.names == schema.names


@pytest.mark.parametrize(
    "obj",
    [
        None,
        [],
        {"attribute": []},
        {"attributes": {}},
        {"attributes": ["x"]},
        {"attributes": [{"name": "x"}]},
        {"attributes": [{"domain": "integer"}]},
        {"attributes": [{"name": "x", "domain": "integer", "unit": "m"}]},
        {"attributes": [{"name": "x", "domain": "integer", "unique": 1}]},
        {"attributes": [{"name": "x", "domain": "enumerated", "values": "ab"}]},
        {"attributes": [{"name": "x", "domain": ["integer"]}]},
        {"closed": "yes"},
    ],
)
def test_malformed_json_declarations(obj: Any) -> None:
    with pytest.raises(CallerError):
        Schema.from_json(obj)


@pytest.mark.parametrize("wrong", ["price", 5, {"attributes": []}, ["price"], [("price", "float")]])
def test_a_schema_of_wrong_types_says_what_it_takes(wrong: Any) -> None:
    with pytest.raises(CallerError, match="sequence of Attribute") as caught:
        Schema(wrong)
    assert "Schema((Attribute(" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("declaration", "said", "remedy"),
    [
        ({"name": "price", "domain": "int"}, "attribute 'price': unknown domain", "'integer'"),
        ({"name": "price"}, "attribute 'price': it has no domain", ""),
        ({"name": "price", "domain": "flaot"}, "attribute 'price': unknown domain", "'float'"),
        ({"name": "price", "domian": "float"}, "attribute 'price' has unknown members", "'domain'"),
        (
            {"name": "price", "domain": "float", "unique": 1},
            "attribute 'price': `unique` is neither true",
            "",
        ),
    ],
)
def test_a_wrong_declaration_names_its_attribute_and_suggests(
    declaration: dict[str, Any], said: str, remedy: str
) -> None:
    with pytest.raises(CallerError, match=said) as caught:
        Schema.from_json({"attributes": [declaration]})
    assert remedy in str(caught.value.remedy)


def test_a_constant_on_an_integer_is_told_what_constants_may_be() -> None:
    declared = Attribute("n", "integer")
    assert declared.canonical_constant(2.5) == 2.5
    with pytest.raises(DomainError, match="takes a number"):
        declared.canonical_constant("2")
    with pytest.raises(DomainError, match="takes a whole number"):
        declared.canonical_value(2.5)
