"""Layout folders: what is written is mapped back and matches; what is damaged or foreign is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.language.batch import payload_from_dicts
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm import layout_folder
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_packed import pack_catalogue
from pubsub_cluster.shm.layout_folder import (
    GENERATIONS_KEPT,
    LayoutGeneration,
    begin_generation,
    map_part,
    open_folder,
    part_attributes,
    publish_generation,
    write_part,
)
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.workers.engine import MatchEngine

EXPRESSIONS = ("a = 1", "a = 1 AND b > 2.5", "name contains 'x' OR c = true", "NOT (a = 2) AND a exists")
EVENTS = ({"a": 1, "b": 3}, {"name": "axe"}, {"a": 2, "c": True}, {})


def write_generation(root: Path) -> LayoutGeneration:
    """Write a generation of one part with `EXPRESSIONS`, after one that was removed."""
    writer = CatalogueWriter.in_memory(64)
    registry = Registry(writer, EMPTY_SCHEMA, DEFAULT_LIMITS)
    for number, expression in enumerate(("z = 9", *EXPRESSIONS)):
        registry.stage_subscribe({"id": f"s{number}", "owner": "me", "expr": expression})
        registry.apply(1)
    registry.stage_unsubscribe("s0")
    registry.apply(1)
    packed = pack_catalogue(CatalogueReader.of(writer).columns, writer.counts(), registry.version)
    layout = build_layout(CatalogueReader.over(packed), packed.counts, 1, None, 1)
    generation, folder = begin_generation(root)
    part = write_part(folder / "part-00000.packed", packed, layout)
    made = LayoutGeneration(folder, generation, EMPTY_SCHEMA, (part,), {"by": "test"})
    publish_generation(root, made)
    return made


def test_a_mapped_part_matches_as_the_catalogue_that_it_was_made_of(tmp_path: Path) -> None:
    write_generation(tmp_path)
    found = open_folder(tmp_path)
    assert (found.generation, found.subscriptions, found.facts) == (1, len(EXPRESSIONS), {"by": "test"})
    part = map_part(found.paths[0])
    assert part_attributes(found.paths[0]) == ["a", "b", "name", "c"]
    assert not any(column.flags.writeable for column in (*part.layout, *part.catalogue.columns))
    engine = MatchEngine(part.catalogue)
    engine.attach_layout(1, part.layout)
    payload = payload_from_dicts(list(EVENTS))
    result = engine.match_batch(engine.read(payload.header, payload.buffers), 1, part.layout.counts)
    ids = [
        sorted(part.catalogue.subscription_id(row) for row in rows.tolist())
        for rows in np.split(result.rows, result.event_offsets[1:-1])
    ]
    assert ids == [["s1", "s2", "s4"], ["s3"], ["s3"], []]


def test_the_last_generations_are_kept_and_the_newest_is_in_force(tmp_path: Path) -> None:
    for _ in range(GENERATIONS_KEPT + 2):
        write_generation(tmp_path)
    assert open_folder(tmp_path).generation == GENERATIONS_KEPT + 2
    assert open_folder(tmp_path, 3).generation == 3
    with pytest.raises(StoreError, match="generation is gone"):
        open_folder(tmp_path, 2)


def test_a_damaged_part_is_refused(tmp_path: Path) -> None:
    path = write_generation(tmp_path).paths[0]
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        map_part(path)
    path.write_bytes(data[:-100])
    with pytest.raises(StoreError, match="cut short"):
        map_part(path)


def test_a_part_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_generation(tmp_path).paths[0]
    monkeypatch.setattr(layout_folder, "_versions", lambda: [0, 0])
    with pytest.raises(StoreError, match="another version"):
        map_part(path)


@pytest.mark.parametrize("body", ["", "{", '{"format": 99}'])
def test_a_damaged_folder_is_refused(tmp_path: Path, body: str) -> None:
    write_generation(tmp_path)
    (tmp_path / "current.json").write_text(body)
    with pytest.raises(StoreError):
        open_folder(tmp_path)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no layout folder"):
        open_folder(tmp_path / "nothing")
