"""Entries: what is packed into sections, and the shape of their residuals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import I4, I8

Bools = npt.NDArray[np.bool_]

_SHAPE_BITS = 20


class Entries(NamedTuple):
    """What is to be found through slots, or through the keys of one table.

    Attributes
    ----------
    key : int64[e]
        Slot or key.
    target : int32[e]
        Layout row, or ``~program``.
    residual_start : int64[e]
    shape : int64[e]
        Flag, interval and test literals of each entry (`shape_code`), in this order in `residual`; entries
        may share them.
    residual : int32[]
    once : bool[e]
        The target is a row that no other entry leads to.
    digits : int32[e, k] or None
        Where equal keys may be of different accesses: what they stand for.
    cells : int
        How many of the last residuals of each entry are likely to hold.
    """

    key: I8
    target: I4
    residual_start: I8
    shape: I8
    residual: I4
    once: Bools
    digits: I4 | None = None
    cells: int = 0

    def pick(self, kept: Bools) -> Entries:
        """Return some of them."""
        digits = None if self.digits is None else self.digits[kept]
        mine = (self.key[kept], self.target[kept], self.residual_start[kept], self.shape[kept])
        return Entries(*mine, self.residual, self.once[kept], digits, self.cells)


def shape_code(flags: Any, intervals: Any, tests: Any) -> Any:
    """Return the number of literals of each sort as one number."""
    return (flags << 2 * _SHAPE_BITS) | (intervals << _SHAPE_BITS) | tests


def shape_counts(shape: Any) -> tuple[Any, Any, Any]:
    """Return the number of literals of each sort."""
    mask = (1 << _SHAPE_BITS) - 1
    return shape >> 2 * _SHAPE_BITS, (shape >> _SHAPE_BITS) & mask, shape & mask


def distinct_of(values: I8) -> I8:
    """Return the distinct values, ascending; quick where all are the same, as shapes often are."""
    if len(values) and bool((values == values[0]).all()):
        return values[:1]
    return np.unique(values)
