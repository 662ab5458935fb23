"""What all commands share: options, the way to a cluster, and how results and errors look.

Rules of `cli/`: a command parses, makes one call and prints. Results go to standard output, everything
else (progress, summaries, errors) to standard error, so that a pipe gets results only. With ``--json`` a
result is JSON. An error is printed as ``Error:`` with what was seen, what is allowed and what to do; the
exit code is 1, and 2 when the command line itself is wrong. Nothing heavy is imported at the top of a
module here: `pubsub-cluster --help` has to answer at once.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from pubsub_cluster.cli.instants import with_instants
from pubsub_cluster.cli.render import printable
from pubsub_cluster.language.errors import PubSubError, WindowError, allowed, shown

if TYPE_CHECKING:
    from pubsub_cluster.client import Client

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130
JSON_KEY = "pubsub_cluster.json"
NO_OUTPUT = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF))
SEEN_SIZE_MAX = 200
LIMIT_SIZE_MAX = 1_000  # a list of all names that there are is what a person needs

P = ParamSpec("P")
R = TypeVar("R")


class ReportedError(click.ClickException):
    """A `PubSubError` on its way to the terminal."""

    exit_code = EXIT_ERROR

    def __init__(self, error: PubSubError, as_json: bool = False) -> None:
        super().__init__(error.condition)
        self.error = error
        self.as_json = as_json

    def show(self, file: Any = None) -> None:
        """Print the error: text to standard error; with ``--json`` also an object to standard output."""
        click.echo(error_text(self.error), err=True)
        if self.as_json:
            emit_json({"error": self.error.to_dict()})


def error_text(error: PubSubError, title: str = "Error") -> str:
    """Return the lines that a person reads: condition, seen, limit, remedy."""
    lines = f"{title}: {error.condition}.".splitlines()
    lines.extend(f"    {line}" for line in str(error.fields.get("picture", "")).splitlines())
    seen = with_instants(error.seen) if isinstance(error, WindowError) else error.seen
    if seen is not None:
        items = seen if isinstance(seen, list | tuple) and seen else [seen]
        lines.append(f"  {'seen:':<9}{_short(', '.join(shown(item) for item in items))}")
    if error.limit is not None:
        lines.append(f"  {'allowed:':<9}{_short(allowed(error.limit), LIMIT_SIZE_MAX)}")
    if error.remedy:
        first, *rest = error.remedy.splitlines()
        lines.append(f"  {'remedy:':<9}{first}")
        lines.extend(f"           {line}" for line in rest)
    return "\n".join(map(printable, lines))


def _short(text: str, size_max: int = SEEN_SIZE_MAX) -> str:
    return text if len(text) <= size_max else f"{text[: size_max - 20]}... ({len(text)} characters)"


@contextlib.contextmanager
def reporting(ctx: click.Context) -> Iterator[None]:
    """Turn what a command may raise into what a person can read."""
    try:
        yield
    except PubSubError as error:
        raise ReportedError(error, as_json=bool(ctx.meta.get(JSON_KEY))) from error
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
        ctx.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); the interpreter must not complain at its exit.
        say_no_more()
        ctx.exit(0)
    except OSError as error:
        raise refused_by_the_system(error) from error


def refused_by_the_system(error: OSError) -> ReportedError:
    """Return what a person is told of what no command foresaw: output to a full disk, first of all.

    It is said on standard error alone: the output may be what is wrong.
    """
    reason = error.strerror or str(error)
    if error.filename is None and error.errno in NO_OUTPUT:
        say_no_more()
        told = PubSubError(
            "the output cannot be written", seen=reason, remedy="Make room there, or send it elsewhere."
        )
    else:
        what = "" if error.filename is None else f", at {os.fsdecode(error.filename)}"
        told = PubSubError(f"the system refused what the command needs{what}", seen=reason)
    return ReportedError(told)


def say_no_more() -> None:
    """Let what is left of the output go nowhere: the interpreter would complain of it at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add ``--json``; the command gets `as_json`."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
        ctx.meta[JSON_KEY] = value
        return value

    return click.option(
        "--json", "as_json", is_flag=True, callback=remember, is_eager=True, help="Print the result as JSON."
    )(command)


def data_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add ``--data``; the command gets `data_dir`."""
    return click.option(
        "--data",
        "data_dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Data directory [default: $PUBSUB_CLUSTER_DATA or ~/.local/state/pubsub-cluster].",
    )(command)


def cluster_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add ``--data``, ``--endpoint`` and ``--timeout``; the command gets `connect`."""

    @functools.wraps(command)
    def with_connect(
        *args: Any, data_dir: Path | None, endpoint: str | None, timeout_s: float, **options: Any
    ) -> R:
        def connect() -> Client:
            return connect_client(data_dir, endpoint, timeout_s)

        return command(*args, connect=connect, **options)

    with_options = click.option(
        "--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=10.0, show_default=True,
        metavar="SECONDS", help="Longest wait for an answer.",
    )(with_connect)  # fmt: skip
    with_options = click.option("--endpoint", help="ZeroMQ endpoint, instead of a data directory.")(
        with_options
    )
    return data_option(with_options)


def connect_client(data_dir: Path | None, endpoint: str | None, timeout_s: float) -> Client:
    """Return a client of the cluster on `data_dir` (or the default one).

    Raises
    ------
    ClusterError
        At once, when no cluster has a socket there: waiting for an answer would only hide it.
    """
    from pubsub_cluster.client import Client

    if endpoint is not None:
        return Client(endpoint=endpoint, timeout_s=timeout_s)
    check_running(data_dir)
    return Client(data_dir=resolve_data_dir(data_dir), timeout_s=timeout_s)


def resolve_data_dir(data_dir: Path | None) -> Path:
    """Return the given directory or the default one, absolute."""
    from pubsub_cluster.language.paths import default_data_dir

    return (default_data_dir() if data_dir is None else data_dir).expanduser().absolute()


def check_running(data_dir: Path | None) -> None:
    """Raise `ClusterError` when no cluster listens on the directory's socket."""
    from pubsub_cluster.language.errors import ClusterError

    place = resolve_data_dir(data_dir)
    if not is_running(place):
        raise ClusterError(
            "no cluster is running on this data directory",
            seen=str(place),
            remedy=f"Start one: pubsub-cluster start --data {place}",
        )


def is_running(data_dir: Path) -> bool:
    """Say whether a process listens on the directory's socket; a file that a dead one left does not count."""
    import socket

    from pubsub_cluster.language.paths import socket_path

    if not data_dir.is_dir():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(socket_path(data_dir)))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def at_the_cluster(what: str) -> Iterator[None]:
    """Say, of what goes on without this command, that Ctrl-C has ended no more than the wait for it."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"The {what} goes on if it has begun; `pubsub-cluster status` tells of it.")
        raise


def emit_json(value: Any) -> None:
    """Print one JSON document on one line."""
    import orjson

    click.echo(orjson.dumps(value, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode())


def emit_lines(values: list[dict[str, Any]]) -> None:
    """Print JSON documents, one a line, all of them in one write."""
    import orjson

    click.echo(b"".join(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE) for value in values), nl=False)


def note(text: str) -> None:
    """Say something to the person, not to the pipe."""
    click.echo(text, err=True)
