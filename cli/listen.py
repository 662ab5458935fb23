"""``listen``: the notifications of one owner, as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pubsub_cluster.cli.common import cluster_options, emit_json, json_option, note
from pubsub_cluster.cli.render import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client

SILENCE_NOTE = "The connection to the cluster is lost; waiting until it is back. Ctrl-C ends it."


@click.command()
@click.argument("owner")
@click.option("--count", type=click.IntRange(1), help="End after so many notifications.")
@click.option(
    "--idle", "idle_s", type=click.FloatRange(min=0.0), metavar="SECONDS", help="End after such a silence."
)
@cluster_options
@json_option
def listen(
    connect: Callable[[], Client], owner: str, count: int | None, idle_s: float | None, as_json: bool
) -> None:
    """Print what an owner is told.

    These are the events that match subscriptions of OWNER, until Ctrl-C. Notifications that were lost
    because this reader was too slow are counted and said, never hidden. When the cluster falls silent this
    is said once, and the command waits until it is back.

    \b
    Example:
      pubsub-cluster listen ann
      pubsub-cluster listen ann --json --count 10 | jq .event
    """
    import orjson

    seen_count = dropped_count = 0
    with (
        connect() as client,
        client.listen(owner, timeout_s=idle_s, on_silence=lambda: note(SILENCE_NOTE)) as notifications,
    ):
        note(f"Listening for {owner}; Ctrl-C ends it.")
        for found in notifications:
            if found.dropped > dropped_count:
                note(f"{found.dropped - dropped_count:,} notifications were lost before this one.")
                dropped_count = found.dropped
            if as_json:
                emit_json(
                    {
                        "owner": found.owner,
                        "publisher": found.publisher,
                        "batch_id": found.batch_id,
                        "event_index": found.event_index,
                        "handles": list(found.handles),
                        "event": found.event,
                        "dropped": found.dropped,
                    }
                )
            else:
                handles = ", ".join(str(handle) for handle in found.handles)
                event = orjson.dumps(found.event).decode()
                click.echo(f"{found.batch_id}[{found.event_index}] -> {handles}  {event}")
            seen_count += 1
            if seen_count == count:
                break
    note(f"{counted(seen_count, 'notification')}.")
