"""The catalogue's book-keeping: ids, handles, versions, and what is in force.

A change is staged when it arrives (`Staging`) and *applied* to the shared catalogue when the store reports
it durable, in version order; only then do batches see it and does its sender get an answer. When the store
fails, everything staged is forgotten (`rollback`): nothing of it was ever visible.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pubsub_cluster.coordinator.handle_order import HandleOrder
from pubsub_cluster.coordinator.items import shape_of
from pubsub_cluster.coordinator.metadata import MetadataTable
from pubsub_cluster.coordinator.row_versions import RowVersions
from pubsub_cluster.coordinator.snapshots import Snapshot
from pubsub_cluster.coordinator.staging import Answer, Live, Staged, Staging
from pubsub_cluster.language.errors import PubSubError, StartError, UnknownIdError
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.protocol import Op
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.subscription import ExpressionReader
from pubsub_cluster.language.values import check_name
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader, CatalogueWriter, NewRows
from pubsub_cluster.shm.catalogue_move import CatalogueMove, Copy
from pubsub_cluster.shm.catalogue_rows import window_of
from pubsub_cluster.shm.change_groups import SUBSCRIBE, UNSUBSCRIBE, UPDATE, Change
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.id_index import IdIndex

REPLAY_GROUP = 10_000
GONE = 0  # no change has this version
_operation_of, _handle_of = operator.attrgetter("operation"), operator.attrgetter("handle")


class Registry:
    """Owner of the catalogue's ids, handles and versions.

    Parameters
    ----------
    catalogue : CatalogueWriter
        Written only here.
    schema : Schema
    limits : Limits
    make_reader : callable, optional
        Makes what reads expressions.
    """

    def __init__(
        self,
        catalogue: CatalogueWriter,
        schema: Schema,
        limits: Limits,
        make_reader: Callable[[Schema, Limits], ExpressionReader] = ExpressionReader,
    ) -> None:
        self.catalogue = catalogue
        self.schema = schema
        self.limits = limits
        self.version = 0  # of the last applied change
        self.live_count = 0
        self.by_handle = HandleOrder()
        self.removed_count = 0  # rows of this life that are dead
        self.base_rows = 0  # so many are in the layout in force: a generation's publication sets it
        self.removed_in_base = 0
        self._reader = CatalogueReader.of(catalogue)
        self._live = IdIndex(self._reader.id_bytes, limits.subscriptions_max)
        self._metadata = MetadataTable()
        self.row_versions = RowVersions()
        looks = self._rows_of, self._named, self._live_row, self._ensure_room, self._live.__len__
        self._staging = Staging(schema, limits, *looks, make_reader)

    def stage_subscribe(self, item: Any) -> tuple[Change, dict[str, Any]]:
        """Stage a new subscription; return its change and the answer for its sender.

        Raises
        ------
        CallerError
            When the item is not well formed or its id exists; nothing is changed.
        """
        return self._staging.subscribe(item)

    def stage_many(self, op: Op, items: Sequence[Any]) -> list[tuple[Change, Answer] | Exception]:
        """Stage the items of a request; for each there is what staging it alone returns or raises."""
        if op is Op.SUBSCRIBE:
            return self._staging.subscribe_many(items)
        if op is Op.UNSUBSCRIBE:
            return self._staging.unsubscribe_many(items)
        return self._staging.each(self._staging.update, items)

    def stage_update(self, item: Any) -> tuple[Change, dict[str, Any]]:
        """Stage a new expression (and window) for a live subscription; it keeps its handle."""
        return self._staging.update(item)

    def stage_unsubscribe(self, subscription_id: Any) -> tuple[Change, dict[str, Any]]:
        """Stage the removal of a live subscription."""
        return self._staging.unsubscribe(subscription_id)

    def live(self, subscription_id: Any) -> tuple[str, int, Live]:
        """Return id, row and what is known of a live subscription, as batches see it now.

        Raises
        ------
        UnknownIdError
            There is none with this id.
        """
        name = check_name(subscription_id, what="subscription id", limits=self.limits)
        row = self._live.find(name)
        if row < 0:
            raise UnknownIdError("no subscription has this id", seen=name, remedy="Subscribe it first.")
        return name, row, self._live_row(row, name)

    def take_schema(self, schema: Schema) -> None:
        """Read expressions by an extended schema from now on."""
        self.schema = schema
        self._staging.take_schema(schema)

    def answer_of(self, change: Change) -> Answer:
        """Return what the sender of a durable change was answered, or would have been."""
        told: Answer = {"ok": True, "id": change.subscription_id, "handle": change.handle}
        if change.expression is not None:
            told |= shape_of(self._staging.expressions.form_of(change.expression))
        return told

    @property
    def dead_count(self) -> int:
        """Rows of the catalogue that no later batch sees."""
        return self.catalogue.counts().rows - self.live_count

    def begin_move(self, copy: Copy) -> CatalogueMove:
        """Begin to make a copy the catalogue; changes go on meanwhile."""
        return CatalogueMove(self.catalogue, copy)

    def ready_move(self, move: CatalogueMove) -> None:
        """Have room in the copy for what is staged: `finish_move` need not wait for pages then.

        Raises
        ------
        LimitError, SegmentError
            There is none; the catalogue is still the old one.
        """
        move.new.ensure_room(self._staging.room)

    def finish_move(self, move: CatalogueMove) -> None:
        """Make the copy the catalogue.

        Raises
        ------
        LimitError, SegmentError
            It has no room for what is appended or staged; the catalogue is still the old one.
        """
        new_row = move.finish()
        self.ready_move(move)
        self.catalogue = move.new
        self._reader = CatalogueReader.of(move.new)
        self._live.renumber(new_row, self._reader.id_bytes)
        self.row_versions.move(new_row)
        self.by_handle = HandleOrder()

    def settle(self, bucket_count: int) -> bool:
        """Let a part of what tells of rows follow the last move; False when all of it has."""
        return self._live.settle(bucket_count) or self.row_versions.settle_some()

    def _ensure_room(self, room: CatalogueCounts) -> None:
        self.catalogue.ensure_room(room)

    def _rows_of(self, names: Sequence[str]) -> list[int]:
        return self._live.find_many(names, self._reader.subscription_ids)

    def _named(self, rows: Sequence[int]) -> tuple[list[int], list[str]]:
        """Return handles and owners; anything where a row is negative."""
        columns = self.catalogue.columns
        of = np.maximum(np.array(rows, np.int64), 0)
        handles: list[int] = columns.handle[of].tolist()
        numbers = columns.owner[of].tolist()
        known = {number: self._reader.owner_name(number) for number in set(numbers) if number >= 0}
        return handles, [known.get(number, "") for number in numbers]

    def _live_row(self, row: int, name: str) -> Live:
        columns = self.catalogue.columns
        owner = self._reader.owner_name(int(columns.owner[row]))
        windows = self.catalogue.counts().windows
        window = window_of(columns, windows, row) if windows else None
        return Live(int(columns.handle[row]), owner, *_given(window), self._metadata.get(name))

    @fault_point("catalogue.apply")
    def apply(self, change_count: int) -> None:
        """Make the next `change_count` staged changes visible: they are durable."""
        self._apply(self._staging.take(change_count))

    def _apply(self, staged: list[Staged]) -> None:
        for removes, alike in itertools.groupby(staged, lambda entry: entry.form is None):
            entries = list(alike)
            changes = [entry.change for entry in entries]
            if removes:
                self._remove_many(changes)
            else:
                self._append(entries, changes)
            self.version = changes[-1].version
            self._staging.settle(entries)
            self.live_count = len(self._live)

    def _append(self, staged: list[Staged], changes: list[Change]) -> None:
        next_row = self.catalogue.append_rows(_rows_of(staged))
        if all(change.operation == SUBSCRIBE for change in changes):
            self._add_many(changes, next_row)
            return
        for change in changes:
            self._apply_one(change, next_row)
            next_row += 1

    def _apply_one(self, change: Change, row: int) -> None:
        """Let ids, metadata and rows follow a change that added a row."""
        self._metadata.put(change.subscription_id, change.metadata)
        self.row_versions.add(row, change.version)
        before = -1 if change.operation == SUBSCRIBE else self._live.find(change.subscription_id)
        if before < 0:  # also an update whose subscription was made in an earlier life
            self._live.add(change.subscription_id, row)
        else:
            self._remove(before, change.version)
            self._live.move(change.subscription_id, row)

    def _add_many(self, changes: list[Change], first_row: int) -> None:
        """Do what `_apply_one` does for new subscriptions."""
        self._live.add_many([change.subscription_id for change in changes], first_row)
        self.row_versions.add_many(first_row, [change.version for change in changes])
        for change in changes:
            if change.metadata is not None:
                self._metadata.put(change.subscription_id, change.metadata)

    def _remove_many(self, changes: list[Change]) -> None:
        names = [change.subscription_id for change in changes]
        handles = np.array([change.handle for change in changes])
        rows = self._live.remove_many(
            names, lambda rows: np.array_equal(self.catalogue.columns.handle[rows], handles)
        )
        self.catalogue.remove_many(rows, [change.version for change in changes])
        self._metadata.forget(names)
        self.removed_count += len(rows)
        self.removed_in_base += int(np.count_nonzero(rows < self.base_rows))

    def _forget(self, change: Change) -> None:
        """Let a replayed removal take effect, if what it removes was taken over."""
        if self._live.find(change.subscription_id) >= 0:
            self._remove(self._live.remove(change.subscription_id), change.version)
            self._metadata.put(change.subscription_id, None)
            self.live_count = len(self._live)

    def _remove(self, row: int, version: int) -> None:
        self.catalogue.remove(row, version)
        self.removed_count += 1
        self.removed_in_base += row < self.base_rows

    def rollback(self) -> None:
        """Forget everything staged: the store could not keep it."""
        self._staging.forget(self.version)

    @fault_point("snapshot.take_over")
    def take_over(self, snapshot: Snapshot, go_on: Callable[[], bool] = lambda: True) -> None:
        """Start from a snapshot; `replay` what came after it. Only while the catalogue is empty.

        Parameters
        ----------
        snapshot : Snapshot
        go_on : callable
            Called now and then.

        Raises
        ------
        LimitError, SegmentError
            It does not fit.
        """
        self.catalogue.take_over(snapshot.catalogue)
        columns, rows = snapshot.catalogue.columns, snapshot.catalogue.counts.rows
        text = columns["id_text"].tobytes()
        bounds = itertools.pairwise(columns["id_start"][: rows + 1].tolist())
        go_on()
        if text.isascii():  # as most ids are: cut once instead of decoded one by one
            whole = text.decode()
            names = [whole[first:stop] for first, stop in bounds]
        else:
            names = [text[first:stop].decode() for first, stop in bounds]
        go_on()
        self._live.fill(names)
        for name, data in snapshot.metadata.items():
            self._metadata.put(name, data)
        self.live_count = rows
        self.row_versions.fill(snapshot.row_version)
        self.start_at(snapshot.facts.version, snapshot.facts.next_handle)

    def start_at(self, version: int, next_handle: int) -> None:
        """Give no version up to this one again, and no handle below; the catalogue is at this version."""
        self.version = version
        self._staging.next_version = max(self._staging.next_version, version + 1)
        self._staging.next_handle = max(self._staging.next_handle, next_handle)

    @property
    def next_handle(self) -> int:
        """The handle of the next new subscription."""
        return self._staging.next_handle

    @fault_point("store.replay")
    def replay(
        self, changes: Callable[[], Iterable[Change]], go_on: Callable[[], bool] = lambda: True
    ) -> None:
        """Take over the subscriptions of an earlier life: those that are live, nothing of the others.

        Parameters
        ----------
        changes : callable
            Gives all durable changes that are not in force yet, in version order; called twice.
        go_on : callable
            Asked now and then; False ends the replay early.

        Raises
        ------
        StartError
            A subscription cannot be taken over under this schema or these limits; it is named.
        """
        last = self._changed_again(changes())
        form_of = self._staging.expressions.form_of
        waiting: list[Staged] = []
        for change in changes():
            if last:
                if change.operation == UNSUBSCRIBE:
                    self._forget(change)
                    continue
                if last.get(change.subscription_id, change.version) != change.version:
                    continue
            try:
                waiting.append(Staged(change, form_of(change.expression or b"")))
                if len(waiting) == REPLAY_GROUP:
                    self._apply(waiting)
                    waiting = []
                    if not go_on():
                        return
            except PubSubError as error:
                raise _cannot_take_over(change, error) from error
        try:
            self._apply(waiting)
        except PubSubError as error:
            raise StartError(
                f"the stored subscriptions do not fit: {error.condition}", seen=error.seen
            ) from error
        self.version = self._staging.next_version - 1
        self._staging.forget(self.version)

    def _changed_again(self, changes: Iterable[Change]) -> dict[str, int]:
        """Count on from replayed changes; return last versions of ids that changed again: most never do."""
        staging, all_changes = self._staging, iter(changes)
        last: dict[str, int] = {}
        while group := list(itertools.islice(all_changes, REPLAY_GROUP)):
            staging.next_handle = max(staging.next_handle, max(map(_handle_of, group)) + 1)
            staging.next_version = max(staging.next_version, group[-1].version + 1)
            if not last and set(map(_operation_of, group)) == {SUBSCRIBE}:
                continue
            for change in group:
                if change.operation == UNSUBSCRIBE:
                    last[change.subscription_id] = GONE
                elif change.operation == UPDATE or change.subscription_id in last:
                    last[change.subscription_id] = change.version
        return last


def _rows_of(staged: list[Staged]) -> NewRows:
    """Return the rows that changes add, one each; at least one."""
    added = [(entry.change, entry.form) for entry in staged if entry.form is not None]
    changes, forms = zip(*added, strict=True)
    _, _, handles, names, owners, _, valid_from, valid_until, _ = zip(*changes, strict=True)
    return NewRows(handles, names, owners, forms, valid_from, valid_until)


def _given(window: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """Return a window as it was given: None where it is unbounded."""
    if window is None:
        return None, None
    return None if window[0] == INT64_MIN else window[0], None if window[1] == INT64_MAX else window[1]


def _cannot_take_over(change: Change, error: PubSubError) -> StartError:
    return StartError(
        f"the stored subscription {change.subscription_id!r} cannot be taken over: {error.condition}",
        seen=error.seen,
        limit=error.limit,
        remedy="Start with the schema and the limits under which it was made, or larger ones.",
    )
