"""Probabilities that an event satisfies a predicate, and that it has an attribute (nu and mu of RR-4089).

The report has them from "an independent tool". Without a sample of events, the values of an attribute are
taken to be those of its equality predicates, each as likely, and to be always there. Conjunctions are taken
to be independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.predicate_index import PredicateIndex
from pubsub_cluster.algorithms.predicate_kernels import EQ

STALE_SHARE = 8
"""They are found out again when the number of predicates has changed by one in so many."""


class Statistics:
    """See the module.

    Attributes
    ----------
    epoch : int
        Grows when the numbers change.
    sample : float64[events, attributes], optional
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._nu: F8 = np.zeros(0)
        self._known, self._count = 0, 0
        self.sample: F8 | None = None

    def observe(self, predicates: PredicateIndex, values: F8) -> None:
        """Have a sample of events, float64[events, attributes]."""
        self.sample = values
        self._find_out(predicates)

    def presence(self, attribute: int) -> float:
        """Return mu: the probability that an event has an attribute."""
        if self.sample is None or attribute >= self.sample.shape[1]:
            return 1.0
        return float(np.mean(~np.isnan(self.sample[:, attribute])))

    def nu(self, predicates: PredicateIndex) -> F8:
        """Return nu of each predicate, float64[at least bound]."""
        room = len(predicates.attribute)
        is_far = abs(predicates.count - self._count) * STALE_SHARE > self._count
        if len(self._nu) < room or is_far:
            self._find_out(predicates)
        elif predicates.bound > self._known:
            self._nu[self._known : predicates.bound] = 1.0 / max(predicates.count, 1)
            self._known = predicates.bound
        return self._nu

    def _find_out(self, predicates: PredicateIndex) -> None:
        bound = predicates.bound
        is_there = (predicates.references[:bound] > 0) & (predicates.comparison[:bound] == EQ)
        attribute = predicates.attribute[:bound]
        per_attribute = np.bincount(attribute[is_there], minlength=int(attribute.max(initial=0)) + 1)
        expected = 1.0 / np.maximum(per_attribute[attribute], 1)
        nu = np.ones(len(predicates.attribute))
        nu[:bound] = expected
        if self.sample is not None:
            hits = np.zeros(bound, np.int64)
            for row in self.sample:
                hits[predicates.satisfied(row)] += 1
            # Unseen is rare, not impossible.
            nu[:bound] = (hits + expected) / (len(self.sample) + 1)
        is_new: Any = len(nu) != len(self._nu) or not np.array_equal(nu, self._nu)
        self.epoch += int(is_new)
        self._nu, self._known, self._count = nu, bound, predicates.count
