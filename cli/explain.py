"""``explain``: why a rule holds on an event, or does not, and which rules were near."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import cluster_options, emit_json, json_option, note
from pubsub_cluster.cli.match import read_rules, renames, rules_options
from pubsub_cluster.cli.render import counted, fields, printable

if TYPE_CHECKING:
    from pubsub_cluster.cli.explain_sources import Source, Subject
    from pubsub_cluster.client import Client
    from pubsub_cluster.language.explain import Explained
    from pubsub_cluster.language.naive import Values
    from pubsub_cluster.logs.detector import EventForm

MISSED_SHOWN_MAX = 4
NEAREST_MAX = 1_000


@click.command()
@click.argument("rule", required=False)
@click.option("--event", "event_file", required=True, metavar="FILE",
              help="File with the event, as for `match`; - is standard input.")  # fmt: skip
@click.option("--line", type=click.IntRange(1), help="Line of the event [default: the first event].")
@click.option("--member", help="File within an archive of several.")
@click.option("--rules", "rule_paths", multiple=True, metavar="PATH",
              type=click.Path(path_type=Path, exists=True),
              help="Look RULE up in these files, as for `match`, instead of a cluster.")  # fmt: skip
@click.option("--nearest", "nearest_count", type=click.IntRange(1, NEAREST_MAX), metavar="N",
              help="List the N rules that missed the event by the fewest predicates.")  # fmt: skip
@click.option("--full", is_flag=True, help="Show all branches of long lists.")
@click.option("--sigma", "is_sigma", is_flag=True,
              help="Normalise the event, a log line, for a cluster's Sigma rules.")  # fmt: skip
@rules_options
@cluster_options
@json_option
def explain(
    connect: Callable[[], Client],
    rule: str | None,
    event_file: str,
    line: int | None,
    member: str | None,
    rule_paths: tuple[Path, ...],
    nearest_count: int | None,
    full: bool,
    is_sigma: bool,
    maps: tuple[str, ...],
    map_file: Path | None,
    logsources_file: Path | None,
    as_json: bool,
) -> None:
    """Show why a subscription or a rule holds on an event, or why not.

    RULE is the id of a subscription of a running cluster; with --rules the id or the title of a rule in these
    files; or an expression in text or JSON form. (What reads as an expression is taken as one, unless --data
    or --endpoint names the cluster.) The answer is the tree of the expression as its owner wrote it: + marks
    what holds, - what does not, and each predicate is followed by what the event has. A subscription whose
    expression holds does not match outside its window of validity: that is said, too.

    With --nearest, also those that missed the event by the fewest predicates; RULE may then be left out. A
    cluster's catalogue is read for it page by page, until N are found that missed by one predicate: memory
    does not grow with it, and the cluster goes on matching. To read a million to the end takes a minute or
    two.

    \b
    Example:
      pubsub-cluster explain dear --event quotes.ndjson --line 7
      pubsub-cluster explain 'price > 100 AND symbol = "ABC"' --event quotes.ndjson
      pubsub-cluster explain --rules rules.zip 'Mimikatz Use' --event logs.zip --line 5241
      pubsub-cluster explain --rules rules.zip --nearest 10 --event logs.zip --line 5241
    """
    if rule is None and nearest_count is None:
        raise click.UsageError("give a RULE, or --nearest N, or both")
    if rule_paths and (_names_cluster() or is_sigma):
        raise click.UsageError("--data, --endpoint and --sigma are for a cluster, not for --rules")
    renamed = renames(maps, map_file)
    is_expression = rule is not None and not rule_paths and not _names_cluster() and _is_expression(rule)
    needs_source = nearest_count is not None or not is_expression
    with _source(rule_paths, logsources_file, connect, is_sigma, needs_source) as source:
        values, number = read_event(_form(source, renamed, logsources_file), event_file, line, member)
        result: dict[str, Any] = {"line": number}
        if rule is not None:
            result |= _explain_one(rule, None if is_expression else source, values, full, as_json)
        if nearest_count is not None and source is not None:
            result["nearest"] = _nearest(source, values, nearest_count, as_json)
    if as_json:
        emit_json(result)


def _names_cluster() -> bool:
    given = click.get_current_context().params
    return given.get("data_dir") is not None or given.get("endpoint") is not None


def _is_expression(text: str) -> bool:
    """Say whether a RULE can be no id: it reads as an expression, or looks like a mistyped one."""
    from pubsub_cluster.cli.subscriptions import parse_expression
    from pubsub_cluster.language.errors import PubSubError
    from pubsub_cluster.language.json_form import expression_from_any

    try:
        expression_from_any(parse_expression(text))
    except PubSubError:
        return text.lstrip().startswith("{") or " " in text.strip()
    return True


@contextlib.contextmanager
def _source(
    rule_paths: tuple[Path, ...],
    logsources_file: Path | None,
    connect: Callable[[], Client],
    is_sigma: bool,
    is_needed: bool,
) -> Iterator[Source | None]:
    """Give the rules of the files, else the cluster's subscriptions if they are needed."""
    from pubsub_cluster.cli.explain_sources import ClusterSource, RuleSource
    from pubsub_cluster.language.errors import ClusterError

    if rule_paths:
        yield RuleSource(*read_rules(rule_paths, logsources_file))
    elif is_needed:
        try:
            client = connect()
        except ClusterError as error:
            error.remedy = f"{error.remedy}\nOr look in files: --rules PATH."
            raise
        with client:
            yield ClusterSource(client, is_sigma)
    else:
        yield None


def _form(source: Source | None, renamed: dict[str, str], logsources_file: Path | None) -> EventForm:
    from pubsub_cluster.logs.detector import EventForm

    return EventForm(None, renamed) if source is None else source.form(renamed, logsources_file)


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
        if not bad.line:
            bad.error.seen, bad.error.remedy = source, "Give another file."
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
    rule: str, source: Source | None, values: Values, full: bool, as_json: bool
) -> dict[str, Any]:
    from pubsub_cluster.cli.subscriptions import parse_expression
    from pubsub_cluster.language.explain import CHILDREN_SHOWN_MAX, explain, tree_lines
    from pubsub_cluster.language.json_form import expression_from_any
    from pubsub_cluster.language.schema import EMPTY_SCHEMA

    subject = None
    if source is None:
        expression, schema = expression_from_any(parse_expression(rule)), EMPTY_SCHEMA
    else:
        (subject, expression), schema = source.find(rule), source.schema
    explained = explain(expression, values, schema)
    if as_json:
        about = {} if subject is None else _about(subject)
        details = {"details": subject.details} if subject is not None and subject.details else {}
        title = None if subject is None else subject.title
        return {"title": title, **about, **details, **to_dict(explained)}
    if subject is not None:
        click.echo(printable(str(subject)))
        if subject.details:
            click.echo(fields(subject.details))
    click.echo("\n".join(map(printable, tree_lines(explained, None if full else CHILDREN_SHOWN_MAX))))
    is_valid = subject is None or subject.is_valid
    held = "holds" if is_valid else "holds, but does not match: it is not valid now"
    click.echo(held if explained.holds else _missed_by(explained.misses))
    return {}


def _about(subject: Subject) -> dict[str, Any]:
    """Return what is told of a rule beside its title."""
    return {"rule_id": subject.id, "level": subject.level or None, "valid_now": subject.is_valid}


def _missed_by(count: int) -> str:
    return f"does not hold: {counted(count, 'predicate')} would have to come out otherwise"


def _nearest(source: Source, values: Values, count: int, as_json: bool) -> list[dict[str, Any]]:
    from pubsub_cluster.language.explain import atom_line, missed_predicates, nearest

    found = nearest(source.all(), values, count, source.schema)
    records = []
    subjects = source.subjects([near.subscription for near in found])
    for near, subject in zip(found, subjects, strict=True):
        missed = missed_predicates(near.explained)
        records.append(
            {
                "title": subject.title,
                **_about(subject),
                "misses": near.explained.misses,
                "missed": [atom_line(atom) for atom in missed],
            }
        )
        if as_json:
            continue
        click.echo(printable(f"{near.explained.misses:>3}  {subject}"))
        for atom in missed[:MISSED_SHOWN_MAX]:
            click.echo(printable(f"       {'needs not' if atom.holds else 'needs'}: {atom_line(atom)}"))
        if len(missed) > MISSED_SHOWN_MAX:
            click.echo(f"       ... and {len(missed) - MISSED_SHOWN_MAX:,} more")
    if not found:
        note("None missed: every rule there is holds on this event.")
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
