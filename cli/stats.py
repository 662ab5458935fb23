"""``stats``: how often subscriptions match, and what was sent to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import cluster_options, emit_json, json_option, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client
    from pubsub_cluster.client.operating import StatsKind

KINDS = ("subscription", "owner", "group")


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--top", type=click.IntRange(1, 1_000), default=20, show_default=True,
    help="Without names: so many of those with the highest counts.",
)  # fmt: skip
@cluster_options
@json_option
def stats(
    connect: Callable[[], Client], kind: StatsKind, names: tuple[str, ...], top: int, as_json: bool
) -> None:
    """Show counters of subscriptions, owners or groups since the cluster was started.

    A subscription has the number of its matches and the time of the last one; an owner those of its
    subscriptions, what was sent to it, and the messages to its groups that had nothing for it (wasted
    receipts); a multicast group what was sent to it.

    \b
    Example:
      pubsub-cluster stats subscription --top 5
      pubsub-cluster stats owner ann bob
      pubsub-cluster stats group --json
    """
    wanted: list[str | int] | None = list(names) or None
    if wanted and kind == "group":
        others = [name for name in names if not name.isdecimal()]
        if others:
            raise click.BadParameter(f"groups have numbers, and {others[0]!r} is none.", param_hint="NAME")
        wanted = [int(name) for name in names]
    with connect() as client:
        items = client.stats(kind, wanted, top=top)
    if as_json:
        emit_json(items)
    elif items:
        click.echo(_table(items))
    else:
        note(f"Nothing is counted yet of any such {kind}.")


def _table(items: list[dict[str, Any]]) -> str:
    from pubsub_cluster.cli.instants import instant_text
    from pubsub_cluster.cli.render import label, table, terminal_width

    rows = []
    for item in items:
        shown = dict(item)
        for name in ("handle", "group"):
            if name in shown:
                shown[name] = str(shown[name])  # a name, not an amount
        if shown.get("last_match") is not None:
            shown["last_match"] = instant_text(shown["last_match"])
        rows.append(list(shown.values()))
    return table([label(name) for name in items[0]], rows, width_max=terminal_width())
