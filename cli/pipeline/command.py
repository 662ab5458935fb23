"""``pipeline``: the group, and what its commands share."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

REDRAW_S = 0.5
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


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that a job goes on, and for how long."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    begin_s = time.monotonic()

    def draw() -> None:
        while not done.wait(REDRAW_S):
            sys.stderr.write(f"\r  {what}: {time.monotonic() - begin_s:.0f} s ")
            sys.stderr.flush()

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


def _commands() -> None:
    """Enter the commands, which need what is above."""
    from pubsub_cluster.cli.pipeline.build import build
    from pubsub_cluster.cli.pipeline.match import match
    from pubsub_cluster.cli.pipeline.prepare import prepare
    from pubsub_cluster.cli.pipeline.statistics import statistics

    for command in (build, match, prepare, statistics):
        pipeline.add_command(command)


_commands()
