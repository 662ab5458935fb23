"""Subscriptions as boxes: the language of trees over space (RIABOV section 1).

A subscription is a conjunction of ranges of numbers, sets of numbers, texts and booleans, and equalities;
or a disjunction of such, which becomes several boxes (RIABOV-10). Events are points
(`algorithms.dimensions`); an event without a value lies at minus infinity, below all numbers. A predicate's
open end is the double next to it, so that boxes are closed on both sides. (The paper's are open below; the
same boxes, as "computers can handle only inherently finite and discrete attribute values".) A dimension that
a subscription says nothing of has no ends.
"""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any, TypeAlias

import numpy as np

from pubsub_cluster.algorithms import dimensions
from pubsub_cluster.algorithms.dimensions import F8, Dimensions
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

BOXES_MAX = 256
"""Of one subscription."""
NO_VALUE = -math.inf
LEAST = -sys.float_info.max
"""Where ranges of numbers begin at the earliest."""

Side: TypeAlias = tuple[int, float, float]
"""(dimension, low end, high end), both closed."""
_WHY_KIND = {
    PredicateKind.EXISTS: "whether an attribute exists is no range",
    PredicateKind.EXCEPT: "what differs from constants is no range",
    PredicateKind.TEXT: "a pattern on texts is no range",
    PredicateKind.COMPARE: "a comparison of two attributes is no range",
}


def reason_against(expression: Expression, schema: Schema = EMPTY_SCHEMA) -> str | None:
    """Return why a subscription is no set of boxes; None where it is."""
    return dimensions.reason_against(expression, schema, _WHY_KIND, BOXES_MAX)


def boxes_of(
    expression: Expression, space: Dimensions, schema: Schema
) -> list[dict[int, tuple[float, float]]]:
    """Return the boxes of a supported subscription: ends by dimension. Empty ones are left out."""
    form: NormalForm = normalise(expression, schema)
    assert form.clauses is not None
    found = []
    for clause in form.clauses:
        choices = [_sides(form.predicates[literal >> 1], space) for literal in clause]
        for sides in itertools.product(*choices):
            box: dict[int, tuple[float, float]] = {}
            for dimension, lo, hi in sides:
                below, above = box.get(dimension, (-math.inf, math.inf))
                box[dimension] = max(lo, below), min(hi, above)
            if all(lo <= hi for lo, hi in box.values()):
                found.append(box)
    return found


def _sides(predicate: Predicate, space: Dimensions) -> list[Side]:
    """Return the intervals of one predicate, one of which must hold the event."""
    name = str(predicate.attribute)
    if predicate.kind is PredicateKind.SET:
        return [_point(name, kind, value, space) for kind, value in predicate.constants]
    assert predicate.value_kind is not None
    if predicate.value_kind is not ValueKind.NUMBER:
        return [_point(name, predicate.value_kind, predicate.lo, space)]
    lo = -math.inf if predicate.lo is None else float(predicate.lo)
    hi = math.inf if predicate.hi is None else float(predicate.hi)
    lo = math.nextafter(lo, math.inf) if predicate.lo_open else lo
    hi = math.nextafter(hi, -math.inf) if predicate.hi_open else hi
    return [(space.of(name, ValueKind.NUMBER), max(lo, LEAST), hi)]


def _point(name: str, kind: ValueKind, value: Any, space: Dimensions) -> Side:
    number = space.number(name, value)
    return space.of(name, kind), max(number, LEAST), number


def columns_of(boxes: list[dict[int, tuple[float, float]]], dimension_count: int) -> tuple[F8, F8]:
    """Return the ends of boxes: lo and hi, float64[dimensions, boxes]."""
    lo = np.full((dimension_count, len(boxes)), -np.inf)
    hi = np.full((dimension_count, len(boxes)), np.inf)
    for at, box in enumerate(boxes):
        for dimension, (below, above) in box.items():
            lo[dimension, at], hi[dimension, at] = below, above
    return lo, hi
