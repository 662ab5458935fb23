"""A normal form as an expression again, over canonical values and without a schema.

Domains are gone in a normal form: instants, ranks and nodes of trees are numbers. The expression says the
same of canonical values (`RawBatch`) as the form does, so that whoever takes expressions, a matcher of the
papers say, can be given what a catalogue keeps.
"""

from __future__ import annotations

import math
from typing import Any

from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator, Or
from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind, ValueKind


def expression_of(form: NormalForm) -> Expression:
    """Return an expression with the meaning of a normal form, for the empty schema."""

    def literal(code: int) -> Expression:
        predicate = form.predicates[code >> 1]
        if code & 1 and predicate.kind is PredicateKind.EXISTS:
            return Atom(predicate.attribute, Operator.NOT_EXISTS)
        atom = _expression_of_predicate(predicate)
        return Not(atom) if code & 1 else atom

    if form.clauses is not None:
        clauses = tuple(_all([literal(code) for code in clause]) for clause in form.clauses)
        return clauses[0] if len(clauses) == 1 else Or(clauses)
    stack: list[Expression] = []
    for code in form.program:
        if code >= 0:
            stack.append(literal(code))
            continue
        count, is_or = divmod(-code, 2)
        operands = tuple(stack[-count:])
        del stack[-count:]
        stack.append(Or(operands) if is_or else And(operands))
    return stack[0]


def _all(children: list[Expression]) -> Expression:
    return children[0] if len(children) == 1 else And(tuple(children))


def _expression_of_predicate(predicate: Predicate) -> Expression:
    name = predicate.attribute
    match predicate.kind:
        case PredicateKind.EXISTS:
            return Atom(name, Operator.EXISTS)
        case PredicateKind.SET:
            return Atom(name, Operator.IN, _members(predicate))
        case PredicateKind.EXCEPT:
            if predicate.constants:
                return Atom(name, Operator.NOT_IN, _members(predicate))
            if predicate.value_kind is ValueKind.BOOLEAN:
                return Atom(name, Operator.IN, (False, True))
            return _range(predicate)
        case PredicateKind.RANGE:
            return _range(predicate)
        case PredicateKind.COMPARE:
            operator = Operator(predicate.text_operator)
            return Atom(name, operator, ignore_case=predicate.ignore_case, other=predicate.other)
        case PredicateKind.TEXT:
            operator, members = Operator(predicate.text_operator), _members(predicate)
            value = members if operator in (Operator.IN, Operator.NOT_IN) else members[0]
            return Atom(name, operator, value, ignore_case=predicate.ignore_case)


def _range(predicate: Predicate) -> Expression:
    name, lo, hi = predicate.attribute, _plain(predicate.lo), _plain(predicate.hi)
    if lo is not None and lo == hi:
        return Atom(name, Operator.EQ, lo)  # booleans too, which have no order
    if lo is not None and hi is not None:
        lo_open, hi_open = predicate.lo_open, predicate.hi_open
        return Atom(name, Operator.BETWEEN, lo=lo, hi=hi, lo_open=lo_open, hi_open=hi_open)
    if hi is not None:
        return Atom(name, Operator.LT if predicate.hi_open else Operator.LE, hi)
    if lo is not None:
        return Atom(name, Operator.GT if predicate.lo_open else Operator.GE, lo)
    return Atom(name, Operator.GE, "" if predicate.value_kind is ValueKind.TEXT else -math.inf)


def _members(predicate: Predicate) -> tuple[Any, ...]:
    return tuple(_plain(constant) for _, constant in predicate.constants)


def _plain(constant: Any) -> Any:
    return constant.decode() if isinstance(constant, bytes) else constant
