"""``tune``: how the catalogue is laid out, and a new layout on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import cluster_options, emit_json, json_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client

HISTORY_SHOWN = 8


@click.group()
def tune() -> None:
    """Show the layout, or build a new one.

    A layout is one immutable, complete index of the subscriptions; its number is its generation. New
    layouts are built aside and swapped in between two batches.

    \b
    Example:
      pubsub-cluster tune show
      pubsub-cluster tune now
    """


@tune.command()
@cluster_options
@json_option
def show(connect: Callable[[], Client], as_json: bool) -> None:
    """Show the current generation and what is not in it yet.

    \b
    Example:
      pubsub-cluster tune show --json
    """
    with connect() as client:
        _print(client.tune_show(), as_json)


@tune.command()
@cluster_options
@json_option
def now(connect: Callable[[], Client], as_json: bool) -> None:
    """Have a new generation built for the current subscriptions and events.

    \b
    Example:
      pubsub-cluster tune now --timeout 60
    """
    with connect() as client:
        _print(client.tune_now(), as_json)


def _print(found: dict[str, Any], as_json: bool) -> None:
    from pubsub_cluster.cli.render import nested

    if as_json:
        emit_json(found)
    else:
        click.echo(
            nested({**found, "history": found["history"][-HISTORY_SHOWN:]} if "history" in found else found)
        )
