"""Groups of subscribers and files: events from Parquet, groups to JSON and Parquet.

    OUTPUT/groups.json   the grid, the group of each cell, what each group costs
    OUTPUT/members/      Parquet: group int, owner string

The group of an event: `tuner.grid.Grid.from_json` finds its cell, ``of_cell`` the group; -1 is the catch-all
set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pubsub_cluster.language.errors import CallerError, ClusterError
from pubsub_cluster.pipeline.groups import GroupsFound
from pubsub_cluster.pipeline.parquet_files import FILE_ERRORS, find_files, open_file
from pubsub_cluster.pipeline.slices import lacking_columns

GROUPS_FILE, MEMBERS_FOLDER = "groups.json", "members"
_RAISED = re.compile(r"[\w.]+(Error|Exception): ")


class RejectedFile(NamedTuple):
    """A file whose events were not looked at.

    Attributes
    ----------
    file : str
    rows : int or None
        None where that cannot be read.
    reason : str
    """

    file: str
    rows: int | None
    reason: str


def open_events(
    session: SparkSession, paths: Sequence[Path], attributes: Sequence[str]
) -> tuple[DataFrame, list[RejectedFile]]:
    """Return the events in Parquet files, and the files that cannot be used.

    A file is rejected by its footer: damaged, without a column, or with one of another type than in the
    first.

    Parameters
    ----------
    session : SparkSession
    paths : sequence of Path
        Files, and folders of ``*.parquet``.
    attributes : sequence of str
        Columns that are needed.

    Raises
    ------
    CallerError
        There is no file, or none that can be used.
    """
    good: list[str] = []
    expected: dict[str, pa.DataType] = {}
    rejected: list[RejectedFile] = []
    for path in find_files([str(path) for path in paths]).sizes:
        try:
            with open_file(path) as file:
                schema, rows = file.schema_arrow, file.metadata.num_rows
        except FILE_ERRORS as error:
            rejected.append(RejectedFile(path, None, f"it cannot be read: {error}"))
            continue
        if not expected and set(attributes) <= set(schema.names):
            expected = {name: schema.field(name).type for name in attributes}
        reason = lacking_columns(schema, expected or dict.fromkeys(attributes))
        if reason:
            rejected.append(RejectedFile(path, rows, reason))
        else:
            good.append(path)
    if not good:
        raise CallerError(
            "there are no events to be read",
            seen=[f"{one.file}: {one.reason}" for one in rejected] or [str(path) for path in paths],
            limit="Parquet files with a column for each attribute of the grid",
        )
    return session.read.parquet(*good), rejected


def write_groups(found: GroupsFound, output: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Write groups and their members; what was there is replaced. Return what ``groups.json`` says.

    Parameters
    ----------
    found : GroupsFound
    output : Path
        A folder; made if it is not there.
    facts : dict
        What else is to be said of them.
    """
    output.mkdir(parents=True, exist_ok=True)
    body = {**facts, "owners": found.owner_count, "events": found.events.event_count}
    body |= {"refused_events": found.events.refused, **found.groups.to_json()}
    found.members.write.mode("overwrite").parquet(str((output / MEMBERS_FOLDER).absolute()))
    part = output / f"{GROUPS_FILE}.part"
    part.write_bytes(orjson.dumps(body))
    part.replace(output / GROUPS_FILE)
    return body


@contextmanager
def job_errors() -> Iterator[None]:
    """Turn an error of a job into one that a person can read: what a worker raised, without the way there.

    Raises
    ------
    ClusterError
    """
    try:
        yield
    except PySparkException as error:
        lines = str(error).splitlines()
        raised = [line for line in lines if _RAISED.match(line)] or [line for line in lines if line.strip()]
        raise ClusterError(
            "a job on Spark failed", seen=raised[-1].strip() if raised else type(error).__name__
        ) from error
