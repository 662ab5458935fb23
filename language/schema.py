"""Declared domains of attributes: what a value or a constant must be, and its canonical form.

Declaring attributes is optional; an undeclared attribute takes values of any kind. A declaration buys
three things: mistakes are refused when a subscription is made, text becomes comparable (timestamps,
declared orders, trees of paths), and `unique` lets engines combine predicates of one attribute.

Canonical values are what predicates compare (`pubsub_cluster.language.predicate`): timestamps are int
microseconds since the epoch, enumerated values their rank in the declared list, hierarchical values their
number in a pre-order walk of the tree, so that a node and its descendants are one closed interval.
Nothing here coerces: a boolean is never a number, and a text that spells a number stays a text.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pubsub_cluster.language.declarations import check_keys, flag, nearest, number_tree
from pubsub_cluster.language.errors import CallerError, DomainError
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.predicate import ValueKind
from pubsub_cluster.language.timestamps import timestamp_us


class DomainKind(enum.StrEnum):
    """Domains of `docs/semantics.md`."""

    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    ENUMERATED = "enumerated"
    HIERARCHICAL = "hierarchical"


_LISTED: Final = frozenset({DomainKind.ENUMERATED, DomainKind.HIERARCHICAL})
_VALUE_KINDS: Final = {DomainKind.STRING: ValueKind.TEXT, DomainKind.BOOLEAN: ValueKind.BOOLEAN}
_UNORDERED: Final = frozenset({DomainKind.BOOLEAN, DomainKind.HIERARCHICAL})
_SYNONYMS: Final = {
    "int": "integer", "number": "float", "double": "float", "str": "string", "text": "string",
    "bool": "boolean", "datetime": "timestamp", "date": "timestamp", "enum": "enumerated",
    "tree": "hierarchical", "path": "hierarchical",
}  # fmt: skip
_EXPECTED: Final = {
    DomainKind.INTEGER: "a whole number of 64 bits",
    DomainKind.FLOAT: "a number that is not NaN; whole ones have 64 bits",
    DomainKind.STRING: "a string",
    DomainKind.BOOLEAN: "true or false",
    DomainKind.TIMESTAMP: "RFC 3339 text with an offset, or whole microseconds since the epoch",
    DomainKind.ENUMERATED: "one of the declared values",
    DomainKind.HIERARCHICAL: "a path of the declared tree",
}


@dataclass(frozen=True, slots=True)
class Attribute:
    """The declaration of one attribute.

    Attributes
    ----------
    name : str
    domain : DomainKind
        Its text (``"integer"``) is taken as well.
    values : tuple of str
        Enumerated: the values, in their order. Hierarchical: paths such as ``furniture/dining/table``
        (ancestors are implied). Empty for all other domains.
    ordered : bool
        Enumerated only: the list's order is meant, so ``< <= > >=`` and ``between`` are allowed.
    unique : bool
        An event has at most one value; one with several is refused.
    """

    name: str
    domain: DomainKind
    values: tuple[str, ...] = ()
    ordered: bool = False
    unique: bool = False
    _number: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _last: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", _domain_kind(self.name, self.domain))
        object.__setattr__(self, "values", tuple(self.values))
        self._check()
        number: Mapping[str, int] = {}
        last: tuple[int, ...] = ()
        if self.domain is DomainKind.ENUMERATED:
            number = {value: rank for rank, value in enumerate(self.values)}
        elif self.domain is DomainKind.HIERARCHICAL:
            number, last = number_tree(self.name, self.values)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_last", last)

    def _check(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise CallerError(
                "an attribute is declared without a name", seen=self.name, remedy="Give it a name."
            )
        listed = self.domain in _LISTED
        if listed != bool(self.values):
            rule = "needs a list of values" if listed else "takes no list of values"
            raise CallerError(f"attribute {self.name!r}: domain {self.domain} {rule}", seen=list(self.values))
        if not all(isinstance(value, str) for value in self.values):
            raise CallerError(
                f"attribute {self.name!r}: a declared value is not a string", seen=list(self.values)
            )
        if self.domain is DomainKind.ENUMERATED and len(set(self.values)) < len(self.values):
            repeats = sorted({value for value in self.values if self.values.count(value) > 1})
            raise CallerError(f"attribute {self.name!r}: a value is declared twice", seen=repeats)
        if self.ordered and self.domain is not DomainKind.ENUMERATED:
            raise CallerError(
                f"attribute {self.name!r}: `ordered` is for enumerated attributes",
                seen=str(self.domain),
                remedy="Numbers, strings and timestamps are ordered anyway.",
            )

    @property
    def value_kind(self) -> ValueKind:
        """Kind of this attribute's canonical values."""
        return _VALUE_KINDS.get(self.domain, ValueKind.NUMBER)

    @property
    def has_order(self) -> bool:
        """Whether ``< <= > >=`` and ``between`` mean something here."""
        return self.ordered if self.domain is DomainKind.ENUMERATED else self.domain not in _UNORDERED

    @property
    def value_count(self) -> int | None:
        """How many values a listed domain has; None for all other domains."""
        return len(self._number) if self.domain in _LISTED else None

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts that an enumerated or hierarchical attribute takes, ancestors included; none of others."""
        return tuple(self._number)

    def canonical_value(self, value: Any) -> bool | int | float | str:
        """Return an event's value in canonical form.

        Raises
        ------
        DomainError
            The value is outside the domain; the error names attribute, domain and value.
        """
        found = _converted(self, value)
        # A fraction fits a declared integer only when nothing is lost.
        if type(found) is float and self.domain is DomainKind.INTEGER:
            if not found.is_integer() or not INT64_MIN <= (whole := int(found)) <= INT64_MAX:
                raise self._outside(value)
            return whole
        return found

    def canonical_constant(self, value: Any) -> bool | int | float | str:
        """Return a subscription's constant in canonical form.

        As `canonical_value`, except that a declared integer may be compared with any number: ``n < 2.5`` and
        ``n < inf`` say something about integers, and ``n = 2.5`` is a predicate that never holds.

        Raises
        ------
        DomainError
            The constant is of another kind than the domain, or not one of the declared values.
        """
        return _converted(self, value, is_constant=True)

    def declared_text(self, number: int) -> str:
        """Return the declared value or path that has a canonical number (listed domains only)."""
        return next(text for text, known in self._number.items() if known == number)

    def subtree(self, path: str) -> tuple[int, int]:
        """Return the closed interval of the numbers of a node and its descendants (hierarchical only).

        Raises
        ------
        DomainError
            The domain is not hierarchical, or the path is not in the tree.
        """
        if self.domain is not DomainKind.HIERARCHICAL:
            raise DomainError(
                f"attribute {self.name!r} has domain {self.domain}, which is no tree of paths",
                seen=path,
                attribute=self.name,
                domain=str(self.domain),
            )
        first = self._number.get(path) if isinstance(path, str) else None
        if first is None:
            raise self._outside(path)
        return first, self._last[first]

    def _outside(self, value: Any, is_constant: bool = False) -> DomainError:
        remedy = None
        expected = _EXPECTED[self.domain]
        if is_constant and self.domain is DomainKind.INTEGER:
            expected = _EXPECTED[DomainKind.FLOAT]  # `n < 2.5` says something about integers
        if self.domain in _LISTED and isinstance(value, str):
            near = difflib.get_close_matches(value, self._number, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else None
        return DomainError(
            f"attribute {self.name!r} has domain {self.domain} and takes {expected}",
            seen=value,
            remedy=remedy,
            attribute=self.name,
            domain=str(self.domain),
        )


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
    has_unique : bool
        Whether some attribute is declared unique.
    """

    attributes: tuple[Attribute, ...] = ()
    closed: bool = False
    has_unique: bool = field(init=False, repr=False, compare=False)
    _by_name: Mapping[str, Attribute] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", _declarations(self.attributes))
        by_name: dict[str, Attribute] = {}
        for attribute in self.attributes:
            if attribute.name in by_name:
                raise CallerError("an attribute is declared twice", seen=attribute.name)
            by_name[attribute.name] = attribute
        object.__setattr__(self, "_by_name", by_name)
        object.__setattr__(self, "has_unique", any(attribute.unique for attribute in self.attributes))

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
        """Read ``{"attributes": [{"name", "domain", "values"?, "ordered"?, "unique"?}], "closed"?}``.

        Raises
        ------
        CallerError
            The object has another shape, or declares something impossible.
        """
        check_keys(obj, {"attributes", "closed"}, "a schema")
        declared = obj.get("attributes", [])
        if not isinstance(declared, list):
            raise CallerError("a schema's attributes are not a list", seen=declared)
        return cls(tuple([_declaration(item) for item in declared]), flag(obj, "closed", "a schema"))

    def to_json(self) -> dict[str, Any]:
        """Return the form that `from_json` reads, without members that have their default."""
        declared = []
        for attribute in self.attributes:
            item: dict[str, Any] = {"name": attribute.name, "domain": str(attribute.domain)}
            if attribute.values:
                item["values"] = list(attribute.values)
            item.update({member: True for member in ("ordered", "unique") if getattr(attribute, member)})
            declared.append(item)
        return {"attributes": declared, "closed": True} if self.closed else {"attributes": declared}


EMPTY_SCHEMA: Final = Schema()


def _converted(attribute: Attribute, value: Any, is_constant: bool = False) -> bool | int | float | str:
    """Canonical form of `value`; a declared integer may still give a float here."""
    domain = attribute.domain
    kind = type(value)
    if domain is DomainKind.STRING:
        if kind is str:
            return value  # type: ignore[no-any-return]
    elif domain is DomainKind.BOOLEAN:
        if kind is bool:
            return value  # type: ignore[no-any-return]
    elif domain in _LISTED:
        if kind is str and (number := attribute._number.get(value)) is not None:
            return number
    elif kind is int:
        if INT64_MIN <= value <= INT64_MAX:
            return value  # type: ignore[no-any-return]
    elif domain is DomainKind.TIMESTAMP:
        if kind is str and (instant_us := timestamp_us(value)) is not None:
            return instant_us
    elif kind is float and value == value:
        return value  # type: ignore[no-any-return]
    raise attribute._outside(value, is_constant)


def _declaration(item: Any) -> Attribute:
    """Read the declaration of one attribute; errors name it."""
    name = item.get("name") if isinstance(item, dict) else None
    what = f"attribute {name!r}" if isinstance(name, str) and name else "an attribute's declaration"
    check_keys(item, {"name", "domain", "values", "ordered", "unique"}, what)
    values = item.get("values", [])
    if not isinstance(values, list):
        raise CallerError(f"{what}: `values` is not a list", seen=values)
    flags = {member: flag(item, member, what) for member in ("ordered", "unique")}
    return Attribute(item.get("name"), item.get("domain"), tuple(values), **flags)


def _domain_kind(name: Any, domain: Any) -> DomainKind:
    try:
        return DomainKind(domain)
    except ValueError:
        kinds = [str(kind) for kind in DomainKind]
        raise CallerError(
            f"attribute {name!r}: " + ("it has no domain" if domain is None else "unknown domain"),
            seen=domain,
            limit=kinds,
            remedy=nearest(_SYNONYMS.get(str(domain).lower(), str(domain).lower()), kinds),
        ) from None
