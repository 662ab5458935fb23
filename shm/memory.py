"""When freed memory goes back to the system: rarely by itself, and when it is told to.

A batch's arrays and messages have hundreds of kilobytes. By default the C library maps and unmaps memory for
each of them, and touching it for the first time costs more than what is done with it.
"""

from __future__ import annotations

import ctypes

KEPT_SIZE_BYTES_MAX = 16 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_memory() -> None:
    """Keep freed memory of up to `KEPT_SIZE_BYTES_MAX` for the next batch; nothing where that is unknown."""
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is not None:
        option(_M_MMAP_THRESHOLD, KEPT_SIZE_BYTES_MAX)
        option(_M_TRIM_THRESHOLD, KEPT_SIZE_BYTES_MAX)


def give_back_memory() -> None:
    """Return free pages of the heap to the system; costs about a millisecond, nothing where it is unknown."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
