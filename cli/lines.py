"""Lines of files and pipes, as ``load`` and ``publish`` read them.

A file may be packed with gzip, told by its first bytes as `match` does, and may begin with a byte order mark,
which is no part of its first line.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked.

    Raises
    ------
    EventError
        The file cannot be read on: it is torn, say.
    """
    from pubsub_cluster.logs.files import BYTE_ORDER_MARK, unpacked, unreadable
    from pubsub_cluster.sigma_rules.documents import UNREADABLE

    try:
        coming = iter(unpacked(file, head_of(file)))
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


def _status(file: BinaryIO) -> os.stat_result | None:
    try:
        return os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
