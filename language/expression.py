"""The expression tree: what a subscription says, before anything is done to it.

A tree is made of `And`, `Or`, `Not` and `Atom`; constants are kept as the user wrote them (a timestamp
as its text, for instance). The forms make well-formed trees only; one made by hand is checked by
`pubsub_cluster.language.wellformed`. What needs the schema is checked by `pubsub_cluster.language.normalise`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

Constant: TypeAlias = bool | int | float | str


class Operator(enum.StrEnum):
    """Operators of `docs/semantics.md`, spelt as in the JSON form."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    BETWEEN = "between"
    IN = "in"
    NOT_IN = "not in"
    EXISTS = "exists"
    NOT_EXISTS = "not exists"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    LIKE = "like"
    MATCHES = "matches"
    UNDER = "under"
    IN_NETWORK = "in_network"


COMPARISONS = frozenset({Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE})
TEXT_OPERATORS = frozenset(
    {
        Operator.PREFIX,
        Operator.SUFFIX,
        Operator.CONTAINS,
        Operator.LIKE,
        Operator.MATCHES,
        Operator.IN_NETWORK,
    }
)
IGNORE_CASE_OPERATORS = frozenset(
    {
        Operator.EQ,
        Operator.NE,
        Operator.IN,
        Operator.NOT_IN,
        Operator.PREFIX,
        Operator.SUFFIX,
        Operator.CONTAINS,
        Operator.LIKE,
        Operator.MATCHES,
    }
)


@dataclass(frozen=True, slots=True)
class Atom:
    """One predicate.

    Attributes
    ----------
    attribute : str or None
        Name of the attribute; None means *any attribute* (text operators only).
    operator : Operator
    value : Constant, tuple of Constant, or None
        The constant; a tuple for ``in`` and ``not in``; None for ``exists``, ``not exists``,
        ``between`` and comparisons with another attribute.
    lo, hi : Constant or None
        Ends of ``between``.
    lo_open, hi_open : bool
        True where an end of ``between`` is excluded.
    ignore_case : bool
        Compare folded text (`docs/semantics.md`, operators).
    other : str or None
        The second attribute of a comparison of two attributes.
    """

    attribute: str | None
    operator: Operator
    value: Constant | tuple[Constant, ...] | None = None
    lo: Constant | None = None
    hi: Constant | None = None
    lo_open: bool = False
    hi_open: bool = False
    ignore_case: bool = False
    other: str | None = None


@dataclass(frozen=True, slots=True)
class And:
    """True when every child is; true without children."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True when some child is; false without children."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Plain two-valued negation."""

    child: Expression


Expression: TypeAlias = Atom | And | Or | Not
