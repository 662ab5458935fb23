"""``pipeline build``: a layout folder from files of subscriptions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import EXIT_ERROR, emit_json, json_option, note
from pubsub_cluster.cli.pipeline.common import cores_option, spark_session
from pubsub_cluster.cli.pipeline.stages import Stages
from pubsub_cluster.cli.render import counted, size

if TYPE_CHECKING:
    from pubsub_cluster.shm.layout_folder import LayoutGeneration

REFUSED_SHOWN_MAX = 10
MEBIBYTE = 1 << 20


@click.command()
@click.argument("subscriptions", nargs=-1, required=True)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The layout folder; a further build adds a generation.",
)
@click.option("--schema", "schema_file", help="File with the declared attributes, in JSON.")
@click.option("--owner", help="Owner of the subscriptions that name none.")
@click.option("--events", metavar="PATH", help="Parquet files of events, to estimate probabilities from.")
@click.option(
    "--statistics",
    "statistics_dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of `pipeline statistics`, to estimate them from instead.",
)
@click.option("--parts", type=click.IntRange(1), help="The most parts [default: as --part-mb asks for].")
@click.option(
    "--part-mb",
    type=click.IntRange(1),
    help="About the largest part, in MiB [default: a quarter of this host's memory].",
)
@cores_option
@json_option
def build(
    subscriptions: tuple[str, ...],
    output: Path,
    schema_file: str | None,
    owner: str | None,
    events: str | None,
    statistics_dir: Path | None,
    parts: int | None,
    part_mb: int | None,
    cores: int | None,
    as_json: bool,
) -> None:
    """Build a layout folder, which clusters start from and matching jobs map.

    SUBSCRIPTIONS are files with one subscription a line, as `load` takes them, where the name ends in
    .ndjson, .jsonl, .json or .txt (and maybe .gz), else Parquet files or folders as `pipeline prepare` writes
    them. A line without an id gets one from its bytes. Handles follow the ids, unless a column `handle` gives
    them. What cannot stand is put aside, in Parquet files below the folder, each with its error; the exit
    code is 1 then. The folder has to be one that driver and executors reach by this path.

    \b
    Example:
      pubsub-cluster pipeline build subscriptions.ndjson --output layout
      pubsub-cluster pipeline build prepared/ --events events/ --output layout
      pubsub-cluster pipeline build prepared/ --statistics statistics --output layout
      pubsub-cluster start --layout layout
    """
    from pubsub_cluster.cli.config_file import read_schema
    from pubsub_cluster.language.schema import EMPTY_SCHEMA

    if events is not None and statistics_dir is not None:
        raise click.UsageError("--events and --statistics say the same in two ways: choose one")
    schema = EMPTY_SCHEMA if schema_file is None else read_schema(schema_file)
    with Stages() as stages:
        spark = stages.run("starting Spark", lambda: spark_session(cores))
        from pubsub_cluster.pipeline.build import build as build_layouts
        from pubsub_cluster.pipeline.places import absolute
        from pubsub_cluster.pipeline.subscription_rows import read_subscriptions
        from pubsub_cluster.tuner.messages import STATISTICS_FILE

        made = build_layouts(
            read_subscriptions(spark, subscriptions, owner),
            output,
            schema=schema,
            events=None if events is None else spark.read.parquet(absolute(events)),
            statistics=None if statistics_dir is None else statistics_dir / STATISTICS_FILE,
            parts=parts,
            part_bytes=None if part_mb is None else part_mb * MEBIBYTE,
            tell=stages.say,
        )
    seconds = stages.seconds
    refused = made.facts["refused"]
    if as_json:
        emit_json(facts_of(made, seconds))
    else:
        click.echo(
            f"Built generation {made.generation} of {output} in {seconds:.1f} s: "
            f"{counted(made.subscriptions, 'subscription')} in {counted(len(made.parts), 'part')}, "
            f"{size(made.size_bytes)}."
        )
        for code, count in sorted(refused.items(), key=lambda one: -one[1])[:REFUSED_SHOWN_MAX]:
            note(f"Refused {counted(count, 'row')}: {code}")
        if refused:
            note(f"They are in {made.folder / 'refused'}, each with its error; the others are in the layout.")
        else:
            note(f"Start from it: pubsub-cluster start --layout {output}")
    if refused:
        raise SystemExit(EXIT_ERROR)


def facts_of(made: LayoutGeneration, seconds: float) -> dict[str, Any]:
    """Return what is told of a generation as JSON."""
    return {
        "generation": made.generation,
        "folder": str(made.folder),
        "subscriptions": made.subscriptions,
        "parts": len(made.parts),
        "size_bytes": made.size_bytes,
        "changes_bytes": sum(one.size_bytes for one in made.changes),
        "refused": made.facts["refused"],
        "sampled_events": made.facts["sampled_events"],
        "seconds": round(seconds, 3),
    }
