"""Support for tests of what is kept on disk: a catalogue that changes at random, and what comes back of it.

Processes that are to be killed import it, so it does without pytest.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from pubsub_cluster.coordinator.compaction import live_changes
from pubsub_cluster.coordinator.keeper import KeeperTask
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.snapshots import (
    SnapshotFacts,
    newest_snapshot,
    write_snapshot,
)
from pubsub_cluster.coordinator.store import STORE_FILE, ChangeStore
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_packed import pack_catalogue
from pubsub_cluster.shm.change_groups import Change

SCHEMA = msgspec.json.encode(EMPTY_SCHEMA.to_json()).decode()
GROUP = 50


def new_registry() -> Registry:
    return Registry(CatalogueWriter.in_memory(1 << 14), EMPTY_SCHEMA, DEFAULT_LIMITS)


def change_at_random(registry: Registry, store: ChangeStore, count: int, seed: int) -> None:
    """Make changes as a cluster would, in groups; every third id or so is used again."""
    draw, live = random.Random(seed), set(contents(registry))
    changes: list[Change] = []
    for _ in range(count):
        name = f"n{draw.randrange(count // 3)}"
        item: Any = {"id": name, "expr": {"attr": f"a{draw.randrange(5)}", "op": "=", "value": draw.random()}}
        if name not in live:
            live.add(name)
            if draw.random() < 0.3:
                item["metadata"] = {"seed": seed}
            change, _ = registry.stage_subscribe({**item, "owner": f"o{draw.randrange(3)}"})
        elif draw.random() < 0.4:
            change, _ = registry.stage_update({**item, "valid_from": 7})
        else:
            change, _ = registry.stage_unsubscribe(name)
            live.discard(name)
        changes.append(change)
        if len(changes) == GROUP:
            store.commit(changes)
            registry.apply(len(changes))
            changes = []
    if changes:
        store.commit(changes)
        registry.apply(len(changes))


def contents(registry: Registry) -> dict[str, Any]:
    """Everything that is told of the live subscriptions, by id."""
    columns, reader = registry.catalogue.columns, CatalogueReader.of(registry.catalogue)
    rows = [row for row in range(registry.catalogue.counts().rows) if not columns.removed_version[row]]
    return {
        reader.subscription_id(row): (
            registry.live(reader.subscription_id(row))[2],
            registry.row_versions.version_of(row),
            reader.normal_form(row),
        )
        for row in rows
    }


def replayed(data_dir: Path, with_snapshot: bool = False) -> Registry:
    registry = new_registry()
    store = ChangeStore(data_dir, "full")
    after = 0
    with newest_snapshot(data_dir, store.lineage, SCHEMA, store.end.version) as snapshot:
        assert (snapshot is not None) or not with_snapshot
        if snapshot is not None and with_snapshot:
            registry.take_over(snapshot)
            after = snapshot.facts.version
    registry.replay(lambda: store.replay(after))
    registry.start_at(max(store.end.version, registry.version), store.end.handle + 1)
    store.close()
    return registry


def table(data_dir: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(data_dir / STORE_FILE))


def snapshot_of(registry: Registry, store: ChangeStore, data_dir: Path) -> None:
    with table(data_dir) as connection:
        found = live_changes(connection, data_dir / STORE_FILE, registry.version)
    packed = pack_catalogue(registry.catalogue.columns, registry.catalogue.counts(), registry.version)
    facts = SnapshotFacts(store.lineage, registry.version, registry.next_handle, SCHEMA)
    row_version = found.version_of(packed.columns["handle"])
    write_snapshot(data_dir, facts, packed, row_version, found.metadata)


def task_for(data_dir: Path, registry: Registry, path: Path, **changes: Any) -> KeeperTask:
    lineage = ChangeStore(data_dir, "full").lineage
    limits = {name: getattr(DEFAULT_LIMITS, name) for name in DEFAULT_LIMITS.__dataclass_fields__}
    limits["subscriptions_max"] = 1 << 14
    given: dict[str, Any] = {
        "kind": "backup",
        "data_dir": str(data_dir),
        "lineage": lineage,
        "schema": SCHEMA,
        "version": registry.version,
        "next_handle": registry.next_handle,
        "catalogue": "",
        "counts": (),
        "limits": limits,
        "path": str(path),
    }
    return KeeperTask(**(given | changes))
