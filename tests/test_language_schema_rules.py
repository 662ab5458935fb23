"""Event types and the rules that extend them (LESUB, event and integration model)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.language.batch import (
    decode_payload,
    event_values,
    payload_from_columns,
    payload_from_dicts,
)
from pubsub_cluster.language.errors import CallerError, EventError, LimitError, SchemaConflictError
from pubsub_cluster.language.event_types import EventType, EventTypes, TypeAttribute
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.language.schema import Attribute, Domain, DomainKind, Schema
from pubsub_cluster.language.schema_rules import RULES, SCHEMA_SIZE_BYTES_MAX, extended, is_extension
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.names import NameTable

PATHS = ("bedroom/table", "bedroom/chair", "dining/table", "dining/chair", "outdoor/table", "outdoor/chair")
FURNITURE = Schema.from_json(
    {
        "domains": [{"name": "category", "domain": "hierarchical", "values": list(PATHS)}],
        "attributes": [
            {"name": "price", "domain": "float"},
            {"name": "period", "domain": "string"},
            {"name": "quantity", "domain": "integer"},
            {"name": "kind", "domain": "category"},
            {"name": "material", "domain": "string"},
        ],
        "types": [
            {"name": "period_item", "attributes": [{"name": n} for n in ("price", "period", "quantity")]},
            {
                "name": "furniture",
                "attributes": [
                    {"name": "price"},
                    {"name": "quantity"},
                    {"name": "kind"},
                    {"name": "material", "optional": True},
                ],
            },
        ],
    }
)
TABLE = {
    "event_type": ["period_item", "furniture"],
    "price": 10.5,
    "quantity": 1,
    "period": "xv",
    "kind": "dining/table",
}


def refusals(schema: Schema, events: list[dict[str, Any]], one_fault_each: bool = False) -> list[str | None]:
    """Return what refuses each event, the same one by one, as rows and as columns."""
    singly: list[str | None] = []
    for event in events:
        try:
            flatten_event(event, schema)
            singly.append(None)
        except EventError as error:
            singly.append(error.condition)
    names = list(dict.fromkeys(name for event in events for name in event))
    columns = {name: [event.get(name) for event in events] for name in names}
    for payload in (payload_from_dicts(events), payload_from_columns(columns)):
        raw = decode_payload(payload.header, payload.buffers, schema)
        batch = [raw.refused[n].condition if n in raw.refused else None for n in range(len(events))]
        assert [found is None for found in batch] == [found is None for found in singly]
        assert batch == singly or not one_fault_each  # of several faults the forms tell different ones
        for event_idx in raw.refused:
            assert raw.refused[event_idx].fields["event_index"] == event_idx
            assert event_values(raw, event_idx) == {}
        engine_batch = EventBatch(
            payload.header, payload.buffers, NameTable(schema, DEFAULT_LIMITS), schema, DEFAULT_LIMITS
        )
        assert engine_batch.refused.keys() == raw.refused.keys()
    return singly


def without(event: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in event.items() if each != name}


def test_furniture_of_the_paper() -> None:
    several = {**TABLE, "price": [1.0, 2.0]}
    found = refusals(
        FURNITURE,
        [
            TABLE,
            without(TABLE, "kind"),
            {**TABLE, "colour": "red"},
            {**TABLE, "material": "oak"},
            several,
            without(TABLE, "event_type"),
            {**TABLE, "event_type": ["furniture", "boat"]},
            {**TABLE, "event_type": "furniture"},
            {**TABLE, "kind": "dining/sofa"},
            {**without(TABLE, "period"), "event_type": ["furniture", "furniture"], "material": None},
        ],
        one_fault_each=True,
    )
    assert found == [
        None,
        "the event has no 'kind', which is mandatory for its types",
        "attribute 'colour' is not declared and the schema is closed",
        None,
        "attribute 'price' is unique for the event's types and has several values",
        "the event does not say its type: `event_type` is missing",
        "there is no such event type",
        "attribute 'period' belongs to none of the event's types",
        "attribute 'kind' has domain hierarchical: not a declared value",
        None,
    ]


def test_view_mandatory_and_multiple_win() -> None:
    types = EventTypes(
        (
            EventType("a", (TypeAttribute("x", True, False), TypeAttribute("y", True), TypeAttribute("z"))),
            EventType("b", (TypeAttribute("x", False, True), TypeAttribute("y", True, True))),
        )
    )
    view = types.view(("a", "b"))
    assert set(view.mandatory) == {"event_type", "x", "z"}
    assert view.optional == ("y",)
    assert view.multiple == {"event_type", "x", "y"}
    other_way = types.view(("b", "a"))
    assert (set(other_way.mandatory), set(other_way.optional)) == (set(view.mandatory), {"y"})
    assert other_way.multiple == view.multiple
    alone = types.view(("a",))
    assert (set(alone.mandatory), set(alone.optional)) == ({"event_type", "z"}, {"x", "y"})
    assert alone.multiple == {"event_type"}
    types.check(("a", "b"), {"event_type": 2, "x": 3, "z": 1})
    with pytest.raises(EventError, match="'x', which is mandatory") as refused:
        types.check(("a", "b"), {"event_type": 2, "z": 1})
    assert refused.value.fields["attribute"] == "x"


def test_language_on_types_and_trees() -> None:
    """`contains` on the event's types is equality with one of them, `under` is 'is a kind of' (D-29)."""
    matcher = NaiveMatcher(FURNITURE)
    dining = 'event_type = "furniture" AND kind UNDER "dining"'
    matcher.subscribe("dining", parse_text(dining, FURNITURE))
    bedroom = {**TABLE, "kind": "bedroom/table"}
    assert list(matcher.match(TABLE)) == ["dining"]
    assert list(matcher.match({**TABLE, "kind": "dining"})) == ["dining"]
    assert list(matcher.match(bedroom)) == []
    period_item = {"event_type": "period_item", "price": 1.0, "quantity": 1, "period": "xv"}
    assert list(matcher.match(period_item)) == []  # no value of `kind` makes it true


def test_schema_text_goes_round_and_untyped_schemas_are_as_they_were() -> None:
    assert Schema.from_json(orjson.loads(orjson.dumps(FURNITURE.to_json()))) == FURNITURE
    assert FURNITURE.closed and FURNITURE.names[0] == "event_type"
    plain = Schema((Attribute("x", DomainKind.INTEGER),))
    assert plain.types is None and plain.to_json() == {"attributes": [{"name": "x", "domain": "integer"}]}
    assert refusals(plain, [{"x": 1, "anything": "else"}]) == [None]
    nothing = Schema.from_json({"types": []})
    assert nothing.types is not None and nothing.closed
    assert refusals(nothing, [{"event_type": "a"}, {}]) == [
        "there is no such event type",
        "the event does not say its type: `event_type` is missing",
    ]


@pytest.mark.parametrize(
    ("schema", "condition"),
    [
        ({"types": [{"name": "t", "attributes": [{"name": "x"}]}]}, "not declared"),
        ({"types": [{"name": "t"}, {"name": "t"}]}, "declared twice"),
        ({"types": [{"name": ""}]}, "without a name"),
        ({"types": [{"name": "t", "attributes": [{"name": "event_type"}]}]}, "lists `event_type`"),
        (
            {
                "attributes": [{"name": "x", "domain": "string", "unique": True}],
                "types": [{"name": "t", "attributes": [{"name": "x", "multiple": True}]}],
            },
            "declared unique",
        ),
        ({"attributes": [{"name": "event_type", "domain": "integer"}], "types": []}, "declared otherwise"),
        ({"domains": [{"name": "float", "domain": "float"}]}, "name of a kind"),
        ({"domains": [{"name": "d", "domain": "float"}, {"name": "d", "domain": "float"}]}, "declared twice"),
        (
            {
                "domains": [{"name": "d", "domain": "enumerated", "values": ["a"]}],
                "attributes": [{"name": "x", "domain": "d", "values": ["a"]}],
            },
            "values are those of its domain",
        ),
        ({"types": {}}, "not a list"),
        ({"types": [{"name": "t", "attributes": [{"name": "x", "unique": True}]}]}, "unknown members"),
    ],
)
def test_impossible_declarations(schema: dict[str, Any], condition: str) -> None:
    with pytest.raises(CallerError, match=condition):
        Schema.from_json(schema)


@pytest.mark.parametrize(
    ("rule", "definition", "condition"),
    [
        ("add_domain", {"name": "category", "domain": "string"}, "there is a domain of this name"),
        ("add_attribute", {"name": "price", "domain": "integer"}, "there is an attribute of this name"),
        ("add_attribute", {"name": "event_type", "domain": "string"}, "there is an attribute of this name"),
        ("extend_type", {"type": "boat", "name": "period"}, "no event type of this name"),
        ("extend_type", {"type": "furniture", "name": "period", "optional": False}, "by a mandatory"),
        ("extend_type", {"type": "furniture", "name": "price"}, "has this attribute already"),
        ("extend_type", {"type": "furniture", "name": "event_type"}, "has this attribute already"),
        ("extend_type", {"type": "furniture", "name": "perod"}, "that is not declared"),
        ("add_type", {"name": "furniture"}, "there is an event type of this name"),
        ("add_type", {"name": "boat", "attributes": [{"name": "sail"}]}, "that is not declared"),
    ],
)
def test_conflicts_are_refused(rule: str, definition: dict[str, Any], condition: str) -> None:
    with pytest.raises(SchemaConflictError, match=condition) as refused:
        extended(FURNITURE, rule, definition)
    assert refused.value.remedy
    with pytest.raises(SchemaConflictError, match="no event types, so it is not extended"):
        extended(Schema(), rule, {**definition, "name": "new"} if rule != "extend_type" else definition)


def test_what_is_no_rule() -> None:
    for rule, definition in (
        ("remove_type", {"name": "furniture"}),
        (None, {}),
        ("add_domain", {"name": "d", "domain": "enumerated"}),
        ("add_attribute", {"name": "x", "domain": "unknown"}),
        ("add_attribute", {"name": "a" * 2_000, "domain": "float"}),
        ("extend_type", {"type": "furniture"}),
        ("add_type", []),
    ):
        with pytest.raises(CallerError):
            extended(FURNITURE, rule, definition)
    values = [f"{n:0100d}" for n in range(SCHEMA_SIZE_BYTES_MAX // 100)]
    with pytest.raises(LimitError, match="too large"):
        extended(FURNITURE, "add_domain", {"name": "d", "domain": "enumerated", "values": values})


def test_unique_attributes_stay_unique() -> None:
    schema = extended(FURNITURE, "add_attribute", {"name": "serial", "domain": "string", "unique": True})
    with pytest.raises(SchemaConflictError, match="declared unique"):
        extended(schema, "extend_type", {"type": "furniture", "name": "serial", "multiple": True})
    schema = extended(schema, "extend_type", {"type": "furniture", "name": "serial"})
    assert refusals(schema, [{**TABLE, "serial": "7"}]) == [None]


def test_duplicates_of_domains_are_accepted() -> None:
    again = {"name": "category_2", "domain": "hierarchical", "values": list(PATHS)}
    schema = extended(FURNITURE, "add_domain", again)
    assert schema.domains[1].values == schema.domains[0].values
    schema = extended(schema, "add_attribute", {"name": "kind_2", "domain": "category_2"})
    assert schema.get("kind_2") == Domain("any", DomainKind.HIERARCHICAL, PATHS).attribute("kind_2")


NAMES = st.sampled_from(["price", "kind", "material", "colour", "size", "period", "weight"])
TYPE_NAMES = st.sampled_from(["furniture", "period_item", "boat", "car"])
FLAGS = st.booleans()
TYPE_ATTRIBUTES = st.lists(
    st.fixed_dictionaries({"name": NAMES, "optional": FLAGS, "multiple": FLAGS}),
    max_size=3,
    unique_by=lambda one: one["name"],
)
TYPES = st.fixed_dictionaries({"name": TYPE_NAMES, "attributes": TYPE_ATTRIBUTES})
DOMAIN_NAMES = st.sampled_from(["category", "d1", "d2"])
STEPS = st.one_of(
    st.tuples(
        st.just("add_domain"),
        st.fixed_dictionaries({"name": DOMAIN_NAMES, "domain": st.just("float")}),
    ),
    st.tuples(
        st.just("add_attribute"),
        st.fixed_dictionaries(
            {"name": NAMES, "domain": st.sampled_from(["float", "string", "category", "d1"]), "unique": FLAGS}
        ),
    ),
    st.tuples(
        st.just("extend_type"),
        st.fixed_dictionaries({"type": TYPE_NAMES, "name": NAMES, "optional": FLAGS, "multiple": FLAGS}),
    ),
    st.tuples(st.just("add_type"), TYPES),
)
VALUES = st.one_of(st.none(), st.sampled_from([1.5, "oak", "dining/table", [1.5, 2.5], ["oak", "elm"], []]))
EVENTS = st.builds(
    lambda types, values: {"event_type": types, **values},
    st.lists(TYPE_NAMES, max_size=3),
    st.dictionaries(NAMES, VALUES, max_size=4),
)


@given(st.lists(STEPS, max_size=12), st.lists(st.one_of(EVENTS, st.just(TABLE)), min_size=1, max_size=6))
def test_extensions_keep_valid_events_valid(
    steps: list[tuple[str, dict[str, Any]]], events: list[dict[str, Any]]
) -> None:
    """Random sequences of rules (LESUB-32): the refused ones change nothing, the others refuse nobody."""
    schema = first = FURNITURE
    valid = {n for n, found in enumerate(refusals(schema, events)) if found is None}
    for rule, definition in steps:
        try:
            schema = extended(schema, rule, definition)
        except CallerError:
            continue
        assert is_extension(schema, first)
        assert Schema.from_json(schema.to_json()) == schema
        now = {n for n, found in enumerate(refusals(schema, events)) if found is None}
        assert valid <= now
        valid = now
    assert schema == first or not is_extension(first, schema)


@given(st.lists(STEPS, max_size=8))
def test_an_extension_is_told_from_another_schema(steps: list[tuple[str, dict[str, Any]]]) -> None:
    stricter = {"name": "period", "optional": False}
    body = FURNITURE.to_json()
    body["types"][1]["attributes"].append(stricter)
    schema = Schema.from_json(body)
    for rule, definition in steps:
        try:
            schema = extended(schema, rule, definition)
        except CallerError:
            continue
    assert not is_extension(schema, FURNITURE)
    assert set(RULES) == {"add_domain", "add_attribute", "extend_type", "add_type"}
