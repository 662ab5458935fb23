"""``subscribe`` and ``unsubscribe``: single subscriptions from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import EXIT_ERROR, cluster_options, emit_json, error_text, json_option, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client


def parse_expression(text: str) -> Any:
    """Return an expression given on the command line: JSON when it begins with a brace, else text form.

    Raises
    ------
    ExpressionError
        It begins with a brace and is not JSON.
    """
    import msgspec

    from pubsub_cluster.language.errors import ExpressionError

    if not text.lstrip().startswith("{"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ExpressionError(
            f"the expression begins with a brace but is not JSON: {error}",
            seen=text,
            remedy='Correct it, or use the text form: price > 100 AND symbol = "ABC"',
        ) from None


def parse_instant(name: str, text: str | None) -> int | None:
    """Return an instant in microseconds since the epoch: RFC 3339 text, or the number itself.

    Raises
    ------
    WindowError
        It is neither.
    """
    from pubsub_cluster.language.errors import WindowError
    from pubsub_cluster.language.timestamps import timestamp_us

    if text is None:
        return None
    if text.lstrip("-").isdecimal():
        return int(text)
    instant_us = timestamp_us(text)
    if instant_us is None:
        raise WindowError(
            f"{name} is not an instant",
            seen=text,
            limit="RFC 3339 text with an offset, or microseconds since the epoch",
            remedy="Write it like 2026-01-31T12:00:00Z.",
        )
    return instant_us


@click.command()
@click.argument("expression")
@click.option("--id", "subscription_id", help="Name of the subscription; without one the cluster gives it.")
@click.option("--owner", help="Who is told about matches (see `listen`).")
@click.option("--valid-from", metavar="INSTANT", help="Matches from this instant on.")
@click.option("--valid-until", metavar="INSTANT", help="Matches before this instant only.")
@cluster_options
@json_option
def subscribe(
    connect: Callable[[], Client],
    expression: str,
    subscription_id: str | None,
    owner: str | None,
    valid_from: str | None,
    valid_until: str | None,
    as_json: bool,
) -> None:
    """Add a subscription.

    It is durable, and every later event is matched against it, when this command returns. EXPRESSION is
    in text form, or in JSON form when it begins with a brace. Instants are RFC 3339 text or microseconds
    since the epoch. The language is on one page: docs/language.md.

    \b
    Example:
      pubsub-cluster subscribe 'origin = "JFK" AND dest IN ("LAX", "SFO") AND dep_delay > 60' --owner ann
      pubsub-cluster subscribe '{"attr": "price", "op": ">", "value": 100}' --id dear
    """
    with connect() as client:
        made = client.subscribe(
            parse_expression(expression),
            id=subscription_id,
            owner=owner,
            valid_from=parse_instant("--valid-from", valid_from),
            valid_until=parse_instant("--valid-until", valid_until),
        )
    if as_json:
        emit_json({"id": made.id, "handle": made.handle, "clauses": made.clauses, "never": made.never})
        return
    form = f"{made.clauses} clause" + ("" if made.clauses == 1 else "s")
    click.echo(f"Subscribed {made.id} (handle {made.handle}, {form}).")
    if made.never:
        note("Note: this subscription can never match any event.")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@cluster_options
@json_option
def unsubscribe(connect: Callable[[], Client], ids: tuple[str, ...], as_json: bool) -> None:
    """Remove subscriptions by their ids.

    Each id is answered for itself: an unknown one does not keep the others.

    \b
    Example:
      pubsub-cluster unsubscribe dear alert-17
    """
    from pubsub_cluster.language.errors import PubSubError

    with connect() as client:
        results = client.unsubscribe_many(list(ids))
    refused = {
        name: found for name, found in zip(ids, results, strict=True) if isinstance(found, PubSubError)
    }
    removed = [name for name in ids if name not in refused]
    if as_json:
        emit_json({"removed": removed, "refused": {name: error.to_dict() for name, error in refused.items()}})
    else:
        for name in removed:
            click.echo(f"Unsubscribed {name}.")
    for name, error in refused.items():
        note(error_text(error, title=f"Error: {name}"))
    if refused:
        raise SystemExit(EXIT_ERROR)
