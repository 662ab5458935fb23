"""Events as rows of numbers: one dimension for each (attribute, value kind) that subscriptions speak of.

Numbers are doubles, booleans 0 and 1; a text is the number that it got when a subscription first named it
("attributes such as name can be indexed and therefore linearized", RIABOV section 1), and `UNNAMED` where
none did, so that only equality has a meaning there.

What is no such row is *odd*: an event with several values of one attribute, with an integer that no double
equals, with the number that stands for absence, or with a text or boolean where attributes are compared. Odd
events are rare, and whoever uses this evaluates them subscription by subscription.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch
from pubsub_cluster.language.schema import Schema

F8 = npt.NDArray[np.float64]
UNNAMED = -1.0
"""A text that no subscription names."""


class Rows(NamedTuple):
    """Events as rows of numbers.

    Attributes
    ----------
    values : float64[events, dimensions]
    is_odd : bool[events]
        Which ones are no rows; refused ones neither.
    """

    values: F8
    is_odd: npt.NDArray[np.bool_]


class Dimensions:
    """The dimensions that subscriptions have had predicates on; they are never given up.

    Parameters
    ----------
    absent : float
        What stands for "no value".
    """

    def __init__(self, absent: float) -> None:
        self._absent = absent
        self._dimension: dict[tuple[str, ValueKind], int] = {}
        self._texts: dict[str, dict[bytes, int]] = {}
        self._compared: set[str] = set()

    @property
    def count(self) -> int:
        """Number of dimensions; one, which no event has, where there would be none."""
        return max(1, len(self._dimension))

    def of(self, name: str, kind: ValueKind) -> int:
        """Return the dimension of an attribute's values of one kind, a new one at need."""
        return self._dimension.setdefault((name, kind), len(self._dimension))

    def of_compared(self, name: str) -> int:
        """Return the dimension of an attribute's numbers, which are compared with those of another attribute.

        Texts and booleans could be compared too; so an event that has one there is odd.
        """
        self._compared.add(name)
        return self.of(name, ValueKind.NUMBER)

    def number(self, name: str, value: Any) -> float:
        """Return the number of a canonical constant."""
        if isinstance(value, bytes):
            texts = self._texts.setdefault(name, {})
            return float(texts.setdefault(value, len(texts)))
        return float(value)

    def rows(self, batch: RawBatch) -> Rows:
        """Return the events of a batch."""
        values = np.full((batch.event_count, self.count), self._absent)
        is_odd = np.zeros(batch.event_count, np.bool_)
        for name in dict.fromkeys(name for name, _ in self._dimension):
            entries = batch.attributes.get(name)
            if entries is not None:
                is_odd |= self._fill(name, entries, values)
        is_odd[list(batch.refused)] = False
        return Rows(values, is_odd)

    def _fill(self, name: str, entries: AttributeEntries, values: F8) -> npt.NDArray[np.bool_]:
        """Write the values of one attribute; return which events are odd."""
        numbers, texts, booleans = entries
        count = np.zeros(len(values), np.int64)
        is_odd = np.zeros(len(values), np.bool_)
        if numbers is not None:
            is_far = np.abs(numbers.part) >= 1.0
            value = np.where(is_far, numbers.part, numbers.whole + numbers.part)
            # A whole number that is no double; a fraction is whole + part without rounding, since it was one.
            is_rounded = (numbers.part == 0.0) & ~_is_double(numbers.whole)
            is_odd[numbers.event[is_rounded | (value == self._absent)]] = True
            self._write((name, ValueKind.NUMBER), numbers.event, value, values)
            count += np.bincount(numbers.event, minlength=len(values))
        if texts is not None:
            known, data = self._texts.get(name, {}), texts.data.tobytes()
            ends = zip(texts.start.tolist(), texts.end.tolist(), strict=True)
            found = np.array([known.get(data[start:end], UNNAMED) for start, end in ends], np.float64)
            self._write((name, ValueKind.TEXT), texts.event, found, values)
            count += np.bincount(texts.event, minlength=len(values))
        if booleans is not None:
            self._write((name, ValueKind.BOOLEAN), booleans.event, booleans.value.astype(np.float64), values)
            count += np.bincount(booleans.event, minlength=len(values))
        if name in self._compared:
            for others in (texts, booleans):
                if others is not None:
                    is_odd[others.event] = True
        return is_odd | (count > 1)

    def _write(self, key: tuple[str, ValueKind], event: Any, value: F8, values: F8) -> None:
        dimension = self._dimension.get(key)
        if dimension is not None:
            values[event, dimension] = value


def _is_double(whole: I8) -> npt.NDArray[np.bool_]:
    """Return which integers a double equals."""
    rounded = whole.astype(np.float64)
    is_inside = rounded < 2.0**63  # 2**63 itself is no int64
    found: npt.NDArray[np.bool_] = np.where(is_inside, rounded, 0.0).astype(np.int64) == whole
    return is_inside & found


def is_point(predicate: Predicate) -> bool:
    """Whether a range holds one value only."""
    return predicate.lo == predicate.hi and not predicate.lo_open and not predicate.hi_open


def reason_against(
    expression: Expression, schema: Schema, why_not: Mapping[PredicateKind, str], parts_max: int
) -> str | None:
    """Return why a subscription is no disjunction of conjunctions of predicates on dimensions; None: it is.

    Parameters
    ----------
    expression : Expression
    schema : Schema
    why_not : mapping
        Kinds of predicates outside the language, and why.
    parts_max : int
        Of conjunctions; a set is a disjunction of equalities.
    """
    try:
        form = normalise(expression, schema)
    except PubSubError as refused:
        return str(refused)
    if form.clauses is None:
        return "its disjunctive normal form is too large"
    if any(literal & 1 for clause in form.clauses for literal in clause):
        return "a negated predicate also holds where the attribute is missing"
    for predicate in form.predicates:
        why = why_not.get(predicate.kind) or _reason_against_constants(predicate)
        if why:
            return why
    count = sum(
        math.prod(alternatives(form.predicates[literal >> 1]) for literal in clause)
        for clause in form.clauses
    )
    return f"it would be {count} conjunctions, the most are {parts_max}" if count > parts_max else None


def alternatives(predicate: Predicate) -> int:
    """Return of how many predicates on dimensions a predicate is the disjunction."""
    return len(predicate.constants) if predicate.kind is PredicateKind.SET else 1


def _reason_against_constants(predicate: Predicate) -> str | None:
    constants = [value for _, value in predicate.constants]
    if predicate.kind is PredicateKind.RANGE:
        constants = [value for value in (predicate.lo, predicate.hi) if value is not None]
        is_listed = predicate.value_kind is not ValueKind.NUMBER
        if is_listed and (predicate.lo is None or not is_point(predicate)):
            return "texts are listed without an order"
    for value in constants:
        if type(value) is int and int(float(value)) != value:
            return f"no double equals {value}"
    return None
