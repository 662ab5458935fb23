"""Declared attributes and event types: what subscriptions may say and what events may be.

Declaring attributes is optional; an undeclared attribute takes values of any kind. A declaration buys
three things: mistakes are refused when a subscription is made, text becomes comparable (timestamps,
declared orders, trees of paths), and `unique` lets engines combine predicates of one attribute
(`pubsub_cluster.language.attribute`). Event types (`pubsub_cluster.language.event_types`) say besides which
attributes an event must have and may have; `pubsub_cluster.language.schema_rules` extends a schema by them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pubsub_cluster.language.attribute import Attribute, Domain, DomainKind, read_attribute, read_domain
from pubsub_cluster.language.declarations import check_keys, flag
from pubsub_cluster.language.errors import CallerError, DomainError
from pubsub_cluster.language.event_types import EVENT_TYPE, EventTypes, read_event_type

__all__ = ["EMPTY_SCHEMA", "Attribute", "Domain", "DomainKind", "Schema"]


def _declarations(attributes: Any) -> tuple[Attribute, ...]:
    found = tuple(attributes) if isinstance(attributes, tuple | list) else (attributes,)
    for one in found:
        if not isinstance(one, Attribute):
            raise CallerError(
                "a Schema takes a sequence of Attribute",
                seen=one,
                remedy='Schema((Attribute("price", "float"),)), or Schema.from_json(...) for a JSON object.',
            )
    return found


@dataclass(frozen=True, slots=True)
class Schema:
    """The declared attributes.

    Attributes
    ----------
    attributes : tuple of Attribute
    closed : bool
        Refuse attributes that are not declared, in subscriptions and in events.
    domains : tuple of Domain
        Domains with names, that attributes may be declared by.
    types : EventTypes or None
        With types, and be they none yet, every event says its types and is checked against them, the schema
        is closed, and `event_type` is declared. A tuple of `EventType` is taken as well. None: no types.
    has_unique : bool
        Whether some attribute is declared unique.
    """

    attributes: tuple[Attribute, ...] = ()
    closed: bool = False
    domains: tuple[Domain, ...] = ()
    types: EventTypes | None = None
    has_unique: bool = field(init=False, repr=False, compare=False)
    _by_name: Mapping[str, Attribute] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", _declarations(self.attributes))
        object.__setattr__(self, "domains", tuple(self.domains))
        if self.types is not None:
            self._take_types(self.types)
        by_name: dict[str, Attribute] = {}
        for attribute in self.attributes:
            if attribute.name in by_name:
                raise CallerError("an attribute is declared twice", seen=attribute.name)
            by_name[attribute.name] = attribute
        object.__setattr__(self, "_by_name", by_name)
        self._check_domains_and_types()
        object.__setattr__(self, "has_unique", any(attribute.unique for attribute in self.attributes))

    def _take_types(self, types: Any) -> None:
        """Be typed: closed, with `event_type` among the attributes."""
        found = types if isinstance(types, EventTypes) else EventTypes(tuple(types))
        said = [each for each in self.attributes if each.name == EVENT_TYPE]
        if not said:
            object.__setattr__(self, "attributes", (_EVENT_TYPE_ATTRIBUTE, *self.attributes))
        elif said != [_EVENT_TYPE_ATTRIBUTE]:
            raise CallerError(
                f"`{EVENT_TYPE}` is declared otherwise than event types need it",
                seen=[each.to_json() for each in said],
                limit=_EVENT_TYPE_ATTRIBUTE.to_json(),
                remedy="Leave it out: a schema with types declares it.",
            )
        object.__setattr__(self, "types", found)
        object.__setattr__(self, "closed", True)

    def _check_domains_and_types(self) -> None:
        names = [each.name for each in self.domains]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise CallerError("a domain is declared twice", seen=repeated)
        for each in () if self.types is None else self.types.types:
            for item in each.attributes:
                declared = self._by_name.get(item.name)
                if declared is None:
                    raise CallerError(
                        f"event type {each.name!r} has an attribute that is not declared",
                        seen=item.name,
                        remedy="Declare it first: `attributes`, or `pubsub-cluster schema add-attribute`.",
                    )
                if declared.unique and item.is_multiple:
                    raise CallerError(
                        f"event type {each.name!r} has {item.name!r} as multiple, which is declared unique",
                        limit="unique",
                        remedy="Leave `multiple` out, or use another attribute.",
                    )

    def get(self, name: str) -> Attribute | None:
        """Return the declaration of `name`, or None."""
        return self._by_name.get(name)

    def resolve(self, name: str) -> Attribute | None:
        """Return the declaration of `name`, or None where undeclared attributes are welcome.

        Raises
        ------
        DomainError
            The schema is closed and does not declare `name`.
        """
        found = self._by_name.get(name)
        if found is None and self.closed:
            near = self.suggestion(name)
            raise DomainError(
                f"attribute {name!r} is not declared and the schema is closed",
                remedy=f"Did you mean {near!r}?" if near else "Declare it, or open the schema.",
                attribute=name,
            )
        return found

    def suggestion(self, name: str) -> str | None:
        """Return the declared name that looks most like `name`, if one does."""
        near = difflib.get_close_matches(name, self._by_name, n=1) if self._by_name else None
        return near[0] if near else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the declared attributes, in the order of declaration."""
        return tuple(self._by_name)

    @classmethod
    def from_json(cls, obj: Any) -> Schema:
        """Read ``{"attributes": [...], "closed"?, "domains"?: [...], "types"?: [...]}``.

        The lists are of `read_attribute`, `read_domain` and `read_event_type`. An attribute's ``domain`` may
        be the name of one of the domains.

        Raises
        ------
        CallerError
            The object has another shape, or declares something impossible.
        """
        check_keys(obj, {"attributes", "closed", "domains", "types"}, "a schema")
        domains = tuple([read_domain(item) for item in _list(obj, "domains")])
        named = {each.name: each for each in domains}
        declared = tuple([read_attribute(item, named) for item in _list(obj, "attributes")])
        types = None
        if "types" in obj:
            types = EventTypes(tuple([read_event_type(item) for item in _list(obj, "types")]))
        return cls(declared, flag(obj, "closed", "a schema"), domains, types)

    def to_json(self) -> dict[str, Any]:
        """Return the form that `from_json` reads, without members that have their default."""
        found: dict[str, Any] = {"attributes": [each.to_json() for each in self.attributes]}
        if self.closed:
            found["closed"] = True
        if self.domains:
            found["domains"] = [each.to_json() for each in self.domains]
        if self.types is not None:
            found["types"] = [each.to_json() for each in self.types.types]
        return found


def _list(obj: dict[str, Any], member: str) -> list[Any]:
    found = obj.get(member, [])
    if not isinstance(found, list):
        raise CallerError(f"a schema's {member} are not a list", seen=found)
    return found


_EVENT_TYPE_ATTRIBUTE: Final = Attribute(EVENT_TYPE, DomainKind.STRING)
EMPTY_SCHEMA: Final = Schema()
