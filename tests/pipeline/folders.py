"""Layout folders for tests: made in this process from subscriptions, in one part or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_packed import pack_catalogue
from pubsub_cluster.shm.layout_folder import (
    LayoutGeneration,
    begin_generation,
    publish_generation,
    write_part,
)
from pubsub_cluster.tuner.builder import build_layout


def write_folder(
    root: Path, subscriptions: Sequence[Mapping[str, Any]], schema: Schema = EMPTY_SCHEMA, parts: int = 1
) -> LayoutGeneration:
    """Write a generation, subscriptions dealt to parts in turn; handles are 1, 2, ... in the order given.

    Subscriptions are as `Registry.stage_subscribe` takes them.
    """
    generation, folder = begin_generation(root)
    facts = []
    for part in range(parts):
        writer = CatalogueWriter.in_memory(4_096)
        registry = Registry(writer, schema, DEFAULT_LIMITS)
        for number in range(part, len(subscriptions), parts):
            registry.start_at(registry.version, number + 1)
            registry.stage_subscribe(dict(subscriptions[number]))
            registry.apply(1)
        packed = pack_catalogue(CatalogueReader.of(writer).columns, writer.counts(), registry.version)
        layout = build_layout(CatalogueReader.over(packed), packed.counts, 1, None, 1)
        facts.append(write_part(folder / f"part-{part:05d}.packed", packed, layout))
    made = LayoutGeneration(folder, generation, schema, tuple(facts), {})
    publish_generation(root, made)
    return made
