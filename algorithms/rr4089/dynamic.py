"""Dynamic: tables come and go with subscriptions and statistics.

Source: RR-4089 section 4 (D-09 to D-13). After each change, phase 1 moves the subscriptions of clusters whose
benefit margin BM = nu * size reaches `margin_max` to better tables, and removes tables of fewer than
`benefit_min`; phase 2 creates the table with the greatest reparation power, the number of subscriptions of
clusters still too high that would move to it, while one has `power_min`.

Readings: to be counted a move must lower nu, not keep it, or tables would be made to which nobody moves;
single equality predicates are never removed; clusters are gone through again only when tables or statistics
have changed, since an insertion chooses the best table anyway: so nobody is moved twice in vain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4, ConjunctionMatcher
from pubsub_cluster.algorithms.rr4089 import cluster_kernels as ck
from pubsub_cluster.algorithms.rr4089.propagation import PREFETCHED
from pubsub_cluster.algorithms.rr4089.schema_kernels import MOVERS
from pubsub_cluster.algorithms.rr4089.schemas import Schemas
from pubsub_cluster.algorithms.rr4089.two_phase import Clustered
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

NOBODY = np.zeros(0, np.int32)


class Thresholds(NamedTuple):
    """The report gives no values; these suit domains of some tens of values.

    Attributes
    ----------
    margin_max : float
        BMmax: expected checks of a cluster per event.
    benefit_min : float
        Bmin: subscriptions of a table.
    power_min : float
        RPmin: subscriptions that would move to a new table.
    """

    margin_max: float = 0.1
    benefit_min: float = 10_000.0
    power_min: float = 50_000.0


THRESHOLDS = Thresholds()


class Done(NamedTuple):
    """What maintenance has done so far.

    Attributes
    ----------
    created, removed : list of tuple of int
        Attributes of tables.
    moved : int
        Moves of subscriptions.
    """

    created: list[tuple[int, ...]]
    removed: list[tuple[int, ...]]
    moved: int


class Dynamic(Clustered):
    """See the module.

    Parameters
    ----------
    thresholds : Thresholds

    Attributes
    ----------
    thresholds : Thresholds
        May be replaced; holds from the next change on.
    done : Done
    """

    def __init__(self, thresholds: Thresholds = THRESHOLDS) -> None:
        super().__init__(PREFETCHED)
        self.thresholds = thresholds
        self.done = Done([], [], 0)
        self._schemas = Schemas(self.clusters)
        self._epoch = 1
        self._seen = -1

    @property
    def candidates(self) -> I4:
        """Return the clusters that no existing table can relieve."""
        held = self.clusters.held
        rows = held.clusters[: held.counts[ck.CLUSTERS], ck.CANDIDATE]
        return np.flatnonzero(rows).astype(np.int32)

    def adopt(self, tables: list[tuple[int, ...]]) -> None:
        """Begin with tables; there are no subscriptions yet."""
        for attributes in tables:
            self.clusters.add_table(attributes)

    def _settle(self, numbers: I4) -> None:
        self._schemas, self._epoch, self._seen = Schemas(self.clusters), 1, -1
        self.clusters.put(numbers)
        self._changed(NOBODY, NOBODY)

    def _leaving(self, numbers: I4) -> None:
        self._schemas.weigh(self._in_candidates(numbers), -1)

    def _changed(self, numbers: I4, rows: I4) -> None:
        held = self.clusters.held
        if self._seen != self.clusters.statistics.epoch:
            self._take_statistics()
            rows = np.arange(self.clusters.held.counts[ck.CLUSTERS], dtype=np.int32)
        else:
            self._schemas.weigh(self._in_candidates(numbers), 1)
            rows = np.unique(np.append(rows, held.cluster[numbers]))
        self._redistribute(rows)
        self._remove_tables()
        self._repair()

    def _take_statistics(self) -> None:
        """Forget what followed from other probabilities."""
        held = self.clusters.held
        self._seen = self.clusters.statistics.epoch
        self._schemas.clear()
        held.clusters[:, ck.CANDIDATE] = 0
        self._epoch += 1

    def _in_candidates(self, numbers: I4) -> I4:
        held = self.clusters.held
        found: I4 = numbers[held.clusters[held.cluster[numbers], ck.CANDIDATE] != 0]
        return found

    def _move(self, numbers: I4) -> I4:
        """Put subscriptions where they are best off now; return the clusters that they left or entered."""
        held = self.clusters.held
        left = held.cluster[numbers].copy()
        self._schemas.weigh(self._in_candidates(numbers), -1)
        self.clusters.put(numbers)
        self._schemas.weigh(self._in_candidates(numbers), 1)
        self.done = self.done._replace(moved=self.done.moved + len(numbers))
        return np.unique(np.append(left, self.clusters.held.cluster[numbers]))

    def _redistribute(self, rows: I4) -> None:
        """Phase 1, situation 1, for clusters that have changed; what stays too high becomes a candidate."""
        while len(rows):
            held = self.clusters.held
            is_high = self._schemas.margins(rows) >= self.thresholds.margin_max
            is_candidate = held.clusters[rows, ck.CANDIDATE] != 0
            high, relieved = rows[is_high], rows[~is_high & is_candidate]
            self._schemas.weigh(self.clusters.members(relieved), -1)
            held.clusters[relieved, ck.CANDIDATE] = 0
            new = high[held.clusters[high, ck.EPOCH] != self._epoch]
            held.clusters[new, ck.EPOCH] = self._epoch
            movers = self._schemas.better_off(self.clusters.members(new))
            received = self._move(movers) if len(movers) else NOBODY
            held = self.clusters.held
            still = self._schemas.margins(high) >= self.thresholds.margin_max
            joined = high[still & (held.clusters[high, ck.CANDIDATE] == 0)]
            held.clusters[joined, ck.CANDIDATE] = 1
            self._schemas.weigh(self.clusters.members(joined), 1)
            rows = received

    def _remove_tables(self) -> None:
        """Phase 1, situation 2."""
        clusters = self.clusters
        for attributes in clusters.tables:
            table = clusters.name_table(attributes)
            if clusters.held.population[table] < self.thresholds.benefit_min:
                numbers = clusters.drop_table(attributes)
                self.done.removed.append(attributes)
                self._redistribute(self._move(numbers))

    def _repair(self) -> None:
        """Phase 2: create tables while one has enough reparation power (situation 3)."""
        clusters = self.clusters
        while True:
            masks, sums = self._schemas.sums()
            power = sums[:, MOVERS]
            if not len(masks) or power.max() < max(self.thresholds.power_min, 1.0):
                return
            best = int(masks[np.flatnonzero(power == power.max())].min())
            attributes = clusters.schema_of(best)
            movers = self._movers_to(clusters.name_table(attributes))
            assert len(movers) == round(power.max())
            candidates, held = self.candidates, clusters.held
            settled = candidates[held.clusters[candidates, ck.EPOCH] == self._epoch]
            clusters.add_table(attributes)
            self.done.created.append(attributes)
            self._epoch += 1
            rows = self._move(movers)
            clusters.held.clusters[settled, ck.EPOCH] = self._epoch  # who is better off there is there now
            self._redistribute(rows)

    def _movers_to(self, table: int) -> I4:
        return self._schemas.movers_to(table, self.clusters.members(self.candidates))


def matcher(schema: Schema = EMPTY_SCHEMA) -> ConjunctionMatcher:
    """Return the matcher."""
    return ConjunctionMatcher("dynamic", Dynamic, schema)
