"""``status``: what a running cluster says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import cluster_options, emit_json, json_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client


@click.command()
@click.option("--prometheus", "as_metrics", is_flag=True, help="Print metrics as Prometheus reads them.")
@cluster_options
@json_option
def status(connect: Callable[[], Client], as_metrics: bool, as_json: bool) -> None:
    """Show the state of a running cluster.

    Subscriptions, generation, batches, counters, and a line for each worker.

    \b
    Example:
      pubsub-cluster status
      pubsub-cluster status --json | jq .generation
      pubsub-cluster status --prometheus > /var/lib/node_exporter/pubsub_cluster.prom
    """
    if as_metrics and as_json:
        raise click.UsageError("--prometheus and --json are two forms of one output: choose one")
    with connect() as client:
        found = client.status()
    if as_metrics:
        from pubsub_cluster.cli.prometheus import exposition

        click.echo(exposition(found), nl=False)
    elif as_json:
        emit_json(found)
    else:
        click.echo(page(found))


def page(found: dict[str, Any]) -> str:
    """Return a status as a page of text; fields that this version does not know are shown as they are."""
    from pubsub_cluster.cli.render import nested, size

    shown = dict(found)
    memory, segments = shown.pop("memory", {}), shown.pop("segments", {})
    if memory:
        shown["memory"] = {name: size(size_bytes) for name, size_bytes in memory.items()}
    if segments:
        shown["shared_memory"] = size(sum(segments.values()))
        shown["segments"] = {name: size(size_bytes) for name, size_bytes in segments.items()}
    return nested(shown)
