"""Matching a table of events against a catalogue on Spark: the cluster's answers, as a table.

Two ways in. A DataFrame: its attributes travel to Python workers as arrays (`pipeline.columns`). Parquet
files: workers read the row groups themselves, and no event passes through the JVM. Either way the engine is
the cluster's, over layout files that all workers of a host map (`pipeline.engine`), and only matches come
back.

A row of the result is a match, or, where ``reject`` is not null, events or a file that could not be matched,
as JSON (`pipeline.results` tells them apart).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.pipeline.columns import ID_COLUMN, pack_columns
from pubsub_cluster.pipeline.engine import Selection
from pubsub_cluster.pipeline.match_worker import (
    BUNDLE_COLUMN,
    JSON_COLUMN,
    Answer,
    FileEvents,
    match_batches,
    match_slices,
)
from pubsub_cluster.pipeline.parquet_files import find_files
from pubsub_cluster.pipeline.plan import Plan, choose_plan, deal_files
from pubsub_cluster.pipeline.results import matches
from pubsub_cluster.shm.layout_folder import MANIFEST_FILE, LayoutGeneration, open_folder, part_attributes


def match(events: DataFrame, layout: str | Path, **options: Any) -> DataFrame:
    """Return the matches of a DataFrame's events; see `match_events`, whose options it takes.

    Events that break the schema match nothing and are not in the result; `match_events` tells of them.
    """
    return events.transform(lambda given: matches(match_events(given, layout, **options)))


def match_events(
    events: DataFrame,
    layout: str | Path | LayoutGeneration,
    *,
    event_id: str = ID_COLUMN,
    json: str | None = None,
    at_us: int | None = None,
    ids: bool = False,
    owners: bool = False,
    room_bytes: int | None = None,
) -> DataFrame:
    """Match the events of a DataFrame.

    Parameters
    ----------
    events : DataFrame
        A column per attribute, nulls where an event has none, and a column that names the event.
    layout : path or LayoutGeneration
        A folder of ``pipeline build``, under this path on every host.
    event_id : str
        The column that names events; of an integer type or text.
    json : str, optional
        A column of text with a JSON object per event, instead of columns for attributes: for attributes whose
        values are of several kinds, or events that come as JSON anyway.
    at_us : int, optional
        Time of acceptance, microseconds since the epoch; now by default. Validity is judged by it.
    ids, owners : bool
        Add columns ``id`` and ``owner``.
    room_bytes : int, optional
        See `choose_plan`.

    Returns
    -------
    DataFrame
        ``event_id, handle long[, id string][, owner string], reject string``.

    Raises
    ------
    CallerError
        There is no such column, or no column is an attribute that the catalogue asks for.
    StoreError
        The layout cannot be used.
    """
    generation = _opened(layout)
    kind = _id_type(events, event_id)
    plan = choose_plan(generation, room_bytes)
    where = None
    if json is not None:
        texts = F.col(json).cast("string").alias(JSON_COLUMN)
        packed = events.select(F.col(event_id).alias(ID_COLUMN), texts)
    else:
        attributes = _attributes(generation)
        known = [name for name in events.columns if name in attributes and name != event_id]
        _check_attributes(known, attributes, events.columns)
        packed, where = pack_columns(events, attributes, event_id)
    if len(plan.bundles) > 1:
        bundles = F.explode(F.array(*(F.lit(number) for number in range(len(plan.bundles)))))
        packed = packed.withColumn(BUNDLE_COLUMN, bundles)
        packed = packed.repartitionByRange(len(plan.bundles), BUNDLE_COLUMN)
    answer = Answer(_now_us(at_us), ids, owners)
    work = partial(match_batches, selections=_selections(generation, plan), where=where, answer=answer)
    return packed.mapInArrow(work, _result_type(kind, answer))


def match_files(
    session: SparkSession,
    paths: Sequence[str],
    layout: str | Path | LayoutGeneration,
    *,
    event_id: str | None = ID_COLUMN,
    at_us: int | None = None,
    ids: bool = False,
    owners: bool = False,
    room_bytes: int | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Match the events in Parquet files, which the workers read.

    Parameters
    ----------
    session : SparkSession
    paths : sequence of str
        Files and folders, under these paths on every host; also URLs that pyarrow knows.
    event_id : str or None
        The column that names events; None numbers them, ``file << 40 | row``, files in the order of paths.
    tasks : int, optional
        About how many; by size by default.
    layout, at_us, ids, owners, room_bytes
        As for `match_events`.

    Returns
    -------
    DataFrame
        As of `match_events`.

    Raises
    ------
    CallerError
        There are no files, or none can be read, or they lack `event_id`.
    StoreError
        The layout cannot be used.
    """
    files = find_files(paths)
    given: dict[str, Any] = {"event_id": event_id, "at_us": at_us, "ids": ids, "owners": owners}
    given |= {"room_bytes": room_bytes, "tasks": tasks}
    return match_found(session, files.sizes, files.schema(), layout, **given)


def match_found(
    session: SparkSession,
    sizes: dict[str, int],
    schema: pa.Schema,
    layout: str | Path | LayoutGeneration,
    *,
    event_id: str | None = ID_COLUMN,
    at_us: int | None = None,
    ids: bool = False,
    owners: bool = False,
    room_bytes: int | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Match the events in Parquet files that were found already; as `match_files`.

    Parameters
    ----------
    session : SparkSession
    sizes : dict of str to int
        Bytes by path.
    schema : pyarrow.Schema
        Of all files: one that has other columns is told, and left out.
    layout, event_id, at_us, ids, owners, room_bytes, tasks
        As for `match_files`.

    Raises
    ------
    CallerError
        Of the columns, as by `match_files`.
    StoreError
        The layout cannot be used.
    """
    generation = _opened(layout)
    expected, id_type = _expected(schema, _attributes(generation), event_id)
    plan = choose_plan(generation, room_bytes)
    answer = Answer(_now_us(at_us), ids, owners)
    dealt = deal_files(sizes, _cores(session), tasks)
    units = [(bundle, slices) for bundle in range(len(plan.bundles)) for slices in dealt]
    work = partial(
        match_slices,
        units=units,
        selections=_selections(generation, plan),
        events=FileEvents(expected, event_id),
        answer=answer,
    )
    numbers = session.range(0, len(units), 1, max(len(units), 1))
    return numbers.mapInArrow(work, _result_type(id_type, answer))


def explain(layout: str | Path | LayoutGeneration, room_bytes: int | None = None) -> Plan:
    """Return the plan that a job would follow; its `Plan.explain` says why."""
    return choose_plan(_opened(layout), room_bytes)


def _opened(layout: str | Path | LayoutGeneration) -> LayoutGeneration:
    return layout if isinstance(layout, LayoutGeneration) else open_folder(Path(layout).absolute())


def _now_us(at_us: int | None) -> int:
    return time.time_ns() // 1_000 if at_us is None else at_us


def _cores(session: SparkSession) -> int:
    return int(session.conf.get("spark.sql.shuffle.partitions", "2") or 2)


def _attributes(generation: LayoutGeneration) -> frozenset[str]:
    """Return the attributes that the catalogue asks for."""
    return frozenset(name for path in generation.paths for name in part_attributes(path))


def _selections(generation: LayoutGeneration, plan: Plan) -> tuple[Selection, ...]:
    root = str(generation.folder.parent)
    made_ns = (generation.folder / MANIFEST_FILE).stat().st_mtime_ns
    return tuple(Selection(root, generation.generation, made_ns, bundle) for bundle in plan.bundles)


def _id_type(events: DataFrame, event_id: str) -> T.DataType:
    if event_id not in events.columns:
        raise CallerError(
            "the column that names events is missing",
            seen=events.columns,
            limit=event_id,
            remedy="Name another one as `event_id`, or add one: events are told apart by it.",
        )
    kind = events.schema[event_id].dataType
    if isinstance(kind, T.StringType | T.IntegralType):
        return kind
    raise CallerError(
        f"the column {event_id!r} cannot name events",
        seen=kind.simpleString(),
        limit="an integer type or string",
        remedy="Cast it.",
    )


def _check_attributes(known: Iterable[str], attributes: frozenset[str], columns: Sequence[str]) -> None:
    if not known and attributes:
        raise CallerError(
            "no column of the events is an attribute that the catalogue asks for",
            seen=list(columns),
            limit=sorted(attributes)[:20],
            remedy="Rename the columns: pipeline prepare events --map OLD=NEW",
        )


def _expected(
    schema: pa.Schema, attributes: frozenset[str], event_id: str | None
) -> tuple[dict[str, pa.DataType], T.DataType]:
    """Return the columns that every file must have, and the type of ids."""
    expected = {name: schema.field(name).type for name in schema.names if name in attributes}
    _check_attributes(expected, attributes, schema.names)
    if event_id is None:
        return expected, T.LongType()
    if event_id not in schema.names:
        raise CallerError(
            "the column that names events is missing",
            seen=schema.names,
            limit=event_id,
            remedy="Name another one as `event_id`, or None (--event-id '') to number them.",
        )
    kind = schema.field(event_id).type
    expected[event_id] = kind
    if pa.types.is_integer(kind):
        return expected, T.LongType()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return expected, T.StringType()
    raise CallerError(
        f"the column {event_id!r} cannot name events", seen=str(kind), limit="an integer type or string"
    )


def _result_type(id_type: T.DataType, answer: Answer) -> T.StructType:
    fields = [T.StructField(ID_COLUMN, id_type), T.StructField("handle", T.LongType())]
    if answer.ids:
        fields.append(T.StructField("id", T.StringType()))
    if answer.owners:
        fields.append(T.StructField("owner", T.StringType()))
    return T.StructType([*fields, T.StructField("reject", T.StringType())])
