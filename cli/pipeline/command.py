"""``pipeline``: the group, and what its commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

R = TypeVar("R")


@click.group()
def pipeline() -> None:
    """Prepare, count, build and match on Spark.

    Runs on this machine with no cluster of any kind, or wherever `spark-submit` or SPARK_REMOTE says.

    \b
    Example:
      pubsub-cluster pipeline build subscriptions.ndjson --output layout
      pubsub-cluster pipeline match events/ --layout layout --output matches
    """


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
