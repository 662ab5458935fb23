"""A progress line on standard error: how much is done, how fast, and a word about it.

On a terminal the line is redrawn in place. Elsewhere (a log, a pipe) nothing is drawn until the end, when
one plain line says what was done, so that logs stay readable.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from pubsub_cluster.cli.render import number, size

BAR_WIDTH = 28
REDRAW_S = 0.1
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
        if self._shown:
            self._draw(time.perf_counter())
            sys.stderr.write("\n")
        elif kind is None:
            sys.stderr.write(self.line(time.perf_counter()) + "\n")
        sys.stderr.flush()

    def advance(self, count: int, remark: str = "") -> None:
        """Count `count` more units as done."""
        self._done += count
        self._remark = remark
        now_s = time.perf_counter()
        if self._shown and now_s - self._drawn_s >= REDRAW_S:
            self._draw(now_s)

    def line(self, now_s: float) -> str:
        """Return the line as it looks at `now_s`."""
        elapsed_s = max(now_s - self._started_s, 1e-9)
        amount = size if self._unit == "B" else number
        rate = f"{amount(self._done / elapsed_s)}/s" if self._unit == "B" else self._rate(elapsed_s)
        done = amount(self._done) if self._unit == "B" else f"{amount(self._done)} {self._unit}"
        share = ""
        if self._total:
            filled = min(BAR_WIDTH, round(BAR_WIDTH * self._done / self._total))
            bar = self._full * filled + self._empty * (BAR_WIDTH - filled)
            share = f"{bar} {min(100, round(100 * self._done / self._total)):3d} %  "
        remark = f"  {self._remark}" if self._remark else ""
        return f"  {self._label:<{LABEL_WIDTH}}{share}{done}  {rate}{remark}"

    def _rate(self, elapsed_s: float) -> str:
        return f"{number(round(self._done / elapsed_s))}/s"

    def _draw(self, now_s: float) -> None:
        self._drawn_s = now_s
        width = _terminal_width()
        sys.stderr.write("\r" + self.line(now_s)[: width - 1].ljust(width - 1))
        sys.stderr.flush()


def _terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 100
