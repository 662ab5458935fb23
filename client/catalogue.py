"""Changes of the catalogue as a client makes them: cut into requests, pipelined, sent again under one id."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import orjson

from pubsub_cluster.client.changes import (
    ITEMS_PER_REQUEST,
    Subscription,
    as_unsure,
    encode_item,
    encode_items,
    parts_of,
    results_of,
    subscription_from,
)
from pubsub_cluster.client.connection import Request
from pubsub_cluster.client.in_order import Sender, ask_in_order
from pubsub_cluster.client.session import Session
from pubsub_cluster.language.errors import (
    CallerError,
    DuplicateIdError,
    ProtocolError,
    PubSubError,
    UnknownIdError,
)
from pubsub_cluster.language.protocol import (
    DESCRIBED_EXPRESSIONS_MAX,
    DESCRIBED_IDS_MAX,
    RETAINED_TOLD,
    SUBSCRIBE_ITEM_FIELDS,
    UPDATE_ITEM_FIELDS,
    Fields,
    Op,
    as_json,
)

REQUESTS_IN_FLIGHT = 4
_Part = TypeVar("_Part", bound=Sequence[Any])


class Listed(NamedTuple):
    """A subscription of the catalogue.

    Attributes
    ----------
    id : str
    handle : int
    expression : str or dict
        As its owner wrote it: text form or JSON form.
    """

    id: str
    handle: int
    expression: Any


class _Entry:
    """An item on its way, and what became of it; None while nobody knows."""

    __slots__ = ("item", "result")

    def __init__(self, item: Mapping[str, Any]) -> None:
        self.item = item
        self.result: dict[str, Any] | PubSubError | None = None


class _Parts:
    """Items cut into JSON lists that fit into a request each; an item that cannot be sent gets its error.

    Iterating takes the items and yields what goes into the next request, as entries and as JSON. An entry
    is forgotten when its result has been taken, so that there may be more items than fit into memory.
    """

    def __init__(
        self,
        items: Iterable[Mapping[str, Any]],
        fields: Fields,
        size_bytes_max: int,
        count_max: int,
    ) -> None:
        self._coming = iter(items)
        self._fields = fields
        self._size_bytes_max = size_bytes_max
        self._count_max = count_max
        self._entries: deque[_Entry] = deque()

    def __iter__(self) -> Iterator[tuple[Sequence[_Entry], bytes]]:
        while items := list(islice(self._coming, self._count_max)):
            entries = list(map(_Entry, items))
            self._entries += entries
            data = encode_items(items, self._fields, self._size_bytes_max)
            if data is not None:
                yield entries, data
            else:
                yield from self._one_by_one(entries)

    def take_results(self) -> list[dict[str, Any] | PubSubError]:
        """Return the results of the next items, as far as they are known."""
        entries = self._entries
        results = []
        while entries and (result := entries[0].result) is not None:
            results.append(result)
            entries.popleft()
        return results

    def _one_by_one(self, entries: list[_Entry]) -> Iterator[tuple[Sequence[_Entry], bytes]]:
        encoded: list[bytes] = []
        good: list[_Entry] = []
        for entry in entries:
            try:
                encoded.append(encode_item(entry.item, self._fields, self._size_bytes_max))
                good.append(entry)
            except PubSubError as error:
                entry.result = error
        for start, stop in parts_of(encoded, self._count_max, self._size_bytes_max):
            yield good[start:stop], _joined(encoded[start:stop])


def _subscriptions(results: list[dict[str, Any] | PubSubError]) -> list[Subscription | PubSubError]:
    return [r if isinstance(r, PubSubError) else subscription_from(r) for r in results]


def _listed(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str | bytes):
        raise CallerError(
            "a list of ids is needed, not one id",
            seen=ids,
            limit="an iterable of texts",
            remedy="Put it in a list.",
        )
    return list(ids)


def _joined(encoded: list[bytes]) -> bytes:
    return b"[" + b",".join(encoded) + b"]"


class CatalogueCalls:
    """What `Client` asks of the catalogue.

    Parameters
    ----------
    session : Session
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._id_count = 0
        self._batch_limits = (0, 0)
        self._batch_limits_of: dict[str, Any] | None = None

    async def limit(self, name: str) -> int:
        """Return one of the cluster's limits."""
        limits = (await self._session.hello()).get("limits")
        value = limits.get(name) if isinstance(limits, dict) else None
        if not isinstance(value, int):
            raise ProtocolError(f"the cluster's greeting lacks the limit `{name}`", seen=limits)
        return value

    async def batch_limits(self) -> tuple[int, int]:
        """Return the most bytes and the most events of a batch."""
        hello = await self._session.hello()
        if hello is not self._batch_limits_of:
            self._batch_limits = (
                await self.limit("batch_size_bytes_max"),
                await self.limit("events_per_batch_max"),
            )
            self._batch_limits_of = hello
        return self._batch_limits

    def new_id(self, prefix: str) -> str:
        """Return an id that nobody else makes."""
        self._id_count += 1
        return f"{prefix}-{self._session.client_id}-{self._id_count}"

    def named(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give an item an id if it has none, so that sending it twice cannot make two subscriptions."""
        if isinstance(item, Mapping) and item.get("id") is None:
            return {**item, "id": self.new_id("s")}
        return item

    async def subscribe(
        self, items: Iterable[Mapping[str, Any]], retained: int
    ) -> AsyncGenerator[list[Subscription | PubSubError], None]:
        """Make subscriptions; yield what became of the next items as soon as that is known, in order."""
        more = {} if retained == RETAINED_TOLD else {"retained": retained}
        named = map(self.named, items)
        async with aclosing(self._change(Op.SUBSCRIBE, named, SUBSCRIBE_ITEM_FIELDS, more)) as found:
            async for results in found:
                yield _subscriptions(results)

    async def update(
        self, items: Iterable[Mapping[str, Any]]
    ) -> AsyncGenerator[list[Subscription | PubSubError], None]:
        """Replace subscriptions; yields like `subscribe`."""
        async with aclosing(self._change(Op.UPDATE, items, UPDATE_ITEM_FIELDS)) as found:
            async for results in found:
                yield _subscriptions(results)

    async def _change(
        self,
        op: Op,
        items: Iterable[Mapping[str, Any]],
        fields: Fields,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> AsyncGenerator[list[dict[str, Any] | PubSubError], None]:
        # Items are taken as they are sent; `more` are further fields of each request.
        size_bytes_max = await self.limit("batch_size_bytes_max")
        parts = _Parts(items, fields, size_bytes_max, await self._items_max())
        async with aclosing(self._send_parts(op, "items", parts, more)) as found:
            async for entries, request in found:
                part = results_of(await self._session.wait(request), len(entries))
                for entry, result in zip(entries, part, strict=True):
                    if isinstance(result, PubSubError):
                        result = await self._settled(result, entry.item, request)
                    entry.result = result
                yield parts.take_results()
        yield parts.take_results()

    async def remove(self, ids: Iterable[str]) -> list[PubSubError | None]:
        """Unsubscribe; return an error or None for each id."""
        encoded = [as_json(id) for id in _listed(ids)]
        items_max = await self._items_max()
        results: list[PubSubError | None] = []
        size_bytes_max = await self.limit("batch_size_bytes_max")
        parts = (
            (range(first, stop), _joined(encoded[first:stop]))
            for first, stop in parts_of(encoded, items_max, size_bytes_max)
        )
        async with aclosing(self._send_parts(Op.UNSUBSCRIBE, "ids", parts)) as found:
            async for places, request in found:
                for result in results_of(await self._session.wait(request), len(places)):
                    error = result if isinstance(result, PubSubError) else None
                    unsure = isinstance(error, UnknownIdError) and request.crossed_lives
                    results.append(
                        as_unsure(error) if unsure and isinstance(error, UnknownIdError) else error
                    )
        return results

    async def describe(self, ids: Iterable[str], expressions: bool) -> list[dict[str, Any] | PubSubError]:
        """Return what the cluster knows of each subscription, in order."""
        wanted = _listed(ids)
        results: list[dict[str, Any] | PubSubError] = []
        step = DESCRIBED_EXPRESSIONS_MAX if expressions else DESCRIBED_IDS_MAX
        more = {"expressions": True} if expressions else {}
        for first in range(0, len(wanted), step):
            part = wanted[first : first + step]
            results += results_of(await self._session.ask(Op.DESCRIBE, {"ids": part, **more}), len(part))
        return results

    async def every(self) -> AsyncGenerator[Listed, None]:
        """Yield every subscription that lives through it once, a page of them at a time."""
        cursor: dict[str, Any] = {}
        while True:
            page = (await self._session.ask(Op.LIST, cursor)).header
            for item in page["items"]:
                yield Listed(item["id"], item["handle"], item["expr"])
            if page["next"] is None:
                return
            cursor = {"after": page["next"]}

    async def _items_max(self) -> int:
        return min(ITEMS_PER_REQUEST, await self.limit("subscriptions_per_request_max"))

    async def _send_parts(
        self,
        op: Op,
        name: str,
        parts: Iterable[tuple[_Part, bytes]],
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> AsyncGenerator[tuple[_Part, Request], None]:
        """Send JSON lists as requests; yield what they stand for with the answered request, in order.

        A part is encoded while those before it are on their way.
        """
        sent: deque[_Part] = deque()

        def senders() -> Iterator[Sender]:
            for places, data in parts:
                sent.append(places)
                yield partial(self._session.send, op, {name: orjson.Fragment(data), **more})

        async with aclosing(ask_in_order(self._session, senders(), REQUESTS_IN_FLIGHT)) as found:
            async for request in found:
                yield sent.popleft(), request

    async def _settled(
        self, result: PubSubError, item: Mapping[str, Any], request: Request
    ) -> dict[str, Any] | PubSubError:
        """Resolve the one ambiguity of sending again: a restart between a change and its acknowledgement."""
        if not (request.crossed_lives and isinstance(result, DuplicateIdError)):
            return result
        if str(item["id"]).startswith(f"s-{self._session.client_id}-"):
            # Nobody else makes such an id: the first send was carried out. Update tells its handle.
            echo = {"id": item["id"], "expr": item["expr"]}
            settled = [part async for part in self._change(Op.UPDATE, [echo], UPDATE_ITEM_FIELDS)]
            return settled[0][0]
        return as_unsure(result)
