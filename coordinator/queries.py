"""Requests that change nothing durable: who are you, how are you, tell me, stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubsub_cluster.coordinator import status as status_page
from pubsub_cluster.coordinator.answers import Reply
from pubsub_cluster.coordinator.resizing import resize
from pubsub_cluster.language.errors import ProtocolError, PubSubError
from pubsub_cluster.language.protocol import DESCRIBED_IDS_MAX, Message, Op
from pubsub_cluster.language.values import check_name

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator


def answer_query(coordinator: Coordinator, identity: bytes, message: Message, op: Op) -> Reply:
    """Answer one request of a connection.

    Raises
    ------
    ProtocolError, LimitError
        A field is not as it must be, or there are too many listeners or workers.
    BusyError, SegmentError
        A resize cannot begin.
    """
    header = message.header
    match op:
        case Op.LISTEN:
            coordinator.listeners.add(identity, _owner(coordinator, header))
        case Op.UNLISTEN:
            coordinator.listeners.remove(identity, _owner(coordinator, header))
        case Op.DESCRIBE:
            return Reply({"results": _described(coordinator, header["ids"])})
        case Op.HELLO:
            coordinator.frontend.takes_together(identity, header.get("replies") is True)
            return Reply(status_page.greeting(coordinator))
        case Op.STATUS:
            return Reply(status_page.status(coordinator))
        case Op.TUNE:
            return Reply(status_page.tune(coordinator, str(header["action"])))
        case Op.RESIZE:
            resize(coordinator, header)
        case Op.STOP:
            coordinator.stop()
        case _:
            pass  # a ping is answered like everything else that needs no words
    return Reply({})


def _described(coordinator: Coordinator, ids: Any) -> list[dict[str, Any]]:
    if not isinstance(ids, list):
        raise ProtocolError("`ids` is not a list of texts", seen=type(ids).__name__)
    if len(ids) > DESCRIBED_IDS_MAX:
        raise ProtocolError("too many ids in one request", seen=len(ids), limit=DESCRIBED_IDS_MAX)
    results = []
    for subscription_id in ids:
        try:
            results.append(coordinator.registry.described(subscription_id))
        except PubSubError as error:
            results.append({"ok": False, "error": error.to_dict()})
    return results


def _owner(coordinator: Coordinator, header: dict[str, Any]) -> str:
    return check_name(header["owner"], what="owner", limits=coordinator.config.limits, error=ProtocolError)
