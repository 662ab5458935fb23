"""What makes an expression tree well formed, without regard to a schema.

The JSON, text and Python forms all build their atoms through these checks, so that one mistake has one
answer: the right constants for each operator, 64-bit integers, no NaN, valid Unicode, real names, and the
limits on nodes, nesting and string sizes. `pubsub_cluster.language.normalise` relies on them.
"""

from __future__ import annotations

from typing import Any, Final

from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.expression import (
    COMPARISONS,
    IGNORE_CASE_OPERATORS,
    TEXT_OPERATORS,
    And,
    Atom,
    Constant,
    Expression,
    Not,
    Operator,
    Or,
)
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits, check_limit
from pubsub_cluster.language.values import check_name, utf8_size_bytes

WITHOUT_CONSTANT: Final = frozenset({Operator.EXISTS, Operator.NOT_EXISTS})
WITH_LIST: Final = frozenset({Operator.IN, Operator.NOT_IN})
WITH_TEXT: Final = TEXT_OPERATORS | {Operator.UNDER}
WITH_ORDER: Final = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.BETWEEN})


def checked_constant(value: Any, limits: Limits = DEFAULT_LIMITS) -> Constant:
    """Return `value` if it can be a constant.

    Raises
    ------
    ExpressionError
        Null, NaN, an integer outside 64 bits, a lone surrogate, or of a type that no value has.
    LimitError
        A string longer than `limits.string_size_bytes_max`.
    """
    kind = type(value)
    if kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int:
        if INT64_MIN <= value <= INT64_MAX:
            return value  # type: ignore[no-any-return]
        raise ExpressionError(
            "an integer constant does not fit 64 bits", seen=value, limit=f"{INT64_MIN} to {INT64_MAX}"
        )
    if kind is float:
        if value == value:
            return value  # type: ignore[no-any-return]
        raise ExpressionError("NaN is not a constant", remedy="Nothing compares with NaN; use `exists`.")
    if kind is str:
        size_bytes = utf8_size_bytes(value)
        if size_bytes < 0:
            raise ExpressionError(
                "a string constant is not valid Unicode",
                seen=value,
                limit="no lone surrogates",
                remedy="Send UTF-8.",
            )
        check_limit(
            "string_size_bytes_max",
            size_bytes,
            limits.string_size_bytes_max,
            "UTF-8 bytes of a string constant",
            "Shorten the string.",
        )
        return value  # type: ignore[no-any-return]
    if value is None:
        raise ExpressionError("null is not a constant", remedy="Use `exists` or `not exists`.")
    raise ExpressionError(
        "a constant is of no kind that values have", seen=value, limit="string, number or boolean"
    )


def check_atom(atom: Atom, limits: Limits = DEFAULT_LIMITS) -> None:
    """Check one predicate.

    Raises
    ------
    ExpressionError
        Its operator does not take these constants, this attribute, or `ignore_case`.
    LimitError
        A name or a string is too long.
    """
    operator = atom.operator
    if type(operator) is not Operator:
        raise ExpressionError("an atom's operator is not an `Operator`", seen=operator)
    if atom.attribute is not None:
        check_name(atom.attribute, limits=limits)
    elif operator not in TEXT_OPERATORS:
        raise ExpressionError(
            f"`{operator}` needs the name of an attribute",
            limit=f"any attribute: {', '.join(sorted(TEXT_OPERATORS))}",
            remedy="Name the attribute; for a whole text in any attribute use `like` without wildcards.",
        )
    if atom.other is not None:
        _check_comparison_of_attributes(atom, limits)
        return
    constants = _constants(atom)
    for constant in constants:
        checked_constant(constant, limits)
        if operator in WITH_TEXT and type(constant) is not str:
            raise ExpressionError(f"`{operator}` takes a string", seen=constant)
        if operator in WITH_ORDER and type(constant) is bool:
            raise ExpressionError(f"booleans have no order, so `{operator}` takes none", seen=constant)
    if atom.ignore_case:
        if operator not in IGNORE_CASE_OPERATORS:
            raise ExpressionError(f"`{operator}` cannot ignore case", limit=sorted(IGNORE_CASE_OPERATORS))
        for constant in constants:
            if type(constant) is not str:
                raise ExpressionError("only strings have a case to ignore", seen=constant)


def check_tree(expression: Expression, limits: Limits = DEFAULT_LIMITS) -> None:
    """Check a whole tree: its atoms, its number of nodes, its nesting.

    Raises
    ------
    ExpressionError
        Something in the tree is no node, or an atom is not well formed.
    LimitError
        Too many nodes, nested too deep, or a name or string too long.
    """
    node_count = 0
    pending: list[tuple[Any, int]] = [(expression, 0)]
    while pending:
        node, depth = pending.pop()
        node_count += 1
        if isinstance(node, Atom):
            check_atom(node, limits)
            if isinstance(node.value, tuple):
                node_count += list_node_count(len(node.value)) - 1
        elif isinstance(node, And | Or | Not):
            children = (node.child,) if isinstance(node, Not) else node.children
            check_depth(depth + 1, limits)
            pending.extend((child, depth + 1) for child in children)
        else:
            raise ExpressionError("an expression is made of And, Or, Not and Atom", seen=node)
        if node_count + len(pending) > limits.nodes_per_subscription_max:
            check_node_count(node_count + len(pending), limits)


def list_node_count(member_count: int) -> int:
    """Return for how many nodes a predicate with a list counts: for its members, and for one at least."""
    return max(1, member_count)


def check_node_count(node_count: int, limits: Limits) -> None:
    """Raise `LimitError` for more than `limits.nodes_per_subscription_max` nodes (list members count)."""
    check_limit(
        "nodes_per_subscription_max",
        node_count,
        limits.nodes_per_subscription_max,
        "connectives, predicates and list members of one subscription",
        "Split it into several subscriptions.",
    )


def check_depth(depth: int, limits: Limits) -> None:
    """Raise `LimitError` for more than `limits.nesting_depth_max` levels of connectives."""
    check_limit(
        "nesting_depth_max",
        depth,
        limits.nesting_depth_max,
        "levels of nested connectives",
        "Flatten the expression: `and` and `or` take any number of operands.",
    )


def _check_comparison_of_attributes(atom: Atom, limits: Limits) -> None:
    if atom.operator not in COMPARISONS:
        raise ExpressionError(f"`{atom.operator}` cannot compare two attributes", limit=sorted(COMPARISONS))
    if (atom.value, atom.lo, atom.hi) != (None, None, None):
        raise ExpressionError("a comparison of two attributes takes no constant", seen=atom.value)
    if atom.ignore_case and atom.operator not in IGNORE_CASE_OPERATORS:
        raise ExpressionError(f"`{atom.operator}` of two attributes cannot ignore case", limit=["=", "!="])
    check_name(atom.other, limits=limits)


def _constants(atom: Atom) -> tuple[Any, ...]:
    """Constants of an atom, after checking that it has those and only those that its operator takes."""
    operator = atom.operator
    is_range = operator is Operator.BETWEEN
    if not is_range and (atom.lo is not None or atom.hi is not None or atom.lo_open or atom.hi_open):
        raise ExpressionError(f"`{operator}` takes no ends `lo` and `hi`", seen=[atom.lo, atom.hi])
    if is_range or operator in WITHOUT_CONSTANT:
        if atom.value is not None:
            raise ExpressionError(f"`{operator}` takes no `value`", seen=atom.value)
        return (atom.lo, atom.hi) if is_range else ()
    if operator in WITH_LIST:
        if not isinstance(atom.value, tuple):
            raise ExpressionError(f"`{operator}` takes a list", seen=atom.value)
        return atom.value
    return (atom.value,)
