"""Changes on their way to the disk: judged and numbered, in force for nobody yet.

A change is *staged* when it arrives: it gets its version (and a new subscription its handle) and later
requests are judged as if it were in force. The registry takes the staged changes in version order when the
store reports them durable; when the store fails, everything staged is forgotten (`Staging.forget`): nothing
of it was ever visible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import add, sub
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pubsub_cluster.coordinator.items import (
    body_of,
    or_none,
    room_at_most,
    shape_of,
)
from pubsub_cluster.coordinator.store import ADDED
from pubsub_cluster.language.change_items import ChangeItem
from pubsub_cluster.language.errors import (
    DuplicateIdError,
    ExpressionError,
    LimitError,
    SegmentError,
    UnknownIdError,
)
from pubsub_cluster.language.limits import Limits, check_limit
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.subscription import (
    DEFAULT_OWNER,
    ExpressionReader,
    Form,
    decoded,
    encode_metadata,
    window_given,
)
from pubsub_cluster.language.values import check_name
from pubsub_cluster.language.vocabulary import Conjunction
from pubsub_cluster.shm.catalogue import NO_COUNTS, CatalogueCounts
from pubsub_cluster.shm.change_groups import SUBSCRIBE, UNSUBSCRIBE, UPDATE, Change

_SUBSCRIBE_KEYS = frozenset({"id", "expr", "owner", "valid_from", "valid_until", "metadata"})
_UPDATE_KEYS = _SUBSCRIBE_KEYS - {"owner"}

Answer: TypeAlias = dict[str, Any]


class Live(NamedTuple):
    """What a later change needs to know of a live subscription."""

    handle: int
    owner: str
    valid_from: int | None
    valid_until: int | None
    metadata: bytes | None = None


class Staged(msgspec.Struct, gc=False):
    """A change that waits for the disk, and the most that it needs of the catalogue."""

    change: Change
    form: Form | None
    room: CatalogueCounts = NO_COUNTS


class Staging:
    """Judges changes and numbers them.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    find_rows : callable
        Rows of the subscriptions that batches see now under some ids; -1 where there is none.
    named : callable
        Handles and owners of the subscriptions of such rows.
    live_of : callable
        What is known of the subscription of a row and an id.
    ensure_room : callable
        Raises unless the catalogue can hold that many more items beside what it holds.
    count_live : callable
        How many subscriptions batches see now.
    make_reader : callable
        Makes what reads expressions.

    Attributes
    ----------
    expressions : ExpressionReader
    next_version, next_handle : int
        Of the next change and of the next new subscription.
    """

    def __init__(
        self,
        schema: Schema,
        limits: Limits,
        find_rows: Callable[[Sequence[str]], list[int]],
        named: Callable[[Sequence[int]], tuple[list[int], list[str]]],
        live_of: Callable[[int, str], Live],
        ensure_room: Callable[[CatalogueCounts], None],
        count_live: Callable[[], int],
        make_reader: Callable[[Schema, Limits], ExpressionReader] = ExpressionReader,
    ) -> None:
        self.schema = schema
        self.limits = limits
        self.next_version = 1
        self.next_handle = 1
        self._make_reader = make_reader
        self.expressions = make_reader(schema, limits)
        self._find_rows = find_rows
        self._named = named
        self._live_of = live_of
        self._ensure_room = ensure_room
        self._count_live, self._staged_live = count_live, 0  # in force, added by staged changes
        self._overlay: dict[str, Change] = {}  # by id: the last staged change
        self._staged: deque[Staged] = deque()
        self.room = NO_COUNTS  # upper bound of what the staged changes need

    def take_schema(self, schema: Schema) -> None:
        """Read expressions by an extended schema from now on."""
        self.schema = schema
        self.expressions = self._make_reader(schema, self.limits)

    def subscribe_many(self, items: Sequence[Any]) -> list[tuple[Change, Answer] | Exception]:
        """Stage new subscriptions, each as `subscribe` does.

        Returns
        -------
        list of (Change, dict) or Exception
            What `subscribe` returns or raises, item by item.
        """
        forms, expressions = self._plain(items)
        plain = [number for number, form in enumerate(forms) if form is not None]
        room = self._take_plain_room([(items[n], forms[n], expressions[n]) for n in plain], len(items))
        staged_count = len(self._staged)
        rows = [-1] * len(items)
        for number, row in zip(plain, self._find_rows([items[n].id for n in plain]), strict=True):
            rows[number] = row
        results: list[tuple[Change, Answer] | Exception] = []
        for item, form, expression, row in zip(items, forms, expressions, rows, strict=True):
            try:
                if form is None or room is None:
                    results.append(self.subscribe(item))
                else:
                    results.append(self._subscribe_plain(item, form, expression, row))
            except Exception as error:
                results.append(error)
        if room is not None and len(self._staged) > staged_count:
            last = self._staged[-1]
            last.room = CatalogueCounts(*map(add, last.room, room))
        elif room is not None:
            self.room = CatalogueCounts(*map(sub, self.room, room))
        return results

    def unsubscribe_many(self, ids: Sequence[Any]) -> list[tuple[Change, Answer] | Exception]:
        """Stage removals, each as `unsubscribe` does."""
        texts = [name if type(name) is str else "" for name in ids]
        rows = self._find_rows(texts)
        results: list[tuple[Change, Answer] | Exception] = []
        for name, row, handle, owner in zip(ids, rows, *self._named(rows), strict=True):
            if row < 0 or name in self._overlay:
                try:
                    results.append(self.unsubscribe(name))
                except Exception as error:
                    results.append(error)
                continue
            change = Change(self.next_version, UNSUBSCRIBE, handle, name, owner, None, None, None)
            self._stage(change, None)
            results.append((change, {"ok": True, "id": name, "handle": handle}))
        return results

    def each(
        self, stage: Callable[[Any], tuple[Change, Answer]], items: Sequence[Any]
    ) -> list[tuple[Change, Answer] | Exception]:
        """Do the same for any of the ways to stage one item."""
        results: list[tuple[Change, Answer] | Exception] = []
        for item in items:
            try:
                results.append(stage(item))
            except Exception as error:
                results.append(error)
        return results

    def _plain(self, items: Sequence[Any]) -> tuple[list[Conjunction | None], list[bytes]]:
        """Return form and expression of the items that are of the commonest kind; None for the others."""
        read, size_bytes_max = self.expressions.conjunction, self.limits.name_size_bytes_max
        forms: list[Conjunction | None] = []
        expressions = []
        for item in items:
            form, expression = None, b""
            if type(item) is ChangeItem:
                name, owner = item.id, item.owner
                usual = type(name) is str and name.isascii() and len(name) <= size_bytes_max
                if usual and (owner is msgspec.UNSET or (type(owner) is str and owner.isascii())):
                    expression = bytes(item.expr)
                    form = read(expression)
            forms.append(form)
            expressions.append(expression)
        return forms, expressions

    def _take_plain_room(
        self, plain: list[tuple[ChangeItem, Any, bytes]], count: int
    ) -> CatalogueCounts | None:
        """Reserve room for these of `count` new items; None when not all have any, though each may."""
        if self._count_live() + self._staged_live + count > self.limits.subscriptions_max:
            return None
        predicates = sum([len(form.numbers) for _, form, _ in plain])
        size_bytes = sum([len(expression) for _, _, expression in plain])
        owners = [item.owner for item, _, _ in plain if item.owner is not msgspec.UNSET]
        room = CatalogueCounts(
            len(plain),
            len(plain),
            sum([len(item.id) for item, _, _ in plain]),
            len(plain),
            predicates,
            predicates,
            2 * predicates + sum([expression.count(b",") for _, _, expression in plain]),
            2 * size_bytes + len(DEFAULT_OWNER) + sum(map(len, owners)),
            2 * predicates,
            len(owners) + 1,
        )
        all_rooms = CatalogueCounts(*map(add, self.room, room))
        try:
            self._ensure_room(all_rooms)
        except (LimitError, SegmentError):
            return None
        self.room = all_rooms
        return room

    def _subscribe_plain(
        self, item: ChangeItem, form: Conjunction, expression: bytes, row: int
    ) -> tuple[Change, Answer]:
        """Do what `subscribe` does for a plain item that there is room for; `row` has its id now."""
        name, owner = item.id, DEFAULT_OWNER
        if row >= 0 or name in self._overlay or not name:
            self._new_id(name, 0)  # says what is wrong, or that the last change under this id was a removal
        if item.owner is not msgspec.UNSET:
            owner = check_name(item.owner, what="owner", limits=self.limits)
        valid_from = valid_until = metadata = None
        if item.valid_from is not msgspec.UNSET or item.valid_until is not msgspec.UNSET:
            valid_from, valid_until = window_given(or_none(item.valid_from), or_none(item.valid_until))
        if item.metadata is not msgspec.UNSET:
            metadata = encode_metadata(item.metadata, self.limits)
        handle = self.next_handle
        self.next_handle = handle + 1
        change = Change(
            self.next_version, SUBSCRIBE, handle, name, owner, expression, valid_from, valid_until, metadata
        )
        self._stage(change, form)
        return change, {"ok": True, "id": name, "handle": handle, "clauses": 1, "never": False}

    def subscribe(self, item: Any) -> tuple[Change, Answer]:
        """Stage a new subscription; return its change and the answer for its sender.

        Raises
        ------
        CallerError
            When the item is not well formed or its id exists; nothing is changed.
        """
        self._check_count()
        body = body_of(item, _SUBSCRIBE_KEYS)
        handle = self.next_handle
        subscription_id = self._new_id(body.get("id"), handle)
        owner = check_name(body.get("owner", DEFAULT_OWNER), what="owner", limits=self.limits)
        window = window_given(body.get("valid_from"), body.get("valid_until"))
        metadata = encode_metadata(body.get("metadata"), self.limits)
        form, expression = self._form(body)
        change = Change(
            self.next_version, SUBSCRIBE, handle, subscription_id, owner, expression, *window, metadata
        )
        room = self._take_room(change, form)
        self.next_handle += 1
        self._stage(change, form, room)
        return change, {"ok": True, "id": subscription_id, "handle": handle, **shape_of(form)}

    def update(self, item: Any) -> tuple[Change, Answer]:
        """Stage a new expression (and window) for a live subscription; it keeps its handle."""
        body = body_of(item, _UPDATE_KEYS)
        subscription_id, live = self._known(body.get("id"))
        window = window_given(
            body.get("valid_from", live.valid_from), body.get("valid_until", live.valid_until)
        )
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
        self._stage(change, form, room)
        return change, {"ok": True, "id": subscription_id, "handle": live.handle, **shape_of(form)}

    def unsubscribe(self, subscription_id: Any) -> tuple[Change, Answer]:
        """Stage the removal of a live subscription."""
        name, live = self._known(subscription_id)
        change = Change(self.next_version, UNSUBSCRIBE, live.handle, name, live.owner, None, None, None)
        self._stage(change, None)
        return change, {"ok": True, "id": name, "handle": live.handle}

    def _stage(self, change: Change, form: Form | None, room: CatalogueCounts = NO_COUNTS) -> None:
        self.next_version += 1
        self._staged_live += ADDED[change.operation]
        self._overlay[change.subscription_id] = change
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
        change = self._overlay.get(name)
        if change is not None:
            if change.operation == UNSUBSCRIBE:
                return None
            return Live(change.handle, change.owner, change.valid_from, change.valid_until, change.metadata)
        (row,) = self._find_rows([name])
        return None if row < 0 else self._live_of(row, name)

    def _form(self, body: dict[str, Any]) -> tuple[Form, bytes]:
        if "expr" not in body:
            raise ExpressionError("the expression is missing", seen=sorted(body), remedy='Give it as "expr".')
        given = body["expr"]
        if type(given) is msgspec.Raw:
            expression = bytes(given)
            form = self.expressions.conjunction(expression)
            if form is not None:
                return form, expression
            given = decoded(expression)
        return self.expressions.normalised(given), msgspec.json.encode(given)

    def _take_room(self, change: Change, form: Form) -> CatalogueCounts:
        """Make sure, before it is durable, that the catalogue can hold the change beside all staged ones."""
        room = room_at_most(change, form)
        all_rooms = CatalogueCounts(*map(add, self.room, room))
        self._ensure_room(all_rooms)
        self.room = all_rooms
        return room

    def _check_count(self) -> None:
        count, limit = self._count_live() + self._staged_live + 1, self.limits.subscriptions_max
        check_limit("subscriptions_max", count, limit, "live subscriptions", "Unsubscribe some.")

    def take(self, change_count: int) -> list[Staged]:
        """Return the next `change_count` staged changes, which are durable; `settle` them when applied."""
        return [self._staged.popleft() for _ in range(change_count)]

    def settle(self, staged: list[Staged]) -> None:
        """Forget changes that were taken: they are in force."""
        if not staged:
            return
        overlay = self._overlay
        changes = [entry.change for entry in staged]
        self._staged_live -= sum([ADDED[change.operation] for change in changes])
        for change in changes:
            if overlay.get(change.subscription_id) is change:
                del overlay[change.subscription_id]
        rooms = [entry.room for entry in staged if entry.room is not NO_COUNTS]
        taken = map(sum, zip(NO_COUNTS, *rooms, strict=True))
        self.room = CatalogueCounts(*map(sub, self.room, taken))

    def forget(self, version: int) -> None:
        """Forget everything staged: the store could not keep it; `version` is the last one in force."""
        self._staged.clear()
        self.room = NO_COUNTS
        self._staged_live = 0
        self._overlay.clear()
        self.next_version = version + 1
        # Handles are never reused, so the ones given to the forgotten changes stay unused.
