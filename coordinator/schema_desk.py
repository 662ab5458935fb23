"""Extending the schema while the cluster works.

Extensions never change what a stored subscription means or which events were valid, so nothing is built anew:
the extended schema is made durable, then everyone who reads events or expressions goes on with it. A process
takes its messages in turn, so a batch that is accepted after the answer is judged by the extended schema
everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from pubsub_cluster.coordinator.instructions import SendWorker
from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.schema_rules import RULES, extended
from pubsub_cluster.tuner import messages as tuner_wire
from pubsub_cluster.workers import messages as worker_wire

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator

SHOW = "show"


def answer_schema(coordinator: Coordinator, header: dict[str, Any]) -> dict[str, Any]:
    """Show the schema, or extend it by a rule; return it as it is then.

    Raises
    ------
    ProtocolError
        There is no such action, or a definition is missing or too much.
    SchemaConflictError, LimitError, CallerError
        The rule cannot be applied; nothing is changed.
    StoreError
        It cannot be kept; nothing is changed.
    """
    action = header["action"]
    if action not in (SHOW, *RULES):
        raise ProtocolError("there is no such action on a schema", seen=action, limit=[SHOW, *RULES])
    if ("definition" in header) is (action == SHOW):
        needs = "takes no" if action == SHOW else "needs a"
        raise ProtocolError(f"`{action}` {needs} `definition`", seen=sorted(header))
    config = coordinator.config
    if action != SHOW:
        schema = extended(config.schema, action, header["definition"], config.limits)
        coordinator.store.keep_schema(orjson.dumps(schema.to_json()).decode())
        coordinator.config = replace(config, schema=schema)
        coordinator.registry.take_schema(schema)
        coordinator.groups.take_schema(schema)
        coordinator.retained.take_schema(schema)
        changed = schema.to_json()
        coordinator.backend.send_tuner(tuner_wire.SchemaExtended(changed))
        message = worker_wire.SchemaExtended(changed)
        coordinator.carry_out(
            [SendWorker(idx, message) for idx, one in coordinator.scheduler.workers.items() if one.greeted]
        )
    return {"schema": coordinator.config.schema.to_json()}
