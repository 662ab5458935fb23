"""Why an expression holds on an event, or does not: the truth of every node, and what was seen there.

The truth of a predicate is that of the naive matcher, so an explanation is independent of the engine that
it may be asked about. *Misses* is the least number of predicates that would have to come out otherwise for
the whole to hold: 0 when it holds, and the measure by which `nearest` ranks. A predicate that occurs twice
counts twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pubsub_cluster.language.expression import And, Atom, Expression, Not
from pubsub_cluster.language.naive import Values, holds
from pubsub_cluster.language.raw_batch import Value
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.text_form import format_text

VALUE_LENGTH_MAX = 100
TAIL_LENGTH = 40
CHILDREN_SHOWN_MAX = 12
HOLDS, FAILS = "+", "-"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Explained:
    """A node of an expression with its truth on one event.

    Attributes
    ----------
    expression : Expression
    holds : bool
    misses : int
        Least number of predicates to change until it holds; 0 when it does.
    excess : int
        Least number of predicates to change until it does not hold; 0 when it does not.
    seen : dict of str to tuple of Value
        Of a predicate: the event's values of the attributes it names; an attribute that is missing has none.
    children : tuple of Explained
    """

    expression: Expression
    holds: bool
    misses: int
    excess: int
    seen: Mapping[str, tuple[Value, ...]]
    children: tuple[Explained, ...] = ()


def explain(expression: Expression, values: Values, schema: Schema = EMPTY_SCHEMA) -> Explained:
    """Return the truth of every node of an expression on the canonical values of one event.

    Raises
    ------
    DomainError, ExpressionError
        As `pubsub_cluster.language.naive.compile_expression`.
    """
    if isinstance(expression, Atom):
        truth = holds(expression, values, schema)
        names = [name for name in (expression.attribute, expression.other) if name is not None]
        seen = {name: tuple(values.get(name, ())) for name in names}
        return Explained(expression, truth, 0 if truth else 1, 1 if truth else 0, seen)
    if isinstance(expression, Not):
        child = explain(expression.child, values, schema)
        return Explained(expression, not child.holds, child.excess, child.misses, {}, (child,))
    children = tuple(explain(child, values, schema) for child in expression.children)
    misses = [child.misses for child in children]
    excess = [child.excess for child in children]
    if isinstance(expression, And):
        truth = all(child.holds for child in children)
        return Explained(expression, truth, sum(misses), min(excess, default=_NEVER), {}, children)
    truth = any(child.holds for child in children)
    return Explained(expression, truth, min(misses, default=_NEVER), sum(excess), {}, children)


_NEVER = 1 << 40
"""Where no change helps: of an empty disjunction, or to make an empty conjunction fail."""


@dataclass(frozen=True, slots=True)
class Near(Generic[T]):
    """A subscription that missed an event, and by how many predicates."""

    subscription: T
    explained: Explained


def nearest(
    subscriptions: Iterable[tuple[T, Expression]],
    values: Values,
    count: int,
    schema: Schema = EMPTY_SCHEMA,
) -> list[Near[T]]:
    """Return the subscriptions that missed an event by the fewest predicates, the nearest first.

    Parameters
    ----------
    subscriptions : iterable of (T, Expression)
        Those that match are left out; of two that are as near the earlier one comes first. Gone through
        once, until `count` are found that missed by one predicate; `count` of them are held.
    values : mapping of str to tuple of Value
    count : int
        At least 1.
    schema : Schema
    """
    best: list[tuple[int, int, T, Expression]] = []  # a heap, the farthest and latest first
    for number, (name, expression) in enumerate(subscriptions):
        misses = miss_count(expression, values, schema)
        if misses and len(best) < count:
            heapq.heappush(best, (-misses, -number, name, expression))
        elif misses and misses < -best[0][0]:
            heapq.heapreplace(best, (-misses, -number, name, expression))
        if len(best) == count and best[0][0] == -1:
            break  # nearer than by one predicate is none
    best.sort(key=lambda entry: (-entry[0], -entry[1]))
    return [Near(name, explain(expression, values, schema)) for _, _, name, expression in best]


def miss_count(expression: Expression, values: Values, schema: Schema = EMPTY_SCHEMA) -> int:
    """Return `Explained.misses` alone, at a fraction of the time."""
    return _miss_count(expression, values, schema, True)


def _miss_count(node: Expression, values: Values, schema: Schema, to: bool) -> int:
    """Return the least number of predicates to change until a node is as wanted."""
    if isinstance(node, Atom):
        return int(holds(node, values, schema) is not to)
    if isinstance(node, Not):
        return _miss_count(node.child, values, schema, not to)
    counts = [_miss_count(child, values, schema, to) for child in node.children]
    return sum(counts) if isinstance(node, And) is to else min(counts, default=_NEVER)


def missed_predicates(explained: Explained) -> list[Explained]:
    """Return the predicates that would have to come out otherwise, one cheapest choice of them."""
    return _changes(explained, to=True)


def _changes(node: Explained, to: bool) -> list[Explained]:
    if node.holds is to:
        return []
    if isinstance(node.expression, Atom):
        return [node]
    if isinstance(node.expression, Not):
        return _changes(node.children[0], not to)
    if isinstance(node.expression, And) is to:
        return [atom for child in node.children for atom in _changes(child, to)]
    if not node.children:
        return []
    cheapest = min(node.children, key=lambda child: child.misses if to else child.excess)
    return _changes(cheapest, to)


def tree_lines(explained: Explained, shown_max: int | None = CHILDREN_SHOWN_MAX) -> list[str]:
    """Return an explanation as indented lines: ``+`` in front of what holds, ``-`` of what does not.

    Parameters
    ----------
    explained : Explained
    shown_max : int, optional
        Children of one node that are shown; those that decide its truth come first. None: all.
    """
    lines: list[str] = []
    _add_lines(explained, 0, shown_max, lines)
    return lines


def _add_lines(node: Explained, depth: int, shown_max: int | None, lines: list[str]) -> None:
    margin = f"{'  ' * depth}{HOLDS if node.holds else FAILS} "
    if isinstance(node.expression, Atom):
        lines.append(margin + atom_line(node))
        return
    children = node.children
    if isinstance(node.expression, Not):
        lines.append(f"{margin}NOT")
    else:
        word = "AND" if isinstance(node.expression, And) else "OR"
        true_count = sum(child.holds for child in children)
        lines.append(f"{margin}{word}  ({true_count:,} of {len(children):,} hold)")
    if shown_max is not None and len(children) > shown_max:
        decisive = not isinstance(node.expression, And)
        order = sorted(range(len(children)), key=lambda i: (children[i].holds is not decisive, i))
        children = tuple(children[i] for i in sorted(order[:shown_max]))
    for child in children:
        _add_lines(child, depth + 1, shown_max, lines)
    if left := len(node.children) - len(children):
        lines.append(f"{'  ' * (depth + 1)}  ... and {left:,} more")


def atom_line(node: Explained) -> str:
    """Return a predicate with the values that the event has for it."""
    text = format_text(node.expression)
    if not node.seen:
        return _short(text)
    found = [f"{name} is {_shown(values)}" for name, values in node.seen.items()]
    return f"{_short(text)}   [{', '.join(found)}]"


def _shown(values: tuple[Value, ...]) -> str:
    if not values:
        return "missing"
    shown = ", ".join(_short(repr(value) if not isinstance(value, str) else f'"{value}"') for value in values)
    return shown if len(values) == 1 else f"[{shown}]"


def _short(text: str) -> str:
    text = text.replace("\r", "\\r").replace("\n", "\\n")
    if len(text) <= VALUE_LENGTH_MAX:
        return text
    # Paths and patterns often differ at their ends alone.
    return f"{text[: VALUE_LENGTH_MAX - TAIL_LENGTH - 3]}...{text[-TAIL_LENGTH:]}"
