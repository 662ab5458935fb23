"""``status``: what a running cluster says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import cluster_options, emit_json, json_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client


@click.command()
@cluster_options
@json_option
def status(connect: Callable[[], Client], as_json: bool) -> None:
    """Show the state of a running cluster.

    Subscriptions, generation, batches, counters, and a line for each worker.

    \b
    Example:
      pubsub-cluster status
      pubsub-cluster status --json | jq .generation
    """
    with connect() as client:
        found = client.status()
    if as_json:
        emit_json(found)
    else:
        click.echo(page(found))


def page(found: dict[str, Any]) -> str:
    """Return a status as a page of text; fields that this version does not know are shown as they are."""
    from pubsub_cluster.cli.render import nested, size

    shown = dict(found)
    segments = shown.pop("segments", {})
    if segments:
        shown["shared_memory"] = size(sum(segments.values()))
        shown["segments"] = {name: size(size_bytes) for name, size_bytes in segments.items()}
    return nested(shown)
