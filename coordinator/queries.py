"""Requests that change nothing durable: who are you, how are you, tell me, stop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pubsub_cluster.coordinator import counting, describing
from pubsub_cluster.coordinator import status as status_page
from pubsub_cluster.coordinator.answers import Reply
from pubsub_cluster.coordinator.resizing import resize
from pubsub_cluster.coordinator.schema_desk import answer_schema
from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.protocol import Message, Op
from pubsub_cluster.language.values import check_name

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator


def answer_query(coordinator: Coordinator, identity: bytes, message: Message, op: Op) -> Reply | None:
    """Answer one request of a connection; None: its answer comes when something is durable.

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
        case Op.LISTEN | Op.UNLISTEN | Op.ACKNOWLEDGE | Op.FORGET:
            return _answer_listener(coordinator, identity, message, op)
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
        case Op.STATS:
            return Reply(counting.stats(coordinator, header))
        case Op.TUNE:
            return Reply(status_page.tune(coordinator, header, message.request))
        case Op.SCHEMA:
            return Reply(answer_schema(coordinator, header))
        case Op.RESIZE:
            resize(coordinator, header)
        case Op.BACKUP | Op.RESTORE | Op.VERIFY:
            if op is Op.RESTORE:  # its subscriptions may be outside the engine's language
                status_page.needs_layout_engine(coordinator, "takes no backup over")
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


def _answer_listener(coordinator: Coordinator, identity: bytes, message: Message, op: Op) -> Reply | None:
    header, delivery, durable = message.header, coordinator.delivery, coordinator.durable
    if op is Op.ACKNOWLEDGE:
        durable.acknowledge(header["number"], header["sequence"])
        return Reply({})
    if "unmatched" in header:
        return _answer_operator(coordinator, identity, header, op)
    owner = _name(coordinator, header.get("owner"), "owner")
    if header.get("durable") is None and op is not Op.FORGET:
        if op is Op.LISTEN:
            takes_records = header.get("records") is True
            return Reply(delivery.listen(identity, owner, time.monotonic(), takes_records))
        delivery.unlisten(identity, owner)
        return Reply({})
    told: dict[str, Any] | None = {}
    name = _name(coordinator, header["durable"], "name of a durable receiver")
    match op:
        case Op.LISTEN:
            told = durable.listen(identity, message.request, owner, name, header.get("window"))
        case Op.UNLISTEN:
            durable.unlisten(identity, owner, name)
        case _:
            told = durable.forget(identity, message.request, owner, name)
    return None if told is None else Reply(told)


def _answer_operator(coordinator: Coordinator, identity: bytes, header: dict[str, Any], op: Op) -> Reply:
    """Let an operator listen for events that match nobody, or no longer."""
    others = sorted(header.keys() & {"owner", "durable", "window"})
    if header["unmatched"] is not True or others:
        raise ProtocolError("`unmatched` is true, and stands alone", seen=others or header["unmatched"])
    unmatched = coordinator.delivery.unmatched
    if op is Op.LISTEN:
        return Reply(unmatched.listen(identity))
    unmatched.unlisten(identity)
    return Reply({})


def _name(coordinator: Coordinator, value: Any, what: str) -> str:
    return check_name(value, what=what, limits=coordinator.config.limits, error=ProtocolError)
