"""The JSON form of expressions: `tests/vectors/FORMAT.md`, read strictly.

Shapes::

    {"and": [...]}   {"or": [...]}   {"not": x}
    {"attr": "a", "op": "exists"}
    {"attr": "a", "op": "<", "value": 5}
    {"attr": "a", "op": "in", "value": ["x", 2]}
    {"attr": "a", "op": "between", "lo": 1, "hi": 2, "hi_open": true}
    {"attr": "a", "op": "<", "value": {"$attr": "b"}}                    two attributes of the event
    {"any": true, "op": "contains", "value": "x", "ignore_case": true}   some attribute

A constant may be tagged where JSON cannot carry it, or carries it at a risk: ``{"$float": "-Infinity"}``,
``{"$int": "9007199254740993"}``, ``{"$str": [["ab", 3]]}`` (repeated pieces), and in place of a list
``{"$seq": {"from": 0, "count": 3, "step": 2}}``. Writing uses `$float` for infinities and no other tag.

The reader is on the path of every subscription: the usual atom (attribute, operator, one plain constant) is
recognised by a few dictionary look-ups; everything else takes the slow path, which has all the explanations.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.expression import (
    COMPARISONS,
    And,
    Atom,
    Constant,
    Expression,
    Not,
    Operator,
    Or,
)
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits, check_limit
from pubsub_cluster.language.text_hints import json_operator_hint
from pubsub_cluster.language.wellformed import (
    WITH_LIST,
    WITH_TEXT,
    WITHOUT_CONSTANT,
    check_atom,
    check_depth,
    check_node_count,
    checked_constant,
    list_node_count,
)

_OPERATORS: Final = {operator.value: operator for operator in Operator}
_COMPARISONS: Final = {operator.value: operator for operator in COMPARISONS}
# Operators that take one constant, by the constant's type: the fast path's whole knowledge.
_PLAIN_OPERATORS: Final[dict[type, dict[str, Operator]]] = {
    str: {operator.value: operator for operator in COMPARISONS | WITH_TEXT},
    int: _COMPARISONS,
    float: _COMPARISONS,
    bool: {"=": Operator.EQ, "!=": Operator.NE},
}
_NO_OPERATORS: Final[dict[str, Operator]] = {}
_ATTRIBUTE_KEYS: Final = frozenset({"attr", "any", "op"})
_RANGE_KEYS: Final = _ATTRIBUTE_KEYS | {"lo", "hi", "lo_open", "hi_open"}
_VALUE_KEYS: Final = _ATTRIBUTE_KEYS | {"value", "ignore_case"}
_SEQUENCE_KEYS: Final = {"from", "count", "step"}
_FLOAT_TEXT: Final = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity|NaN)")
_INT_TEXT: Final = re.compile(r"-?[0-9]{1,20}")
_FLOAT_TEXT_SIZE_MAX: Final = 1_000


def expression_from_json(obj: Any, limits: Limits = DEFAULT_LIMITS) -> Expression:
    """Read the JSON form, given as Python objects.

    Parameters
    ----------
    obj : dict
        As a JSON decoder gives it; the decoder must keep integers exact.
    limits : Limits

    Returns
    -------
    Expression
        A well-formed tree (`pubsub_cluster.language.wellformed`).

    Raises
    ------
    ExpressionError
        Not of this form; the error names what was seen.
    LimitError
        Too many nodes, nested too deep, or a name or string too long.
    """
    return _Reader(limits).node(obj, 0)


def expression_from_any(obj: Any, limits: Limits = DEFAULT_LIMITS) -> Expression:
    """Read an expression given as text (`pubsub_cluster.language.text_form`) or in the JSON form."""
    if isinstance(obj, str):
        from pubsub_cluster.language.text_form import parse_text

        return parse_text(obj, limits=limits)
    return expression_from_json(obj, limits)


def expression_to_json(expression: Expression) -> dict[str, Any]:
    """Return the JSON form; members that have their default are left out."""
    if isinstance(expression, Atom):
        return _atom_to_json(expression)
    if isinstance(expression, Not):
        return {"not": expression_to_json(expression.child)}
    connective = "and" if isinstance(expression, And) else "or"
    return {connective: [expression_to_json(child) for child in expression.children]}


class _Reader:
    """One reading of one expression; counts its nodes."""

    __slots__ = ("limits", "name_size_max", "node_count", "string_size_max")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.name_size_max = limits.name_size_bytes_max
        self.string_size_max = limits.string_size_bytes_max
        self.node_count = 1

    def node(self, obj: Any, depth: int) -> Expression:
        """Read one node below `depth` connectives; its parent has counted it."""
        if type(obj) is not dict:
            raise ExpressionError("an expression is not an object", seen=obj, remedy=_SHAPES)
        if "op" in obj:
            return self.plain_atom(obj) or self.atom(obj)
        if len(obj) != 1:
            raise ExpressionError(
                "an object is neither a connective nor a predicate", seen=obj, remedy=_SHAPES
            )
        ((connective, body),) = obj.items()
        depth += 1
        check_depth(depth, self.limits)
        if connective == "not":
            self.count(1)
            return Not(self.node(body, depth))
        if connective != "and" and connective != "or":
            raise ExpressionError(
                "unknown connective", seen=connective, limit=["and", "or", "not"], remedy=_SHAPES
            )
        if type(body) is not list:
            raise ExpressionError(f"`{connective}` takes a list of expressions", seen=body)
        self.count(len(body))
        children = tuple([self.node(child, depth) for child in body])
        return And(children) if connective == "and" else Or(children)

    def plain_atom(self, obj: dict[str, Any]) -> Atom | None:
        """Read an atom of attribute, operator and one plain constant, or return None: the hot path."""
        value: Any = obj.get("value")
        operator_text = obj["op"]
        name = obj.get("attr")
        if len(obj) != 3 or type(operator_text) is not str or type(name) is not str:
            return None
        kind = type(value)
        operator = _PLAIN_OPERATORS.get(kind, _NO_OPERATORS).get(operator_text)
        if operator is None or not name or not name.isascii() or len(name) > self.name_size_max:
            return None
        if kind is int:
            fits = INT64_MIN <= value <= INT64_MAX
        elif kind is str:
            fits = value.isascii() and len(value) <= self.string_size_max
        else:
            fits = value == value
        return Atom(name, operator, value) if fits else None

    def atom(self, obj: dict[str, Any]) -> Atom:
        """Read any atom, with all explanations."""
        operator = _operator(obj["op"])
        attribute = self.attribute(obj, operator)
        if operator in WITHOUT_CONSTANT:
            _check_keys(obj, _ATTRIBUTE_KEYS, operator)
            atom = Atom(attribute, operator)
        elif operator is Operator.BETWEEN:
            _check_keys(obj, _RANGE_KEYS, operator)
            atom = Atom(
                attribute,
                operator,
                lo=self.constant(_required(obj, "lo", operator)),
                hi=self.constant(_required(obj, "hi", operator)),
                lo_open=_flag(obj, "lo_open"),
                hi_open=_flag(obj, "hi_open"),
            )
        else:
            _check_keys(obj, _VALUE_KEYS, operator)
            value = _required(obj, "value", operator)
            ignore_case = _flag(obj, "ignore_case")
            if type(value) is dict and "$attr" in value:
                other = _untagged(value)
                if other is None:
                    raise ExpressionError("`$attr` needs the name of an attribute", seen=value)
                atom = Atom(attribute, operator, ignore_case=ignore_case, other=other)
            elif operator in WITH_LIST:
                atom = Atom(attribute, operator, self.members(value, operator), ignore_case=ignore_case)
            else:
                atom = Atom(attribute, operator, self.constant(value), ignore_case=ignore_case)
        check_atom(atom, self.limits)
        return atom

    def attribute(self, obj: dict[str, Any], operator: Operator) -> str | None:
        """Read the attribute's name; None is any attribute."""
        name = obj.get("attr")
        is_any = _flag(obj, "any")
        if name is None:
            if not is_any:
                raise ExpressionError(
                    f"`{operator}` has no attribute",
                    seen=obj,
                    remedy='Give "attr": a name; for text operators "any": true means any attribute.',
                )
            return None
        if is_any:
            raise ExpressionError("an atom has both `attr` and `any`", seen=obj, remedy="Leave one out.")
        return name  # type: ignore[no-any-return]  # `check_atom` checks it

    def members(self, value: Any, operator: Operator) -> tuple[Constant, ...]:
        """Read the list of ``in`` and ``not in``."""
        if type(value) is dict and "$seq" in value:
            value = self.sequence(_untagged(value))
        elif type(value) is not list:
            raise ExpressionError(f"`{operator}` takes a list", seen=value)
        self.count(list_node_count(len(value)) - 1)
        return tuple([self.constant(member) for member in value])

    def sequence(self, body: Any) -> list[int]:
        """Read the body of `$seq`; its size is checked before any member exists."""
        if (
            type(body) is not dict
            or body.keys() != _SEQUENCE_KEYS
            or {type(n) for n in body.values()} != {int}
        ):
            raise ExpressionError("`$seq` needs integers `from`, `count` and `step`", seen=body)
        first, count, step = body["from"], body["count"], body["step"]
        if count < 0:
            raise ExpressionError("the count of a `$seq` is negative", seen=body)
        check_node_count(self.node_count + list_node_count(count) - 1, self.limits)
        return [first + step * idx for idx in range(count)]

    def constant(self, value: Any) -> Constant:
        """Read one constant, tagged or plain."""
        if type(value) is not dict:
            return checked_constant(value, self.limits)
        body = _untagged(value)
        if "$int" in value and type(body) is str and _INT_TEXT.fullmatch(body):
            return checked_constant(int(body), self.limits)
        if (
            "$float" in value
            and type(body) is str
            and len(body) <= _FLOAT_TEXT_SIZE_MAX
            and _FLOAT_TEXT.fullmatch(body)
        ):
            number = float(body)
            if math.isinf(number) and not body.endswith("Infinity"):
                raise ExpressionError(
                    "a number is too large for a float", seen=body, remedy="Write Infinity if you mean it."
                )
            return checked_constant(number, self.limits)
        if "$str" in value and type(body) is list:
            return checked_constant(self.pieces(body), self.limits)
        raise ExpressionError(
            "an object is not a constant",
            seen=value,
            limit=["$int", "$float", "$str", "$seq (in a list's place)", "$attr"],
        )

    def pieces(self, pieces: list[Any]) -> str:
        """Join the pieces of `$str`; the size is checked before the text is made."""
        size = 0
        for piece in pieces:
            if type(piece) is not list or [type(part) for part in piece] != [str, int] or piece[1] < 0:
                raise ExpressionError("a piece of `$str` is not a list of a text and a count", seen=piece)
            size += len(piece[0]) * piece[1]
        check_limit(
            "string_size_bytes_max", size, self.string_size_max, "characters of `$str`", "Shorten the string."
        )
        return "".join([text * count for text, count in pieces])

    def count(self, node_count: int) -> None:
        """Count nodes that are about to be read."""
        self.node_count += node_count
        if self.node_count > self.limits.nodes_per_subscription_max:
            check_node_count(self.node_count, self.limits)


_SHAPES: Final = (
    'Shapes: {"and": [...]}, {"or": [...]}, {"not": x}, {"attr": name, "op": operator, "value": constant}.'
)


def _operator(text: Any) -> Operator:
    operator = _OPERATORS.get(text) if type(text) is str else None
    if operator is None:
        raise ExpressionError(
            "unknown operator",
            seen=text,
            limit=list(_OPERATORS),
            remedy=json_operator_hint(text),
        )
    return operator


def _required(obj: dict[str, Any], key: str, operator: Operator) -> Any:
    if key not in obj:
        raise ExpressionError(f"`{operator}` needs `{key}`", seen=obj)
    return obj[key]


def _flag(obj: dict[str, Any], key: str) -> bool:
    value = obj.get(key, False)
    if type(value) is not bool:
        raise ExpressionError(f"`{key}` is neither true nor false", seen=value)
    return value


def _check_keys(obj: dict[str, Any], allowed: frozenset[str], operator: Operator) -> None:
    unknown = sorted(str(key) for key in obj.keys() - allowed)
    if unknown:
        raise ExpressionError(
            f"a predicate with `{operator}` has unknown members", seen=unknown, limit=sorted(allowed)
        )


def _untagged(value: dict[str, Any]) -> Any:
    if len(value) != 1:
        raise ExpressionError("a tagged constant has exactly one member", seen=value)
    return next(iter(value.values()))


def _atom_to_json(atom: Atom) -> dict[str, Any]:
    obj: dict[str, Any] = {"any": True} if atom.attribute is None else {"attr": atom.attribute}
    obj["op"] = atom.operator.value
    if atom.other is not None:
        obj["value"] = {"$attr": atom.other}
    elif isinstance(atom.value, tuple):
        obj["value"] = [_constant_to_json(member) for member in atom.value]
    elif atom.value is not None:
        obj["value"] = _constant_to_json(atom.value)
    if atom.operator is Operator.BETWEEN:
        obj.update(lo=_constant_to_json(atom.lo), hi=_constant_to_json(atom.hi))
    obj.update({flag: True for flag in ("lo_open", "hi_open", "ignore_case") if getattr(atom, flag)})
    return obj


def _constant_to_json(constant: Constant | None) -> Any:
    if isinstance(constant, float) and math.isinf(constant):
        return {"$float": "Infinity" if constant > 0 else "-Infinity"}
    return constant
