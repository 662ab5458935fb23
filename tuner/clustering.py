"""A clustering instance as columns: which cluster every subscription lies in, kept up as they come and go.

RR-4089, section 3.1: an *access predicate* is a conjunction of equalities on distinct attributes, a *cluster*
holds subscriptions of one size that contain its access predicate, a *table* holds the clusters whose access
predicates have its schema. What may stand in an access predicate is called an *atom* here: an equality, or
the cell that a range lies in (`tuner.configuration`), which the range implies. An atom's *way* is
``2 * attribute + by_cell``; a schema is a set of ways. Tables of one way by label are the slots: they cost
nothing more, exist always and are never removed, and neither is the empty schema, where subscriptions without
atoms are always checked.

Subscriptions, clusters, schemas and *patterns* (sets of ways that a subscription has) are numbers into
columns: millions of subscriptions are a few arrays. Numbers of removed subscriptions are given again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.configuration import SCHEMA_ATTRIBUTES_MAX, Bools
from pubsub_cluster.tuner.interning import KeyIds, mixed

ATOMS_MAX = 12
"""Atoms of a subscription that are considered, the most selective ones."""

NO_ATOM = -1
FREE = -1
BETTER = 1.0 - 1e-9
"""A place is better when its probability is below this share: products of the same factors may differ."""

NU_LEAST = 1e-12

_ATOM_SALT, _WAY_SALT, _SIZE_SALT, _SCHEMA_SALT = 1, 2, 3, 4
_PAD = np.iinfo(np.int64).max

I2 = npt.NDArray[np.int16]


class Places(NamedTuple):
    """Where some subscriptions would lie.

    Attributes
    ----------
    schema : int32[m]
    columns : int16[m]
        Bit j: atom j of the subscription is in the access predicate.
    nu : float64[m]
        Probability that an event satisfies the access predicate.
    """

    schema: I4
    columns: I2
    nu: F8

    def pick(self, rows: I8) -> Places:
        """Return some of them."""
        return Places(self.schema[rows], self.columns[rows], self.nu[rows])


class Clustering:
    """All subscriptions in clusters, and the tables that there are.

    Parameters
    ----------
    atom_way : int32[P]
        Way of every atom.
    atom_nu : float64[P]
        Probability that an event satisfies it.
    present : float64[A]
        Probability that an event has an attribute.

    Attributes
    ----------
    cluster : int32[N]
        Of each subscription; `FREE` where there is none of this number.
    cluster_schema, cluster_size : int32[C]
        The size is that of its subscriptions, in literals.
    cluster_count : int64[C]
        ``|c|``; clusters that are empty at present are kept.
    cluster_nu : float64[C]
    cluster_atom : int32[C, 6]
        The access predicate, ascending ways; `NO_ATOM` behind its end.
    schema_way : int32[S, 6]
        Ascending; -1 behind the end.
    schema_count : int64[S]
        ``|H|``, subscriptions of each schema: B(H).
    """

    def __init__(self, atom_way: I4, atom_nu: F8, present: F8) -> None:
        self.cluster: I4 = np.full(0, FREE, np.int32)
        self.atom: I4 = np.full((0, 1), NO_ATOM, np.int32)
        self.size: I4 = np.zeros(0, np.int32)
        self.pattern: I4 = np.zeros(0, np.int32)
        self.pattern_way: I4 = np.full((0, 1), -1, np.int32)
        self.cluster_schema: I4 = np.zeros(0, np.int32)
        self.cluster_size: I4 = np.zeros(0, np.int32)
        self.cluster_count: I8 = np.zeros(0, np.int64)
        self.cluster_nu: F8 = np.zeros(0)
        self.cluster_atom: I4 = np.full((0, SCHEMA_ATTRIBUTES_MAX), NO_ATOM, np.int32)
        self.schema_way: I4 = np.full((0, SCHEMA_ATTRIBUTES_MAX), -1, np.int32)
        self.schema_count: I8 = np.zeros(0, np.int64)
        self._clusters, self._schemas, self._patterns = KeyIds(), KeyIds(), KeyIds()
        self._columns: dict[int, I2] = {}
        self._free: list[I8] = []
        self.number_count = 0
        self.schemas(np.zeros((1, 0), np.int32))
        self.set_statistics(atom_way, atom_nu, present)

    def set_statistics(self, atom_way: I4, atom_nu: F8, present: F8) -> None:
        """Replace what is known of events, and add atoms behind those there are; nobody moves."""
        self.add_atoms(atom_way, atom_nu, present)
        self.cluster_nu = np.prod(self.atom_nu[self.cluster_atom], axis=1)

    def add_atoms(self, atom_way: I4, atom_nu: F8, present: F8) -> None:
        """Add atoms behind those there are, of which the same is known as before."""
        self.atom_way = np.append(atom_way, -1).astype(np.int32)  # NO_ATOM picks the last
        self.atom_nu = np.append(np.maximum(atom_nu, NU_LEAST), 1.0)
        self.present = np.append(present, 1.0)

    @property
    def tables(self) -> list[int]:
        """Schemas of the tables beside the slots, in the order in which they were made."""
        return list(self._columns)

    @property
    def numbers(self) -> I8:
        """All subscriptions, ascending."""
        return np.flatnonzero(self.cluster[: self.number_count] != FREE)

    def ways(self, schema: int) -> tuple[int, ...]:
        """Return the ways of a schema."""
        return tuple(way for way in self.schema_way[schema].tolist() if way >= 0)

    def schemas(self, ways: I4) -> I4:
        """Number schemas given as rows of ways, in any order, -1 where there is none."""
        key = np.where(ways >= 0, mixed(ways, _WAY_SALT).reshape(ways.shape), np.uint64(0)).sum(axis=1)
        found, first = self._schemas.intern(key)
        if len(first):
            new = np.full((len(first), SCHEMA_ATTRIBUTES_MAX), -1, np.int32)
            rows = np.sort(np.where(ways[first] >= 0, ways[first], np.iinfo(np.int32).max), axis=1)
            rows = rows[:, :SCHEMA_ATTRIBUTES_MAX]
            new[:, : rows.shape[1]] = np.where(rows < np.iinfo(np.int32).max, rows, -1)
            self.schema_way = np.concatenate((self.schema_way, new))
            self.schema_count = np.append(self.schema_count, np.zeros(len(first), np.int64))
        return found.astype(np.int32)

    def schema(self, ways: tuple[int, ...]) -> int:
        """Number one schema."""
        return int(self.schemas(np.array([ways], np.int32).reshape(1, -1))[0])

    def is_slot(self, schema: int) -> bool:
        """Say whether a schema is a slot's, or the empty one."""
        ways = self.ways(schema)
        return len(ways) == 0 or (len(ways) == 1 and ways[0] % 2 == 0)

    def add_table(self, schema: int) -> None:
        """Make a table; nobody moves."""
        assert not self.is_slot(schema)
        self._columns[schema] = self._columns_in(schema, self.pattern_way)

    def drop_table(self, schema: int) -> I8:
        """Forget a table; return its subscriptions, who have to be moved before anything else."""
        del self._columns[schema]
        return self.members(self.cluster_schema == schema)

    def members(self, clusters: Bools) -> I8:
        """Return the subscriptions that lie in marked clusters (bool[C]), ascending."""
        marked = np.append(clusters, False)  # FREE picks the last
        return np.flatnonzero(marked[self.cluster[: self.number_count]])

    def nu_of(self, numbers: I8) -> F8:
        """Return the probability of each one's present access predicate."""
        return self.cluster_nu[self.cluster[numbers]]

    def best(self, numbers: I8, without: I4 | None = None) -> Places:
        """Return for each subscription the table, or slot, of its greatest benefit: that of the least nu.

        Of equally good ones the earliest: a slot, else the table made first.

        Parameters
        ----------
        numbers : int64[m]
        without : int32[m], optional
            Per subscription a schema that is not allowed; slots always are.
        """
        atom, pattern = self.atom[numbers], self.pattern[numbers]
        factor = self.atom_nu[atom]
        by_label = np.where((atom >= 0) & (self.atom_way[atom] % 2 == 0), factor, np.inf)
        column = np.argmin(by_label, axis=1)
        nu = np.minimum(by_label[np.arange(len(numbers)), column], 1.0)
        is_slotted = by_label[np.arange(len(numbers)), column] < np.inf
        slot = np.where(is_slotted, self.atom_way[atom[np.arange(len(numbers)), column]], -1)
        schema = self.schemas(slot[:, None].astype(np.int32))
        columns = np.where(is_slotted, 1 << column, 0).astype(np.int16)
        for table, of_pattern in self._columns.items():
            mine = of_pattern[pattern]
            rows = np.flatnonzero(mine if without is None else (mine != 0) & (without != table))
            if not len(rows):
                continue
            chance = product(factor[rows], mine[rows])
            better = chance < nu[rows] * BETTER
            rows = rows[better]
            nu[rows], schema[rows], columns[rows] = chance[better], table, mine[rows]
        return Places(schema, columns, nu)

    def places_in(self, numbers: I8, schema: int) -> tuple[I8, Places]:
        """Return which of some subscriptions a table could hold, and where they would lie."""
        mine = self._columns[schema][self.pattern[numbers]]
        kept = np.flatnonzero(mine)
        nu = product(self.atom_nu[self.atom[numbers[kept]]], mine[kept])
        return numbers[kept], Places(np.full(len(kept), schema, np.int32), mine[kept], nu)

    def insert(self, start: I8, atom: I4, size: I4) -> I8:
        """Add subscriptions, each to the table of its greatest benefit; return their numbers.

        Parameters
        ----------
        start : int64[m+1]
        atom : int32[]
            Atoms of each. Of several with one way the first is taken.
        size : int32[m]
            Literals of each.
        """
        rows = self._atom_rows(start, atom)
        numbers = self._take_numbers(len(rows))
        self._widen(rows.shape[1])
        self.atom[numbers] = NO_ATOM
        self.atom[numbers, : rows.shape[1]] = rows
        self.size[numbers] = size
        self.pattern[numbers] = self._patterns_of(self.atom_way[self.atom[numbers]])
        self.move(numbers, self.best(numbers))
        return numbers

    def remove(self, numbers: I8) -> None:
        """Take subscriptions out (different ones, all of them there)."""
        self._leave(numbers)
        self.cluster[numbers] = FREE
        self._free.append(np.asarray(numbers, np.int64))

    def move(self, numbers: I8, places: Places) -> None:
        """Put subscriptions into other clusters."""
        self._leave(numbers)
        atom, size = self.atom[numbers], self.size[numbers]
        bit = np.int16(1) << np.arange(atom.shape[1], dtype=np.int16)
        kept = np.where(places.columns[:, None] & bit, atom, NO_ATOM)
        key = np.where(kept >= 0, mixed(kept, _ATOM_SALT).reshape(kept.shape), np.uint64(0)).sum(axis=1)
        key += mixed(size, _SIZE_SALT) + mixed(places.schema, _SCHEMA_SALT)
        cluster, first = self._clusters.intern(key)
        if len(first):
            self._add_clusters(places.schema[first], size[first], kept[first])
        self.cluster[numbers] = cluster
        np.add.at(self.cluster_count, cluster, 1)
        np.add.at(self.schema_count, places.schema, 1)

    def _leave(self, numbers: I8) -> None:
        old = self.cluster[numbers]
        old = old[old != FREE]
        np.subtract.at(self.cluster_count, old, 1)
        np.subtract.at(self.schema_count, self.cluster_schema[old], 1)

    def _add_clusters(self, schema: I4, size: I4, atom: I4) -> None:
        access = np.full((len(schema), SCHEMA_ATTRIBUTES_MAX), NO_ATOM, np.int32)
        front = np.argsort(atom < 0, axis=1, kind="stable")[:, :SCHEMA_ATTRIBUTES_MAX]
        access[:, : front.shape[1]] = np.take_along_axis(atom, front, axis=1)
        self.cluster_schema = np.append(self.cluster_schema, schema)
        self.cluster_size = np.append(self.cluster_size, size)
        self.cluster_count = np.append(self.cluster_count, np.zeros(len(schema), np.int64))
        self.cluster_atom = np.concatenate((self.cluster_atom, access))
        self.cluster_nu = np.append(self.cluster_nu, np.prod(self.atom_nu[access], axis=1))

    def _atom_rows(self, start: I8, atom: I4) -> I4:
        """Lay atoms out as rows: ascending ways, one atom per way, at most `ATOMS_MAX`."""
        count = np.diff(start)
        owner = np.repeat(np.arange(len(count)), count)
        within = np.arange(len(atom)) - np.repeat(start[:-1], count)
        if count.max(initial=0) > ATOMS_MAX:
            order = np.lexsort((self.atom_nu[atom], owner))
            atom, owner = atom[order], owner[order]
            kept = np.flatnonzero(within < ATOMS_MAX)
            atom, owner, within = atom[kept], owner[kept], within[kept]
        packed = np.full((len(count), max(int(within.max(initial=0)) + 1, 1)), _PAD)
        packed[owner, within] = (self.atom_way[atom].astype(np.int64) << 32) | atom
        packed.sort(axis=1)
        again = packed[:, 1:] >> 32 == packed[:, :-1] >> 32
        if (again & (packed[:, 1:] != _PAD)).any():
            packed[:, 1:][again] = _PAD
            packed.sort(axis=1)
        return np.where(packed == _PAD, NO_ATOM, packed & 0xFFFFFFFF).astype(np.int32)

    def _take_numbers(self, count: int) -> I8:
        taken: list[I8] = []
        missing = count
        while missing and self._free:
            free = self._free.pop()
            taken.append(free[:missing])
            if len(free) > missing:
                self._free.append(free[missing:])
            missing -= len(taken[-1])
        stop = self.number_count + missing
        taken.append(np.arange(self.number_count, stop))
        self.number_count = stop
        if stop > len(self.cluster):
            room = max(stop, len(self.cluster) * 3 // 2)
            self.cluster = _grown(self.cluster, room, FREE)
            self.atom = _grown(self.atom, room, NO_ATOM)
            self.size, self.pattern = _grown(self.size, room, 0), _grown(self.pattern, room, 0)
        return np.concatenate(taken)

    def _widen(self, width: int) -> None:
        more = width - self.atom.shape[1]
        if more > 0:
            self.atom = np.pad(self.atom, ((0, 0), (0, more)), constant_values=NO_ATOM)
            self.pattern_way = np.pad(self.pattern_way, ((0, 0), (0, more)), constant_values=-1)

    def _patterns_of(self, ways: I4) -> I4:
        key = np.where(ways >= 0, mixed(ways, _WAY_SALT).reshape(ways.shape), np.uint64(0)).sum(axis=1)
        found, first = self._patterns.intern(key)
        if len(first):
            self.pattern_way = np.concatenate((self.pattern_way, ways[first]))
            for schema, columns in self._columns.items():
                self._columns[schema] = np.append(columns, self._columns_in(schema, ways[first]))
        return found.astype(np.int32)

    def _columns_in(self, schema: int, pattern_way: I4) -> I2:
        """Return per pattern the columns of its ways that make a schema; 0 where one is missing."""
        bit = 1 << np.arange(pattern_way.shape[1])
        columns = np.zeros(len(pattern_way), np.int64)
        has_all = np.ones(len(pattern_way), bool)
        for way in self.ways(schema):
            at = pattern_way == way
            has_all &= at.any(axis=1)
            columns |= at @ bit
        return np.where(has_all, columns, 0).astype(np.int16)


def product(factor: F8, columns: I2) -> F8:
    """Return the product of the marked factors of each row."""
    found = np.ones(len(factor))
    for column in range(factor.shape[1]):
        found *= np.where(columns >> column & 1, factor[:, column], 1.0)
    return found


def _grown(column: npt.NDArray[Any], count: int, filler: int) -> npt.NDArray[Any]:
    grown = np.full((count, *column.shape[1:]), filler, column.dtype)
    grown[: len(column)] = column
    return grown
