"""The schema is kept with the data: the same expressions mean other things under another one.

A start without a schema takes the stored one. A start with another schema than the stored one is refused
while there are subscriptions that were made under it.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.language.errors import StartError
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


def with_stored_schema(config: ClusterConfig, store: ChangeStore) -> ClusterConfig:
    """Return `config` with the schema that is in force for this data directory, and remember it.

    Raises
    ------
    StartError
        Another schema was given than the one under which subscriptions were made.
    """
    stored = store.stored_schema()
    if stored is None or (store.is_empty() and config.schema != EMPTY_SCHEMA):
        store.keep_schema(orjson.dumps(config.schema.to_json()).decode())
        return config
    schema = Schema.from_json(orjson.loads(stored))
    if config.schema not in (EMPTY_SCHEMA, schema):
        raise StartError(
            "the data directory's subscriptions were made under another schema",
            seen=sorted(_differences(config.schema, schema)),
            limit="the stored schema, or none given",
            remedy="Start without a schema to use the stored one, or load into a new directory.",
        )
    return replace(config, schema=schema)


def _differences(given: Schema, stored: Schema) -> set[str]:
    """Return the names of the attributes that differ."""
    names = set(given.names) | set(stored.names)
    found = {name for name in names if given.get(name) != stored.get(name)}
    return found if given.closed == stored.closed else found | {"(closed)"}
