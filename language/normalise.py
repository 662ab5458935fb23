"""From an expression to its normal form: literals over canonical predicates, as clauses or as a program.

Negations are pushed down to the predicates by De Morgan's laws, which are exact here because truth has two
values: a predicate on a missing attribute is false, so its negation is true. A negated predicate stays a
negated literal; it is never rewritten to the opposite operator, which would be false on a missing attribute.

On the way up constants are folded, nested connectives of one sort are merged, repeats dropped, and a
predicate beside its own negation decides its connective. Different predicates of one attribute are left
alone: with several values each may be true by another value. Only where the schema declares an attribute
unique are the ranges of a clause intersected.

Clauses are counted before they are made (sums of products), so that an expression whose disjunctive form
would be large costs no more than its own size; beyond the limit it becomes a postfix program.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from pubsub_cluster.language.canonical import canonical_literal, intersection
from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.expression import And, Atom, Expression, Not, Or
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.wellformed import check_depth


class _Group(NamedTuple):
    """A connective over two or more different operands, none of them a constant or of the same connective."""

    is_and: bool
    operands: tuple[Node, ...]


# A literal is an int >= 0 as in `NormalForm`; the constants are the two ints that are no literal.
Node: TypeAlias = "int | _Group"
TRUE_NODE: Final = -1
FALSE_NODE: Final = -2

_Clauses: TypeAlias = tuple[tuple[int, ...], ...]


def normalise(
    expression: Expression, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS
) -> NormalForm:
    """Return the normal form of a well-formed expression.

    Parameters
    ----------
    expression : Expression
        As the forms give it; `pubsub_cluster.language.wellformed.check_tree` checks one made by hand.
    schema : Schema
    limits : Limits
        `clauses_max` and `nesting_depth_max` apply.

    Returns
    -------
    NormalForm
        Equivalent to the expression on every event that the schema accepts.

    Raises
    ------
    DomainError
        A constant or an operator does not suit an attribute's declared domain.
    ExpressionError
        A pattern does not compile, a network does not parse, a boolean is compared by order.
    LimitError
        Nested too deep.
    """
    predicates = Predicates(schema, limits)
    return predicates.normal_form(predicates.node(expression, False, 0))


def never(form: NormalForm) -> bool:
    """Whether no event of the schema can match: the normal form has been folded to nothing."""
    return form.clauses == ()


class Predicates:
    """The distinct predicates of one expression, and the walk that finds them."""

    __slots__ = ("found", "limits", "schema")

    def __init__(self, schema: Schema, limits: Limits) -> None:
        self.schema = schema
        self.limits = limits
        self.found: dict[Predicate, int] = {}

    def node(self, expression: Expression, negated: bool, depth: int) -> Node:
        """Return an expression, or its negation, folded, with negations at the predicates only."""
        if type(expression) is Atom:
            literal = canonical_literal(expression, self.schema)
            if literal is None:
                return TRUE_NODE if negated else FALSE_NODE
            predicate, predicate_negated = literal
            return 2 * self.found.setdefault(predicate, len(self.found)) + (predicate_negated is not negated)
        depth += 1
        check_depth(depth, self.limits)
        if type(expression) is Not:
            return self.node(expression.child, not negated, depth)
        if type(expression) is not And and type(expression) is not Or:
            raise ExpressionError("an expression is made of And, Or, Not and Atom", seen=expression)
        is_and = (type(expression) is And) is not negated
        return joined(is_and, [self.node(child, negated, depth) for child in expression.children])

    def normal_form(self, root: Node) -> NormalForm:
        """Return the normal form of an expression whose walk gave `root`."""
        if isinstance(root, int) or (root.is_and and all(type(operand) is int for operand in root.operands)):
            clauses = _clauses(root)
        elif _fits_clauses(root, self.limits):
            clauses = tuple(
                dict.fromkeys(clause for clause in _clauses(root) if not _is_contradiction(clause))
            )
        else:
            return _compact(self.found, None, tuple(_postfix(root)))
        if self.schema.has_unique:
            clauses = self.narrowed(clauses)
        return _compact(self.found, clauses, ())

    def narrowed(self, clauses: _Clauses) -> _Clauses:
        """Intersect, clause by clause, the ranges of unique attributes; drop clauses that become empty."""
        by_id = list(self.found)
        kept: dict[tuple[int, ...], None] = {}
        for clause in clauses:
            ranges: dict[str, Predicate] = {}
            literals: set[int] = set()
            for literal in clause:
                predicate = by_id[literal >> 1]
                if literal & 1 or predicate.kind is not PredicateKind.RANGE or not self.is_unique(predicate):
                    literals.add(literal)
                    continue
                name = str(predicate.attribute)
                narrower = intersection(ranges[name], predicate) if name in ranges else predicate
                if narrower is None:
                    break
                ranges[name] = narrower
            else:
                literals.update(2 * self.found.setdefault(one, len(self.found)) for one in ranges.values())
                narrow = tuple(sorted(literals))
                if not _is_contradiction(narrow):
                    kept[narrow] = None
        return tuple(kept)

    def is_unique(self, predicate: Predicate) -> bool:
        """Whether an event has at most one value for the predicate's attribute."""
        declared = self.schema.get(predicate.attribute) if predicate.attribute is not None else None
        return declared is not None and declared.unique


def joined(is_and: bool, children: Iterable[Node]) -> Node:
    """Return a connective over `children`, folded."""
    neutral, absorbing = (TRUE_NODE, FALSE_NODE) if is_and else (FALSE_NODE, TRUE_NODE)
    operands: dict[Node, None] = {}
    for child in children:
        if type(child) is _Group:
            for operand in child.operands if child.is_and is is_and else (child,):
                operands[operand] = None
        elif child == absorbing:
            return absorbing
        elif child != neutral:
            operands[child] = None
    for operand in operands:
        if type(operand) is int and operand ^ 1 in operands:
            return absorbing
    if len(operands) >= 2:
        return _Group(is_and, tuple(operands))
    return next(iter(operands), neutral)


def _fits_clauses(root: Node, limits: Limits) -> bool:
    """Whether multiplying out gives few clauses, with no more literals than an expression may have nodes."""
    clause_count, literal_count = _product_size(root, limits.clauses_max)
    return clause_count <= limits.clauses_max and literal_count <= limits.nodes_per_subscription_max


def _product_size(node: Node, clauses_max: int) -> tuple[int, int]:
    """Numbers of clauses and literals that multiplying out would give; exact up to `clauses_max` clauses."""
    if isinstance(node, int):
        return 1, 1
    clause_count, literal_count = (1, 0) if node.is_and else (0, 0)
    for operand in node.operands:
        clauses, literals = _product_size(operand, clauses_max)
        if node.is_and:
            literal_count = literal_count * clauses + literals * clause_count
            clause_count *= clauses
        else:
            literal_count += literals
            clause_count += clauses
        if clause_count > clauses_max:
            break
    return clause_count, literal_count


def _clauses(node: Node) -> _Clauses:
    """Multiply out; the clauses may repeat and contradict themselves."""
    if isinstance(node, int):
        return () if node == FALSE_NODE else ((),) if node == TRUE_NODE else ((node,),)
    if not node.is_and:
        return tuple(clause for operand in node.operands for clause in _clauses(operand))
    common = {operand for operand in node.operands if isinstance(operand, int)}
    product = [common]
    for operand in node.operands:
        if not isinstance(operand, int):
            product = [left.union(right) for left in product for right in _clauses(operand)]
    return tuple(tuple(sorted(clause)) for clause in product)


def _is_contradiction(clause: tuple[int, ...]) -> bool:
    # Sorted, so a predicate and its negation are neighbours.
    return any(left ^ 1 == right for left, right in pairwise(clause))


def _postfix(node: Node) -> list[int]:
    if isinstance(node, int):
        return [node]
    code = [step for operand in node.operands for step in _postfix(operand)]
    code.append(-2 * len(node.operands) - (0 if node.is_and else 1))
    return code


def _compact(found: dict[Predicate, int], clauses: _Clauses | None, program: tuple[int, ...]) -> NormalForm:
    """Number the predicates that are still in use, in order of first use in the expression."""
    used = {literal >> 1 for clause in clauses or () for literal in clause}
    used.update(step >> 1 for step in program if step >= 0)
    if len(used) == len(found):
        return NormalForm(tuple(found), clauses, program)
    number = {old: new for new, old in enumerate(sorted(used))}
    predicates = tuple(predicate for predicate, old in found.items() if old in used)

    def renumbered(literal: int) -> int:
        return 2 * number[literal >> 1] + (literal & 1)

    if clauses is not None:
        clauses = tuple(tuple([renumbered(literal) for literal in clause]) for clause in clauses)
    program = tuple(step if step < 0 else renumbered(step) for step in program)
    return NormalForm(predicates, clauses, program)
