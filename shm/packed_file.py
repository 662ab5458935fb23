"""A file of named columns: complete and checked, or refused.

    magic and format, 64 bytes | section | section | ... | contents, JSON | 40 bytes: where they are, checksum

Sections begin at multiples of 64 bytes and are raw arrays in little-endian order; each has a CRC-32 in the
contents, which have one in the last bytes of the file. A file is written beside its place, synchronised, and
renamed to it, so whatever has the name is complete, unless the disk damaged it: then it is refused, and the
error says what was found.

It is synchronised in steps: whoever makes anything else durable meanwhile waits behind all that the disk has
been given, and a change of the catalogue would wait for a whole snapshot.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson

from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.shm.fault_points import fault_point

MAGIC = b"PSCPACK\n"
END_MAGIC = b"PSCDONE\n"
PACKED_FORMAT = 1
ALIGN_BYTES = 64
PART_SUFFIX = ".part"
STEP_SIZE_BYTES = 1 << 20
WRITE_SIZE_BYTES = 128 << 10
"""The system copies in one go what it is given, and nobody else gets that processor meanwhile: of those that
wake there, one in a hundred waits 2.4 ms while megabytes are written one by one, and 0.4 ms with this."""
_HEAD = struct.Struct("<8sI52x")
_TAIL = struct.Struct("<QQII8s8x")  # where the contents start, their bytes, their CRC-32, format, magic


class PackedWriter:
    """Writes a packed file; use as a context manager, and `finish` within.

    Parameters
    ----------
    path : Path
        What has this name is replaced by `finish`, not before.
    kind : str
        What the file is; `PackedFile` asks for it.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._path = path
        self._part = path.with_name(path.name + PART_SUFFIX)
        self._kind = kind
        self._sections: list[dict[str, Any]] = []
        self._waiting_bytes = 0  # written since the last synchronisation
        self._file: BinaryIO

    def __enter__(self) -> PackedWriter:
        descriptor = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._file.write(_HEAD.pack(MAGIC, PACKED_FORMAT))
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.close()  # on a full disk what is still in its buffer raises here again
        finally:
            self._part.unlink(missing_ok=True)

    @fault_point("packed.add")
    def add(self, name: str, column: npt.NDArray[Any]) -> None:
        """Append a column."""
        array = np.ascontiguousarray(column)
        data = memoryview(array.view(np.uint8).data) if array.size else memoryview(b"")
        self._begin()
        self._sections.append(
            {
                "name": name,
                "dtype": array.dtype.newbyteorder("<").str,
                "start": self._file.tell(),
                "count": len(array),
                "crc": zlib.crc32(data),
            }
        )
        for first in range(0, len(data), WRITE_SIZE_BYTES):
            step = data[first : first + WRITE_SIZE_BYTES]
            self._file.write(step)
            self._waiting_bytes += len(step)
            if self._waiting_bytes >= STEP_SIZE_BYTES:
                self._synchronise()

    @fault_point("packed.finish")
    def finish(self, facts: dict[str, Any]) -> int:
        """Write the contents with `facts`, put the file in its place; return its size in bytes."""
        start = self._file.tell()
        contents = orjson.dumps({"kind": self._kind, "facts": facts, "sections": self._sections})
        self._file.write(contents)
        crc = zlib.crc32(contents)
        self._file.write(_TAIL.pack(start, len(contents), crc, PACKED_FORMAT, END_MAGIC))
        size_bytes = self._file.tell()
        self._synchronise()
        put_in_place(self._part, self._path)
        return size_bytes

    @fault_point("packed.sync")
    def _synchronise(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._waiting_bytes = 0

    def _begin(self) -> None:
        self._file.write(bytes(-self._file.tell() % ALIGN_BYTES))


@fault_point("packed.rename")
def put_in_place(part: Path, path: Path) -> None:
    """Give a complete file its name, durably."""
    os.replace(part, path)
    _synchronise_names(path.parent)


@fault_point("packed.names")
def _synchronise_names(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class PackedFile:
    """A packed file, mapped; made by `opened`.

    Attributes
    ----------
    path : Path
    facts : dict
    """

    def __init__(self, path: Path, data: memoryview, contents: dict[str, Any]) -> None:
        self.path = path
        self.facts: dict[str, Any] = contents["facts"]
        self._data = data
        self._sections = {section["name"]: section for section in contents["sections"]}

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._sections)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column after checking it; read-only, and valid while the file is open.

        Raises
        ------
        StoreError
            It is not there, or its bytes are not those that were written.
        """
        section = self._sections.get(name)
        if section is None:
            raise _refused(self.path, f"the column {name} is missing", sorted(self._sections))
        dtype = np.dtype(section["dtype"])
        size_bytes = dtype.itemsize * section["count"]
        data = self._data[section["start"] : section["start"] + size_bytes]
        if zlib.crc32(data) != section["crc"]:
            raise _refused(self.path, f"the column {name} is damaged", zlib.crc32(data), section["crc"])
        return np.frombuffer(data, dtype)

    def check(self) -> None:
        """Raise `StoreError` unless every column is as it was written."""
        for name in self._sections:
            self.column(name)


@contextlib.contextmanager
def opened(path: Path, kind: str) -> Iterator[PackedFile]:
    """Map a packed file.

    Raises
    ------
    StoreError
        It cannot be read, is none, is of another format or kind, or is not complete.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe might be waited for without end
            raise StoreError("this is no regular file", seen=str(path), remedy="Give another path.")
        if not path.stat().st_size:
            raise StoreError("the file is empty", seen=str(path), remedy="Give another one.")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise StoreError("there is no such file", seen=str(path), remedy="Give another path.") from None
    except (OSError, ValueError) as error:
        raise StoreError("the file cannot be read", seen=f"{error} ({path})") from error
    data = memoryview(mapped)
    yield PackedFile(path, data, _contents(path, data, kind))
    # Unmapped with the last array that looks into it.


def _contents(path: Path, data: memoryview, kind: str) -> dict[str, Any]:
    if len(data) < _HEAD.size or data[:8] != MAGIC:
        raise _refused(path, "it is no file of this kind", bytes(data[:8]).hex(), MAGIC.hex())
    _, found_format = _HEAD.unpack(data[: _HEAD.size])
    if found_format != PACKED_FORMAT:
        raise _refused(path, "it is of another format", found_format, PACKED_FORMAT)
    if len(data) < _HEAD.size + _TAIL.size:
        raise _refused(path, "it is cut short", f"{len(data)} bytes")
    start, size_bytes, crc, _, magic = _TAIL.unpack(data[-_TAIL.size :])
    end = len(data) - _TAIL.size
    if magic != END_MAGIC or start + size_bytes != end:
        raise _refused(path, "it is cut short", f"{len(data)} bytes")
    body = data[start:end]
    if zlib.crc32(body) != crc:
        raise _refused(path, "its contents are damaged", zlib.crc32(body), crc)
    contents: dict[str, Any] = orjson.loads(bytes(body))
    if contents["kind"] != kind:
        raise _refused(path, "it is of another kind", contents["kind"], kind)
    return contents


def _refused(path: Path, what: str, seen: Any, limit: Any = None) -> StoreError:
    return StoreError(
        f"the file {path.name} cannot be used: {what}",
        seen=seen,
        limit=limit,
        remedy="It is damaged or of another version; nothing was changed. Use another one.",
        path=str(path),
    )
