"""When freed memory goes back to the system: rarely by itself, and when it is told to.

A batch's arrays and messages have hundreds of kilobytes. By default the C library maps and unmaps memory for
each of them, and touching it for the first time costs more than what is done with it.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_MAPS = Path("/proc/self/maps")

KEPT_SIZE_BYTES_MAX = 16 << 20
FORGOTTEN_BYTES = 4 << 20  # 0.1 milliseconds
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def keep_memory() -> None:
    """Keep freed memory of up to `KEPT_SIZE_BYTES_MAX` for the next batch; nothing where that is unknown."""
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is not None:
        option(_M_MMAP_THRESHOLD, KEPT_SIZE_BYTES_MAX)
        option(_M_TRIM_THRESHOLD, KEPT_SIZE_BYTES_MAX)


def use_one_heap() -> None:
    """Have all threads take memory from the main heap; nothing where that is unknown.

    By default a thread has a heap of its own, and `give_back_memory` returns what is free there but not its
    end: tens of megabytes after a large build. To be called before there is another thread, and where threads
    do not allocate at the same time.
    """
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is not None:
        option(_M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Return free pages of the heap to the system: a millisecond or more; nothing where that is unknown.

    numpy asks for large pages (2 MB) where it has a large array, and that stays with the addresses when the
    array has gone: sooner or later the system would give a large page to every few bytes that are left there.
    """
    library = ctypes.CDLL(None)
    trim = getattr(library, "malloc_trim", None)
    if trim is not None:
        trim(0)
        if (start := _heap_start()) is not None:
            library.sbrk.restype = ctypes.c_void_p
            size_bytes = library.sbrk(ctypes.c_ssize_t(0)) - start
            library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size_bytes), mmap.MADV_NOHUGEPAGE)


def untouched_zeros(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of zeros whose pages come when they are touched, for one of which few ever are.

    `np.zeros` clears all of it where the memory is the heap's: after `keep_memory`, up to
    `KEPT_SIZE_BYTES_MAX`.

    Parameters
    ----------
    count : int
    dtype : dtype

    Returns
    -------
    ndarray[count]
        Its memory goes back to the system with it.
    """
    size_bytes = count * np.dtype(dtype).itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.frombuffer(mmap.mmap(-1, max(size_bytes, 1), flags=flags), dtype, count)


def forget_pages(view: npt.NDArray[Any]) -> Iterator[None]:
    """Take the pages of the map that a view is of out of this process's tables, a slice at a time.

    What would otherwise be done at once when the last view goes: several milliseconds for a large map. They
    come back if they are touched. Only for shared maps: what is written to private ones would be lost.

    Parameters
    ----------
    view : ndarray
        Of a shared segment; nothing is done for one of the heap.
    """
    owner: Any = view
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        mapped: Any = owner.obj
        for first in range(0, len(mapped), FORGOTTEN_BYTES):
            mapped.madvise(mmap.MADV_DONTNEED, first, min(FORGOTTEN_BYTES, len(mapped) - first))
            yield


def give_back_code(library: str) -> None:
    """Let go of the pages of a library's machine code, which come back from its file when they are next used.

    Loading kernels touches some 50 MB of a compiler that nothing needs from then on. Pages of code are never
    written, so nothing is lost. Nothing where that is unknown.

    Parameters
    ----------
    library : str
        Beginning of the name of its file.
    """
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is None:
        return
    for start, stop, mode, name in _mapped():
        if mode == "r-xp" and name.startswith(library):
            advise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_DONTNEED)


@functools.cache
def _heap_start() -> int | None:
    return next((start for start, _, _, name in _mapped() if name == "[heap]"), None)


def _mapped() -> Iterator[tuple[int, int, str, str]]:
    """Yield first and last address, mode and name of what this process has mapped; nothing where unknown."""
    if _MAPS.exists():
        for line in _MAPS.read_text().splitlines():
            span, mode, _, _, _, *path = line.split(maxsplit=5)
            start, stop = (int(end, 16) for end in span.split("-"))
            yield start, stop, mode, Path(path[0]).name if path else ""
