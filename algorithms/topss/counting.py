"""The counting algorithm in two phases (TOPSS section 3; D-14): predicates, then subscriptions.

Idea: the predicates that an event satisfies are bits of a vector; each adds one hit to every subscription
that has it, and a subscription matches where its hits are as many as its predicates. Both phases are chosen
apart: `predicate_table` or `ordered_lists`, and `byte_matrix`, `bit_matrix` or `growable_lists`.

Cost: that of the phases, and a comparison per subscription. Limit: hits are counted in a byte, so that a
conjunction has at most `PREDICATES_MAX` predicates. (The paper says 256, which a byte would take for 0.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4, ConjunctionMatcher, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.topss.association import Association
from pubsub_cluster.algorithms.topss.predicate_book import U1, Predicates
from pubsub_cluster.algorithms.topss.predicate_table import PredicateTable, reason_against
from pubsub_cluster.algorithms.topss.recycled import SubscriptionIds
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.schema import Schema

PREDICATES_MAX = 255
NEVER = 255
"""The size of a free column, which never has a hit."""
ROWS_AT_ONCE = 64


class Counting:
    """A core (`conjunctions.Core`).

    Parameters
    ----------
    predicates : Predicates
    association : Association
        Both new; they are the core's from now on.
    """

    def __init__(self, predicates: Predicates, association: Association) -> None:
        self.predicates, self.association = predicates, association
        self.ids = SubscriptionIds()
        self._sizes: U1 = np.zeros(0, np.uint8)
        self._hits: U1 = np.zeros(0, np.uint8)

    @property
    def bytes(self) -> int:
        """Bytes of all arrays that matching reads."""
        vectors = (self.predicates.bound + 7) // 8 + int(self._sizes.nbytes + self._hits.nbytes)
        return self.predicates.bytes + self.association.bytes + vectors

    def build(self, catalogue: Conjunctions) -> None:
        """See `Core`.

        Raises
        ------
        CallerError
            A conjunction has too many predicates, or one that the predicates' structure cannot hold; or the
            association table would be too large. Of these, only the last changes something.
        """
        _check(catalogue)
        numbers = self.predicates.build(catalogue)
        self.association.build(self.predicates.bound, len(catalogue.owner))
        self.ids.build(catalogue.owner)
        self._sizes = np.full(self.association.room, NEVER, np.uint8)
        self._hits = np.zeros(self.association.room, np.uint8)
        self._sizes[: self.ids.bound] = np.diff(catalogue.stops)
        self.association.put(numbers, catalogue.stops, np.arange(self.ids.bound))

    def insert(self, more: Conjunctions) -> None:
        """See `Core`; raises as `build`, and changes nothing then."""
        _check(more)
        if not len(more.owner):
            return
        numbers = self.predicates.add(more)
        try:
            most = int(numbers.max(initial=-1)) + 1
            self.association.reserve(most, self.ids.bound_with(len(more.owner)))
        except CallerError:
            self.predicates.remove(numbers)
            raise
        columns = self.ids.add(int(more.owner[0]), len(more.owner))
        added = self.association.room - len(self._sizes)
        self._sizes = np.append(self._sizes, np.full(added, NEVER, np.uint8))
        self._hits = np.append(self._hits, np.zeros(added, np.uint8))
        self._sizes[columns] = np.diff(more.stops)
        self.association.put(numbers, more.stops, columns)

    def delete(self, owner: int) -> None:
        """See `Core`."""
        for column in self.ids.remove(owner):
            self._sizes[column] = NEVER
            self.predicates.remove(self.association.take(column))

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `Core`."""
        rows, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for first in range(0, len(values), ROWS_AT_ONCE):
            bits = self.predicates.bits(values[first : first + ROWS_AT_ONCE])
            stops, found = self.count(bits)
            rows.append(np.repeat(np.arange(first, first + len(bits)), np.diff(stops)))
            owners.append(self.ids.owner[found[: stops[-1]]])
        return np.concatenate(rows), np.concatenate(owners)

    def count(self, bits: U1, counters: I8 | None = None) -> tuple[I8, I4]:
        """Return the second phase's answer to predicate bit vectors; see `Association.count`."""
        return self.association.count(bits, (self._sizes, self._hits), self.ids.bound, counters)


def _check(catalogue: Conjunctions) -> None:
    reason = _too_many(catalogue)
    if reason is not None:
        raise CallerError("a conjunction cannot be counted", seen=reason, limit=PREDICATES_MAX)


def _too_many(conjunctions: Conjunctions) -> str | None:
    most = int(np.diff(conjunctions.stops).max(initial=0))
    if most > PREDICATES_MAX:
        return f"it has {most} predicates, and a byte counts {PREDICATES_MAX}"
    return None


def counting_matcher(
    name: str,
    make_predicates: Callable[[], Predicates],
    make_association: Callable[[], Association],
    schema: Schema,
) -> ConjunctionMatcher:
    """Return a matcher that counts."""

    def refuses(conjunctions: Conjunctions) -> str | None:
        reason = _too_many(conjunctions)
        return reason or (reason_against(conjunctions) if make_predicates is PredicateTable else None)

    return ConjunctionMatcher(name, lambda: Counting(make_predicates(), make_association()), schema, refuses)
