"""Timing: passes that check their answer, interleaved, with their spread.

A *run* has a method ``run() -> int64[n]`` that matches all its events and returns the matches of each. What
is compared runs in one process, pass by pass in turn (A B A B), so that a slow moment of the machine meets
both; a ratio is taken within each turn, and its spread over the turns is told.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.memory import give_back_memory

I8 = npt.NDArray[np.int64]
_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """The most resident memory that a block of work took beyond what there was before.

    The kernel keeps the mark, so nothing is sampled and the work is not slowed down. What earlier work has
    freed goes back to the system first, or the block would seem to need less.

    Attributes
    ----------
    taken_bytes : int or None
        After the block; None where the kernel does not let a process reset its mark.
    """

    taken_bytes: int | None = None

    def __enter__(self) -> PeakMemory:
        give_back_memory()
        try:
            _CLEAR_REFS.write_text("5")
            self._before_bytes = _status_bytes("VmRSS")
        except OSError:
            self._before_bytes = -1
        return self

    def __exit__(self, *_: object) -> None:
        if self._before_bytes >= 0:
            self.taken_bytes = _status_bytes("VmHWM") - self._before_bytes


def _status_bytes(name: str) -> int:
    """Return a size that the kernel tells of this process."""
    found = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return int(found[name].split()[0]) << 10


class Run(Protocol):
    """Something that matches a fixed list of events."""

    def run(self) -> Any:
        """Match all events; return the matches of each (int64[n])."""


class Timing(NamedTuple):
    """Passes of one run.

    Attributes
    ----------
    us_per_event : tuple of float
        One per pass.
    events : int
        Events per pass.
    matches : int
        Matches per pass.
    """

    us_per_event: tuple[float, ...]
    events: int
    matches: int

    @property
    def best(self) -> float:
        """The fastest pass: what the machine can do when it is left alone."""
        return min(self.us_per_event)

    @property
    def median(self) -> float:
        """The middle pass."""
        return statistics.median(self.us_per_event)

    @property
    def spread(self) -> str:
        """Slowest and fastest pass."""
        return f"{min(self.us_per_event):.3g} to {max(self.us_per_event):.3g}"


class WrongAnswer(AssertionError):
    """A timed pass gave another number of matches than expected."""


def interleaved(runs: Mapping[str, Run], expected: Mapping[str, I8], passes: int) -> dict[str, Timing]:
    """Time runs in turn; the matches of every pass are compared with `expected` inside it.

    Parameters
    ----------
    runs : mapping of str to Run
    expected : mapping of str to int64[n]
        Matches of each event, for each run (a rival may take fewer events).
    passes : int
        Turns; one more is made before them and not counted.

    Raises
    ------
    WrongAnswer
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(passes + 1):
        for name, run in runs.items():
            gc.collect()
            begin = time.perf_counter_ns()
            counts = run.run()
            right = np.array_equal(counts, expected[name])
            elapsed_ns = time.perf_counter_ns() - begin
            if not right:
                raise WrongAnswer(_difference(name, counts, expected[name]))
            if turn:
                times[name].append(elapsed_ns / 1_000 / len(expected[name]))
    return {
        name: Timing(tuple(found), len(expected[name]), int(expected[name].sum()))
        for name, found in times.items()
    }


def ratio(base: Timing, other: Timing) -> tuple[float, float, float]:
    """Return how many times slower `other` is: median over the turns, least and most."""
    turns = [b / a for a, b in zip(base.us_per_event, other.us_per_event, strict=True)]
    return statistics.median(turns), min(turns), max(turns)


def _difference(name: str, counts: I8, expected: I8) -> str:
    if len(counts) != len(expected):
        return f"{name}: {len(counts)} events answered of {len(expected)}"
    first = int(np.flatnonzero(np.asarray(counts) != expected)[0])
    return f"{name}: event {first} has {counts[first]} matches, not {expected[first]}"
