"""Tables that are kept from one generation to the next: the dynamic algorithm on a catalogue.

The first generation's tables are the greedy's choice. From then on `tuner.dynamic` follows the clauses that
have come and gone since the last one, and the events; what it decides is told with the figures behind it.
Equalities, by catalogue predicate, are its atoms, so it knows nothing of a layout's numbers.

The greedy chooses anew where change at the margin is no good description: when most clauses are new, when the
sample of events has become much better, where ranges are looked up by cell (cells are cut in labels, which
every layout numbers anew), and where the columns would take too much memory beside the catalogue.

Tables that an operator has frozen (`tuner.frozen`) are used as they are; nothing is followed meanwhile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.builder import Work
from pubsub_cluster.tuner.choice import choose_tables
from pubsub_cluster.tuner.clustering import Clustering
from pubsub_cluster.tuner.configuration import (
    BY_LABEL,
    EMPTY_CONFIGURATION,
    Bools,
    Configuration,
    TableSchema,
)
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants
from pubsub_cluster.tuner.dynamic import REDISTRIBUTED, Decision, DynamicClustering
from pubsub_cluster.tuner.frozen import frozen_configuration
from pubsub_cluster.tuner.messages import FrozenTable, Thresholds
from pubsub_cluster.tuner.predicates import SPREAD_MAX
from pubsub_cluster.tuner.source import BLOCK_CLAUSES, gather
from pubsub_cluster.tuner.tables import NOT_HERE, find_lookup, map_cells

CLAUSES_MAX = 2_000_000
"""They take about 50 bytes each in the tuner."""

NEW_SHARE_MAX = 0.5
SAMPLE_GROWTH = 2.0
ROUNDS_MAX = 8
"""A new table's clusters may be in situation 1 themselves: as many rounds at most, the rest next time."""

UNKNOWN = -1


class _Atoms(NamedTuple):
    """Catalogue predicates as atoms: which ones are, their ways and probabilities; presence by attribute."""

    is_atom: Bools
    way: I4
    nu: F8
    present: F8


class LiveTables:
    """The tables of one catalogue, from generation to generation.

    Attributes
    ----------
    thresholds : Thresholds
    frozen : tuple of FrozenTable or None
        Tables that stay; None: they may change.
    decisions : list of Decision
        What `configure` decided at its last call.
    reason : str
        Why it left the choice to the greedy, at its last call; empty where it did not.
    """

    def __init__(self) -> None:
        self.thresholds = Thresholds()
        self.frozen: tuple[FrozenTable, ...] | None = None
        self.decisions: list[Decision] = []
        self.reason = ""
        self._dynamic: DynamicClustering | None = None
        self._chosen: list[tuple[int, ...]] | None = None
        self._number: I8 = np.zeros(0, np.int64)
        self._next = 0
        self._sampled = 0

    def configure(self, work: Work, constants: CostConstants | None, max_bytes: int | None) -> Configuration:
        """Return the tables of the next layout.

        Parameters
        ----------
        work : Work
            What the layout is of.
        constants : CostConstants, optional
            Measured on this machine.
        max_bytes : int, optional
            Bound of what the greedy may choose.
        """
        self.decisions, self.reason = [], ""
        if self.frozen is not None:
            return frozen_configuration(self.frozen, work)
        clause = work.source.catalogue_clauses(slice(None)).astype(np.int64)
        new_count = int(np.count_nonzero(clause >= self._next))
        self._next = max(int(clause.max(initial=-1)) + 1, self._next)
        self.reason = self._why_greedy(work, new_count)
        if self.reason:
            return self._choose(work, constants, max_bytes)
        atoms = _atoms_of(work)
        dynamic = self._follow(atoms, constants)
        number = np.append(self._number, np.full(self._next - len(self._number), UNKNOWN))
        gone = number != UNKNOWN
        gone[clause] = False
        gone_at = np.flatnonzero(gone)
        dynamic.remove(number[gone_at])
        number[gone_at] = UNKNOWN
        self._number = number
        self._insert(dynamic, work, atoms, np.flatnonzero(number[clause] == UNKNOWN), clause)
        for _ in range(ROUNDS_MAX):
            decided = dynamic.maintain()
            self.decisions += decided
            if all(decision.kind == REDISTRIBUTED for decision in decided):
                break
        return _configuration(dynamic.clustering, work)

    def _why_greedy(self, work: Work, new_count: int) -> str:
        count, sampled = work.source.clause_count, len(work.statistics.events)
        if self._chosen is None:
            return "no tables to start from"
        if count > CLAUSES_MAX:
            return "many clauses"
        if new_count > NEW_SHARE_MAX * count:
            return "most clauses are new"
        if sampled > SAMPLE_GROWTH * self._sampled:
            return "the sample of events is much better"
        return ""

    def _choose(self, work: Work, constants: CostConstants | None, max_bytes: int | None) -> Configuration:
        """Let the greedy choose, and start from its choice next time where that can be."""
        self._dynamic, self._chosen = None, None
        count = work.source.clause_count
        if not count:
            return EMPTY_CONFIGURATION
        source = (count, work.clauses, work.spaces, work.predicates, work.ways)
        chosen = choose_tables(*source, work.statistics, constants, max_bytes)
        has_cells = any(cell != BY_LABEL for schema in chosen.tables for cell in schema.cells)
        if not has_cells and count <= CLAUSES_MAX and max_bytes is None:
            attribute = work.attribute_id.tolist()
            self._chosen = [
                tuple(2 * attribute[one] for one in schema.attributes) for schema in chosen.tables
            ]
            self._sampled = len(work.statistics.events)
        return chosen

    def _follow(self, atoms: _Atoms, constants: CostConstants | None) -> DynamicClustering:
        """Return the clustering with present statistics; its columns are made when they are first needed."""
        if self._dynamic is None:
            books = Clustering(atoms.way, atoms.nu, atoms.present)
            for ways in self._chosen or []:
                books.add_table(books.schema(ways))
            self._dynamic = DynamicClustering(books, constants or DEFAULT_CONSTANTS, self.thresholds)
            self._number = np.zeros(0, np.int64)
        else:
            self._dynamic.set_statistics(atoms.way, atoms.nu, atoms.present, constants)
            self._dynamic.thresholds = self.thresholds
        return self._dynamic

    def _insert(self, dynamic: DynamicClustering, work: Work, atoms: _Atoms, picked: I8, clause: I8) -> None:
        """Insert picked clauses, block by block."""
        for first in range(0, len(picked), BLOCK_CLAUSES):
            block = picked[first : first + BLOCK_CLAUSES]
            found = gather(work.source, block)
            is_atom = (found.literal & 1 == 0) & atoms.is_atom[found.literal >> 1]
            start = np.append(0, np.cumsum(np.bincount(found.owner[is_atom], minlength=len(block))))
            size = np.diff(found.start).astype(np.int32)
            mine = dynamic.insert(start.astype(np.int64), found.literal[is_atom] >> 1, size)
            self._number[clause[block]] = mine


def _configuration(books: Clustering, work: Work) -> Configuration:
    """Return the tables there are, by the layout's attributes, of which each must have some."""
    layout = {attribute: number for number, attribute in enumerate(work.attribute_id.tolist())}
    schemas = [[layout.get(way >> 1, -1) for way in books.ways(table)] for table in books.tables]
    kept = sorted(tuple(sorted(schema)) for schema in schemas if min(schema) >= 0)
    return Configuration(tuple(TableSchema(one, (BY_LABEL,) * len(one)) for one in kept), ())


def _atoms_of(work: Work) -> _Atoms:
    """Return what every catalogue predicate is as an atom: those that tables can look up by label."""
    predicates = work.predicates
    no_cells = map_cells(work.spaces, predicates, EMPTY_CONFIGURATION, work.statistics.label)
    lookup = find_lookup(predicates, work.ways, no_cells)
    usable = (lookup.cost[BY_LABEL] < NOT_HERE) & (lookup.member_count <= SPREAD_MAX)
    mine = np.flatnonzero(usable & (predicates.catalogue >= 0))
    at = predicates.catalogue[mine]
    count = len(work.literal) // 2
    is_atom, nu = np.zeros(count, bool), np.ones(count)
    way = np.full(count, -1, np.int32)
    is_atom[at], nu[at] = True, lookup.cost[BY_LABEL][mine]
    way[at] = 2 * work.attribute_id[predicates.attribute[mine]]
    present = np.ones(int(work.attribute_id.max(initial=-1)) + 1)
    present[work.attribute_id] = work.statistics.present
    return _Atoms(is_atom, way, nu, present)


def told(decision: Decision, attribute_name: Any) -> dict[str, Any]:
    """Return a decision as a log keeps it, with the names of its attributes.

    Parameters
    ----------
    decision : Decision
        Of `LiveTables`.
    attribute_name : callable
        From a catalogue attribute to its name.
    """
    record = decision.to_dict()
    return {**record, "attributes": [attribute_name(way >> 1) for way in record.pop("ways")]}
