"""Lines that may hold one of some literals, many lines at a time: what most log lines fail at first.

`language.text_literals` says what must be looked for. The regular expressions made there are exact about
what passes here; they look at every byte, and are called line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, product

import numpy as np

from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import sieve as kernels
from pubsub_cluster.workers.kernels._jit import Settled

LITERAL_BYTES_MIN = 3
_WINDOW_BYTES = 4
_FREQUENT_FIRST = b'0 eaotinrs1c2l"d-m3.u4p5:_68f79hgb,\\wyvk'
"""Bytes of logs. What is not here is rarer; rare grams are seldom compared in vain."""
_FOLDING = "\u017f".encode(), "\u212a".encode()
"""The characters beyond ASCII that fold to an ASCII letter."""
_mark_lines = Settled(kernels.mark_lines)


class LineSieve:
    """Finds the lines that hold one of some literals, ignoring the case of ASCII letters.

    Parameters
    ----------
    literals : iterable of bytes
        In lower case, ASCII, of `LITERAL_BYTES_MIN` or more each; at least one.
    """

    def __init__(self, literals: Iterable[bytes]) -> None:
        found = sorted(set(literals))
        entries = sorted(
            (gram, number, before)
            for number, literal in enumerate(found)
            for before in range(_rarest_window(literal), _rarest_window(literal) + 2)
            for gram in _grams(literal[before : before + 3])
        )
        counts = np.bincount([gram for gram, _, _ in entries], minlength=1 << kernels.GRAM_BITS)
        self._literals = kernels.Literals(
            kernel_input(counts > 0, np.uint8),
            kernel_input(np.concatenate(([0], np.cumsum(counts))), np.int32),
            kernel_input(np.array([number for _, number, _ in entries]), np.int32),
            kernel_input(np.array([before for _, _, before in entries]), np.int32),
            kernel_input(np.frombuffer(b"".join(found), np.uint8), np.uint8),
            kernel_input(np.array([0, *accumulate(map(len, found))]), np.int64),
        )

    def passing(self, lines: Sequence[bytes]) -> list[bool]:
        """Return for each line whether it holds one of the literals, or a character that folds to ASCII."""
        mark = np.empty(len(lines), np.uint8)
        data = kernel_input(np.frombuffer(b"".join((*lines, b"\0")), np.uint8), np.uint8)
        stop = kernel_input(np.array(list(accumulate(map(len, lines))), np.int64), np.int64)
        _mark_lines(data, stop, self._literals, mark)
        return [
            bool(found) or not (line.isascii() or (_FOLDING[0] not in line and _FOLDING[1] not in line))
            for found, line in zip(mark.tolist(), lines, strict=True)
        ]


def _rarest_window(literal: bytes) -> int:
    """Return where the bytes of a literal begin whose grams are looked for."""
    rank = [_FREQUENT_FIRST.find(byte) % 256 for byte in literal]  # not found: 255
    places = range(max(len(literal) - _WINDOW_BYTES, 0) + 1)
    return max(places, key=lambda place: sum(rank[place : place + _WINDOW_BYTES]))


def _grams(part: bytes) -> list[int]:
    """Return the grams of two or three bytes; after two any may come."""
    bits = [(byte & 31,) for byte in part] + [tuple(range(32))] * (3 - len(part))
    return [a | b << 5 | c << 10 for a, b, c in product(*bits)]
