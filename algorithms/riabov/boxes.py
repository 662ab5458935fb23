"""Subscriptions as boxes, events as points: the language of trees over space (RIABOV section 1).

A subscription is a conjunction of ranges of numbers, sets of numbers, texts and booleans, and equalities; or
a disjunction of such, which becomes several boxes (RIABOV-10). An attribute has up to two dimensions:

- *numbers*, as doubles. An event without a number there lies at minus infinity, below all numbers; a
  predicate's open end is the double next to it, so that boxes are closed on both sides. (The paper's are
  open below; the same boxes, as "computers can handle only inherently finite and discrete attribute
  values".)
- *listed*: texts and booleans, each that some subscription names by a number of its own ("attributes such as
  name can be indexed and therefore linearized"); order has no meaning there, so only equality is supported.

A dimension that a subscription says nothing of has no ends. What is not a point is *odd*: an event with
several values of one attribute, with an integer that no double equals, or with minus infinity. Odd events
are rare, and whoever uses this evaluates them subscription by subscription.
"""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

F8 = npt.NDArray[np.float64]
BOXES_MAX = 256
"""Of one subscription."""
NO_NUMBER = -math.inf
LEAST = -sys.float_info.max
"""Where ranges of numbers begin at the earliest."""

Side: TypeAlias = tuple[tuple[str, bool], float, float]
"""((attribute, whether listed), low end, high end), both closed."""
_WHY_KIND = {
    PredicateKind.EXISTS: "whether an attribute exists is no range",
    PredicateKind.EXCEPT: "what differs from constants is no range",
    PredicateKind.TEXT: "a pattern on texts is no range",
    PredicateKind.COMPARE: "a comparison of two attributes is no range",
}


class Points(NamedTuple):
    """Events as points.

    Attributes
    ----------
    at : float64[events, dimensions]
    is_odd : bool[events]
        Which ones are no points; refused ones neither.
    """

    at: F8
    is_odd: npt.NDArray[np.bool_]


def reason_against(expression: Expression, schema: Schema = EMPTY_SCHEMA) -> str | None:
    """Return why a subscription is no set of boxes; None where it is."""
    try:
        form = normalise(expression, schema)
    except PubSubError as refused:
        return str(refused)
    if form.clauses is None:
        return "its disjunctive normal form is too large"
    if any(literal & 1 for clause in form.clauses for literal in clause):
        return "a negated predicate is no range"
    for predicate in form.predicates:
        why = _reason_against(predicate)
        if why:
            return why
    count = sum(
        math.prod(max(1, len(form.predicates[literal >> 1].constants)) for literal in clause)
        for clause in form.clauses
    )
    return f"it would be {count} boxes, the most are {BOXES_MAX}" if count > BOXES_MAX else None


def _reason_against(predicate: Predicate) -> str | None:
    if predicate.kind in _WHY_KIND:
        return _WHY_KIND[predicate.kind]
    constants = [value for _, value in predicate.constants]
    if predicate.kind is PredicateKind.RANGE:
        constants = [value for value in (predicate.lo, predicate.hi) if value is not None]
        if predicate.value_kind is not ValueKind.NUMBER and (
            predicate.lo is None or not _is_point(predicate)
        ):
            return "texts are listed without an order"
    for value in constants:
        if type(value) is int and int(float(value)) != value:
            return f"no double equals {value}"
    return None


def _is_point(predicate: Predicate) -> bool:
    return predicate.lo == predicate.hi and not predicate.lo_open and not predicate.hi_open


class Space:
    """The dimensions that subscriptions have had predicates on; they are never given up.

    Parameters
    ----------
    schema : Schema
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA) -> None:
        self._schema = schema
        self._dimension: dict[tuple[str, bool], int] = {}
        self._number: dict[str, dict[bool | bytes, int]] = {}

    @property
    def dimension_count(self) -> int:
        """Number of dimensions; one, in which nothing has ends, where there would be none."""
        return max(1, len(self._dimension))

    def boxes(self, expression: Expression) -> list[dict[int, tuple[float, float]]]:
        """Return the boxes of a supported subscription: ends by dimension. Empty ones are left out."""
        form: NormalForm = normalise(expression, self._schema)
        assert form.clauses is not None
        found = []
        for clause in form.clauses:
            choices = [self._sides(form.predicates[literal >> 1]) for literal in clause]
            for sides in itertools.product(*choices):
                box: dict[int, tuple[float, float]] = {}
                for key, lo, hi in sides:
                    dimension = self._dimension.setdefault(key, len(self._dimension))
                    below, above = box.get(dimension, (-math.inf, math.inf))
                    box[dimension] = max(lo, below), min(hi, above)
                if all(lo <= hi for lo, hi in box.values()):
                    found.append(box)
        return found

    def _sides(self, predicate: Predicate) -> list[Side]:
        """Return the intervals of one predicate, one of which must hold the event."""
        name = str(predicate.attribute)
        if predicate.kind is PredicateKind.SET:
            return [self._point(name, value) for _, value in predicate.constants]
        if predicate.value_kind is not ValueKind.NUMBER:
            return [self._point(name, predicate.lo)]
        lo = -math.inf if predicate.lo is None else float(predicate.lo)
        hi = math.inf if predicate.hi is None else float(predicate.hi)
        lo = math.nextafter(lo, math.inf) if predicate.lo_open else lo
        hi = math.nextafter(hi, -math.inf) if predicate.hi_open else hi
        return [((name, False), max(lo, LEAST), hi)]

    def _point(self, name: str, value: Any) -> Side:
        if isinstance(value, bool | bytes):
            numbers = self._number.setdefault(name, {})
            number = float(numbers.setdefault(value, len(numbers)))
            return (name, True), number, number
        return (name, False), max(float(value), LEAST), float(value)

    def columns(self, boxes: list[dict[int, tuple[float, float]]]) -> tuple[F8, F8]:
        """Return the ends of boxes: lo and hi, float64[dimensions, boxes]."""
        lo = np.full((self.dimension_count, len(boxes)), -np.inf)
        hi = np.full((self.dimension_count, len(boxes)), np.inf)
        for at, box in enumerate(boxes):
            for dimension, (below, above) in box.items():
                lo[dimension, at], hi[dimension, at] = below, above
        return lo, hi

    def points(self, batch: RawBatch) -> Points:
        """Return the events of a batch."""
        at = np.full((batch.event_count, self.dimension_count), NO_NUMBER)
        is_odd = np.zeros(batch.event_count, np.bool_)
        for name in dict.fromkeys(name for name, _ in self._dimension):
            entries = batch.attributes.get(name)
            if entries is not None:
                is_odd |= self._locate(name, entries, at)
        is_odd[list(batch.refused)] = False
        return Points(at, is_odd)

    def _locate(self, name: str, entries: AttributeEntries, at: F8) -> npt.NDArray[np.bool_]:
        """Write the coordinates of one attribute; return which events are odd."""
        numbers, texts, booleans = entries
        count = np.zeros(len(at), np.int64)
        is_odd = np.zeros(len(at), np.bool_)
        if numbers is not None:
            is_far = np.abs(numbers.part) >= 1.0
            value = np.where(is_far, numbers.part, numbers.whole + numbers.part)
            # A whole number that is no double; a fraction is whole + part without rounding, since it was one.
            is_rounded = (numbers.part == 0.0) & ~_is_double(numbers.whole)
            is_odd[numbers.event[is_rounded | (value == -np.inf)]] = True
            self._write(name, False, numbers.event, value, at)
            count += np.bincount(numbers.event, minlength=len(at))
        number_of = self._number.get(name, {})
        if texts is not None:
            data = texts.data.tobytes()
            ends = zip(texts.start.tolist(), texts.end.tolist(), strict=True)
            found = [number_of.get(data[start:end], NO_NUMBER) for start, end in ends]
            self._write(name, True, texts.event, np.array(found, np.float64), at)
            count += np.bincount(texts.event, minlength=len(at))
        if booleans is not None:
            found = [number_of.get(bool(value), NO_NUMBER) for value in booleans.value.tolist()]
            self._write(name, True, booleans.event, np.array(found, np.float64), at)
            count += np.bincount(booleans.event, minlength=len(at))
        return is_odd | (count > 1)

    def _write(self, name: str, is_listed: bool, event: Any, value: F8, at: F8) -> None:
        dimension = self._dimension.get((name, is_listed))
        if dimension is not None:
            at[event, dimension] = value


def _is_double(whole: I8) -> npt.NDArray[np.bool_]:
    """Return which integers a double equals."""
    rounded = whole.astype(np.float64)
    is_inside = rounded < 2.0**63  # 2**63 itself is no int64
    found: npt.NDArray[np.bool_] = np.where(is_inside, rounded, 0.0).astype(np.int64) == whole
    return is_inside & found
