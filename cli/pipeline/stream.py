"""``pipeline stream``: the events in files that arrive in a folder, against a built catalogue."""

from __future__ import annotations

import contextlib
import logging
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import EXIT_ERROR, emit_json, json_option, note
from pubsub_cluster.cli.pipeline.common import cores_option, spark_session, tell_rejects
from pubsub_cluster.cli.pipeline.stages import Stages
from pubsub_cluster.cli.render import counted

if TYPE_CHECKING:
    from pubsub_cluster.pipeline.stream_records import BatchRecord, FinishedBatches

POLL_S = 0.2
_RAISED = re.compile(r"^(?:Caused by: )?[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)
"""Of the lines that Spark makes of Python's traceback and Java's, the last is what happened first."""


@click.command()
@click.argument("events", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="EVENTS_DIR")
@click.option("--layout", "layout_dir", required=True, type=click.Path(path_type=Path, exists=True),
              help="Folder that `pipeline build` writes; every micro-batch takes the newest.")  # fmt: skip
@click.option("--output", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the matches, as Parquet.")  # fmt: skip
@click.option("--checkpoint", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Folder that remembers how far the stream has come; of this output alone.")  # fmt: skip
@click.option("--format", "kind", type=click.Choice(["parquet", "json"]), default="parquet",
              show_default=True, help="Of the files; json: an object per line.")  # fmt: skip
@click.option("--event-id", default="event_id", show_default=True, help="Column that names events.")
@click.option("--ids", is_flag=True, help="Add the subscriptions' text ids.")
@click.option("--owners", is_flag=True, help="Add the subscriptions' owners.")
@click.option(
    "--files", "files_max", type=click.IntRange(1), help="Files of a micro-batch, at most [default: all]."
)
@click.option("--every", "every_s", type=click.FloatRange(min=0), default=1.0, show_default=True,
              metavar="SECONDS", help="From one micro-batch to the next.")  # fmt: skip
@click.option("--once", is_flag=True, help="End when the files that are there are matched.")
@cores_option
@json_option
@click.pass_context
def stream(
    ctx: click.Context,
    events: Path,
    layout_dir: Path,
    output: Path,
    checkpoint: Path,
    kind: str,
    event_id: str,
    ids: bool,
    owners: bool,
    files_max: int | None,
    every_s: float,
    once: bool,
    cores: int | None,
    as_json: bool,
) -> None:
    """Match events in files as they arrive in a folder.

    Files have to appear in EVENTS_DIR complete; one that cannot be read is told with its name and reason, and
    the others are matched. What has come is matched in micro-batches, each on one generation of the layout,
    and a line is printed for each. OUTPUT has every match once, also when the command is killed and started
    again with the same checkpoint. Ctrl-C ends it; with --once the exit code is 1 when anything was rejected.

    \b
    Example:
      pubsub-cluster pipeline stream incoming/ --layout layout --output matches --checkpoint checkpoint
      pubsub-cluster pipeline stream incoming/ --layout layout --output matches --checkpoint checkpoint --once
    """
    with Stages() as stages:
        session = stages.run("starting Spark", lambda: spark_session(cores))
        from pubsub_cluster.pipeline.stream import arriving_files, match_stream
        from pubsub_cluster.pipeline.stream_records import FinishedBatches

        finished = FinishedBatches(checkpoint)
        stages.say("starting the stream")
        arriving, of_files = arriving_files(
            session, events, kind=kind, event_id=event_id, files_max=files_max
        )
        options: dict[str, Any] = {"ids": ids, "owners": owners, "once": once, **of_files}
        options["every"] = f"{round(every_s * 1_000)} milliseconds"
        query = match_stream(arriving, layout_dir, output, checkpoint, **options)
    if not once:
        note(f"Matching what arrives in {events}; Ctrl-C ends it.")
    try:
        with _interruptible() as interrupted:
            batches, has_rejects = _follow(query, finished, interrupted, as_json)
    finally:
        query.stop()
    if interrupted.is_set():
        raise KeyboardInterrupt
    note(f"{counted(batches, 'micro-batch', 'micro-batches')} in {output}")
    if has_rejects:
        note(f"All that was rejected is in {output}/*/outcome=reject")
        ctx.exit(EXIT_ERROR)


@contextlib.contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Take note of Ctrl-C: Spark's own handler would speak to the JVM in the middle of what is said to it."""
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _follow(
    query: Any, finished: FinishedBatches, interrupted: threading.Event, as_json: bool
) -> tuple[int, bool]:
    """Print what is finished until the query ends; return how many micro-batches, and if any has rejects."""
    from pubsub_cluster.language.errors import PubSubError
    from pubsub_cluster.pipeline.stream import QueryFailed

    logging.getLogger("py4j").addHandler(logging.NullHandler())  # it would print the traceback as well
    logging.getLogger("pubsub_cluster.pipeline").addHandler(logging.NullHandler())  # told here
    batches, has_rejects = 0, False
    ended = False
    while not ended and not interrupted.is_set():
        try:
            ended = query.awaitTermination(POLL_S)
        except QueryFailed as error:
            raised = _RAISED.findall(str(error))
            raise PubSubError(
                "the stream has ended",
                seen=raised[-1] if raised else str(error),
                remedy="Started again with the same checkpoint it goes on where it was.",
            ) from None
        finally:
            for record in finished.take():
                batches += 1
                has_rejects |= bool(record.rejects)
                _print(record, as_json)
    return batches, has_rejects


def _print(record: BatchRecord, as_json: bool) -> None:
    tell_rejects(record.rejects)
    if as_json:
        emit_json(record._asdict())
        return
    rejected = f", {record.rejected_rows:,} rejected" if record.rejected_rows else ""
    found = f"{counted(record.events, 'event')}{rejected}, {counted(record.matches, 'match', 'matches')}"
    click.echo(f"{record.batch_id}: {found}, generation {record.generation}, {record.seconds:.1f} s")
