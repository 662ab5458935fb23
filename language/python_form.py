"""Expressions in Python's own syntax.

::

    (attr("origin") == "JFK") & attr("dest").is_in(["LAX", "SFO"]) & ~(attr("carrier") == "UA")

`attr` names an attribute, its operators and methods make a `Condition`, and ``& | ~`` combine conditions.
Python's ``and``, ``or``, ``not`` and chained comparisons ask for a truth value, which a condition does not
have before an event is there; asking raises `TypeError`. A condition is only a wrapper:
`Condition.expression` is the tree, and everything that takes an expression takes either (`to_expression`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np

from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.expression import And, Atom, Constant, Expression, Not, Operator, Or
from pubsub_cluster.language.json_form import expression_from_any
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.text_form import format_text
from pubsub_cluster.language.wellformed import check_atom, check_tree

ConstantLike: TypeAlias = Constant | datetime


class Condition:
    """An expression with operators.

    Attributes
    ----------
    expression : Expression
    """

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __and__(self, other: Condition) -> Condition:
        """Both hold; a chain of ``&`` makes one conjunction."""
        if not isinstance(other, Condition):
            return NotImplemented
        return Condition(And((*_operands(self, And), *_operands(other, And))))

    def __or__(self, other: Condition) -> Condition:
        """At least one holds; a chain of ``|`` makes one disjunction."""
        if not isinstance(other, Condition):
            return NotImplemented
        return Condition(Or((*_operands(self, Or), *_operands(other, Or))))

    def __invert__(self) -> Condition:
        """Plain negation: true wherever the condition is false, also where the attribute is missing."""
        return Condition(Not(self.expression))

    def __bool__(self) -> bool:
        raise TypeError(
            "a condition has no truth value before there is an event; combine conditions with `&`, `|` and "
            "`~` (in parentheses) instead of `and`, `or` and `not`, and write `a < x < b` as `.between(a, b)`"
        )

    def __repr__(self) -> str:
        return f"<Condition {format_text(self.expression)}>"


class AnyAttribute:
    """Some attribute of the event, for text operators; use the instance `any_attribute`."""

    __slots__ = ()
    _name: str | None = None

    def prefix(self, text: str, *, ignore_case: bool = False) -> Condition:
        """The value begins with `text`."""
        return self._test(Operator.PREFIX, text, ignore_case)

    def suffix(self, text: str, *, ignore_case: bool = False) -> Condition:
        """The value ends with `text`."""
        return self._test(Operator.SUFFIX, text, ignore_case)

    def contains(self, text: str, *, ignore_case: bool = False) -> Condition:
        """`text` occurs in the value."""
        return self._test(Operator.CONTAINS, text, ignore_case)

    def like(self, pattern: str, *, ignore_case: bool = False) -> Condition:
        """The whole value fits `pattern`: ``*`` is any run, ``?`` one character, a backslash escapes."""
        return self._test(Operator.LIKE, pattern, ignore_case)

    def matches(self, pattern: str, *, ignore_case: bool = False) -> Condition:
        """The regular expression `pattern` (RE2 syntax) occurs in the value."""
        return self._test(Operator.MATCHES, pattern, ignore_case)

    def in_network(self, network: str) -> Condition:
        """The value is an IP address inside `network` (CIDR, version 4 or 6)."""
        return self._test(Operator.IN_NETWORK, network, False)

    def _test(self, operator: Operator, value: Any, ignore_case: bool) -> Condition:
        return _checked(Atom(self._name, operator, _constant(value), ignore_case=ignore_case))


class NamedAttribute(AnyAttribute):
    """One attribute by its name; made by `attr`."""

    __slots__ = ("_name",)
    _name: str

    def __init__(self, name: str) -> None:
        self._name = name

    def __eq__(self, value: ConstantLike | NamedAttribute) -> Condition:  # type: ignore[override]
        """The value equals a constant, or a value of another attribute."""
        return self._compare(Operator.EQ, value)

    def __ne__(self, value: ConstantLike | NamedAttribute) -> Condition:  # type: ignore[override]
        """There is a value of the constant's kind, and it differs (unlike ``~(a == value)``)."""
        return self._compare(Operator.NE, value)

    def __lt__(self, value: ConstantLike | NamedAttribute) -> Condition:
        return self._compare(Operator.LT, value)

    def __le__(self, value: ConstantLike | NamedAttribute) -> Condition:
        return self._compare(Operator.LE, value)

    def __gt__(self, value: ConstantLike | NamedAttribute) -> Condition:
        return self._compare(Operator.GT, value)

    def __ge__(self, value: ConstantLike | NamedAttribute) -> Condition:
        return self._compare(Operator.GE, value)

    __hash__ = None  # type: ignore[assignment]  # equality makes conditions, so it cannot find keys

    def equals(self, value: ConstantLike | NamedAttribute, *, ignore_case: bool = False) -> Condition:
        """As ``==``, on request without regard to case."""
        return self._compare(Operator.EQ, value, ignore_case)

    def not_equals(self, value: ConstantLike | NamedAttribute, *, ignore_case: bool = False) -> Condition:
        """As ``!=``, on request without regard to case."""
        return self._compare(Operator.NE, value, ignore_case)

    def is_in(self, values: Iterable[ConstantLike], *, ignore_case: bool = False) -> Condition:
        """The value equals one of `values`."""
        return _checked(Atom(self._name, Operator.IN, _constants(values), ignore_case=ignore_case))

    def not_in(self, values: Iterable[ConstantLike], *, ignore_case: bool = False) -> Condition:
        """There is a value that differs, within its kind, from every one of `values`."""
        return _checked(Atom(self._name, Operator.NOT_IN, _constants(values), ignore_case=ignore_case))

    def between(
        self, lo: ConstantLike, hi: ConstantLike, *, lo_open: bool = False, hi_open: bool = False
    ) -> Condition:
        """One value lies between `lo` and `hi`, the ends included unless they are open."""
        ends = {"lo": _constant(lo), "hi": _constant(hi)}
        return _checked(Atom(self._name, Operator.BETWEEN, **ends, lo_open=lo_open, hi_open=hi_open))

    def exists(self) -> Condition:
        """The event has the attribute."""
        return _checked(Atom(self._name, Operator.EXISTS))

    def not_exists(self) -> Condition:
        """The event has not the attribute."""
        return _checked(Atom(self._name, Operator.NOT_EXISTS))

    def under(self, path: str) -> Condition:
        """The value is this node of the declared tree or a descendant."""
        return self._test(Operator.UNDER, path, False)

    def __repr__(self) -> str:
        return f"attr({self._name!r})"

    def _compare(self, operator: Operator, value: Any, ignore_case: bool = False) -> Condition:
        if isinstance(value, NamedAttribute):
            return _checked(Atom(self._name, operator, ignore_case=ignore_case, other=value._name))
        return self._test(operator, value, ignore_case)


any_attribute = AnyAttribute()


def attr(name: str) -> NamedAttribute:
    """Return the attribute `name`, to make conditions with.

    Raises
    ------
    ExpressionError
        The first condition made with a name that is empty or no text raises it.
    """
    return NamedAttribute(name)


def to_expression(obj: Any, limits: Limits = DEFAULT_LIMITS) -> Expression:
    """Return the well-formed tree of a condition, a tree, a JSON object or a text.

    Raises
    ------
    ExpressionError
        None of these, or not well formed.
    LimitError
        Too many nodes, nested too deep, or a name or string too long.
    """
    if isinstance(obj, Condition):
        obj = obj.expression
    if isinstance(obj, And | Or | Not | Atom):
        check_tree(obj, limits)
        return obj
    if not isinstance(obj, str | dict):
        raise ExpressionError(
            "not an expression",
            seen=obj,
            limit="a condition made with `attr`, a tree, a JSON object or a text",
        )
    return expression_from_any(obj, limits)


def _checked(atom: Atom) -> Condition:
    check_atom(atom)
    return Condition(atom)


def _operands(condition: Condition, connective: type[And] | type[Or]) -> tuple[Expression, ...]:
    expression = condition.expression
    return expression.children if isinstance(expression, connective) else (expression,)


def _constants(values: Iterable[Any]) -> tuple[Constant, ...]:
    if isinstance(values, str | bytes):
        raise ExpressionError(
            "a list of values is needed, not one text", seen=values, remedy="Put it in a list."
        )
    return tuple([_constant(value) for value in values])


def _constant(value: Any) -> Any:
    """Return a constant as the tree has it; `check_atom` refuses what is none."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ExpressionError(
                "a datetime without an offset is no instant",
                seen=value,
                remedy="Give it a tzinfo, such as UTC.",
            )
        return value.isoformat()
    return value.item() if isinstance(value, np.generic) else value
