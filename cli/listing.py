"""``list``: subscriptions as lines that ``load`` takes back.

Each subscription is told as it is at one moment: ids come page by page, and what they stand for is asked for
some of them at a time, so that a catalogue may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import EXIT_ERROR, cluster_options, emit_lines, error_text, json_option, note
from pubsub_cluster.language.errors import LimitError, PubSubError, UnknownIdError
from pubsub_cluster.language.protocol import DESCRIBED_EXPRESSIONS_MAX
from pubsub_cluster.language.subscription_lines import OPTIONAL_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client

LINE_KEYS = ("id", "owner", "expr", *OPTIONAL_KEYS[2:])


@click.command("list")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--owner", help="Those of this owner alone.")
@cluster_options
@json_option
def list_(connect: Callable[[], Client], ids: tuple[str, ...], owner: str | None, as_json: bool) -> None:
    """Print subscriptions, one a line.

    All of them, the oldest first, or those with the given ids. A line is an object as `load` takes it, with
    or without --json: id, owner, expr as its owner wrote it, valid_from and valid_until (microseconds since
    the epoch), metadata, without those that it has not. An unknown id is said on standard error, with --json
    also in an object with "id" and "error"; the exit code is 1 then.

    What is changed meanwhile is told as it was before or after; `backup` is of one moment.

    \b
    Example:
      pubsub-cluster list --owner ann
      pubsub-cluster list late alert-17 | jq .expr
      pubsub-cluster list > all.ndjson && pubsub-cluster load all.ndjson --data ./other
    """
    is_complete = True
    with connect() as client:
        asked = ids or (listed.id for listed in client.subscriptions())
        for found in described(client, asked):
            lines = []
            for name, told in found:
                if not isinstance(told, PubSubError):
                    if owner is None or told["owner"] == owner:
                        lines.append(line_of(told))
                elif ids or not isinstance(told, UnknownIdError):  # else it was removed since it was listed
                    is_complete = False
                    note(error_text(told, title=f"Error: {name}"))
                    if as_json:
                        lines.append({"id": name, "error": told.to_dict()})
            emit_lines(lines)
    if not is_complete:
        raise SystemExit(EXIT_ERROR)


def described(client: Client, ids: Iterable[str]) -> Iterator[list[tuple[str, dict[str, Any] | PubSubError]]]:
    """Yield ids with what the cluster knows of them, as many as it tells at a time."""
    coming = iter(ids)
    while some := list(islice(coming, DESCRIBED_EXPRESSIONS_MAX)):
        results = client.describe_many(some, expressions=True)
        for i, result in enumerate(results):
            if isinstance(result, LimitError):  # no room beside the others; alone, each fits
                results[i] = client.describe_many([some[i]], expressions=True)[0]
        yield list(zip(some, results, strict=True))


def line_of(told: dict[str, Any]) -> dict[str, Any]:
    """Return a subscription as a line has it: without its handle, and without what is not set."""
    return {key: told[key] for key in LINE_KEYS if told[key] is not None}
