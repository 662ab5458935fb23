"""A progress line on standard error: how much is done, how fast, and a word about it.

On a terminal the line is redrawn in place, and appears only when the work takes longer than a moment.
Elsewhere (a log, a pipe) nothing is drawn: what a command has done is said by its result.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from pubsub_cluster.cli.render import number, shorten, size

BAR_WIDTH = 28
BAR_WIDTH_NARROW = 12
BAR_WIDTH_MIN = 8
ROOMY_WIDTH = 108
REDRAW_S = 0.1
APPEAR_S = 0.5
LABEL_WIDTH = 12
FULL, EMPTY = "█", "░"
ASCII_FULL, ASCII_EMPTY = "#", "."


class Progress:
    """A progress line; a context manager.

    Parameters
    ----------
    label : str
    total : int or None
        In `unit`; None when it is not known.
    unit : str
        ``B`` for bytes, else a word.
    """

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._done = 0
        self._remark = ""
        self._drawn_s = 0.0
        self._shown = sys.stderr.isatty()
        utf8 = (sys.stderr.encoding or "").lower().replace("-", "") == "utf8"
        self._full, self._empty = (FULL, EMPTY) if utf8 else (ASCII_FULL, ASCII_EMPTY)
        self._started_s = time.perf_counter()

    def __enter__(self) -> Progress:
        """Start the clock."""
        self._started_s = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Draw the last state and leave the line."""
        if self._drawn_s:
            self._draw(time.perf_counter())
            sys.stderr.write("\n")
            sys.stderr.flush()

    def advance(self, count: int, remark: str = "") -> None:
        """Count `count` more units as done."""
        self._done += count
        self._remark = remark
        now_s = time.perf_counter()
        if self._shown and now_s - self._started_s >= APPEAR_S and now_s - self._drawn_s >= REDRAW_S:
            self._draw(now_s)

    def line(self, now_s: float, width_max: int = 200) -> str:
        """Return the line as it looks at `now_s`, at most `width_max` wide; the bar gives way first."""
        elapsed_s = max(now_s - self._started_s, 1e-9)
        amount = size if self._unit == "B" else number
        rate = f"{amount(self._done / elapsed_s)}/s" if self._unit == "B" else self._rate(elapsed_s)
        done = amount(self._done) if self._unit == "B" else f"{amount(self._done)} {self._unit}"
        remark = f"  {self._remark}" if self._remark else ""
        head, tail = f"  {self._label:<{LABEL_WIDTH}}", f"{done}  {rate}{remark}"
        if self._total:
            share = min(1.0, self._done / self._total)
            percent = f" {round(100 * share):3d} %  "
            room = width_max - len(head) - len(percent) - len(tail)
            roomy = BAR_WIDTH if width_max >= ROOMY_WIDTH else BAR_WIDTH_NARROW
            width = min(roomy, max(BAR_WIDTH_MIN, room))
            filled = round(width * share)
            head += self._full * filled + self._empty * (width - filled) + percent
        return shorten(head + tail, width_max)

    def _rate(self, elapsed_s: float) -> str:
        return f"{number(round(self._done / elapsed_s))}/s"

    def _draw(self, now_s: float) -> None:
        self._drawn_s = now_s
        width = _terminal_width()
        sys.stderr.write("\r" + self.line(now_s, width - 1).ljust(width - 1))
        sys.stderr.flush()


def _terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 100
