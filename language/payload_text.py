"""Columns of text without an object per value: NumPy's fixed-width strings become UTF-8."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_ASCII_MAX = 0x7F
_SURROGATES = (0xD800, 0xDFFF)
_CODE_POINT_MAX = 0x10FFFF


class Utf8Values(NamedTuple):
    """Texts as a payload has them.

    Attributes
    ----------
    offsets : int64[k + 1]
        From 0 to the size of `data`.
    data : uint8[]
    """

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]

    def tolist(self) -> list[str]:
        """Return the texts as Python objects."""
        data, bounds = self.data.tobytes(), self.offsets.tolist()
        return [data[lo:hi].decode() for lo, hi in itertools.pairwise(bounds)]


def utf8_of_array(array: npt.NDArray[Any]) -> Utf8Values | None:
    """Return the texts of an array of dtype ``U`` as UTF-8; None when some are no valid Unicode.

    As everywhere in NumPy, the null characters at the end of a text are not part of it.
    """
    width = array.dtype.itemsize // 4
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    point = native.view(np.uint32).reshape(len(array), width)
    count = np.zeros(len(array), np.int64)
    for at in range(width):  # one pass per character: the last one that is not null counts
        count[point[:, at] != 0] = at + 1
    used = point[np.arange(width) < count[:, None]]
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(count, out=offsets[1:])
    if used.size == 0 or int(used.max()) <= _ASCII_MAX:
        return Utf8Values(offsets, used.astype(np.uint8))
    if int(used.max()) > _CODE_POINT_MAX or ((used >= _SURROGATES[0]) & (used <= _SURROGATES[1])).any():
        return None
    size = 1 + (used >= 0x80) + (used >= 0x800) + (used >= 0x10000)
    start = np.zeros(len(used) + 1, np.int64)
    np.cumsum(size, out=start[1:])
    data = np.empty(int(start[-1]), np.uint8)
    for bytes_count, lead in ((1, 0x00), (2, 0xC0), (3, 0xE0), (4, 0xF0)):
        mine = np.flatnonzero(size == bytes_count)
        rest: npt.NDArray[Any] = used[mine]
        for step in range(bytes_count - 1, 0, -1):
            data[start[mine] + step] = 0x80 | (rest & 0x3F)
            rest = rest >> 6
        data[start[mine]] = lead | rest
    return Utf8Values(start[offsets], data)
