"""The kernels of `sequence_kernels` once more, with the same signatures, plainly; they set no slots."""

from __future__ import annotations

from typing import Any


def add_all(table: Any, words: Any, stops: Any, numbers: Any, begin: int) -> int:
    """See `sequence_kernels.add_all`."""
    slots, starts, known, count = table
    keys = {tuple(known[starts[key] : starts[key + 1]].tolist()): key for key in range(count[0])}
    for at in range(begin, len(stops) - 1):
        key = tuple(words[stops[at] : stops[at + 1]].tolist())
        if key not in keys:
            new = len(keys)
            if 2 * (new + 1) > len(slots) or new + 1 >= len(starts) or starts[new] + len(key) > len(known):
                return at
            known[starts[new] : starts[new] + len(key)] = key
            starts[new + 1] = starts[new] + len(key)
            keys[key] = new
            count[0] += 1
        numbers[at] = keys[key]
    return len(stops) - 1
