"""The schema is kept with the data: the same expressions mean other things under another one.

A start without a schema takes the stored one, and so does a start with one that publishers have extended
since (`pubsub_cluster.language.schema_rules`). A start with another schema than these is refused while there
are subscriptions that were made under the stored one.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.language.errors import StartError
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.schema_rules import is_extension


def with_stored_schema(config: ClusterConfig, store: ChangeStore) -> ClusterConfig:
    """Return `config` with the schema that is in force for this data directory, and remember it.

    Raises
    ------
    StartError
        Another schema was given than the one under which subscriptions were made.
    """
    stored = store.stored_schema()
    schema = None if stored is None else Schema.from_json(orjson.loads(stored))
    is_taken = schema is not None and (config.schema == EMPTY_SCHEMA or is_extension(schema, config.schema))
    if schema is None or (store.is_empty() and not is_taken):
        store.keep_schema(orjson.dumps(config.schema.to_json()).decode())
        return config
    if not is_taken:
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
