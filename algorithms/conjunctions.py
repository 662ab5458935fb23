"""Subscriptions as conjunctions of comparisons: the language of the matchers that evaluate predicates.

A predicate is ``value OP constant`` on a dimension (`algorithms.dimensions`; RR-4089 section 1.1): six
operators on numbers, ``=`` and ``!=`` on texts and booleans. "There is a value" is ``>= -inf``. A
subscription is a disjunction of conjunctions of them; "in a set" is a disjunction of equalities. Since the
rows of a search have one value per dimension, a conjunction is brought to its shortest form: per dimension
one ``=``, or at most one lower end, one upper end and ``!=`` between them; contradictions are dropped.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.dimensions import F8, Dimensions, reason_against
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.row_matcher import RowMatcher
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.predicate import Predicate, PredicateKind
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

ABSENT = math.nan
"""No value: no predicate holds there. (``!=`` of IEEE numbers would.)"""
CONJUNCTIONS_MAX = 256
"""Of one subscription."""
I4 = npt.NDArray[np.int32]


class Comparison(enum.IntEnum):
    """``value OP constant``."""

    LT = 0
    LE = 1
    EQ = 2
    NE = 3
    GE = 4
    GT = 5


WITH_ATTRIBUTE = len(Comparison)
"""Added to a comparison with another dimension, whose number stands in place of the constant. Only a core
that says so gets any."""


class Conjunctions(NamedTuple):
    """A catalogue in columns.

    Attributes
    ----------
    owner : int64[n]
        Handles; the conjunctions of one subscription stand together.
    stops : int64[n + 1]
        Conjunction i has the predicates [stops[i], stops[i + 1]); with none it always matches.
    attribute : int32[p]
        Dimensions.
    comparison : int8[p]
        Of `Comparison`; see `WITH_ATTRIBUTE`.
    constant : float64[p]
    """

    owner: I8
    stops: I8
    attribute: I4
    comparison: npt.NDArray[np.int8]
    constant: F8


class Core(Protocol):
    """What searches: a data structure over `Conjunctions`."""

    def build(self, catalogue: Conjunctions) -> None:
        """Take conjunctions in place of all that were there."""

    def insert(self, more: Conjunctions) -> None:
        """Add all conjunctions of a new owner."""

    def delete(self, owner: int) -> None:
        """Remove all conjunctions of an owner; there may be none."""

    def match(self, values: F8) -> tuple[I8, I8]:
        """Return (row, owner) of all matches of float64[rows, dimensions], in any order, with repeats.

        There may be more dimensions than predicates speak of.
        """

    @property
    def bytes(self) -> int:
        """Bytes of all arrays that matching reads."""


Triple: TypeAlias = tuple[int, int, float]
"""Dimension, comparison, constant."""
_COMPARISON_OF = {
    "<": Comparison.LT,
    "<=": Comparison.LE,
    "=": Comparison.EQ,
    "!=": Comparison.NE,
    ">=": Comparison.GE,
    ">": Comparison.GT,
}
Refuses: TypeAlias = Callable[[Conjunctions], str | None]
_WHY_KIND = {
    PredicateKind.EXISTS: "whether an attribute exists is no comparison with a constant",
    PredicateKind.TEXT: "a pattern on texts is no comparison with a constant",
    PredicateKind.COMPARE: "a comparison of two attributes is no comparison with a constant",
}


class ConjunctionMatcher(RowMatcher):
    """For subscriptions that are conjunctions, or disjunctions of few.

    Parameters
    ----------
    name : str
        For errors.
    make_core : callable
    schema : Schema
    refuses : callable, optional
        ``refuses(conjunctions)`` returns why the core cannot hold those of a subscription, or None. Their
        dimensions are numbered for this question alone.
    takes_attributes : bool
        The core takes comparisons of two attributes too; see `WITH_ATTRIBUTE`.
    """

    def __init__(
        self,
        name: str,
        make_core: Callable[[], Core],
        schema: Schema = EMPTY_SCHEMA,
        refuses: Refuses | None = None,
        takes_attributes: bool = False,
    ) -> None:
        super().__init__(name, ABSENT, schema)
        self._make_core, self._refuses = make_core, refuses
        taken = {PredicateKind.COMPARE} if takes_attributes else set()
        self._why_kind = {kind: why for kind, why in _WHY_KIND.items() if kind not in taken}
        self.core = make_core()

    def supports(self, expression: Expression) -> str | None:
        """See `interface.Matcher`."""
        reason = reason_against(expression, self._schema, self._why_kind, CONJUNCTIONS_MAX)
        if reason is not None or self._refuses is None:
            return reason
        return self._refuses(columns_of({0: expression}, Dimensions(ABSENT), self._schema))

    def memory_bytes(self) -> int:
        """See `interface.Matcher`."""
        return self.core.bytes

    def _build(self, expressions: Mapping[int, Expression]) -> None:
        core = self._make_core()
        core.build(columns_of(expressions, self._dimensions, self._schema))
        self.core = core

    def _insert(self, handle: int, expression: Expression) -> None:
        self.core.insert(columns_of({handle: expression}, self._dimensions, self._schema))

    def _delete(self, handle: int) -> None:
        self.core.delete(handle)

    def _search(self, values: F8) -> tuple[I8, I8]:
        return self.core.match(values)


def columns_of(expressions: Mapping[int, Expression], dimensions: Dimensions, schema: Schema) -> Conjunctions:
    """Return supported subscriptions in columns; new dimensions and texts get numbers."""
    owners: list[int] = []
    sizes: list[int] = []
    triples: list[Triple] = []
    for handle, expression in expressions.items():
        for conjunction in _conjunctions_of(expression, dimensions, schema):
            owners.append(handle)
            sizes.append(len(conjunction))
            triples += conjunction
    columns = list(zip(*triples, strict=True)) or [(), (), ()]
    return Conjunctions(
        np.array(owners, np.int64),
        np.concatenate((np.zeros(1, np.int64), np.cumsum(np.array(sizes, np.int64)))),
        np.array(columns[0], np.int32),
        np.array(columns[1], np.int8),
        np.array(columns[2], np.float64),
    )


def _conjunctions_of(
    expression: Expression, dimensions: Dimensions, schema: Schema
) -> list[tuple[Triple, ...]]:
    form = normalise(expression, schema)
    assert form.clauses is not None
    found: dict[tuple[Triple, ...], None] = {}
    for clause in form.clauses:
        choices = [_alternatives(form.predicates[literal >> 1], dimensions) for literal in clause]
        for parts in itertools.product(*choices):
            shortest = shortened(itertools.chain(*parts))
            if shortest is not None:
                found[shortest] = None
    return list(found)


def _alternatives(predicate: Predicate, dimensions: Dimensions) -> list[list[Triple]]:
    """Return the conjunctions of which a predicate is the disjunction."""
    name = str(predicate.attribute)
    if predicate.kind is PredicateKind.SET:
        return [
            [(dimensions.of(name, kind), Comparison.EQ, dimensions.number(name, value))]
            for kind, value in predicate.constants
        ]
    if predicate.kind is PredicateKind.COMPARE:
        sides = [dimensions.of_compared(str(side)) for side in (name, predicate.other)]
        return [[(sides[0], WITH_ATTRIBUTE + _COMPARISON_OF[predicate.text_operator], float(sides[1]))]]
    assert predicate.value_kind is not None
    dimension = dimensions.of(name, predicate.value_kind)
    if predicate.kind is PredicateKind.EXCEPT:
        differs: list[Triple] = [
            (dimension, Comparison.NE, dimensions.number(name, value)) for _, value in predicate.constants
        ]
        return [differs or [(dimension, Comparison.GE, -math.inf)]]
    found: list[Triple] = []
    if predicate.lo is not None:
        lo = Comparison.GT if predicate.lo_open else Comparison.GE
        found.append((dimension, lo, dimensions.number(name, predicate.lo)))
    if predicate.hi is not None:
        hi = Comparison.LT if predicate.hi_open else Comparison.LE
        found.append((dimension, hi, dimensions.number(name, predicate.hi)))
    return [found or [(dimension, Comparison.GE, -math.inf)]]


def shortened(triples: Iterable[Triple]) -> tuple[Triple, ...] | None:
    """Return a conjunction in its shortest form, sorted; None where it never holds.

    Comparisons with other dimensions stay as they are.
    """
    by_dimension: dict[int, list[Triple]] = {}
    found: list[Triple] = []
    for triple in dict.fromkeys(triples):
        if triple[1] < WITH_ATTRIBUTE:
            by_dimension.setdefault(triple[0], []).append(triple)
        else:
            found.append(triple)
    for dimension, mine in sorted(by_dimension.items()):
        short = _shortened(dimension, mine)
        if short is None:
            return None
        found += short
    return tuple(sorted(found, key=lambda one: one[0]))


def _shortened(dimension: int, mine: list[Triple]) -> list[Triple] | None:
    """As `shortened`, for the predicates of one dimension."""
    # An end is (constant, whether open), so that the greatest lower and the least upper end are the tightest.
    lowers = [(c, op is Comparison.GT) for _, op, c in mine if op in (Comparison.GE, Comparison.GT)]
    uppers = [(c, op is not Comparison.LT) for _, op, c in mine if op in (Comparison.LE, Comparison.LT)]
    points = {c for _, op, c in mine if op is Comparison.EQ}
    differs = {c for _, op, c in mine if op is Comparison.NE}

    def holds(value: float) -> bool:
        above = all(value > c or (value == c and not is_open) for c, is_open in lowers)
        below = all(value < c or (value == c and is_closed) for c, is_closed in uppers)
        return above and below and value not in differs

    lower, upper = max(lowers, default=None), min(uppers, default=None)
    if not points and lower and upper and lower[0] == upper[0] and not lower[1] and upper[1]:
        points = {lower[0]}
    if points:
        value = next(iter(points))
        return [(dimension, Comparison.EQ, value)] if len(points) == 1 and holds(value) else None
    if lower and upper and lower[0] >= upper[0]:
        return None
    found: list[Triple] = []
    if lower:
        found.append((dimension, Comparison.GT if lower[1] else Comparison.GE, lower[0]))
    if upper:
        found.append((dimension, Comparison.LE if upper[1] else Comparison.LT, upper[0]))
    inside = sorted(c for c in differs if (not lower or c >= lower[0]) and (not upper or c <= upper[0]))
    return found + [(dimension, Comparison.NE, c) for c in inside]


def truth(values: F8, comparison: int, constant: float) -> npt.NDArray[np.bool_]:
    """Return for which values a predicate holds; a plain reference."""
    found: npt.NDArray[np.bool_] = {
        Comparison.LT: values < constant,
        Comparison.LE: values <= constant,
        Comparison.EQ: values == constant,
        Comparison.NE: (values != constant) & ~np.isnan(values),
        Comparison.GE: values >= constant,
        Comparison.GT: values > constant,
    }[Comparison(comparison)]
    return found


def brute_force(catalogue: Conjunctions, values: F8) -> tuple[I8, I8]:
    """Return (row, owner) of all matches, ascending and without repeats: the reference of all cores."""
    pairs = set()
    for at, owner in enumerate(catalogue.owner.tolist()):
        holds = np.ones(len(values), np.bool_)
        for one in range(catalogue.stops[at], catalogue.stops[at + 1]):
            column = values[:, catalogue.attribute[one]]
            holds &= truth(column, int(catalogue.comparison[one]), float(catalogue.constant[one]))
        pairs |= {(row, owner) for row in np.flatnonzero(holds).tolist()}
    found = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return found[:, 0].copy(), found[:, 1].copy()
