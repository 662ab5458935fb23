"""``match``: rules over log files, in this process, without a cluster."""

from __future__ import annotations

import csv
import gc
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import EXIT_ERROR, emit_json, error_text, json_option, note
from pubsub_cluster.cli.progress import Progress
from pubsub_cluster.cli.render import counted

if TYPE_CHECKING:
    from pubsub_cluster.logs.detector import Detector
    from pubsub_cluster.logs.files import BadLine
    from pubsub_cluster.logs.report import RuleTotal, Totals
    from pubsub_cluster.logs.rules import BookRule, RuleBook

LEVELS = ("critical", "high", "medium", "low", "informational")
BAD_LINES_SHOWN_MAX = 20
REFUSALS_SHOWN_MAX = 20
COMPILER = "libllvmlite"
"""Loads the kernels, and is then done with."""
CSV_FIELDS = ("rule_id", "title", "level", "tags", "file", "line")


def rules_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which rules and how events are to be read."""
    for option in (
        click.option("--logsources", "logsources_file",
                     type=click.Path(path_type=Path, exists=True, dir_okay=False),
                     help="TOML file that adds log sources and aliases of fields to the package's table."),
        click.option("--map-file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
                     help='TOML file of lines `old = "new"`: names of fields, as --map.'),
        click.option("--map", "maps", multiple=True, metavar="OLD=NEW",
                     help="Rename a field of the events that have none of the new name; repeatable."),
    ):  # fmt: skip
        command = option(command)
    return command


def renames(maps: tuple[str, ...], map_file: Path | None) -> dict[str, str]:
    """Return new names of fields by old ones; an option wins over the file."""
    import tomllib

    found: dict[str, str] = {}
    if map_file is not None:
        try:
            body = tomllib.loads(map_file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise click.BadParameter(f"{map_file} is not TOML: {error}") from None
        wrong = [name for name, new in body.items() if not isinstance(new, str) or not new]
        if wrong:
            raise click.BadParameter(f'{map_file}: {wrong[0]!r} is not given as old = "new"')
        found |= body
    for entry in maps:
        old, equals, new = entry.partition("=")
        if not (old and equals and new):
            raise click.BadParameter(f"--map {entry!r} is not of the form OLD=NEW")
        found[old] = new
    return found


def read_rules(paths: tuple[Path, ...], logsources_file: Path | None) -> tuple[RuleBook, Any]:
    """Return the rules at some paths, and the table of log sources that holds for them."""
    from pubsub_cluster.language.errors import StartError
    from pubsub_cluster.logs.rules import read_book
    from pubsub_cluster.sigma_rules.logsources import default_logsources

    table = default_logsources()
    if logsources_file is not None:
        table = table.extended(logsources_file)
    try:
        return read_book(paths, table), table
    except ImportError as error:
        raise StartError(
            f"Sigma rules cannot be read: {error}",
            remedy="Install the extra: pip install 'pubsub-cluster[sigma]'",
        ) from None


@click.command()
@click.option("--rules", "rule_paths", required=True, multiple=True, metavar="PATH",
              type=click.Path(path_type=Path, exists=True),
              help="Sigma rules (file, folder, zip), or subscriptions, one a line; repeatable.")  # fmt: skip
@click.argument("events", nargs=-1, required=True, metavar="EVENTS...")
@click.option("--min-level", type=click.Choice(LEVELS), help="Leave out rules below this level.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a line per detection as CSV.")
@rules_options
@json_option
@click.pass_context
def match(
    ctx: click.Context,
    rule_paths: tuple[Path, ...],
    events: tuple[str, ...],
    min_level: str | None,
    as_csv: bool,
    maps: tuple[str, ...],
    map_file: Path | None,
    logsources_file: Path | None,
    as_json: bool,
) -> None:
    """Match log files against rules.

    Needs no running cluster. EVENTS are files with one JSON object per line, plain, gzip or zip, folders of
    them, or - for standard input. The result is a table of the rules that hold on some event, the most urgent
    first; with --json an object, with --csv a line per detection, as they come: rule, file and line. A bad
    line costs itself: it is reported by file and line, and the exit code is 1, as it is when a file cannot be
    read or a rule is refused. Rules for other logs are counted, and no error; so are subscriptions that are
    not valid now.

    \b
    Example:
      pubsub-cluster match --rules sigma-rules.zip logs/*.zip
      pubsub-cluster match --rules rules/ --min-level high --json events.ndjson.gz | jq .title
      tail -F events.ndjson | pubsub-cluster match --rules rules/ --csv -
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json are two forms of one output: choose one")
    renamed = renames(maps, map_file)
    book, table = read_rules(rule_paths, logsources_file)
    if min_level is not None:
        book = book.at_least(min_level)
    every, book = book, book.valid_at(time.time_ns() // 1_000)
    invalid_count = len(every.rules) - len(book.rules)
    _say_refused(book)
    if not book.rules:  # that nothing is found would be read as a clean log
        note(
            f"Warning: there is no rule to match with: {len(book.refused):,} refused, "
            f"{len(book.not_applicable):,} for other logs, {invalid_count:,} not valid now. "
            "Check --rules and --min-level."
        )
    run = _Run(book, _detection_printer(as_json, as_csv))
    detector = run.detector(renamed, table)
    begin = time.perf_counter()
    run.read(detector, events)
    seconds = time.perf_counter() - begin
    if not as_json and not as_csv:
        _print_table(run.totals.sorted())
    _summary(run, detector, seconds, invalid_count)
    if run.bad_count or book.refused:
        ctx.exit(EXIT_ERROR)


class _Run:
    """One run: what it has found, and what it could not read."""

    def __init__(self, book: RuleBook, on_found: Callable[[BookRule, str, int], None] | None) -> None:
        self.book = book
        self.bad_count = 0
        self.totals: Totals
        self._on_found = on_found

    def detector(self, renamed: dict[str, str], table: Any) -> Detector:
        """Load the rules into an engine."""
        from pubsub_cluster.embedded import Engine
        from pubsub_cluster.logs.detector import Detector
        from pubsub_cluster.logs.matching import EngineMatcher
        from pubsub_cluster.logs.report import Totals
        from pubsub_cluster.shm.memory import give_back_code, give_back_memory

        engine = Engine(sampling=False)
        give_back_code(COMPILER)
        matcher = EngineMatcher(engine, self.book)
        # What loading leaves is here to stay: collections need not look at it again.
        gc.collect()
        gc.freeze()
        give_back_memory()
        give_back_code(COMPILER)
        self.totals = Totals(self.book.rules)
        return Detector(self.book.expressions, matcher, self.on_bad, self.book.form(renamed, table))

    def read(self, detector: Detector, events: tuple[str, ...]) -> None:
        """Match all lines of all files."""
        from pubsub_cluster.logs.files import read_blocks, stored_size_bytes

        rules, on_found, totals = self.book.rules, self._on_found, self.totals
        with Progress("Matching", stored_size_bytes(events), "B") as bar:
            for block in read_blocks(events, self.on_bad):
                for line, positions in detector.matches_of(block):
                    for position in positions:
                        totals.add(position, block.file, line)
                        if on_found is not None:
                            on_found(rules[position], block.file, line)
                bar.advance(round(block.stored_bytes), f"{detector.tally.event_count:,} events")

    def on_bad(self, bad: BadLine) -> None:
        """Report a line or a file that cannot be read, while there are not too many."""
        self.bad_count += 1
        if self.bad_count <= BAD_LINES_SHOWN_MAX:
            place = f"{bad.file}:{bad.line}" if bad.line else bad.file
            note(error_text(bad.error, title=f"Error: {place}"))
        elif self.bad_count == BAD_LINES_SHOWN_MAX + 1:
            note("More lines are bad; they are counted.")


def _detection_printer(as_json: bool, as_csv: bool) -> Callable[[BookRule, str, int], None] | None:
    """Return what prints a detection as it is found; None where only totals are wanted."""
    if as_json:
        return lambda rule, file, line: emit_json(
            {
                "rule_id": rule.id,
                "title": rule.title,
                "level": rule.level or None,
                "tags": list(rule.tags),
                "file": file,
                "line": line,
            }
        )
    if not as_csv:
        return None
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(CSV_FIELDS)

    def write(rule: BookRule, file: str, line: int) -> None:
        writer.writerow([rule.id, rule.title, rule.level, " ".join(rule.tags), file, line])

    return write


def _say_refused(book: RuleBook) -> None:
    for refusal in book.refused[:REFUSALS_SHOWN_MAX]:
        title = refusal.title or ("without a title" if book.is_sigma else "")
        note(f"Refused: {refusal.where}: {title}{': ' if title else ''}{refusal.reason}")
    if len(book.refused) > REFUSALS_SHOWN_MAX:
        note(f"Refused: {len(book.refused) - REFUSALS_SHOWN_MAX:,} more rules.")


def _rows(totals: list[RuleTotal]) -> Iterator[list[Any]]:
    width = max(len(str(line)) for *_, line in totals)
    for rule, count, file, line in totals:
        # A line is a name, not an amount: without separators, as `explain --line` takes it.
        yield [rule.level or None, count, rule.title, file, f"{line:>{width}}"]


def _print_table(totals: list[RuleTotal]) -> None:
    from pubsub_cluster.cli.render import table, terminal_width

    if totals:
        click.echo(
            table(["level", "events", "rule", "first in", "line"], list(_rows(totals)), "", terminal_width())
        )
    else:
        click.echo("No rule holds on any event.")


def _summary(run: _Run, detector: Detector, seconds: float, invalid_count: int) -> None:
    tally, book = detector.tally, run.book
    held = counted(len(run.totals.sorted()), "rule")
    rate = tally.event_count / seconds if seconds > 0 else 0.0
    detections, events = counted(run.totals.detection_count, "detection"), counted(tally.event_count, "event")
    note(
        f"{detections} of {held}; {events} in {seconds:.1f} s ({rate:,.0f} per second), "
        f"{counted(tally.blank_count, 'blank line')}, "
        f"{run.bad_count:,} bad."
    )
    invalid = f", {invalid_count:,} not valid now" if invalid_count else ""
    note(
        f"{counted(len(book.rules), 'rule')} used, {len(book.refused):,} refused, "
        f"{len(book.not_applicable):,} for other logs{invalid}."
    )
