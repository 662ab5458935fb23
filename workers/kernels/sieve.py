"""Lines that hold one of some literals, whatever the case of ASCII letters: every other place is looked at.

Of each literal two neighbouring *grams* of three bytes were chosen. Wherever the literal lies in a line, one
of them begins at an even place, so grams at even places are looked up, and the literals of those that are
known compared. Of a byte a gram has five bits, which cases of a letter share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel, routine

GRAM_BITS = 15


class Literals(NamedTuple):
    """Literals in lower case, n of them, and entries by gram."""

    is_known: Any  # uint8[2**GRAM_BITS], by gram
    entry_start: Any  # int32[2**GRAM_BITS+1], by gram
    literal: Any  # int32[k], by entry
    before: Any  # int32[k], by entry: bytes of the literal before the gram
    text: Any  # uint8[], all literals
    text_start: Any  # int64[n+1]


@routine
def is_literal(data: Any, begin: Any, end: Any, at: Any, gram: Any, literals: Any) -> Any:
    """Return whether a literal lies around the known gram at `at`, within the line."""
    for entry in range(literals.entry_start[gram], literals.entry_start[gram + 1]):
        number = literals.literal[entry]
        place = at - literals.before[entry]
        first, last = literals.text_start[number], literals.text_start[number + 1]
        if place < begin or place + last - first > end:
            continue
        i = first
        while i < last:
            byte = np.int64(data[place + i - first])
            if byte >= 65 and byte <= 90:
                byte += 32
            if byte != literals.text[i]:
                break
            i += 1
        if i == last:
            return True
    return False


@kernel
def mark_lines(data: Any, stop: Any, literals: Any, mark: Any) -> None:
    """Mark every line, of those that stop at `stop`, with 1 if it holds one of the literals, else 0.

    Parameters
    ----------
    data : uint8[]
        The lines, one after the other, and a byte.
    stop : int64[m]
    literals : Literals
        Of three bytes or more each.
    mark : uint8[m]
    """
    begin = 0
    for line in range(len(stop)):
        end = stop[line]
        mark[line] = 0
        at = begin
        while at < end - 1:
            gram = (
                (np.int64(data[at]) & 31)
                | (np.int64(data[at + 1]) & 31) << 5
                | (np.int64(data[at + 2]) & 31) << 10
            )
            if literals.is_known[gram] and is_literal(data, begin, end, at, gram, literals):
                mark[line] = 1
                break
            at += 2
        begin = end
