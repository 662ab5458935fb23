"""What the commands of ``pipeline`` share: the session, and how rejects are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from pubsub_cluster.cli.common import note

REJECTS_SHOWN_MAX = 20
R = TypeVar("R")


def cores_option(command: Callable[..., R]) -> Callable[..., R]:
    """Add ``--cores``; the command gets `cores`."""
    return click.option(
        "--cores", type=click.IntRange(1), help="Tasks at a time of a local session [default: all cores]."
    )(command)


def spark_session(cores: int | None) -> Any:
    """Return the session that a command runs in.

    Raises
    ------
    StartError
        Spark is not installed, or there is no Java.
    """
    from pubsub_cluster.language.errors import StartError

    try:
        from pubsub_cluster.pipeline.session import get_session
    except ImportError as error:
        raise StartError(
            f"the pipeline needs Spark: {error}",
            remedy="Install the extra: pip install 'pubsub-cluster[spark]'",
        ) from None
    return get_session(cores)


def tell_rejects(rejects: Sequence[Mapping[str, Any]]) -> None:
    """Say what could not be used, the first lines of it: file, rows, the first of them, reason."""
    for told in rejects[:REJECTS_SHOWN_MAX]:
        place = told["file"] or "the events"
        first = f", first {told['first']}" if told["first"] is not None else ""
        note(f"Rejected: {place}: {told['rows']:,} rows{first}: {told['reason']} ({told['seen']})")
