"""Layouts from a catalogue of any size: built by partitions in executors, written as a layout folder.

    subscriptions -> sorted, by ranges of ids -> fragments -> parts with their layouts, changes -> manifest

Executors write files below the folder that is being made, and tell the driver their names and sizes: no
subscription goes through the driver, nor is anything broadcast. So the folder has to be one that all of them
and the driver reach by the same path.

Handles are 1, 2, 3, ... in the order of the ids' bytes (of those that stand), or as given in a column
`handle`: they do not depend on how rows are partitioned. A part is a range of ids.
"""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
import psutil
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pubsub_cluster.language.errors import CallerError, PubSubError, StoreError, error_from_dict
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.pipeline.fragments import COLUMNS, FragmentWriter, Written
from pubsub_cluster.pipeline.parts import (
    Placed,
    make_changes,
    make_part,
    pick_events,
    place,
    read_sample,
    write_sample,
)
from pubsub_cluster.pipeline.raw import LEAVE_OUT, bad_file
from pubsub_cluster.pipeline.subscription_rows import SPARK_TYPES
from pubsub_cluster.shm.layout_folder import (
    ChangesFacts,
    LayoutGeneration,
    PartFacts,
    begin_generation,
    publish_generation,
)
from pubsub_cluster.shm.packed_file import put_in_place
from pubsub_cluster.tuner.constants import CostConstants
from pubsub_cluster.tuner.frequencies import Frequencies
from pubsub_cluster.tuner.frequencies_file import read_frequencies
from pubsub_cluster.tuner.statistics import EventSample

WORK_DIR, REFUSED_DIR, TASKS_FILE = "work", "refused", "tasks.json"
EVENT_ID = "event_id"
ERROR_SHOWN_MAX = 2_000
LAYOUT_GROWTH = 2.5
"""A part with its layout takes about so many times the bytes of its fragments."""
PART_SHARE_OF_MEMORY = 0.25
"""Of a host: those who build it hold a part, its layout and its fragments at the same time."""
TOLD = "partition long, number long, said string"
_TOLD_NAMES, _TOLD_TYPES = ["partition", "number", "said"], [pa.int64(), pa.int64(), pa.string()]

Told = list[dict[str, Any]]


def build(
    subscriptions: DataFrame,
    root: Path,
    *,
    schema: Schema = EMPTY_SCHEMA,
    limits: Limits = DEFAULT_LIMITS,
    events: DataFrame | None = None,
    statistics: Path | None = None,
    constants: CostConstants | None = None,
    parts: int | None = None,
    part_bytes: int | None = None,
    max_bytes: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> LayoutGeneration:
    """Build the next generation of a layout folder, and put it into force.

    A row that cannot stand is put aside, with its error and a code, in Parquet files in the generation's
    folder ``refused``; ``facts["refused"]`` counts them by code.

    Parameters
    ----------
    subscriptions : DataFrame
        Columns ``id`` and ``expr`` (in JSON or text form); optional ``owner``, ``valid_from``,
        ``valid_until`` (microseconds), ``metadata`` (JSON), ``handle``, and ``file``, where a row is from.
    root : Path
        The layout folder, which driver and executors reach by this path; made where it is not there.
    schema : Schema
    limits : Limits
    events : DataFrame, optional
        Events to sample: probabilities are estimated from them.
    statistics : Path, optional
        File of `pipeline.statistics.write_statistics`, which executors reach too: used instead of a sample.
    constants : CostConstants, optional
        Of the cost model on the machines that will match.
    parts : int, optional
        The most parts; by default as many as `part_bytes` asks for.
    part_bytes : int, optional
        About the largest part, its layout included; by default a quarter of this host's memory.
    max_bytes : int, optional
        Bound of the tables and clusters of a part's layout.
    tell : callable
        Hears the names of the stages.

    Returns
    -------
    LayoutGeneration

    Raises
    ------
    CallerError
        A column is missing, or a file of the subscriptions or events cannot be read.
    StoreError
        The folder cannot be written, or what a task wrote cannot be read again.
    """
    spark = subscriptions.sparkSession
    has_handles = "handle" in subscriptions.columns
    rows = _rows(subscriptions)
    generation, folder = _begin(root)
    work = folder / WORK_DIR
    try:
        work.mkdir()
        tell("sampling events")
        samples = [] if events is None else [one["file"] for one in _sampled(events, work)]
        tell("reading subscriptions")
        slices = max(parts or 1, int(spark.conf.get("spark.sql.shuffle.partitions") or "1"))
        written = _fragments(rows, work, schema, limits, has_handles, slices)
        fragments = [one for one in written if one.kind == "fragment"]
        placed = place(fragments, parts or _part_count(fragments, part_bytes))
        version = sum(fragment.rows for fragment in fragments)
        tell("building layouts")
        tasks = _tasks(placed, version, samples, schema, constants, max_bytes)
        tasks["statistics"] = None if statistics is None else str(statistics.absolute())
        told = _carry_out(spark, work, tasks)
        tell("publishing")
        handles = [one.next_handle for one in fragments] if has_handles else [version + 1]
        facts: dict[str, Any] = {"version": version, "next_handle": max(handles, default=1)}
        facts["refused"] = _keep_refused(work, folder, written)
        made = _made(work, LayoutGeneration(folder, generation, schema, (), facts), told, len(placed))
        shutil.rmtree(work)
        publish_generation(root.absolute(), made)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return made


def _made(work: Path, begun: LayoutGeneration, told: Told, part_count: int) -> LayoutGeneration:
    """Give the files of the second stage their names; return the generation with them."""
    of_parts, of_changes = told[:part_count], told[part_count:]
    facts = {
        "build": uuid.uuid4().hex,
        "parts_by": "ranges of ids",
        "sampled_events": of_parts[0]["sampled_events"],
        "layouts": [one["summary"] for one in of_parts],
    }
    return begun._replace(
        parts=tuple(PartFacts(**one) for one in _put_in_place(work, begun.folder, "part", of_parts)),
        facts={**begun.facts, **facts},
        changes=tuple(
            ChangesFacts(**one) for one in _put_in_place(work, begun.folder, "changes", of_changes)
        ),
    )


def _begin(root: Path) -> tuple[int, Path]:
    try:
        return begin_generation(root.absolute())
    except OSError as error:
        raise StoreError(
            "the layout folder cannot be written", seen=f"{error.strerror} ({root})", remedy="Give another."
        ) from error


def _rows(subscriptions: DataFrame) -> DataFrame:
    """Return the columns `COLUMNS`; a handle that two rows have stays with the first one."""
    known = set(subscriptions.columns)
    missing = sorted({"id", "expr"} - known)
    if missing:
        raise CallerError(
            "the subscriptions lack columns",
            seen=sorted(known),
            limit=["id", "expr"],
            remedy="Prepare them: pubsub-cluster pipeline prepare",
        )
    wanted = []
    for name, kind in COLUMNS.items():
        column = F.col(name) if name in known else F.lit(None)
        wanted.append(column.cast(SPARK_TYPES[kind]).alias(name))
    rows = subscriptions.select(wanted)
    if "handle" not in known:
        return rows
    again = F.row_number().over(Window.partitionBy("handle").orderBy("id", "expr")) > 1
    return rows.withColumn("handle", F.when(again, F.lit(None)).otherwise(F.col("handle")))


def _fragments(
    rows: DataFrame, work: Path, schema: Schema, limits: Limits, has_handles: bool, slices: int
) -> list[Written]:
    """Have executors judge and pack the rows; return what they wrote, in the order of ids."""
    schema_json, folder = schema.to_json(), str(work)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = FragmentWriter(Path(folder), Schema.from_json(schema_json), limits, has_handles)

        def written() -> Iterator[dict[str, Any]]:
            for batch in batches:
                yield from map(Written._asdict, writer.add(batch))
            yield from map(Written._asdict, writer.finish())

        yield from _told(written())

    # By everything: which of two rows with one id comes first must not depend on who reads them.
    by_id = rows.repartitionByRange(slices, "id").sortWithinPartitions(*COLUMNS)
    return [Written(**told) for told in _collected(by_id.mapInArrow(write, TOLD))]


def _sampled(events: DataFrame, work: Path) -> Told:
    folder = str(work)

    def sample(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def written() -> Iterator[dict[str, Any]]:
            picked = pick_events(batches, _partition())
            if picked is not None:
                name = f"{uuid.uuid4().hex}.parquet"
                write_sample(Path(folder) / name, picked)
                yield {"file": name}

        yield from _told(written())

    return _collected(events.drop(EVENT_ID).mapInArrow(sample, TOLD))


def _part_count(fragments: Sequence[Written], part_bytes: int | None) -> int:
    bound = part_bytes or int(PART_SHARE_OF_MEMORY * psutil.virtual_memory().total)
    needed = LAYOUT_GROWTH * sum(fragment.size_bytes for fragment in fragments)
    return max(1, -int(-needed // bound))


def _tasks(
    placed: Sequence[Sequence[Placed]],
    version: int,
    samples: list[str],
    schema: Schema,
    constants: CostConstants | None,
    max_bytes: int | None,
) -> dict[str, Any]:
    """Return what the tasks of the second stage are to do: first the parts, then the changes."""
    return {
        "parts": placed,
        "changes": [one for part in placed for one in part],
        "version": version,
        "samples": samples,
        "schema": schema.to_json(),
        "constants": None if constants is None else constants._asdict(),
        "max_bytes": max_bytes,
    }


def _carry_out(spark: SparkSession, work: Path, tasks: dict[str, Any]) -> Told:
    """Have executors build parts and write changes; return what they say, in the order of the tasks."""
    (work / TASKS_FILE).write_bytes(msgspec.json.encode(tasks))
    folder = str(work)

    def carry_out(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _told(iter([carry_out_task(Path(folder), number)]), number)

    count = len(tasks["parts"]) + len(tasks["changes"])
    return _collected(spark.range(0, count, 1, count).mapInArrow(carry_out, TOLD))


def carry_out_task(work: Path, number: int) -> dict[str, Any]:
    """Do what the file of tasks says under a number; return what is to be told of it.

    What is written has a name of its own until the driver has heard of it: of a task that Spark runs twice,
    one counts.
    """
    tasks = orjson.loads((work / TASKS_FILE).read_bytes())
    path = work / f"{uuid.uuid4().hex}.packed"
    part_count = len(tasks["parts"])
    if number >= part_count:
        placed = Placed(*tasks["changes"][number - part_count])
        return {"facts": make_changes(work, placed, path)._asdict()}
    sample: EventSample | Frequencies | None
    if tasks["statistics"] is not None:
        sample = read_frequencies(Path(tasks["statistics"])).frequencies
    else:
        sample = read_sample([work / name for name in tasks["samples"]], Schema.from_json(tasks["schema"]))
    facts, summary = make_part(
        work,
        [Placed(*one) for one in tasks["parts"][number]],
        path,
        tasks["version"],
        sample,
        None if tasks["constants"] is None else CostConstants(**tasks["constants"]),
        tasks["max_bytes"],
    )
    sampled_events = 0 if sample is None else sample.event_count
    return {"facts": facts._asdict(), "summary": summary, "sampled_events": sampled_events}


def _told(said: Iterator[dict[str, Any]], number: int | None = None) -> Iterator[pa.RecordBatch]:
    """Give what a task says as rows of `TOLD`; an error of ours is told like everything else, once."""
    partition = _partition() if number is None else 0
    place_of = itertools.count() if number is None else itertools.repeat(number)
    while True:
        is_over = False
        try:
            one = next(said, None)
        except PubSubError as error:
            one, is_over = {"error": error.to_dict()}, True
        except OSError as error:
            wrapped = StoreError(
                "a file cannot be written or read",
                seen=f"{error.strerror} ({error.filename})",
                remedy="Free some disk space; the folder must be one that all executors reach.",
            )
            one, is_over = {"error": wrapped.to_dict()}, True
        if one is None:
            return
        columns = [[partition], [next(place_of)], [orjson.dumps(one).decode()]]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, _TOLD_TYPES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=_TOLD_NAMES)
        if is_over:
            return


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _collected(said: DataFrame) -> Told:
    """Return what tasks say, a few rows each, in order; raise the first error among it."""
    try:
        rows = sorted((row["partition"], row["number"], row["said"]) for row in said.collect())
    except (PySparkException, Py4JError) as error:
        bad = bad_file(error)
        if bad is not None:
            raise CallerError(
                "a file cannot be read", seen=f"{bad.file}: {bad.cause}", remedy=LEAVE_OUT
            ) from error
        raise StoreError(
            "Spark could not read the input, or could not carry a task out", seen=str(error)[:ERROR_SHOWN_MAX]
        ) from error
    found = [orjson.loads(text) for _, _, text in rows]
    for told in found:
        if "error" in told:
            raise error_from_dict(told["error"])
    return found


def _put_in_place(work: Path, folder: Path, kind: str, told: Told) -> list[dict[str, Any]]:
    """Give the files that tasks wrote their names; return their facts."""
    found = []
    for number, one in enumerate(told):
        name = f"{kind}-{number:05d}.packed"
        put_in_place(work / one["facts"]["file"], folder / name)
        found.append({**one["facts"], "file": name})
    return found


def _keep_refused(work: Path, folder: Path, written: Iterable[Written]) -> dict[str, int]:
    """Keep what was put aside; return how many rows there are by code."""
    codes: dict[str, int] = {}
    for number, one in enumerate(one for one in written if one.kind == REFUSED_DIR):
        (folder / REFUSED_DIR).mkdir(exist_ok=True)
        put_in_place(work / one.file, folder / REFUSED_DIR / f"part-{number:05d}.parquet")
        for code, count in one.codes.items():
            codes[code] = codes.get(code, 0) + count
    return codes
