"""``pipeline statistics``: what values the events in Parquet files have, and how often."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import EXIT_ERROR, emit_json, json_option, note
from pubsub_cluster.cli.instants import instant_text
from pubsub_cluster.cli.pipeline.common import cores_option, spark_session, tell_rejects
from pubsub_cluster.cli.pipeline.stages import Stages
from pubsub_cluster.cli.render import counted, number, table, terminal_width

if TYPE_CHECKING:
    from pubsub_cluster.language.schema import Schema


@click.command()
@click.argument("events", nargs=-1, required=True, metavar="EVENTS...")
@click.option("--output", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the statistics; those that are there are replaced.")  # fmt: skip
@click.option("--schema", "schema_file", type=click.Path(path_type=Path, dir_okay=False),
              help="File with the declared attributes, in JSON: that of the cluster.")  # fmt: skip
@click.option("--event-id", default="event_id", show_default=True,
              help="Column that names events, if there is one; it is no attribute.")  # fmt: skip
@cores_option
@json_option
@click.pass_context
def statistics(
    ctx: click.Context,
    events: tuple[str, ...],
    output: Path,
    schema_file: Path | None,
    event_id: str,
    cores: int | None,
    as_json: bool,
) -> None:
    """Count presence, values and events as a whole, in one pass, for the tuner.

    EVENTS are Parquet files, or folders with *.parquet: a column per attribute. Attributes with up to 4,096
    distinct values are counted exactly; for others a uniform sample of the events stands, and the error that
    shares have by it is said. `tune import-statistics` and `pipeline build` take the folder. What cannot be
    counted is told with file, rows and reason; the exit code is 1 when there is any.

    \b
    Example:
      pubsub-cluster pipeline statistics events/ --output statistics
      pubsub-cluster tune import-statistics statistics
    """
    from pubsub_cluster.cli.config_file import read_schema
    from pubsub_cluster.language.schema import EMPTY_SCHEMA

    schema = EMPTY_SCHEMA if schema_file is None else read_schema(schema_file)
    with Stages() as stages:
        session = stages.run("starting Spark", lambda: spark_session(cores))
        from pubsub_cluster.pipeline.statistics import count_files, summarise, write_statistics

        stages.say("counting")
        found = count_files(session, list(events), schema, event_id=event_id)
        path = write_statistics(output, found, schema, events)
    seconds = stages.seconds
    lines = [in_words(line, schema) for line in summarise(found.frequencies)]
    count = found.frequencies.event_count
    if as_json:
        facts = {"events": count, "output": str(path), "seconds": seconds}
        emit_json({**facts, "attributes": lines, "rejects": found.rejects})
    else:
        click.echo(page(lines))
        note(f"{counted(count, 'event')} counted in {seconds:.1f} s: {path}")
    tell_rejects(found.rejects)
    if found.rejects:
        ctx.exit(EXIT_ERROR)


def in_words(line: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Return a line of the summary with values as their publishers write them."""
    declared = schema.get(line["attribute"])
    if declared is None:
        return line
    if declared.domain == "timestamp":
        return {**line, "top": [[instant_text(value), share] for value, share in line["top"]]}
    if declared.values:
        return {**line, "top": [[declared.declared_text(value), share] for value, share in line["top"]]}
    return line


def page(lines: list[dict[str, Any]]) -> str:
    """Return the summary as a table."""
    headers = ["attribute", "present", "kind", "distinct", "error", "most frequent"]
    rows = [
        [
            line["attribute"],
            percent(line["present"]),
            ", ".join(line["kinds"]),
            number(line["distinct"]) if line["exact"] else f"about {number(line['distinct'])}",
            "exact" if line["exact"] else f"+- {percent(line['error'])}",
            ", ".join(f"{shown(value)} {percent(share)}" for value, share in line["top"]),
        ]
        for line in lines
    ]
    return table(headers, rows, "  ", terminal_width())


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.3g} %"


def shown(value: Any) -> str:
    """Return a value: texts in quotes, booleans as JSON has them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, str) else str(value)
