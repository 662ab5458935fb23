"""What an owner hears: one notification per event that some of its subscriptions match."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

from pubsub_cluster.language.errors import CallerError, ProtocolError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import UNMATCHED
from pubsub_cluster.language.records import Entries, Record
from pubsub_cluster.language.values import check_name

_ANY_SIZE = replace(DEFAULT_LIMITS, name_size_bytes_max=sys.maxsize)
ListenKey: TypeAlias = tuple[str, str | None]
"""An owner, and the name of a durable receiver."""


def check_owner(owner: object) -> None:
    """Refuse what no owner can be called; how long a name may be is for the cluster to say.

    Raises
    ------
    CallerError
        Not text, not valid Unicode, or empty: unmatched events are asked for by `Client.listen_unmatched`.
    """
    check_name(owner, what="owner", limits=_ANY_SIZE, error=CallerError)


def listen_key(fields: Mapping[str, Any]) -> ListenKey:
    """Return whose notifications a header is about."""
    return fields.get("owner", UNMATCHED), fields.get("durable")


class Notification(NamedTuple):
    """One event and the subscriptions of one owner that it matched.

    Attributes
    ----------
    owner, publisher, batch_id : str
        No owner (`UNMATCHED`) where the event matched nobody.
    event_index : int
        Index of the event in its batch. ``(publisher, batch_id, event_index)`` recognises a repeat, which a
        restart of the coordinator may cause.
    handles : tuple of int
        Ascending.
    ids : tuple of str
        Ids of the same subscriptions, in the same order.
    event : object
        The event as its publisher gave it (JSON types). Listeners of a client may share it: do not change it.
    sequence : int
        Counts the owner's notifications while anybody listens for it, lost ones included.
    dropped : int
        Notifications that were lost directly before it, in the cluster, on their way, or in this client.
    """

    owner: str
    publisher: str
    batch_id: str
    event_index: int
    handles: tuple[int, ...]
    ids: tuple[str, ...]
    event: Any
    sequence: int
    dropped: int


def notifications_from_push(header: dict[str, Any]) -> list[Notification]:
    """Return the notifications of one push.

    Raises
    ------
    ProtocolError
        A field is missing or of another kind.
    """
    try:
        return [
            Notification(
                header["owner"],
                header["publisher"],
                header["batch_id"],
                entry["event_index"],
                tuple(entry["handles"]),
                tuple(entry["ids"]),
                plain_event(entry["event"]),
                entry["sequence"],
                0,
            )
            for entry in header["events"]
        ]
    except (KeyError, TypeError) as error:
        raise ProtocolError(
            "a notification lacks a field or has one of another kind", seen=repr(error)
        ) from None


def head_of(record: Record) -> dict[str, Any]:
    """Return what a record says of its event to everybody.

    Raises
    ------
    ProtocolError
        A field is missing.
    """
    head = record.head()
    missing = {"publisher", "batch_id", "event_index", "event"} - head.keys()
    if missing:
        raise ProtocolError("the head of a record lacks a field", seen=sorted(missing))
    return {**head, "event": plain_event(head["event"])}


def notifications_from_record(
    owners: Iterable[str], head: dict[str, Any], entries: Entries
) -> list[Notification]:
    """Return what a record tells owners; `head` is that of `head_of`, the event in it shared by all."""
    count = len(entries.numbers)
    publisher, batch_id, event_index, event = (
        repeat(head[key], count) for key in ("publisher", "batch_id", "event_index", "event")
    )
    told = entries.handles, entries.ids, event, entries.sequences, repeat(0, count)
    return list(map(Notification._make, zip(owners, publisher, batch_id, event_index, *told, strict=True)))


def plain_event(value: Any) -> Any:
    """Return a pushed event with its tagged infinities, ``{"$float": "inf"}``, as floats."""
    if isinstance(value, dict):
        if value.keys() == {"$float"} and isinstance(value["$float"], str):
            return float(value["$float"])
        return {name: plain_event(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain_event(item) for item in value]
    return value
