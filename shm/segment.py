"""One wrapper around `multiprocessing.shared_memory.SharedMemory` that closes its traps.

- The standard resource tracker unlinks a segment under its living owner as soon as any process that had
  attached it ends. Python 3.13 has ``track=False``; before, the constructor's code runs here with a private
  copy of its globals in which the tracker does nothing: no global is patched, no tracker process starts.
- ``close()`` under a live NumPy view raises or crashes. Here closing only lets go: the map belongs to its
  views (all made by `np.frombuffer`) and goes with the last of them, in any order, silently.
- A failed attach calls ``unlink()``; here it does not. Nothing is ever unlinked but by an explicit call.
- A tmpfs file may be larger than its file system; touching it then kills with SIGBUS. So the size is
  compared with the free space and the pages are reserved (`os.posix_fallocate`) before use, all at once or
  range by range (*sparse* segments: a large virtual size, of which only reserved ranges may be touched; even
  reading elsewhere takes a page).

Names say who answers for a segment (`shm.owner`). A segment never changes its size.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from multiprocessing import shared_memory
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm.header import (
    HEADER_SIZE_BYTES,
    LAYOUT_VERSION,
    Stamp,
    check_stamp,
    read_stamp,
    write_stamp,
)
from pubsub_cluster.shm.owner import (
    SHM_DIRECTORY,
    Owner,
    SegmentName,
    current_owner,
    free_shared_bytes,
    list_segments,
    parse_name,
    sweep_dead,
    unlink_segment,
)

__all__ = [
    "AnySegment",
    "Owner",
    "PrivateSegment",
    "Segment",
    "SegmentName",
    "current_owner",
    "free_shared_bytes",
    "list_segments",
    "parse_name",
    "sweep_dead",
    "unlink_segment",
]

_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


if sys.version_info >= (3, 13):

    def _construct(memory: _Memory, name: str, create: bool, size: int) -> None:
        shared_memory.SharedMemory.__init__(memory, name, create, size, track=False)

else:

    class _NoTracker:
        """Stands in for `multiprocessing.resource_tracker` in the constructor's private globals."""

        @staticmethod
        def register(name: str, kind: str) -> None:
            """Register nothing."""

        unregister = register

    _construct = FunctionType(
        shared_memory.SharedMemory.__init__.__code__,
        {**vars(shared_memory), "resource_tracker": _NoTracker},
        "_construct",
        shared_memory.SharedMemory.__init__.__defaults__,
    )


class _Memory(shared_memory.SharedMemory):
    """`SharedMemory` without a tracker, whose map outlives it as long as there are views."""

    _fd: int
    _buf: Any
    _mmap: Any
    _creates = False

    def __init__(self, name: str, *, create: bool = False, size: int = 0) -> None:
        self._creates = create
        _construct(self, name, create, size)

    @property
    def descriptor(self) -> int:
        """File descriptor of the segment, for `os.posix_fallocate` and `os.fstat`."""
        return self._fd

    @property
    def bytes(self) -> memoryview:
        """The whole segment."""
        assert self.buf is not None, "used after close"
        return self.buf

    def close(self) -> None:
        # Dropped, not closed: the map is unmapped by the last view that refers to it.
        self._buf = None
        self._mmap = None
        super().close()

    def unlink(self) -> None:
        # The constructor calls this when it fails, also when it only attaches.
        if self._creates:
            unlink_segment(self.name)

    def __del__(self) -> None:
        try:  # noqa: SIM105 (contextlib may be gone when the interpreter ends)
            self.close()
        except Exception:
            pass


class _Views:
    """Typed views of a buffer; the common part of shared and private segments."""

    name: str
    size_bytes: int
    writable: bool
    _buffer: memoryview | None

    def array(self, dtype: npt.DTypeLike, offset_bytes: int, count: int) -> npt.NDArray[Any]:
        """Return a view of `count` items of `dtype` that starts at `offset_bytes`.

        The view keeps the map alive; it is read-only unless the segment is writable.

        Raises
        ------
        SegmentError
            The view would leave the segment or be unaligned, or the segment is closed.
        """
        if self._buffer is None:
            raise SegmentError(f"segment {self.name} is closed")
        item = np.dtype(dtype)
        end_bytes = offset_bytes + item.itemsize * count
        if offset_bytes < 0 or count < 0 or end_bytes > self.size_bytes or offset_bytes % item.alignment:
            raise SegmentError(
                f"view outside segment {self.name} or unaligned",
                seen=f"{count} x {item} at byte {offset_bytes}",
                limit=f"{self.size_bytes} bytes",
            )
        if count == 0:
            view: npt.NDArray[Any] = np.empty(0, item)
            view.flags.writeable = self.writable
            return view
        return np.frombuffer(self._buffer, item, count, offset_bytes)

    def close(self) -> None:
        """Let go of the segment; views stay valid. May be called again."""
        self._buffer = None


class PrivateSegment(_Views):
    """The same interface over private memory of this process: untouched pages cost nothing.

    Parameters
    ----------
    size_bytes : int
        Virtual size.
    """

    def __init__(self, size_bytes: int) -> None:
        self.name = "(private)"
        self.size_bytes = size_bytes
        self.writable = True
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        try:
            self._buffer = memoryview(mmap.mmap(-1, size_bytes, flags=flags))
        except (OSError, ValueError, OverflowError) as error:
            raise SegmentError("cannot map private memory", seen=size_bytes, remedy=str(error)) from error

    def reserve(self, offset_bytes: int, length_bytes: int) -> None:
        """Do nothing: the kernel gives private pages on first touch."""

    def unlink(self) -> None:
        """Do nothing: private memory has no name."""


class Segment(_Views):
    """A shared-memory segment, stamped (`shm.header`) and named after its owner.

    Made by `create` or `attach` only.

    Attributes
    ----------
    name : str
    size_bytes : int
        Size of the whole segment, the 64-byte stamp included.
    writable : bool
    stamp : Stamp
    """

    def __init__(self, memory: _Memory, stamp: Stamp, writable: bool) -> None:
        self._memory = memory
        self._buffer = memory.bytes if writable else memory.bytes.toreadonly()
        self.name = memory.name
        self.size_bytes = len(memory.bytes)
        self.stamp = stamp
        self.writable = writable

    @classmethod
    def create(
        cls,
        kind: str,
        generation: int,
        size_bytes: int,
        owner: Owner,
        reserve: bool = True,
        layout_version: int = LAYOUT_VERSION,
    ) -> Segment:
        """Create a segment, filled with zeros, mode 0600.

        Parameters
        ----------
        kind : str
            Lower-case letters and underscores, at most 16.
        size_bytes : int
            Size with the stamp.
        owner : Owner
            Process that answers for the segment: when it is dead, `sweep_dead` unlinks it.
        reserve : bool
            Reserve all pages now; False makes a sparse segment, of which only the stamp is reserved.

        Raises
        ------
        SegmentError
            Not enough room (need and free bytes), or the name is taken.
        """
        name = str(SegmentName(owner, kind, generation))
        if parse_name(name) is None:
            raise SegmentError("not a name for a segment", seen=name, limit="see shm.owner")
        if size_bytes < HEADER_SIZE_BYTES:
            raise SegmentError("a segment holds at least its stamp", seen=size_bytes, limit=HEADER_SIZE_BYTES)
        reserved_bytes = size_bytes if reserve else HEADER_SIZE_BYTES
        free_bytes = free_shared_bytes()
        if free_bytes is not None and reserved_bytes > free_bytes:
            raise _no_room(name, reserved_bytes)
        try:
            memory = _Memory(name, create=True, size=size_bytes)
        except FileExistsError as error:
            raise SegmentError(f"segment {name} exists", remedy="Generations are never used twice") from error
        except (OSError, ValueError, OverflowError) as error:
            raise SegmentError(f"cannot create segment {name}", seen=size_bytes, remedy=str(error)) from error
        stamp = Stamp(
            kind,
            layout_version,
            generation,
            owner.pid,
            owner.start_time_ticks,
            size_bytes - HEADER_SIZE_BYTES,
        )
        segment = cls(memory, stamp, writable=True)
        try:
            segment.reserve(0, reserved_bytes)
            write_stamp(memory.bytes, stamp)
        except BaseException:
            segment.unlink()
            raise
        return segment

    @classmethod
    def attach(
        cls, name: str, writable: bool = False, layout_version: int | None = LAYOUT_VERSION
    ) -> Segment:
        """Map an existing segment after checking its owner, its size and its stamp.

        Parameters
        ----------
        writable : bool
            False gives read-only views that cannot be made writable.
        layout_version : int or None
            Version that the stamp must have; None takes any.

        Raises
        ------
        SegmentError
            Missing, foreign, or with another stamp than expected (which says expected and found).
        """
        parts = parse_name(name)
        if parts is None:
            raise SegmentError("not the name of a segment", seen=name)
        try:
            memory = _Memory(name)
        except FileNotFoundError as error:
            raise SegmentError(
                f"segment {name} is missing", remedy="Its owner has unlinked it or is gone"
            ) from error
        except (OSError, ValueError) as error:
            raise SegmentError(f"cannot attach segment {name}", remedy=str(error)) from error
        user = os.fstat(memory.descriptor).st_uid
        if user != os.geteuid():
            raise SegmentError(f"segment {name} belongs to another user", seen=user, limit=os.geteuid())
        stamp = read_stamp(memory.bytes, name)
        expected = stamp._replace(
            kind=parts.kind,
            generation=parts.generation,
            owner_pid=parts.owner.pid,
            owner_start_ticks=parts.owner.start_time_ticks,
            layout_version=stamp.layout_version if layout_version is None else layout_version,
        )
        check_stamp(stamp, expected, name)
        return cls(memory, stamp, writable)

    def reserve(self, offset_bytes: int, length_bytes: int) -> None:
        """Make sure that the range has pages, so that touching it cannot fail.

        Raises
        ------
        SegmentError
            No room; says the bytes needed and free. What was reserved before stays.
        """
        if length_bytes <= 0:
            return
        if self._buffer is None or offset_bytes < 0 or offset_bytes + length_bytes > self.size_bytes:
            raise SegmentError(
                f"range outside segment {self.name}, or it is closed",
                seen=f"{length_bytes} bytes at byte {offset_bytes}",
                limit=self.size_bytes,
            )
        try:
            os.posix_fallocate(self._memory.descriptor, offset_bytes, length_bytes)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EDQUOT):
                raise _no_room(self.name, length_bytes) from error
            raise SegmentError(f"cannot reserve pages of segment {self.name}", remedy=str(error)) from error

    def close(self) -> None:
        """Let go of the map and of the descriptor; views stay valid. May be called again."""
        super().close()
        self._memory.close()

    def unlink(self) -> None:
        """Remove the name; maps of any process stay valid. May be called again."""
        unlink_segment(self.name)


AnySegment: TypeAlias = Segment | PrivateSegment


def _no_room(name: str, need_bytes: int) -> SegmentError:
    free_bytes = free_shared_bytes()
    return SegmentError(
        f"no room in {SHM_DIRECTORY} for segment {name}: {need_bytes} bytes needed, {free_bytes} free",
        remedy=f"Make {SHM_DIRECTORY} larger (containers: --shm-size) or remove what fills it",
        need_bytes=need_bytes,
        free_bytes=free_bytes,
    )
