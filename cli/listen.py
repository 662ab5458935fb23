"""``listen``, ``forget``: the notifications of one owner, as they come or as they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pubsub_cluster.cli.common import EXIT_ERROR, cluster_options, emit_json, json_option, note
from pubsub_cluster.cli.render import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client
    from pubsub_cluster.client.listener import Listener

SILENCE_NOTE = "The connection to the cluster is lost; waiting until it is back. Ctrl-C ends it."
RETURN_NOTE = "The connection to the cluster is back."


@click.command()
@click.argument("owner", required=False)
@click.option("--unmatched", is_flag=True, help="Instead of an owner: events that match nobody.")
@click.option("--count", type=click.IntRange(1), help="End after so many notifications.")
@click.option(
    "--idle", "idle_s", type=click.FloatRange(min=0.0), metavar="SECONDS", help="End after such a silence."
)
@click.option("--durable", metavar="NAME", help="As a durable receiver: what it was not told is kept for it.")
@cluster_options
@json_option
def listen(
    connect: Callable[[], Client],
    owner: str | None,
    unmatched: bool,
    count: int | None,
    idle_s: float | None,
    durable: str | None,
    as_json: bool,
) -> None:
    """Print what an owner is told.

    These are the events that match subscriptions of OWNER, each with the ids and handles of these, until
    Ctrl-C. Notifications that were lost because this reader was too slow are counted and said, never hidden.
    When the cluster falls silent this is said once, and the command waits until it is back, and says so.

    With --unmatched they are the events that no subscription matches, a few thousand a second at most.

    With --durable the cluster keeps what OWNER is told from the first such command on, until a command with
    the same NAME has printed it; `pubsub-cluster forget` ends that.

    \b
    Example:
      pubsub-cluster listen ann
      pubsub-cluster listen ann --json --count 10 | jq '.ids, .event'
      pubsub-cluster listen ann --durable mailer
      pubsub-cluster listen --unmatched
    """
    import orjson

    if (owner is None) != unmatched or (unmatched and durable is not None):
        raise click.UsageError("Name an OWNER, or else give --unmatched (which is never durable).")
    seen_count = 0
    with (
        connect() as client,
        _listener(client, owner, idle_s, durable) as notifications,
    ):
        note(f"Listening for {'events that match nobody' if owner is None else owner}; Ctrl-C ends it.")
        for found in notifications:
            if found.dropped:
                note(f"{counted(found.dropped, 'notification')} lost before this one.")
            if as_json:
                emit_json(
                    {
                        "owner": found.owner,
                        "publisher": found.publisher,
                        "batch_id": found.batch_id,
                        "event_index": found.event_index,
                        "handles": list(found.handles),
                        "ids": list(found.ids),
                        "event": found.event,
                        "sequence": found.sequence,
                        "dropped": found.dropped,
                    }
                )
            else:
                named = zip(found.ids, found.handles, strict=True)
                told = ", ".join(f"{name} (handle {handle})" for name, handle in named)
                event = orjson.dumps(found.event).decode()
                place = f"{found.batch_id}[{found.event_index}]"
                click.echo(printable(f"{place} -> {told or 'nobody'}  {event}"))
            seen_count += 1
            if seen_count == count:
                break
    note(f"{counted(seen_count, 'notification')}.")


def _listener(client: Client, owner: str | None, idle_s: float | None, durable: str | None) -> Listener:
    def on_silence() -> None:
        note(SILENCE_NOTE)

    def on_return() -> None:
        note(RETURN_NOTE)

    if owner is None:
        return client.listen_unmatched(timeout_s=idle_s, on_silence=on_silence, on_return=on_return)
    if durable is None:
        return client.listen(owner, timeout_s=idle_s, on_silence=on_silence, on_return=on_return)
    return client.listen(owner, timeout_s=idle_s, on_silence=on_silence, on_return=on_return, durable=durable)


@click.command()
@click.argument("owner")
@click.argument("name")
@cluster_options
@json_option
@click.pass_context
def forget(ctx: click.Context, connect: Callable[[], Client], owner: str, name: str, as_json: bool) -> None:
    """Forget the durable receiver NAME of OWNER.

    What is kept for it goes with it. The exit code is 1 when there is none.

    \b
    Example:
      pubsub-cluster forget ann mailer
    """
    with connect() as client:
        forgotten = client.forget(owner, name)
    if as_json:
        emit_json({"owner": owner, "durable": name, "forgotten": forgotten})
    elif forgotten:
        click.echo(f"Forgot the durable receiver {name} of {owner}.")
    else:
        note(f"{owner} has no durable receiver {name}.")
    if not forgotten:
        ctx.exit(EXIT_ERROR)
