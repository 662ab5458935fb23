"""What the builder keeps in mind of a layout, so that the next one takes over what stays as it is.

Layouts of one catalogue number the same things anew: attributes, predicates, points and slots. What they mean
is told by the catalogue's numbers of attributes and predicates, which never change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.catalogue import CatalogueCounts
from pubsub_cluster.shm.code_space import I1, I4, I8, TEST_WIDTH, CodeSpaces, expand_slices
from pubsub_cluster.shm.layout import LayoutView
from pubsub_cluster.tuner.access import Ways
from pubsub_cluster.tuner.dealing import SLOT, UNDEALT
from pubsub_cluster.tuner.entries import Bools
from pubsub_cluster.tuner.predicates import Predicates
from pubsub_cluster.tuner.source import BLOCK_CLAUSES, Source, gather

I2 = npt.NDArray[np.int16]


class Numbering(NamedTuple):
    """How a layout numbers predicates and slots.

    Attributes
    ----------
    catalogue : int32[P]
        Catalogue predicate of each predicate; -1: none.
    column : int8[P]
    is_implied : bool[P]
    slot_start : int32[P+1]
    slot : int32[]
        Slots of each predicate's way in.
    point_count, slotted_count : int
    """

    catalogue: I4
    column: I1
    is_implied: Bools
    slot_start: I4
    slot: I4
    point_count: int
    slotted_count: int

    def sort_of(self, slot: I4) -> I8:
        """Return which slots are points (0), bits (1) and attributes (2)."""
        return np.searchsorted([self.point_count, self.slotted_count], slot, side="right")


class Known(NamedTuple):
    """What is kept in mind of a layout.

    Attributes
    ----------
    numbering : Numbering
    tables : list of tuple of int
        Catalogue attributes of each table; all are looked up by label.
    table_of : int16[c]
        Table of each catalogue clause, `SLOT`, `NEVER`, or `UNDEALT` where it has none.
    """

    numbering: Numbering
    tables: list[tuple[int, ...]]
    table_of: I2


class Base(NamedTuple):
    """A layout to take over from."""

    layout: LayoutView
    known: Known


class LastLayout:
    """The last layout that was built of a catalogue.

    Attributes
    ----------
    moved : int64[m]
        Catalogue clauses that are dealt anew; whoever chooses tables says so.
    taken_over : float
        Share of the entries that were taken over from it at the last build.
    """

    def __init__(self) -> None:
        self.moved: I8 = np.zeros(0, np.int64)
        self.taken_over = 0.0
        self._known: Known | None = None
        self._layout: LayoutView | None = None

    @property
    def base(self) -> Base | None:
        """What to take over from, if there is anything."""
        if self._known is None or self._layout is None:
            return None
        return Base(self._layout, self._known)

    def forget(self) -> None:
        """Let everything be packed anew."""
        self._known = self._layout = None
        self.moved = np.zeros(0, np.int64)

    def note(self, known: Known | None) -> None:
        """Keep in mind what is known of the layout that is about to be handed out; None: nothing."""
        self._known, self._layout = known, None

    def settle(self, layout: LayoutView) -> None:
        """Say where the columns of that layout lie from now on."""
        self._layout = layout


def numbering_of(predicates: Predicates, ways: Ways) -> Numbering:
    """Return what is kept in mind of predicates and their ways in."""
    return Numbering(
        predicates.catalogue,
        predicates.column,
        ways.is_implied,
        ways.slot_start.astype(np.int32),
        ways.slot.astype(np.int32),
        predicates.point_count,
        predicates.slotted_count,
    )


class Translation(NamedTuple):
    """From the numbers of one layout to those of the next; -1 where nothing means the same.

    Attributes
    ----------
    literal : int32[2P]
        A literal that stands in the same sort of column.
    slot : int64[S]
    relabelled : bool[A]
        Attributes of the old layout whose labels, or whose number, have changed, or of which some range goes
        in another sort of column: columns of labels may be of others.
    turned : int32[]
        Catalogue predicates that are found in another way than before: an interval of one label that has
        several by now.
    """

    literal: I4
    slot: I8
    relabelled: Bools
    turned: I4


def translate(base: Base, attribute_id: I4, spaces: CodeSpaces, new: Numbering) -> Translation:
    """Find what means the same in a layout to come.

    Parameters
    ----------
    base : Base
    attribute_id : int32[A]
        Catalogue attributes of the layout to come.
    spaces : CodeSpaces
    new : Numbering
        Of the layout to come.
    """
    old = base.known.numbering
    old_at, new_at = _in_both(old.catalogue, new.catalogue)
    literal = np.full(2 * len(old.catalogue), -1, np.int32)
    stays = old.column[old_at] == new.column[new_at]
    literal[2 * old_at[stays]] = 2 * new_at[stays]
    literal[2 * old_at[stays] + 1] = 2 * new_at[stays] + 1
    attribute = np.searchsorted(attribute_id, base.layout.attribute_catalogue)
    known = np.append(attribute_id, -1)[attribute] == base.layout.attribute_catalogue
    relabelled = np.ones(len(known), bool)
    for number in np.flatnonzero(known & (attribute == np.arange(len(attribute)))).tolist():
        relabelled[number] = not _same_labels(base.layout.spaces, spaces, number)
    of_predicate = base.layout.predicate_test[0::TEST_WIDTH][old_at[~stays]]
    relabelled[of_predicate[of_predicate >= 0]] = True
    slot, turned = _slots(old, new, old_at, new_at, len(known))
    present = old.slotted_count + np.arange(len(known))
    slot[present] = np.where(known, new.slotted_count + attribute, -1)
    slot[-1] = new.slotted_count + len(attribute_id)
    return Translation(literal, slot, relabelled, old.catalogue[turned])


def is_identity(numbers: npt.NDArray[Any]) -> bool:
    """Say whether everything has its number still."""
    return bool(np.array_equal(numbers, np.arange(len(numbers))))


def _in_both(old: I4, new: I4) -> tuple[I8, I8]:
    """Return where catalogue predicates stand that both layouts have."""
    at = np.full(max(int(old.max(initial=-1)), int(new.max(initial=-1))) + 1, -1, np.int64)
    own = np.flatnonzero(new >= 0)
    at[new[own]] = own
    old_at = np.flatnonzero(old >= 0)
    new_at = at[old[old_at]]
    return old_at[new_at >= 0], new_at[new_at >= 0]


def _slots(old: Numbering, new: Numbering, old_at: I8, new_at: I8, attribute_count: int) -> tuple[I8, I8]:
    """Translate points and bits: those that predicates of both layouts, with as many, have as ways in.

    Returns
    -------
    slot : int64[S]
    turned : int64[]
        Predicates of the old layout that have other ways in now.
    """
    slot = np.full(old.slotted_count + attribute_count + 1, -1, np.int64)
    old_width, new_width = np.diff(old.slot_start)[old_at], np.diff(new.slot_start)[new_at]
    before, after = old.slot[old.slot_start[old_at]], new.slot[new.slot_start[new_at]]
    alike = (old_width == new_width) & (old.is_implied[old_at] == new.is_implied[new_at])
    alike &= old.sort_of(before) == new.sort_of(after)
    turned = old_at[~alike]
    old_at, new_at, width = old_at[alike], new_at[alike], old_width[alike]
    before = old.slot[expand_slices(old.slot_start[old_at], width)].astype(np.int64)
    after = new.slot[expand_slices(new.slot_start[new_at], width)].astype(np.int64)
    slot[before] = after
    return slot, turned


def _same_labels(old: CodeSpaces, new: CodeSpaces, attribute: int) -> bool:
    """Say whether an attribute has the same constants in both."""

    def constants(spaces: CodeSpaces) -> list[npt.NDArray[Any]]:
        numbers = slice(*spaces.number_start[attribute : attribute + 2].tolist())
        first, stop = spaces.text_start[attribute : attribute + 2].tolist()
        offset = spaces.text_offset[first : stop + 1]
        text = spaces.text_bytes[int(offset[0]) : int(offset[-1])]
        return [spaces.number_whole[numbers], spaces.number_part[numbers], offset - offset[0], text]

    return all(np.array_equal(*pair) for pair in zip(constants(old), constants(new), strict=True))


class Dealt(NamedTuple):
    """How the clauses of a layout to come begin.

    Attributes
    ----------
    table_of : int16[n]
        Of each clause; `UNDEALT` where it is to be dealt.
    is_fresh : bool[n]
        Clauses that are packed in any case.
    row_of : int32[R]
        Row of the layout to come by row of the old one; -1: gone, or fresh.
    old_table : list of int
        Of each table the old layout's number; -1: it is new.
    """

    table_of: I2
    is_fresh: Bools
    row_of: I4
    old_table: list[int]


def deal_again(
    base: Base, source: Source, tables: list[tuple[int, ...]], moved: I8, turned: I4, counts: CatalogueCounts
) -> Dealt:
    """Leave clauses where they are, except those that moved, or that have to be found in another way.

    Parameters
    ----------
    base : Base
    source : Source
    tables : list of tuple of int
        Catalogue attributes of each table.
    moved : int64[m]
        Catalogue clauses to be dealt anew.
    turned : int32[]
        As in `Translation`.
    counts : CatalogueCounts
    """
    number = {schema: table for table, schema in enumerate(base.known.tables)}
    old_table = [number.get(schema, -1) for schema in tables]
    after = np.full(len(number) + 1, UNDEALT, np.int16)
    for table, old in enumerate(old_table):
        if old >= 0:
            after[old] = table
    after[SLOT] = SLOT  # -1 picks the last
    before = base.known.table_of
    known = np.where(before >= SLOT, after[np.maximum(before, SLOT)], UNDEALT).astype(np.int16)
    known[moved[moved < len(known)]] = UNDEALT
    clause = source.catalogue_clauses(slice(None))
    table_of = np.full(len(clause), UNDEALT, np.int16)
    old_clause = np.flatnonzero(clause < len(known))
    table_of[old_clause] = known[clause[old_clause]]
    if len(turned):
        table_of[_clauses_with(source, turned, counts.predicates)] = UNDEALT

    kept = np.ones(len(source.row_catalogue), bool)
    fresh_rows = source.rows_of(np.flatnonzero(table_of == UNDEALT))
    kept[fresh_rows] = False
    new_row = np.full(counts.rows, -1, np.int32)
    rows = np.flatnonzero(kept).astype(np.int32)
    new_row[source.row_catalogue[rows]] = rows
    is_fresh = ~kept if source.clause_row is None else ~kept[source.clause_row]
    return Dealt(table_of, is_fresh, new_row[base.layout.row_catalogue], old_table)


def _clauses_with(source: Source, predicates: I4, predicate_count: int) -> I8:
    """Return the clauses with one of some catalogue predicates."""
    is_one = np.zeros(predicate_count, bool)
    is_one[predicates] = True
    found = [np.zeros(0, np.int64)]
    for first in range(0, source.clause_count, BLOCK_CLAUSES):
        clauses = gather(source, slice(first, first + BLOCK_CLAUSES))
        found.append(np.unique(clauses.owner[is_one[clauses.literal >> 1]]) + np.int64(first))
    return np.concatenate(found)
