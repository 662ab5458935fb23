"""``backup``, ``restore``, ``verify``: what a running cluster holds for good."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import (
    EXIT_ERROR,
    at_the_cluster,
    cluster_options,
    emit_json,
    json_option,
    note,
)
from pubsub_cluster.cli.render import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client

FILE = click.Path(path_type=Path, dir_okay=False)
WAIT_S_MAX = 3_600.0


def _named(ctx: click.Context, _: click.Parameter, file: Path) -> Path:
    """Refuse what stands for a pipe elsewhere: a file of that name would be made."""
    if str(file) == "-":
        raise click.BadParameter("'-' is no file: the cluster itself reads and writes it. Give it a name.")
    return file


@click.command()
@click.argument("file", type=FILE, callback=_named)
@cluster_options
@json_option
def backup(connect: Callable[[], Client], file: Path, as_json: bool) -> None:
    """Write all subscriptions of a running cluster to FILE.

    The backup is of one version of the catalogue, however much is changed meanwhile. FILE is on the cluster's
    machine, complete when the command returns, and replaced only then.

    \b
    Example:
      pubsub-cluster backup /var/backups/subscriptions.packed
    """
    with connect() as client, at_the_cluster("backup"):
        found = client.backup(file, timeout_s=WAIT_S_MAX)
    _tell(found, "Backed up", file, as_json)


@click.command()
@click.argument("file", type=FILE, callback=_named)
@click.option("--yes", is_flag=True, help="Do not ask.")
@cluster_options
@json_option
def restore(connect: Callable[[], Client], file: Path, yes: bool, as_json: bool) -> None:
    """Replace all subscriptions of a running cluster by those of FILE.

    Subscriptions that are not in the backup are gone, those that are have their ids, handles, owners,
    windows and expressions from it. FILE is checked first: when it is refused, nothing is changed.
    The cluster begins another life and is away for some seconds; clients wait, and send again.

    \b
    Example:
      pubsub-cluster restore /var/backups/subscriptions.packed --yes
    """
    if not yes and not as_json:
        _confirm()
    with connect() as client, at_the_cluster("restore"):
        found = client.restore(file, timeout_s=WAIT_S_MAX)
    _tell(found, "Restored", file, as_json)


@click.command()
@click.option(
    "--sample", type=click.IntRange(min=0), help="Subscriptions compared one by one [default: 1000]."
)
@cluster_options
@json_option
@click.pass_context
def verify(ctx: click.Context, connect: Callable[[], Client], sample: int | None, as_json: bool) -> None:
    """Compare what is durable, the catalogue in memory, and the answers of the layout.

    Ids, handles and owners of all subscriptions; expressions of a sample, and what the layout answers for
    events made from them against a plain evaluation. Prints one line of counts; exit code 1 on a difference.

    \b
    Example:
      pubsub-cluster verify
      pubsub-cluster verify --sample 100000 --json
    """
    with connect() as client, at_the_cluster("verification"):
        found = client.verify(sample, timeout_s=WAIT_S_MAX)
    if as_json:
        emit_json(found)
    else:
        click.echo(
            f"{counted(found['in_store'], 'subscription')} in the store, {found['in_catalogue']:,} in the "
            f"catalogue, {found['in_layout']:,} of them in the layout; {found['compared']:,} compared, "
            f"{counted(found['events'], 'event')} with {counted(found['matches'], 'match', 'matches')}: "
            f"{counted(found['differences'], 'difference')}"
        )
        for line in found["examples"]:
            note(f"  {line}")
    if found["differences"]:
        ctx.exit(EXIT_ERROR)


def _confirm() -> None:
    """Ask a person; without one, say how a script goes on."""
    try:
        is_wanted = click.confirm("Replace all subscriptions of the cluster?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError("nobody is there to ask: give --yes") from None
    if not is_wanted:
        raise click.Abort


def _tell(found: dict[str, Any], verb: str, file: Path, as_json: bool) -> None:
    if as_json:
        emit_json({"file": str(file.absolute()), **found})
        return
    many = counted(found["subscriptions"], "subscription")
    click.echo(f"{verb} {many}, version {found['version']:,}: {file}")
