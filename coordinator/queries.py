"""Requests that change nothing durable: who are you, how are you, tell me, stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubsub_cluster.coordinator import describing
from pubsub_cluster.coordinator import status as status_page
from pubsub_cluster.coordinator.answers import Reply
from pubsub_cluster.coordinator.resizing import resize
from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.protocol import Message, Op
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
    StoreError
        An expression cannot be read.
    """
    header = message.header
    match op:
        case Op.LISTEN:
            return Reply(coordinator.delivery.listen(identity, _owner(coordinator, header)))
        case Op.UNLISTEN:
            coordinator.delivery.unlisten(identity, _owner(coordinator, header))
        case Op.DESCRIBE:
            told = describing.describe(
                coordinator.registry, coordinator.store, header["ids"], header.get("expressions") is True
            )
            return Reply({"results": told})
        case Op.LIST:
            return Reply(describing.list_page(coordinator.registry, coordinator.store, header.get("after")))
        case Op.HELLO:
            coordinator.frontend.takes_together(identity, header.get("replies") is True)
            return Reply(status_page.greeting(coordinator))
        case Op.STATUS:
            return Reply(status_page.status(coordinator))
        case Op.TUNE:
            return Reply(status_page.tune(coordinator, header, message.request))
        case Op.RESIZE:
            resize(coordinator, header)
        case Op.BACKUP | Op.RESTORE | Op.VERIFY:
            job = coordinator.keeper.submit(
                op.value, message.request, header.get("path"), header.get("sample")
            )
            return Reply({"job": job.number})
        case Op.JOB:
            return Reply(coordinator.keeper.job(header["job"]))
        case Op.STOP:
            coordinator.stop()
        case _:
            pass  # a ping is answered like everything else that needs no words
    return Reply({})


def _owner(coordinator: Coordinator, header: dict[str, Any]) -> str:
    return check_name(header["owner"], what="owner", limits=coordinator.config.limits, error=ProtocolError)
