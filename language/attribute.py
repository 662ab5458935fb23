"""One declared attribute: what its values and constants must be, and their canonical form.

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

    def to_json(self) -> dict[str, Any]:
        """Return the form that `read_attribute` reads, without members that have their default."""
        item: dict[str, Any] = {"name": self.name, "domain": str(self.domain)}
        if self.values:
            item["values"] = list(self.values)
        item.update({member: True for member in ("ordered", "unique") if getattr(self, member)})
        return item

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


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain with a name of its own, that attributes are declared to be of.

    Attributes
    ----------
    name : str
        Not that of a `DomainKind`.
    kind : DomainKind
    values : tuple of str
    ordered : bool
        These three as in `Attribute`.
    """

    name: str
    kind: DomainKind
    values: tuple[str, ...] = ()
    ordered: bool = False

    def __post_init__(self) -> None:
        example = self.attribute(self.name)  # checks all of it
        object.__setattr__(self, "kind", example.domain)
        object.__setattr__(self, "values", example.values)
        if self.name in set(DomainKind):
            raise CallerError(
                "a domain has the name of a kind of domains", seen=self.name, remedy="Give it another name."
            )

    def attribute(self, name: str, unique: bool = False) -> Attribute:
        """Return an attribute of this domain."""
        return Attribute(name, self.kind, self.values, self.ordered, unique)

    def to_json(self) -> dict[str, Any]:
        """Return the form that `read_domain` reads, without members that have their default."""
        return self.attribute(self.name).to_json()


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


def read_attribute(item: Any, domains: Mapping[str, Domain] | None = None) -> Attribute:
    """Read ``{"name", "domain", "values"?, "ordered"?, "unique"?}``.

    Parameters
    ----------
    item : object
    domains : mapping of str to Domain, optional
        Domains that it may name in the place of a kind; it says no values then.

    Raises
    ------
    CallerError
        The object has another shape, or declares something impossible; the error names the attribute.
    """
    name = item.get("name") if isinstance(item, dict) else None
    what = f"attribute {name!r}" if isinstance(name, str) and name else "an attribute's declaration"
    check_keys(item, {"name", "domain", "values", "ordered", "unique"}, what)
    values = item.get("values", [])
    if not isinstance(values, list):
        raise CallerError(f"{what}: `values` is not a list", seen=values)
    flags = {member: flag(item, member, what) for member in ("ordered", "unique")}
    domain = item.get("domain")
    if domains and isinstance(domain, str) and (named := domains.get(domain)) is not None:
        if values or flags["ordered"]:
            raise CallerError(
                f"{what}: its values are those of its domain", seen=domain, remedy="Leave them out."
            )
        return named.attribute(item.get("name"), flags["unique"])
    return Attribute(item.get("name"), domain, tuple(values), **flags)


def read_domain(item: Any) -> Domain:
    """Read ``{"name", "domain", "values"?, "ordered"?}``, where ``domain`` is a kind.

    Raises
    ------
    CallerError
        The object has another shape, or declares something impossible.
    """
    name = item.get("name") if isinstance(item, dict) else None
    what = f"domain {name!r}" if isinstance(name, str) and name else "a domain's declaration"
    check_keys(item, {"name", "domain", "values", "ordered"}, what)
    found = read_attribute(item)
    return Domain(found.name, found.domain, found.values, found.ordered)


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
