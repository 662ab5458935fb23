"""From an atom to its canonical predicate: the meaning of each operator, decided in one place.

`canonical_literal` brings the constants of one atom to the attribute's domain and says the atom with the few
kinds of `pubsub_cluster.language.predicate`. An atom that can never hold becomes None; an atom that would
always hold does not exist, because every atom but ``not exists`` is false on a missing attribute, and
``not exists`` is the one atom that becomes a negated predicate.

Ranges are brought to one spelling, so that equal ranges are equal predicates: infinities that exclude nothing
become unbounded ends, and over domains whose values are whole numbers the ends are whole and closed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pubsub_cluster.language.errors import DomainError, ExpressionError
from pubsub_cluster.language.expression import COMPARISONS, TEXT_OPERATORS, Atom, Operator
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.predicate import CanonicalConstant, Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema
from pubsub_cluster.language.text_match import compile_operator
from pubsub_cluster.language.wellformed import WITH_ORDER, checked_constant

NUMBER: Final = ValueKind.NUMBER
TEXT: Final = ValueKind.TEXT
BOOLEAN: Final = ValueKind.BOOLEAN
RANGE: Final = PredicateKind.RANGE

TypedConstant = tuple[ValueKind, CanonicalConstant]

# Text operators that check their pattern when it is compiled.
_COMPILED: Final = frozenset({Operator.LIKE, Operator.MATCHES, Operator.IN_NETWORK})
_AFFIXES: Final = frozenset({Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS})
_ORDERED_COMPARISONS: Final = WITH_ORDER & COMPARISONS
# Domains whose canonical values are the values themselves, by what they compare with.
_PLAIN_FAMILY: Final = {
    DomainKind.INTEGER: NUMBER,
    DomainKind.FLOAT: NUMBER,
    DomainKind.STRING: TEXT,
    DomainKind.BOOLEAN: BOOLEAN,
}
_WHOLE_DOMAINS: Final = frozenset({DomainKind.INTEGER, DomainKind.TIMESTAMP, DomainKind.ENUMERATED})


class Literal(NamedTuple):
    """A canonical predicate, negated or not."""

    predicate: Predicate
    negated: bool = False


def canonical_literal(atom: Atom, schema: Schema) -> Literal | None:
    """Return what an atom says about canonical values; None when it can never hold.

    Parameters
    ----------
    atom : Atom
        Well formed (`pubsub_cluster.language.wellformed`).
    schema : Schema

    Raises
    ------
    DomainError
        A constant or an operator does not suit the attribute's declared domain, or the attribute is not
        declared and the schema is closed.
    ExpressionError
        A pattern does not compile, a network does not parse, a boolean is compared by order.
    """
    name = atom.attribute
    if name is None:
        return Literal(_text_predicate(None, atom))
    attribute = schema.resolve(name)
    if atom.other is not None:
        _check_comparable(atom, attribute, schema.resolve(atom.other))
        return Literal(
            Predicate(
                PredicateKind.COMPARE,
                name,
                text_operator=atom.operator.value,
                ignore_case=atom.ignore_case,
                other=atom.other,
            )
        )
    if atom.operator in TEXT_OPERATORS or atom.ignore_case:
        if attribute is not None and attribute.domain is not DomainKind.STRING:
            raise _unsuited(atom, attribute, "is for strings")
        return _text_literal(name, atom)
    return _MEANINGS[atom.operator](name, atom, attribute)


# -- constants ----------------------------------------------------------------------------------------------


def _typed(constant: Any, attribute: Attribute | None) -> TypedConstant:
    """Return kind and canonical form of a constant, checked against the attribute's declaration, if any."""
    value: Any = constant if attribute is None else attribute.canonical_constant(constant)
    kind = type(value)
    if kind is str:
        return TEXT, value.encode()
    if kind is int and INT64_MIN <= value <= INT64_MAX:
        return NUMBER, value
    if kind is float and value == value:
        return NUMBER, _plain_number(value)
    if kind is bool:
        return BOOLEAN, value
    checked_constant(value)  # says what is wrong
    raise AssertionError(f"not a canonical constant: {value!r}")


def _plain_number(number: float) -> int | float:
    """Return a float as the equal 64-bit integer if there is one, so that equal constants look alike."""
    if number.is_integer() and INT64_MIN <= number < 2.0**63:
        return int(number)
    return number


def _typed_set(atom: Atom, attribute: Attribute | None) -> tuple[TypedConstant, ...]:
    """Return the members of a list, sorted by kind and value, without repeats."""
    members = atom.value
    if not isinstance(members, tuple):
        raise AssertionError(f"not a well-formed list: {members!r}")
    return tuple(sorted({_typed(member, attribute) for member in members}))


# -- operators on values ------------------------------------------------------------------------------------


def _equal(name: str, atom: Atom, attribute: Attribute | None) -> Literal | None:
    return _point(name, _typed(atom.value, attribute), attribute)


def _point(name: str, constant: TypedConstant, attribute: Attribute | None) -> Literal | None:
    kind, value = constant
    if attribute is not None and not _is_possible(constant, attribute):
        return None
    return Literal(Predicate(RANGE, name, kind, value, value))


def _is_possible(constant: TypedConstant, attribute: Attribute) -> bool:
    """Whether some value of the declared domain equals the constant: whole domains have no fractions."""
    return attribute.domain is not DomainKind.INTEGER or type(constant[1]) is int


def _member(name: str, atom: Atom, attribute: Attribute | None) -> Literal | None:
    constants = _typed_set(atom, attribute)
    if attribute is not None:
        constants = tuple(constant for constant in constants if _is_possible(constant, attribute))
    if len(constants) <= 1:
        return _point(name, constants[0], attribute) if constants else None
    return Literal(Predicate(PredicateKind.SET, name, constants=constants))


def _unequal(name: str, atom: Atom, attribute: Attribute | None) -> Literal | None:
    return _all_but(name, (_typed(atom.value, attribute),), attribute)


def _not_member(name: str, atom: Atom, attribute: Attribute | None) -> Literal | None:
    constants = _typed_set(atom, attribute)
    if not constants:
        return Literal(Predicate(PredicateKind.EXISTS, name))
    if constants[0][0] is not constants[-1][0]:
        return None  # no single value differs, within its kind, from constants of two kinds
    return _all_but(name, constants, attribute)


def _all_but(name: str, constants: tuple[TypedConstant, ...], attribute: Attribute | None) -> Literal | None:
    kind = constants[0][0]
    value_count = 2 if kind is BOOLEAN else attribute.value_count if attribute is not None else None
    if len(constants) == value_count:
        return None  # nothing is left
    return Literal(Predicate(PredicateKind.EXCEPT, name, kind, constants=constants))


def _ordered(name: str, atom: Atom, attribute: Attribute | None) -> Literal | None:
    _check_order(atom, atom.value, attribute)
    kind, value = _typed(atom.value, attribute)
    is_open = atom.operator is Operator.LT or atom.operator is Operator.GT
    if atom.operator is Operator.LT or atom.operator is Operator.LE:
        return _range(name, kind, attribute, None, value, False, is_open)
    return _range(name, kind, attribute, value, None, is_open, False)


def _between(name: str, atom: Atom, attribute: Attribute | None) -> Literal | None:
    _check_order(atom, atom.lo, attribute)
    _check_order(atom, atom.hi, attribute)
    kind, lo = _typed(atom.lo, attribute)
    hi_kind, hi = _typed(atom.hi, attribute)
    if kind is not hi_kind:
        return None
    return _range(name, kind, attribute, lo, hi, atom.lo_open, atom.hi_open)


def _under(name: str, atom: Atom, attribute: Attribute | None) -> Literal:
    if attribute is None:
        raise DomainError(
            f"`under` needs a declared tree, and attribute {name!r} is not declared",
            seen=atom.value,
            remedy="Declare the attribute with domain hierarchical and its paths.",
            attribute=name,
        )
    first, last = attribute.subtree(str(atom.value))
    return Literal(Predicate(RANGE, name, NUMBER, first, last))


def _exists(name: str, atom: Atom, attribute: Attribute | None) -> Literal:
    return Literal(Predicate(PredicateKind.EXISTS, name), atom.operator is Operator.NOT_EXISTS)


_MEANINGS: Final[dict[Operator, Callable[[str, Atom, Attribute | None], Literal | None]]] = {
    Operator.EQ: _equal,
    Operator.NE: _unequal,
    Operator.LT: _ordered,
    Operator.LE: _ordered,
    Operator.GT: _ordered,
    Operator.GE: _ordered,
    Operator.BETWEEN: _between,
    Operator.IN: _member,
    Operator.NOT_IN: _not_member,
    Operator.EXISTS: _exists,
    Operator.NOT_EXISTS: _exists,
    Operator.UNDER: _under,
}


# -- ranges -------------------------------------------------------------------------------------------------


def _range(
    name: str, kind: ValueKind, attribute: Attribute | None, lo: Any, hi: Any, lo_open: bool, hi_open: bool
) -> Literal | None:
    """Return a range in its one spelling; None when it is empty. An end that is None is unbounded."""
    least, greatest = (b"", None) if kind is TEXT else (-math.inf, math.inf)
    if attribute is not None and attribute.domain in _WHOLE_DOMAINS:
        count = attribute.value_count
        least, greatest = (INT64_MIN, INT64_MAX) if count is None else (0, count - 1)
        lo = max(least, _whole_end(lo, lo_open, math.ceil, 1, least))
        hi = min(greatest, _whole_end(hi, hi_open, math.floor, -1, greatest))
        lo_open = hi_open = False
    lo = least if lo is None else lo
    hi = greatest if hi is None else hi
    if hi is not None and (lo > hi or (lo == hi and (lo_open or hi_open))):
        return None
    if lo != hi:
        # Ends that exclude nothing are not ends; those of one point are what makes it one.
        lo = None if lo == least and not lo_open else lo
        hi = None if hi == greatest and not hi_open else hi
    return Literal(Predicate(RANGE, name, kind, lo, hi, lo_open, hi_open))


def intersection(left: Predicate, right: Predicate) -> Predicate | None:
    """Return the range of the values in both ranges of one attribute; None when there are none."""
    if left.value_kind is not right.value_kind:
        return None
    ends: list[tuple[Any, bool]] = [(side.lo, side.lo_open) for side in (left, right) if side.lo is not None]
    lo, lo_open = max(ends, default=(None, False))  # of equal ends the open one is further in
    ends = [(side.hi, not side.hi_open) for side in (left, right) if side.hi is not None]
    hi, hi_closed = min(ends, default=(None, True))
    if lo is not None and hi is not None and (lo > hi or (lo == hi and (lo_open or not hi_closed))):
        return None
    return left._replace(lo=lo, hi=hi, lo_open=lo_open, hi_open=not hi_closed)


def _whole_end(
    end: int | float | None, is_open: bool, inward: Callable[[float], int], step: int, unbounded: int
) -> int:
    """Return the outermost whole number inside one end of a range; it may lie outside 64 bits."""
    if end is None:
        return unbounded
    if math.isinf(end):
        return 2**64 if end > 0 else -(2**64)
    whole = inward(end)
    return whole + step if is_open and whole == end else whole


# -- text ---------------------------------------------------------------------------------------------------


def _text_literal(name: str, atom: Atom) -> Literal | None:
    """Return the meaning of a text operator, or of an operator that ignores case, on a named attribute."""
    operator = atom.operator
    if operator in _AFFIXES and atom.value == "":
        return Literal(Predicate(RANGE, name, TEXT))  # in every string
    if operator is Operator.PREFIX and not atom.ignore_case:
        _, prefix = _typed(atom.value, None)
        assert isinstance(prefix, bytes)
        # The last byte of UTF-8 is never 255, so the first text after all that start so is one byte away.
        after = prefix[:-1] + bytes((prefix[-1] + 1,))
        return Literal(Predicate(RANGE, name, TEXT, prefix, after, False, True))
    if operator is Operator.IN or operator is Operator.NOT_IN:
        constants = _typed_set(atom, None)
        if not constants:
            return None if operator is Operator.IN else Literal(Predicate(PredicateKind.EXISTS, name))
        if len(constants) == 1:
            operator = Operator.EQ if operator is Operator.IN else Operator.NE
        return Literal(
            Predicate(
                PredicateKind.TEXT,
                name,
                constants=constants,
                text_operator=operator.value,
                ignore_case=atom.ignore_case,
            )
        )
    return Literal(_text_predicate(name, atom))


def _text_predicate(name: str | None, atom: Atom) -> Predicate:
    operator, pattern = atom.operator, atom.value
    if operator in _COMPILED:
        compile_operator(operator.value, str(pattern), atom.ignore_case)
    return Predicate(
        PredicateKind.TEXT,
        name,
        constants=(_typed(pattern, None),),
        text_operator=operator.value,
        ignore_case=atom.ignore_case,
    )


# -- what a declaration allows ------------------------------------------------------------------------------


def _check_order(atom: Atom, constant: Any, attribute: Attribute | None) -> None:
    if type(constant) is bool:
        raise ExpressionError(f"booleans have no order, so `{atom.operator}` takes none", seen=constant)
    if attribute is not None and not attribute.has_order:
        raise _unsuited(atom, attribute, "needs an order")


def _check_comparable(atom: Atom, left: Attribute | None, right: Attribute | None) -> None:
    """Refuse a comparison of attributes whose canonical values do not mean the same thing.

    Timestamps, ranks and numbers of tree nodes are numbers only inside; they compare with their like alone.
    """
    if left is None and right is None:
        return
    if left is None or right is None:
        declared = left or right
        assert declared is not None
        is_suited = declared.domain in _PLAIN_FAMILY
    elif left.domain in _PLAIN_FAMILY:
        is_suited = _PLAIN_FAMILY[left.domain] is _PLAIN_FAMILY.get(right.domain)
    else:
        is_suited = (left.domain, left.values) == (right.domain, right.values)
    if not is_suited:
        domains = [str(side.domain) if side else "not declared" for side in (left, right)]
        raise DomainError(
            f"attributes {atom.attribute!r} and {atom.other!r} do not compare",
            seen=domains,
            remedy="Timestamps compare with timestamps, listed values with values of the same list.",
            attribute=atom.attribute,
        )
    for side in (left, right):
        if side is not None and atom.operator in _ORDERED_COMPARISONS and not side.has_order:
            raise _unsuited(atom, side, "needs an order")


def _unsuited(atom: Atom, attribute: Attribute, rule: str) -> DomainError:
    operator = f"`{atom.operator}` ignoring case" if atom.ignore_case else f"`{atom.operator}`"
    return DomainError(
        f"{operator} {rule}, and attribute {attribute.name!r} has domain {attribute.domain}",
        seen=atom.lo if atom.operator is Operator.BETWEEN else atom.value,
        attribute=attribute.name,
        domain=str(attribute.domain),
    )
