"""The dynamic algorithm of RR-4089, section 4: tables come and go with subscriptions and events.

Metrics, as the report approximates them: the benefit margin BM(c) = nu(p_c) * |c|, the benefit B(H) = |H|,
the reparation power RP(H, C') = |Dmove(H, C')|. Three situations call for something:

 1. BM(c) reaches BMmax: its subscriptions go to the existing tables of their greatest benefit; clusters that
    receive some and are then in situation 1 follow. What stays too high is to be repaired.
 2. B(H) falls below Bmin: the table is removed, its subscriptions go to the best of the others.
 3. A table that is not there has a reparation power of RPmin for the clusters to be repaired: it is created,
    and takes over what is better off in it.

Where the report leaves a choice: of several tables in situation 3 the one that saves most is created, and
only if somebody moves to it; a move needs a strictly lower nu, so that equal tables exchange nobody; slots
are never removed. Redistribution ends because everybody moves straight to the best place: a cluster is gone
through once per set of tables and statistics, and a second time nobody would move.

Pure: it decides what is to move, in columns, and says why; layouts are built elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.clustering import BETTER, Clustering, Places
from pubsub_cluster.tuner.configuration import Bools
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.messages import Thresholds
from pubsub_cluster.tuner.reparation import Reparation
from pubsub_cluster.tuner.thresholds import EXCESS_SHARE, KEEP_SHARE, Prices

CREATED, REMOVED, REDISTRIBUTED = "table created", "table removed", "redistributed"
SAMPLE_PER_TABLE = 1_024
"""Subscriptions of a table that are asked what they would lose without it."""

CHANGE_SHARE = 8
"""They are asked again when one in so many has come or gone."""

_NONE = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Decision:
    """One decision with the figures that led to it.

    Attributes
    ----------
    kind : str
        `CREATED`, `REMOVED` or `REDISTRIBUTED`.
    ways : tuple of int
        Schema of the table, ``2 * attribute + by_cell``; empty for a redistribution.
    figures : dict
        Metric and threshold by name, and what follows: JSON can carry it.
    moved : int64[m]
        Subscriptions that moved.
    left, entered : int32[]
        Clusters that they left and that they are in now; ascending.
    """

    kind: str
    ways: tuple[int, ...]
    figures: dict[str, float]
    moved: I8 = field(repr=False)
    left: I4 = field(repr=False)
    entered: I4 = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return what a log keeps."""
        return {
            "kind": self.kind,
            "ways": list(self.ways),
            **{name: round(value, 6) for name, value in self.figures.items()},
            "moved": len(self.moved),
            "clusters_left": len(self.left),
            "clusters_entered": len(self.entered),
        }


class DynamicClustering:
    """Subscriptions in clusters, and the maintenance of these.

    Parameters
    ----------
    clustering : Clustering
        May hold subscriptions and tables already.
    constants : CostConstants
        Of this machine, for the thresholds that nobody has set.
    thresholds : Thresholds

    Attributes
    ----------
    clustering : Clustering
        To be read; changed through this object only.
    """

    def __init__(
        self,
        clustering: Clustering,
        constants: CostConstants = DEFAULT_CONSTANTS,
        thresholds: Thresholds | None = None,
    ) -> None:
        self.clustering = clustering
        self._prices = Prices(constants)
        self._thresholds = thresholds or Thresholds()
        self._reparation = Reparation(clustering)
        self._candidate: Bools = np.zeros(0, bool)
        self._settled: I8 = np.zeros(0, np.int64)
        self._epoch = 1
        self._lost: dict[int, tuple[float, float]] = {}
        self._changes: I8 = np.zeros(0, np.int64)  # of each schema since it was asked for `_lost`

    @property
    def thresholds(self) -> Thresholds:
        """What was set; may be replaced at any time, and holds from the next `maintain` on."""
        return self._thresholds

    @thresholds.setter
    def thresholds(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds

    def insert(self, start: I8, atom: I4, size: I4) -> I8:
        """Add subscriptions; as `Clustering.insert`."""
        numbers = self.clustering.insert(start, atom, size)
        self._count(numbers, 1)
        return numbers

    def remove(self, numbers: I8) -> None:
        """Take subscriptions out; as `Clustering.remove`."""
        self._count(numbers, -1)
        self.clustering.remove(numbers)

    def set_statistics(
        self, atom_way: I4, atom_nu: F8, present: F8, constants: CostConstants | None = None
    ) -> None:
        """Take new statistics of events, and atoms behind those there were; nobody moves before `maintain`.

        Parameters
        ----------
        atom_way, atom_nu, present
            As of `Clustering`; at least as many as before.
        constants : CostConstants, optional
            Measured anew.
        """
        self.clustering.set_statistics(atom_way, atom_nu, present)
        if constants is not None:
            self._prices = Prices(constants)
        self._reparation.clear()
        self._candidate[:] = False
        self._epoch += 1
        self._lost.clear()

    def add_atoms(self, atom_way: I4, atom_nu: F8, present: F8) -> None:
        """Take atoms behind those there were, whose statistics stay; as `set_statistics`."""
        self.clustering.add_atoms(atom_way, atom_nu, present)
        if self._reparation.is_outgrown():
            self._reparation.clear()
            self._candidate[:] = False

    def maintain(self) -> list[Decision]:
        """Run both phases; return what was decided, in order."""
        books = self.clustering
        decisions = self._redistribute(self.in_excess())
        while (losing := self._table_to_remove()) is not None:
            table, figures = losing
            numbers = books.drop_table(table)
            self._lost.clear()
            moved = self._move(numbers, books.best(numbers))
            decisions.append(Decision(REMOVED, books.ways(table), figures, *moved))
            received = np.zeros(len(books.cluster_count), bool)
            received[moved[2]] = True
            decisions += self._redistribute(self.in_excess() & received)
        self._update_candidates()
        while (wanted := self._table_to_create()) is not None:
            decisions.append(self._create(*wanted))
        return decisions

    def margin(self) -> F8:
        """Return BM of every cluster (float64[C])."""
        return np.asarray(self.clustering.cluster_nu * self.clustering.cluster_count)

    def margin_max(self) -> F8:
        """Return the threshold of every schema (float64[S]): BMmax for its clusters."""
        books = self.clustering
        if self._thresholds.bm_max is not None:
            return np.full(len(books.schema_count), self._thresholds.bm_max)
        filled = books.cluster_schema[books.cluster_count > 0]
        count = np.bincount(filled, minlength=len(books.schema_count))
        price = self._prices.next_table(books, books.schema_way)
        return np.asarray(EXCESS_SHARE * price / np.maximum(count, 1))

    def in_excess(self) -> Bools:
        """Return which clusters are in situation 1 (bool[C])."""
        books = self.clustering
        margin = self.margin()
        return np.asarray((margin > 0.0) & (margin >= self.margin_max()[books.cluster_schema]))

    def power(self, schema: int) -> int:
        """Return RP of a candidate table for the clusters to be repaired."""
        return int(self._reparation.power[schema]) if schema < len(self._reparation.power) else 0

    @property
    def to_repair(self) -> Bools:
        """Clusters that no existing table can relieve (bool[C])."""
        self._make_room()
        return self._candidate.copy()

    def _redistribute(self, excess: Bools) -> list[Decision]:
        """Move everybody in these clusters to the best place, and so on with those that receive too many."""
        books = self.clustering
        all_moved = []
        first_margin = float(self.margin()[excess].sum()) if excess.any() else 0.0
        while True:
            self._make_room()
            excess = excess & (self._settled[: len(excess)] != self._epoch)
            if not excess.any():
                break
            self._settled[: len(excess)][excess] = self._epoch
            numbers = books.members(_padded(excess, len(books.cluster_count)))
            places = books.best(numbers)
            better = np.flatnonzero(places.nu < books.nu_of(numbers) * BETTER)
            if not len(better):
                break
            moved = self._move(numbers[better], places.pick(better))
            all_moved.append(moved)
            received = np.zeros(len(books.cluster_count), bool)
            received[moved[2]] = True
            excess = self.in_excess() & received
        if not all_moved:
            return []
        numbers, left, entered = (np.unique(np.concatenate(part)) for part in zip(*all_moved, strict=True))
        figures = {
            "margin": first_margin,
            "margin_max": float(self.margin_max()[books.cluster_schema[left]].min()),
        }
        return [Decision(REDISTRIBUTED, (), figures, numbers, left, entered)]

    def _move(self, numbers: I8, places: Places) -> tuple[I8, I4, I4]:
        """Move subscriptions; return them with the clusters that they left and that they are in."""
        books = self.clustering
        left = np.unique(books.cluster[numbers])
        self._count(numbers, -1)
        books.move(numbers, places)
        self._count(numbers, 1)
        return numbers, left, np.unique(books.cluster[numbers])

    def _count(self, numbers: I8, sign: int) -> None:
        """Count who comes and goes; add to reparation powers what lies in clusters to be repaired."""
        self._make_room()
        books = self.clustering
        schema = books.cluster_schema[books.cluster[numbers]]
        self._changes += np.bincount(schema, minlength=len(self._changes))
        mine = numbers[self._candidate[self.clustering.cluster[numbers]]]
        if len(mine):
            self._reparation.add(mine, sign)

    def _make_room(self) -> None:
        count = len(self.clustering.cluster_count)
        self._candidate = _padded(self._candidate, count)
        self._settled = np.append(self._settled, np.zeros(count - len(self._settled), np.int64))
        schema_count = len(self.clustering.schema_count)
        self._changes = np.append(self._changes, np.zeros(schema_count - len(self._changes), np.int64))

    def _update_candidates(self) -> None:
        """Let clusters in situation 1 be candidates for repair, and no others."""
        self._make_room()
        excess = self.in_excess()
        joined, gone = excess & ~self._candidate, self._candidate & ~excess
        if gone.any():
            self._reparation.add(self.clustering.members(gone), -1)
        if joined.any():
            self._reparation.add(self.clustering.members(joined))
        self._candidate = excess

    def _table_to_remove(self) -> tuple[int, dict[str, float]] | None:
        """Return the table that is furthest below Bmin (situation 2), with its figures."""
        books, worst = self.clustering, None
        least = 1.0
        margins = self._losses() if self._thresholds.b_min is None else {}
        for table in books.tables:
            benefit = int(books.schema_count[table])
            figures = {"benefit": float(benefit)}
            if self._thresholds.b_min is not None:
                b_min = self._thresholds.b_min
            elif benefit == 0:
                b_min = 1.0
            else:
                loss, nu = margins[table]
                price = float(self._price(np.array([table]), np.array([nu * benefit]))[0])
                b_min = KEEP_SHARE * price / max(loss, 1e-300)
                figures |= {"price": price, "loss_per_subscription": loss}
            share = benefit / b_min if b_min > 0.0 else 1.0
            if benefit < b_min and share < least:
                least, worst = share, (table, {**figures, "benefit_min": b_min})
        return worst

    def _losses(self) -> dict[int, tuple[float, float]]:
        """Return per table the mean of what its subscriptions would lose without it, and of their nu."""
        books = self.clustering
        count = books.schema_count
        stale = [
            table
            for table in books.tables
            if count[table]
            and (table not in self._lost or self._changes[table] * CHANGE_SHARE > count[table])
        ]
        if stale:
            is_stale = np.zeros(len(count), bool)
            is_stale[stale] = True
            numbers = books.members(is_stale[books.cluster_schema])
            schema = books.cluster_schema[books.cluster[numbers]]
            order = np.argsort(schema.astype(np.int16 if len(count) < 1 << 15 else np.int32), kind="stable")
            ordered = schema[order]
            begin = np.cumsum(np.append(0, np.bincount(ordered, minlength=len(count))[:-1]))
            step = np.maximum(count // SAMPLE_PER_TABLE, 1)
            picked = order[(np.arange(len(order)) - begin[ordered]) % step[ordered] == 0]
            numbers, schema = numbers[picked], schema[picked]
            nu = books.nu_of(numbers)
            loss = np.maximum(books.best(numbers, without=schema).nu - nu, 0.0)
            held = np.maximum(np.bincount(schema, minlength=len(count)), 1)
            mean_loss = np.bincount(schema, loss, len(count)) / held
            mean_nu = np.bincount(schema, nu, len(count)) / held
            for table in stale:
                self._lost[table] = float(mean_loss[table]), float(mean_nu[table])
            self._changes[stale] = 0
        return {table: self._lost[table] for table in books.tables if table in self._lost}

    def _price(self, schemas: I8, nu_sum: F8) -> F8:
        books = self.clustering
        return np.asarray(
            self._prices.probing(books, books.schema_way[schemas]) + self._prices.finding(nu_sum)
        )

    def _table_to_create(self) -> tuple[int, dict[str, float]] | None:
        """Return the candidate in situation 3 that saves most, with its figures."""
        books, sums, set_ = self.clustering, self._reparation, self._thresholds
        could = np.flatnonzero(sums.mover_count > 0)
        ways = books.schema_way[could]
        size = (ways >= 0).sum(axis=1)
        is_slot = (size == 0) | ((size == 1) & (ways[:, 0] % 2 == 0))
        twice = ((ways[:, 1:] >= 0) & (ways[:, 1:] >> 1 == ways[:, :-1] >> 1)).any(axis=1)
        could = could[~(is_slot | twice | np.isin(could, books.tables))]
        if not len(could):
            return None
        saved, power, movers = sums.saved[could], sums.power[could], sums.mover_count[could]
        price = self._price(could, sums.checked[could] - saved)
        rp_min = price * power / np.maximum(saved, 1e-300)
        if set_.rp_min is not None:
            rp_min = np.full(len(could), set_.rp_min)
        enough = (power >= rp_min) & (movers >= (set_.b_min or 1.0))
        if not enough.any():
            return None
        best = int(np.argmax(np.where(enough, saved - price, -np.inf)))
        figures = {
            "power": float(power[best]),
            "power_min": float(rp_min[best]),
            "saves": float(saved[best]),
            "price": float(price[best]),
            "clusters_to_repair": float(self._candidate.sum()),
        }
        return int(could[best]), figures

    def _create(self, schema: int, figures: dict[str, float]) -> Decision:
        """Make a table and move to it what is better off there, of the clusters to be repaired."""
        books = self.clustering
        books.add_table(schema)
        candidates = np.flatnonzero(self._candidate)
        settled = self._settled[candidates] == self._epoch
        numbers, places = books.places_in(books.members(self._candidate), schema)
        better = np.flatnonzero(places.nu < books.nu_of(numbers) * BETTER)
        moved = self._move(numbers[better], places.pick(better))
        self._epoch += 1
        self._settled[candidates[settled]] = self._epoch  # all who are better off in the new table are there
        self._lost.clear()
        self._update_candidates()
        return Decision(CREATED, books.ways(schema), figures, *moved)


def _padded(column: Bools, count: int) -> Bools:
    return np.append(column, np.zeros(count - len(column), bool))
