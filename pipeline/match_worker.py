"""What matching does in Python workers: batches of events in, batches of matches out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, ParamSpec

import numpy as np
import pyarrow as pa

from pubsub_cluster.language.batch import Payload
from pubsub_cluster.language.payload_slice import pieces_of
from pubsub_cluster.pipeline.columns import ID_COLUMN, Packed, unpack_columns
from pubsub_cluster.pipeline.engine import EVENTS_PER_CALL_MAX, Found, PartsEngine, Selection, engine_of
from pubsub_cluster.pipeline.events import column_payload, json_payload
from pubsub_cluster.pipeline.plan import FileSlice
from pubsub_cluster.pipeline.rejects import Rejects
from pubsub_cluster.pipeline.slices import read_slice

FILE_SHIFT = 40
"""An event without an id of its own is numbered ``file << 40 | row``."""

RESULT_ROWS = 1 << 14
EVENTS_ENCODED_MAX = 1 << 16
"""Of a file, encoded at a time and matched in pieces: it costs a few calls per column, and their memory."""

P = ParamSpec("P")
BUNDLE_COLUMN, JSON_COLUMN = "_bundle", "_json"


class Answer(NamedTuple):
    """What is asked for.

    Attributes
    ----------
    at_us : int
    ids, owners : bool
    """

    at_us: int
    ids: bool
    owners: bool


class FileEvents(NamedTuple):
    """What files must have.

    Attributes
    ----------
    columns : dict of str to pyarrow.DataType
    event_id : str or None
    """

    columns: dict[str, pa.DataType]
    event_id: str | None


def _together(work: Callable[P, Iterator[pa.RecordBatch]]) -> Callable[P, Iterator[pa.RecordBatch]]:
    """Put small results together: every batch costs Spark a turn."""

    @functools.wraps(work)
    def combined(*args: P.args, **options: P.kwargs) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in work(*args, **options):
            if batch.num_rows:
                held.append(batch)
                rows += batch.num_rows
            if rows >= RESULT_ROWS:
                yield from pa.Table.from_batches(held).combine_chunks().to_batches()
                held, rows = [], 0
        if held:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()

    return combined


@_together
def match_batches(
    batches: Iterator[pa.RecordBatch],
    selections: Sequence[Selection],
    where: Packed | None,
    answer: Answer,
) -> Iterator[pa.RecordBatch]:
    """Match batches of packed columns (`pipeline.columns`) or, where `where` is None, of JSON documents.

    The work of a task of `match_events`.
    """
    rejects, id_type = Rejects(), pa.int64()
    for batch in batches:
        id_type = batch.column(ID_COLUMN).type
        for bundle, mine in _by_bundle(batch):
            engine = engine_of(selections[bundle])
            names = mine.column(ID_COLUMN)
            yield from _match_all(engine, _events_of(mine, where), names, answer, rejects)
    yield from _told(rejects, id_type, answer)


@_together
def match_slices(
    numbers: Iterator[pa.RecordBatch],
    units: Sequence[tuple[int, list[FileSlice]]],
    selections: Sequence[Selection],
    events: FileEvents,
    answer: Answer,
) -> Iterator[pa.RecordBatch]:
    """Match slices of files; the work of a task of `match_files`."""
    rejects = Rejects()
    id_type = pa.int64() if events.event_id is None else _plain_type(events.columns[events.event_id])
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            bundle, slices = units[number]
            engine = engine_of(selections[bundle])
            for one in slices:
                for first_row, table in read_slice(one, events.columns, rejects):
                    yield from _match_table(engine, table, one, first_row, events, answer, rejects)
    yield from _told(rejects, id_type, answer)


def _match_table(
    engine: PartsEngine,
    table: pa.Table,
    one: FileSlice,
    first_row: int,
    events: FileEvents,
    answer: Answer,
    rejects: Rejects,
) -> Iterator[pa.RecordBatch]:
    for batch in table.combine_chunks().to_batches(max_chunksize=EVENTS_ENCODED_MAX):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if events.event_id is None:
            start = (one.file_idx << FILE_SHIFT) + first_row
            names = pa.array(np.arange(start, start + batch.num_rows))
        else:
            own = columns[events.event_id]
            names = own.cast(_plain_type(own.type))
            if events.event_id not in engine.attributes:
                del columns[events.event_id]
        payload = column_payload(columns, batch.num_rows)
        yield from _match_all(engine, payload, names, answer, rejects, one.path)
        first_row += batch.num_rows


def _match_all(
    engine: PartsEngine,
    events: Payload,
    names: pa.Array,
    answer: Answer,
    rejects: Rejects,
    file: str | None = None,
) -> Iterator[pa.RecordBatch]:
    for first, piece in pieces_of(events, EVENTS_PER_CALL_MAX):
        found = engine.match(piece, answer.at_us)
        mine = names.slice(first, piece.header["event_count"])
        rejects.add_events(file, found.refused, mine)
        yield result_batch(engine, found, mine, answer)


def result_batch(engine: PartsEngine, found: Found, names: pa.Array, answer: Answer) -> pa.RecordBatch:
    """Return matches as a batch of the result's columns."""
    columns = [names.take(pa.array(found.event)), pa.array(found.handle)]
    labels = [ID_COLUMN, "handle"]
    for label, wanted in (("id", answer.ids), ("owner", answer.owners)):
        if wanted:
            columns.append(engine.texts(found, label))
            labels.append(label)
    columns.append(pa.nulls(len(found.event), pa.string()))
    return pa.RecordBatch.from_arrays(columns, [*labels, "reject"])


def _events_of(batch: pa.RecordBatch, where: Packed | None) -> Payload:
    if where is None:
        return json_payload(batch.column(JSON_COLUMN))
    return column_payload(unpack_columns(batch, where), batch.num_rows)


def _told(rejects: Rejects, id_type: pa.DataType, answer: Answer) -> Iterator[pa.RecordBatch]:
    lines = rejects.lines()
    if not lines:
        return
    count = len(lines)
    columns = [pa.nulls(count, id_type), pa.nulls(count, pa.int64())]
    labels = [ID_COLUMN, "handle", *(["id"] if answer.ids else []), *(["owner"] if answer.owners else [])]
    columns += [pa.nulls(count, pa.string())] * (len(labels) - 2)
    yield pa.RecordBatch.from_arrays([*columns, pa.array(lines)], [*labels, "reject"])


def _by_bundle(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    if BUNDLE_COLUMN not in batch.schema.names:
        yield 0, batch
        return
    bundles = batch.column(BUNDLE_COLUMN).to_numpy()
    for bundle in np.unique(bundles).tolist():
        yield bundle, batch.filter(pa.array(bundles == bundle))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_integer(kind) else pa.string()
