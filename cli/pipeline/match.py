"""``pipeline match``: the events in Parquet files against a built catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pubsub_cluster.cli.common import EXIT_ERROR, emit_json, json_option, note
from pubsub_cluster.cli.pipeline.common import cores_option, spark_session, tell_rejects
from pubsub_cluster.cli.pipeline.stages import Stages
from pubsub_cluster.cli.render import counted
from pubsub_cluster.language.timestamps import parse_instant

MATCHES_FOLDER, REJECTS_FOLDER = "outcome=match", "outcome=reject"


@click.command()
@click.argument("events", nargs=-1, required=True, metavar="EVENTS...")
@click.option("--layout", "layout_dir", required=True, type=click.Path(path_type=Path, exists=True),
              help="Folder that `pipeline build` has written.")  # fmt: skip
@click.option(
    "--output", type=click.Path(path_type=Path), help="Folder for the matches, as Parquet; replaced."
)
@click.option("--event-id", default="event_id", show_default=True,
              help="Column that names events; '' to number them by file and row.")  # fmt: skip
@click.option("--ids", is_flag=True, help="Add the subscriptions' text ids.")
@click.option("--owners", is_flag=True, help="Add the subscriptions' owners.")
@click.option(
    "--at", metavar="INSTANT", help="Time of acceptance of all events, for validity [default: now]."
)
@click.option("--room", "room_mib", type=click.IntRange(1), metavar="MIB",
              help="Memory of a host for mapped layouts [default: half].")  # fmt: skip
@click.option("--explain", "only_explain", is_flag=True, help="Say how it would be done, and stop.")
@cores_option
@json_option
@click.pass_context
def match(
    ctx: click.Context,
    events: tuple[str, ...],
    layout_dir: Path,
    output: Path | None,
    event_id: str,
    ids: bool,
    owners: bool,
    at: str | None,
    room_mib: int | None,
    only_explain: bool,
    cores: int | None,
    as_json: bool,
) -> None:
    """Match events in Parquet files against a built catalogue.

    EVENTS are files, or folders with *.parquet: a column per attribute, and one that names the event. The
    result is a table (event_id, handle) as Parquet below OUTPUT, and beside it what could not be matched,
    with file, number of rows and reason; the exit code is 1 when there is any.

    \b
    Example:
      pubsub-cluster pipeline match events/ --layout layout --output matches
      pubsub-cluster pipeline match 2013-*.parquet --layout layout --output matches --owners --json
    """
    if only_explain:
        _explain(layout_dir, room_mib, as_json)
        return
    if output is None:
        raise click.UsageError("--output says where the matches go (or ask with --explain only)")
    options: dict[str, Any] = {"ids": ids, "owners": owners, "room_bytes": _bytes(room_mib)}
    options |= {"event_id": event_id or None, "at_us": parse_instant("--at", at)}
    with Stages() as stages:
        session = stages.run("starting Spark", lambda: spark_session(cores))
        from pubsub_cluster.pipeline.match import match_files
        from pubsub_cluster.pipeline.results import write_result

        stages.say("matching")
        summary = write_result(match_files(session, list(events), layout_dir, **options), output)
    seconds = stages.seconds
    if as_json:
        emit_json({**summary, "output": str(output), "seconds": seconds})
    else:
        click.echo(f"{counted(summary['matches'], 'match', 'matches')} in {output / MATCHES_FOLDER}")
        note(f"{seconds:.1f} s.")
    tell_rejects(summary["rejects"])
    if summary["rejects"]:
        note(f"All of them are in {output / REJECTS_FOLDER}")
        ctx.exit(EXIT_ERROR)


def _explain(layout_dir: Path, room_mib: int | None, as_json: bool) -> None:
    from pubsub_cluster.pipeline.plan import choose_plan
    from pubsub_cluster.shm.layout_folder import open_folder

    generation = open_folder(layout_dir)
    plan = choose_plan(generation, _bytes(room_mib))
    if as_json:
        emit_json({**plan._asdict(), "generation": generation.generation, "plan": plan.explain()})
        return
    click.echo(f"generation {generation.generation}, {generation.subscriptions:,} subscriptions")
    click.echo(plan.explain())


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib << 20
