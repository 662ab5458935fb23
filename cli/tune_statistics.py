"""``tune import-statistics``: tables that are chosen by the statistics of many events, counted elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import cluster_options, emit_json, json_option
from pubsub_cluster.cli.instants import instant_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client


@click.command("import-statistics")
@click.argument("folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--clear", is_flag=True, help="Choose tables by a sample of the events that come, again.")
@cluster_options
@json_option
def import_statistics(connect: Callable[[], Client], folder: Path | None, clear: bool, as_json: bool) -> None:
    """Choose tables by the statistics in DIR, which `pipeline statistics` has counted.

    They take the place of the cluster's own sample until `--clear`, after a restart too; they are copied into
    the data directory. A new generation is built with them.

    \b
    Example:
      pubsub-cluster tune import-statistics statistics
      pubsub-cluster tune import-statistics --clear
    """
    if clear == (folder is not None):
        raise click.UsageError("give either a folder of statistics or --clear")
    with connect() as client:
        found = None if folder is None else client.tune_import_statistics(folder)
        if found is None:
            client.tune_clear_statistics()
    if as_json:
        emit_json({"statistics": found})
    else:
        click.echo(f"Tables are chosen by {statistics_in_words(found)}; a new generation is built.")


def statistics_in_words(found: dict[str, Any] | None) -> str:
    """Return where the tuner's statistics come from."""
    from pubsub_cluster.cli.render import counted

    if found is None:
        return "a sample of the events that come"
    since = instant_text(found["imported_us"])
    return f"statistics of {counted(found['events'], 'event')}, imported from {found['source']} at {since}"
