"""Tables that are kept from one generation to the next: the dynamic algorithm on a catalogue.

The first generation's tables are the greedy's choice. From then on `tuner.dynamic` follows the clauses that
have come and gone since the last one, and the events; what it decides is told with the figures behind it.
Equalities, by catalogue predicate, are its atoms, so it knows nothing of a layout's numbers.

The greedy chooses anew where change at the margin is no good description: when most clauses are new, or when
the sample of events has become much better. Where ranges are looked up by cell (cells are cut in labels,
which every layout numbers anew), and where the columns would take too much memory beside the catalogue,
nothing is followed: its choice stays until a share of the clauses is new, or estimates have changed. A choice
is known by names, so that it outlives an epoch, which numbers everything anew.

Tables that an operator has frozen (`tuner.frozen`) are used as they are; nothing is followed meanwhile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.shm.code_space import F8, I4, I8
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
from pubsub_cluster.tuner.last_layout import LastLayout
from pubsub_cluster.tuner.messages import FrozenTable, Thresholds
from pubsub_cluster.tuner.predicates import SPREAD_MAX
from pubsub_cluster.tuner.source import BLOCK_CLAUSES, gather
from pubsub_cluster.tuner.tables import NOT_HERE, find_lookup, map_cells
from pubsub_cluster.tuner.work import Work

CLAUSES_MAX = 2_000_000
"""They take about 50 bytes each in the tuner."""

NEW_SHARE_MAX = 0.5
STAYING_NEW_SHARE_MAX = 0.1
"""Of clauses that have come since a choice that nothing is followed from."""

SAMPLE_GROWTH = 2.0
ROUNDS_MAX = 8
"""A new table's clusters may be in situation 1 themselves: as many rounds at most, the rest next time."""

NEWS_SPREADS = 5.0
"""Estimates from two samples that differ by fewer standard deviations do not make a table better or worse."""

UNKNOWN = -1


class _Atoms(NamedTuple):
    """Catalogue predicates as atoms, which ones are, their ways and probabilities; and attributes in use."""

    is_atom: Bools
    way: I4
    nu: F8
    is_used: Bools
    present: F8


class Choice(NamedTuple):
    """Tables by the names of their attributes, and how they were chosen.

    Attributes
    ----------
    tables : tuple of FrozenTable
    sampled : int
        Events that were known.
    new_count : int
        Clauses that have come since.
    is_followed : bool
        The dynamic algorithm takes it from there.
    """

    tables: tuple[FrozenTable, ...]
    sampled: int
    new_count: int
    is_followed: bool


class LiveTables:
    """The tables of one catalogue, from generation to generation.

    Parameters
    ----------
    choice : Choice, optional
        Of the epoch before: what to begin with.
    came : int
        Clauses that have come since that choice was last used.

    Attributes
    ----------
    thresholds : Thresholds
    frozen : tuple of FrozenTable or None
        Tables that stay; None: they may change.
    decisions : list of Decision
        What `configure` decided at its last call.
    reason : str
        Why it left the choice to the greedy, at its last call; empty where it did not.
    last : LastLayout
        The last layout of these tables, which the next one takes over from unless they are chosen anew.
    choice : Choice or None
        The tables there are.
    """

    def __init__(self, choice: Choice | None = None, came: int = 0) -> None:
        self.choice = choice
        self._came: int | None = came  # until it is told by numbers
        self.thresholds = Thresholds()
        self.frozen: tuple[FrozenTable, ...] | None = None
        self.decisions: list[Decision] = []
        self.reason = ""
        self.last = LastLayout()
        self._dynamic: DynamicClustering | None = None
        self._chosen: list[tuple[int, ...]] | None = None
        self._atoms: _Atoms | None = None  # with the estimates that the clustering goes by
        self._number: I8 = np.zeros(0, np.int64)
        self._next = 0

    def after_epoch(self, clause_count: int) -> LiveTables:
        """Return the tables of the same catalogue, numbered anew when it had so many clauses."""
        return LiveTables(self.choice, clause_count - self._next)

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
        self.decisions, self.reason, self.last.moved = [], "", np.zeros(0, np.int64)
        if self.frozen is not None:
            return frozen_configuration(self.frozen, work)
        clause = work.source.catalogue_clauses(slice(None)).astype(np.int64)
        new_count, is_first = self._came, self._came is not None
        if new_count is None:
            new_count = int(np.count_nonzero(clause >= self._next))
        self._next = max(int(clause.max(initial=-1)) + 1, self._next)
        atoms = _atoms_of(work, 0 if self._atoms is None else len(self._atoms.present))
        self.reason = self._why_greedy(work, atoms, new_count)
        self._came = None
        if self.reason or self.choice is None:
            self.last.forget()
            return self._choose(work, atoms, constants, max_bytes)
        if is_first or not self.choice.is_followed:
            return self._stay(work, atoms, new_count)
        chosen = self._change(work, atoms, clause, constants)
        self.choice = self.choice._replace(tables=_named(chosen, work))
        return chosen

    def _change(
        self, work: Work, atoms: _Atoms, clause: I8, constants: CostConstants | None
    ) -> Configuration:
        """Follow what has come and gone with the dynamic algorithm."""
        dynamic = self._follow(atoms, len(work.statistics.events), constants)
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
        if self.decisions:
            has_moved = np.zeros(dynamic.clustering.number_count, bool)
            has_moved[np.concatenate([decision.moved for decision in self.decisions])] = True
            self.last.moved = clause[has_moved[number[clause]]]
        return _configuration(dynamic.clustering, work)

    def _why_greedy(self, work: Work, atoms: _Atoms, new_count: int) -> str:
        count, sampled, choice = work.source.clause_count, len(work.statistics.events), self.choice
        if choice is None:
            return "no tables to start from"
        if sampled > SAMPLE_GROWTH * choice.sampled:
            return "the sample of events is much better"
        if choice.is_followed and count > CLAUSES_MAX:
            return "many clauses"
        if new_count > NEW_SHARE_MAX * count:
            return "most clauses are new"
        if choice.is_followed:
            return ""
        if choice.new_count + new_count > STAYING_NEW_SHARE_MAX * count:
            return "many clauses are new"
        if self._atoms is not None and _without_news(self._atoms, atoms, sampled) is None:
            return "events have changed"
        return ""

    def _choose(
        self, work: Work, atoms: _Atoms, constants: CostConstants | None, max_bytes: int | None
    ) -> Configuration:
        """Let the greedy choose, and start from its choice next time."""
        self._dynamic, self._chosen, self.choice = None, None, None
        count = work.source.clause_count
        if not count:
            return EMPTY_CONFIGURATION
        source = (count, work.clauses, work.spaces, work.predicates, work.ways)
        chosen = choose_tables(*source, work.statistics, constants, max_bytes)
        is_followed = not _has_cells(chosen) and count <= CLAUSES_MAX and max_bytes is None
        self.choice = Choice(_named(chosen, work), len(work.statistics.events), 0, is_followed)
        self._start_from(chosen, work, atoms)
        return chosen

    def _stay(self, work: Work, atoms: _Atoms, new_count: int) -> Configuration:
        """Keep the tables there are, by their names."""
        assert self.choice is not None
        chosen = frozen_configuration(self.choice.tables, work)
        if self._atoms is None:
            self._start_from(chosen, work, atoms)
        self.choice = self.choice._replace(new_count=self.choice.new_count + new_count)
        return chosen

    def _start_from(self, chosen: Configuration, work: Work, atoms: _Atoms) -> None:
        """Keep in mind what was chosen, in the catalogue's numbers, and by which estimates."""
        attribute = work.attribute_id.tolist()
        self._chosen = [tuple(2 * attribute[one] for one in schema.attributes) for schema in chosen.tables]
        self._atoms = atoms

    def _follow(self, atoms: _Atoms, event_count: int, constants: CostConstants | None) -> DynamicClustering:
        """Return the clustering with present statistics; its columns are made when they are first needed."""
        if self._dynamic is None:
            books = Clustering(atoms.way, atoms.nu, atoms.present)
            for ways in self._chosen or []:
                books.add_table(books.schema(ways))
            self._dynamic = DynamicClustering(books, constants or DEFAULT_CONSTANTS, self.thresholds)
            self._number, self._atoms = np.zeros(0, np.int64), atoms
            return self._dynamic
        self._dynamic.thresholds = self.thresholds
        same = None if self._atoms is None else _without_news(self._atoms, atoms, event_count)
        self._atoms = same or atoms
        known = (self._atoms.way, self._atoms.nu, self._atoms.present)
        if same is None:
            self._dynamic.set_statistics(*known, constants)
        else:
            self._dynamic.add_atoms(*known)
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


def _has_cells(chosen: Configuration) -> bool:
    return any(cell != BY_LABEL for schema in chosen.tables for cell in schema.cells)


def _named(chosen: Configuration, work: Work) -> tuple[FrozenTable, ...]:
    """Return tables by the names of their attributes."""
    found = []
    for schema in chosen.tables:
        names = tuple(work.attribute_names[attribute] for attribute in schema.attributes)
        parts = zip(*schema, strict=True)
        slices = (0 if cell == BY_LABEL else len(chosen.slices(attribute)) for attribute, cell in parts)
        found.append(FrozenTable(names, tuple(slices)))
    return tuple(found)


def _without_news(before: _Atoms, now: _Atoms, event_count: int) -> _Atoms | None:
    """Return what was known, with new atoms, where nothing has changed by more than chance explains.

    Atoms that nobody has any more stay known: who leaves is taken off sums as he was added.
    """

    def is_news(old: F8, new: F8) -> bool:
        spread = np.sqrt(2.0 * np.maximum(old, new) / max(event_count, 1))
        return bool((np.abs(new - old) > NEWS_SPREADS * spread).any())

    count, attribute_count = len(before.nu), len(before.present)
    in_both = before.is_atom & now.is_atom[:count]
    has_both = before.is_used & now.is_used[:attribute_count]
    if is_news(before.nu[in_both], now.nu[:count][in_both]):
        return None
    if is_news(before.present[has_both], now.present[:attribute_count][has_both]):
        return None
    known = _Atoms(now.is_atom.copy(), now.way.copy(), now.nu.copy(), now.is_used.copy(), now.present.copy())
    known.is_atom[:count] |= before.is_atom
    known.way[:count][before.is_atom] = before.way[before.is_atom]
    known.nu[:count][before.is_atom] = before.nu[before.is_atom]
    known.is_used[:attribute_count] |= before.is_used
    known.present[:attribute_count][before.is_used] = before.present[before.is_used]
    return known


def _configuration(books: Clustering, work: Work) -> Configuration:
    """Return the tables there are, by the layout's attributes, of which each must have some."""
    layout = {attribute: number for number, attribute in enumerate(work.attribute_id.tolist())}
    schemas = [[layout.get(way >> 1, -1) for way in books.ways(table)] for table in books.tables]
    kept = sorted(tuple(sorted(schema)) for schema in schemas if min(schema) >= 0)
    return Configuration(tuple(TableSchema(one, (BY_LABEL,) * len(one)) for one in kept), ())


def _atoms_of(work: Work, attribute_count: int) -> _Atoms:
    """Return what every catalogue predicate is as an atom: those that tables can look up by label.

    Parameters
    ----------
    work : Work
    attribute_count : int
        Attributes of the catalogue to have an entry for, at least, though nobody uses them any more.
    """
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
    present = np.ones(max(int(work.attribute_id.max(initial=-1)) + 1, attribute_count))
    present[work.attribute_id] = work.statistics.present
    is_used = np.zeros(len(present), bool)
    is_used[work.attribute_id] = True
    return _Atoms(is_atom, way, nu, is_used, present)


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
