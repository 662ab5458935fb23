"""``load``: many subscriptions from a file, one per line.

A bad line costs itself and nothing else: it is reported by its number, whether this module cannot read it
or the cluster refuses it. Lines are read as they are sent, so that a file may be larger than memory.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pubsub_cluster.cli.common import EXIT_ERROR, cluster_options, emit_json, error_text, json_option, note
from pubsub_cluster.cli.lines import read_lines, size_bytes_of
from pubsub_cluster.cli.progress import Progress
from pubsub_cluster.cli.render import counted
from pubsub_cluster.language.errors import (
    DuplicateIdError,
    EventError,
    ExpressionError,
    PubSubError,
    WindowError,
)
from pubsub_cluster.language.subscription_lines import read_item

if TYPE_CHECKING:
    from pubsub_cluster.client import Client, Subscription

RESULTS_PER_CHUNK = 20_000
GC_THRESHOLD = 100_000
ERRORS_SHOWN_MAX = 20
ERRORS_KEPT_MAX = 10_000


@dataclass(slots=True)
class Tally:
    """What became of the lines up to `line_number`."""

    loaded_count: int = 0
    line_number: int = 0
    replaced_count: int = 0
    refused_count: int = 0
    errors: list[tuple[int, PubSubError]] = field(default_factory=list)

    def refuse(self, line_number: int, error: PubSubError) -> None:
        """Count a bad line, and keep its error while there are not too many."""
        self.refused_count += 1
        if len(self.errors) < ERRORS_KEPT_MAX:
            self.errors.append((line_number, error))


def load_lines(
    client: Client,
    lines: Iterable[bytes],
    owner: str | None,
    on_chunk: Callable[[int, Tally], None],
    replace: bool = False,
    tally: Tally | None = None,
) -> Tally:
    """Subscribe every line; `on_chunk` hears of the bytes read and the tally now and then.

    With `replace`, a line whose id exists updates that subscription. A `tally` that is given tells what is
    known when this ends with an error.
    """
    tally = tally or Tally()
    reading = _Reading(lines, owner, tally, keeps_items=replace)
    # Lines are read while those before them are on their way, also from one chunk to the next.
    coming = client.subscribe_stream(reading.items(), retained=0)
    while results := list(islice(coming, RESULTS_PER_CHUNK)):
        numbers, items = reading.take(len(results))
        if replace:
            tally.replaced_count += replace_existing(client, items, results)
        for number, result in zip(numbers, results, strict=True):
            if isinstance(result, PubSubError):
                tally.refuse(number, result)
            else:
                tally.loaded_count += 1
        tally.line_number = numbers[-1]
        on_chunk(reading.take_size_bytes(), tally)
    on_chunk(reading.take_size_bytes(), tally)
    tally.errors.sort(key=lambda entry: entry[0])
    return tally


class _Reading:
    """Reads lines as they are wanted; remembers what their results will be about."""

    def __init__(self, lines: Iterable[bytes], owner: str | None, tally: Tally, keeps_items: bool) -> None:
        self._lines = lines
        self._owner = owner
        self._tally = tally
        self._keeps_items = keeps_items
        self._numbers: deque[int] = deque()
        self._items: deque[dict[str, Any]] = deque()
        self._size_bytes = 0

    def items(self) -> Iterator[dict[str, Any]]:
        """Yield the items of the good lines; where the file cannot be read on, that is a bad one."""
        number = 0
        try:
            for number, line in enumerate(self._lines, start=1):
                self._size_bytes += len(line)
                try:
                    item = read_item(line, self._owner, as_it_is=True)
                except (ExpressionError, WindowError) as error:
                    self._tally.refuse(number, error)
                    continue
                if item is not None:
                    self._numbers.append(number)
                    if self._keeps_items:
                        self._items.append(item)
                    yield item
        except EventError as error:
            self._tally.refuse(number + 1, error)

    def take(self, count: int) -> tuple[list[int], list[dict[str, Any]]]:
        """Return the numbers of the next lines, and their items if those are kept."""
        kept = count if self._keeps_items else 0
        return (
            [self._numbers.popleft() for _ in range(count)],
            [self._items.popleft() for _ in range(kept)],
        )

    def take_size_bytes(self) -> int:
        """Return the bytes of the lines that were read since the last time."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        return size_bytes


def replace_existing(
    client: Client, items: list[dict[str, Any]], results: list[Subscription | PubSubError]
) -> int:
    """Update what exists: puts the new results in the place of the refusals, returns how many are good."""
    places = [i for i, result in enumerate(results) if isinstance(result, DuplicateIdError)]
    # An update keeps the owner, and the wire does not let it name one.
    changed = [{name: x for name, x in items[i].items() if name != "owner"} for i in places]
    updated = client.update_many(changed) if changed else []
    for i, result in zip(places, updated, strict=True):
        results[i] = result
    return sum(not isinstance(result, PubSubError) for result in updated)


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["lines", "sigma"]),
    default="lines",
    show_default=True,
    help="What the files are: one subscription a line, or Sigma rules.",
)
@click.option("--owner", help="Owner of the lines that name none, or of the rules.")
@click.option("--replace", is_flag=True, help="Update a subscription whose id exists; it keeps its owner.")
@click.option(
    "--dry-run", is_flag=True, help="Sigma: print what would become of every rule; no cluster needed."
)
@click.option(
    "--logsources",
    "logsources_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Sigma: a table of log sources and aliases (TOML) beside the package's own.",
)
@click.option(
    "--sample",
    "sample_paths",
    multiple=True,
    metavar="EVENTS",
    help="Statistics for the costs of a dry run: a log file or folder, as for `match`; repeatable.",
)
@cluster_options
@json_option
def load(
    connect: Callable[[], Client],
    paths: tuple[str, ...],
    file_format: str,
    owner: str | None,
    replace: bool,
    dry_run: bool,
    logsources_file: Path | None,
    sample_paths: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add the subscriptions of a file, or Sigma rules.

    PATH is a file with one subscription per line, plain or gzip (- is standard input). A line is an object
    with "expr" and, if wanted, "id", "owner", "metadata" (an object), "valid_from" and "valid_until" (RFC
    3339 text or microseconds since the epoch); or an expression alone, in JSON or in text form. Bad lines are
    reported by their number; the good ones are loaded. The exit code is 1 when there were bad lines.

    With --format sigma, PATH is a rule file, a folder or a zip archive, and there may be several. A rule's id
    is the subscription's; its title, level and tags are the metadata. A rule that cannot be expressed is
    named with its reason, and never loaded half. The events have to be normalised before they are published
    (pubsub_cluster.sigma_rules.events). A dry run needs no cluster; it prints what would become of every rule
    and what it is expected to cost per event, the dearest first (docs/sigma.md, what a rule costs).

    \b
    Example:
      pubsub-cluster load alerts.ndjson --owner ann
      pubsub-cluster load --format sigma rules/ --dry-run --sample logs.zip
    \b
    alerts.ndjson:
      {"id": "late", "expr": "origin = 'JFK' AND dep_delay > 60", "owner": "ann"}
      {"attr": "dest", "op": "in", "value": ["LAX", "SFO"]}
      carrier = "UA" AND NOT dest = "ORD"
    """
    if file_format == "sigma":
        from pubsub_cluster.cli.load_sigma import load_into, read_rules, show_rules

        if sample_paths and not dry_run:
            raise click.UsageError("--sample goes with --dry-run.")
        found = read_rules(paths, logsources_file)
        if dry_run:
            show_rules(found, sample_paths, logsources_file, as_json)
        else:
            load_into(connect, found, owner, replace, as_json)
        return
    if dry_run or logsources_file is not None or sample_paths:
        raise click.UsageError("--dry-run, --sample and --logsources go with --format sigma.")
    if len(paths) > 1:
        raise click.UsageError("of lines, one file is loaded at a time (--format sigma takes several paths).")
    try:
        opened: Any = click.open_file(paths[0], "rb")
    except OSError as error:
        raise click.UsageError(f"cannot read {paths[0]}: {error.strerror}") from None
    with opened as file:
        _load_file(connect, file, owner, replace, as_json)


def _load_file(
    connect: Callable[[], Client], file: BinaryIO, owner: str | None, replace: bool, as_json: bool
) -> None:
    begin, tally = time.monotonic(), Tally()
    with (
        connect() as client,
        _told_when_it_ends_early(tally),
        Progress("Loading", size_bytes_of(file), "B") as bar,
        _rare_collections(),
    ):
        load_lines(
            client,
            read_lines(file),
            owner,
            lambda size, tally: bar.advance(size, f"{tally.loaded_count:,} loaded"),
            replace,
            tally,
        )
    seconds = time.monotonic() - begin
    rate = tally.loaded_count / seconds if seconds > 0 else 0.0
    if as_json:
        errors = [{"line": number, "error": error.to_dict()} for number, error in tally.errors]
        emit_json(
            {
                "loaded": tally.loaded_count,
                "replaced": tally.replaced_count,
                "refused": tally.refused_count,
                "seconds": round(seconds, 3),
                "per_second": round(rate),
                "errors": errors,
            }
        )
    else:
        replaced = f", {tally.replaced_count:,} of them replaced," if tally.replaced_count else ""
        loaded = counted(tally.loaded_count, "subscription")
        click.echo(f"Loaded {loaded}{replaced} in {seconds:.1f} s ({rate:,.0f} per second).")
    _report(tally, "; the others are loaded")
    if tally.refused_count:
        raise SystemExit(EXIT_ERROR)


@contextlib.contextmanager
def _told_when_it_ends_early(tally: Tally) -> Iterator[None]:
    """Say what is loaded for certain when an error or Ctrl-C ends a load."""
    try:
        yield
    except (PubSubError, KeyboardInterrupt):
        _report(tally, "")
        many = counted(tally.loaded_count, "subscription")
        note(
            f"{many} of the lines up to {tally.line_number:,} were loaded before it, some after them may be. "
            "Loading again is safe where lines have ids (with --replace those are no errors)."
        )
        raise


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for cycles now and then: a load makes millions of objects and none, and pays a quarter for it."""
    usual = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _report(tally: Tally, others: str) -> None:
    """Tell what was refused, and what became of the `others`."""
    for number, error in tally.errors[:ERRORS_SHOWN_MAX]:
        note(error_text(error, title=f"Line {number}"))
    if tally.refused_count:
        unseen = tally.refused_count - min(len(tally.errors), ERRORS_SHOWN_MAX)
        more = f" ({unseen:,} more not shown; --json lists them)" if unseen else ""
        note(f"Refused {counted(tally.refused_count, 'line')}{more}{others}.")
