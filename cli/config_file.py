"""Settings of a cluster from a TOML file and from options, checked before anything starts.

A file may set what `ClusterConfig` has, under the same names, with a table ``[limits]`` and a table
``[schema]`` (or ``schema = "FILE.json"``). A key that is not known is refused, with the nearest known one:
a setting that is silently ignored is the worst kind of mistake. Options win over the file.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pubsub_cluster.language.errors import StartError

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.config import ClusterConfig
    from pubsub_cluster.language.schema import Schema

WORKERS_KEY = "workers"


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file, names checked.

    Raises
    ------
    StartError
        The file cannot be read, is not TOML, or has an unknown key or a value of another kind.
    """
    from pubsub_cluster.coordinator.config import ClusterConfig
    from pubsub_cluster.language.limits import Limits

    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"the configuration file cannot be read: {error}", seen=str(path)) from error
    except tomllib.TOMLDecodeError as error:
        raise StartError(f"{path} is not TOML: {error}", remedy="Correct the file at that place.") from error
    kinds = {field.name: str(field.type) for field in fields(ClusterConfig)} | {WORKERS_KEY: "int"}
    _check_table(path, "", settings, kinds)
    if "limits" in settings:
        _check_table(path, "limits.", settings["limits"], {f.name: str(f.type) for f in fields(Limits)})
    return settings


def cluster_config(settings: dict[str, Any], base_dir: Path | None = None) -> ClusterConfig:
    """Build the configuration of a cluster.

    Parameters
    ----------
    settings : dict
        `ClusterConfig` fields as plain values, and ``workers``; None counts as absent.
    base_dir : Path, optional
        What a relative ``schema`` file name is relative to.
    """
    from pubsub_cluster.cli.common import resolve_data_dir
    from pubsub_cluster.coordinator.config import ClusterConfig
    from pubsub_cluster.language.limits import Limits

    given = {name: value for name, value in settings.items() if value is not None}
    given["shards"], given["replicas"] = shards_and_replicas(
        given.pop(WORKERS_KEY, None), given.get("shards"), given.get("replicas")
    )
    data_dir = given.get("data_dir")
    given["data_dir"] = resolve_data_dir(None if data_dir is None else Path(data_dir))
    if "layout" in given:
        given["layout"] = (base_dir or Path.cwd()) / given["layout"]
    if "limits" in given:
        given["limits"] = Limits(**given["limits"])
    if "schema" in given:
        given["schema"] = _given_schema(given["schema"], base_dir or Path.cwd())
    return ClusterConfig(**given)


def shards_and_replicas(workers: int | None, shards: int | None, replicas: int | None) -> tuple[int, int]:
    """Complete the two numbers from what was given; ``workers = shards * replicas``.

    Without any, there is one shard for each CPU that this process may use, up to two, and one replica for
    each of the pairs: a batch is then matched by two workers at once, and all CPUs are used.

    Raises
    ------
    StartError
        The numbers contradict each other.
    """
    if workers is None:
        if shards is None and replicas is None:
            cpu_count = len(os.sched_getaffinity(0))
            shards = min(2, cpu_count)
            replicas = max(1, cpu_count // shards)
        return shards or 1, replicas or 1
    if shards is None and replicas is None:
        return (2, workers // 2) if workers % 2 == 0 and workers >= 2 else (workers, 1)
    known = (shards or 1) * (replicas or 1)
    if known < 1 or workers < known or workers % known or (shards and replicas and workers != known):
        raise StartError(
            "the number of workers is not shards times replicas",
            seen=f"workers={workers} shards={shards} replicas={replicas}",
            limit="workers = shards * replicas",
            remedy="Give two of the three, or numbers that multiply.",
        )
    return (shards, workers // shards) if shards else (workers // known, known)


def _given_schema(value: Any, base_dir: Path) -> Schema:
    """Return the schema that a table declares, or the JSON file that `value` names."""
    if isinstance(value, dict):
        return _declared(value, "[schema] of the configuration file")
    return read_schema(base_dir / str(value))


def read_schema(path: str | Path) -> Schema:
    """Return the schema of a JSON file.

    Raises
    ------
    StartError
        It cannot be read, or declares something impossible.
    """
    path = Path(path)
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StartError(
            f"the schema file cannot be read: {error}",
            seen=str(path),
            remedy='It is JSON: {"attributes": [{"name": "price", "domain": "float"}]}',
        ) from error
    return _declared(body, str(path))


def _declared(body: Any, place: str) -> Schema:
    from pubsub_cluster.language.errors import CallerError
    from pubsub_cluster.language.schema import Schema

    try:
        return Schema.from_json(body)
    except CallerError as error:
        raise StartError(
            f"{place}: {error.condition}",
            seen=error.seen,
            limit=error.limit,
            remedy=error.remedy or "The format, with examples: docs/configuration.md.",
        ) from error


def _check_table(path: Path, prefix: str, given: Any, kinds: dict[str, str]) -> None:
    if not isinstance(given, dict):
        raise StartError(f"{path}: {prefix.rstrip('.')} is not a table", seen=given)
    for key, value in given.items():
        if key not in kinds:
            raise _unknown_key(path, prefix, key, kinds)
        expected = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}.get(kinds[key])
        wrong_bool = isinstance(value, bool) and kinds[key] != "bool"
        if expected is not None and (wrong_bool or not isinstance(value, expected)):
            raise StartError(
                f"{path}: the value of {prefix}{key} is of another kind", seen=value, limit=kinds[key]
            )


def _unknown_key(path: Path, prefix: str, key: str, known: Iterable[str]) -> StartError:
    near = difflib.get_close_matches(key, list(known), n=1)
    return StartError(
        f"{path}: unknown key {prefix}{key}",
        seen=key,
        limit=sorted(known),
        remedy=f"Did you mean {prefix}{near[0]}?" if near else "Remove it.",
    )
