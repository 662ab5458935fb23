"""Random schemas, expressions and events for property tests.

Domains are small and shared between constants and values, so that random expressions do match random events,
and full of edges: numbers around 2**53 and 2**63, both zeros, infinities, texts that fold, that look like
other kinds, that are prefixes of each other. `expressions(schema)` and `events(schema)` suit a schema:
nothing that they give is refused by it, unless `events` is asked for `refusable` ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from pubsub_cluster.language.expression import (
    COMPARISONS,
    IGNORE_CASE_OPERATORS,
    TEXT_OPERATORS,
    And,
    Atom,
    Expression,
    Not,
    Operator,
    Or,
)
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, DomainKind, Schema
from pubsub_cluster.language.wellformed import WITH_LIST, WITH_ORDER

NAMES = ("a", "b", "c", "d.e", "naïve", "in")
BOOLEANS = (False, True)
INTEGERS = (-1, 0, 1, 2, 3, 5, 2**53, 2**53 + 1, INT64_MIN, INT64_MAX)
FLOATS = (-0.0, 0.5, 1.0, 2.5, 5e-324, 2.0**53, -(2.0**63), 2.0**63, 1e300, float("inf"), float("-inf"))
TEXTS = (
    "",
    "a",
    "A",
    "ab",
    "abc",
    "b",
    "zab",
    "é",
    "É",
    "ß",
    "ẞ",
    "ﬁ",
    "K",
    "k",
    "😀",
    "a\x00",
    "1",
    "true",
    "a*?\\",
)
ADDRESSES = ("10.0.0.1", "10.255.0.0", "11.0.0.1", "::1", "::ffff:10.0.0.1", "10.0.0.01")
INSTANTS = (
    "1970-01-01T00:00:00Z",
    "1970-01-01T01:00:00+01:00",
    "1969-12-31T23:59:59.9999999Z",
    "1970-01-01 00:00:00.000001z",
    0,
    1,
    -1,
    INT64_MAX,
)
RANKED = ("low", "mid", "high")
PATHS = ("x", "x/y/z", "x/y", "x/w", "q/r", "q")

_PATTERNS = {
    Operator.PREFIX: ("", "a", "ab", "A", "é", "ﬁ", "😀", "10."),
    Operator.SUFFIX: ("", "b", "AB", "É", "\x00", "😀"),
    Operator.CONTAINS: ("", "a", "B", "bc", "é", "k", "*"),
    Operator.LIKE: ("*", "?", "a*", "*B?", "?b*", "", "a\\*\\?\\\\", "É", "*a*b*"),
    Operator.MATCHES: ("^a", "b$", "a|é", "[a-c]{2}", "", ".", r"\d", "K"),
    Operator.IN_NETWORK: ("10.0.0.0/8", "0.0.0.0/0", "::/0", "::ffff:0:0/96", "10.0.0.1", "10.1.2.3/8"),
}
_POOLS: dict[DomainKind, tuple[Any, ...]] = {
    DomainKind.INTEGER: (*INTEGERS, 1.0, -0.0),
    DomainKind.FLOAT: (*INTEGERS, *FLOATS),
    DomainKind.STRING: (*TEXTS, *ADDRESSES),
    DomainKind.BOOLEAN: BOOLEANS,
    DomainKind.TIMESTAMP: INSTANTS,
    DomainKind.ENUMERATED: RANKED,
    DomainKind.HIERARCHICAL: PATHS,
}
_ANY_POOL = (*BOOLEANS, *INTEGERS, *FLOATS, *TEXTS, *ADDRESSES)
_DECLARED_VALUES = {DomainKind.ENUMERATED: RANKED, DomainKind.HIERARCHICAL: PATHS}
_PLAIN_DOMAINS = {
    DomainKind.INTEGER: "n",
    DomainKind.FLOAT: "n",
    DomainKind.STRING: "s",
    DomainKind.BOOLEAN: "b",
}


class Case(NamedTuple):
    """A schema with expressions and events that suit it."""

    schema: Schema
    expressions: list[Expression]
    events: list[dict[str, Any]]


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Schemas that declare some of `NAMES`, in any domain, unique or not; never closed."""
    attributes = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        domain = draw(st.sampled_from(DomainKind))
        values = _DECLARED_VALUES.get(domain, ())
        ordered = domain is DomainKind.ENUMERATED and draw(st.booleans())
        attributes.append(Attribute(name, domain, values, ordered=ordered, unique=draw(st.booleans())))
    return Schema(tuple(attributes))


def values(attribute: Attribute | None = None) -> st.SearchStrategy[Any]:
    """Single values of events: of the declared domain, or of any kind."""
    return st.sampled_from(_ANY_POOL if attribute is None else _POOLS[attribute.domain])


def constants(attribute: Attribute | None = None) -> st.SearchStrategy[Any]:
    """Constants of subscriptions: as `values`, and any number for a declared integer."""
    if attribute is not None and attribute.domain is DomainKind.INTEGER:
        return st.sampled_from(_POOLS[DomainKind.FLOAT])
    return values(attribute)


@st.composite
def atoms(draw: st.DrawFn, schema: Schema | None = None) -> Atom:
    """Well-formed predicates that `schema` accepts."""
    schema = schema or EMPTY_SCHEMA
    name = draw(st.sampled_from(NAMES))
    attribute = schema.get(name)
    operator = draw(st.sampled_from(_operators(attribute)))
    if operator in COMPARISONS and draw(st.integers(0, 5)) == 0:
        others = [other for other in NAMES if _is_comparable(attribute, schema.get(other))]
        folded = operator in IGNORE_CASE_OPERATORS and draw(st.booleans())
        return Atom(name, operator, ignore_case=folded, other=draw(st.sampled_from(others)))
    takes_text = attribute is None or attribute.domain is DomainKind.STRING
    ignore_case = takes_text and operator in IGNORE_CASE_OPERATORS and draw(st.booleans())
    if operator in TEXT_OPERATORS:
        is_any = draw(st.integers(0, 3)) == 0
        pattern = draw(st.sampled_from(_PATTERNS[operator]))
        return Atom(None if is_any else name, operator, pattern, ignore_case=ignore_case)
    members = constants(attribute)
    if ignore_case:
        members = st.sampled_from(TEXTS)
    elif operator in WITH_ORDER and attribute is None:
        members = st.sampled_from([value for value in _ANY_POOL if not isinstance(value, bool)])
    if operator is Operator.BETWEEN:
        ends = {"lo_open": draw(st.booleans()), "hi_open": draw(st.booleans())}
        return Atom(name, operator, lo=draw(members), hi=draw(members), **ends)
    if operator in WITH_LIST:
        return Atom(name, operator, tuple(draw(st.lists(members, max_size=5))), ignore_case=ignore_case)
    if operator is Operator.EXISTS or operator is Operator.NOT_EXISTS:
        return Atom(name, operator)
    return Atom(name, operator, draw(members), ignore_case=ignore_case)


def expressions(schema: Schema | None = None, max_leaves: int = 12) -> st.SearchStrategy[Expression]:
    """Well-formed trees that `schema` accepts; connectives of no and of one operand among them."""
    return st.recursive(
        atoms(schema),
        lambda children: st.one_of(
            st.lists(children, max_size=4).map(lambda operands: And(tuple(operands))),
            st.lists(children, max_size=4).map(lambda operands: Or(tuple(operands))),
            children.map(Not),
        ),
        max_leaves=max_leaves,
    )


@st.composite
def events(draw: st.DrawFn, schema: Schema | None = None, refusable: bool = False) -> dict[str, Any]:
    """Events as a publisher gives them: missing, null, nested and many-valued entries, mistyped values.

    Only undeclared attributes get values of any kind, and unique attributes one value, unless `refusable`.
    """
    schema = schema or EMPTY_SCHEMA
    event: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        attribute = schema.get(name)
        single = values(None if refusable and draw(st.integers(0, 5)) == 0 else attribute)
        many = st.lists(st.one_of(single, st.none()), max_size=3 if refusable else 4)
        if attribute is not None and attribute.unique and not refusable:
            many = st.lists(single, max_size=1)
        value = draw(st.one_of(single, single, many, st.none()))
        if "." in name and draw(st.booleans()):
            outer, inner = name.split(".")
            event[outer] = {inner: value}
        else:
            event[name] = value
    return event


@st.composite
def cases(
    draw: st.DrawFn,
    max_expressions: int = 8,
    max_events: int = 6,
    declared: bool = True,
    max_leaves: int = 12,
) -> Case:
    """A schema (empty unless `declared`), expressions and events that suit it."""
    schema = draw(schemas()) if declared else EMPTY_SCHEMA
    return Case(
        schema,
        draw(st.lists(expressions(schema, max_leaves), min_size=1, max_size=max_expressions)),
        draw(st.lists(events(schema), min_size=1, max_size=max_events)),
    )


def _operators(attribute: Attribute | None) -> list[Operator]:
    """Operators that the declaration allows."""
    refused: set[Operator] = set()
    if attribute is None or attribute.domain is not DomainKind.HIERARCHICAL:
        refused.add(Operator.UNDER)
    if attribute is not None and attribute.domain is not DomainKind.STRING:
        refused.update(TEXT_OPERATORS)
    if attribute is not None and not attribute.has_order:
        refused.update(WITH_ORDER)
    return [operator for operator in Operator if operator not in refused]


def _is_comparable(left: Attribute | None, right: Attribute | None) -> bool:
    """Whether two attributes may be compared with each other, by whatever operator the left one allows."""
    if left is None or right is None:
        declared = left or right
        return declared is None or declared.domain in (
            DomainKind.INTEGER,
            DomainKind.FLOAT,
            DomainKind.STRING,
        )
    family = _PLAIN_DOMAINS.get(left.domain)
    if family is not None:
        return family == _PLAIN_DOMAINS.get(right.domain)
    return left.domain is right.domain and left.ordered == right.ordered
