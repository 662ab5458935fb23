"""Static: tables of several attributes, chosen by the greedy algorithm from a cost model.

Source: RR-4089 section 3 (D-04 to D-08). It begins with the single equality predicates, and adds the table
with the greatest benefit per unit of space until none has any, or the next would not fit. The report
recomputes the best instance for each candidate; here each subscription's share in all candidates is kept as a
sum, and those who move are taken out and in again: the same choice, at the cost of the moves. Schemas have
at most `WIDTH_MAX` attributes. Later subscriptions go to the best table that is there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4, ConjunctionMatcher
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

        The bytes ask for the number of accesses, which is counted for those only that could be the best: with
        a single access their value would be higher than the best one's.
        """
        clusters, costs = self.clusters, self._costs
        masks, sums = schemas.sums()
        found = [clusters.schema_of(int(mask)) for mask in masks]
        self.steps += len(found)
        presence = clusters.statistics.presence
        price = [costs.table(len(one), math.prod(map(presence, one))) for one in found]
        benefit = sums[:, GAIN] - np.array(price)
        least = costs.table_bytes + costs.access_bytes - costs.reference_bytes * sums[:, SAVED]
        live = set(clusters.tables)
        able = [at for at in range(len(found)) if benefit[at] > 0.0 and found[at] not in live]
        able.sort(key=lambda at: (-_value(benefit[at], least[at]), -benefit[at], found[at]))
        best: tuple[float, float, int, I4, float] | None = None
        for at in able:
            if best is not None and (_value(benefit[at], least[at]), benefit[at]) <= best[:2]:
                break
            table = clusters.name_table(found[at])
            movers = schemas.movers_to(table, numbers)
            more = schemas.keys_in(table, movers) - 1
            added = float(least[at] + costs.access_bytes * more)
            value = _value(benefit[at], added)
            if best is None or (value, benefit[at]) > best[:2]:
                best = value, float(benefit[at]), at, movers, added
        if best is None:
            return None
        assert len(best[3]) == round(sums[best[2], MOVERS])
        return found[best[2]], best[3], best[4]


def _value(benefit: Any, added: Any) -> float:
    """Return the benefit per unit of space; infinite where space is saved."""
    return math.inf if added <= 0.0 else float(benefit / added)


def matcher(schema: Schema = EMPTY_SCHEMA) -> ConjunctionMatcher:
    """Return the matcher."""
    return ConjunctionMatcher("static", Static, schema)
