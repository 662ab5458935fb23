"""Changes on their way to the disk: judged and numbered, in force for nobody yet.

A change is *staged* when it arrives: it gets its version (and a new subscription its handle) and later
requests are judged as if it were in force. The registry takes the staged changes in version order when the
store reports them durable; when the store fails, everything staged is forgotten (`Staging.forget`): nothing
of it was ever visible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import add, sub
from typing import Any, NamedTuple

import msgspec

from pubsub_cluster.coordinator.metadata import encode_metadata
from pubsub_cluster.coordinator.store import SUBSCRIBE, UNSUBSCRIBE, UPDATE, Change
from pubsub_cluster.language.compile import Compiler
from pubsub_cluster.language.errors import (
    DuplicateIdError,
    ExpressionError,
    UnknownIdError,
    WindowError,
)
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.normalise import never, normalise
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.language.values import check_name
from pubsub_cluster.shm.catalogue import NO_COUNTS, CatalogueCounts, NewRow, room_for

DEFAULT_OWNER = "default"
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


class Staging:
    """Judges changes and numbers them.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    find_live : callable
        What is known of the subscription of an id as batches see it now; None when there is none.
    ensure_room : callable
        Raises unless the catalogue can hold that many more items beside what it holds.

    Attributes
    ----------
    next_version, next_handle : int
        Of the next change and of the next new subscription.
    """

    def __init__(
        self,
        schema: Schema,
        limits: Limits,
        find_live: Callable[[str], Live | None],
        ensure_room: Callable[[CatalogueCounts], None],
    ) -> None:
        self.schema = schema
        self.limits = limits
        self.next_version = 1
        self.next_handle = 1
        self._compiler = Compiler(schema, limits)
        self._find_live = find_live
        self._ensure_room = ensure_room
        self._overlay: dict[str, tuple[int, Live | None]] = {}  # by id: version of the last staged change
        self._staged: deque[Staged] = deque()
        self._staged_room = NO_COUNTS  # upper bound of what the staged changes need

    def subscribe(self, item: Any) -> tuple[Change, dict[str, Any]]:
        """Stage a new subscription; return its change and the answer for its sender.

        Raises
        ------
        CallerError
            When the item is not well formed or its id exists; nothing is changed.
        """
        body = _object(item, _SUBSCRIBE_KEYS)
        handle = self.next_handle
        subscription_id = self._new_id(body.get("id"), handle)
        owner = check_name(body.get("owner", DEFAULT_OWNER), what="owner", limits=self.limits)
        window = _window(body.get("valid_from"), body.get("valid_until"))
        metadata = encode_metadata(body.get("metadata"), self.limits)
        form, expression = self._form(body)
        change = Change(
            self.next_version, SUBSCRIBE, handle, subscription_id, owner, expression, *window, metadata
        )
        room = self._take_room(change, form)
        self.next_handle += 1
        self._stage(change, form, Live(handle, owner, *window, metadata), room)
        return change, {"ok": True, "id": subscription_id, "handle": handle, **_shape(form)}

    def update(self, item: Any) -> tuple[Change, dict[str, Any]]:
        """Stage a new expression (and window) for a live subscription; it keeps its handle."""
        body = _object(item, _UPDATE_KEYS)
        subscription_id, live = self._known(body.get("id"))
        window = _window(body.get("valid_from", live.valid_from), body.get("valid_until", live.valid_until))
        metadata = live.metadata
        if "metadata" in body:
            metadata = encode_metadata(body["metadata"], self.limits)
        form, expression = self._form(body)
        change = Change(
            self.next_version,
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

    def unsubscribe(self, subscription_id: Any) -> tuple[Change, dict[str, Any]]:
        """Stage the removal of a live subscription."""
        name, live = self._known(subscription_id)
        change = Change(self.next_version, UNSUBSCRIBE, live.handle, name, live.owner, None, None, None)
        self._stage(change, None, None)
        return change, {"ok": True, "id": name, "handle": live.handle}

    def _stage(
        self, change: Change, form: NormalForm | None, live: Live | None, room: CatalogueCounts = NO_COUNTS
    ) -> None:
        self.next_version += 1
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

    def _find(self, name: str) -> Live | None:
        if name in self._overlay:
            return self._overlay[name][1]
        return self._find_live(name)

    def _form(self, body: dict[str, Any]) -> tuple[NormalForm, bytes]:
        if "expr" not in body:
            raise ExpressionError("the expression is missing", seen=sorted(body), remedy='Give it as "expr".')
        return self.normalised(body["expr"]), msgspec.json.encode(body["expr"])

    def normalised(self, given: Any) -> NormalForm:
        """Return the normal form of an expression as it was given: text or JSON."""
        if isinstance(given, str):
            return normalise(parse_text(given, self.schema, self.limits), self.schema, self.limits)
        return self._compiler.normal_form(given)

    def _take_room(self, change: Change, form: NormalForm) -> CatalogueCounts:
        """Make sure, before it is durable, that the catalogue can hold the change beside all staged ones."""
        room = _room_at_most(change, form)
        all_rooms = CatalogueCounts(*map(add, self._staged_room, room))
        self._ensure_room(all_rooms)
        self._staged_room = all_rooms
        return room

    def take(self, change_count: int) -> list[Staged]:
        """Return the next `change_count` staged changes, which are durable; `settle` them when applied."""
        return [self._staged.popleft() for _ in range(change_count)]

    def settle(self, staged: list[Staged]) -> None:
        """Forget changes that were taken: they are in force."""
        if not staged:
            return
        for entry in staged:
            change = entry.change
            if self._overlay.get(change.subscription_id, (0, None))[0] == change.version:
                del self._overlay[change.subscription_id]
        taken = map(sum, zip(*(entry.room for entry in staged), strict=True))
        self._staged_room = CatalogueCounts(*map(sub, self._staged_room, taken))

    def forget(self, version: int) -> None:
        """Forget everything staged: the store could not keep it; `version` is the last one in force."""
        self._staged.clear()
        self._staged_room = NO_COUNTS
        self._overlay.clear()
        self.next_version = version + 1
        # Handles are never reused, so the ones given to the forgotten changes stay unused.


def _room_at_most(change: Change, form: NormalForm) -> CatalogueCounts:
    """Return a bound of what a change needs, from the size of its expression where nothing expands."""
    expression = change.expression or b""
    if form.clauses is None or b"$" in expression:
        return room_for(new_row(change, form))
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


def new_row(change: Change, form: NormalForm) -> NewRow:
    """Return the catalogue row of a change that adds one."""
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
