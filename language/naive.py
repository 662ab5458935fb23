"""The reference matcher: `docs/semantics.md`, rule by rule, and nothing else.

Every engine must agree with this one. It works on the expression tree itself, knows no normal form, no
canonical predicate and no index, and looks at every subscription for every event. Each atom becomes one small
function of the event's values, with its constants brought to the attribute's domain once; that is all the
cleverness there is.

Rules that are easy to get wrong, and where they are here: a missing attribute makes an atom false (`_some`);
an atom holds if one value satisfies it (`_some`); kinds never mix, and a boolean is no number (`_KIND_OF`).
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from pubsub_cluster.language.errors import DomainError, DuplicateIdError, UnknownIdError, WindowError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import TEXT_OPERATORS, And, Atom, Expression, Operator, Or
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.raw_batch import Value
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, DomainKind, Schema
from pubsub_cluster.language.text_match import compile_operator
from pubsub_cluster.language.values import fold
from pubsub_cluster.language.wellformed import check_tree

Values: TypeAlias = Mapping[str, tuple[Value, ...]]
Test: TypeAlias = Callable[[Values], bool]
ValueTest: TypeAlias = Callable[[Any], bool]

_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: python_operator.eq,
    Operator.NE: python_operator.ne,
    Operator.LT: python_operator.lt,
    Operator.LE: python_operator.le,
    Operator.GT: python_operator.gt,
    Operator.GE: python_operator.ge,
}
_ORDERED = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE})
_MATCHED = frozenset({Operator.LIKE, Operator.MATCHES, Operator.IN_NETWORK})
# Kind of a value, by its exact type. Python compares int with float exactly, and text by code points.
_KIND_OF: dict[type, str] = {bool: "boolean", int: "number", float: "number", str: "text"}


def holds(expression: Expression, values: Values, schema: Schema = EMPTY_SCHEMA) -> bool:
    """Return whether an expression holds on the canonical values of one event.

    For many events use the function that `compile_expression` returns.
    """
    return compile_expression(expression, schema)(values)


def compile_expression(expression: Expression, schema: Schema = EMPTY_SCHEMA) -> Test:
    """Return the truth of a well-formed expression as a function of an event's canonical values.

    Raises
    ------
    DomainError, ExpressionError
        A constant, an operator or a pattern that a subscription may not have.
    """
    if isinstance(expression, Atom):
        return _atom_test(expression, schema)
    if isinstance(expression, And):
        return _all_of([compile_expression(child, schema) for child in expression.children])
    if isinstance(expression, Or):
        return _any_of([compile_expression(child, schema) for child in expression.children])
    child_test = compile_expression(expression.child, schema)
    return lambda values: not child_test(values)


def _all_of(tests: list[Test]) -> Test:
    def test(values: Values) -> bool:
        for each in tests:  # noqa: SIM110 (a generator costs more than the whole test)
            if not each(values):
                return False
        return True

    return test


def _any_of(tests: list[Test]) -> Test:
    def test(values: Values) -> bool:
        for each in tests:  # noqa: SIM110
            if each(values):
                return True
        return False

    return test


# -- atoms --------------------------------------------------------------------------------------------------


def _atom_test(atom: Atom, schema: Schema) -> Test:
    name = atom.attribute
    if name is None:
        return _some_of_any_attribute(_text_test(atom))
    declared = schema.resolve(name)
    if atom.other is not None:
        return _comparison_of_attributes(atom, name, atom.other, schema)
    if atom.operator is Operator.EXISTS:
        return lambda values: name in values
    if atom.operator is Operator.NOT_EXISTS:
        return lambda values: name not in values
    if atom.operator is Operator.UNDER:
        return _some(name, _under_test(atom, declared))
    if atom.operator in TEXT_OPERATORS or atom.ignore_case:
        if declared is not None and declared.domain is not DomainKind.STRING:
            _refuse(atom, declared, "is for strings")
        return _some(name, _text_test(atom))
    if (atom.operator in _ORDERED or atom.operator is Operator.BETWEEN) and declared is not None:
        _check_order(atom, declared)
    return _some(name, _constant_test(atom, declared))


def _some(name: str, value_test: ValueTest) -> Test:
    """Some value of the attribute satisfies the test; false where it is missing."""

    def test(values: Values) -> bool:
        for value in values.get(name, ()):  # noqa: SIM110
            if value_test(value):
                return True
        return False

    return test


def _some_of_any_attribute(value_test: ValueTest) -> Test:
    return lambda values: any(value_test(value) for found in values.values() for value in found)


def _constant_test(atom: Atom, declared: Attribute | None) -> ValueTest:
    """Return the test of one value against constants, which are brought to the declared domain here."""

    def canonical(constant: Any) -> Value:
        value: Value = constant if declared is None else declared.canonical_constant(constant)
        return value

    if atom.operator is Operator.BETWEEN:
        return _between(canonical(atom.lo), canonical(atom.hi), atom.lo_open, atom.hi_open)
    if isinstance(atom.value, tuple):
        members = [canonical(member) for member in atom.value]
        return _not_in(members) if atom.operator is Operator.NOT_IN else _in(members)
    constant = canonical(atom.value)
    kind, compare = _KIND_OF[type(constant)], _COMPARE[atom.operator]
    if atom.operator in _ORDERED and kind == "boolean":
        return lambda value: False
    return lambda value: _KIND_OF[type(value)] == kind and compare(value, constant)


def _between(lo: Value, hi: Value, lo_open: bool, hi_open: bool) -> ValueTest:
    above = python_operator.gt if lo_open else python_operator.ge
    below = python_operator.lt if hi_open else python_operator.le
    kind: str | None = _KIND_OF[type(lo)]
    if kind != _KIND_OF[type(hi)] or kind == "boolean":
        kind = None  # no value has both kinds, and booleans have no order
    return lambda value: _KIND_OF[type(value)] == kind and above(value, lo) and below(value, hi)


def _in(members: list[Value]) -> ValueTest:
    by_kind = _by_kind(members)
    return lambda value: value in by_kind[_KIND_OF[type(value)]]


def _not_in(members: list[Value]) -> ValueTest:
    """One value differs from every member, so it has the kind of every member."""
    by_kind = _by_kind(members)
    kinds = [kind for kind, found in by_kind.items() if found]
    if not kinds:
        return lambda value: True
    if len(kinds) > 1:
        return lambda value: False
    (kind,) = kinds
    excluded = by_kind[kind]
    return lambda value: _KIND_OF[type(value)] == kind and value not in excluded


def _by_kind(members: list[Value]) -> dict[str, set[Value]]:
    """Members by kind, so that 1 and True, which are equal in Python, stay apart."""
    by_kind: dict[str, set[Value]] = {"boolean": set(), "number": set(), "text": set()}
    for member in members:
        by_kind[_KIND_OF[type(member)]].add(member)
    return by_kind


def _text_test(atom: Atom) -> ValueTest:
    ignore_case, compare = atom.ignore_case, _COMPARE.get(atom.operator)
    if atom.operator in _MATCHED:
        matches = compile_operator(atom.operator.value, str(atom.value), ignore_case)
        return lambda value: type(value) is str and matches(value)
    prepare: Callable[[str], str] = fold if ignore_case else str
    if isinstance(atom.value, tuple):
        members = {prepare(str(member)) for member in atom.value}
        is_listed = atom.operator is Operator.IN
        if not members:
            return lambda value: not is_listed
        return lambda value: type(value) is str and (prepare(value) in members) is is_listed
    pattern = prepare(str(atom.value))
    if compare is not None:
        return lambda value: type(value) is str and compare(prepare(value), pattern)
    if atom.operator is Operator.PREFIX:
        return lambda value: type(value) is str and prepare(value).startswith(pattern)
    if atom.operator is Operator.SUFFIX:
        return lambda value: type(value) is str and prepare(value).endswith(pattern)
    return lambda value: type(value) is str and pattern in prepare(value)


def _under_test(atom: Atom, declared: Attribute | None) -> ValueTest:
    if declared is None:
        raise DomainError(
            f"`under` needs a declared tree of paths, and attribute {atom.attribute!r} is not declared",
            seen=atom.value,
            attribute=atom.attribute,
        )
    first, last = declared.subtree(str(atom.value))
    return lambda value: first <= value <= last


def _comparison_of_attributes(atom: Atom, left_name: str, right_name: str, schema: Schema) -> Test:
    _check_comparable(atom, schema.resolve(left_name), schema.resolve(right_name))
    compare, is_ordered = _COMPARE[atom.operator], atom.operator in _ORDERED
    prepare: Callable[[str], str] = fold if atom.ignore_case else str

    def pair_holds(one: Value, other: Value) -> bool:
        kind = _KIND_OF[type(one)]
        if kind != _KIND_OF[type(other)] or (is_ordered and kind == "boolean"):
            return False
        return compare(prepare(str(one)), prepare(str(other))) if kind == "text" else compare(one, other)

    return lambda values: any(
        pair_holds(one, other) for one in values.get(left_name, ()) for other in values.get(right_name, ())
    )


# -- what a schema refuses ----------------------------------------------------------------------------------


def _check_order(atom: Atom, declared: Attribute) -> None:
    if not declared.has_order:
        _refuse(atom, declared, "needs an order")


def _check_comparable(atom: Atom, left: Attribute | None, right: Attribute | None) -> None:
    """Refuse two attributes whose canonical values do not mean the same."""
    families = [_family(side) for side in (left, right)]
    known = [family for family in families if family is not None]
    hidden = [family for family in known if len(family) > 1]
    for side in (left, right):
        if side is None:
            continue
        if families[0] != families[1] and (hidden or len(known) == 2):
            _refuse(atom, side, "compares attributes of one domain")
        if atom.operator in _ORDERED:
            _check_order(atom, side)


def _family(declared: Attribute | None) -> tuple[Any, ...] | None:
    """What a declared attribute compares with: one element for values that are what they are."""
    if declared is None:
        return None
    if declared.domain in (DomainKind.INTEGER, DomainKind.FLOAT):
        return ("number",)
    if declared.domain in (DomainKind.STRING, DomainKind.BOOLEAN):
        return (str(declared.domain),)
    return (str(declared.domain), declared.values)


def _refuse(atom: Atom, declared: Attribute, rule: str) -> NoReturn:
    raise DomainError(
        f"`{atom.operator}` {rule}, and attribute {declared.name!r} has domain {declared.domain}",
        seen=atom.value,
        attribute=declared.name,
        domain=str(declared.domain),
    )


# -- subscriptions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Subscription:
    test: Test
    valid_from: int | None
    valid_until: int | None

    def is_valid(self, at: int) -> bool:
        from_min = INT64_MIN if self.valid_from is None else self.valid_from
        return from_min <= at and (self.valid_until is None or at < self.valid_until)


class NaiveMatcher:
    """Subscriptions in the order of their creation, matched one by one.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS) -> None:
        self.schema = schema
        self.limits = limits
        self._subscriptions: dict[str, _Subscription] = {}
        self._now = INT64_MIN

    def __len__(self) -> int:
        return len(self._subscriptions)

    def subscribe(
        self,
        subscription_id: str,
        expression: Expression,
        valid_from: int | None = None,
        valid_until: int | None = None,
    ) -> None:
        """Add a subscription, valid in [valid_from, valid_until); an end that is None is unbounded.

        Raises
        ------
        DuplicateIdError, WindowError, ExpressionError, DomainError, LimitError
            Nothing has changed.
        """
        if subscription_id in self._subscriptions:
            raise DuplicateIdError("a subscription with this id exists", seen=subscription_id)
        self._subscriptions[subscription_id] = self._made(expression, valid_from, valid_until)

    def update(
        self,
        subscription_id: str,
        expression: Expression,
        valid_from: int | None = None,
        valid_until: int | None = None,
    ) -> None:
        """Replace a subscription's expression; an end of the window that is None stays as it was.

        Raises
        ------
        UnknownIdError, WindowError, ExpressionError, DomainError, LimitError
            Nothing has changed.
        """
        old = self._subscriptions.get(subscription_id)
        if old is None:
            raise UnknownIdError("no subscription has this id", seen=subscription_id)
        self._subscriptions[subscription_id] = self._made(
            expression,
            old.valid_from if valid_from is None else valid_from,
            old.valid_until if valid_until is None else valid_until,
        )

    def unsubscribe(self, subscription_id: str) -> None:
        """Remove a subscription.

        Raises
        ------
        UnknownIdError
            There is none with this id.
        """
        if self._subscriptions.pop(subscription_id, None) is None:
            raise UnknownIdError("no subscription has this id", seen=subscription_id)

    def match(self, event: Any, at: int | None = None) -> list[str]:
        """Return the ids of the subscriptions that match an event, in the order of their creation.

        Parameters
        ----------
        event : dict
            As a publisher gives it.
        at : int, optional
            The moment of acceptance, microseconds or any other unit of the windows; it never runs
            backwards. None: windows are not looked at.

        Raises
        ------
        EventError
            The event is refused.
        """
        return self.match_canonical(flatten_event(event, self.schema, self.limits), at)

    def match_canonical(self, values: Values, at: int | None = None) -> list[str]:
        """Return the same for an event given by its canonical values."""
        if at is None:
            return [name for name, each in self._subscriptions.items() if each.test(values)]
        self._now = max(self._now, at)
        return [
            name
            for name, each in self._subscriptions.items()
            if each.is_valid(self._now) and each.test(values)
        ]

    def _made(self, expression: Expression, valid_from: int | None, valid_until: int | None) -> _Subscription:
        lower = INT64_MIN if valid_from is None else valid_from
        upper = INT64_MAX if valid_until is None else valid_until
        if upper <= lower:
            raise WindowError(
                "the validity window is empty: its end is not after its start", seen=[valid_from, valid_until]
            )
        check_tree(expression, self.limits)
        return _Subscription(compile_expression(expression, self.schema), valid_from, valid_until)
