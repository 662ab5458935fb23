"""What a job could not use, by file and reason: counted in every task, put together at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pubsub_cluster.language.errors import PubSubError

REASONS_MAX = 1_000
"""Reasons with values of their own, of one task; further ones are told together."""


class Rejects:
    """Counts rows by file and reason; the first of each is named."""

    def __init__(self) -> None:
        self._rows: Counter[tuple[str | None, str]] = Counter()
        self._first: dict[tuple[str | None, str], tuple[str | None, str | None]] = {}

    def add(self, file: str | None, reason: str, rows: int = 1, first: Any = None, seen: Any = None) -> None:
        """Count rows of a file (None: of a DataFrame)."""
        key = file, reason if len(self._rows) < REASONS_MAX else "many different reasons"
        self._rows[key] += rows
        shown = (None if first is None else str(first), None if seen is None else str(seen)[:200])
        self._first.setdefault(key, shown)

    def add_events(self, file: str | None, refused: Mapping[int, PubSubError], names: Any) -> None:
        """Count events that break the schema; `names` has their ids."""
        for at, error in refused.items():
            self.add(file, error.condition, 1, names[at], error.seen)

    def add_lines(self, lines: Iterable[str]) -> None:
        """Count what other tasks have told."""
        for line in lines:
            told = json.loads(line)
            self.add(told["file"], told["reason"], told["rows"], told["first"], told["seen"])

    def lines(self) -> list[str]:
        """Return what is told, as JSON: ``file, rows, first, reason, seen``."""
        return [json.dumps(told) for told in self.told()]

    def told(self) -> list[dict[str, Any]]:
        """Return what is told, by file and reason."""
        return [
            {"file": file, "rows": rows, "first": first, "reason": reason, "seen": seen}
            for ((file, reason), rows), (first, seen) in zip(
                self._rows.items(), self._first.values(), strict=True
            )
        ]
