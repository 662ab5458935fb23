"""Requests to change the catalogue and their answers: each is carried out once, however often it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pubsub_cluster.coordinator.answers import Key, Reply, Waiting, change_reply
from pubsub_cluster.coordinator.changes import ChangeDesk
from pubsub_cluster.coordinator.origins import Recalled
from pubsub_cluster.language.protocol import RETAINED_TOLD, Buffer, Message, Op

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator

NOT_KEPT = ("store_failed", "cluster_error")  # such an answer may differ next time


class ChangeAnswers:
    """Stands between the sockets and the `ChangeDesk`.

    Parameters
    ----------
    coordinator : Coordinator
        With its registry, store, retained events, publications and window of replies.
    send : callable
        Sends frames to a connection.

    Attributes
    ----------
    desk : ChangeDesk
    """

    def __init__(self, coordinator: Coordinator, send: Callable[[bytes, list[Buffer]], None]) -> None:
        self._window = coordinator.window
        self._count = coordinator.resources.count
        self._send = send
        registry, store = coordinator.registry, coordinator.store
        recalled = Recalled(store, registry.answer_of)
        in_use = coordinator.publishing.is_in_use
        self.desk = ChangeDesk(registry, store, self.answer, coordinator.retained, recalled, in_use)

    def submit(self, identity: bytes, message: Message, op: Op) -> Reply | None:
        """Take a request; return its answer where it is known already.

        Raises
        ------
        ProtocolError, LimitError, BusyError
            As `ChangeDesk.submit`.
        """
        key: Key = ("change", op, message.request)
        known = self._window.begin(key, identity, message.request)
        if isinstance(known, Reply):
            return known
        if known is Waiting.IN_PROGRESS:
            return None
        try:
            items = message.header["ids" if op is Op.UNSUBSCRIBE else "items"]
            self.desk.submit(identity, key, op, items, message.header.get("retained", RETAINED_TOLD))
        except Exception:
            self._window.finish(key, Reply({}), keep=False)  # not in progress any more
            raise
        return None

    def answer(self, key: Key, fields: dict[str, Any]) -> None:
        """Send the answer of a finished request."""
        # Once an item took effect the answer stays: sent again, the request must not be carried out twice.
        kept = any(result["ok"] or result["error"]["code"] not in NOT_KEPT for result in fields["results"])
        reply = change_reply(**fields)
        identity, request = self._window.finish(key, reply, keep=kept or not fields["results"])
        self._count.add("changes_applied", sum(bool(result["ok"]) for result in fields["results"]))
        self._send(identity, reply.frames(request))
