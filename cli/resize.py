"""``resize``: more or fewer workers while the cluster works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import at_the_cluster, cluster_options, emit_json, json_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client


@click.command()
@click.option(
    "--shards", type=click.IntRange(1), help="Parts of the catalogue that one batch visits at once."
)
@click.option("--replicas", type=click.IntRange(1), help="Groups of shards that batches are spread over.")
@click.option("--wait/--no-wait", default=True, help="Wait until it is done [default: wait].")
@cluster_options
@json_option
def resize(
    connect: Callable[[], Client], shards: int | None, replicas: int | None, wait: bool, as_json: bool
) -> None:
    """Change the number of workers; what is not given stays as it is.

    No batch is lost or answered twice: new workers start beside the old ones and take over when they are
    ready. The new size lasts until the cluster stops; `start --shards --replicas`, or the configuration file,
    say what it starts with.

    \b
    Example:
      pubsub-cluster resize --shards 2 --replicas 3
      pubsub-cluster resize --replicas 1
    """
    if shards is None and replicas is None:
        raise click.UsageError("Say what to change: --shards, --replicas or both.")
    with connect() as client, at_the_cluster("resize"):
        found = client.resize(shards, replicas, wait=wait)
    if as_json:
        names = ("shards", "replicas", "resizing", "leaving", "workers")
        emit_json({name: found[name] for name in names})
    else:
        click.echo(sentence(found))


def sentence(found: dict[str, Any]) -> str:
    """Return a status after a resize as a sentence."""
    from pubsub_cluster.cli.render import counted

    shape = _shape(found)
    if found["resizing"] is not None:
        return f"{shape} go on until {_shape(found['resizing'])} are ready."
    workers = found["workers"]
    ready = sum(bool(worker["ready"]) for worker in workers)
    return f"{shape}: {ready} of {counted(len(workers), 'worker')} ready."


def _shape(found: dict[str, Any]) -> str:
    from pubsub_cluster.cli.render import counted

    return f"{counted(found['shards'], 'shard')} x {counted(found['replicas'], 'replica')}"
