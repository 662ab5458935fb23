"""``subscribe``, ``update`` and ``unsubscribe``: single subscriptions from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pubsub_cluster.cli.common import EXIT_ERROR, cluster_options, emit_json, error_text, json_option, note
from pubsub_cluster.cli.lines import read_lines
from pubsub_cluster.cli.render import counted, printable
from pubsub_cluster.language.errors import CallerError, PubSubError
from pubsub_cluster.language.protocol import RETAINED_TOLD, RETAINED_TOLD_MAX
from pubsub_cluster.language.timestamps import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client, Subscription


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


@click.command()
@click.argument("expression")
@click.option("--id", "subscription_id", help="Name of the subscription; without one the cluster gives it.")
@click.option("--owner", help="Who is told about matches (see `listen`).")
@click.option("--valid-from", metavar="INSTANT", help="Matches from this instant on.")
@click.option("--valid-until", metavar="INSTANT", help="Matches before this instant only.")
@click.option("--retained", type=click.IntRange(0, RETAINED_TOLD_MAX), default=RETAINED_TOLD,
              show_default=True, help="Earlier events that are still valid, to print at most.")  # fmt: skip
@cluster_options
@json_option
def subscribe(
    connect: Callable[[], Client],
    expression: str,
    subscription_id: str | None,
    owner: str | None,
    valid_from: str | None,
    valid_until: str | None,
    retained: int,
    as_json: bool,
) -> None:
    """Add a subscription.

    It is durable, and every later event is matched against it, when this command returns. Earlier events that
    match and are still valid (`publish --valid-until`) are printed, one per line. EXPRESSION is in text form,
    or in JSON form when it begins with a brace. Instants are RFC 3339 text or microseconds since the
    epoch. The language is on one page: docs/language.md.

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
            retained=retained,
        )
    _print_made("Subscribed", made, as_json)
    _note_bare_names(expression)


@click.command()
@click.argument("subscription_id", metavar="ID")
@click.argument("expression")
@click.option("--valid-from", metavar="INSTANT", help="Matches from this instant on; `none`: from ever.")
@click.option("--valid-until", metavar="INSTANT", help="Matches before this instant only; `none`: for ever.")
@cluster_options
@json_option
def update(
    connect: Callable[[], Client],
    subscription_id: str,
    expression: str,
    valid_from: str | None,
    valid_until: str | None,
    as_json: bool,
) -> None:
    """Replace the expression of a subscription.

    Every event sees the old or the new expression, never none. Owner and handle stay, and so does each end
    of the validity window that is not given. EXPRESSION and instants are as for `subscribe`.

    \b
    Example:
      pubsub-cluster update dear 'price > 200'
      pubsub-cluster update dear 'price > 200' --valid-until none
    """
    window = {"valid_from": ("--valid-from", valid_from), "valid_until": ("--valid-until", valid_until)}
    given: dict[str, Any] = {
        name: None if text == "none" else parse_instant(option, text)
        for name, (option, text) in window.items()
        if text is not None
    }
    with connect() as client:
        made = client.update(subscription_id, parse_expression(expression), **given)
    _print_made("Updated", made, as_json)
    _note_bare_names(expression)


def _note_bare_names(expression: str) -> None:
    """Say which comparisons are of two attributes: a text without quotes looks the same."""
    from pubsub_cluster.language.text_hints import bare_right_sides
    from pubsub_cluster.language.text_lexer import quoted

    if isinstance(parse_expression(expression), str):
        for left, right in bare_right_sides(expression):
            note(f"Note: {left} is compared with the attribute {right}; for a text write {quoted(right)}.")


def _print_made(done: str, made: Subscription, as_json: bool) -> None:
    if as_json:
        shown = {"id": made.id, "handle": made.handle, "clauses": made.clauses, "never": made.never}
        if made.retained.error is not None:
            shown["retained"] = {"error": made.retained.error.to_dict()}
        elif made.retained.count:
            shown["retained"] = {"count": made.retained.count, "events": made.retained.events}
        emit_json(shown)
        return
    form = f"{made.clauses} clause" + ("" if made.clauses == 1 else "s")
    click.echo(f"{done} {printable(made.id)} (handle {made.handle}, {form}).")
    if made.never:
        note("Note: this subscription can never match any event.")
    if made.retained.error is not None:
        note(error_text(made.retained.error, title="Warning"))
    for told in made.retained.events:
        emit_json(told["event"])
    if made.retained.count:
        events = counted(made.retained.count, "retained event")
        note(f"It matches {events}; the last {len(made.retained.events):,} are shown.")


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--file", type=click.File("rb"), help="File with more ids, one a line; - is standard input.")
@cluster_options
@json_option
def unsubscribe(
    connect: Callable[[], Client], ids: tuple[str, ...], file: BinaryIO | None, as_json: bool
) -> None:
    """Remove subscriptions by their ids.

    Each id is answered for itself: an unknown one does not keep the others, and the exit code is 1 then. A
    file is read to its end before anything is removed.

    \b
    Example:
      pubsub-cluster unsubscribe dear alert-17
      pubsub-cluster list --owner ann | jq -r .id | pubsub-cluster unsubscribe --file -
    """
    if not ids and file is None:
        raise click.UsageError("Name an ID, or give --file.")
    if file is not None:
        ids = (*ids, *read_ids(file))
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
            click.echo(f"Unsubscribed {printable(name)}.")
    for name, error in refused.items():
        note(error_text(error, title=f"Error: {name}"))
    if refused:
        raise SystemExit(EXIT_ERROR)


def read_ids(file: BinaryIO) -> list[str]:
    """Return the ids of a file, one a line, empty lines left out.

    Raises
    ------
    CallerError
        A line is no text.
    EventError
        The file cannot be read to its end.
    """
    found = []
    for number, line in enumerate(read_lines(file), start=1):
        try:
            found.append(line.rstrip(b"\r\n").decode())
        except UnicodeDecodeError as error:
            raise CallerError(
                f"line {number} is not UTF-8: {error.reason} at byte {error.start}",
                seen=repr(line[:40]),
                remedy="Give one id a line; nothing was removed.",
            ) from None
    return [name for name in found if name]
