"""Columns of ``datetime64``: microseconds since the epoch, whatever unit they have.

NumPy's own conversion turns what 64 bits do not hold into some other instant, without a word.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.limits import INT64_MAX

_LONGER_US = {
    "W": 7 * 86_400 * 10**6, "D": 86_400 * 10**6, "h": 3_600 * 10**6, "m": 60 * 10**6, "s": 10**6, "ms": 10**3
}  # fmt: skip
_SHORTER_PER_US = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
_YEARS_MAX = 10**12


def instants_of(
    array: npt.NDArray[np.datetime64], valid: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64] | list[int | None]:
    """Return microseconds since the epoch, rounded down.

    Parameters
    ----------
    array : datetime64[event_count]
    valid : bool[event_count]
        Which of them are instants.

    Returns
    -------
    int64[event_count], or list of int or None
        A list, None where there is no instant, if 64 bits do not hold all: the events with those that they
        do not hold are refused like any with such a number, and no others.
    """
    unit, step = np.datetime_data(array.dtype)
    if unit in ("Y", "M"):
        near = array.astype(np.int64).clip(-_YEARS_MAX, _YEARS_MAX)  # days of more would not be right either
        array, unit, step = near.astype(array.dtype).astype("datetime64[D]"), "D", 1
    if unit in _LONGER_US:
        counts, step_us = array.astype(np.int64), step * _LONGER_US[unit]
        far = (counts > INT64_MAX // step_us) | (counts < -(INT64_MAX // step_us))
        if (far & valid).any():
            pairs = zip(counts.tolist(), valid.tolist(), strict=True)
            return [count * step_us if is_valid else None for count, is_valid in pairs]
    elif unit in _SHORTER_PER_US and step == 1:  # NumPy's own rounding steps over the smallest number
        return np.floor_divide(array.astype(np.int64), _SHORTER_PER_US[unit])
    return array.astype("datetime64[us]").astype(np.int64)
