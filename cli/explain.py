"""``explain``: why a rule holds on an event, or does not, and which rules were near."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import emit_json, json_option, note
from pubsub_cluster.cli.match import read_rules, renames, rules_options
from pubsub_cluster.cli.render import counted

if TYPE_CHECKING:
    from pubsub_cluster.language.explain import Explained
    from pubsub_cluster.language.naive import Values
    from pubsub_cluster.logs.detector import EventForm
    from pubsub_cluster.logs.rules import RuleBook

MISSED_SHOWN_MAX = 4
SUGGESTIONS_MAX = 5


@click.command()
@click.argument("rule", required=False)
@click.option("--event", "event_file", required=True, metavar="FILE",
              help="File with the event, as for `match`; - is standard input.")  # fmt: skip
@click.option("--line", type=click.IntRange(1), help="Line of the event [default: the first event].")
@click.option("--member", help="File within an archive of several.")
@click.option("--rules", "rule_paths", multiple=True, metavar="PATH",
              type=click.Path(path_type=Path, exists=True),
              help="Where RULE is looked up: as for `match`.")  # fmt: skip
@click.option("--nearest", "nearest_count", type=click.IntRange(1), metavar="N",
              help="List the N rules that missed the event by the fewest predicates.")  # fmt: skip
@click.option("--full", is_flag=True, help="Show all branches of long lists.")
@rules_options
@json_option
def explain(
    rule: str | None,
    event_file: str,
    line: int | None,
    member: str | None,
    rule_paths: tuple[Path, ...],
    nearest_count: int | None,
    full: bool,
    maps: tuple[str, ...],
    map_file: Path | None,
    logsources_file: Path | None,
    as_json: bool,
) -> None:
    """Show why a rule holds on an event, or why not.

    RULE is the id or the title of a rule in --rules, or an expression in text or JSON form. The answer is the
    tree of the expression: + marks what holds, - what does not, and each predicate is followed by what the
    event has. With --nearest, also the rules that missed the event by the fewest predicates; RULE may then be
    left out.

    \b
    Example:
      pubsub-cluster explain 'price > 100 AND symbol = "ABC"' --event quotes.ndjson
      pubsub-cluster explain --rules rules.zip 'Mimikatz Use' --event logs.zip --line 5241
      pubsub-cluster explain --rules rules.zip --nearest 10 --event logs.zip --line 5241
    """
    from pubsub_cluster.logs.detector import EventForm

    if rule is None and nearest_count is None:
        raise click.UsageError("give a RULE, or --nearest N, or both")
    if nearest_count is not None and not rule_paths:
        raise click.UsageError("--nearest looks through rules: give --rules PATH")
    renamed = renames(maps, map_file)
    book, form = None, EventForm(None, renamed)
    if rule_paths:
        book, table = read_rules(rule_paths, logsources_file)
        form = book.form(renamed, table)
    values, number = read_event(form, event_file, line, member)
    result: dict[str, Any] = {"line": number}
    if rule is not None:
        result |= _explain_one(rule, book, values, full, as_json)
    if nearest_count is not None and book is not None:
        result["nearest"] = _nearest(book, values, nearest_count, as_json)
    if as_json:
        emit_json(result)


def read_event(form: EventForm, source: str, line: int | None, member: str | None) -> tuple[Values, int]:
    """Return the canonical values of one event of a file, and the number of its line.

    Raises
    ------
    EventError
        There is no such line, or it is no event.
    """
    from pubsub_cluster.language.errors import EventError
    from pubsub_cluster.logs.files import BadLine, read_blocks

    def on_bad(bad: BadLine) -> None:
        raise bad.error

    last = 0
    for block in read_blocks([source], on_bad):
        if member is not None and block.file != member:
            continue
        for number, text in enumerate(block.lines, start=block.first_line):
            if line in (None, number):
                event = form.flat(text)
                if event is not None:
                    return form.values(event), number
                if line is not None:
                    raise EventError("this line is blank", seen=number)
        last = block.first_line + len(block.lines) - 1
    raise EventError(
        "the file has no such event",
        seen={"line": line, "member": member},
        limit=f"lines 1 to {last}" if last else None,
        remedy="Lines are numbered from 1; --member names a file within an archive.",
    )


def _explain_one(
    rule: str, book: RuleBook | None, values: Values, full: bool, as_json: bool
) -> dict[str, Any]:
    from pubsub_cluster.cli.subscriptions import parse_expression
    from pubsub_cluster.language.explain import CHILDREN_SHOWN_MAX, explain, tree_lines
    from pubsub_cluster.language.json_form import expression_from_any

    title = None
    if book is None:
        expression = expression_from_any(parse_expression(rule))
    else:
        position = find_rule(rule, book)
        expression, title = book.expressions[position], book.rules[position].title
    explained = explain(expression, values)
    if as_json:
        return {"title": title, **to_dict(explained)}
    if title is not None:
        click.echo(title)
    click.echo("\n".join(tree_lines(explained, None if full else CHILDREN_SHOWN_MAX)))
    click.echo("holds" if explained.holds else _missed_by(explained.misses))
    return {}


def find_rule(text: str, book: RuleBook) -> int:
    """Return the position of the rule with an id or a title; the title without regard to case.

    Raises
    ------
    UnknownIdError
        There is none.
    """
    from pubsub_cluster.language.errors import UnknownIdError
    from pubsub_cluster.language.values import fold

    wanted = fold(text)
    for names in ([rule.id for rule in book.rules], [rule.title for rule in book.rules]):
        found = [position for position, name in enumerate(names) if fold(name) == wanted]
        if found:
            return found[0]
    titles = [rule.title for rule in book.rules]
    near = [title for title in titles if wanted in fold(title)][:SUGGESTIONS_MAX]
    near = near or difflib.get_close_matches(text, titles, SUGGESTIONS_MAX)
    raise UnknownIdError(
        "no rule has this id or title",
        seen=text,
        remedy=f"There are: {'; '.join(near)}." if near else "`match --json` prints ids and titles.",
    )


def _missed_by(count: int) -> str:
    return f"does not hold: {counted(count, 'predicate')} would have to come out otherwise"


def _nearest(book: RuleBook, values: Values, count: int, as_json: bool) -> list[dict[str, Any]]:
    from pubsub_cluster.language.explain import atom_line, missed_predicates, nearest

    found = nearest(enumerate(book.expressions), values, count)
    records = []
    for near in found:
        rule, missed = book.rules[near.subscription], missed_predicates(near.explained)
        records.append(
            {
                "rule_id": rule.id,
                "title": rule.title,
                "level": rule.level or None,
                "misses": near.explained.misses,
                "missed": [atom_line(atom) for atom in missed],
            }
        )
        if as_json:
            continue
        click.echo(f"{near.explained.misses:>3}  {rule.title}  ({rule.level or 'no level'}, {rule.id})")
        for atom in missed[:MISSED_SHOWN_MAX]:
            click.echo(f"       {'needs not' if atom.holds else 'needs'}: {atom_line(atom)}")
        if len(missed) > MISSED_SHOWN_MAX:
            click.echo(f"       ... and {len(missed) - MISSED_SHOWN_MAX:,} more")
    if not found:
        note("Every rule holds on this event.")
    return records


def to_dict(explained: Explained) -> dict[str, Any]:
    """Return an explanation as JSON can carry it."""
    from pubsub_cluster.language.expression import And, Atom, Not
    from pubsub_cluster.language.text_form import format_text

    node: dict[str, Any] = {"holds": explained.holds, "misses": explained.misses}
    expression = explained.expression
    if isinstance(expression, Atom):
        node["predicate"] = format_text(expression)
        node["seen"] = {name: list(values) for name, values in explained.seen.items()}
        return node
    node["connective"] = (
        "not" if isinstance(expression, Not) else "and" if isinstance(expression, And) else "or"
    )
    node["children"] = [to_dict(child) for child in explained.children]
    return node
