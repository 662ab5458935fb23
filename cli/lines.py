"""Lines of files and pipes, as ``load``, ``publish`` and ``unsubscribe`` read them.

A file may be packed with gzip, told by its first bytes as `match` does, and may begin with a byte order mark,
which is no part of its first line. Of a pipe, lines are given as they come; whoever gathers them is told when
they have waited long enough.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

WAIT_S = 0.1
"""Longest wait of a line for others to go with."""
READ_SIZE_BYTES = 1 << 16
PAUSE = b""
"""No line, not even an empty one: those before it are to wait no longer."""


def read_lines(file: BinaryIO, with_pauses: bool = False) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked; of a pipe, `with_pauses` has `PAUSE` between them.

    Raises
    ------
    EventError
        The file cannot be read on: it is torn, say.
    """
    from pubsub_cluster.logs.files import BYTE_ORDER_MARK, unpacked, unreadable
    from pubsub_cluster.sigma_rules.documents import UNREADABLE

    try:
        lines: Iterable[bytes] = unpacked(file, head_of(file))
        if with_pauses and lines is file and _is_pipe(file):
            lines = _as_they_come(file)
        coming = iter(lines)
        if first := next(coming, b"").removeprefix(BYTE_ORDER_MARK):
            yield first
        yield from coming
    except UNREADABLE as error:
        raise unreadable(error) from None


def size_bytes_of(file: BinaryIO) -> int | None:
    """Return how many bytes of lines a file has; None where that is not known before they are read."""
    from pubsub_cluster.logs.files import is_packed

    found = _status(file)
    if found is None or not stat.S_ISREG(found.st_mode) or is_packed(head_of(file)):
        return None
    return found.st_size


def head_of(file: Any) -> bytes:
    """Return first bytes of a file that nobody has read of, and leave them there; none if it cannot be."""
    peek = getattr(file, "peek", None)
    return b"" if peek is None else bytes(peek(2))


def _is_pipe(file: BinaryIO) -> bool:
    found = _status(file)
    return found is not None and not stat.S_ISREG(found.st_mode)


def _status(file: BinaryIO) -> os.stat_result | None:
    try:
        return os.fstat(file.fileno())
    except (OSError, ValueError):
        return None


def _as_they_come(file: Any) -> Iterator[bytes]:
    rest: list[bytes] = []  # the beginning of a line whose end has not come yet
    deadline: float | None = None  # of the first line since the last pause
    while True:
        # What `read1` leaves in the file's own buffer is nothing: `select` sees all that there is.
        if deadline is not None and not _has_more(file, deadline - time.monotonic()):
            deadline = None
            yield PAUSE
        data = file.read1(READ_SIZE_BYTES)
        if not data:
            break
        *ended, last = data.split(b"\n")
        for line in ended:
            if deadline is None:
                deadline = time.monotonic() + WAIT_S
            yield b"".join((*rest, line, b"\n"))
            rest = []
        if last:
            rest.append(last)
    if rest:
        yield b"".join(rest)


def _has_more(file: BinaryIO, wait_s: float) -> bool:
    return bool(select.select([file], [], [], max(wait_s, 0.0))[0])
