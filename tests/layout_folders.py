"""Support for tests of layout folders: built in this process, by what Spark's tasks are made of."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.pipeline.fragments import COLUMNS, FragmentWriter, Written
from pubsub_cluster.pipeline.parts import make_changes, make_part, place
from pubsub_cluster.shm.layout_folder import LayoutGeneration, begin_generation, publish_generation

Row = dict[str, Any]


def batch_of(rows: Sequence[Row]) -> Any:
    """Return rows as tasks get them."""
    columns = [pa.array([row.get(name) for row in rows], kind) for name, kind in COLUMNS.items()]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


def write_fragments(
    folder: Path, rows: Sequence[Row], schema: Schema = EMPTY_SCHEMA, size: int = 1 << 17, **options: Any
) -> list[Written]:
    """Write rows, in the order of their ids, as fragments of `size` rows."""
    writer = FragmentWriter(folder, schema, fragment_rows=size, **options)
    by_id = sorted(rows, key=lambda row: (row["id"] or "").encode(errors="surrogateescape"))
    written: list[Written] = []
    for first in range(0, len(by_id), size):
        written += writer.add(batch_of(by_id[first : first + size]))
    return [*written, *writer.finish()]


def fragments_of(written: Sequence[Written]) -> list[Written]:
    """Return the fragments among what was written."""
    return [one for one in written if one.kind == "fragment"]


def build_folder(
    root: Path,
    rows: Sequence[Row],
    schema: Schema = EMPTY_SCHEMA,
    parts: int = 1,
    size: int = 1 << 17,
    **options: Any,
) -> LayoutGeneration:
    """Build the next generation of a folder."""
    generation, folder = begin_generation(root)
    written = fragments_of(write_fragments(folder, rows, schema, size, **options))
    version = sum(one.rows for one in written)
    placed = place(written, parts)
    made_parts, summaries = zip(
        *(
            make_part(folder, part, folder / f"part-{number}.packed", version)
            for number, part in enumerate(placed)
        ),
        strict=True,
    )
    changes = [
        make_changes(folder, one, folder / f"changes-{number}.packed")
        for number, one in enumerate(one for part in placed for one in part)
    ]
    facts = {
        "build": uuid.uuid4().hex,
        "version": version,
        "next_handle": max([version + 1, *(one.next_handle for one in written)]),
        "sampled_events": 0,
        "layouts": list(summaries),
    }
    made = LayoutGeneration(folder, generation, schema, tuple(made_parts), facts, tuple(changes))
    publish_generation(root, made)
    return made
