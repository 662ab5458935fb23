"""What a job of Spark is doing, on standard error: its stage and for how long.

Spark tells a client nothing of a job's progress that works everywhere, so that a stage has a name and a clock
and no percentage. Nothing is drawn where standard error is no terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from pubsub_cluster.cli.render import shorten

REDRAW_S = 0.5
WIDTH = 79

R = TypeVar("R")


class Stages:
    """A line that names the stage; a context manager.

    Attributes
    ----------
    seconds : float
        From the beginning to now, or to the end.
    """

    def __init__(self) -> None:
        self._name = ""
        self._begin_s = time.perf_counter()
        self._end_s: float | None = None
        self._shown = sys.stderr.isatty()
        self._done = threading.Event()
        self._clock = threading.Thread(target=self._tick, name="stages", daemon=True)

    def __enter__(self) -> Stages:
        """Start the clock."""
        if self._shown:
            self._clock.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wipe the line."""
        self._end_s = time.perf_counter()
        self._done.set()
        if self._shown:
            self._clock.join()
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def say(self, name: str) -> None:
        """Begin a stage."""
        self._name = name
        if self._shown:
            self._draw()

    def run(self, name: str, work: Callable[[], R]) -> R:
        """Do a stage."""
        self.say(name)
        return work()

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return round((self._end_s or time.perf_counter()) - self._begin_s, 2)

    def _tick(self) -> None:
        while not self._done.wait(REDRAW_S):
            self._draw()

    def _draw(self) -> None:
        self._write(f"  {self._name[:1].upper()}{self._name[1:]} ... {self.seconds:.0f} s")

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + shorten(text, WIDTH).ljust(WIDTH))
        sys.stderr.flush()
