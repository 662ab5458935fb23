"""A start from a layout folder: an empty data directory takes over what a pipeline has built.

The folder's catalogue becomes a snapshot and its changes the change table, in one transaction; then the start
is like any other, from what is durable here. The folder is not needed any more: it may change or go. Where it
has one part, the layout of that is the first generation, as long as nothing has changed since.

A data directory remembers which folder it was begun from, so that the same settings start it again and again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from pubsub_cluster.coordinator.backup import replace_changes
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.snapshots import SnapshotFacts, write_snapshot
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.coordinator.store_format import meta
from pubsub_cluster.coordinator.tuning import Build
from pubsub_cluster.language.errors import PubSubError, StartError, StoreError
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_merge import append_packed
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue, pack_catalogue
from pubsub_cluster.shm.change_groups import Change
from pubsub_cluster.shm.layout import layout_lengths, move_layout
from pubsub_cluster.shm.layout_folder import LayoutGeneration, map_changes, map_part, open_folder
from pubsub_cluster.tuner import messages as wire

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator

FOLDER_KEY, BUILD_KEY = "layout_folder", "layout_build"
FIRST_GENERATION = 1
log = logging.getLogger("pubsub_cluster.coordinator")


def open_store(config: ClusterConfig, data_dir: Path) -> ChangeStore:
    """Open the change table of a data directory, filled from the layout folder if one is given.

    Raises
    ------
    StoreError
        The table or the folder cannot be used; the table is as it was.
    StartError
        The data directory has changes of its own already, or the folder does not go with the settings.
    """
    store = ChangeStore(data_dir, config.durability)
    if config.layout is None:
        return store
    folder = os.path.realpath(config.layout)
    with contextlib.closing(store), store.reading() as connection:
        is_new, known = store.is_empty(), meta(connection, FOLDER_KEY)
    if is_new:
        _take(open_folder(Path(folder)), folder, config, data_dir)
    elif known != folder:
        raise StartError(
            "the data directory holds subscriptions already, and cannot begin from a layout folder",
            seen=str(data_dir),
            remedy="Start without --layout to go on with them, or give a new directory with --data.",
        )
    return ChangeStore(data_dir, config.durability)


def _take(found: LayoutGeneration, folder: str, config: ClusterConfig, data_dir: Path) -> None:
    """Fill an empty table from a layout folder, and write the snapshot that the start will read."""
    _check(found, config)
    catalogue = _catalogue(found)
    changes = [map_changes(found.folder / one.file) for one in found.changes]
    handle = np.concatenate([np.zeros(0, np.uint64), *(one.handle for one in changes)])
    order = np.argsort(handle, kind="stable")
    if not np.array_equal(handle[order], catalogue.columns["handle"]):
        raise StoreError(
            "the parts of the layout folder and its changes do not hold the same subscriptions",
            seen=len(handle),
            limit=catalogue.counts.rows,
            remedy="Build it again: pubsub-cluster pipeline build",
        )
    metadata = {name: data for one in changes for name, data in one.metadata.items()}
    schema, lineage = orjson.dumps(found.schema.to_json()).decode(), uuid.uuid4().hex
    version, next_handle = found.facts["version"], found.facts["next_handle"]
    facts = SnapshotFacts(lineage, version, next_handle, schema)
    write_snapshot(data_dir, facts, catalogue, order.astype(np.int64) + 1, metadata)

    def groups() -> Iterator[tuple[bytes, list[Change]]]:
        for one in changes:
            yield from one.groups

    beside = {
        "lineage": lineage,
        "schema": schema,
        "version": str(version),
        "handle": str(next_handle - 1),
        FOLDER_KEY: folder,
        BUILD_KEY: found.facts["build"],
    }
    replace_changes(data_dir, groups(), beside)


def _check(found: LayoutGeneration, config: ClusterConfig) -> None:
    if config.schema not in (EMPTY_SCHEMA, found.schema):
        raise StartError(
            "the layout folder was built under another schema than the one given",
            seen=sorted(found.schema.names),
            limit=sorted(config.schema.names),
            remedy="Start without a schema, or build the folder with this one.",
        )
    if found.subscriptions > config.limits.subscriptions_max:
        raise StartError(
            "the layout folder holds more subscriptions than the cluster may",
            seen=found.subscriptions,
            limit=config.limits.subscriptions_max,
            remedy="Start with a larger limit `subscriptions_max`.",
        )
    if sum(one.subscriptions for one in found.changes) != found.subscriptions:
        raise StoreError(
            "the layout folder has no changes for its subscriptions: it is for matching alone",
            seen=sum(one.subscriptions for one in found.changes),
            limit=found.subscriptions,
            remedy="Build it with: pubsub-cluster pipeline build",
        )


def _catalogue(found: LayoutGeneration) -> PackedCatalogue:
    """Return the rows of all parts, by handle."""
    parts = []
    for path in found.paths:
        reader = map_part(path).catalogue
        columns = reader.columns._asdict()
        del columns["removed_version"]
        parts.append(PackedCatalogue(reader.capacity, columns))
    if len(parts) == 1:
        return parts[0]
    writer = CatalogueWriter.in_memory(max(1, found.subscriptions))
    for part in parts:
        append_packed(writer, part)
    return pack_catalogue(CatalogueReader.of(writer).columns, writer.counts(), 0)


def offer_layout(coordinator: Coordinator) -> None:
    """Make the layout of the folder the first generation, if it is of the catalogue as it is."""
    config = coordinator.config
    if config.layout is None:
        return
    try:
        found = open_folder(config.layout)
        with coordinator.store.reading() as connection:
            is_same = meta(connection, BUILD_KEY) == found.facts["build"]
        if not is_same or len(found.parts) != 1 or coordinator.registry.version != found.facts["version"]:
            return
        built = _as_built(coordinator, found)
    except PubSubError as error:
        log.warning("the layout folder is not used, a layout is built instead: %s", error)
        return
    if built is not None:
        now_s = time.monotonic()
        coordinator.tuner.building = Build(built.generation, "layout folder", now_s)
        coordinator.tuner.next_generation = built.generation + 1
        coordinator.building.told(built, now_s)


def _as_built(coordinator: Coordinator, found: LayoutGeneration) -> wire.Built | None:
    """Copy the only part's layout into a segment; say what a tuner would say of it."""
    layout = map_part(found.paths[0]).layout
    counts = tuple(coordinator.registry.catalogue.counts())
    if tuple(layout.counts) != counts or len(layout.partition_cost) != coordinator.config.partitions:
        return None
    cost: list[float] = layout.partition_cost.tolist()
    columns: list[Any] = list(layout)
    segment = move_layout(columns, layout_lengths(layout), FIRST_GENERATION, coordinator.resources.owner)
    name = segment.name
    segment.close()
    summary = {**found.facts["layouts"][0], "sampled_events": found.facts["sampled_events"]}
    return wire.Built(FIRST_GENERATION, name, counts, coordinator.registry.version, cost, summary)
