"""Append subscriptions to the catalogue.

There is one writer, the coordinator. Everything is appended behind what any reader has been told of, column
by column; only then do the counts grow, here in the writer's memory, and a message may carry them. A crash at
any instant leaves nothing that a reader looks at: counts are never in the segment. The one word that changes
in place is a row's ``removed_version``.

Equal predicates, attributes and owners are stored once. An append that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import add, gt
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import LimitError, SegmentError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.predicate import NormalForm, Predicate
from pubsub_cluster.shm.catalogue_bulk import RowColumns
from pubsub_cluster.shm.catalogue_draft import Draft, NewRow, NewRows, Slices
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue, known_items
from pubsub_cluster.shm.catalogue_store import (
    NO_COUNTS,
    CatalogueColumns,
    CatalogueCounts,
    CatalogueStore,
)
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.segment import Owner

ROOM_AHEAD_SHARE = 16
ROOM_AHEAD_ITEMS = 4_096


class CatalogueWriter:
    """The one writer of a catalogue; made by `create` or `in_memory`.

    Parameters
    ----------
    store : CatalogueStore
    counts : CatalogueCounts
        What it holds already; `know_predicates` and `know_owners` must be told of it before the first append.
    attributes : dict of str to int, optional
        Numbers of the attributes that it holds already.

    Attributes
    ----------
    columns : CatalogueColumns
        Writable columns over the full capacity.
    predicates : list of Predicate
        By number.
    """

    def __init__(
        self,
        store: CatalogueStore,
        counts: CatalogueCounts = NO_COUNTS,
        attributes: dict[str, int] | None = None,
    ) -> None:
        self._store = store
        self.columns: CatalogueColumns = store.columns
        self._counts = counts
        self._ensured = NO_COUNTS
        self.predicates: list[Predicate] = []  # by number
        self._literals: dict[Predicate, int] = {}  # positive literal, 2 * predicate
        self._attributes: dict[str, int] = attributes or {}
        self._owners: dict[str, int] = {}
        self._noted: list[npt.NDArray[np.int64]] | None = None

    @classmethod
    def create(cls, owner: Owner, limits: Limits = DEFAULT_LIMITS, generation: int = 1) -> CatalogueWriter:
        """Make an empty catalogue in a sparse shared segment for ``limits.subscriptions_max`` rows."""
        return cls(CatalogueStore.create(limits.subscriptions_max, owner, generation))

    @classmethod
    def in_memory(cls, capacity: int = 1 << 20) -> CatalogueWriter:
        """Make an empty catalogue of `capacity` rows in private memory; untouched room costs nothing."""
        return cls(CatalogueStore.private(capacity))

    def know_predicates(self, predicates: Iterable[Predicate]) -> None:
        """Take over the next predicates that the columns hold already, in their order."""
        first = len(self.predicates)
        self.predicates += predicates
        for number in range(first, len(self.predicates)):
            self._literals[self.predicates[number]] = 2 * number

    def owner_number(self, name: str) -> int | None:
        """Return the number of an owner; None: no subscription has had it."""
        return self._owners.get(name)

    def know_owners(self, names: Iterable[str]) -> None:
        """Take over the next owners that the columns hold already, in their order."""
        for name in names:
            self._owners[name] = len(self._owners)

    @property
    def store(self) -> CatalogueStore:
        """The room; `CatalogueReader.of` reads it."""
        return self._store

    @property
    def name(self) -> str:
        """Name of the segment, for `CatalogueReader.attach`."""
        return self._store.family.name

    @property
    def capacity(self) -> CatalogueCounts:
        """The most items of each pool."""
        return self._store.capacity

    def counts(self) -> CatalogueCounts:
        """Return what has been appended so far."""
        return self._counts

    def ensure_room(self, needed: CatalogueCounts) -> None:
        """Reserve room for `needed` more items of each pool, so that a later append cannot fail.

        Raises
        ------
        LimitError
            A pool is too small.
        SegmentError
            No shared memory left.
        """
        wanted = CatalogueCounts(*map(add, self._counts, needed))
        if any(map(gt, wanted, self._ensured)):
            ahead = CatalogueCounts(
                *(
                    max(have, want, min(most, want + want // ROOM_AHEAD_SHARE + ROOM_AHEAD_ITEMS))
                    for want, have, most in zip(wanted, self._ensured, self.capacity, strict=True)
                )
            )
            try:
                self._store.make_room(ahead)
            except (LimitError, SegmentError):
                ahead = CatalogueCounts(*map(max, self._ensured, wanted))
                self._store.make_room(ahead)
            self._ensured = ahead

    def append(
        self,
        handle: int,
        subscription_id: str,
        owner: str | None,
        form: NormalForm,
        valid_from: int | None = None,
        valid_until: int | None = None,
    ) -> int:
        """Append one subscription and return its row; see `append_many`."""
        return self.append_many([NewRow(handle, subscription_id, owner, form, valid_from, valid_until)])

    def append_many(self, new_rows: Iterable[NewRow]) -> int:
        """Append subscriptions; return the row of the first one (they follow each other).

        Raises
        ------
        LimitError
            The catalogue is full; nothing has changed.
        SegmentError
            No memory; nothing has changed.
        """
        rows = list(new_rows)
        if not rows:
            return self._counts.rows
        return self.append_rows(NewRows(*zip(*rows, strict=True)))

    def append_rows(self, rows: NewRows) -> int:
        """Do the same for subscriptions that are given field by field."""
        return self.write(lambda draft: draft.collect(rows, self.columns))

    def append_columns(self, rows: RowColumns) -> int:
        """Append subscriptions given as columns; return the row of the first one.

        Raises
        ------
        ValueError
            The columns do not fit each other; nothing has changed.
        LimitError, SegmentError
            As `append_many`.
        """
        rows.check()
        return self.write(lambda draft: draft.collect_columns(rows, self.columns))

    @fault_point("catalogue.append")
    def write(self, collect: Callable[[Draft], tuple[Slices, CatalogueCounts]]) -> int:
        """Append what `collect` makes of a draft; return the row of the first one. Errors: `append_many`."""
        draft = Draft(self._counts, self._literals, self._attributes, self._owners)
        try:
            slices, counts = collect(draft)
            self._store.make_room(counts)
        except BaseException:
            draft.forget()
            raise
        for column, start, values in slices:
            column[start : start + len(values)] = values
        self.predicates += draft.new_predicates
        first_row = self._counts.rows
        self._counts = counts
        return first_row

    @fault_point("catalogue.remove")
    def remove(self, row: int, version: int) -> None:
        """Say that `version` is the first one that does not see `row`; a row is removed once."""
        if not 0 <= row < self._counts.rows or version <= 0 or self.columns.removed_version[row]:
            raise ValueError(f"row {row} of {self._counts.rows} cannot be removed at version {version}")
        self.columns.removed_version[row] = version
        if self._noted is not None:
            self._noted.append(np.array([row], np.int64))

    def remove_many(self, rows: Sequence[int] | npt.NDArray[np.int32], versions: Sequence[int]) -> None:
        """Do what `remove` does for different rows, each at its version."""
        of = np.array(rows, np.int64)
        is_wrong = (of < 0) | (of >= self._counts.rows) | (np.array(versions, np.int64) <= 0)
        is_wrong |= self.columns.removed_version[np.where(is_wrong, 0, of)] != 0
        if is_wrong.any():
            first = int(np.argmax(is_wrong))
            raise ValueError(
                f"row {rows[first]} of {self._counts.rows} cannot be removed at version {versions[first]}"
            )
        self.columns.removed_version[of] = versions
        if self._noted is not None:
            self._noted.append(of)

    def note_removals(self) -> list[npt.NDArray[np.int64]]:
        """Return a list to which the rows are added that are removed from now on; for the last caller."""
        self._noted = []
        return self._noted

    def ignore_removals(self) -> None:
        """Stop it."""
        self._noted = None

    def take_dictionaries(self) -> list[Any]:
        """Give away what the writer remembers of predicates and owners; nothing is appended any more."""
        taken: list[Any] = [self._owners, self._literals, self.predicates]
        self._owners, self._literals, self.predicates = {}, {}, []
        return taken

    def take_over(self, packed: PackedCatalogue) -> None:
        """Hold what was packed (`shm.catalogue_packed`); only while the catalogue is empty.

        Raises
        ------
        LimitError, SegmentError
            It does not fit; nothing has changed.
        """
        if self._counts != NO_COUNTS:
            raise ValueError(f"the catalogue has {self._counts.rows} rows already")
        self._store.make_room(packed.counts)
        for name, values in packed.columns.items():
            getattr(self.columns, name)[: len(values)] = values
        self._counts = packed.counts
        predicates, self._attributes, owners = known_items(self.columns, packed.counts)
        self.know_predicates(predicates)
        self.know_owners(owners)

    def close(self) -> None:
        """Let go of the segment."""
        self._store.family.close()

    def unlink(self) -> None:
        """Remove the segment's name."""
        self._store.family.unlink()
