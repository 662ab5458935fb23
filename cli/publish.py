"""``publish``: events from a file or a pipe, and what they match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click
import msgspec

from pubsub_cluster.cli.common import EXIT_ERROR, cluster_options, emit_json, error_text, json_option, note
from pubsub_cluster.cli.explain_sources import sigma_form
from pubsub_cluster.cli.lines import PAUSE, read_lines
from pubsub_cluster.cli.match import renames, rules_options
from pubsub_cluster.cli.render import counted, printable
from pubsub_cluster.language.errors import EventError, LimitError, PubSubError, error_from_dict
from pubsub_cluster.language.timestamps import parse_instant

if TYPE_CHECKING:
    from pubsub_cluster.client import Client, Matches
    from pubsub_cluster.client.calls import AnswerName
    from pubsub_cluster.logs.detector import EventForm

IDS_SHOWN_MAX = 8
OFFSET_SIZE_BYTES = 8
"""Of an event in a batch, and once more, beside its text."""


class Piece(NamedTuple):
    """One batch of a file.

    Attributes
    ----------
    data : bytes
        JSON, as `Client.publish` takes it.
    lines : list of int
        Number of each event's line, from 1; empty when the file is an array.
    """

    data: bytes
    lines: list[int]


def normalised_lines(lines: Iterable[bytes], form: EventForm) -> Iterator[bytes]:
    """Return the lines of a log with their events as Sigma rules see them.

    A line that is no event goes as it is, for the cluster to refuse it by its number; so does a `PAUSE`.

    Raises
    ------
    EventError
        The file begins like an array.
    """
    is_first = True
    for line in lines:
        try:
            event = form.flat(line)
            yield line if event is None else msgspec.json.encode(form.seen(event)) + b"\n"
        except EventError as error:
            if is_first and line.lstrip().startswith(b"["):
                error.remedy = "A log has one JSON object a line."
                raise
            yield line
        is_first = is_first and not line.strip()


def read_batches(file: Iterable[bytes], events_per_batch: int, size_bytes_max: int) -> Iterator[Piece]:
    """Cut a file into batches of JSON; an event that is larger than a batch may be is one of its own.

    The file is one JSON array of events, or one event per line. A line that is not JSON is sent as it is: the
    cluster refuses that event by its index. Empty lines are no events. A `PAUSE` ends a batch.

    Raises
    ------
    EventError
        The file begins like an array and is not one; or it cannot be read on, and what was read has been cut.
    """
    lines = _numbered(file)
    first = next((entry for entry in lines if entry[1] != PAUSE), None)
    if first is None:
        return
    if first[1].lstrip().startswith(b"["):
        try:
            events = msgspec.json.decode(
                first[1] + b"".join(line for _, line in lines), type=list[msgspec.Raw]
            )
        except msgspec.DecodeError as error:
            raise EventError(
                f"the file begins with a bracket but is not a JSON array: {error}",
                remedy="Write one array of events, or one event per line.",
            ) from None
        for some in _cut(((0, bytes(event)) for event in events), events_per_batch, size_bytes_max):
            yield Piece(b"[" + b",".join(event for _, event in some) + b"]", [])
        return
    for some in _cut(chain([first], lines), events_per_batch, size_bytes_max):
        data = b"\n".join(line.rstrip(b"\r\n") for _, line in some) + b"\n"
        yield Piece(data, [number for number, _ in some])


def _numbered(file: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield what is no empty line with its number, from 1."""
    number = 0
    for line in file:
        number += line != PAUSE
        if line == PAUSE or line.strip():
            yield number, line


def _cut(
    events: Iterable[tuple[int, bytes]], events_per_batch: int, size_bytes_max: int
) -> Iterator[list[tuple[int, bytes]]]:
    """Group numbered events by number, and by bytes where they are large; a pause ends a group."""
    group: list[tuple[int, bytes]] = []
    group_bytes = OFFSET_SIZE_BYTES
    try:
        for number, event in events:
            size_bytes = len(event) + OFFSET_SIZE_BYTES
            if group and (event == PAUSE or group_bytes + size_bytes > size_bytes_max):
                yield group
                group, group_bytes = [], OFFSET_SIZE_BYTES
            if event != PAUSE:
                group.append((number, event))
                group_bytes += size_bytes
            if len(group) == events_per_batch:
                yield group
                group, group_bytes = [], OFFSET_SIZE_BYTES
    except EventError:
        if group:
            yield group
        raise
    if group:
        yield group


def _published(client: Client, piece: Piece, **how: Any) -> Matches:
    """Publish a piece; an event that is larger than a batch may be is refused alone, as a bad one is."""
    from pubsub_cluster.client import Matches

    try:
        return client.publish(piece.data, **how)
    except LimitError as error:
        if error.fields.get("limit_name") != "batch_size_bytes_max":
            raise
        # Pieces of several events are cut so that they fit.
        refused = EventError(
            "the event is larger than a batch may be, in bytes",
            seen=error.seen,
            limit=error.limit,
            remedy="Cut it, or start the cluster with a larger limit batch_size_bytes_max.",
        )
        return Matches(1, 0, None, None, None, {0: refused}, 0, 0)


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--batch", "events_per_batch", type=click.IntRange(1, 65_536), default=1000, show_default=True,
              help="Events sent together.")  # fmt: skip
@click.option("--counts", is_flag=True, help="Only count matches, do not name them.")
@click.option("--valid-until", metavar="INSTANT",
              help="Retain the events until then, for subscriptions that are made later.")  # fmt: skip
@click.option("--sigma", is_flag=True,
              help="FILE is a log: its events are normalised for Sigma rules, as `match` does.")  # fmt: skip
@rules_options
@cluster_options
@json_option
def publish(
    connect: Callable[[], Client],
    file: BinaryIO,
    events_per_batch: int,
    counts: bool,
    valid_until: str | None,
    sigma: bool,
    maps: tuple[str, ...],
    map_file: Path | None,
    logsources_file: Path | None,
    as_json: bool,
) -> None:
    """Publish events and print their matches.

    FILE, plain or gzip (- is standard input), holds one JSON object per line, or one array of objects. Output
    is one line per event; with --json an object per line. Lines that come through a pipe wait a tenth of a
    second at most for others to be sent with. The exit code is 1 when an event was refused. When a whole
    batch is, the command ends and says which lines it had. --map, --map-file and --logsources are for logs
    (--sigma): the cluster has rules that `load --format sigma` read.

    \b
    Example:
      pubsub-cluster publish flights.ndjson --json
      echo '{"origin": "JFK", "dest": "LAX", "dep_delay": 75}' | pubsub-cluster publish -
      tail -F events.ndjson | pubsub-cluster publish - --counts
    """
    until = parse_instant("--valid-until", valid_until)
    if not sigma and (maps or map_file or logsources_file):
        raise click.UsageError("--map, --map-file and --logsources go with --sigma")
    lines: Iterable[bytes] = read_lines(file, with_pauses=True)
    if sigma:
        lines = normalised_lines(lines, sigma_form(renames(maps, map_file), logsources_file))
    with connect() as client:
        limits = client.hello()["limits"]
        events_max, size_bytes_max = limits["events_per_batch_max"], limits["batch_size_bytes_max"]
        pieces = read_batches(lines, min(events_per_batch, events_max), size_bytes_max)
        answer: AnswerName = "counts" if counts else "handles"
        done = publish_all(client, pieces, as_json, answer=answer, ids=not counts, valid_until=until)
    events, matched = counted(done.event_count, "event"), counted(done.match_count, "match", "matches")
    note(f"{events}, {matched}, {done.refused_count:,} refused.")
    if done.refused_count:
        raise SystemExit(EXIT_ERROR)


@dataclass(slots=True)
class Tally:
    """What became of the events so far."""

    event_count: int = 0
    match_count: int = 0
    refused_count: int = 0


def publish_all(client: Client, pieces: Iterable[Piece], as_json: bool, **how: Any) -> Tally:
    """Publish batches and print what they match; an error that ends this says where it did.

    Raises
    ------
    PubSubError
        A batch was refused as a whole, or the file cannot be read on. `fields` tells how many events were
        published, and which the batch has.
    """
    done = Tally()
    piece: Piece | None = None
    try:
        for piece in pieces:
            matches = _published(client, piece, **how)
            for record in event_records(matches, done.event_count, piece.lines):
                _print(record, as_json)
            done.event_count += matches.event_count
            done.match_count += matches.match_count
            done.refused_count += len(matches.refused)
            piece = None
    except PubSubError as error:
        _say_where(error, piece, done.event_count)
        raise
    return done


def _say_where(error: PubSubError, piece: Piece | None, published_count: int) -> None:
    """Say what an error is about, on standard error and in its fields."""
    before = f"{counted(published_count, 'event')} published before"
    error.fields["published_count"] = published_count
    if piece is None:
        note(f"{before}.")
        return
    count = len(piece.lines) or len(msgspec.json.decode(piece.data, type=list[msgspec.Raw]))
    first, last = published_count, published_count + count - 1
    error.fields |= {"first_event": first, "last_event": last}
    place = _span("event", first, last)
    if piece.lines:
        error.fields |= {"first_line": piece.lines[0], "last_line": piece.lines[-1]}
        place = f"{_span('line', piece.lines[0], piece.lines[-1])} ({place})"
    note(f"Not published, or without an answer: {place}; {before}.")


def _span(one: str, first: int, last: int) -> str:
    return f"{one} {first}" if first == last else f"{one}s {first} to {last}"


def event_records(matches: Matches, first_event: int, lines: list[int]) -> Iterator[dict[str, Any]]:
    """Return one object per event of a batch: its index and its matches, their number, or its error.

    A refused event also has the number of its line, when the file has one event per line.
    """
    for i in range(matches.event_count):
        record: dict[str, Any] = {"event_index": first_event + i}
        if i in matches.refused:
            if lines:
                record["line"] = lines[i]
            record["error"] = matches.refused[i].to_dict()
        elif matches.ids is not None and matches.offsets is not None:
            record["matches"] = matches.ids[matches.offsets[i] : matches.offsets[i + 1]]
        elif matches.counts is not None:
            record["match_count"] = int(matches.counts[i])
        yield record


def _print(record: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(record)
        return
    name = f"event {record['event_index']}"
    if "error" in record:
        place = f" (line {record['line']})" if "line" in record else ""
        note(error_text(error_from_dict(record["error"]), title=f"Error: {name}{place}"))
    elif "match_count" in record:
        click.echo(f"{name}: {counted(record['match_count'], 'match', 'matches')}")
    else:
        ids = record["matches"]
        more = f" and {len(ids) - IDS_SHOWN_MAX:,} more" if len(ids) > IDS_SHOWN_MAX else ""
        names = ": " + ", ".join(map(printable, ids[:IDS_SHOWN_MAX])) + more if ids else ""
        click.echo(f"{name}: {counted(len(ids), 'match', 'matches')}{names}")
