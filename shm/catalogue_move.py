"""Go over from a catalogue to a copy of it that was made while it changed.

Somebody copied the rows that were live as of some version (`shm.catalogue_copy`), which took a while. Here
the catalogue's writer carries over what has changed since: rows appended, rows removed. It does so a slice at
a time, so that its process can do other things in between, and goes on appending to the old catalogue until
`finish`. What is in the writer's memory alone (which predicate has which number) is carried over as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.catalogue_copy import GONE, Renumbered, read_rows, renumbered
from pubsub_cluster.shm.catalogue_draft import Draft, Slices
from pubsub_cluster.shm.catalogue_reader import CatalogueReader
from pubsub_cluster.shm.catalogue_store import I4, I8, CatalogueCounts, CatalogueStore
from pubsub_cluster.shm.catalogue_writer import CatalogueWriter

SLICE_PREDICATES = 8_192  # about 2 ms
SLICE_ROWS = 2_048
SLICE_REMOVALS = 1 << 18  # rows that are looked at; less than half a millisecond


class Copy(NamedTuple):
    """A copy of a catalogue's live rows.

    Attributes
    ----------
    store : CatalogueStore
    counts : CatalogueCounts
        What it holds.
    numbers : Renumbered
        Where everything went that the catalogue held then.
    version : int
        Rows that were removed up to it are not copied.
    rooms : Renumbered, optional
        `numbers` with room behind them for those of what came since; both are written to.
    """

    store: CatalogueStore
    counts: CatalogueCounts
    numbers: Renumbered
    version: int
    rooms: Renumbered | None = None


class CatalogueMove:
    """Makes a copy the catalogue.

    Parameters
    ----------
    old : CatalogueWriter
        Goes on being written until `finish`.
    copy : Copy
        Of `old` as of some moment.
    """

    def __init__(self, old: CatalogueWriter, copy: Copy) -> None:
        self._old = old
        self._version = copy.version
        self._reader = CatalogueReader.of(old)
        rooms = copy.rooms or copy.numbers
        self._rows = _Numbers(copy.numbers.rows, rooms.rows)
        self._predicates = _Numbers(copy.numbers.predicates, rooms.predicates)
        self._owners = _Numbers(copy.numbers.owners, rooms.owners)
        self._known_rows = len(copy.numbers.rows)
        self._looked_at = 0  # of them, for removals between the copy and now
        self._known_predicates = len(copy.numbers.predicates)
        self._known_owners = len(copy.numbers.owners)
        self._interned_predicates = self._interned_owners = 0
        attributes = np.flatnonzero(copy.numbers.attributes != GONE)
        names = {self._reader.attribute_name(int(old_idx)): new for new, old_idx in enumerate(attributes)}
        self.new = CatalogueWriter(copy.store, copy.counts, names)
        self._removed = old.note_removals()  # last: nobody gives up a move that could not begin

    @property
    def rows_left(self) -> int:
        """Rows that were appended meanwhile and are not carried over yet."""
        return self._old.counts().rows - len(self._rows.array)

    def step(self) -> bool:
        """Carry over a slice; return False when nothing is left now.

        Raises
        ------
        LimitError, SegmentError
            The copy cannot hold what was appended; the old catalogue stays as it is.
        """
        if self._interned_predicates < self._known_predicates:
            self._intern_predicates()
        elif self._interned_owners < self._known_owners:
            self._intern_owners()
        elif self._looked_at < self._known_rows:
            self._carry_earlier_removals()
        elif self.rows_left:
            self._carry_rows(min(SLICE_ROWS, self.rows_left))
        else:
            return False
        return True

    def finish(self) -> I4:
        """Carry over the rest, removals among them; `new` is the catalogue from here on.

        Returns
        -------
        int32[old rows]
            The new number of each row; `GONE` where it has none.

        Raises
        ------
        LimitError, SegmentError
            As `step`.
        """
        while self.step():
            pass
        self._old.ignore_removals()
        for rows in self._removed:
            self._carry_removals(rows)
        return self._rows.array

    def _carry_earlier_removals(self) -> None:
        """Carry over those between the copy and the beginning of the move, of a slice of the rows."""
        first, stop = self._looked_at, min(self._looked_at + SLICE_REMOVALS, self._known_rows)
        removed = self._old.columns.removed_version[first:stop]
        self._carry_removals(first + np.flatnonzero(removed > self._version))
        self._looked_at = stop

    def _carry_removals(self, rows: I8) -> None:
        new_row = self._rows.array[rows]
        is_there = new_row != GONE
        self.new.columns.removed_version[new_row[is_there]] = self._old.columns.removed_version[
            rows[is_there]
        ]

    def give_up(self) -> None:
        """Leave the old catalogue as it is."""
        self._old.ignore_removals()

    def _intern_predicates(self) -> None:
        first = self._interned_predicates
        stop = min(first + SLICE_PREDICATES, self._known_predicates)
        numbers = self._predicates.array[first:stop].tolist()
        self.new.know_predicates(
            predicate
            for predicate, number in zip(self._old.predicates[first:stop], numbers, strict=True)
            if number != GONE
        )
        self._interned_predicates = stop

    def _intern_owners(self) -> None:
        first = self._interned_owners
        stop = min(first + SLICE_PREDICATES, self._known_owners)
        kept = np.flatnonzero(self._owners.array[first:stop] != GONE) + first
        self.new.know_owners(self._reader.owner_name(idx) for idx in kept.tolist())
        self._interned_owners = stop

    def _carry_rows(self, count: int) -> None:
        first = len(self._rows.array)
        rows = np.arange(first, first + count, dtype=np.int32)
        live = rows[self._old.columns.removed_version[rows] == 0]
        counts = self._old.counts()
        read = read_rows(self._old.columns, counts.windows, live)
        self._predicates.grow(counts.predicates)
        self._owners.grow(counts.owners)

        def collect(draft: Draft) -> tuple[Slices, CatalogueCounts]:
            unknown = read.predicates[self._predicates.array[read.predicates] == GONE]
            literals = draft.number_predicates([self._old.predicates[idx] for idx in unknown.tolist()])
            self._predicates.array[unknown] = np.array(literals, np.int32) >> 1
            owners = np.unique(read.numbered.owners)
            for idx in owners[owners >= 0].tolist():
                if self._owners.array[idx] == GONE:
                    self._owners.array[idx] = draft.number_of_owner(self._reader.owner_name(idx))
            taken = renumbered(
                read.numbered, self.new.counts().rows, 2 * self._predicates.array, self._owners.array
            )
            return draft.slices_of(taken, self.new.columns)

        first_row = self.new.write(collect)
        self._rows.grow(first + count)
        self._rows.array[live] = np.arange(first_row, first_row + len(live), dtype=np.int32)


class _Numbers:
    """New numbers by old ones, for more and more old ones, in room that begins with those that are known."""

    def __init__(self, numbers: I4, room: I4) -> None:
        self._room: npt.NDArray[Any] = room
        self._count = len(numbers)

    @property
    def array(self) -> I4:
        """The numbers; writable."""
        return self._room[: self._count]

    def grow(self, count: int) -> None:
        """Make it `count` long; what is new is `GONE`."""
        if count > len(self._room):
            more = np.zeros(max(count, len(self._room) * 3 // 2) - len(self._room), np.int32)
            self._room = np.concatenate((self._room, more))
        self._room[self._count : count] = GONE
        self._count = max(self._count, count)
