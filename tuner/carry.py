"""Carrying over: of a table, or of the slots, only the clusters that something happened to are packed anew.

What is concerned, cluster by cluster: those that lose a clause, those that receive one, and those of which
words mean nothing in the new numbering (a constant that nobody has any more, labels that have shifted under
the intervals of a column). Their other clauses are packed again with those that are new. All other clusters
are copied as they are, with literals and targets numbered anew.

Where a clause stood is not kept in mind: it is worked out again. Statistics may have changed since, so that
another literal of the clause is looked up now; such a clause is taken out of where it was (`_wanderers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.catalogue import CatalogueCounts
from pubsub_cluster.shm.catalogue_rows import blocks_of
from pubsub_cluster.shm.code_space import F8, I4, I8
from pubsub_cluster.tuner.access import slots_of
from pubsub_cluster.tuner.chains import Chains, slot_chains, table_chains
from pubsub_cluster.tuner.clusters import BlobWriter, Sections
from pubsub_cluster.tuner.dealing import TABLES_MAX, UNDEALT
from pubsub_cluster.tuner.entries import Bools
from pubsub_cluster.tuner.last_layout import (
    Base,
    Dealt,
    Known,
    LastLayout,
    Translation,
    deal_again,
    is_identity,
    numbering_of,
    translate,
)
from pubsub_cluster.tuner.sections import Stretch, gaps, read_stretch, without_gaps
from pubsub_cluster.tuner.tables import CellMap, Lookup, first_digits, multipliers, table_keys
from pubsub_cluster.tuner.work import Work

ROUNDS_MAX = 4
"""How often clauses may turn out to stand elsewhere by now before all of a table is packed anew."""


class Carried(NamedTuple):
    """What stays of a table, or of the slots.

    Attributes
    ----------
    picked : int32[m]
        Clauses to be packed, ascending.
    key : int64[c]
        Keys that are packed anew, of which `picked` has all clauses; ascending, some repeatedly.
    sections : Sections
        The others; ``start`` counts `words`.
    words : int32[]
    probability : float64[s]
        Of each section's key.
    target : int32[]
        All targets of the others.
    has_fronts : bool
        Whether there were any: a few clusters do not tell whether they are worth it.
    """

    picked: I4
    key: I8
    sections: Sections
    words: I4
    probability: F8
    target: I4
    has_fronts: bool


PACKED_PART_MAX = 2
"""Where more than one clause in so many is to be packed, packing all of them in one go takes less."""

KEYS_PACKED_MAX = (1 << 32) - 1
"""Keys from here on do not fit into a word with their row."""

NONE: I8 = np.zeros(0, np.int64)
NO_CELLS = CellMap(np.zeros(0, np.int32), np.zeros(0))

KeysOf = Callable[[I4], tuple[I8, I4]]
"""From clauses to their keys, and which of them each is of."""


class Carrier:
    """Takes tables and slots over from an old layout.

    Parameters
    ----------
    base : Base
    translation : Translation
    dealt : Dealt
    work : Work
        Of the layout to come.

    Attributes
    ----------
    table_of : int16[n]
        Of each clause of the layout to come; `UNDEALT` until it is dealt.
    taken_over : int
        Entries that have been copied as they were.
    """

    def __init__(self, base: Base, translation: Translation, dealt: Dealt, work: Work) -> None:
        self.table_of = dealt.table_of
        self.taken_over = 0
        self._base, self._translation, self._dealt, self._work = base, translation, dealt, work
        self._same_literals = is_identity(translation.literal)
        row_count = len(work.source.row_catalogue)
        self._is_out, self._is_wanted = np.zeros(row_count, bool), np.zeros(row_count, bool)  # between uses

    def table(
        self, number: int, mine: I4, codes: list[int], radix: list[int], lookup: Lookup
    ) -> Carried | None:
        """Take a table over; None where it is better packed anew.

        Parameters
        ----------
        number : int
        mine : int32[m]
            Its clauses, ascending.
        codes, radix : list of int
            Part codes, all by label, and digits of each part.
        lookup : Lookup
        """
        work, old = self._work, self._dealt.old_table[number]
        multiplier, is_exact = multipliers(radix, first_digits(codes, work.predicates))
        if old < 0 or not is_exact:
            return None
        chains = table_chains(self._base, old, codes, multiplier, self._translation, work)

        def keys_of(picked: I4) -> tuple[I8, I4]:
            known = (work.predicates, lookup, NO_CELLS, work.ways)
            keys = table_keys(work.clauses(picked), codes, multiplier, *known)
            return keys.key, keys.clause

        return None if chains is None else self._carry(chains, mine, keys_of)

    def slots(self, mine: I4, program_slots: list[int]) -> Carried | None:
        """Take what hangs off slots over; None where it is better packed anew.

        Parameters
        ----------
        mine : int32[m]
            Clauses that hang off slots, ascending.
        program_slots : list of int
            Slots that programs hang off: these are packed anew.
        """
        work = self._work

        def keys_of(picked: I4) -> tuple[I8, I4]:
            clauses = work.clauses(picked)
            _, slot, count = slots_of(clauses.start, clauses.literal, work.ways)
            return slot, np.repeat(np.arange(len(picked), dtype=np.int32), count)

        chains = slot_chains(self._base, self._translation, work.ways.slot_probability)
        in_any_case = np.array(program_slots, np.int64)
        return None if chains is None else self._carry(chains, mine, keys_of, in_any_case)

    def _carry(self, chains: Chains, mine: I4, keys_of: KeysOf, in_any_case: I8 = NONE) -> Carried | None:
        """Say what stays; None where all is better packed anew.

        Parameters
        ----------
        chains : Chains
        mine : int32[m]
            All clauses of the table, ascending.
        keys_of : callable
            Of some of them.
        in_any_case : int64[]
            Keys that are packed anew whatever happens.
        """
        if not len(chains.key):
            return None
        blob = self._base.layout.cluster_blob
        stretch = read_stretch(blob, chains.position, self._translation.relabelled)
        words = blob[stretch.first : stretch.first + len(stretch.is_target)]
        row = self._rows(words[stretch.is_target])
        row_chain = np.repeat(stretch.chain, stretch.size)
        changed = self._changed(stretch, words, chains)
        is_fresh = self._dealt.is_fresh[mine]
        mine_rows = self._work.source.rows_of(mine)
        for _ in range(ROUNDS_MAX):
            picked = mine[is_fresh]
            fresh_key = np.sort(np.append(keys_of(picked)[0], in_any_case))
            concerned = changed.copy()
            concerned[chains.having(fresh_key)] = True
            concerned[row_chain[row < 0]] = True
            concerned = _by_key(concerned, chains.key)
            left = np.flatnonzero(concerned[row_chain] & (row >= 0))
            if (len(left) + len(picked)) * PACKED_PART_MAX > len(mine):
                return None
            wanderers, survivors = self._wanderers((row, row_chain, left), chains, mine[~is_fresh], keys_of)
            if not len(wanderers):
                key = np.sort(np.append(fresh_key, chains.key[concerned]))
                picked = np.sort(np.concatenate((picked, survivors)))
                return self._kept(stretch, words, row, ~concerned, chains, picked, key)
            self._is_out[wanderers] = True
            row[self._is_out[np.maximum(row, 0)] & (row >= 0)] = -1
            is_fresh = is_fresh | self._is_out[mine_rows]
            self._is_out[wanderers] = False
        return None

    def _rows(self, target: I4) -> I4:
        """Return the new rows of targets; -1: gone, fresh, or a program."""
        row = self._dealt.row_of[target]
        if int(target.min(initial=0)) < 0:
            row[target < 0] = -1
        return row

    def _changed(self, stretch: Stretch, words: I4, chains: Chains) -> Bools:
        """Return the chains whose words mean nothing any more."""
        changed = chains.key < 0
        changed[stretch.chain[stretch.labelled]] = True
        if self._same_literals:
            return changed
        at = np.flatnonzero(stretch.is_literal())
        lost = at[self._translation.literal[words[at]] < 0]
        section = np.searchsorted(stretch.start, lost + stretch.first, side="right") - 1
        changed[stretch.chain[section]] = True
        return changed

    def _wanderers(
        self, held: tuple[I4, I8, I8], chains: Chains, others: I4, keys_of: KeysOf
    ) -> tuple[I4, I4]:
        """Return rows that do not stand where they would be put now, and the clauses of all that are left.

        Parameters
        ----------
        held : tuple of int32[t], int64[t], int64[l]
            Row and chain of each entry, and the entries that are left in clusters to be packed anew.
        chains : Chains
        others : int32[]
            Clauses that are not packed in any case.
        keys_of : callable
        """
        row, row_chain, left = held
        is_wanted = self._is_wanted
        is_wanted[row[left]] = True
        survivors = others[is_wanted[self._work.source.rows_of(others)]]
        key, owner = keys_of(survivors)
        now_row = self._work.source.rows_of(survivors)[owner]
        all_entries = np.flatnonzero((row >= 0) & is_wanted[np.maximum(row, 0)])
        is_wanted[row[left]] = False
        return odd_rows((row[all_entries], chains.key[row_chain[all_entries]]), (now_row, key)), survivors

    def _kept(
        self, stretch: Stretch, words: I4, row: I4, stays: Bools, chains: Chains, picked: I4, key: I8
    ) -> Carried:
        """Copy the chains that stay."""
        mine = np.flatnonzero(stays[stretch.chain])
        chain, size, count = stretch.chain[mine], stretch.size[mine], stretch.words[mine]
        words = words.copy()
        if not self._same_literals:
            at = np.flatnonzero(stretch.is_literal())
            words[at] = self._translation.literal[words[at]]
        words[stretch.is_target] = row
        kept = without_gaps(words, stretch.start - stretch.first, stretch.words)
        kept = kept[np.repeat(stays[stretch.chain], stretch.words)]
        start, none = np.cumsum(count) - count, np.full(len(mine), -1)
        sections = Sections(chains.key[chain], start, size, none, count, stretch.is_front[mine])
        target = row[np.repeat(stays[stretch.chain], stretch.size)]
        self.taken_over += len(target)
        has_fronts = bool(stretch.is_front.any())
        return Carried(picked, key, sections, kept, chains.probability[chain], target, has_fronts)


def among(key: I8, others: I8) -> Bools:
    """Say which keys are among others, which ascend."""
    if not len(others):
        return np.zeros(len(key), bool)
    at = np.minimum(np.searchsorted(others, key), len(others) - 1)
    return np.asarray(others[at] == key)


def _by_key(marks: Bools, key: I8) -> Bools:
    """Mark all chains of a key where one is marked; those of a key are neighbours."""
    new = np.ones(len(key), bool)
    new[1:] = key[1:] != key[:-1]
    if new.all():
        return marks
    begin = np.flatnonzero(new)
    return np.repeat(np.logical_or.reduceat(marks, begin), np.diff(np.append(begin, len(key))))


def odd_rows(before: tuple[I4, I8], now: tuple[I4, I8]) -> I4:
    """Return the rows that do not have the same keys, as often, in two lists of (row, key)."""
    key = np.concatenate((before[1], now[1]))
    if int(key.max(initial=0)) >= KEYS_PACKED_MAX:
        key = np.unique(key, return_inverse=True)[1] - 1
    word = (np.concatenate((before[0], now[0])).astype(np.int64) << 32) | (key + 1)
    first, second = word[: len(before[0])], word[len(before[0]) :]
    first.sort()
    second.sort()
    if np.array_equal(first, second):
        return np.zeros(0, np.int32)
    pair, number = np.unique(word, return_inverse=True)
    side = np.repeat([1.0, -1.0], [len(first), len(second)])
    return np.unique(pair[np.bincount(number, side) != 0] >> 32).astype(np.int32)


def find_carrier(
    last: LastLayout, work: Work, codes: list[list[int]], counts: CatalogueCounts
) -> Carrier | None:
    """Return who takes over from the last layout; None where nothing can be.

    Parameters
    ----------
    last : LastLayout
    work : Work
        Of the layout to come.
    codes : list of list of int
        Part codes of its tables.
    counts : CatalogueCounts
    """
    base = last.base
    if base is None or _has_cells(codes) or len(codes) >= TABLES_MAX or not work.source.clause_count:
        return None
    numbering = numbering_of(work.predicates, work.ways)
    translation = translate(base, work.attribute_id, work.spaces, numbering)
    tables = [_schema(mine, work) for mine in codes]
    dealt = deal_again(base, work.source, tables, last.moved, translation.turned, counts)
    return Carrier(base, translation, dealt, work)


def what_is_known(
    work: Work, codes: list[list[int]], table_of: npt.NDArray[Any], counts: CatalogueCounts
) -> Known | None:
    """Return what to keep in mind of a layout; None where the next one cannot take anything over.

    Parameters
    ----------
    work : Work
    codes : list of list of int
        Part codes of its tables.
    table_of : int16[n]
        Of each clause.
    counts : CatalogueCounts
    """
    if _has_cells(codes) or len(codes) >= TABLES_MAX:
        return None
    of_catalogue = np.full(counts.clauses, UNDEALT, np.int16)
    for block in blocks_of(len(table_of)):
        of_catalogue[work.source.catalogue_clauses(block)] = table_of[block]
    tables = [_schema(mine, work) for mine in codes]
    return Known(numbering_of(work.predicates, work.ways), tables, of_catalogue)


def _has_cells(codes: list[list[int]]) -> bool:
    return any(code & 1 for mine in codes for code in mine)


def _schema(codes: list[int], work: Work) -> tuple[int, ...]:
    return tuple(int(work.attribute_id[code >> 1]) for code in codes)


def merge(fresh: Sections, chance: F8, packed: I4, carried: Carried, blob: BlobWriter) -> tuple[Sections, F8]:
    """Write sections that were packed anew and such that stay into a blob, by key.

    Parameters
    ----------
    fresh : Sections
    chance : float64[f]
        That an event has the key of each.
    packed : int32[]
        The blob of `fresh`.
    carried : Carried
    blob : BlobWriter

    Returns
    -------
    sections : Sections
    probability : float64[s]
        Of each section's key.
    """
    old, count = carried.sections, len(fresh.key)
    at = np.searchsorted(old.key, fresh.key)
    number = np.insert(np.arange(count, count + len(old.key)), at, np.arange(count))
    both = Sections(*(np.concatenate(one)[number] for one in zip(fresh, old, strict=True)))
    words, is_front = both.words, both.is_front
    start = blob.place(words, is_front)
    if len(start):
        first = int(start[0])
        region = blob.words[first : int(start[-1] + words[-1])]
        is_old = np.repeat(number >= count, words)
        is_new = ~is_old
        if is_front.any():
            here = np.ones(len(region), bool)
            here[gaps(start, words) - first] = False
            old_here, new_here = here.copy(), here.copy()
            old_here[here], new_here[here] = is_old, is_new
            is_old, is_new = old_here, new_here
        region[is_old] = carried.words
        region[is_new] = without_gaps(packed, fresh.start, fresh.words)
    probability = np.concatenate((chance, carried.probability))[number]
    return both._replace(start=start), probability
