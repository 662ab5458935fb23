"""What a publication tells durable receivers, as it is stored: each event once, however many hear of it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import orjson

from pubsub_cluster.coordinator.delivery.outbox import StoredShare
from pubsub_cluster.language.errors import StoreError

MATCH_SIZE_BYTES = 32


class Entry(msgspec.Struct, array_like=True):
    """An event and the subscriptions of one owner that it matched; the event by its place in the body."""

    place: int
    handles: list[int]
    ids: list[str]


class Body(msgspec.Struct, array_like=True):
    """What a record says.

    Attributes
    ----------
    events : list of (int, bytes)
        Index in the publication and JSON, of each event that somebody hears of.
    parts : dict of str to list of Entry
        By owner; events ascending.
    """

    events: list[tuple[int, bytes]]
    parts: dict[str, list[Entry]]

    def told(self) -> dict[str, list[tuple[int, int]]]:
        """Return by owner what `Outbox.stage` asks for: index of each event, and about its size in bytes."""
        found = {}
        for owner, entries in self.parts.items():
            events = [(self.events[entry.place], len(entry.ids)) for entry in entries]
            found[owner] = [(idx, len(event) + MATCH_SIZE_BYTES * n) for (idx, event), n in events]
        return found


class StoredRecord(NamedTuple):
    """A record as it is stored."""

    number: int
    publisher: str
    batch_id: str
    shares: bytes
    body: bytes

    @property
    def crc(self) -> int:
        """Of its body."""
        return zlib.crc32(self.body)


encode_body = msgspec.msgpack.Encoder().encode
encode_shares = msgspec.msgpack.Encoder().encode
decode_shares = msgspec.msgpack.Decoder(list[StoredShare]).decode
_decode_body = msgspec.msgpack.Decoder(Body).decode


class OpenRecord:
    """A record taken apart, from which pushes are made."""

    def __init__(self, publisher: str, batch_id: str, shares: list[StoredShare], body: Body) -> None:
        self.publisher = publisher
        self.batch_id = batch_id
        self._shares = {share.receiver: share for share in shares}
        self._body = body
        self._entries: dict[str, dict[int, Entry]] = {}
        self.size_bytes = sum(len(event) for _, event in body.events) + sum(
            MATCH_SIZE_BYTES * len(entry.ids) for entries in body.parts.values() for entry in entries
        )

    def events(
        self, receiver: int, owner: str, sequence: int, count_max: int, size_bytes_max: int
    ) -> list[dict[str, Any]]:
        """Return the events of a push, from a sequence on: at least one, and within the size."""
        share = self._shares[receiver]
        found: list[dict[str, Any]] = []
        place = sequence - share.first
        for event_idx in share.event_idxs[place : place + count_max]:
            entry = self._by_event(owner)[event_idx]
            event = self._body.events[entry.place][1]
            size_bytes_max -= len(event) + MATCH_SIZE_BYTES * len(entry.ids)
            if found and size_bytes_max < 0:
                break
            found.append(
                {
                    "event_index": event_idx,
                    "sequence": sequence + len(found),
                    "handles": entry.handles,
                    "ids": entry.ids,
                    "event": orjson.Fragment(event),
                }
            )
        return found

    def _by_event(self, owner: str) -> Mapping[int, Entry]:
        known = self._entries.get(owner)
        if known is None:
            entries = self._body.parts[owner]
            known = self._entries[owner] = {self._body.events[entry.place][0]: entry for entry in entries}
        return known


def open_record(publisher: str, batch_id: str, shares: bytes, body: bytes, crc: int) -> OpenRecord:
    """Take a stored record apart.

    Raises
    ------
    StoreError
        It is not what was written.
    """
    try:
        if zlib.crc32(body) != crc:
            raise ValueError(f"CRC-32 {zlib.crc32(body)}, written was {crc}")
        return OpenRecord(publisher, batch_id, decode_shares(shares), _decode_body(body))
    except (ValueError, msgspec.MsgspecError) as error:
        raise StoreError(
            "a record for durable receivers cannot be read",
            seen=str(error),
            remedy="The file is damaged: what it held for receivers is lost with it.",
        ) from error
