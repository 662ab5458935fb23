"""Static: tables of several attributes, chosen by the greedy algorithm from a cost model.

Source: RR-4089 section 3 (D-04 to D-08). It begins with the single equality predicates, and adds the table
with the greatest benefit per unit of space until none has any, or the next would not fit. The report
recomputes the best instance for each candidate; here each subscription's share in all candidates is kept as a
sum, and those who move are taken out and in again: the same choice, at the cost of the moves. The number of
accesses of a candidate is the expected one. Schemas have
at most four attributes (`schema_kernels`). Later subscriptions go to the best table that is there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4, ConjunctionMatcher
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.predicate_kernels import EQ
from pubsub_cluster.algorithms.rr4089.cluster_kernels import ACCESS
from pubsub_cluster.algorithms.rr4089.cost import COSTS, Costs
from pubsub_cluster.algorithms.rr4089.propagation import PREFETCHED
from pubsub_cluster.algorithms.rr4089.schema_kernels import GAIN, MOVERS, SAVED
from pubsub_cluster.algorithms.rr4089.schemas import Schemas
from pubsub_cluster.algorithms.rr4089.two_phase import Clustered
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class Static(Clustered):
    """See the module.

    Parameters
    ----------
    costs : Costs
    space_max : float
        Maxsize, bytes of the cost model.

    Attributes
    ----------
    steps : int
        Candidates that the greedy algorithm has weighed.
    space : float
        Bytes of the clustering, by the cost model.
    """

    def __init__(self, costs: Costs = COSTS, space_max: float = math.inf) -> None:
        super().__init__(PREFETCHED, costs.predicate)
        self._costs, self._space_max = costs, space_max
        self.steps, self.space = 0, 0.0

    def _settle(self, numbers: I4) -> None:
        clusters = self.clusters
        clusters.put(numbers)
        self.space = self._first_space(numbers)
        self.steps = 0
        schemas = Schemas(clusters)
        schemas.weigh(numbers, 1)
        while self.space < self._space_max and (best := self._best(schemas, numbers)) is not None:
            attributes, movers, added = best
            if self.space + added > self._space_max:
                break
            schemas.weigh(movers, -1)
            clusters.add_table(attributes)
            clusters.put(movers)
            schemas.weigh(movers, 1)
            self.space += added

    def _first_space(self, numbers: I4) -> float:
        size = self.store.size[numbers]
        return self._costs.reference_bytes * float(size.sum() - np.count_nonzero(self.has_access(numbers)))

    def has_access(self, numbers: I4) -> npt.NDArray[np.bool_]:
        """Return which subscriptions have an access predicate, bool[k]."""
        held = self.clusters.held
        found: npt.NDArray[np.bool_] = held.clusters[held.cluster[numbers], ACCESS] != 0
        return found

    def _best(self, schemas: Schemas, numbers: I4) -> tuple[tuple[int, ...], I4, float] | None:
        """Return the schema of greatest benefit per unit of space, who moves, the bytes added (D-07).

        Of two that save space the one of greater benefit is better, then the first in order.
        """
        clusters, costs = self.clusters, self._costs
        masks, sums = schemas.sums()
        found = [clusters.schema_of(int(mask)) for mask in masks]
        self.steps += len(found)
        presence = clusters.statistics.presence
        price = [costs.table(len(one), math.prod(map(presence, one))) for one in found]
        benefit = sums[:, GAIN] - np.array(price)
        added = self._added_bytes(found, sums)
        live = set(clusters.tables)
        able = [at for at in range(len(found)) if benefit[at] > 0.0 and found[at] not in live]
        if not able:
            return None
        best = min(able, key=lambda at: (-_value(benefit[at], added[at]), -benefit[at], found[at]))
        movers = schemas.movers_to(clusters.name_table(found[best]), numbers)
        assert len(movers) == round(sums[best, MOVERS])
        return found[best], movers, float(added[best])

    def _added_bytes(self, schemas: list[tuple[int, ...]], sums: F8) -> F8:
        """Return what each table would add: accesses, less references saved."""
        predicates, costs = self.store.predicates, self._costs
        is_equal = predicates.comparison[: predicates.bound] == EQ
        each = np.bincount(predicates.attribute[: predicates.bound][is_equal]).astype(np.float64)
        most = np.array([math.prod(each[list(one)].tolist()) for one in schemas])
        accesses = most * -np.expm1(-sums[:, MOVERS] / np.maximum(most, 1.0))
        added: F8 = costs.table_bytes + costs.access_bytes * accesses - costs.reference_bytes * sums[:, SAVED]
        return added


def _value(benefit: Any, added: Any) -> float:
    """Return the benefit per unit of space; infinite where space is saved."""
    return math.inf if added <= 0.0 else float(benefit / added)


def matcher(schema: Schema = EMPTY_SCHEMA) -> ConjunctionMatcher:
    """Return the matcher."""
    return ConjunctionMatcher("static", Static, schema)
