"""The catalogue's book-keeping: ids, handles, versions, and changes on their way to the disk.

A change is *staged* when it arrives: it gets its version (and a new subscription its handle) and later
requests are judged as if it were in force. It is *applied* to the shared catalogue when the store
reports it durable, in version order; only then do batches see it and does its sender get an answer.
When the store fails, everything staged is forgotten (`rollback`): nothing of it was ever visible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import add, sub
from typing import Any, NamedTuple

import msgspec

from pubsub_cluster.coordinator.metadata import MetadataTable, encode_metadata
from pubsub_cluster.coordinator.store import SUBSCRIBE, UNSUBSCRIBE, UPDATE, Change
from pubsub_cluster.language.compile import Compiler
from pubsub_cluster.language.errors import (
    DuplicateIdError,
    ExpressionError,
    PubSubError,
    StartError,
    UnknownIdError,
    WindowError,
)
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.normalise import never, normalise
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.language.values import check_name
from pubsub_cluster.shm.catalogue import (
    NO_COUNTS,
    CatalogueCounts,
    CatalogueReader,
    CatalogueWriter,
    NewRow,
    room_for,
)
from pubsub_cluster.shm.catalogue_rows import window_of
from pubsub_cluster.shm.id_index import IdIndex

DEFAULT_OWNER = "default"
REPLAY_GROUP = 10_000
GONE = 0  # no change has this version
_SUBSCRIBE_KEYS = frozenset({"id", "expr", "owner", "valid_from", "valid_until", "metadata"})
_UPDATE_KEYS = _SUBSCRIBE_KEYS - {"owner"}


class Live(NamedTuple):
    """What a later change needs to know of a live subscription."""

    handle: int
    owner: str
    valid_from: int | None
    valid_until: int | None
    metadata: bytes | None = None


@dataclass(slots=True)
class Staged:
    """A change that waits for the disk, and the most that it needs of the catalogue."""

    change: Change
    form: NormalForm | None
    room: CatalogueCounts = NO_COUNTS


class Registry:
    """Owner of the catalogue's ids, handles and versions.

    Parameters
    ----------
    catalogue : CatalogueWriter
        Written only here.
    schema : Schema
    limits : Limits
    """

    def __init__(self, catalogue: CatalogueWriter, schema: Schema, limits: Limits) -> None:
        self.catalogue = catalogue
        self.schema = schema
        self.limits = limits
        self._compiler = Compiler(schema, limits)
        self.version = 0  # of the last applied change
        self.live_count = 0
        self.removed_count = 0  # rows of this life that are dead
        self._reader = CatalogueReader.of(catalogue)
        self._live = IdIndex(self._reader.id_bytes)
        self._metadata = MetadataTable()
        self._overlay: dict[str, tuple[int, Live | None]] = {}  # by id: version of the last staged change
        self._staged: deque[Staged] = deque()
        self._staged_room = NO_COUNTS  # upper bound of what the staged changes need
        self._next_version = 1
        self._next_handle = 1

    # ---- staging -------------------------------------------------------------------------------

    def stage_subscribe(self, item: Any) -> tuple[Change, dict[str, Any]]:
        """Stage a new subscription; return its change and the answer for its sender.

        Raises
        ------
        CallerError
            When the item is not well formed or its id exists; nothing is changed.
        """
        body = _object(item, _SUBSCRIBE_KEYS)
        handle = self._next_handle
        subscription_id = self._new_id(body.get("id"), handle)
        owner = check_name(body.get("owner", DEFAULT_OWNER), what="owner", limits=self.limits)
        window = _window(body.get("valid_from"), body.get("valid_until"))
        metadata = encode_metadata(body.get("metadata"), self.limits)
        form, expression = self._form(body)
        change = Change(
            self._next_version, SUBSCRIBE, handle, subscription_id, owner, expression, *window, metadata
        )
        room = self._take_room(change, form)
        self._next_handle += 1
        self._stage(change, form, Live(handle, owner, *window, metadata), room)
        return change, {"ok": True, "id": subscription_id, "handle": handle, **_shape(form)}

    def stage_update(self, item: Any) -> tuple[Change, dict[str, Any]]:
        """Stage a new expression (and window) for a live subscription; it keeps its handle."""
        body = _object(item, _UPDATE_KEYS)
        subscription_id, live = self._known(body.get("id"))
        window = _window(body.get("valid_from", live.valid_from), body.get("valid_until", live.valid_until))
        metadata = live.metadata
        if "metadata" in body:
            metadata = encode_metadata(body["metadata"], self.limits)
        form, expression = self._form(body)
        change = Change(
            self._next_version,
            UPDATE,
            live.handle,
            subscription_id,
            live.owner,
            expression,
            *window,
            metadata,
        )
        room = self._take_room(change, form)
        self._stage(change, form, Live(live.handle, live.owner, *window, metadata), room)
        return change, {"ok": True, "id": subscription_id, "handle": live.handle, **_shape(form)}

    def stage_unsubscribe(self, subscription_id: Any) -> tuple[Change, dict[str, Any]]:
        """Stage the removal of a live subscription."""
        name, live = self._known(subscription_id)
        change = Change(self._next_version, UNSUBSCRIBE, live.handle, name, live.owner, None, None, None)
        self._stage(change, None, None)
        return change, {"ok": True, "id": name, "handle": live.handle}

    def _stage(
        self, change: Change, form: NormalForm | None, live: Live | None, room: CatalogueCounts = NO_COUNTS
    ) -> None:
        self._next_version += 1
        self._overlay[change.subscription_id] = (change.version, live)
        self._staged.append(Staged(change, form, room))

    def _new_id(self, given: Any, handle: int) -> str:
        if given is None:
            name = f"s{handle}"
            while self._find(name) is not None:
                name += "'"
            return name
        name = check_name(given, what="subscription id", limits=self.limits)
        if self._find(name) is not None:
            raise DuplicateIdError(
                "a subscription with this id exists", seen=name, remedy="Use update, or another id."
            )
        return name

    def _known(self, given: Any) -> tuple[str, Live]:
        name = check_name(given, what="subscription id", limits=self.limits)
        live = self._find(name)
        if live is None:
            raise UnknownIdError("no subscription has this id", seen=name, remedy="Subscribe it first.")
        return name, live

    def described(self, subscription_id: Any) -> dict[str, Any]:
        """Return what is known of a live subscription beside its expression, as batches see it now.

        Raises
        ------
        UnknownIdError
            There is none with this id.
        """
        name = check_name(subscription_id, what="subscription id", limits=self.limits)
        row = self._live.find(name)
        if row < 0:
            raise UnknownIdError("no subscription has this id", seen=name, remedy="Subscribe it first.")
        live = self._live_row(row, name)
        metadata = None if live.metadata is None else msgspec.json.decode(live.metadata)
        return {"ok": True, "id": name, **live._asdict(), "metadata": metadata}

    def _find(self, name: str) -> Live | None:
        if name in self._overlay:
            return self._overlay[name][1]
        row = self._live.find(name)
        return None if row < 0 else self._live_row(row, name)

    def _live_row(self, row: int, name: str) -> Live:
        columns = self.catalogue.columns
        owner = self._reader.owner_name(int(columns.owner[row]))
        window = window_of(columns, self.catalogue.counts().windows, row)
        return Live(int(columns.handle[row]), owner, *_given(window), self._metadata.get(name))

    def _form(self, body: dict[str, Any]) -> tuple[NormalForm, bytes]:
        if "expr" not in body:
            raise ExpressionError("the expression is missing", seen=sorted(body), remedy='Give it as "expr".')
        return self._normalised(body["expr"]), msgspec.json.encode(body["expr"])

    def _normalised(self, given: Any) -> NormalForm:
        if isinstance(given, str):
            return normalise(parse_text(given, self.schema, self.limits), self.schema, self.limits)
        return self._compiler.normal_form(given)

    def _take_room(self, change: Change, form: NormalForm) -> CatalogueCounts:
        """Make sure, before it is durable, that the catalogue can hold the change beside all staged ones."""
        room = _room_at_most(change, form)
        all_rooms = CatalogueCounts(*map(add, self._staged_room, room))
        self.catalogue.ensure_room(all_rooms)
        self._staged_room = all_rooms
        return room

    def apply(self, change_count: int) -> None:
        """Make the next `change_count` staged changes visible: they are durable."""
        staged = [self._staged.popleft() for _ in range(change_count)]
        added = [entry for entry in staged if entry.form is not None]
        next_row = (
            self.catalogue.append_many([_new_row(entry.change, entry.form) for entry in added if entry.form])
            if added
            else 0
        )
        for entry in staged:
            change = entry.change
            next_row = self._apply_one(change, next_row)
            self.version = change.version
            if self._overlay.get(change.subscription_id, (0, None))[0] == change.version:
                del self._overlay[change.subscription_id]
        if staged:
            taken = map(sum, zip(*(entry.room for entry in staged), strict=True))
            self._staged_room = CatalogueCounts(*map(sub, self._staged_room, taken))
        self.live_count = len(self._live)

    def _apply_one(self, change: Change, next_row: int) -> int:
        """Let ids, metadata and rows follow a change; return the row of the next one that adds any."""
        self._metadata.put(change.subscription_id, change.metadata)
        if change.operation == UNSUBSCRIBE:
            self._remove(self._live.remove(change.subscription_id), change.version)
            return next_row
        before = -1 if change.operation == SUBSCRIBE else self._live.find(change.subscription_id)
        if before < 0:  # also an update whose subscription was made in an earlier life
            self._live.add(change.subscription_id, next_row)
        else:
            self._remove(before, change.version)
            self._live.move(change.subscription_id, next_row)
        return next_row + 1

    def _remove(self, row: int, version: int) -> None:
        self.catalogue.remove(row, version)
        self.removed_count += 1

    def rollback(self) -> None:
        """Forget everything staged: the store could not keep it."""
        self._staged.clear()
        self._staged_room = NO_COUNTS
        self._overlay.clear()
        self._next_version = self.version + 1
        # Handles are never reused, so the ones given to the forgotten changes stay unused.

    def replay(
        self, changes: Callable[[], Iterable[Change]], go_on: Callable[[], bool] = lambda: True
    ) -> None:
        """Take over the subscriptions of an earlier life: those that are live, nothing of the others.

        Parameters
        ----------
        changes : callable
            Gives all durable changes in version order; called twice.
        go_on : callable
            Asked now and then; False ends the replay early.

        Raises
        ------
        StartError
            A subscription cannot be taken over under this schema or these limits; it is named.
        """
        last: dict[str, int] = {}  # only of ids that changed again: most never do
        for change in changes():
            self._next_handle = max(self._next_handle, change.handle + 1)
            self._next_version = change.version + 1
            if change.operation == UNSUBSCRIBE:
                last[change.subscription_id] = GONE
            elif change.operation == UPDATE or change.subscription_id in last:
                last[change.subscription_id] = change.version
        waiting = 0
        for change in changes():
            version = change.version
            if change.operation == UNSUBSCRIBE or last.get(change.subscription_id, version) != version:
                continue
            try:
                form = self._normalised(msgspec.json.decode(change.expression or b""))
                self._staged.append(Staged(change, form))
                waiting += 1
                if waiting == REPLAY_GROUP:
                    self.apply(waiting)
                    waiting = 0
                    if not go_on():
                        return
            except PubSubError as error:
                raise _cannot_take_over(change, error) from error
        try:
            self.apply(waiting)
        except PubSubError as error:
            raise StartError(
                f"the stored subscriptions do not fit: {error.condition}", seen=error.seen
            ) from error
        self.version = self._next_version - 1


def _room_at_most(change: Change, form: NormalForm) -> CatalogueCounts:
    """Return a bound of what a change needs, from the size of its expression where nothing expands."""
    expression = change.expression or b""
    if form.clauses is None or b"$" in expression:
        return room_for(_new_row(change, form))
    predicates = len(form.predicates)
    return CatalogueCounts(
        1,
        int(change.valid_from is not None or change.valid_until is not None),
        len(change.subscription_id.encode()),
        len(form.clauses),
        sum(map(len, form.clauses)),
        predicates,
        2 * predicates + expression.count(b","),
        2 * len(expression) + len(change.owner.encode()),
        2 * predicates,
        1,
    )


def _new_row(change: Change, form: NormalForm) -> NewRow:
    return NewRow(
        change.handle,
        change.subscription_id,
        change.owner,
        form,
        change.valid_from,
        change.valid_until,
    )


def _shape(form: NormalForm) -> dict[str, Any]:
    return {"clauses": len(form.clauses) if form.clauses is not None else 0, "never": never(form)}


def _object(item: Any, keys: frozenset[str]) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise ExpressionError("a subscription is a JSON object", seen=type(item).__name__, limit=sorted(keys))
    unknown = item.keys() - keys
    if unknown:
        raise ExpressionError("unknown key in a subscription", seen=sorted(unknown), limit=sorted(keys))
    return item


def _window(valid_from: Any, valid_until: Any) -> tuple[int | None, int | None]:
    for name, value in (("valid_from", valid_from), ("valid_until", valid_until)):
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not INT64_MIN <= value <= INT64_MAX:
            raise WindowError(f"{name} must be a 64-bit integer of microseconds since the epoch", seen=value)
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        raise WindowError(
            "the end of a validity window must be after its start",
            seen=[valid_from, valid_until],
            remedy="Swap them.",
        )
    return valid_from, valid_until


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
