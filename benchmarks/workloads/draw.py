"""Random numbers that are the same everywhere: a hash of (seed, stream, row, column), nothing else.

NumPy promises the same stream only within a version; a hash also gives any slice of a workload alone, which
is what a partition of a distributed job needs. The mixing is splitmix64's (Steele, Lea, Flood 2014).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint64]
F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
COLUMNS_MAX = 1 << 16
ROWS_PER_STEP = 1 << 20


def words(seed: int, stream: int, first_row: int, rows: int, columns: int) -> U8:
    """Return uint64[rows, columns], uniform over all 64-bit words.

    Parameters
    ----------
    seed, stream : int
        A workload's seed, and which of its quantities is drawn.
    first_row, rows : int
        Rows [first_row, first_row + rows).
    columns : int
        At most `COLUMNS_MAX`, fixed per stream.
    """
    assert columns <= COLUMNS_MAX
    base: U8 = _mix(np.array([seed], np.uint64)) + np.uint64(stream)
    base = _mix(base)
    out = np.empty((rows, columns), np.uint64)
    for start in range(0, rows, ROWS_PER_STEP):
        stop = min(start + ROWS_PER_STEP, rows)
        row = np.arange(first_row + start, first_row + stop, dtype=np.uint64)[:, None]
        counter = row * np.uint64(COLUMNS_MAX) + np.arange(columns, dtype=np.uint64)
        out[start:stop] = _mix(np.asarray(counter * _GAMMA + base, np.uint64))
    return out


def _mix(value: U8) -> U8:
    with np.errstate(over="ignore"):
        value = (value ^ (value >> np.uint64(30))) * _FIRST
        value = (value ^ (value >> np.uint64(27))) * _SECOND
        return value ^ (value >> np.uint64(31))


def uniform(word: U8) -> F8:
    """Return floats in [0, 1) with 53 bits."""
    return np.asarray(word >> np.uint64(11), np.float64) * 2.0**-53


def below(word: U8, bound: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return integers in [0, bound); `bound` below 2**31, one or an array that broadcasts."""
    high = word >> np.uint64(32)
    return ((high * np.asarray(bound, np.uint64)) >> np.uint64(32)).astype(np.int32)


def distinct(word: U8, count: int) -> npt.NDArray[np.int32]:
    """Return `count` distinct column numbers per row, in random order: those of the smallest words."""
    columns = word.shape[1]
    # The column number takes the low bits: words are distinct, and smallest ones mean the same everywhere.
    mask = np.uint64(COLUMNS_MAX - 1)
    key = (word & ~mask) | np.arange(columns, dtype=np.uint64)
    if count < columns:
        key = np.partition(key, count - 1, axis=1)[:, :count]
    return (np.sort(key, axis=1) & mask).astype(np.int32)
