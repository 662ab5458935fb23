"""Matchers of LESUB, by name."""

from __future__ import annotations

from functools import partial

from pubsub_cluster.algorithms.conjunctions import ConjunctionMatcher, Core
from pubsub_cluster.algorithms.interface import Entry
from pubsub_cluster.algorithms.lesub.aguilera import Aguilera
from pubsub_cluster.algorithms.lesub.equality_preferred import EqualityPreferred
from pubsub_cluster.algorithms.lesub.fair_predicate import FairPredicate
from pubsub_cluster.algorithms.lesub.gough import Gough
from pubsub_cluster.algorithms.lesub.hanson import Hanson
from pubsub_cluster.algorithms.lesub.neon import Neon
from pubsub_cluster.algorithms.lesub.quarantining import Quarantining

_CORES: dict[str, tuple[type[Core], str]] = {
    "fair-predicate": (FairPredicate, "each predicate once, then all sums compared"),
    "equality-preferred": (EqualityPreferred, "clusters by equalities, the other predicates counted"),
    "quarantining": (Quarantining, "clusters by equalities, the other predicates checked one by one"),
    "gough": (Gough, "a tree with one path per event; space explodes"),
    "hanson": (Hanson, "the most selective predicate in an interval tree, the others evaluated"),
    "aguilera": (Aguilera, "a tree of tests with don't-care edges"),
}
ENTRIES: dict[str, Entry] = {
    name: Entry(partial(ConjunctionMatcher, name, core), "LESUB", about)
    for name, (core, about) in _CORES.items()
} | {
    "neon": Entry(
        partial(ConjunctionMatcher, "neon", Neon, takes_attributes=True),
        "LESUB",
        "tables of operations and predicates; compares attributes with each other too",
    )
}
