"""The greedy choice of tables: RR-4089, section 3.2.3, over schemas by label and by cell.

From the slots on, the table with the greatest benefit per space is added until none has a benefit or none
fits the bound: a benefit for no space is infinite, ties go to the larger benefit. Three things are ours:
 - candidates are the whole of GA where it is small; else pairs, and extensions of tables already chosen;
   sets whose clauses cost too little today to pay for a table are never evaluated;
 - values are lazy: a benefit only falls as tables are added, so the first of the queue is renewed and taken
   when it is still the best (nearly the best, where GA is large);
 - tables that later ones have emptied of their use are taken out again, then more are looked for.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import numpy as np

from pubsub_cluster.shm.code_space import F8, I8
from pubsub_cluster.tuner.assignment import SAMPLE_CLAUSES, Sampled, model_table, sample_clauses
from pubsub_cluster.tuner.configuration import (
    BY_LABEL,
    EMPTY_CONFIGURATION,
    SCHEMA_ATTRIBUTES_MAX,
    Configuration,
    Problem,
    TableSchema,
)
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.cost import checking_of, fit_table, schema_rows, table_cost
from pubsub_cluster.tuner.slices import choose_slices
from pubsub_cluster.tuner.valuation import WORD_BYTES, Chosen, Value, all_groups, table_bytes

GROUPS_MAX = 1_000
"""GA is taken whole up to this many sets of ways."""

NEARLY = 0.9
"""Where GA is large, a table is added when its value is at least this share of what any other may have."""

LOOKS_MAX = 12
"""Where GA is large, values renewed between two additions; then the best of them is added (a random sample
of the candidates does nearly as well as all of them, and many are alike)."""

EVALUATIONS_MAX = 10_000
"""Tables that are valued where GA is large; the queue is in order, so its rest is worth little."""

TABLES_MAX = 1_024
ROUNDS_MAX = 3
SPACE_WEIGHT = 0.5
"""Weight of space (beta) in the number of slices where space is bounded."""


def choose_configuration(
    problem: Problem,
    constants: CostConstants = DEFAULT_CONSTANTS,
    max_bytes: int | None = None,
    clause_count_max: int = SAMPLE_CLAUSES,
    seed: int = 0,
) -> Configuration:
    """Choose the tables for a catalogue, from a sample of its clauses.

    Parameters
    ----------
    problem : Problem
    constants : CostConstants
    max_bytes : int, optional
        Bound of the hash areas and clusters, in the model's bytes; unbounded by default.
    clause_count_max : int
        Clauses looked at.
    seed : int
        Of the sample.
    """
    if not problem.clause_count:
        return EMPTY_CONFIGURATION
    slices = choose_slices(problem, 0.0 if max_bytes is None else SPACE_WEIGHT)
    sampled = sample_clauses(problem, slices, constants, clause_count_max=clause_count_max, seed=seed)
    search = Search(sampled, constants, max_bytes)
    search.run()
    used = {a for c in search.chosen for a, cell in zip(*c.schema, strict=True) if cell}
    kept = tuple(first if attribute in used else () for attribute, first in enumerate(slices))
    return Configuration(tuple(sorted(c.schema for c in search.chosen)), kept)


class Search:
    """The greedy loop on one sample.

    Parameters
    ----------
    sampled : Sampled
    constants : CostConstants
    max_bytes : int, optional

    Attributes
    ----------
    chosen : list of Chosen
    cost : float64[n]
        Of every sampled clause in its best place.
    size_bytes : float
        Of the best instance under the chosen tables, by the model.
    evaluated_count : int
        Tables whose benefit was worked out, repeats included.
    """

    def __init__(self, sampled: Sampled, constants: CostConstants, max_bytes: int | None = None) -> None:
        self._sampled, self._constants = sampled, constants
        self._max_bytes = np.inf if max_bytes is None else float(max_bytes)
        self._block, self._weight = sampled.block, sampled.weight
        self._can = (self._block.nu > 0).astype(np.float32)
        self._way_of = {row: way for way, row in sampled.row_of.items()}
        self._queue: list[tuple[float, float, int, int, TableSchema]] = []
        self._seen: set[TableSchema] = set()
        self._number = itertools.count()
        self._nearly = 1.0
        self._taken: set[TableSchema] = set()
        self.evaluated_count = 0
        self.chosen: list[Chosen] = []
        self._place()

    @property
    def total_cost(self) -> float:
        """Cost per event by D-04, nanoseconds, without what slots cost whatever is in them."""
        overhead = sum(table.model.overhead_ns for table in self.chosen)
        return float(self.cost @ self._weight) + overhead

    def costs(self) -> F8:
        """Return what every sampled clause costs, an even part of its table's overhead included."""
        in_table = np.flatnonzero(self._table >= 0)
        table = self._table[in_table]
        overhead = np.array([each.model.overhead_ns for each in self.chosen])
        members = np.bincount(table, self._weight[in_table], minlength=len(self.chosen))
        found = self.cost.copy()
        found[in_table] += (overhead / np.maximum(members, 1.0))[table]
        return found

    def run(self) -> None:
        """Add and take out tables until neither helps."""
        for _ in range(ROUNDS_MAX):
            self._queue.clear()
            self._taken = {table.schema for table in self.chosen}
            self._seen = set(self._taken)
            self._offer_groups()
            added = self._add_all()
            if not self._take_out() or not added:
                return

    def cost_with(self, schemas: Sequence[TableSchema]) -> float:
        """Make these tables the chosen ones, whatever they cost; return the cost per event."""
        self.chosen = [found[1] for schema in schemas if (found := self.evaluate(schema)) is not None]
        self._place()
        return self.total_cost

    def evaluate(self, schema: TableSchema) -> tuple[Value, Chosen] | None:
        """Work out what adding a table brings; None when no clause could be in it."""
        rows = self._sampled.rows(schema)
        if rows is None:
            return None
        self.evaluated_count += 1
        fit = fit_table(self._block, rows)
        if not len(fit.column):
            return None
        model = model_table(self._sampled, schema, fit, self._constants)
        label_count = schema.cells.count(BY_LABEL)
        cost = table_cost(self._block, fit, label_count, model, self._constants)
        gain = self.cost[fit.column] - cost
        moves = gain > 0.0
        column = fit.column[moves]
        weight = self._weight[column]
        benefit = float(gain[moves] @ weight) - model.overhead_ns
        words = fit.copies[moves] * (self._block.word_count[column] - label_count + 1.0)
        moved_bytes = WORD_BYTES * float((words - self._words[column]) @ weight)
        entries = float(fit.copies[moves] @ weight)
        added = moved_bytes + table_bytes(entries, model.key_count, model.radix)
        return Value(benefit, added), Chosen(schema, model, fit, cost)

    def _place(self) -> None:
        """Put every clause into its best place."""
        self.cost = self._block.cost.copy()
        self._words = np.maximum(self._block.word_count, 1.0)
        self._table = np.full(len(self.cost), -1)
        for number, table in enumerate(self.chosen):
            self._move(number, table)
        self.size_bytes = self._size()

    def _move(self, number: int, table: Chosen) -> None:
        better = table.cost < self.cost[table.fit.column]
        column = table.fit.column[better]
        self.cost[column] = table.cost[better]
        self._table[column] = number
        label_count = table.schema.cells.count(BY_LABEL)
        words = self._block.word_count[column] - label_count + 1.0
        self._words[column] = table.fit.copies[better] * words

    def _size(self) -> float:
        """Space by D-05, of what is in tables and slots now."""
        size = WORD_BYTES * float(self._words @ self._weight)
        for number, table in enumerate(self.chosen):
            mine = self._table[table.fit.column] == number
            entries = float(table.fit.copies[mine] @ self._weight[table.fit.column[mine]])
            size += table_bytes(entries, table.model.key_count, table.model.radix)
        return size

    def _offer_groups(self) -> None:
        """Queue the sets of ways that clauses have: all of them where they are few, else up to pairs."""
        groups = all_groups(self._can > 0, GROUPS_MAX, SCHEMA_ATTRIBUTES_MAX)
        if groups is not None:
            for group in groups:
                self._offer([self._way_of[row] for row in group])
            return
        self._nearly = NEARLY
        for row, way in self._way_of.items():
            self._offer([way])
            column = np.flatnonzero(self._block.nu[row])
            self._offer_extensions([way], column, self._block.nu[row][column].astype(np.float64))
        for table in self.chosen:
            self._offer_extensions(schema_rows(table.schema), table.fit.column, table.fit.nu)

    def _offer_extensions(self, ways: list[int], column: I8, nu: F8) -> None:
        """Queue a set of ways with one more each, at a quick estimate of the value.

        Parameters
        ----------
        ways : list of int
            Ascending.
        column : int64[m]
            Clauses of the sample that have all of them.
        nu : float64[m]
        """
        if len(ways) >= SCHEMA_ATTRIBUTES_MAX or not len(column):
            return
        constants, weight = self._constants, self._weight[column]
        cost = self.cost[column]
        pays = self._can[:, column] @ (cost * weight).astype(np.float32)
        pays[[row for row, way in self._way_of.items() if any(way >> 1 == one >> 1 for one in ways)]] = 0.0
        rows = np.flatnonzero(pays > constants.table_ns)
        if not len(rows):
            return
        with_row = self._block.nu[rows][:, column]
        label_count = sum(1 for way in ways if not way & 1)
        known = [self._sampled.row_of[way] for way in ways]
        key_count = float(np.prod(self._sampled.distinct[known])) * self._sampled.distinct[rows]
        radix = float(np.prod(self._sampled.radix[known])) * self._sampled.radix[rows]
        clusters = np.maximum(key_count, 1.0) * self._sampled.shapes
        load = np.maximum((with_row > 0.0) @ weight / clusters, 1e-9)
        levels, level = np.unique(np.rint(np.log2(load)), return_inverse=True)
        entry_ns = np.array(
            [checking_of(self._block, column, label_count, 2.0**one, constants) for one in levels.tolist()]
        )
        gain = np.where(with_row > 0.0, cost - with_row * nu * entry_ns[level.reshape(-1)], 0.0)
        moves = gain > 0.0
        gained, entries = np.where(moves, gain, 0.0) @ weight, moves @ weight
        before = self._words[column]
        words = moves @ (weight * (self._block.word_count[column] - label_count + 1.0 - before)) - entries
        is_cell = np.array([self._way_of[row] & 1 for row in rows.tolist()], bool)
        words += np.where(is_cell, entries, 0.0)
        for at, row in enumerate(rows.tolist()):
            if (schema := self._new_schema([*ways, self._way_of[row]])) is None:
                continue
            added = WORD_BYTES * float(words[at])
            added += table_bytes(float(entries[at]), float(key_count[at]), float(radix[at]))
            benefit = float(gained[at]) - self._least_overhead(schema)
            self._push(Value(benefit, added), schema, -1)

    def _least_overhead(self, schema: TableSchema) -> float:
        """Return a table's overhead as if its attributes were independent and had one value."""
        present = self._sampled.problem.present[list(schema.attributes)]
        probes = 1.5 ** sum(schema.cells)
        probe_ns = self._constants.probe_of(len(schema.attributes), sum(schema.cells))
        return float(self._constants.table_ns * present.min() + np.prod(present) * probes * probe_ns)

    def _new_schema(self, ways: list[int]) -> TableSchema | None:
        """Return the schema of some ways when it may be a table and was not offered before."""
        ordered = sorted(ways)
        schema = TableSchema(tuple(way >> 1 for way in ordered), tuple(way & 1 for way in ordered))
        is_slot = len(ordered) == 1 and schema.cells[0] == BY_LABEL
        if is_slot or len(set(schema.attributes)) < len(ordered) or schema in self._seen:
            return None
        self._seen.add(schema)
        return schema

    def _offer(self, ways: list[int]) -> None:
        """Queue a schema once, with its present value."""
        schema = self._new_schema(ways)
        if schema is not None and (found := self.evaluate(schema)) is not None:
            self._push(found[0], schema, len(self.chosen))

    def _push(self, value: Value, schema: TableSchema, stamp: int) -> None:
        """Queue a schema; `stamp`: how many tables there were when it was valued, -1 for an estimate."""
        if value.benefit > 0.0:
            item = (-value.per_space, -value.benefit, next(self._number), stamp, schema)
            heapq.heappush(self._queue, item)

    def _add_all(self) -> int:
        """Add the best table until none is left; return how many were added."""
        added = looked_at = 0
        best: tuple[float, float, TableSchema] | None = None
        while self._queue and len(self.chosen) < TABLES_MAX:
            if self._nearly < 1.0 and self.evaluated_count >= EVALUATIONS_MAX:
                break
            _, _, _, stamp, schema = heapq.heappop(self._queue)
            if schema in self._taken or (found := self.evaluate(schema)) is None:
                continue
            value, table = found
            if stamp < len(self.chosen) and not self._is_first(value):
                self._push(value, schema, len(self.chosen))
                best = max(best or (0.0, 0.0, schema), (value.per_space, value.benefit, schema))
                looked_at += 1
                if self._nearly == 1.0 or looked_at < LOOKS_MAX or best[0] <= 0.0:
                    continue
                renewed = self.evaluate(best[2])
                if renewed is None:
                    continue
                value, table = renewed
            if self._add(value, table):
                added, looked_at, best = added + 1, 0, None
        return added

    def _add(self, value: Value, table: Chosen) -> bool:
        """Add a table if it has a benefit and fits."""
        self._taken.add(table.schema)
        if value.benefit <= 0.0 or self.size_bytes + value.added_bytes > self._max_bytes:
            return False
        self._move(len(self.chosen), table)
        self.chosen.append(table)
        self.size_bytes += value.added_bytes
        if self._nearly < 1.0:
            self._offer_extensions(schema_rows(table.schema), table.fit.column, table.fit.nu)
        return True

    def _is_first(self, value: Value) -> bool:
        """Say whether a value is as good as any that the queue may still hold."""
        if value.benefit <= 0.0 or not self._queue:
            return value.benefit > 0.0
        per_space, benefit = -self._queue[0][0], -self._queue[0][1]
        if value.per_space == per_space:
            return value.benefit >= self._nearly * benefit
        return value.per_space > self._nearly * per_space

    def _take_out(self) -> int:
        """Take out tables that cost more than they save beside the others; return how many."""
        before = len(self.chosen)
        share = 1.0
        while self.chosen:
            saving = self._savings()
            order = np.argsort(saving)
            losing = order[saving[order] < 0.0]
            if not len(losing):
                break
            kept, cost = self.chosen, self.total_cost
            out = set(losing[: max(1, int(len(losing) * share))].tolist())
            self.chosen = [table for number, table in enumerate(kept) if number not in out]
            self._place()
            if self.total_cost > cost or self.size_bytes > self._max_bytes:
                self.chosen = kept
                self._place()
                if len(out) == 1:
                    break
                share /= 2.0
        return before - len(self.chosen)

    def _savings(self) -> F8:
        """Return per table what the cost would rise by without it (negative: it would fall)."""
        number_of = [np.full(len(table.cost), number) for number, table in enumerate(self.chosen)]
        everyone: I8 = np.arange(len(self.cost))
        column = np.concatenate([everyone, *(table.fit.column for table in self.chosen)])
        cost = np.concatenate([self._block.cost, *(table.cost for table in self.chosen)])
        number = np.concatenate([np.full(len(everyone), -1), *number_of])
        order = np.lexsort((cost, column))
        first = np.searchsorted(column[order], everyone)
        second = np.minimum(first + 1, len(order) - 1)
        has_second = column[order[second]] == everyone
        rise = np.where(has_second, cost[order[second]] - cost[order[first]], 0.0)
        best = number[order[first]]
        rise *= self._weight
        saved = np.bincount(best[best >= 0], rise[best >= 0], minlength=len(self.chosen))
        overhead = np.array([table.model.overhead_ns for table in self.chosen])
        return np.asarray(saved - overhead)
