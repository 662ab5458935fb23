"""What the person sees while the demonstration runs: numbered steps, a few lines each, times at the end."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pubsub_cluster.cli.render import counted, shorten, table, terminal_width

NAME_WIDTH = 9
INDENT = 3 + NAME_WIDTH
LINE_WIDTH_MAX = 108


class Screen:
    """Writes the steps.

    Parameters
    ----------
    write : callable
        Takes one line: to standard output, or to standard error when the output is JSON.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._step_number = 0
        self._begin_s = time.perf_counter()

    def title(self, text: str) -> None:
        """Write the title."""
        self._write(f"\n{text}\n")

    def step(self, name: str, why: str) -> None:
        """Begin a step: its name, and what happens and why."""
        self._step_number += 1
        self._begin_s = time.perf_counter()
        first, *rest = textwrap.wrap(why, min(LINE_WIDTH_MAX, terminal_width() - INDENT)) or [""]
        self._write(f"{self._step_number:<3}{name:<{NAME_WIDTH}}{first}")
        for line in rest:
            self._write(" " * INDENT + line)

    def say(self, text: str) -> None:
        """Write a line within the step."""
        self._write(f"   {'':<{NAME_WIDTH}}{shorten(text, min(LINE_WIDTH_MAX, terminal_width() - INDENT))}")

    def took(self) -> None:
        """End the step with the time that it took."""
        self._write(f"   {'':<{NAME_WIDTH}}{time.perf_counter() - self._begin_s:.1f} s\n")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write a table within the step."""
        self._write(table(headers, rows, " " * INDENT, terminal_width()))

    @staticmethod
    def processes(pids: Any) -> str:
        """Return process ids as words; takes a mapping of names to one id or several, or a list."""
        if not isinstance(pids, dict):
            return ", ".join(str(pid) for pid in pids)
        parts = []
        for name, pid in pids.items():
            several = isinstance(pid, list | tuple)
            parts.append(f"{name} {' '.join(str(one) for one in pid) if several else pid}")
        return ", ".join(parts)

    def verdict(self, outcome: dict[str, Any], output_dir: Path) -> None:
        """Write the last lines."""
        right = outcome["mismatches"] == 0
        self._write("Every checked list was right." if right else "NOT RIGHT: some lists differ, see above.")
        count = outcome["worker_restarts"]
        restarts = f", {counted(count, 'worker')} replaced" if count else ""
        work = f"{outcome['events']:,} flights x {outcome['subscriptions']:,} alerts"
        speed = f"{outcome['events_per_second']:,} flights/s{restarts}"
        self._write(
            f"{work} -> {outcome['matches']:,} matches at {speed}; {outcome['seconds']:.0f} s in all."
        )
        self._write(f"Look at {output_dir / 'flights.png'}; run it again with --help to see its options.")
