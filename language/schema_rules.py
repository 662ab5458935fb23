"""The four rules by which publishers extend a schema with event types.

A rule adds a domain, adds an attribute, extends an event type by an optional attribute, or adds an event
type. Nothing is ever taken away or made stricter, so every event that was valid stays valid, every
subscription means what it meant, and two publishers cannot bring about a contradiction; redundancy (two names
for one domain) they can. What conflicts with what is declared is refused and changes nothing. Source: LESUB,
integration model; `docs/semantics.md`, event types.

Only schemas with types are extended: elsewhere events may have undeclared attributes of any kind, and
declaring one, or the first type, would refuse events that are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from pubsub_cluster.language.attribute import Attribute, Domain, read_attribute, read_domain
from pubsub_cluster.language.declarations import check_keys, flag, nearest
from pubsub_cluster.language.errors import CallerError, LimitError, SchemaConflictError
from pubsub_cluster.language.event_types import (
    EVENT_TYPE,
    EventType,
    EventTypes,
    TypeAttribute,
    read_event_type,
)
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.values import check_name

SCHEMA_SIZE_BYTES_MAX: Final = 1 << 20
"""Bytes of an extended schema as JSON: every greeting has it."""


def add_domain(schema: Schema, domain: Domain) -> Schema:
    """Return the schema with one more domain; its definition may be another domain's.

    Raises
    ------
    SchemaConflictError
        The schema has no types, or has a domain of this name.
    """
    _types_of(schema)
    for known in schema.domains:
        if known.name == domain.name:
            raise _taken("domain", domain.name, known.to_json(), domain.to_json())
    return replace(schema, domains=(*schema.domains, domain))


def add_attribute(schema: Schema, attribute: Attribute) -> Schema:
    """Return the schema with one more attribute, which no type has yet.

    Raises
    ------
    SchemaConflictError
        The schema has no types, or has an attribute of this name.
    """
    _types_of(schema)
    known = schema.get(attribute.name)
    if known is not None:
        raise _taken("attribute", attribute.name, known.to_json(), attribute.to_json())
    return replace(schema, attributes=(*schema.attributes, attribute))


def extend_type(schema: Schema, type_name: str, attribute: TypeAttribute) -> Schema:
    """Return the schema with an event type that has one more optional attribute.

    Raises
    ------
    SchemaConflictError
        The schema has no types or none of this name; the attribute is not declared, mandatory, or of the type
        already; it is multiple here and declared unique.
    """
    types = _types_of(schema)
    known = types.get(type_name)
    if known is None:
        raise SchemaConflictError(
            "there is no event type of this name to extend",
            seen=type_name,
            limit=list(types.names)[:20],
            remedy=nearest(str(type_name), list(types.names)) or "Add it: `schema add-type`.",
        )
    if not attribute.is_optional:
        raise SchemaConflictError(
            f"event type {type_name!r} cannot be extended by a mandatory attribute",
            seen=attribute.name,
            limit="optional ones: events of this type that are valid now do not have it",
            remedy="Add it as optional, or add a type that needs it: `schema add-type`.",
        )
    if attribute.name in (*known.names, EVENT_TYPE):
        raise SchemaConflictError(
            f"event type {type_name!r} has this attribute already",
            seen=attribute.name,
            remedy="It can be used as it is; what a type has is not changed.",
        )
    _check_declared(schema, type_name, attribute)
    extended = EventType(known.name, (*known.attributes, attribute))
    return replace(
        schema, types=EventTypes(tuple(extended if each is known else each for each in types.types))
    )


def add_type(schema: Schema, event_type: EventType) -> Schema:
    """Return the schema with one more event type.

    Raises
    ------
    SchemaConflictError
        The schema has no types, or has one of this name; an attribute is not declared, or multiple here and
        declared unique.
    """
    types = _types_of(schema)
    known = types.get(event_type.name)
    if known is not None:
        raise _taken("event type", event_type.name, known.to_json(), event_type.to_json())
    for attribute in event_type.attributes:
        _check_declared(schema, event_type.name, attribute)
    return replace(schema, types=EventTypes((*types.types, event_type)))


def extended(schema: Schema, rule: Any, definition: Any, limits: Limits = DEFAULT_LIMITS) -> Schema:
    """Return the schema after a rule that is given as JSON.

    Parameters
    ----------
    schema : Schema
    rule : str
        One of `RULES`.
    definition : object
        ``add_domain``: of `read_domain`. ``add_attribute``: of `read_attribute`; its domain may be a name.
        ``extend_type``: ``{"type", "name", "multiple"?, "optional"?}``; optional is true without it.
        ``add_type``: of `read_event_type`.
    limits : Limits
        For names.

    Raises
    ------
    SchemaConflictError
        As each rule says.
    LimitError
        A name is too long, or the schema would be larger than `SCHEMA_SIZE_BYTES_MAX`.
    CallerError
        There is no such rule, the definition has another shape, or it declares something impossible.
    """
    apply = RULES.get(rule) if isinstance(rule, str) else None
    if apply is None:
        raise CallerError("there is no such rule", seen=rule, limit=sorted(RULES))
    found = apply(schema, definition)
    name = definition.get("name")
    check_name(name, what=f"name in `{rule}`", limits=limits, error=CallerError)
    size_bytes = len(orjson.dumps(found.to_json()))
    if size_bytes > SCHEMA_SIZE_BYTES_MAX:
        raise LimitError(
            "the extended schema would be too large, as JSON, in bytes",
            seen=size_bytes,
            limit=SCHEMA_SIZE_BYTES_MAX,
            remedy="Use what is declared already.",
            limit_name="SCHEMA_SIZE_BYTES_MAX",
        )
    return found


def is_extension(schema: Schema, of: Schema) -> bool:
    """Return whether rules lead from `of` to `schema`, or the two are equal."""
    if schema == of:
        return True
    if schema.types is None or of.types is None:
        return False
    if not (set(of.domains) <= set(schema.domains) and set(of.attributes) <= set(schema.attributes)):
        return False
    for before in of.types.types:
        after = schema.types.get(before.name)
        if after is None or not set(before.attributes) <= set(after.attributes):
            return False
        if any(not each.is_optional for each in set(after.attributes) - set(before.attributes)):
            return False
    return True


def _extend_type(schema: Schema, definition: Any) -> Schema:
    check_keys(definition, {"type", "name", "multiple", "optional"}, "an extension of a type")
    name, type_name = definition.get("name"), definition.get("type")
    if not isinstance(name, str) or not isinstance(type_name, str):
        raise CallerError("an extension of a type needs `type` and `name`, two texts", seen=definition)
    flags = {"optional": True, **definition}
    return extend_type(
        schema,
        type_name,
        TypeAttribute(name, *(flag(flags, member, "an extension") for member in ("optional", "multiple"))),
    )


RULES: Final[Mapping[str, Callable[[Schema, Any], Schema]]] = {
    "add_domain": lambda schema, item: add_domain(schema, read_domain(item)),
    "add_attribute": lambda schema, item: add_attribute(
        schema, read_attribute(item, {each.name: each for each in schema.domains})
    ),
    "extend_type": _extend_type,
    "add_type": lambda schema, item: add_type(schema, read_event_type(item)),
}


def _types_of(schema: Schema) -> EventTypes:
    if schema.types is None:
        raise SchemaConflictError(
            "the schema has no event types, so it is not extended",
            limit="schemas with `types`",
            remedy='Start an empty data directory with a schema that has "types": [] or a list of types: '
            "declaring something now could refuse events that are valid.",
        )
    return schema.types


def _check_declared(schema: Schema, type_name: str, attribute: TypeAttribute) -> None:
    declared = schema.get(attribute.name)
    if declared is None:
        near = schema.suggestion(attribute.name)
        raise SchemaConflictError(
            f"event type {type_name!r} would have an attribute that is not declared",
            seen=attribute.name,
            remedy=f"Did you mean {near!r}?" if near else "Add it first: `schema add-attribute`.",
        )
    if declared.unique and attribute.is_multiple:
        raise SchemaConflictError(
            f"attribute {attribute.name!r} is declared unique and would be multiple in type {type_name!r}",
            limit="unique: subscriptions are stored in forms that rely on it",
            remedy="Leave `multiple` out, or add another attribute.",
        )


def _taken(what: str, name: str, known: dict[str, Any], given: dict[str, Any]) -> SchemaConflictError:
    is_same = known == given
    return SchemaConflictError(
        f"there is {'an' if what[0] in 'ae' else 'a'} {what} of this name",
        seen=name,
        limit=known,
        remedy="It is the very same: use it." if is_same else "Use it, or take another name.",
    )
