"""Log events from files and pipes: lines of JSON, a block at a time, whatever they are packed in.

A source is a file of NDJSON, plain, gzip or zip (told by its first bytes, not by its name), a folder of
such files, or ``-``, standard input. Lines end in LF or CRLF. They are numbered from 1 as an editor would,
so a blank line is counted although it is no event. Memory is bounded by one block and one line: a line
beyond `LINE_SIZE_BYTES_MAX` is refused without being held. Nothing here stops at bad input: a line or a
file that cannot be read becomes a `BadLine`, and reading goes on with the next one.
"""

from __future__ import annotations

import gzip
import io
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import mul
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

import orjson

from pubsub_cluster.language.errors import EventError, PubSubError
from pubsub_cluster.sigma_rules.documents import UNREADABLE

BLOCK_SIZE_BYTES = 1 << 20
LINE_SIZE_BYTES_MAX = 16 << 20
STDIN = "-"
STDIN_NAME = "<stdin>"
SUFFIXES = (".json", ".jsonl", ".ndjson", ".log", ".gz", ".zip")
"""Files of a folder that are read; a file that is named is read whatever its name."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP, _ZIPS = b"\x1f\x8b", (b"PK\x03\x04", b"PK\x05\x06")


class Block(NamedTuple):
    """Consecutive lines of one file.

    Attributes
    ----------
    file : str
        Base name: of the member, where it lies in an archive.
    first_line : int
        Number of ``lines[0]``, from 1.
    lines : list of bytes
        Without the LF; an empty one (or blanks, or a CR) is a blank line.
    stored_bytes : float
        How much of the stored (packed) sources this is, for a progress bar.
    """

    file: str
    first_line: int
    lines: list[bytes]
    stored_bytes: float


class BadLine(NamedTuple):
    """A line, or with `line` 0 a whole file, that could not be read.

    Attributes
    ----------
    file : str
    line : int
    error : PubSubError
    """

    file: str
    line: int
    error: PubSubError


OnBad = Callable[[BadLine], None]


def expand(sources: Iterable[str]) -> list[str]:
    """Return the sources, each folder replaced by its files of `SUFFIXES` in the order of their names."""
    found: list[str] = []
    for source in sources:
        if source != STDIN and Path(source).is_dir():
            files = (path for path in sorted(Path(source).rglob("*")) if path.suffix.lower() in SUFFIXES)
            found += [str(path) for path in files if path.is_file()]
        else:
            found.append(source)
    return found


def stored_size_bytes(sources: Iterable[str]) -> int | None:
    """Return the bytes of all sources as they are stored; None when one of them is a pipe."""
    total = 0
    for source in sources:
        path = Path(source)
        if source == STDIN or not path.exists():
            continue
        if not path.is_file():
            return None
        total += path.stat().st_size
    return None if STDIN in sources else total


def read_blocks(sources: Iterable[str], on_bad: OnBad) -> Iterator[Block]:
    """Read all sources, one after the other.

    Parameters
    ----------
    sources : iterable of str
        Paths; ``-`` is standard input.
    on_bad : callable
        Hears of every file that cannot be read (to its end) and of lines that are too long.
    """
    for source in expand(sources):
        name = STDIN_NAME if source == STDIN else Path(source).name
        try:
            if source == STDIN:
                yield from _lines(_Pipe(), name, lambda size_bytes: size_bytes, on_bad)
            else:
                yield from _file_blocks(Path(source), on_bad)
        except UNREADABLE as error:
            on_bad(_unreadable(name, error))


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None for a blank line.

    Raises
    ------
    EventError
        The line is not JSON, or not an object.
    """
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if not line.strip():
            return None
        raise EventError(
            f"the line is not JSON: {error}",
            seen=line[:80].decode(errors="replace"),
            remedy="A file has one JSON object per line.",
        ) from None
    if type(found) is not dict:
        raise EventError(
            "the line is JSON but no object",
            seen=type(found).__name__,
            remedy="A file has one JSON object per line; cut an array into lines: jq -c '.[]'",
        )
    return found


def is_packed(head: bytes) -> bool:
    """Say whether a file that begins so is packed with gzip."""
    return head.startswith(_GZIP)


def unpacked(file: Any, head: bytes) -> Any:
    """Return what is packed in a file that begins so; the file itself where it is plain."""
    if not is_packed(head):
        return file
    return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(None, "rb", fileobj=file)))


def unreadable(error: Exception) -> EventError:
    """Return what is told of a file whose reading ended with one of `UNREADABLE`."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return EventError(f"the file cannot be read: {reason}", remedy="Lines before it count.")


def _file_blocks(path: Path, on_bad: OnBad) -> Iterator[Block]:
    with path.open("rb") as file:
        head = file.read(4)
        if head in _ZIPS:
            yield from _zip_blocks(path, on_bad)
            return
        # A pipe that is named like a file cannot be wound back.
        start = _Ahead(head, file)
        if not is_packed(head):
            yield from _lines(start, path.name, lambda size_bytes: size_bytes, on_bad)
            return
        inner = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
        seen_bytes = 0

        def stored(_: int) -> float:
            nonlocal seen_bytes
            before, seen_bytes = seen_bytes, start.taken_bytes
            return seen_bytes - before

        with unpacked(start, head) as content:
            yield from _lines(content, inner, stored, on_bad)


def _zip_blocks(path: Path, on_bad: OnBad) -> Iterator[Block]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            place = PurePosixPath(member.filename)
            if member.is_dir() or "__MACOSX" in place.parts:
                continue
            share = member.compress_size / max(member.file_size, 1)
            try:
                with archive.open(member) as file:
                    yield from _lines(file, place.name, partial(mul, share), on_bad)
            except UNREADABLE as error:
                on_bad(_unreadable(place.name, error))


class _Ahead:
    """A binary file whose first bytes have been read already; counts what is taken from it."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head = head
        self._file = file
        self.taken_bytes = 0

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            found = self._file.read(size)
        elif size < 0:
            found, self._head = self._head + self._file.read(), b""
        else:
            found, self._head = self._head[:size], self._head[size:]
        self.taken_bytes += len(found)
        return found

    def seek(self, offset: int) -> int:
        """Refuse: a pipe cannot be wound back, and nobody reads twice."""
        raise io.UnsupportedOperation("seek")


def _lines(file: Any, name: str, stored: Callable[[int], float], on_bad: OnBad) -> Iterator[Block]:
    """Cut a file into blocks of whole lines."""
    number, size_bytes, is_skipping = 1, 0, False
    rest: list[bytes] = []  # the beginning of a line whose end has not been read yet
    rest_bytes = 0
    while data := file.read(BLOCK_SIZE_BYTES):
        if number == 1 and not size_bytes:
            data = data.removeprefix(BYTE_ORDER_MARK)
        size_bytes += len(data)
        cut = data.rfind(b"\n")
        if cut >= 0:
            rest.append(data[:cut])
            lines = b"".join(rest).split(b"\n")
            if is_skipping:
                # The end of the line that was refused; it keeps its number.
                lines[0], is_skipping = b"", False
            yield Block(name, number, lines, stored(size_bytes))
            number, size_bytes = number + len(lines), 0
            rest, rest_bytes = [], 0
        if not is_skipping:
            rest.append(data[cut + 1 :])
            rest_bytes += len(rest[-1])
        if rest_bytes > LINE_SIZE_BYTES_MAX:
            on_bad(_too_long(name, number))
            rest, rest_bytes, is_skipping = [], 0, True
    if rest_bytes:
        yield Block(name, number, [b"".join(rest)], stored(size_bytes))


class _Pipe:
    """Standard input: what there is, so that whoever follows a log does not wait for a full block."""

    def read(self, size: int) -> bytes:
        read: Callable[[int], bytes] = getattr(sys.stdin.buffer, "read1", sys.stdin.buffer.read)
        return read(size)


def _too_long(name: str, line: int) -> BadLine:
    error = EventError("the line is too long, in bytes", limit=LINE_SIZE_BYTES_MAX, remedy="Cut the event.")
    return BadLine(name, line, error)


def _unreadable(name: str, error: Exception) -> BadLine:
    return BadLine(name, 0, unreadable(error))
