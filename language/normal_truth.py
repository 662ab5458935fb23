"""What a normal form means, in plain Python: the oracle for everything that makes, stores or matches them.

Kernels, layouts and the delta are judged by it, in tests and by a running cluster (`tuner.self_check`), so it
shares nothing with them but the text operators.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.text_match import compile_text
from pubsub_cluster.language.values import fold

_COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Values = Mapping[str, tuple[Any, ...]]


def typed(value: Any) -> tuple[ValueKind, Any]:
    """Return kind and constant of a canonical event value."""
    if isinstance(value, bool):
        return ValueKind.BOOLEAN, value
    if isinstance(value, str):
        return ValueKind.TEXT, value.encode()
    return ValueKind.NUMBER, value


def predicate_holds(predicate: Predicate, values: Values) -> bool:
    """Return whether some value satisfies a predicate; `values` as `flatten_event` gives them."""
    if predicate.kind is PredicateKind.COMPARE:
        compare = _COMPARE[predicate.text_operator]
        sides = [values.get(str(name), ()) for name in (predicate.attribute, predicate.other)]
        if predicate.ignore_case:
            sides = [tuple(fold(one) if isinstance(one, str) else one for one in side) for side in sides]
        return any(
            compare(left, right)
            for left_kind, left in map(typed, sides[0])
            for right_kind, right in map(typed, sides[1])
            if left_kind is right_kind
            and (left_kind is not ValueKind.BOOLEAN or predicate.text_operator in ("=", "!="))
        )
    return any(_value_holds(predicate, value) for value in _candidates(predicate, values))


def form_holds(form: NormalForm, values: Values) -> bool:
    """Return whether an event satisfies a normal form; `values` as `flatten_event` gives them."""
    truth = [predicate_holds(predicate, values) for predicate in form.predicates]
    if form.clauses is not None:
        return any(all(truth[i >> 1] != bool(i & 1) for i in clause) for clause in form.clauses)
    stack: list[bool] = []
    for step in form.program:
        if step >= 0:
            stack.append(truth[step >> 1] != bool(step & 1))
            continue
        count, is_or = divmod(-step, 2)
        operands = stack[-count:]
        del stack[-count:]
        stack.append(any(operands) if is_or else all(operands))
    (result,) = stack
    return result


def _candidates(predicate: Predicate, values: Values) -> Iterator[Any]:
    if predicate.attribute is None:
        return (value for entry in values.values() for value in entry)
    return iter(values.get(predicate.attribute, ()))


def _value_holds(predicate: Predicate, value: Any) -> bool:
    kind, constant = typed(value)
    if predicate.kind is PredicateKind.EXISTS:
        return True
    if predicate.kind is PredicateKind.SET:
        return (kind, constant) in predicate.constants
    if predicate.kind is PredicateKind.TEXT:
        return kind is ValueKind.TEXT and compile_text(predicate)(value)
    if kind is not predicate.value_kind:
        return False
    if predicate.kind is PredicateKind.EXCEPT:
        return (kind, constant) not in predicate.constants
    lo, hi = predicate.lo, predicate.hi
    above = lo is None or (constant > lo if predicate.lo_open else constant >= lo)
    below = hi is None or (constant < hi if predicate.hi_open else constant <= hi)
    return above and below
