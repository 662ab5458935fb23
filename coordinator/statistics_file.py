"""Statistics that an operator has brought: a copy in the data directory, checked before it counts.

The keeper copies and checks, because a file may be large; the coordinator then names the copy in its
settings, which is what puts it into force. A copy that no setting names is left over, and goes with the next
one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import orjson

from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.shm.packed_file import PART_SUFFIX, opened, put_in_place
from pubsub_cluster.tuner.messages import STATISTICS_FILE, STATISTICS_FORMAT, STATISTICS_KIND

PREFIX = "statistics-"
COUNT_AGAIN = "pubsub-cluster pipeline statistics"


class ImportedStatistics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statistics in the data directory.

    Attributes
    ----------
    file : str
        Name there.
    source : str
        Where they were brought from.
    events, sampled_events : int
    made_us, imported_us : int
        When they were counted, and brought.
    """

    file: str
    source: str
    events: int
    sampled_events: int
    made_us: int
    imported_us: int


def copy_statistics(given: Path, data_dir: Path, schema_json: str) -> dict[str, Any]:
    """Copy a file, or that of a folder, into the data directory; return `ImportedStatistics` as a dictionary.

    Parameters
    ----------
    given : Path
    data_dir : Path
    schema_json : str
        The cluster's schema.

    Raises
    ------
    StoreError
        It is missing, damaged, of another version, or was counted under another schema.
    OSError
        It cannot be copied.
    """
    source = given / STATISTICS_FILE if given.is_dir() else given
    _checked(source, source, schema_json)
    path = data_dir / f"{PREFIX}{uuid.uuid4().hex}.packed"
    part = path.with_name(path.name + PART_SUFFIX)
    try:
        _copy(source, part)
        facts = _checked(part, source, schema_json)
        put_in_place(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    imported = ImportedStatistics(
        path.name,
        str(source),
        facts["events"],
        facts["sampled"],
        facts["about"].get("made_us", 0),
        time.time_ns() // 1_000,  # told to operators, and compared with nothing
    )
    return dict(msgspec.to_builtins(imported))


def remove_statistics(data_dir: Path, keep: str | None) -> None:
    """Remove copies, all but one; what cannot be removed stays."""
    for path in data_dir.glob(f"{PREFIX}*"):
        if path.name != keep:
            with contextlib.suppress(OSError):
                path.unlink()


def _copy(source: Path, part: Path) -> None:
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with source.open("rb") as reading, os.fdopen(descriptor, "wb") as writing:
        shutil.copyfileobj(reading, writing)
        writing.flush()
        os.fsync(writing.fileno())


def _checked(path: Path, source: Path, schema_json: str) -> dict[str, Any]:
    """Return the facts of a file, which is `source` or a copy of it, after checking every byte."""
    with opened(path, STATISTICS_KIND) as file:
        file.check()
        facts = file.facts
    if facts["format"] != STATISTICS_FORMAT:
        raise StoreError(
            "the statistics are of another version of pubsub-cluster",
            seen=facts["format"],
            limit=STATISTICS_FORMAT,
            remedy=f"Count them again with this version: {COUNT_AGAIN}",
            path=str(source),
        )
    declared = orjson.loads(schema_json)
    schema = EMPTY_SCHEMA if declared is None else Schema.from_json(declared)
    theirs = Schema.from_json(facts["schema"])
    names = {one.name for one in (*schema.attributes, *theirs.attributes)}
    differing = sorted(name for name in names if schema.get(name) != theirs.get(name))
    if differing:
        raise StoreError(
            "the statistics were counted under another schema: values would mean something else",
            seen=differing,
            limit="the cluster's declarations",
            remedy=f"Count them again: {COUNT_AGAIN} --schema FILE",
            path=str(source),
        )
    return facts
