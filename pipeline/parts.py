"""From fragments to what a layout folder holds: parts of the catalogue with their layouts, and changes.

Fragments follow each other in the order of ids, so a part is a range of ids: some fragments in a row, merged
column by column. Changes need no merging: each fragment gives a file of them. Nothing here knows Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pubsub_cluster.language.batch import decode_payload
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.payload import payload_from_columns
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.pipeline.fragments import Fragment, Written, changes_of, handles_of, map_fragment
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_merge import append_packed
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue, pack_catalogue
from pubsub_cluster.shm.layout_folder import ChangesFacts, PartFacts, write_changes, write_part
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.constants import CostConstants
from pubsub_cluster.tuner.report import summarise
from pubsub_cluster.tuner.statistics import BATCHES_HELD_MAX, SAMPLE_EVENTS_MAX, EventSample, EventStatistics

MERGED_ROWS_MAX = 1 << 24
"""Room of a merge is for so many rows, or for those that there are: untouched room costs nothing."""
FIRST_GENERATION = 1
"""What a layout in a folder calls itself: a cluster that starts from it has no other before."""


class Placed(NamedTuple):
    """A fragment in its place.

    Attributes
    ----------
    file : str
    first : int
        Subscriptions before it; the handles and versions of its own follow, from ``first + 1`` on.
    """

    file: str
    first: int


def place(fragments: Sequence[Written], part_count: int) -> list[list[Placed]]:
    """Deal fragments, in the order of ids, to parts of about the same size; no part is empty.

    Parameters
    ----------
    fragments : sequence of Written
    part_count : int
        The most parts.
    """
    total = sum(fragment.size_bytes for fragment in fragments) or 1
    parts: dict[int, list[Placed]] = {}
    rows = size_bytes = 0
    for fragment in fragments:
        middle = size_bytes + fragment.size_bytes / 2
        part = min(int(part_count * middle / total), part_count - 1)
        parts.setdefault(part, []).append(Placed(fragment.file, rows))
        rows += fragment.rows
        size_bytes += fragment.size_bytes
    return [parts[number] for number in sorted(parts)] or [[]]


def merge(fragments: Iterable[tuple[Fragment, int]]) -> PackedCatalogue:
    """Return the catalogue of some fragments, each with the number of subscriptions before it, by handle."""
    found = list(fragments)
    rows = sum(fragment.catalogue.counts.rows for fragment, _ in found)
    writer = CatalogueWriter.in_memory(max(rows, MERGED_ROWS_MAX))
    for fragment, first in found:
        append_packed(writer, fragment.catalogue, handles_of(fragment, first + 1))
    return pack_catalogue(CatalogueReader.of(writer).columns, writer.counts(), 0)


def make_part(
    work: Path,
    placed: Sequence[Placed],
    path: Path,
    version: int,
    sample: EventStatistics | None = None,
    constants: CostConstants | None = None,
    max_bytes: int | None = None,
) -> tuple[PartFacts, dict[str, Any]]:
    """Merge fragments, build the layout of what they hold, and write the part.

    Parameters
    ----------
    work : Path
        Where the fragments are.
    placed : sequence of Placed
    path : Path
        Of the part.
    version : int
        Of the last change of the whole catalogue.
    sample : EventStatistics, optional
        What probabilities are estimated from; without one all constants of an attribute are equally likely.
    constants : CostConstants, optional
    max_bytes : int, optional
        Bound of the tables and clusters that may be chosen.

    Returns
    -------
    PartFacts
    dict
        Figures of the layout (`tuner.report`).

    Raises
    ------
    StoreError
        A fragment is damaged.
    LimitError, SegmentError
        The catalogue does not fit.
    """
    begin_s, cpu_begin_s = time.perf_counter(), time.process_time()
    packed = merge((map_fragment(work / one.file), one.first) for one in placed)
    reader = CatalogueReader.over(packed)
    layout = build_layout(
        reader,
        packed.counts,
        version,
        sample,
        FIRST_GENERATION,
        constants=constants,
        max_bytes=max_bytes,
    )
    summary = summarise(layout, reader.attribute_name) | {
        "build_ms": round((time.perf_counter() - begin_s) * 1_000),
        "build_cpu_ms": round((time.process_time() - cpu_begin_s) * 1_000),
    }
    return write_part(path, packed, layout), summary


def make_changes(work: Path, placed: Placed, path: Path) -> ChangesFacts:
    """Write the changes that make a fragment's subscriptions; raises `StoreError`."""
    fragment = map_fragment(work / placed.file)
    handles = handles_of(fragment, placed.first + 1)
    groups = changes_of(fragment, handles, placed.first + 1)
    return write_changes(path, groups, handles, fragment.metadata)


def write_sample(path: Path, events: pa.Table) -> None:
    """Keep sampled events for those who build layouts."""
    pq.write_table(events, path)


def read_sample(paths: Iterable[Path], schema: Schema) -> EventSample | None:
    """Return sampled events as statistics; None without any. Events that the schema refuses are left out."""
    tables = [pq.read_table(path) for path in paths]
    if not tables:
        return None
    events = pa.concat_tables(tables, promote_options="permissive")
    step = max(1, -(-events.num_rows // SAMPLE_EVENTS_MAX))
    events = events.take(pa.array(np.arange(0, events.num_rows, step)))
    sample = EventSample()
    size = max(1, -(-events.num_rows // BATCHES_HELD_MAX))
    for first in range(0, events.num_rows, size):
        payload = payload_from_columns(events.slice(first, size))
        sample.add(decode_payload(payload.header, payload.buffers, schema, DEFAULT_LIMITS))
    return sample


def pick_events(
    batches: Iterable[pa.RecordBatch], seed: int, count: int = SAMPLE_EVENTS_MAX
) -> pa.Table | None:
    """Return a random sample of events, `count` at most; None where there are none."""
    random = np.random.default_rng(seed)
    kept: pa.Table | None = None
    keys = np.zeros(0)
    for batch in batches:
        if not batch.num_rows:
            continue
        table = pa.Table.from_batches([batch])
        kept = table if kept is None else pa.concat_tables([kept, table])
        keys = np.append(keys, random.random(batch.num_rows))
        if len(keys) > count:
            least = np.sort(np.argpartition(keys, count)[:count])
            kept, keys = kept.take(pa.array(least)), keys[least]
    return kept
