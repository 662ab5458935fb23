"""Owners who listen: who is connected, what is on its way to them, what was dropped.

Notifications are *live*: each listener has a bounded queue in its socket; when it is full, the
notification is dropped, counted, and the receiver is told the count with the next one that fits.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from pubsub_cluster.coordinator.merge import Merged
from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.protocol import Buffer, notify_frames
from pubsub_cluster.shm.catalogue import CatalogueReader

LISTENERS_MAX = 10_000
NOTIFIED_SIZE_BYTES_MAX = 32 << 20
MATCH_SIZE_BYTES = 32
KEEP_ALIVE_S = 30.0


@dataclass(slots=True)
class Listener:
    """One connection that listens for one owner."""

    identity: bytes
    owner: str
    sequence: int = 0
    dropped: int = 0

    def fields(self, publisher: str, batch_id: str) -> dict[str, Any]:
        """Return the header fields of its next notification, without the events."""
        return {
            "owner": self.owner,
            "publisher": publisher,
            "batch_id": batch_id,
            "sequence": self.sequence,
            "dropped": self.dropped,
        }


class Listeners:
    """All listeners.

    Parameters
    ----------
    send : callable
        ``send(identity, frames) -> bool``; False when the connection's queue is full;
        raises `ConnectionError` when the connection is gone.
    """

    def __init__(self, send: Callable[[bytes, list[Buffer]], bool]) -> None:
        self._send = send
        self._by_owner: dict[str, dict[bytes, Listener]] = {}
        self.count = 0
        self._swept_at_s = 0.0
        self._owner_names: dict[int, str] = {}  # as many as the catalogue has owners
        self._named_by: Callable[[], CatalogueReader | None] = lambda: None

    def add(self, identity: bytes, owner: str) -> None:
        """Let a connection listen for `owner`; again is no error."""
        if identity in self._by_owner.get(owner, {}):
            return
        if self.count >= LISTENERS_MAX:
            self.sweep()
        if self.count >= LISTENERS_MAX:
            raise LimitError(
                "too many listeners",
                seen=self.count,
                limit=LISTENERS_MAX,
                remedy="Listen for several owners from one process, or close idle listeners.",
                limit_name="LISTENERS_MAX",
            )
        self._by_owner.setdefault(owner, {})[identity] = Listener(identity, owner)
        self.count += 1

    def remove(self, identity: bytes, owner: str) -> None:
        """Stop telling a connection; one that does not listen is no error."""
        found = self._by_owner.get(owner, {})
        if found.pop(identity, None) is not None:
            self.count -= 1
        if not found:
            self._by_owner.pop(owner, None)

    def tick(self, now_s: float) -> None:
        """Every now and then, find listeners whose connection is gone."""
        if now_s - self._swept_at_s >= KEEP_ALIVE_S:
            self._swept_at_s = now_s
            self.sweep()

    def sweep(self) -> None:
        """Send everybody a notification without events, and forget who is gone."""
        for listener in [one for found in self._by_owner.values() for one in found.values()]:
            fields = {**listener.fields("", ""), "dropped": 0, "events": []}
            try:
                self._send(listener.identity, notify_frames(fields))
            except ConnectionError:
                self.remove(listener.identity, listener.owner)

    def notify(
        self,
        merged: Merged,
        catalogue: CatalogueReader,
        owner_count: int,
        publisher: str,
        batch_id: str,
        events_json: Callable[[list[int]], list[bytes]],
    ) -> tuple[int, int]:
        """Tell every listener its matches of one batch; return (sent, dropped) notifications.

        Each event is encoded once, whoever hears of it. When a batch would tell more than
        `NOTIFIED_SIZE_BYTES_MAX`, the owners beyond are dropped and told so later.
        """
        sent = dropped = 0
        if not self._by_owner or not len(merged.rows):
            return sent, dropped
        if catalogue is not self._named_by():  # an owner's number holds in its epoch alone
            self._owner_names, self._named_by = {}, weakref.ref(catalogue)
        owner_of_match = catalogue.columns.owner[merged.rows]
        heard = np.zeros(owner_count, np.bool_)
        for owner_idx in np.unique(owner_of_match).tolist():
            name = self._owner_names.get(owner_idx)
            if name is None:
                name = self._owner_names[owner_idx] = catalogue.owner_name(owner_idx)
            heard[owner_idx] = name in self._by_owner
        chosen = np.nonzero(heard[owner_of_match])[0]
        if not len(chosen):
            return sent, dropped
        event_of_match = np.searchsorted(merged.offsets, chosen, side="right") - 1
        event_idxs = np.unique(event_of_match).tolist()
        event_json = dict(zip(event_idxs, events_json(event_idxs), strict=True))
        room_bytes = NOTIFIED_SIZE_BYTES_MAX
        for owner_idx, matches in _grouped(owner_of_match, chosen):
            owner = catalogue.owner_name(owner_idx)
            events, size_bytes = _events_body(merged, matches, catalogue, event_json)
            for listener in list(self._by_owner.get(owner, {}).values()):
                room_bytes -= size_bytes
                if room_bytes < 0:
                    listener.sequence += 1
                    listener.dropped += 1
                    dropped += 1
                elif self._tell(listener, publisher, batch_id, events):
                    sent += 1
                else:
                    dropped += 1
        return sent, dropped

    def _tell(self, listener: Listener, publisher: str, batch_id: str, events: list[dict[str, Any]]) -> bool:
        fields = {**listener.fields(publisher, batch_id), "events": events}
        try:
            accepted = self._send(listener.identity, notify_frames(fields))
        except ConnectionError:
            self.remove(listener.identity, listener.owner)
            return False
        listener.sequence += 1
        listener.dropped = 0 if accepted else listener.dropped + 1
        return accepted


def _grouped(
    owner_of_match: npt.NDArray[np.int32], chosen: npt.NDArray[np.int64]
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    order = chosen[np.argsort(owner_of_match[chosen], kind="stable")]
    owners, starts = np.unique(owner_of_match[order], return_index=True)
    yield from zip(owners.tolist(), np.split(order, starts[1:]), strict=True)


def _events_body(
    merged: Merged, matches: npt.NDArray[np.int64], catalogue: CatalogueReader, event_json: dict[int, bytes]
) -> tuple[list[dict[str, Any]], int]:
    """Return the events of a notification and about how many bytes they take."""
    event_of_match = np.searchsorted(merged.offsets, matches, side="right") - 1
    body: list[dict[str, Any]] = []
    size_bytes = 0
    for match_idx, event_idx in zip(matches.tolist(), event_of_match.tolist(), strict=True):
        if not body or body[-1]["event_index"] != event_idx:
            event = orjson.Fragment(event_json[event_idx])
            size_bytes += len(event_json[event_idx])
            body.append({"event_index": event_idx, "handles": [], "ids": [], "event": event})
        body[-1]["handles"].append(int(merged.handles[match_idx]))
        body[-1]["ids"].append(catalogue.subscription_id(int(merged.rows[match_idx])))
        size_bytes += MATCH_SIZE_BYTES
    return body, size_bytes
