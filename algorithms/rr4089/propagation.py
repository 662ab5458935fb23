"""Propagation: each subscription hangs off one of its equality predicates, the least probable one.

Source: RR-4089 sections 2.2 and 6; without prefetch and with. The access predicates are those that the first
phase finds anyway; those without equality are always checked (D-02; the report does not say). Cost: an event
checks the clusters of the equality predicates that it satisfies, one per attribute at most.
"""

from __future__ import annotations

from pubsub_cluster.algorithms.conjunctions import ConjunctionMatcher
from pubsub_cluster.algorithms.rr4089.two_phase import Clustered
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

PREFETCHED = 3
"""Columns that are prefetched: more do not pay (section 2.2.3)."""


class Propagation(Clustered):
    """See the module.

    Parameters
    ----------
    columns : int
        That are prefetched.
    """

    def __init__(self, columns: int = 0) -> None:
        super().__init__(columns)


def matcher(schema: Schema = EMPTY_SCHEMA) -> ConjunctionMatcher:
    """Return propagation without prefetch."""
    return ConjunctionMatcher("propagation", Propagation, schema)


def matcher_with_prefetch(schema: Schema = EMPTY_SCHEMA) -> ConjunctionMatcher:
    """Return propagation with prefetch."""
    return ConjunctionMatcher("propagation-prefetch", lambda: Propagation(PREFETCHED), schema)
